"""Random numbers of noise: normal and Poisson distributions, equal on every backend."""

from __future__ import annotations

import ctypes
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...core.native import buffer_of, load_functions
from ...core.philox import Bits

__all__ = [
    "FULL",
    "MIN_EXPANDED_MEAN",
    "SLOTS",
    "Floats",
    "counts_of",
    "fast_counts",
    "fast_normal",
    "native_noise",
    "normal",
    "normal_indices",
    "normal_lines",
    "poisson",
    "tables_of",
    "uniform",
]

Floats = npt.NDArray[np.float32]

_PARTS: Final = 64  # pieces of a power of 2
_PART_BITS: Final = 17  # low bits of a float32, the position within a piece
_POWERS: Final = range(8, 31)  # powers of 2 of the bits as integers that are no multiples of 2⁹
_FIRST: Final = (_POWERS.start + 127) * _PARTS  # index of the first piece in the bits of a float32
_UNIT: Final = 2.0**-20


@cache
def normal_indices() -> tuple[int, ...]:
    """Return the inverse at the ends of the pieces, from the far tail to 0, in units of 2⁻²⁰.

    The units are so coarse that all libraries' logarithms give the same integers.
    """
    from statistics import NormalDist

    parts = [2.0 ** (power - 31) * (1 + part / _PARTS) for power in _POWERS for part in range(_PARTS)]
    inverse = NormalDist().inv_cdf
    return tuple(round(-inverse(outside / 2) / _UNIT) for outside in (*parts, 1.0))


@cache
def normal_lines() -> Floats:
    """Return the pieces ``(parts, 2)``: intercept and slope, exact in float32."""
    indices = np.array(normal_indices())
    steps, number = np.diff(indices), np.arange(len(indices) - 1)
    power, part = number // _PARTS + _POWERS.start, number % _PARTS
    at_zero = (indices[:-1] - steps * (_PARTS + part)) * _UNIT
    slope = steps * _UNIT / 2.0**power * _PARTS
    return np.stack([at_zero, slope], axis=1).astype(np.float32)


def normal(bits: Bits) -> Floats:
    """Return numbers of the standard normal distribution.

    The upper 23 bits are a signed integer; the closer to 0 it is, the farther from 0 is the number.
    """
    position = (bits & np.uint32(0xFFFFFE00) | np.uint32(0x100)).view(np.int32).astype(np.float32)
    outside = np.abs(position)
    line = normal_lines()[(outside.view(np.uint32) >> np.uint32(_PART_BITS)) - np.uint32(_FIRST)]
    size = line[..., 0] + line[..., 1] * outside
    result: Floats = np.copysign(size, position)
    return result


def fast_normal(bits: Bits) -> Floats:
    """Compute :func:`normal` in C for contiguous bits, if there is a C compiler."""
    native = native_noise()
    if native is None:
        return normal(bits)
    result = np.empty(bits.shape, np.float32)
    native.seqpipe_normals(buffer_of(bits), bits.size, buffer_of(normal_lines()), _FIRST, buffer_of(result))
    return result


@cache
def native_noise() -> Any:
    """Return the functions of ``noise.c``; None without a C compiler."""
    word, count, pointer, number = ctypes.c_uint32, ctypes.c_int64, ctypes.c_void_p, ctypes.c_float
    functions = {
        "normals": (pointer, count, pointer, word, pointer),
        "tables": (pointer, count, count, word),
        "counts": (pointer, pointer, count, pointer, count, pointer),
        "salt": (pointer, count, count, number, number, number, number, pointer),
    }
    return load_functions(__package__, "noise.c", functions)


Counts = npt.NDArray[np.uint8]

MIN_EXPANDED_MEAN: Final = 13
"""Mean from which the normal expansion replaces summation and tables."""
SLOTS: Final = 35
"""Slots of a table, and the least count that it does not have: with a mean of 13, greater counts have 3·10⁻⁷."""
FULL: Final = (1 << 26) - 1
"""Places of a slot, a 26-bit number."""
_MIN_PROBABILITY: Final = np.float32(1e-10)  # probability at which summation stops
_EXP: Final = (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0)


def uniform(bits: Bits) -> Floats:
    """Return numbers between 0 and 1: the centers of 2²⁴ intervals."""
    return ((bits >> np.uint32(8)).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-24)


def poisson(mean: Floats, bits: Bits) -> Floats:
    """Return Poisson distributed numbers with any means.

    Means below :data:`MIN_EXPANDED_MEAN` use summation of probabilities; others the expansion of the inverse around the
    normal one (Giles, "Algorithm 955", 2016), less than 0.05 % of whose results are off by one.
    """
    few = mean < MIN_EXPANDED_MEAN
    result = np.empty_like(mean)
    result[few] = _counted(mean[few], uniform(bits[few]))
    result[~few] = _expanded(mean[~few], normal(bits[~few]))
    return result


def counts_of(levels: Counts, factor: np.float32, bits: Bits) -> Floats:
    """Return Poisson distributed numbers with the means ``levels / factor``.

    The upper word of 35 times the bits is the slot of the table; if the lower word is less than the entry there, the
    result is the slot's own count, else the count in the lowest 6 bits of the entry.
    """
    position = bits.astype(np.uint64) * np.uint64(SLOTS)
    slot, rest = (position >> np.uint64(32)).astype(np.uint32), position.astype(np.uint32)
    entry = tables_of(float(factor))[levels, slot]
    result = np.where(rest < entry, slot, entry & np.uint32(63)).astype(np.float32)
    return _with_many(result, levels, factor, bits)


