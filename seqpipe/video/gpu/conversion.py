"""Conversion: everything about a launch that is the same for all surfaces of one kind, worked out on the host."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import FloatArray
from ...kernel import Source
from ..chroma import ChromaAxis
from ..colour import ColourSpec, chroma_offset, resolve
from ..geometry import Placement
from ..info import StreamInfo
from ..matrix import output_matrix
from ..output import OutputSpec
from ..surface import SurfaceFormat
from .device_surface import DeviceSurface
from .filters import FilterTable, filter_table

__all__ = ["FRAMES", "KERNEL", "THREADS", "Conversion", "SurfaceKind", "is_aligned"]

KERNEL: Final = Source(__package__, "kernel.cu")
FRAMES: Final = 64
"""Frames of a launch: what describes them fits into 4 KB, which a kernel takes by value on every GPU."""
THREADS: Final = 256
"""Threads of a block."""

_OUTPUTS: Final = {"uint8": 0, "uint16": 1, "float16": 2, "float32": 3}
_PEAKS: Final = {"uint8": 255.0, "uint16": 65535.0, "float16": 1.0, "float32": 1.0}
_FRAME = np.dtype(
    [("planes", np.uint64, 3), ("out", np.uint64), ("pitch", np.int32), ("chroma_pitch", np.int32)],
    align=True,
)
_AXIS = np.dtype(
    [("first", np.uint64), ("weights", np.uint64), ("taps", np.int32), ("unused", np.int32)], align=True
)
_JOB = np.dtype(
    [
        ("frames", _FRAME, FRAMES),
        ("axes", _AXIS, 4),
        ("matrix", np.float32, (3, 4)),
        ("gain", np.float32, 3),
        ("offset", np.float32, 3),
        ("peak", np.float32),
        ("corner", np.int32, 2),
        ("size", np.int32, 2),
        ("chroma_size", np.int32, 2),
        ("unused", np.int32),
    ],
    align=True,
)


@dataclass(frozen=True)
class SurfaceKind:
    """What surfaces must agree on to be converted together.

    Attributes:
        format: of the samples.
        width: columns in pixels.
        height: rows in pixels.
        interleaved: whether Cb and Cr share a plane.
        shift: bits that samples are shifted up by.
        aligned: whether rows begin at multiples of four samples.
    """

    format: SurfaceFormat
    width: int
    height: int
    interleaved: bool
    shift: int
    aligned: bool

    @classmethod
    def of(cls, surface: DeviceSurface) -> SurfaceKind:
        """The kind of a surface."""
        shape = surface.shape
        return cls(
            shape.format, shape.width, shape.height, shape.interleaved, shape.shift, is_aligned(surface)
        )


def is_aligned(surface: DeviceSurface) -> bool:
    """Whether rows begin at multiples of four samples."""
    shape = surface.shape
    return not (surface.planes[0] | shape.pitch) % (4 * shape.sample_bytes)


@dataclass(frozen=True, eq=False)
class Conversion:
    """How surfaces of one kind become pictures.

    Attributes:
        defines: macros of the kernel.
        grid: blocks along the picture's columns and rows, before the turn.
        tables: filters of luma columns, luma rows, chroma columns and chroma rows; none at full size.
        job: the kernel's argument, without frames and without the addresses of the tables.
    """

    defines: dict[str, int]
    grid: tuple[int, int]
    tables: tuple[FilterTable, ...]
    job: npt.NDArray[Any]

    @classmethod
    def of(cls, info: StreamInfo, output: OutputSpec, kind: SurfaceKind) -> Conversion:
        """The conversion of surfaces of a stream.

        Raises:
            ParameterError: the crop leaves the picture.
            SourceError: the stream's colour cannot be converted to the one that is asked for.
        """
        colour = resolve(info)
        placement = output.place(info).on((info.width, info.height), (kind.width, kind.height))
        matrix = _mixture(info, colour, output, kind)
        axes = _axes(colour, placement, kind)
        unscaled = placement.size == placement.box[2:]
        planes = matrix.shape[1] - 1
        direct = unscaled and (planes == 1 or max(axis.shift for axis in axes) <= 1)
        job = _job(output, placement, matrix, axes)
        defines = {
            "SAMPLE_BYTES": 1 if kind.format.bits <= 8 else 2,
            "INTERLEAVED": int(kind.interleaved),
            "PLANES": planes,
            "CHANNELS": output.channels,
            "OUTPUT": _OUTPUTS[output.dtype],
            # at full size the CPU works in 8 bits where nothing asks for more, and rounds planes by themselves
            "ROUNDED": int(unscaled and kind.format.bits <= 8 and output.dtype == "uint8"),
            "PLANAR": int(output.layout == "FCHW"),
            **_orientation(placement),
            **_siting(axes if direct else (), kind, placement),
            "JOB_BYTES": _JOB.itemsize,
        }
        tile = defines["TILE_U"], defines["TILE_V"]
        columns, rows = (-(-length // side) for length, side in zip(placement.size, tile, strict=True))
        tables = () if direct else _tables(axes, placement.size, scaled=not unscaled)
        return cls(defines, (columns, rows), tables, job)

    def argument(
        self, surfaces: Seq[DeviceSurface], outs: Seq[int], tables: Seq[tuple[int, int]]
    ) -> npt.NDArray[Any]:
        """The argument of one launch.

        Args:
            surfaces: up to ``FRAMES`` of them.
            outs: the address of each one's picture.
            tables: the addresses of each table's ``first`` and ``weights``.
        """
        job = self.job.copy()
        # by columns: NumPy takes some microseconds for each assignment
        frames = job["frames"][: len(surfaces)]
        frames["planes"][:, : len(surfaces[0].planes)] = [surface.planes for surface in surfaces]
        frames["out"] = outs
        frames["pitch"] = [surface.shape.pitch for surface in surfaces]
        frames["chroma_pitch"] = [surface.shape.chroma_pitch for surface in surfaces]
        for entry, table, (first, weights) in zip(job["axes"], self.tables, tables, strict=False):
            entry["first"], entry["weights"], entry["taps"] = first, weights, table.taps
        return job


def _orientation(placement: Placement) -> dict[str, int]:
    """Which axis of the picture before the turn runs along the result's rows, and which run backwards."""
    turns = placement.quarter_turns
    return {
        "TRANSPOSED": turns % 2,
        "REVERSED_U": int(placement.flipped != (turns in (1, 2))),
        "REVERSED_V": int(turns in (2, 3)),
    }


