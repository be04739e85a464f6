"""Boxes that cross the vanishing line of a mapping with perspective, which maps it to infinity."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...array import FloatArray

__all__ = ["across_horizon", "shown_box"]


def across_horizon(corners: FloatArray) -> npt.NDArray[np.bool_]:
    """Return which boxes lie on both sides of the vanishing line, or touch it.

    Args:
        corners: ``(…, 4, 3)``, the mapped corners in homogeneous coordinates. The last coordinate of the whole image
            may have either sign, because a matrix and its negative are the same map.
    """
    last = corners[..., 2]
    across: npt.NDArray[np.bool_] = np.asarray((last >= 0).any(axis=-1) & (last <= 0).any(axis=-1))
    return across


def shown_box(corners: FloatArray, height: int, width: int) -> FloatArray:
    """Return the smallest axis-aligned box around the visible part of a box that crosses the vanishing line.

    The mapped box extends to infinity, so it is clipped to the result. A result also shows the source beyond the
    vanishing line, rotated by 180 degrees, because its pixels are at ``(u / w, v / w)`` for either sign of ``w``.

    Args:
        corners: ``(4, 3)``, the mapped corners of the box in order around it, in homogeneous coordinates.
        height: rows of the result.
        width: columns of the result.

    Returns:
        Left, top, right and bottom; all 0 if nothing is visible.
    """
    # with w >= 0, a point is within the result if its product with each border is not negative
    borders = np.array([[1.0, 0, 0], [0, 1, 0], [-1, 0, width], [0, -1, height]])
    shown = [_cut(side * corners, borders) for side in (1.0, -1.0)]
    places = np.concatenate([part[:, :2] / part[:, 2:] for part in shown]).clip(0, (width, height))
    if not len(places):
        return np.zeros(4)
    return np.concatenate([places.min(axis=0), places.max(axis=0)])


def _cut(corners: FloatArray, borders: FloatArray) -> FloatArray:
    """Clip a polygon by borders; Sutherland and Hodgman 1974."""
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
