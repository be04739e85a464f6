"""Conversion of surfaces into GPU arrays: the arguments of the kernel, and several frames per launch."""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Sequence as Seq
from functools import cache, partial
from typing import Any, Final

import numpy as np

from ...array import Array
from ...core.kernel import KernelDevice
from ...core.native import buffer_of
from ...errors import ParameterError
from ..convert.converter import ConverterCache, StreamConverter
from ..convert.output import OutputSpec
from ..convert.surface import Surface
from ..nvdec.hardware import MOST_FRAMES_PER_LAUNCH, ConversionParams, PaintParams, StreamShape, plane_layout
from ..probe.info import StreamInfo
from .conversion import ARGUMENT_BYTES, COUNT_AT, FRAMES, KERNEL, THREADS, Conversion, SurfaceKind, is_aligned
from .device_surface import DeviceSurface, SurfaceShape, Uploader, frames_per_launch
from .devices import launch_functions
from .streams import Streams

__all__ = ["Converters", "DeviceConverter", "DevicePainter", "DevicePainting", "converters_of"]

_CACHED_CONVERTERS: Final = 1024  # a few KB each


class DeviceConverter(StreamConverter):
    """Converts the surfaces of one stream to output frames, as the CPU's ``Converter`` does; thread-safe.

    Values are rounded once, at the end; except for unscaled uint8 frames of 8-bit surfaces, which equal those of the
    CPU, whose interpolated chroma is rounded first. A frame that differs in size or format from the others is scaled to
    the same output size, by a separate launch. The converter holds no device memory.

    Args:
        info: the stream; its tags determine the color, its size the geometry.
        output: the output specification.
        device: the GPU's number, or another device that runs kernels.

    Raises:
        ParameterError: the crop exceeds the frame; the message names its size.
        BackendError: CuPy is missing or does not fit the driver, or there is no such GPU.
    """

    def __init__(self, info: StreamInfo, output: OutputSpec, device: int | KernelDevice) -> None:
        super().__init__(info, output)
        if output.color == "RGBA":
            raise ParameterError(
                "color='RGBA' is not converted on a GPU",
                source=info.source,
                allowed="color='RGB', 'BGR', 'GRAY' or 'YCbCr'",
                advice="Ask for device='cpu', and move the frames",
            )
        self._device = KernelDevice(device) if isinstance(device, int) else device
        self._conversions: dict[SurfaceKind, Conversion] = {}
        self._handles: dict[SurfaceKind, int] = {}

    def __call__(self, surfaces: Seq[DeviceSurface], outs: Seq[int | Array], stream: Any = None) -> None:
        """Queue the conversion of surfaces, whose memory must stay valid until the CUDA stream has completed it."""
        if len(surfaces) != len(outs):
            raise ParameterError(
                f"{len(surfaces)} surfaces, but {len(outs)} outs", allowed="one out for each surface"
            )
        addresses = [self._address(out) for out in outs]
        for kind, indices in _by_kind(surfaces).items():
            conversion = self._conversion(kind)
            for begin in range(0, len(indices), FRAMES):
                group = indices[begin : begin + FRAMES]
                job = conversion.argument([surfaces[i] for i in group], [addresses[i] for i in group])
                grid = conversion.grid(len(group))
                self._device.launch(KERNEL, "convert", conversion.defines, grid, THREADS, job, stream)

    def prepared(self, kind: SurfaceKind) -> tuple[Conversion, int]:
        """Return the conversion of surfaces of a kind, and the driver's handle of its kernel."""
        conversion = self._conversion(kind)
        if kind not in self._handles:
            self._handles[kind] = self._device.handle(KERNEL, "convert", conversion.defines)
        return conversion, self._handles[kind]

    def _conversion(self, kind: SurfaceKind) -> Conversion:
        if kind not in self._conversions:
            self._conversions[kind] = Conversion.of(self._info, self._output, kind)
        return self._conversions[kind]

    def _address(self, out: int | Array) -> int:
        """Return the address of an output, whose shape is checked unless it is an address already."""
        if isinstance(out, int):
            address = out
        else:
            facts = getattr(out, "__cuda_array_interface__", None) or out.__array_interface__
            self._check_out(out, contiguous=facts.get("strides") is None)
            address = int(facts["data"][0])
        if address % self._dtype.itemsize:
            raise ParameterError(
                f"out begins at {address:#x}", allowed=f"multiples of {self._dtype.itemsize} bytes"
            )
        return address


