"""Boxes across the horizon of a map with perspective, which sends a line of the source to infinity."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...array import FloatArray

__all__ = ["across_horizon", "shown_box"]


def across_horizon(corners: FloatArray) -> npt.NDArray[np.bool_]:
    """Which boxes lie on both sides of it, or touch it.

    Args:
        corners: ``(…, 4, 3)``, where the corners of each go, in homogeneous coordinates. Either sign of the last may
            be that of the whole image: a matrix and its negative are one map.
    """
    last = corners[..., 2]
    across: npt.NDArray[np.bool_] = np.asarray((last >= 0).any(axis=-1) & (last <= 0).any(axis=-1))
    return across


def shown_box(corners: FloatArray, height: int, width: int) -> FloatArray:
    """The smallest upright box around what a result shows of a box that lies across the horizon.

    That reaches to infinity, so it is cut off at the borders. On the other side of the horizon a result shows the
    source too, turned round, for its pixels are those at ``(u / w, v / w)`` whatever the sign of ``w``.

    Args:
        corners: ``(4, 3)``, where the box's corners go, one beside the next, in homogeneous coordinates.
        height: rows of the result.
        width: columns of the result.

    Returns:
        Left, top, right and bottom; all 0 where nothing of it is shown.
    """
    # a place of the last coordinate w is within the borders if each of these is not negative, and so is w then
    borders = np.array([[1.0, 0, 0], [0, 1, 0], [-1, 0, width], [0, -1, height]])
    shown = [_cut(side * corners, borders) for side in (1.0, -1.0)]
    places = np.concatenate([part[:, :2] / part[:, 2:] for part in shown]).clip(0, (width, height))
    if not len(places):
        return np.zeros(4)
    return np.concatenate([places.min(axis=0), places.max(axis=0)])


def _cut(corners: FloatArray, borders: FloatArray) -> FloatArray:
    """What is left of a polygon within some borders, by the method of Sutherland and Hodgman 1974."""
    for border in borders:
        distances = corners @ border
        left: list[FloatArray] = []
        for number, distance in enumerate(distances):
            before = distances[number - 1]
            if (distance >= 0) != (before >= 0):
                share = before / (before - distance)
                left.append(corners[number - 1] + share * (corners[number] - corners[number - 1]))
            if distance >= 0:
                left.append(corners[number])
        corners = np.array(left).reshape(-1, 3)
    return corners[corners[:, 2] > 0]
