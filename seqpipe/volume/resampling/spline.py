"""Cubic B-splines: a volume interpolated by order 3, smooth and through its voxels, as ``scipy.ndimage`` does it."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Final

import numpy as np

from ...array import FloatArray
from ...bspline import PAD, coefficients, weights
from ..source import AnyArray

__all__ = ["MARGIN", "sampled"]

MARGIN: Final = 10
"""Voxels around a window that its values depend on, to 2e-6 of the range."""


def sampled(
    array: AnyArray,
    places_of: Callable[[int], FloatArray],
    shape: Seq[int],
    fill_value: float | None,
) -> AnyArray:
    """A volume at the places of another grid, in float64.

    Args:
        array: ``DHWC``.
        places_of: the places (3, H, W) in the array of a slice of the result.
        shape: D, H and W of the result.
        fill_value: what lies outside; None repeats the edge.
    """
    spline = coefficients(array, fill_value)
    made = np.empty((*shape, array.shape[3]))
    for depth in range(shape[0]):
        places = places_of(depth)
        # beyond its border the spline goes on into what fills
        beyond = 0 if fill_value is None else PAD - 3
        low = [float(-beyond)] * 3
        high = [n - 1.0 + beyond for n in array.shape[:3]]
        inside = np.clip(places, np.reshape(low, (3, 1, 1)), np.reshape(high, (3, 1, 1)))
        far = (places != inside).any(axis=0) if fill_value is not None else None
        cells = np.floor(inside)
        worth = weights(inside - cells)
        index = cells.astype(np.int64) + PAD - 1
        total = np.zeros((*places.shape[1:], array.shape[3]))
        for d in range(4):
            for h in range(4):
                outer = worth[0, ..., d] * worth[1, ..., h]
                for w in range(4):
                    taken = spline[index[0] + d, index[1] + h, index[2] + w]
                    total += taken * (outer * worth[2, ..., w])[..., None]
        if far is not None:
            total[far] = fill_value
        made[depth] = total
    return made
