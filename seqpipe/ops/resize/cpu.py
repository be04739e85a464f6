"""Resampling on a CPU: what the reference of it gives, to the last bit, by ``resample.c``."""

from __future__ import annotations

import ctypes
from array import array
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...array import IntArray
from ...native import load_functions
from ..geometry.resampling import SampledAxis, Taps, resampled, taps_of

__all__ = ["picked", "quickly_resampled"]

_LANES: Final = 4  # values that the second pass of resample.c reads and writes at once
_INPUTS: Final = tuple(map(np.dtype, ("uint8", "uint16", "int16", "float32")))
_FLOATS: Final = np.dtype(np.float32)
# of the types of what is given and of what is made: how resample.c is told of them
_KINDS: Final = {
    pair: number
    for number, pair in enumerate(
        (given, made) for given in _INPUTS for made in dict.fromkeys((given, _FLOATS))
    )
}


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


def quickly_resampled(
    x: npt.NDArray[Any], rows: tuple[SampledAxis, int], columns: tuple[SampledAxis, int], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """What :func:`resampled` gives; without a C compiler by that.

    Args:
        x: the images ``(F, H, W, C)``, in main memory.
        rows: how rows are made, and how many.
        columns: how columns are made, and how many.
        dtype: of the result.

    Returns:
        The images, rounded to that type if it is theirs and one of whole numbers; otherwise as float32.
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
    made = x.dtype if x.dtype == dtype else _FLOATS
    out = np.empty((frames, rows[1], columns[1], channels), made)
    down, across = _packed(*rows, height, 1), _packed(*columns, width, channels)
    values = width * channels
    between = np.zeros(values + columns[1] * channels + 2 * _LANES, np.float32)
    sums = _address(between)
    line = sums + (values + _LANES) * between.itemsize
    call = array(
        "q",
        (
            *(_address(x), *x.strides[:2], values, channels, rows[1], columns[1]),
            *(down.taps, across.taps, down.places, across.places, down.weights, across.weights),
            *(down.totals, across.totals, _address(out), sums, line),
        ),
    )
    native.seqpipe_resample(call.buffer_info()[0], frames, _KINDS[x.dtype, made])
    return out


class _Packed(NamedTuple):
    """What the pixels of an axis are made of, as ``resample.c`` takes it: addresses of arrays, pixel by pixel.

    Attributes:
        taps: how many source pixels each is made of.
        places: of these.
        weights: of these.
        totals: of each pixel.
        held: the arrays.
    """

    taps: int
    places: int
    weights: int
    totals: int
    held: tuple[npt.NDArray[Any], ...]


@lru_cache(maxsize=256)
def _packed(axis: SampledAxis, size: int, length: int, values: int) -> _Packed:
    """See :class:`_Packed`; ``values`` is how many a source pixel has along the axis, ``length`` counts these."""
    places, weights, total = taps_of(axis, size, length)
    held = np.ascontiguousarray(places.T * values), np.ascontiguousarray(weights.T), total
    packed, shares, sums = map(_address, held)
    return _Packed(len(places), packed, shares, sums, held)


def _address(values: npt.NDArray[Any]) -> int:
    address: int = values.__array_interface__["data"][0]
    return address


@cache
def _native() -> Any:
    """What ``resample.c`` has for it; None where there is no C compiler."""
    count, pointer = ctypes.c_int64, ctypes.c_void_p
    return load_functions(__package__, "resample.c", {"resample": (pointer, count, count)})
