"""Color conversion of planes of the output size to output pixels, with one matrix and one rounding."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ...array import FloatArray
from ...core.lazy import LazyModule
from ...core.native import load_functions
from .chroma import ChromaAxis, ChromaGrid
from .output import OutputSpec
from .surface import ConversionScratch, Plane

if TYPE_CHECKING:
    import cv2
else:
    cv2 = LazyModule("cv2")  # most videos do not need it, and its import takes 20 ms

__all__ = ["ColorKernel", "Mixer", "half_table", "is_compiled", "scale_and_shift", "statistics"]

_PEAK_16: Final = 65535
# OpenCV's maximum vector width in pixels. Its scalar loop for a remainder rounds one of some 100,000 values
# differently, so rows are padded to have none: a crop must equal the same part of the whole frame.
_VECTOR_PIXELS: Final = 64


def _identity(target: Plane) -> Plane:
    return target


class _MixStep(NamedTuple):
    """Operation from a source into a target of the given shape and type.

    Attributes:
        run: called with source and target.
        shape: shape of the target.
        dtype: type of the target.
        view: returns the part of the target that is the next step's source.
    """

    run: Callable[[Any, Plane], object]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    view: Callable[[Plane], Plane] = _identity


class Mixer:
    """Converts planes to output pixels, with preallocated intermediate results.

    Floats are computed from 16-bit colors: they are exact to 1/257 of an 8-bit value, and saturate.

    Args:
        matrix: one row per channel: the weight of each plane, and an offset.
        dtype: type of the planes' values.
        output: color, dtype and layout of the output.
        shape: (rows, columns) of the planes.
        cut: rows and columns of the planes that are the output.
        unit: value of the planes that is 1 in the output, where the output has fewer bits.
        scratch: memory for intermediate results.
    """

    def __init__(
        self,
        matrix: FloatArray,
        dtype: np.dtype[Any],
        output: OutputSpec,
        shape: tuple[int, int],
        cut: tuple[slice, slice],
        unit: int,
        scratch: ConversionScratch,
    ) -> None:
        self._cut = cut
        rows, columns = (
            len(range(*window.indices(length))) for window, length in zip(cut, shape, strict=True)
        )
        self._shape = rows, columns, len(matrix)
        self._planar = self._shape[2], rows, columns
        steps = list(self._mixing(matrix, dtype, shape))
        steps += self._to_float(output) if output.is_float else self._to_integer(steps[-1], output, unit)
        self._before = []
        for number, step in enumerate(steps[:-1]):
            target = scratch.array(f"step {number}", step.shape, step.dtype)
            self._before.append((step.run, target, step.view(target)))
        self._last = steps[-1]

    def __call__(self, planes: Seq[Plane], out: Plane) -> None:
        """Convert planes into an array of the output's dtype and layout."""
        value: Any = planes
        for run, target, result in self._before:
            run(value, target)
            value = result
        # A single channel may be the first or last axis: the memory is the same.
        self._last.run(value, out.reshape(self._last.shape))

    def _mixing(self, matrix: FloatArray, dtype: np.dtype[Any], shape: tuple[int, int]) -> Iterator[_MixStep]:
        """Yield the steps from planes to pixels of the same type."""
        planes = matrix.shape[1] - 1
        order = _permutation(matrix)
        count, channels = shape[0] * shape[1], len(matrix)
        if order is not None and planes > 1:
            yield _MixStep(partial(_merge_cut, order, self._cut), self._shape, dtype)
            return
        line = (1, -(-count // _VECTOR_PIXELS) * _VECTOR_PIXELS)
        # Merging is fastest without a cut, as one long row.
        yield _MixStep(partial(_merge_line, count), (*line, planes), dtype)
        if line[1] == count and self._shape[:2] == shape:
            yield _MixStep(partial(_mix_whole, matrix), self._shape, dtype)
            return
        cut = self._cut
        yield _MixStep(
            partial(_mix, matrix),
            (*line, channels),
            dtype,
            lambda mixed: mixed[0, :count].reshape(*shape, channels)[cut],
        )

    def _to_integer(self, last: _MixStep, output: OutputSpec, unit: int) -> Iterator[_MixStep]:
        """Yield the steps from mixed pixels to the output's integers and layout."""
        dtype, wanted = last.dtype, np.dtype(output.dtype)
        planar = output.layout == "FCHW" and self._shape[2] > 1
        if dtype.itemsize > wanted.itemsize:
            # Mixed values have a resolution of 1/257 of an 8-bit value: this is the rounding that matters.
            yield _MixStep(partial(_narrow, 1 / unit), self._shape, wanted)
        elif dtype.itemsize < wanted.itemsize or (last.view is not _identity and not planar):
            yield _MixStep(_copy, self._shape, wanted)
        if planar:
            yield _MixStep(_split, self._planar, wanted)

    def _to_float(self, output: OutputSpec) -> Iterator[_MixStep]:
        """Yield the steps from mixed pixels to normalized floats in the output's layout."""
        channels, wanted = self._shape[2], np.dtype(output.dtype)
        normalize = _normalize_half if wanted == np.float16 else _normalize_single
        scaling = [normalize(*pair) for pair in statistics(output, channels)]
        if channels > 1:
            yield _MixStep(_split, self._planar, np.dtype(np.uint16))
        yield _MixStep(partial(_apply_per_channel, scaling, self._planar), self._planar, wanted)
        if channels > 1 and output.layout == "FHWC":
            yield _MixStep(_interleave, self._shape, wanted)


def statistics(output: OutputSpec, channels: int) -> list[tuple[float, float]]:
    """Return mean and standard deviation of each channel of a float output, in units of its values."""
    mean, std = (
        values if isinstance(values, tuple) else (default if values is None else values,) * channels
        for values, default in ((output.mean, 0.0), (output.std, 1.0))
    )
    return list(zip(mean, std, strict=True))


def _permutation(matrix: FloatArray) -> tuple[int, ...] | None:
    """Return the planes in the order of the channels if the matrix only permutes them, else None."""
    order = tuple(int(number) for number in np.argmax(matrix, axis=1))
    plain = np.zeros_like(matrix)
    plain[np.arange(len(order)), order] = 1
    return order if np.array_equal(matrix, plain) else None


def scale_and_shift(mean: float, std: float) -> tuple[np.float32, np.float32]:
    """Return the factor and the summand that normalize 16-bit values to float32."""
    return np.float32(1 / (_PEAK_16 * std)), np.float32(-mean / std)


def _normalize_single(mean: float, std: float) -> Callable[[Plane, Plane], object]:
    """Return the normalization of 16-bit values to float32."""
    scale, shift = scale_and_shift(mean, std)

    def scaled(plane: Plane, target: Plane) -> None:
        np.multiply(plane, scale, out=target)
        if shift:
            np.add(target, shift, out=target)

    return scaled


@lru_cache(maxsize=32)
def half_table(mean: float, std: float) -> Plane:
    """Return the normalized float16 of every 16-bit value; overflow becomes infinity."""
    with np.errstate(over="ignore"):
        table: Plane = ((np.arange(_PEAK_16 + 1) / _PEAK_16 - mean) / std).astype(np.float16)
    table.flags.writeable = False  # the cache shares it
    return table


def _normalize_half(mean: float, std: float) -> Callable[[Plane, Plane], object]:
    """Normalize by a lookup table, three times faster than NumPy's conversion."""
    table = half_table(mean, std)
    # The table has all 16-bit values; the mode "clip" only saves NumPy a copy of the target.
    return lambda plane, target: np.take(table, plane, out=target, mode="clip")


def _apply_per_channel(
    functions: Seq[Callable[[Plane, Plane], object]],
    shape: tuple[int, int, int],
    source: Plane,
    target: Plane,
) -> None:
    """Apply one function per channel."""
    for function, plane, into in zip(functions, source.reshape(shape), target, strict=True):
        function(plane, into)


def _merge_line(count: int, planes: Seq[Plane], target: Plane) -> None:
    """Merge planes as one long row, which may be shorter than the target."""
    if len(planes) == 1:
        target[0, :count, 0].reshape(planes[0].shape)[...] = planes[0]
    else:
        cv2.merge([plane.reshape(1, -1) for plane in planes], target[:, :count])


def _merge_cut(order: Seq[int], cut: tuple[slice, slice], planes: Seq[Plane], target: Plane) -> None:
    cv2.merge([planes[number][cut] for number in order], target)


def _mix(matrix: FloatArray, source: Plane, target: Plane) -> None:
    cv2.transform(source, matrix, target)


def _mix_whole(matrix: FloatArray, source: Plane, target: Plane) -> None:
    cv2.transform(source, matrix, target.reshape(1, -1, target.shape[2]))


def _narrow(scale: float, source: Plane, target: Plane) -> None:
    cv2.convertScaleAbs(source, target, scale)


def _copy(source: Plane, target: Plane) -> None:
    np.copyto(target, source)


def _split(source: Plane, target: Plane) -> None:
    cv2.split(source, tuple(target))


def _interleave(source: Plane, target: Plane) -> None:
    """Merge planes to pixels."""
    if source.dtype == np.float16:
        # Not every OpenCV version supports float16.
        source, target = source.view(np.uint16), target.view(np.uint16)
    cv2.merge(tuple(source), target)


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
    """Upsampling along an axis, as mix.c declares it."""

    _fields_ = (
        ("shift", _Count),
        ("start", _Count),
        ("samples", _Count),
        ("first", _Count * 4),
        ("weights", _Count * 4),
    )


class _Call(ctypes.Structure):
    """Arguments of the C kernel, as mix.c declares them."""

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
    """Return whether the C kernel applies a matrix, with the results of :class:`.mix.Mixer`."""
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
    """Return the C form of an axis."""
    result = _Axis(axis.shift, axis.start, axis.samples)
    for number, phase in enumerate(axis.phases):
        result.first[number] = -1 if phase.behind else 0
        result.weights[number] = round(phase.part * _WEIGHT_UNITS)
    return result


def _address(array: Any) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
