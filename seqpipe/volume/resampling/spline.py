"""Cubic B-splines: a volume interpolated by order 3, smooth and through its voxels, as ``scipy.ndimage`` does it."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Final

import numpy as np

from ...array import FloatArray
from ..source import AnyArray

__all__ = ["MARGIN", "PAD", "coefficients", "sampled"]

MARGIN: Final = 10
"""Voxels around a window that its values depend on, to 2e-6 of the range."""
PAD: Final = 12
"""Voxels that are added at each border before coefficients are computed, as SciPy adds them."""

_POLE: Final = np.sqrt(3.0) - 2.0


def coefficients(array: AnyArray, fill_value: float | None) -> FloatArray:
    """The coefficients of the spline through all voxels of ``DHWC``, :data:`PAD` more at each border.

    Args:
        array: of any real type.
        fill_value: what lies outside; None repeats the edge.
    """
    sides = [(PAD, PAD)] * 3 + [(0, 0)]
    wide = array.astype(np.float64)
    made: FloatArray = (
        np.pad(wide, sides, mode="edge")
        if fill_value is None
        else np.pad(wide, sides, constant_values=fill_value)
    )
    for axis in range(3):
        _filter(np.moveaxis(made, axis, 0))
    return made


def _filter(lines: FloatArray) -> None:
    """The recursive filter along the first axis, in place, with mirrored ends; its length is above 24."""
    lines *= (1 - _POLE) * (1 - 1 / _POLE)
    powers = _POLE ** np.arange(len(lines))
    lines[0] = np.tensordot(powers, lines, 1)  # the end's mirror image is beyond float64
    for n in range(1, len(lines)):
        lines[n] += _POLE * lines[n - 1]
    lines[-1] = _POLE / (_POLE * _POLE - 1) * (lines[-1] + _POLE * lines[-2])
    for n in range(len(lines) - 2, -1, -1):
        lines[n] = _POLE * (lines[n + 1] - lines[n])


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
        weights = _weights(inside - cells)
        index = cells.astype(np.int64) + PAD - 1
        total = np.zeros((*places.shape[1:], array.shape[3]))
        for d in range(4):
            for h in range(4):
                outer = weights[d][0] * weights[h][1]
                for w in range(4):
                    taken = spline[index[0] + d, index[1] + h, index[2] + w]
                    total += taken * (outer * weights[w][2])[..., None]
        if far is not None:
            total[far] = fill_value
        made[depth] = total
    return made


def _weights(part: FloatArray) -> list[FloatArray]:
    """Those of the four coefficients around a place, from how far it is beyond the second."""
    rest = 1 - part
    return [
        rest**3 / 6,
        2 / 3 - part**2 * (2 - part) / 2,
        2 / 3 - rest**2 * (2 - rest) / 2,
        part**3 / 6,
    ]
