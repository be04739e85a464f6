"""Poisson distributed numbers from random bits, bit-exact on every device.

There are two ways. :func:`poisson` takes any means. For levels of 8 bits, whose means are 256 at most, the counts of
means below 13 come from tables in one step: the alias method (Walker, "An efficient method for generating discrete
random variables with general distributions", 1977), its tables by the sweep of Hübschle-Schneider and Sanders
("Parallel weighted random sampling", 2019), in whole numbers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from ...native import buffer_of
from ...philox import Bits
from .native import native_noise
from .normal_numbers import Floats, normal

__all__ = ["FEW", "FULL", "SLOTS", "counts_of", "fast_counts", "poisson", "tables_of", "uniform"]

Counts = npt.NDArray[np.uint8]

FEW: Final = 13
"""Events, from which on the normal expansion takes the place of adding up, and of tables."""
SLOTS: Final = 35
"""Parts of a table, and the least count that it does not have: of 13 expected events, more are 3·10⁻⁷ of all."""
FULL: Final = (1 << 26) - 1
"""Places of a slot: what 26 bits can say."""
_LEAST: Final = np.float32(1e-10)  # probability, from which on no more are added up
_EXP: Final = (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0)


def uniform(bits: Bits) -> Floats:
    """Numbers above 0 and below 1: the middles of 2²⁴ steps."""
    return ((bits >> np.uint32(8)).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-24)


def poisson(mean: Floats, bits: Bits) -> Floats:
    """Numbers of the Poisson distribution, of any means.

    For means below :data:`FEW` by adding up probabilities; else by the expansion of its inverse round the normal one
    (Giles, "Algorithm 955", 2016), of which less than 0.05 % are one off.

    Args:
        mean: above 0.
        bits: of the same shape.
    """
    few = mean < FEW
    found = np.empty_like(mean)
    found[few] = _counted(mean[few], uniform(bits[few]))
    found[~few] = _expanded(mean[~few], normal(bits[~few]))
    return found


def counts_of(levels: Counts, factor: np.float32, bits: Bits) -> Floats:
    """Numbers of the Poisson distribution with the means ``levels / factor``.

    Of 35 times the bits, the upper word says which slot of the level's table; the lower one, less than the entry there
    or not, whether it is the slot's own count or the one in the lowest 6 bits of the entry.
    """
    place = bits.astype(np.uint64) * np.uint64(SLOTS)
    slot, rest = (place >> np.uint64(32)).astype(np.uint32), place.astype(np.uint32)
    entry = tables_of(float(factor))[levels, slot]
    found = np.where(rest < entry, slot, entry & np.uint32(63)).astype(np.float32)
    return _with_many(found, levels, factor, bits)


def fast_counts(levels: Counts, factor: np.float32, bits: Bits) -> Floats:
    """The same by ``noise.c``, where there is a C compiler, of levels and bits that lie one after the other."""
    native = native_noise()
    if native is None:
        return counts_of(levels, factor, bits)
    tables = tables_of(float(factor))
    found = np.empty(bits.shape, np.float32)
    native.seqpipe_counts(
        buffer_of(bits), levels.ctypes.data, levels.size, buffer_of(tables), SLOTS, buffer_of(found)
    )
    return _with_many(found, levels, factor, bits)


def _with_many(found: Floats, levels: Counts, factor: np.float32, bits: Bits) -> Floats:
    """Counts, those of levels of which many events are expected in place."""
    if _are_few(float(factor)):
        return found
    mean = levels.astype(np.float32) / factor
    many = mean >= FEW
    found[many] = _expanded(mean[many], normal(bits[many]))
    return found


@lru_cache(maxsize=16)
def _are_few(factor: float) -> bool:
    """Whether few events are expected of all levels."""
    return bool(np.float32(255) / np.float32(factor) < FEW)


@lru_cache(maxsize=16)
def tables_of(factor: float) -> npt.NDArray[np.uint32]:
    """Tables of the counts of 256 levels divided by a factor ``(256, SLOTS)``; of means from :data:`FEW` on no use.

    A slot has :data:`FULL` places. In an entry are, above 6 bits, how many of these are of the slot's own count; all
    others are of the count in those 6 bits.
    """
    tables = _indices_of(factor)
    native = native_noise()
    if native is None:
        tables = _swept(tables)
    else:
        native.seqpipe_tables(buffer_of(tables), len(tables), SLOTS, FULL)
    tables[0, 0] = 0  # of nothing there are none, ever
    return tables


def _indices_of(factor: float) -> npt.NDArray[np.uint32]:
    """How many places of a table each count is to have ``(256, SLOTS)``; what rounding takes or adds, the likeliest."""
    mean = np.arange(256, dtype=np.float32) / np.float32(factor)
    mean = np.where(mean < FEW, mean, np.float32(0))
    probability = _exp(-mean)
    places = np.empty((256, SLOTS), np.uint32)
    for count in range(SLOTS):
        places[:, count] = probability * np.float32(SLOTS * FULL)
        probability *= mean * np.float32(1 / (count + 1))
    missing = np.uint32(SLOTS * FULL) - places.sum(axis=1, dtype=np.uint32)
    places[np.arange(256), mean.astype(np.intp)] += missing
    return places


def _swept(places: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """The tables: what a count that has more than a slot of places has too many fills slots that are not full.

    Counts with more lie one after the other, for they are those round the mean. One step fills one slot of each level.
    """
    own = places.astype(np.int64)
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


def _counted(mean: Floats, place: Floats) -> Floats:
    """How many events have to be allowed for until the probability reaches a place."""
    found = np.zeros_like(mean)
    probability = _exp(-mean)
    total = probability.copy()
    at = np.flatnonzero((total < place) & (probability > _LEAST))
    while at.size:
        found[at] += np.float32(1)
        probability[at] *= mean[at] / found[at]
        total[at] += probability[at]
        at = at[(total[at] < place[at]) & (probability[at] > _LEAST)]
    return found


def _expanded(mean: Floats, w: Floats) -> Floats:
    root, square = np.sqrt(mean), w * w
    by_root = np.float32(1) / root
    first = mean + root * w + (np.float32(1 / 3) + square * np.float32(1 / 6))
    second = (w * np.float32(-1 / 36) - square * w * np.float32(1 / 72)) * by_root
    third = np.float32(-8 / 405) + square * np.float32(7 / 810) + square * square * np.float32(1 / 270)
    found: Floats = np.fmax(np.floor(first + second + third * (by_root * by_root)), np.float32(0))
    return found


def _exp(x: Floats) -> Floats:
    """The exponential function of numbers from -80 to 0: a power of 2, and the rest by its series."""
    power = np.rint(x * np.float32(1.44269502))
    rest = x - power * np.float32(0.693359375) + power * np.float32(2.12194440e-4)  # ln 2 in two parts
    scale: Floats = ((power.astype(np.int32) + 127) << 23).view(np.float32)
    found: Floats = rest * np.float32(_EXP[0])
    for coefficient in _EXP[1:-1]:  # by Horner's rule
        found += np.float32(coefficient)
        found *= rest
    found += np.float32(_EXP[-1])
    found *= scale
    return found
