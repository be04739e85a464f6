"""Mixer: planes of the output size to output pixels, with one matrix and one rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from functools import partial
from typing import Any, Final, NamedTuple

import cv2
import numpy as np

from ...array import FloatArray
from .output import OutputSpec
from .scratch import ConversionScratch
from .surface import Plane

__all__ = ["Mixer"]

_PEAK_16: Final = 65535
# OpenCV takes so many pixels at once at most; what is left over it rounds otherwise, one value of some 100,000. So
# there is nothing left over: a crop is to be what is cut out of the whole picture.
_AT_ONCE: Final = 64


def _itself(target: Plane) -> Plane:
    return target


class _MixStep(NamedTuple):
    """One operation on whole pictures, from a source into a target of the given shape and type.

    Attributes:
        run: called with source and target.
        shape: of the target.
        dtype: of the target.
        seen: what the next step is given of the target.
    """

    run: Callable[[Any, Plane], object]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    seen: Callable[[Plane], Plane] = _itself


class Mixer:
    """Makes pictures of planes; in memory bound beforehand.

    Floats are made of 16-bit colors, so they are exact to 1/257 of an 8-bit level, and saturate as these do.

    Args:
        matrix: one row per channel: the weight of each plane, and an offset.
        dtype: type of the planes' values.
        output: the picture's color, dtype and layout.
        shape: (rows, columns) of the planes.
        cut: rows and columns of them that are the picture.
        unit: what a value of the output is in the planes' values, where the output has fewer bits.
        scratch: the memory.
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
        rows, columns = (len(range(*part.indices(length))) for part, length in zip(cut, shape, strict=True))
        self._shape = rows, columns, len(matrix)
        self._planar = self._shape[2], rows, columns
        steps = list(self._mixing(matrix, dtype, shape))
        steps += self._to_float(output) if output.is_float else self._to_integer(steps[-1], output, unit)
        self._before = []
        for number, step in enumerate(steps[:-1]):
            target = scratch.array(f"step {number}", step.shape, step.dtype)
            self._before.append((step.run, target, step.seen(target)))
        self._last = steps[-1]

    def __call__(self, planes: Seq[Plane], out: Plane) -> None:
        """Write the picture of some planes into memory of the output's dtype and layout."""
        value: Any = planes
        for run, target, result in self._before:
            run(value, target)
            value = result
        # a single channel may stand first or last: it is the same memory
        self._last.run(value, out.reshape(self._last.shape))

    def _mixing(self, matrix: FloatArray, dtype: np.dtype[Any], shape: tuple[int, int]) -> Iterator[_MixStep]:
        """Planes to pixels of the same type."""
        planes = matrix.shape[1] - 1
        order = _permutation(matrix)
        count, channels = shape[0] * shape[1], len(matrix)
        if order is not None and planes > 1:
            yield _MixStep(partial(_merge_cut, order, self._cut), self._shape, dtype)
            return
        line = (1, -(-count // _AT_ONCE) * _AT_ONCE)
        # merging is quickest without a cut, as one long row
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
        """What follows the last step of the mixing."""
        dtype, wanted = last.dtype, np.dtype(output.dtype)
        planar = output.layout == "FCHW" and self._shape[2] > 1
        if dtype.itemsize > wanted.itemsize:
            # what was mixed has 1/257 of a level, so this is the rounding that counts
            yield _MixStep(partial(_narrow, 1 / unit), self._shape, wanted)
        elif dtype.itemsize < wanted.itemsize or (last.seen is not _itself and not planar):
            yield _MixStep(_copy, self._shape, wanted)
        if planar:
            yield _MixStep(_split, self._planar, wanted)

    def _to_float(self, output: OutputSpec) -> Iterator[_MixStep]:
        channels, wanted = self._shape[2], np.dtype(output.dtype)
        mean, std = _by_channel(output.mean, 0.0, channels), _by_channel(output.std, 1.0, channels)
        levels = _half_levels if wanted == np.float16 else _single_levels
        scaling = [levels(*statistics) for statistics in zip(mean, std, strict=True)]
        if channels > 1:
            yield _MixStep(_split, self._planar, np.dtype(np.uint16))
        yield _MixStep(partial(_each, scaling, self._planar), self._planar, wanted)
        if channels > 1 and output.layout == "FHWC":
            yield _MixStep(_interleave, self._shape, wanted)


def _by_channel(values: float | tuple[float, ...] | None, default: float, channels: int) -> tuple[float, ...]:
    if isinstance(values, tuple):
        return values
    return (default if values is None else values,) * channels


def _permutation(matrix: FloatArray) -> tuple[int, ...] | None:
    """The planes in the order of the channels, if the matrix does nothing else than order them."""
    order = tuple(int(number) for number in np.argmax(matrix, axis=1))
    plain = np.zeros_like(matrix)
    plain[np.arange(len(order)), order] = 1
    return order if np.array_equal(matrix, plain) else None


def _single_levels(mean: float, std: float) -> Callable[[Plane, Plane], object]:
    scale, shift = np.float32(1 / (_PEAK_16 * std)), np.float32(-mean / std)

    def scaled(plane: Plane, target: Plane) -> None:
        np.multiply(plane, scale, out=target)
        if shift:
            np.add(target, shift, out=target)

    return scaled


def _half_levels(mean: float, std: float) -> Callable[[Plane, Plane], object]:
    """By a table: three times faster than NumPy's conversion. What float16 cannot hold becomes infinite."""
    with np.errstate(over="ignore"):
        table = ((np.arange(_PEAK_16 + 1) / _PEAK_16 - mean) / std).astype(np.float16)
    # every 16-bit value has its place in the table; the mode only spares NumPy a copy of the target
    return lambda plane, target: np.take(table, plane, out=target, mode="clip")


def _each(
    functions: Seq[Callable[[Plane, Plane], object]],
    shape: tuple[int, int, int],
    source: Plane,
    target: Plane,
) -> None:
    """Run a function of its own on each channel."""
    for function, plane, into in zip(functions, source.reshape(shape), target, strict=True):
        function(plane, into)


def _merge_line(count: int, planes: Seq[Plane], target: Plane) -> None:
    """Merge planes as one long row, which may end before the target does."""
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
    if source.dtype == np.float16:
        # not every OpenCV knows float16
        source, target = source.view(np.uint16), target.view(np.uint16)
    cv2.merge(tuple(source), target)
