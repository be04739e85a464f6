"""Resampling on the CPU by ``resample.c``, with the result of the reference to the last bit."""

from __future__ import annotations

import ctypes
from array import array
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...array import IntArray
from ...core.native import load_functions
from ..geometry.resampling import SampledAxis, Taps, resampled, taps_of

__all__ = ["picked", "resample_cpu"]

_LANES: Final = 4  # values that the second pass of resample.c reads and writes at a time
_INPUTS: Final = tuple(map(np.dtype, ("uint8", "uint16", "int16", "float32")))
_FLOATS: Final = np.dtype(np.float32)
# number of each pair of input and output dtype in resample.c
_KINDS: Final = {
    pair: number
    for number, pair in enumerate(
        (given, made) for given in _INPUTS for made in dict.fromkeys((given, _FLOATS))
    )
}


def picked(x: npt.NDArray[Any], rows: Taps, columns: Taps) -> npt.NDArray[Any]:
    """Return images whose pixels are each a pixel of the source.

    Args:
        x: the images, in main memory.
        rows: taps of each row.
        columns: taps of each column.
    """
    row_indices, indices = _source_indices(rows), _source_indices(columns)
    if isinstance(row_indices, slice) or isinstance(indices, slice):
        result: npt.NDArray[Any] = x[:, row_indices][:, :, indices]
    else:
        result = x[:, row_indices[:, None], indices]
    return result


def _source_indices(taps: Taps) -> IntArray | slice:
    """Return the source index of each pixel, as a slice if the indices are consecutive."""
    indices: IntArray = taps.indices[taps.weights.argmax(0), np.arange(len(taps.total))]
    first, count = int(indices[0]), len(indices)
    return (
        slice(first, first + count) if np.array_equal(indices, np.arange(first, first + count)) else indices
    )


def resample_cpu(
    x: npt.NDArray[Any], rows: tuple[SampledAxis, int], columns: tuple[SampledAxis, int], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Compute :func:`resampled` in C if there is a C compiler.

    Args:
        x: images ``(F, H, W, C)``, in main memory.
        rows: resampling of the rows, and their number.
        columns: resampling of the columns, and their number.
        dtype: dtype of the result.

    Returns:
        The images, rounded to ``dtype`` if it is the integer dtype of the input; otherwise as float32.
    """
    native = _native()
    if native is None:
        taps = taps_of(*rows, x.shape[1]), taps_of(*columns, x.shape[2])
        made_of: npt.NDArray[Any] = resampled(x.astype(np.float32), *taps)
        return made_of
    if x.dtype not in _INPUTS:
        x = x.astype(np.float32)
    frames, height, width, channels = x.shape
    if x.strides[2:] != (channels * x.itemsize, x.itemsize):
        x = np.ascontiguousarray(x)
    result = x.dtype if x.dtype == dtype else _FLOATS
    out = np.empty((frames, rows[1], columns[1], channels), result)
    down, across = _packed(*rows, height, 1), _packed(*columns, width, channels)
    values = width * channels
    between = np.zeros(values + columns[1] * channels + 2 * _LANES, np.float32)
    sums = _address(between)
    line = sums + (values + _LANES) * between.itemsize
    call = array(
        "q",
        (
            *(_address(x), *x.strides[:2], values, channels, rows[1], columns[1]),
            *(down.taps, across.taps, down.indices, across.indices, down.weights, across.weights),
            *(down.totals, across.totals, _address(out), sums, line),
        ),
    )
    native.seqpipe_resample(call.buffer_info()[0], frames, _KINDS[x.dtype, result])
    return out


class _Packed(NamedTuple):
    """Addresses of the arrays of an axis for ``resample.c``, which are contiguous for each pixel.

    Attributes:
        taps: source pixels of each pixel.
        indices: address of their indices.
        weights: address of their weights.
        totals: address of the sums of weights.
        arrays: the arrays, which must stay alive.
    """

    taps: int
    indices: int
    weights: int
    totals: int
    arrays: tuple[npt.NDArray[Any], ...]


@lru_cache(maxsize=256)
def _packed(axis: SampledAxis, size: int, length: int, values: int) -> _Packed:
    """See :class:`_Packed`; ``values`` is the number of values of a source pixel, ``length`` the number of pixels."""
    indices, weights, total = taps_of(axis, size, length)
    arrays = np.ascontiguousarray(indices.T * values), np.ascontiguousarray(weights.T), total
    packed, shares, sums = map(_address, arrays)
    return _Packed(len(indices), packed, shares, sums, arrays)


def _address(values: npt.NDArray[Any]) -> int:
    address: int = values.__array_interface__["data"][0]
    return address


@cache
def _native() -> Any:
    """Return the functions of ``resample.c``; None without a C compiler."""
    count, pointer = ctypes.c_int64, ctypes.c_void_p
    return load_functions(__package__, "resample.c", {"resample": (pointer, count, count)})