def _by_kind(surfaces: Seq[DeviceSurface]) -> dict[SurfaceKind, list[int]]:
    """Return the indices of the surfaces of each kind, which is computed once for surfaces that share their shape."""
    by_shape: dict[tuple[int, bool], list[int]] = {}
    for index, surface in enumerate(surfaces):
        by_shape.setdefault((id(surface.shape), is_aligned(surface)), []).append(index)
    by_kind: dict[SurfaceKind, list[int]] = {}
    for indices in by_shape.values():
        by_kind.setdefault(SurfaceKind.of(surfaces[indices[0]]), []).extend(indices)
    return by_kind


class Converters(ConverterCache[DeviceConverter]):
    """Cache of the converters of one GPU, shared by all painters.

    Args:
        device: the GPU's number.
    """

    def __init__(self, device: int) -> None:
        super().__init__(partial(DeviceConverter, device=device), _CACHED_CONVERTERS)
        self._lock = threading.Lock()

    def get(self, info: StreamInfo, output: OutputSpec) -> DeviceConverter:
        """Return the converter for a stream and an output; thread-safe."""
        with self._lock:
            return super().get(info, output)


@cache
def converters_of(device: int) -> Converters:
    """Return the converters of a GPU."""
    return Converters(device)


_UNKNOWN = -1


class DevicePainting:
    """Conversions of the frames of one fused run, see :class:`seqpipe.video.nvdec.hardware.Painting`.

    Args:
        converters: converters of the frames.
        stream: the thread's CuPy stream.
        events: two CuPy events of the thread.
        frames_per_launch: number of frames that one launch converts.
    """

    def __init__(
        self, converters: Seq[DeviceConverter], stream: Any, events: Seq[Any], frames_per_launch: int
    ) -> None:
        self._converters = converters
        self._conversions = (ConversionParams * len(converters))()
        self._arguments = bytearray()
        self._layout: tuple[StreamShape, int] | None = None
        self.params = PaintParams(
            *launch_functions(),
            stream.ptr,
            tuple(event.ptr for event in events),
            min(frames_per_launch, MOST_FRAMES_PER_LAUNCH),
            THREADS,
            COUNT_AT,
            _UNKNOWN,
            count=len(converters),
            conversions=ctypes.addressof(self._conversions),
        )

    def fit(self, shape: StreamShape, pitch: int, sequence: int) -> None:
        """Configure the conversions for a stream."""
        params = self.params
        params.sequence = _UNKNOWN
        if params.begun or not pitch:
            return
        if self._layout != (shape, pitch):
            self._prepare(*plane_layout(shape, pitch))
            self._layout = shape, pitch
        params.sequence, params.pitch = sequence, pitch

    def _prepare(self, form: SurfaceShape, offsets: tuple[int, ...]) -> None:
        """Compile the kernels for surfaces of a shape, and fill in their arguments."""
        kind, params = SurfaceKind.of(form.surface(0, offsets)), self.params
        params.planes = len(offsets)
        params.offsets[: len(offsets)] = offsets
        prepared = [converter.prepared(kind) for converter in self._converters]
        self._arguments = bytearray().join(conversion.blank() for conversion, _ in prepared)
        address = ctypes.addressof(buffer_of(self._arguments))
        for target, (conversion, kernel) in zip(self._conversions, prepared, strict=True):
            target.kernel, target.argument = kernel, address
            address += ARGUMENT_BYTES
            grids = [conversion.grid(count) for count in range(1, params.frames_per_launch + 1)]
            target.columns, target.rows, _ = grids[0]
            target.depths[1 : len(grids) + 1] = [depth for _, _, depth in grids]

    @property
    def fits(self) -> bool:
        """Whether the conversions were configured for the last stream."""
        sequence: int = self.params.sequence
        return sequence != _UNKNOWN


