"""CPU conversion of surfaces to pixels, and painters, which write converted frames into the requested sequences.

A surface is cropped, its planes are scaled or upsampled to one grid as code values, and the color matrix is applied
last, at the final size.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import replace
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray
from ...core.limits import main_memory_bytes
from ...errors import DeviceMemoryError, ParameterError, SourceError
from ..probe.info import StreamInfo
from .chroma import ChromaAxis, ChromaGrid
from .color import UNSPECIFIED, ColorSpec, chroma_offset, output_matrix, resolve
from .geometry import Placement
from .mix import ColorKernel, Mixer, is_compiled
from .orient import (
    PlaneTransform,
    RoundedWindow,
    ScaledPlanes,
    UnscaledPlanes,
    WindowedPlanes,
    crop_to_reach,
    oriented,
)
from .output import OutputSpec
from .surface import AnySurface, ConversionScratch, Plane, Surface, surface_format
from .tone import ToneMap, tone_code

__all__ = [
    "AlphaConverter",
    "Converter",
    "ConverterCache",
    "HostPainter",
    "OutputSpec",
    "Painter",
    "Recipe",
    "StreamConverter",
    "Targets",
    "converter_key",
    "host_array",
    "make_converter",
]

# A band of an unscaled frame whose intermediate results fit into the processor's caches.
_BAND_PIXELS: Final = 1 << 18


class Recipe:
    """Prepared conversion of surfaces of one format and size; belongs to one thread, as it works in scratch memory.

    Args:
        info: the stream.
        color: the stream's resolved color tags.
        output: the output specification.
        placement: geometry for a surface of the stream's nominal size.
        surface: an example of the surfaces to convert.
        scratch: memory for intermediate results, which recipes of one thread may share.

    Raises:
        SourceError: the stream's color cannot be converted to the requested one.
    """

    def __init__(
        self,
        info: StreamInfo,
        color: ColorSpec,
        output: OutputSpec,
        placement: Placement,
        surface: Surface,
        scratch: ConversionScratch,
    ) -> None:
        form = surface.format
        self._format, self._shape = form, surface.planes[0].shape
        placement = placement.on((info.width, info.height), (surface.width, surface.height))
        self._bands: list[tuple[tuple[slice, ...], Callable[[Seq[Plane], Plane], object]]] = []
        if output.rounded is not None and placement.window is not None:
            self._bands.append(_rounded_window(info, color, output, placement, surface, scratch))
            return
        coded = output.color == "YCbCr"
        # Rounding scaled planes to 8 bits would change colors by more than one 8-bit value.
        scaled = placement.is_scaled
        wide = form.bits > 8 or ((output.dtype != "uint8" or scaled) and not coded)
        headroom = 16 - form.bits if wide and not coded else 0
        try:
            matrix = output_matrix(color, output.color, form, 16 if wide else 8)
        except SourceError as error:
            error.source = info.source
            raise
        matrix[:, :-1] /= 2**headroom
        needed = matrix.shape[1] - 1
        dtype: np.dtype[Any] = np.dtype(np.uint16 if wide else np.uint8)
        unit = 2 ** (form.bits - 8) if coded else 257

        compiled = is_compiled(matrix)
        if compiled and not (placement.is_scaled or placement.flipped or placement.quarter_turns):
            grids = _grids(color, placement, surface)
            kernel = ColorKernel(matrix, dtype, output, grids, headroom, scratch)
            self._bands.append(((slice(None),), kernel))
            return
        for rows, band_placement in _bands(placement):
            grids = _grids(color, band_placement, surface)[:needed]
            planes: PlaneTransform
            if band_placement.window is not None:
                planes = WindowedPlanes(grids, band_placement.stretches, dtype, headroom)
            elif band_placement.is_scaled:
                planes = ScaledPlanes(grids, band_placement, dtype, headroom, scratch)
            else:
                planes = UnscaledPlanes(grids, dtype, headroom, scratch)
            planes = oriented(planes, band_placement, needed, dtype, scratch)
            mix = _mixer(matrix, dtype, output, planes, unit, scratch, compiled=compiled)
            band = (slice(None), rows) if output.layout == "FCHW" else (rows,)
            self._bands.append((band, partial(_run, planes, mix)))

    def fits(self, surface: Surface) -> bool:
        """Return whether this recipe was prepared for surfaces like this one."""
        return self._format == surface.format and self._shape == surface.planes[0].shape

    def __call__(self, surface: Surface, out: Plane) -> None:
        """Convert a surface that fits into a contiguous array of the output's shape and dtype."""
        self.convert(surface.planes, out)

    def convert(self, planes: Seq[Plane], out: Plane) -> None:
        """Convert the planes of a surface, as a call does."""
        for band, convert in self._bands:
            convert(planes, out[band])


