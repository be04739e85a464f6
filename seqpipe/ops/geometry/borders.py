"""Borders: what lies beyond images, for windows that reach there."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from ...array import IntArray

__all__ = ["BORDERS", "sources"]

BORDERS: Final = ("constant", "clamp", "reflect_101", "reflect_1001", "wrap")
"""Named as in DALI, in the order of ``prelude.cuh``: of abcd, after d comes a level, ddd, cba, dcba, abc."""


@lru_cache(maxsize=64)  # most operators have the same borders in every call
def sources(first: int, count: int, length: int, border: str) -> IntArray:
    """Where the values at some places along an axis come from; -1 for nowhere.

    Args:
        first: the first place, negative before the axis begins.
        count: how many places there are, one after the other.
        length: of the axis.
        border: one of :data:`BORDERS`.
    """
    found = _sources(np.arange(first, first + count), length, border)
    found.flags.writeable = False
    return found


def _sources(at: IntArray, length: int, border: str) -> IntArray:
    if border == "constant":
        return np.where((at < 0) | (at >= length), -1, at)
    if border == "clamp":
        return at.clip(0, length - 1)
    period = {"wrap": length, "reflect_101": max(2 * length - 2, 1), "reflect_1001": 2 * length}[border]
    within = at % period
    mirrored = period - within - (border == "reflect_1001")
    return np.where(within < length, within, mirrored)