class DevicePainter:
    """Converts surfaces of any decoder into GPU arrays, see :class:`~seqpipe.video.convert.converter.Painter`.

    Surfaces are gathered while others are converted, and released once they are converted.

    Args:
        streams: CUDA streams of the GPU.
    """

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._stream = streams.current()
        self._upload = Uploader(streams.device)
        self._converters = converters_of(streams.device)
        self._frames_per_launch = 1
        self._events: tuple[Any, Any] | None = None
        self._gathered: list[tuple[DeviceSurface, Seq[tuple[DeviceConverter, int]]]] = []
        self._launched: deque[tuple[Any, Any]] = deque()

    def converter(self, info: StreamInfo, output: OutputSpec) -> DeviceConverter:
        """Return the converter for a stream and an output, which is cached across jobs."""
        # The nominal size also holds for frames of another size: the decoder was created for as many mapped frames.
        self._frames_per_launch = frames_per_launch(info.width, info.height)
        return self._converters.get(info, output)

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Allocate an array on the GPU."""
        pixels = self._streams.allocate(shape, dtype)
        self._streams.admit()
        return pixels

    def admit(self, pixels: Array) -> None:  # noqa: ARG002  the wait covers all work of the default stream
        """Make this thread's stream wait for earlier work on the array."""
        self._streams.admit()

    def frame_targets(self, pixels: Array) -> Seq[int]:
        """Return the address of each frame."""
        first, step = int(pixels.data.ptr), int(pixels.strides[0]) if len(pixels) else 0
        return [first + position * step for position in range(len(pixels))]

    def fill(self, pixels: Array, where: Any, value: float) -> None:
        """Fill one frame, or another part of the array given by an index, with a value."""
        with self._stream:
            pixels[where].fill(value)

    def painting(self, converters: Seq[DeviceConverter], info: StreamInfo) -> DevicePainting:
        """Return the conversions of a fused run into arrays that were allocated here."""
        if self._events is None:
            self._events = self._streams.lasting_event(), self._streams.lasting_event()
        return DevicePainting(
            converters, self._stream, self._events, frames_per_launch(info.width, info.height)
        )

    def put(self, surface: Surface | DeviceSurface, targets: Seq[tuple[DeviceConverter, int]]) -> None:
        """Gather a surface, and convert those gathered once a launch is full."""
        if isinstance(surface, Surface):
            surface = self._upload(surface, self._stream)
        self._gathered.append((surface, targets))
        if len(self._gathered) >= self._frames_per_launch:
            self._launch()

    def finish(self) -> None:
        """Convert the gathered surfaces, and wait for all conversions."""
        try:
            if self._gathered:
                self._launch()
        finally:
            self._stream.synchronize()
            self._gathered.clear()
            self._launched.clear()

    def _launch(self) -> None:
        """Queue the conversions of the gathered surfaces, by converter."""
        gathered, self._gathered = self._gathered, []
        by_converter: dict[int, tuple[DeviceConverter, list[DeviceSurface], list[int]]] = {}
        for surface, targets in gathered:
            for converter, address in targets:
                group = by_converter.setdefault(id(converter), (converter, [], []))
                group[1].append(surface)
                group[2].append(address)
        for converter, surfaces, addresses in by_converter.values():
            converter(surfaces, addresses, self._stream)
        self._launched.append((self._streams.event(), gathered))
        while len(self._launched) > 1:
            # The surfaces must outlive the wait: their memory is reused once they are dropped.
            event, _surfaces = self._launched.popleft()
            event.synchronize()
