"""Affine matrices ``(D, D + 1)`` of points, their products, and rotations about centers with sizes and boxes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ...array import FloatArray
from ...errors import ParameterError
from ...resampling.mapping import Extent

__all__ = [
    "between_regions",
    "product",
    "rotated_boxes",
    "rotated_extent",
    "rotation",
    "rotation_about",
    "scale",
    "shear",
    "translation",
]


def _square(rows: Any) -> FloatArray:
    """Append the last row of a homogeneous matrix."""
    matrix = np.asarray(rows, np.float64)
    return np.vstack([matrix, [*[0.0] * (matrix.shape[1] - 1), 1.0]])


def _around(linear: FloatArray, center: Any) -> FloatArray:
    """Return the matrix of a linear map around a center."""
    size = len(linear)
    fixed = np.zeros(size) if center is None else np.asarray(center, np.float64).reshape(-1)
    return np.column_stack([linear, fixed - linear @ fixed])


def translation(offset: Any) -> FloatArray:
    """Return the matrix that adds an offset, a number for each axis."""
    offsets = np.asarray(offset, np.float64).reshape(-1)
    return np.column_stack([np.eye(len(offsets)), offsets])


def scale(scale: Any, center: Any = None, ndim: Any = None) -> FloatArray:
    """Return the matrix that multiplies by a factor for each axis, or one for ``ndim`` axes, around a center."""
    factors = np.asarray(scale, np.float64).reshape(-1)
    if len(factors) == 1 and ndim is not None:
        factors = np.repeat(factors, int(ndim))
    return _around(np.diag(factors), center)


def rotation(angle: Any, axis: Any = None, center: Any = None) -> FloatArray:
    """Return the matrix that turns by degrees around a center, in space around an axis (Rodrigues' formula)."""
    turn = np.radians(float(np.asarray(angle).reshape(-1)[0]))
    cos, sin = np.cos(turn), np.sin(turn)
    if axis is None:
        return _around(np.array([[cos, -sin], [sin, cos]]), center)
    x, y, z = (v := np.asarray(axis, np.float64).reshape(-1)) / np.linalg.norm(v)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return _around(np.eye(3) * cos + sin * cross + (1 - cos) * np.outer([x, y, z], [x, y, z]), center)


def shear(shear: Any = None, angles: Any = None, center: Any = None) -> FloatArray:
    """Return the matrix that shears by factors, or by angles in degrees: 2 of them in the plane, 6 in space."""
    arguments = (
        np.tan(np.radians(np.asarray(angles, np.float64))) if shear is None else np.asarray(shear, np.float64)
    )
    if arguments.size == 2:
        x, y = arguments.reshape(-1)
        return _around(np.array([[1.0, x], [y, 1.0]]), center)
    (xy, xz), (yx, yz), (zx, zy) = arguments.reshape(3, 2)
    return _around(np.array([[1.0, xy, xz], [yx, 1.0, yz], [zx, zy, 1.0]]), center)


def between_regions(
    from_start: Any = (0.0, 0.0),
    from_end: Any = (1.0, 1.0),
    to_start: Any = (0.0, 0.0),
    to_end: Any = (1.0, 1.0),
    absolute: Any = False,
) -> FloatArray:
    """Return the matrix that maps a region to another one, each by its start and end along each axis."""
    points = [np.asarray(point, np.float64).reshape(-1) for point in (from_start, from_end, to_start, to_end)]
    size = max(map(len, points))
    a, b, c, d = (np.repeat(point, size) if len(point) == 1 else point for point in points)
    if np.all(absolute):  # start and end of an axis may be in any order
        (a, b), (c, d) = np.sort([a, b], axis=0), np.sort([c, d], axis=0)
    factor = (d - c) / (b - a)
    return np.column_stack([np.diag(factor), c - factor * a])


def product(matrices: list[Any], reverse: bool) -> npt.NDArray[np.float32]:
    """Return the product of matrices; the first is applied first, or the last with ``reverse``.

    Raises:
        ParameterError: the matrices differ in shape.
    """
    shapes = {np.shape(matrix) for matrix in matrices}
    if len(shapes) > 1:
        raise ParameterError(
            f"matrices of the shapes {sorted(shapes)}", source="fn.transforms", allowed="one shape"
        )
    product = np.eye(next(iter(shapes))[1])
    for matrix in reversed(matrices) if reverse else matrices:
        product = _square(matrix) @ product
    return product[:-1].astype(np.float32)


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
