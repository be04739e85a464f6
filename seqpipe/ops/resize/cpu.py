"""Resampling on a CPU: what the reference of it gives, by products of matrices and by OpenCV."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import IntArray
from ..geometry.resampling import ONE, Axis, Taps, taps_of

__all__ = ["picked", "quickly_resampled", "shrunk_by_opencv", "tiny_resampled"]

_BLOCK: Final = 8  # pixels of an axis that one product of matrices makes
_LEAST_STEP: Final = ONE + ONE // 4
_MOST_CHANNELS: Final = 4  # that OpenCV takes everywhere


def picked(x: npt.NDArray[Any], rows: Taps, columns: Taps) -> npt.NDArray[Any]:
    """Images whose pixels are each one of the source's.

    Args:
        x: the images, in main memory.
        rows: what each row is made of.
        columns: what each column is made of.
    """
    lines, places = _places(rows), _places(columns)
    if isinstance(lines, slice) or isinstance(places, slice):
        result: npt.NDArray[Any] = x[:, lines][:, :, places]
    else:
        result = x[:, lines[:, None], places]
    return result


def _places(taps: Taps) -> IntArray | slice:
    """The pixel that each one is; as a slice where they lie side by side."""
    places: IntArray = taps.places[taps.weights.argmax(0), np.arange(len(taps.total))]
    first, count = int(places[0]), len(places)
    return slice(first, first + count) if np.array_equal(places, np.arange(first, first + count)) else places


def quickly_resampled(x: npt.NDArray[Any], rows: Taps, columns: Taps) -> npt.NDArray[Any]:
    """What :func:`resampled` gives, by products of matrices: as sums of float32 in another order.

    Args:
        x: the images, in main memory.
        rows: what each row is made of.
        columns: what each column is made of.
    """
    frames, height, width, channels = x.shape
    down = _summed(x.reshape(frames, height, width * channels), rows).reshape(frames, -1, width, channels)
    along = _summed(_transposed(down).reshape(frames, width, -1), columns)
    result = _transposed(along.reshape(frames, len(columns.total), len(rows.total), channels))
    result *= np.float32(1) / (rows.total[:, None, None] * columns.total[:, None])
    return result


def _transposed(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Images ``(F, H, W, C)`` as ``(F, W, H, C)``, by OpenCV, which is twice as fast, if it takes so many channels."""
    frames, height, width, channels = x.shape
    if channels > _MOST_CHANNELS:
        return np.ascontiguousarray(x.transpose(0, 2, 1, 3))
    import cv2

    out = np.empty((frames, width, height, channels), x.dtype)
    for frame, turned in zip(x, out, strict=True):
        turned[...] = cv2.transpose(frame).reshape(turned.shape)
    return out


def shrunk_by_opencv(
    x: npt.NDArray[Any], rows: tuple[Axis, int], columns: tuple[Axis, int]
) -> npt.NDArray[Any] | None:
    """Images of 8 bits, each pixel of which is the mean of what it covers, by OpenCV, to the next level.

    It leaves out what is less than a thousandth of a source pixel, at both ends of a row and of a column: at most 0.82
    levels where a result's pixel covers 5/4 of them or more, and only there it is asked. It is asked for floats: of
    bytes, it rounds up what lies between two levels.

    Args:
        x: the images, in main memory.
        rows: how rows are made, and how many.
        columns: how columns are made, and how many.

    Returns:
        The images as float32; None if they are others, or OpenCV does not make them so.
    """
    spans = [
        _shrunk(axis, size, length)
        for (axis, size), length in zip((rows, columns), x.shape[1:3], strict=True)
    ]
    if x.dtype != np.uint8 or x.shape[3] > _MOST_CHANNELS or None in spans:
        return None
    import cv2

    down, across = spans
    size = columns[1], rows[1]
    out = np.empty((len(x), rows[1], columns[1], x.shape[3]), np.float32)
    for frame, shrunk in zip(x, out, strict=True):
        floats = frame[down, across].astype(np.float32)
        shrunk[...] = cv2.resize(floats, size, interpolation=cv2.INTER_AREA).reshape(shrunk.shape)
    return out


def _shrunk(axis: Axis, size: int, length: int) -> slice | None:
    """The source pixels, in a row and whole, that all of an axis covers; None where it is none that shrinks."""
    first, end = axis.begin, axis.begin + axis.step * size
    near = size  # the step is rounded, for each pixel anew
    whole = first % ONE == 0 and abs(end - round(end / ONE) * ONE) <= near
    if not axis.means or not whole or axis.step < _LEAST_STEP or first < 0 or end > length * ONE + near:
        return None
    return slice(first // ONE, round(end / ONE))


def tiny_resampled(
    x: npt.NDArray[Any], rows: tuple[Axis, int], columns: tuple[Axis, int]
) -> npt.NDArray[Any]:
    """What :func:`resampled` gives, by two products of matrices that are kept: for images of few pixels.

    Args:
        x: the images, in main memory.
        rows: how rows are made, and how many.
        columns: how columns are made, and how many.
    """
    frames, height, width, channels = x.shape
    down = _matrix_of(*rows, height) @ x.reshape(frames, height, width * channels)
    along = _matrix_of(*columns, width) @ down.reshape(-1, width, channels)
    result: npt.NDArray[Any] = along.reshape(frames, rows[1], columns[1], channels)
    return result


@lru_cache(maxsize=64)
def _matrix_of(axis: Axis, size: int, length: int) -> npt.NDArray[Any]:
    """The shares ``(size, length)`` that the pixels of a source have in those of a result."""
    places, weights, total = taps_of(axis, size, length)
    matrix = np.zeros((size, length), np.float32)
    np.add.at(matrix, (np.arange(size), places), weights / total)
    return matrix


def _summed(lines: npt.NDArray[Any], taps: Taps) -> npt.NDArray[Any]:
    """Weighted sums of lines ``(F, length, values)``, some pixels at a time: their taps lie side by side."""
    size = len(taps.total)
    out = np.empty((len(lines), size, lines.shape[2]), np.float32)
    for start in range(0, size, _BLOCK):
        end = min(start + _BLOCK, size)
        places = taps.places[:, start:end]
        first, last = int(places.min()), int(places.max()) + 1
        matrix = np.zeros((end - start, last - first), np.float32)
        np.add.at(matrix, (np.arange(end - start), places - first), taps.weights[:, start:end])
        np.matmul(matrix, lines[:, first:last], out=out[:, start:end])
    return out
