"""Chroma upsampling and color conversion in C, with the results of :mod:`.chroma` and :mod:`.mix`."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Sequence as Seq
from functools import cache
from typing import Any, Final

import numpy as np

from ...array import FloatArray
from ...core.native import load_functions
from .chroma import ChromaAxis, ChromaGrid
from .mix import half_table, scale_and_shift, statistics
from .output import OutputSpec
from .scratch import ConversionScratch
from .surface import Plane

__all__ = ["ColorKernel", "is_compiled"]

_WEIGHT_UNITS: Final = 8
_MARGIN: Final = 144
"""Values around a row of intermediate results."""
_ROWS: Final = 9
_KINDS: Final = {"uint8": 0, "uint16": 1, "float32": 2, "float16": 3}
_UNIT_16: Final = 257
"""16-bit value of 1 in 8 bits."""
_MOST_WEIGHT: Final = 32
"""Weights in 1/1024 have 16 bits."""

_Count, _Pointer, _Float = ctypes.c_int64, ctypes.c_void_p, ctypes.c_float


class _Axis(ctypes.Structure):
    _fields_ = (
        ("shift", _Count),
        ("start", _Count),
        ("samples", _Count),
        ("first", _Count * 4),
        ("weights", _Count * 4),
    )


class _Call(ctypes.Structure):
    _fields_ = (
        ("planes", _Pointer * 3),
        ("strides", _Count * 3),
        ("out", _Pointer),
        ("done", _Count),
        ("rows", _Count),
        ("columns", _Count),
        ("row_stride", _Count),
        ("step", _Count),
        ("plane", _Count),
        ("deep_in", _Count),
        ("deep", _Count),
        ("headroom", _Count),
        ("below", _Count),
        ("x", _Axis),
        ("y", _Axis),
        ("matrix", _Float * 12),
        ("kind", _Count),
        ("scale", _Float * 3),
        ("shift", _Float * 3),
        ("half", _Pointer * 3),
        ("work", _Pointer),
        ("line", _Count),
    )


@cache
def _native() -> Any:
    """Return the functions of ``colors.c``; None without a C compiler, or on processors without AVX2."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return None
    functions = load_functions(__package__, "colors.c", {"colors": (_Pointer,)})
    call = _Call()
    if functions is not None:
        functions.seqpipe_colors(ctypes.addressof(call))
    return functions if call.done else None


def is_compiled(matrix: FloatArray) -> bool:
    """Return whether the C kernel applies a matrix, with the results of :class:`.mix.Mixer`.

    Args:
        matrix: one row per channel: the weight of each plane, and an offset.
    """
    if matrix.shape != (3, 4):
        return False
    weights = matrix[:, :3]
    # OpenCV computes diagonal matrices, which code values have too, otherwise.
    is_diagonal = np.count_nonzero(weights - np.diag(np.diag(weights))) == 0
    return not is_diagonal and bool((np.abs(weights) < _MOST_WEIGHT).all()) and _native() is not None


class ColorKernel:
    """Converts three planes to output pixels in one pass.

    Args:
        matrix: one row per channel: the weight of each plane, and an offset.
        dtype: type of the mixed values.
        output: color, dtype and layout of the output.
        grids: grid of each plane.
        headroom: bits by which samples are shifted left before they are mixed.
        scratch: memory for intermediate results.
    """

    def __init__(
        self,
        matrix: FloatArray,
        dtype: np.dtype[Any],
        output: OutputSpec,
        grids: tuple[ChromaGrid, ...],
        headroom: int,
        scratch: ConversionScratch,
    ) -> None:
        luma, chroma, _ = grids
        call = self._call = _Call()
        self._function, self._address = _native().seqpipe_colors, ctypes.addressof(call)
        self._first = luma.y.start, luma.x.start
        call.rows, call.columns = luma.y.length, luma.x.length
        planar = output.layout == "FCHW"
        call.step, call.plane = (1, call.rows * call.columns) if planar else (3, 1)
        call.row_stride = call.columns * call.step
        call.deep, call.headroom = dtype.itemsize > 1, headroom
        call.below = chroma.fractional_bits(dtype)
        call.x, call.y = _axis(chroma.x), _axis(chroma.y)
        call.matrix[:] = matrix.astype(np.float32).ravel().tolist()
        call.kind = _KINDS[output.dtype]
        if output.dtype == "float16":
            self._tables = [half_table(mean, std) for mean, std in statistics(output, 3)]
            call.half[:] = [_address(table) for table in self._tables]
        elif output.is_float:
            call.scale[:], call.shift[:] = zip(
                *(scale_and_shift(*pair) for pair in statistics(output, 3)), strict=True
            )
        else:
            call.scale[:] = [1 / _UNIT_16] * 3
        call.line = (call.columns + _MARGIN) * 4
        self._work = scratch.array("kernel", (_ROWS * call.line,), np.uint8)
        call.work = _address(self._work)

    def __call__(self, planes: Seq[Plane], out: Plane) -> None:
        """Convert planes into a contiguous array of the output's shape and dtype."""
        call, (row, column) = self._call, self._first
        luma, *chroma = planes
        planes = [luma[row:, column:], *chroma]
        for number, plane in enumerate(planes):
            if plane.strides[1] != plane.itemsize:
                planes[number] = plane = np.ascontiguousarray(plane)
            call.planes[number], call.strides[number] = _address(plane), plane.strides[0]
        call.deep_in, call.out = luma.itemsize > 1, _address(out)
        self._function(self._address)


def _axis(axis: ChromaAxis) -> _Axis:
    result = _Axis(axis.shift, axis.start, axis.samples)
    for number, phase in enumerate(axis.phases):
        result.first[number] = -1 if phase.behind else 0
        result.weights[number] = round(phase.part * _WEIGHT_UNITS)
    return result


def _address(array: Any) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
