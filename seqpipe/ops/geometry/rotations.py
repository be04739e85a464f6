"""Rotations about centers by degrees: matrices, sizes of results, and boxes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import ParameterError
from ...resampling.mapping import Extent

__all__ = ["rotated_boxes", "rotated_extent", "rotation_about"]


def rotation_about(angle: float, axis: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the 3×3 matrix from slice, row and column of the result to those of the volume, about their centers.

    Raises:
        ParameterError: the axis is no vector of x, y and z.
    """
    if axis.size != 3 or not np.any(axis):
        raise ParameterError(f"axis={axis.tolist()}", source="fn.rotate", allowed="x, y and z, not all 0")
    x, y, z = (axis / np.linalg.norm(axis)).tolist()
    cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    if angle % 90 == 0:
        cosine, sine = round(cosine), round(sine)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])  # Rodrigues' formula
    turned = cosine * np.eye(3) + sine * cross + (1 - cosine) * np.outer((x, y, z), (x, y, z))
    return np.asarray(turned.T[::-1, ::-1], np.float64)


def rotated_extent(matrix: npt.NDArray[np.float64], extent: Extent) -> Extent:
    """Return the size that shows all of a rotated volume, by DALI's rule: as even as that of the nearest axis."""
    spread = np.abs(matrix.T)
    sides = np.ceil(spread @ extent - 0.01).astype(int)
    like = np.array(extent)[spread.argmax(axis=1)]
    d, h, w = (sides + (sides - like) % 2).tolist()
    return d, h, w


def rotated_boxes(
    boxes: npt.NDArray[np.float64],
    angle: float,
    before: tuple[float, float],
    after: tuple[float, float],
    mode: str,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return rotated boxes cropped to the result, and the share of each that is inside.

    Args:
        boxes: left, top, right and bottom in pixels.
        angle: in degrees.
        before: height and width of the image.
        after: height and width of the rotated image.
        mode: "expand" encloses the rotated box; "fixed" keeps its sides, exchanged beyond 45 degrees; "halfway" is
            between both.
    """
    cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    old, new = np.array(before[::-1]) / 2, np.array(after[::-1]) / 2
    center, sides = (boxes[:, :2] + boxes[:, 2:]) / 2 - old, boxes[:, 2:] - boxes[:, :2]
    center = center @ np.array([[cosine, -sine], [sine, cosine]]) + new
    enclosing = sides @ np.abs([[cosine, sine], [sine, cosine]])
    fixed = sides[:, ::-1] if abs(sine) > abs(cosine) else sides
    sides = {"expand": enclosing, "fixed": fixed, "halfway": (enclosing + fixed) / 2}[mode]
    whole = np.concatenate([center - sides / 2, center + sides / 2], axis=1)
    clipped = whole.clip(0, np.tile(2 * new, 2))
    area = np.maximum((clipped[:, 2:] - clipped[:, :2]).prod(axis=1), 0)
    return clipped, area / np.maximum(sides.prod(axis=1), 1e-12)