def fast_counts(levels: Counts, factor: np.float32, bits: Bits) -> Floats:
    """Compute :func:`counts_of` in C for contiguous arrays, if there is a C compiler."""
    native = native_noise()
    if native is None:
        return counts_of(levels, factor, bits)
    tables = tables_of(float(factor))
    result = np.empty(bits.shape, np.float32)
    native.seqpipe_counts(
        buffer_of(bits), levels.ctypes.data, levels.size, buffer_of(tables), SLOTS, buffer_of(result)
    )
    return _with_many(result, levels, factor, bits)


def _with_many(counts: Floats, levels: Counts, factor: np.float32, bits: Bits) -> Floats:
    """Replace counts with means of at least :data:`MIN_EXPANDED_MEAN` by the expansion."""
    if _are_few(float(factor)):
        return counts
    mean = levels.astype(np.float32) / factor
    many = mean >= MIN_EXPANDED_MEAN
    counts[many] = _expanded(mean[many], normal(bits[many]))
    return counts


@lru_cache(maxsize=16)
def _are_few(factor: float) -> bool:
    """Return whether all means are below :data:`MIN_EXPANDED_MEAN`."""
    return bool(np.float32(255) / np.float32(factor) < MIN_EXPANDED_MEAN)


@lru_cache(maxsize=16)
def tables_of(factor: float) -> npt.NDArray[np.uint32]:
    """Return the alias tables ``(256, SLOTS)`` of 256 values divided by a factor, below :data:`MIN_EXPANDED_MEAN`.

    A slot has :data:`FULL` places. The bits of an entry above the lowest 6 are the number of places of the slot's own
    count; the other places belong to the count in the lowest 6 bits.
    """
    tables = _indices_of(factor)
    native = native_noise()
    if native is None:
        tables = _swept(tables)
    else:
        native.seqpipe_tables(buffer_of(tables), len(tables), SLOTS, FULL)
    tables[0, 0] = 0  # a mean of 0 gives 0
    return tables


def _indices_of(factor: float) -> npt.NDArray[np.uint32]:
    """Return the places of each count ``(256, SLOTS)``; the likeliest count absorbs rounding errors."""
    mean = np.arange(256, dtype=np.float32) / np.float32(factor)
    mean = np.where(mean < MIN_EXPANDED_MEAN, mean, np.float32(0))
    probability = _exp(-mean)
    table = np.empty((256, SLOTS), np.uint32)
    for count in range(SLOTS):
        table[:, count] = probability * np.float32(SLOTS * FULL)
        probability *= mean * np.float32(1 / (count + 1))
    missing = np.uint32(SLOTS * FULL) - table.sum(axis=1, dtype=np.uint32)
    table[np.arange(256), mean.astype(np.intp)] += missing
    return table


def _swept(table: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Build the tables: counts with more places than a slot fill the slots of others.

    These counts are consecutive, because they are around the mean. One step fills one slot of each table.
    """
    own = table.astype(np.int64)
    of_level, begin = np.arange(len(own)), (own >= FULL).argmax(axis=1)
    end = begin + (own >= FULL).sum(axis=1)
    light, heavy = np.where(begin > 0, 0, end), begin
    rest = own[of_level, heavy]
    for _ in range(SLOTS):
        is_spent = rest <= FULL
        slot, heavy = np.where(is_spent, heavy, light), heavy + is_spent
        other = own[of_level, np.where(is_spent, heavy, light)]
        own[of_level, slot] = np.where(is_spent, rest, other) << 6 | heavy
        rest += other - FULL
        light = light + ~is_spent
        light = np.where(light == begin, end, light)
    return own.astype(np.uint32)


def _counted(mean: Floats, number: Floats) -> Floats:
    """Return the number of events at which the cumulative probability reaches a number."""
    result = np.zeros_like(mean)
    probability = _exp(-mean)
    total = probability.copy()
    at = np.flatnonzero((total < number) & (probability > _MIN_PROBABILITY))
    while at.size:
        result[at] += np.float32(1)
        probability[at] *= mean[at] / result[at]
        total[at] += probability[at]
        at = at[(total[at] < number[at]) & (probability[at] > _MIN_PROBABILITY)]
    return result


def _expanded(mean: Floats, w: Floats) -> Floats:
    root, square = np.sqrt(mean), w * w
    by_root = np.float32(1) / root
    first = mean + root * w + (np.float32(1 / 3) + square * np.float32(1 / 6))
    second = (w * np.float32(-1 / 36) - square * w * np.float32(1 / 72)) * by_root
    third = np.float32(-8 / 405) + square * np.float32(7 / 810) + square * square * np.float32(1 / 270)
    result: Floats = np.fmax(np.floor(first + second + third * (by_root * by_root)), np.float32(0))
    return result


def _exp(x: Floats) -> Floats:
    """Return the exponential of numbers from -80 to 0 as a power of 2 times a series."""
    power = np.rint(x * np.float32(1.44269502))
    rest = x - power * np.float32(0.693359375) + power * np.float32(2.12194440e-4)  # ln 2 in two parts
    scale: Floats = ((power.astype(np.int32) + 127) << 23).view(np.float32)
    result: Floats = rest * np.float32(_EXP[0])
    for coefficient in _EXP[1:-1]:  # by Horner's rule
        result += np.float32(coefficient)
        result *= rest
    result += np.float32(_EXP[-1])
    result *= scale
    return result