def _siting(axes: Seq[ChromaAxis], kind: SurfaceKind, placement: Placement) -> dict[str, int]:
    """The macros that only full size needs, and the size of a tile."""
    if not axes:
        names = ("SHIFT_X", "SHIFT_Y", "OFFSET_X", "OFFSET_Y", "ODD_X", "ODD_Y", "ALIGNED")
        return {"SCALED": 1, **dict.fromkeys(names, 0), "TILE_U": 32, "TILE_V": 16}
    x, y = axes[2:]
    transposed = placement.quarter_turns % 2
    return {
        "SCALED": 0,
        "SHIFT_X": x.shift,
        "SHIFT_Y": y.shift,
        "OFFSET_X": round(2 * x.offset),
        "OFFSET_Y": round(2 * y.offset),
        "ODD_X": x.start % 2,
        "ODD_Y": y.start % 2,
        "ALIGNED": int(kind.aligned and x.start % 4 == 0),
        "TILE_U": 64 if transposed else 128,
        "TILE_V": 32 if transposed else 16,
    }


def _axes(colour: ColourSpec, placement: Placement, kind: SurfaceKind) -> tuple[ChromaAxis, ...]:
    """The axes of luma columns and rows, and of chroma columns and rows."""
    left, top, width, height = placement.box
    luma = ChromaAxis(0, 0.0, left, width, kind.width), ChromaAxis(0, 0.0, top, height, kind.height)
    form = kind.format
    if form.chroma in ("gray", "rgb"):
        return luma * 2
    offset_x, offset_y = chroma_offset(colour, form)
    samples_x, samples_y = -(-kind.width >> form.shift_x), -(-kind.height >> form.shift_y)
    return (
        *luma,
        ChromaAxis(form.shift_x, offset_x, left, width, samples_x),
        ChromaAxis(form.shift_y, offset_y, top, height, samples_y),
    )


def _tables(axes: Seq[ChromaAxis], size: tuple[int, int], *, scaled: bool) -> tuple[FilterTable, ...]:
    skip = scaled and all(map(ChromaAxis.skips_luma_grid, axes[2:], size))
    return tuple(
        filter_table(axis, length, skip_luma_grid=skip and axis.shift > 0)
        for axis, length in zip(axes, (*size, *size), strict=True)
    )


def _job(
    output: OutputSpec, placement: Placement, matrix: FloatArray, axes: Seq[ChromaAxis]
) -> npt.NDArray[Any]:
    job: npt.NDArray[Any] = np.zeros((), dtype=_JOB)
    rows, planes = matrix.shape[0], matrix.shape[1] - 1
    job["matrix"][:rows, :planes] = matrix[:, :planes]
    job["matrix"][:rows, 3] = matrix[:, -1]
    mean, std = (
        np.asarray(default if value is None else value, np.float64)
        for value, default in ((output.mean, 0.0), (output.std, 1.0))
    )
    job["gain"][: output.channels] = 1 / std
    job["offset"][: output.channels] = -mean / std
    job["peak"] = _PEAKS[output.dtype]
    job["corner"], job["size"] = placement.box[:2], placement.size
    job["chroma_size"] = [axis.samples for axis in axes[2:]]
    return job


def _mixture(info: StreamInfo, colour: ColourSpec, output: OutputSpec, kind: SurfaceKind) -> FloatArray:
    """The matrix from samples as they are stored to the output's values before mean and std, row by channel."""
    bits = 16 if output.dtype == "uint16" else 8
    matrix = output_matrix(info, colour, output, kind.format, bits)
    if output.colour == "YCbCr" and output.dtype == "uint8":
        matrix /= 2 ** (kind.format.bits - 8)
    if output.is_float:
        matrix /= 2**bits - 1
    matrix[:, :-1] /= 2**kind.shift
    return matrix