def _run(
    transform: PlaneTransform, mix: Callable[[Seq[Plane], Plane], object], planes: Seq[Plane], out: Plane
) -> None:
    mix(transform(planes), out)


def _mixer(
    matrix: FloatArray,
    dtype: np.dtype[Any],
    output: OutputSpec,
    planes: PlaneTransform,
    unit: int,
    scratch: ConversionScratch,
    *,
    compiled: bool,
) -> Callable[[Seq[Plane], Plane], object]:
    """Return the conversion of transformed planes to pixels."""
    if not compiled:
        return Mixer(matrix, dtype, output, planes.shape, planes.cut, unit, scratch)
    row, column = (
        ChromaAxis(0, 0.0, cut.start, cut.stop - cut.start, samples)
        for cut, samples in zip(planes.cut, planes.shape, strict=True)
    )
    return ColorKernel(matrix, dtype, output, (ChromaGrid(column, row),) * 3, 0, scratch)


def _rounded_window(
    info: StreamInfo,
    color: ColorSpec,
    output: OutputSpec,
    placement: Placement,
    surface: Surface,
    scratch: ConversionScratch,
) -> tuple[tuple[slice, ...], Callable[[Seq[Plane], Plane], object]]:
    """Prepare a window of frames whose colors are rounded before they are scaled, as a single band."""
    placement = crop_to_reach(placement)
    width, height = placement.box[2:]
    rounded = OutputSpec(output.color, output.rounded or "uint8")
    whole = Placement(placement.box, (width, height), flipped=False, quarter_turns=0)
    stream = replace(info, width=surface.width, height=surface.height)
    full_size = Recipe(stream, color, rounded, whole, surface, scratch)
    coded, source = output.color == "YCbCr", np.dtype(rounded.dtype)
    dtype = source if coded else np.dtype(np.uint16)
    headroom = 8 * (dtype.itemsize - source.itemsize)
    matrix = np.eye(output.channels, output.channels + 1)
    if headroom:
        matrix *= 257 / 256  # 65535 / 255, for values that are shifted left by 8 bits
    shape = height, width, output.channels
    planes: PlaneTransform = RoundedWindow(full_size.convert, shape, source, placement, dtype, headroom)
    planes = oriented(planes, placement, output.channels, dtype, scratch)
    mixer = Mixer(matrix, dtype, output, planes.shape, planes.cut, 257, scratch)
    return (slice(None),), partial(_run, planes, mixer)


