"""Arguments and macros of the conversion kernel that all surfaces of one kind share, computed on the host."""

from __future__ import annotations

import struct
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...array import FloatArray
from ...core.kernel import CudaSource
from ...errors import SourceError
from ..convert.chroma import ChromaAxis
from ..convert.color import ColorSpec, chroma_offset, output_matrix, resolve
from ..convert.geometry import Placement, Stretch
from ..convert.output import Color, DType, OutputSpec
from ..convert.surface import SurfaceFormat
from ..convert.tone import tone_code
from ..probe.info import StreamInfo
from .device_surface import DeviceSurface

__all__ = [
    "ARGUMENT_BYTES",
    "COUNT_AT",
    "FRAMES",
    "KERNEL",
    "THREADS",
    "Conversion",
    "FilterAxis",
    "SurfaceKind",
    "filter_axis",
    "is_aligned",
]

_EXACT: Final = 1 << 24  # float32 represents all integers below this


class FilterAxis(NamedTuple):
    """Resampling parameters of one axis in the kernel's form; positions are integers in fractions of a sample.

    Attributes:
        shown: number of visible samples: of the luma grid, or of the plane itself.
        size: number of pixels that the scaled samples become.
        samples: number of samples of the plane.
        begin: position of the first visible sample in the plane.
        step_bits: log2 of the distance between visible samples.
        unit_bits: log2 of the distance between samples of the plane.
        taps: maximum number of samples that contribute to a pixel.
        first: first pixel that is computed.
        left: first visible sample that is scaled.
        length: number of visible samples that are scaled.
    """

    shown: int
    size: int
    samples: int
    begin: int
    step_bits: int
    unit_bits: int
    taps: int
    first: int
    left: int
    length: int

    @property
    def wide(self) -> bool:
        """Whether integer sums of weights may exceed the exact range of float32."""
        reach = 2 * max(self.length, self.size)
        return (reach << self.unit_bits) * -(-reach // self.size) >= _EXACT


def filter_axis(axis: ChromaAxis, stretch: Stretch, *, skip_luma_grid: bool = False) -> FilterAxis:
    """Return the filter that scales the luma samples of an axis to a number of pixels.

    Args:
        axis: range of luma samples, and the position of the plane's samples among them; shift 0 for the luma plane.
        stretch: scaling of these luma samples to pixels.
        skip_luma_grid: scale chroma samples directly instead of interpolating them to the luma grid; the stretch must
            be a whole number of them, and all of it must be scaled.
    """
    # The first chroma sample may lie halfway between two luma samples.
    unit_bits = axis.shift + 1
    unit = 1 << unit_bits
    left, length, size = stretch.begin, stretch.length, stretch.size
    if skip_luma_grid:
        shown = length = axis.length >> axis.shift
        step_bits, begin = unit_bits, round(axis.extent[0] * unit)
    else:
        shown, step_bits = axis.length, 1
        begin = round((axis.start - axis.offset) * 2)
    most = min(-(-2 * max(length, size) // size), shown)  # visible samples that contribute to a pixel
    step = 1 << step_bits
    furthest = unit - step + begin % step + (most - 1) * step
    taps = min(-(-furthest // unit) + 1, axis.samples)
    return FilterAxis(
        shown, size, axis.samples, begin, step_bits, unit_bits, taps, stretch.first, left, length
    )


KERNEL: Final = CudaSource(__package__, "kernel.cu")
FRAMES: Final = 64
"""Maximum number of frames per launch: the kernel's argument is limited to 4 KB on all GPUs."""
THREADS: Final = 256
"""Threads per block."""
_BLOCKS: Final = 528  # resident blocks of an H200; on smaller GPUs some of them wait

_OUTPUTS: Final = {"uint8": 0, "uint16": 1, "float16": 2, "float32": 3}
_PEAKS: Final = {"uint8": 255.0, "uint16": 65535.0, "float16": 1.0, "float32": 1.0}
_LINEAR: Final = 3  # from this TRANSFER on, values may exceed 1
_UNBOUNDED: Final = 3e38
# Structures of kernel.cu; a structured NumPy array takes ten times as long to fill.
_FRAME: Final = struct.Struct("4Q 2i")
_AXES: Final = struct.Struct("40i")
_MIXTURE: Final = struct.Struct("19f")
_GEOMETRY: Final = struct.Struct("6i")
_COUNT: Final = struct.Struct("i")
_NO_FILTERS: Final = bytes(_AXES.size)
_JOB: Final = np.dtype(
    (np.void, FRAMES * _FRAME.size + _AXES.size + _MIXTURE.size + _GEOMETRY.size + _COUNT.size)
)
ARGUMENT_BYTES: Final = _JOB.itemsize
"""Size of the kernel's argument."""
COUNT_AT: Final = ARGUMENT_BYTES - _COUNT.size
"""Offset of the number of frames in the kernel's argument."""


@dataclass(frozen=True)
class SurfaceKind:
    """Properties that surfaces must share to be converted by one launch.

    Attributes:
        format: sample format.
        width: width in pixels.
        height: height in pixels.
        interleaved: whether Cb and Cr share a plane.
        shift: left shift of samples in bits.
        aligned: whether all rows start at multiples of four samples.
    """

    format: SurfaceFormat
    width: int
    height: int
    interleaved: bool
    shift: int
    aligned: bool

    @classmethod
    def of(cls, surface: DeviceSurface) -> SurfaceKind:
        """Return the kind of a surface."""
        shape = surface.shape
        return cls(
            shape.format, shape.width, shape.height, shape.interleaved, shape.shift, is_aligned(surface)
        )


def is_aligned(surface: DeviceSurface) -> bool:
    """Return whether the rows of all planes start at multiples of four samples."""
    shape = surface.shape
    combined = shape.pitch | shape.chroma_pitch
    for plane in surface.planes:
        combined |= plane
    return not combined % (4 * shape.sample_bytes)


@dataclass(frozen=True, eq=False)
class Conversion:
    """Conversion of surfaces of one kind.

    Attributes:
        defines: macros of the kernel.
        tiles: number of blocks along columns and rows of the output frame, before rotation.
        rest: the kernel's argument after the frames.
    """

    defines: dict[str, int]
    tiles: tuple[int, int]
    rest: bytes

    @classmethod
    def of(cls, info: StreamInfo, output: OutputSpec, kind: SurfaceKind) -> Conversion:
        """Return the conversion of surfaces of a stream."""
        color, code = resolve(info), tone_code(info.transfer, output.transfer)
        placement = output.placement(info).on((info.width, info.height), (kind.width, kind.height))
        levels = output.rounded if placement.window is not None else None
        unscaled = not placement.is_scaled
        # The CPU converts unscaled 8-bit surfaces to uint8 in 8 bits, which rounds each plane by itself.
        rounded = (
            not code and kind.format.bits <= 8 and (output.dtype if unscaled else output.rounded) == "uint8"
        )
        try:
            planes, zeros, mixture = _mixture(
                color,
                output.color,
                levels or output.dtype,
                output.mean,
                output.std,
                kind.format,
                kind.shift,
                _units(levels is not None, rounded=rounded),
                unbounded=code >= _LINEAR,
            )
        except SourceError as error:
            error.source = info.source
            raise
        axes = _axes(color, placement, kind)
        direct = unscaled and (planes == 1 or max(axis.shift for axis in axes) <= 1)
        filters = () if direct else _filters(axes, placement)
        defines = {
            "SAMPLE_BYTES": 1 if kind.format.bits <= 8 else 2,
            "INTERLEAVED": int(kind.interleaved),
            "PLANES": planes,
            "CHANNELS": output.channels,
            "OUTPUT": _OUTPUTS[output.dtype],
            "ROUNDED": int(rounded),
            "PLANAR": int(output.layout == "FCHW"),
            **_orientation(placement),
            "WIDE": int(any(axis.wide for axis in filters)),
            "ENDS": int(placement.window is not None),
            "TRANSFER": code + 8 * (code > 0 and output.color == "BGR"),
            "LEVELS": 0 if levels is None else int(_PEAKS[levels]),
            "ZEROS": 0 if levels is None else zeros,
            **_siting(axes[2:] if direct or levels else ()),
            **_tiling(axes, kind, placement, scaled=not direct),
            "JOB_BYTES": ARGUMENT_BYTES,
        }
        tile = defines["TILE_U"], defines["TILE_V"]
        columns, rows = (-(-length // side) for length, side in zip(placement.size, tile, strict=True))
        chroma = (axis.samples for axis in axes[2:])
        geometry = _GEOMETRY.pack(*placement.box[:2], *placement.size, *chroma)
        numbers = _AXES.pack(*chain.from_iterable(filters)) if filters else _NO_FILTERS
        return cls(defines, (columns, rows), numbers + mixture + geometry)

    def grid(self, frames: int) -> tuple[int, int, int]:
        """Return the grid of a launch; when scaling, a block may compute its tile of several frames."""
        columns, rows = self.tiles
        depth = max(1, _BLOCKS // (columns * rows)) if self.defines["SCALED"] else frames
        frames_per_block = -(-frames // depth)
        return columns, rows, -(-frames // frames_per_block)

    def argument(self, surfaces: Seq[DeviceSurface], outs: Seq[int]) -> npt.NDArray[Any]:
        """Return the argument of one launch."""
        job, at = self.blank(), 0
        for surface, out in zip(surfaces, outs, strict=True):
            planes, shape = surface.planes, surface.shape
            luma, second, third = (*planes, 0, 0)[:3]
            _FRAME.pack_into(job, at, luma, second, third, out, shape.pitch, shape.chroma_pitch)
            at += _FRAME.size
        _COUNT.pack_into(job, COUNT_AT, len(surfaces))
        return np.ndarray((), _JOB, job)

    def blank(self) -> bytearray:
        """Return the argument of a launch with its frames and their number still zero."""
        job = bytearray(ARGUMENT_BYTES)
        job[COUNT_AT - len(self.rest) : COUNT_AT] = self.rest
        return job


def _orientation(placement: Placement) -> dict[str, int]:
    """Return the macros of mirror and rotation: whether axes are transposed, and which are reversed."""
    turns = placement.quarter_turns
    return {
        "TRANSPOSED": turns % 2,
        "REVERSED_U": int(placement.flipped != (turns in (1, 2))),
        "REVERSED_V": int(turns in (2, 3)),
    }


def _siting(chroma: Seq[ChromaAxis]) -> dict[str, int]:
    """Return the macros of the chroma location; all 0 for planes that are scaled separately."""
    shifts = [axis.shift for axis in chroma] or [0, 0]
    offsets = [round(2 * axis.offset) for axis in chroma] or [0, 0]
    return dict(zip(("SHIFT_X", "SHIFT_Y", "OFFSET_X", "OFFSET_Y"), (*shifts, *offsets), strict=True))


def _tiling(
    axes: Seq[ChromaAxis], kind: SurfaceKind, placement: Placement, *, scaled: bool
) -> dict[str, int]:
    """Return the macros of the tile's size and of the alignment of its luma samples."""
    if scaled:
        return {"SCALED": 1, "ODD_X": 0, "ODD_Y": 0, "ALIGNED": int(kind.aligned), "TILE_U": 32, "TILE_V": 32}
    left, top = (axis.start for axis in axes[:2])
    transposed = placement.quarter_turns % 2
    return {
        "SCALED": 0,
        "ODD_X": left % 2,
        "ODD_Y": top % 2,
        "ALIGNED": int(kind.aligned and left % 4 == 0),
        "TILE_U": 64 if transposed else 128,
        "TILE_V": 32 if transposed else 16,
    }


def _axes(color: ColorSpec, placement: Placement, kind: SurfaceKind) -> tuple[ChromaAxis, ...]:
    """Return the axes of luma columns and rows, and of chroma columns and rows."""
    left, top, width, height = placement.box
    luma = ChromaAxis(0, 0.0, left, width, kind.width), ChromaAxis(0, 0.0, top, height, kind.height)
    form = kind.format
    if form.chroma in ("gray", "rgb"):
        return luma * 2
    offset_x, offset_y = chroma_offset(color, form)
    samples_x, samples_y = -(-kind.width >> form.shift_x), -(-kind.height >> form.shift_y)
    return (
        *luma,
        ChromaAxis(form.shift_x, offset_x, left, width, samples_x),
        ChromaAxis(form.shift_y, offset_y, top, height, samples_y),
    )


def _filters(axes: Seq[ChromaAxis], placement: Placement) -> tuple[FilterAxis, ...]:
    """Return the filters of luma columns and rows, and of chroma columns and rows."""
    stretches = placement.stretches
    sizes = [stretch.size for stretch in stretches]
    # Windows are scaled on the luma grid, as are the samples around them.
    directly = placement.is_scaled and placement.window is None
    skip = directly and all(map(ChromaAxis.skips_luma_grid, axes[2:], sizes))
    return tuple(
        filter_axis(axis, stretch, skip_luma_grid=skip and axis.shift > 0)
        for axis, stretch in zip(axes, stretches * 2, strict=True)
    )


def _units(levels: bool, *, rounded: bool) -> tuple[float, float, float]:
    """Return the units of luma, chroma and mixed values in the kernel, see levels.cuh.

    They are powers of two, so that products and sums have the same bits in any unit.
    """
    if not levels:
        return 1.0, 1.0, 1.0
    return 2.0**-149, 2.0**-149 if rounded else 2.0**-33, 2.0**-33


@lru_cache(maxsize=1024)
def _mixture(
    color: ColorSpec,
    wanted: Color,
    dtype: DType,
    mean: tuple[float, ...] | None,
    std: tuple[float, ...] | None,
    form: SurfaceFormat,
    shift: int,
    units: tuple[float, float, float],
    *,
    unbounded: bool,
) -> tuple[int, int, bytes]:
    """Return the number of planes, a mask of the matrix's zero weights, and the packed color conversion."""
    matrix = _matrix(color, wanted, dtype, form, shift)
    channels, planes = matrix.shape[0], matrix.shape[1] - 1
    rows = np.zeros((3, 4))
    luma, chroma, mixed = units
    rows[:channels, :planes] = matrix[:, :planes] * mixed / np.array((luma, chroma, chroma))[:planes]
    rows[:channels, 3] = matrix[:, -1] * mixed
    gain, offset = np.zeros(3), np.zeros(3)
    # Colors that are rounded first are mixed in units of the rounded type; mean and std are applied after that.
    unit = 1.0 if dtype.startswith("float") else _PEAKS[dtype]
    divisor = np.array(std or (1.0,) * channels)
    gain[:channels] = 1 / (unit * divisor)
    offset[:channels] = -np.array(mean or (0.0,) * channels) / divisor
    zeros = sum(1 << bit for bit, weight in enumerate(rows[:channels, :3].ravel()) if weight == 0)
    peak = _UNBOUNDED if unbounded else _PEAKS[dtype]
    return planes, zeros, _MIXTURE.pack(*rows.ravel(), *gain, *offset, peak)


def _matrix(color: ColorSpec, wanted: Color, dtype: DType, form: SurfaceFormat, shift: int) -> FloatArray:
    """Return the matrix from stored samples to output values before mean and std, one row per channel."""
    bits = 16 if dtype == "uint16" else 8
    matrix = output_matrix(color, wanted, form, bits)
    if wanted == "YCbCr" and dtype == "uint8":
        matrix /= 2 ** (form.bits - 8)
    if dtype.startswith("float"):
        matrix /= 2**bits - 1
    matrix[:, :-1] /= 2**shift
    return matrix