def _bands(placement: Placement) -> Iterator[tuple[slice, Placement]]:
    """Yield bands of output rows that can be converted one by one, with their placements."""
    x, y, width, height = placement.box
    rows = max(4, _BAND_PIXELS // width & ~3)
    if placement.is_scaled or placement.quarter_turns:
        yield slice(0, placement.shape[0]), placement
        return
    for top in range(0, height, rows):
        count = min(rows, height - top)
        band = Placement((x, y + top, width, count), (width, count), placement.flipped, 0)
        yield slice(top, top + count), band


def _grids(color: ColorSpec, placement: Placement, surface: Surface) -> tuple[ChromaGrid, ...]:
    """Return the chroma grid of each plane of a surface."""
    x, y, width, height = placement.box
    form = surface.format
    offset_x, offset_y = chroma_offset(color, form)
    grids = []
    for number, plane in enumerate(surface.planes):
        if number == 0 or form.chroma == "rgb":
            column, row = (
                ChromaAxis(0, 0.0, x, width, plane.shape[1]),
                ChromaAxis(0, 0.0, y, height, plane.shape[0]),
            )
        else:
            column = ChromaAxis(form.shift_x, offset_x, x, width, plane.shape[1])
            row = ChromaAxis(form.shift_y, offset_y, y, height, plane.shape[0])
        grids.append(ChromaGrid(column, row))
    return tuple(grids)


class StreamConverter:
    """What converters of one stream to one output share, on every device.

    Args:
        info: the stream; its tags determine the color, its size the geometry.
        output: the output specification.

    Raises:
        ParameterError: the crop exceeds the frame; the message names its size.
    """

    def __init__(self, info: StreamInfo, output: OutputSpec) -> None:
        self._info, self._output = info, output
        self._shape = output.frame_shape(info)
        self._dtype = np.dtype(output.dtype)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of an output frame: (height, width, channels), or (channels, height, width) if the layout is FCHW."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a pixel value."""
        return self._dtype

    def _check_out(self, out: Array, *, contiguous: bool) -> None:
        """Check shape, dtype and contiguity of the output memory."""
        if out.shape != self._shape or out.dtype != self._dtype or not contiguous:
            raise ParameterError(
                f"out has shape {out.shape} and dtype {out.dtype}",
                allowed=f"contiguous memory of shape {self._shape} and dtype {self._dtype}",
            )


class Converter(StreamConverter):
    """Converts the surfaces of one stream to output frames; belongs to one thread, as it works in its scratch memory.

    A frame that differs in size from the stream's headers is scaled to the same output size.

    Args:
        info: the stream; its tags determine the color, its size the geometry.
        output: the output specification.
        scratch: memory for intermediate results, which converters of one thread may share; its own by default.

    Raises:
        ParameterError: the crop exceeds the frame; the message names its size.
    """

    def __init__(
        self, info: StreamInfo, output: OutputSpec, scratch: ConversionScratch | None = None
    ) -> None:
        super().__init__(info, output)
        self._scratch = scratch or ConversionScratch()
        self._color = resolve(info)
        self._placement = output.placement(info)
        self._recipe: Recipe | None = None
        code = 0 if output.transfer == "coded" else tone_code(info.transfer, output.transfer)
        self._tone = ToneMap(code, output) if code else None
        if self._tone is not None:
            self._output = replace(
                output, color="RGB", dtype="uint16", layout="FHWC", mean=None, std=None, transfer="coded"
            )

    def __call__(self, surface: Surface, out: npt.NDArray[Any]) -> None:
        """Convert one surface."""
        self._check_out(out, contiguous=out.flags.c_contiguous)
        recipe = self._recipe
        if recipe is None or not recipe.fits(surface):
            recipe = self._recipe = Recipe(
                self._info, self._color, self._output, self._placement, surface, self._scratch
            )
        if self._tone is None:
            recipe(surface, out)
            return
        rows, columns = self._placement.shape
        coded = self._scratch.array("coded", (rows, columns, 3), np.dtype(np.uint16))
        recipe(surface, coded)
        self._tone(coded, out)


class AlphaConverter(StreamConverter):
    """Converts surfaces to RGBA: colors and alpha by a converter each; see :class:`Converter` for the arguments.

    Frames without alpha are opaque.
    """

    def __init__(
        self, info: StreamInfo, output: OutputSpec, scratch: ConversionScratch | None = None
    ) -> None:
        super().__init__(info, output)
        self._scratch = scratch or ConversionScratch()
        mean, std = (cast("tuple[float, ...] | None", values) for values in (output.mean, output.std))
        colors = replace(output, color="RGB", mean=mean and mean[:3], std=std and std[:3])
        self._colors = Converter(info, colors, self._scratch)
        gray = replace(info, pixel_format="gray", chroma="gray", full_range=True, matrix=UNSPECIFIED)
        alpha = replace(output, color="GRAY", transfer="coded", mean=mean and mean[3:], std=std and std[3:])
        self._alpha = Converter(gray, alpha, self._scratch)

    def __call__(self, surface: Surface, out: npt.NDArray[Any]) -> None:
        """Convert one surface."""
        self._check_out(out, contiguous=out.flags.c_contiguous)
        alpha = surface.alpha() or _opaque(surface)
        if self._output.layout == "FCHW":
            self._colors(surface, out[:3])
            self._alpha(alpha, out[3:])
            return
        for name, converter, samples, channels in (
            ("colors", self._colors, surface, slice(3)),
            ("alpha", self._alpha, alpha, slice(3, 4)),
        ):
            converted = self._scratch.array(name, converter.shape, self._dtype)
            converter(samples, converted)
            out[..., channels] = converted


def make_converter(
    info: StreamInfo, output: OutputSpec, scratch: ConversionScratch | None = None
) -> Converter | AlphaConverter:
    """Return the converter of a stream for the CPU; see :class:`Converter`."""
    return (AlphaConverter if output.color == "RGBA" else Converter)(info, output, scratch)


def _opaque(surface: Surface) -> Surface:
    """Return the alpha of a surface that has none."""
    plane = np.broadcast_to(np.uint8(255), (surface.height, surface.width))
    return Surface(surface.number, (np.ascontiguousarray(plane),), surface_format("gray"))


Targets: TypeAlias = "dict[int, list[tuple[Any, Any]]]"
"""(converter, target) pairs by frame number; a target is a frame of an array, or its address."""

_CACHED_CONVERTERS = 64
# Smaller arrays are allocated without comparing their size with the system's memory.
_CHECKED_FROM_BYTES: Final = 1 << 28

ConverterT = TypeVar("ConverterT", bound=StreamConverter)


def converter_key(info: StreamInfo, output: OutputSpec) -> Hashable:
    """Return the properties that determine a conversion: streams with equal keys share a converter."""
    transfer = None if output.transfer == "coded" else info.transfer
    return resolve(info), output.placement(info), info.pixel_format, info.width, info.height, output, transfer


class ConverterCache(Generic[ConverterT]):
    """LRU cache of converters, without a lock, which a fork could leave held.

    Args:
        make: creates a converter for a stream and an output.
        most: number of converters to keep.
    """

    def __init__(self, make: Callable[[StreamInfo, OutputSpec], ConverterT], most: int) -> None:
        self._make, self._most = make, most
        self._converters: OrderedDict[Hashable, ConverterT] = OrderedDict()
        self._last: tuple[StreamInfo, OutputSpec, ConverterT] | None = None

    def get(self, info: StreamInfo, output: OutputSpec) -> ConverterT:
        """Return the converter for a stream and an output."""
        last = self._last
        if last is not None and last[0] is info and last[1] is output:
            return last[2]
        key = converter_key(info, output)
        if key not in self._converters:
            self._converters[key] = self._make(info, output)
            while len(self._converters) > self._most:
                self._converters.popitem(last=False)
        self._converters.move_to_end(key)
        self._last = info, output, self._converters[key]
        return self._last[2]


class Painter(Protocol):
    """Converts surfaces into arrays on one device; belongs to one thread, as it holds buffers."""

    def converter(self, info: StreamInfo, output: OutputSpec) -> Any:
        """Return the converter for a stream and an output, which is cached across jobs."""

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Allocate an array for frames."""

    def admit(self, pixels: Array) -> None:
        """Prepare for writing to an array that was allocated elsewhere."""

    def frame_targets(self, pixels: Array) -> Seq[Any]:
        """Return the target of each frame of an array, for :meth:`put`."""

    def fill(self, pixels: Array, where: Any, value: float) -> None:
        """Fill one frame, or another part of the array given by an index, with a value."""

    def put(self, surface: AnySurface, targets: Seq[tuple[Any, Any]]) -> None:
        """Convert a surface to each (converter, target), at the latest in :meth:`finish`."""

    def finish(self) -> None:
        """Wait until all frames are converted."""


def host_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Allocate an uninitialized array in main memory."""
    size = math.prod(shape) * dtype.itemsize
    if size < _CHECKED_FROM_BYTES or size <= main_memory_bytes():
        try:
            return np.empty(shape, dtype)
        except MemoryError:  # the process has a limit of its own (ulimit)
            pass
    raise DeviceMemoryError(
        f"an array {shape} {dtype} of {size / 2**30:.3g} GiB does not fit into main memory",
        allowed=f"{main_memory_bytes() / 2**30:.3g} GiB in total",
        advice="Ask for less at once: smaller batches, shorter sequences or smaller frames",
    )


class HostPainter:
    """Converts surfaces into arrays in main memory."""

    def __init__(self) -> None:
        scratch = self._scratch = ConversionScratch()  # shared: each request may have its own converter
        self._converters = ConverterCache(
            lambda info, output: make_converter(info, output, scratch), _CACHED_CONVERTERS
        )

    def converter(self, info: StreamInfo, output: OutputSpec) -> Converter | AlphaConverter:
        """Return the converter for a stream and an output, which is cached across jobs."""
        return self._converters.get(info, output)

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Allocate an uninitialized array."""
        return host_array(shape, dtype)

    def admit(self, pixels: Array) -> None:
        """Do nothing: main memory needs no preparation."""

    def frame_targets(self, pixels: Array) -> Seq[Array]:
        """Return a view of each frame."""
        return list(pixels)

    def fill(self, pixels: Array, where: Any, value: float) -> None:
        """Fill one frame, or another part of the array given by an index, with a value."""
        pixels[where] = value

    def put(self, surface: AnySurface, targets: Seq[tuple[Converter | AlphaConverter, Array]]) -> None:
        """Convert once for each converter, and copy the result to its further targets."""
        done: dict[int, Array] = {}
        for converter, target in targets:
            if (earlier := done.get(id(converter))) is not None:
                target[...] = earlier
            else:
                converter(surface, target)
                done[id(converter)] = target

    def finish(self) -> None:
        """Do nothing: :meth:`put` converts at once."""
