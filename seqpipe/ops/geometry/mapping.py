"""Mapping: a projective map from a result to its source, which moves pixels, points, boxes and affines."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...array import FloatArray
from ...errors import ParameterError
from ..core.declaration import Declaration
from ..core.distributions import Number
from ..core.parameters import param
from .interpolate import coordinates_of

__all__ = ["Mapping", "Mappings", "OutputSize", "Windowed", "mirrored", "scaling", "spacing_of"]


class Mapping(NamedTuple):
    """A projective map between images.

    Attributes:
        matrix: 3×3, from the result to the source: it maps ``(x, y, 1)`` in the result to the point of the source whose
            value the result shows. Pixel ``i`` extends from ``i`` to ``i + 1``, so its center is at ``i + 0.5``.
        height: rows of the result.
        width: columns of the result.
    """

    matrix: FloatArray
    height: int
    width: int

    @classmethod
    def identity(cls, height: int, width: int) -> Mapping:
        """Return the identity map for images of a size."""
        return cls(scaling(0, 1, 0, 1), height, width)

    def then(self, later: Mapping) -> Mapping:
        """Return this map followed by another one."""
        return Mapping(self.matrix @ later.matrix, later.height, later.width)

    def source(self, points: npt.ArrayLike) -> FloatArray:
        """Map points of the result to the source.

        Args:
            points: ``(…, 2)``, x and y in pixels.
        """
        return _projected(self.matrix, np.asarray(points, np.float64))

    def points(self, points: npt.ArrayLike) -> FloatArray:
        """Map points of the source to the result.

        Args:
            points: ``(…, 2)``, x and y in pixels.

        Raises:
            ParameterError: the map has no inverse.
        """
        return _projected(self._inverse(), np.asarray(points, np.float64))

    def boxes(self, boxes: npt.ArrayLike) -> FloatArray:
        """Return the smallest axis-aligned boxes around the mapped boxes of the source, not clipped to the result.

        Boxes that cross the vanishing line of a map with perspective are an exception, as they extend to infinity:
        their result is the box around the visible part, and all 0 if nothing is visible.

        Args:
            boxes: ``(…, 4)``, left, top, right and bottom in pixels.
        """
        sides = np.asarray(boxes, np.float64)
        corners = np.stack([sides[..., [x, y]] for x, y in ((0, 1), (0, 3), (2, 3), (2, 1))], axis=-2)
        moved = _homogeneous(self._inverse(), corners)
        across = _across_horizon(moved)
        result = np.empty(sides.shape)
        corner_points = moved[~across][..., :2] / moved[~across][..., 2:]
        result[~across] = np.concatenate([corner_points.min(axis=-2), corner_points.max(axis=-2)], axis=-1)
        result[across] = [_shown_box(box, self.height, self.width) for box in moved[across]] or 0
        return result

    def _inverse(self) -> FloatArray:
        try:
            return np.asarray(np.linalg.inv(self.matrix), np.float64)
        except np.linalg.LinAlgError as error:
            raise ParameterError(
                f"boxes or points with a map that has no inverse, {self.matrix.tolist()}",
                allowed="an invertible map",
            ) from error

    def affine(self, affine: FloatArray) -> FloatArray:
        """The affine of the result of a volume.

        Args:
            affine: 4×4, from voxel ``(slice, row, column)`` to millimeters.

        Returns:
            4×4.

        Raises:
            ParameterError: the map has perspective, so that the voxels of the result are not evenly spaced.
        """
        last = self.matrix[2]
        if last[0] or last[1] or not last[2]:
            raise ParameterError(
                f"a volume with an affine by a map with perspective, {self.matrix.tolist()}",
                allowed="maps whose last row is 0, 0 and a number",
                advice="Pass the array without its affine",
            )
        in_plane = self.matrix / self.matrix[2, 2]
        center = in_plane @ [0.5, 0.5, 1] - [0.5, 0.5, 0]
        voxels = np.eye(4)
        voxels[1, 1:3], voxels[2, 1:3] = in_plane[1, 1::-1], in_plane[0, 1::-1]
        voxels[1, 3], voxels[2, 3] = center[1], center[0]
        result: FloatArray = affine @ voxels
        return result

    def nearest(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Move images ``(…, H, W, C)`` by the nearest pixel; 0 outside.

        Coordinates are float32, as in kernels and interpolation, so that at pixel borders labels are taken from the
        same pixels as images.
        """
        coordinates = coordinates_of(self.matrix.astype(np.float32), self.height, self.width)
        source = np.floor(np.stack(coordinates, axis=-1)).astype(np.int64)
        height, width = x.shape[-3:-1]
        inside = (source >= 0).all(-1) & (source[..., 0] < width) & (source[..., 1] < height)
        at = np.where(inside[..., None], source, 0)
        moved: npt.NDArray[Any] = np.where(
            inside[..., None], x[..., at[..., 1], at[..., 0], :], x.dtype.type(0)
        )
        return moved


class Mappings(NamedTuple):
    """Mappings of several rows of parameters.

    Attributes:
        matrices: ``(R, 3, 3)``.
        sizes: height and width of each result.
    """

    matrices: FloatArray
    sizes: list[tuple[int, int]]

    def each(self) -> list[Mapping]:
        """Return one mapping for each row."""
        return [Mapping(matrix, *size) for matrix, size in zip(self.matrices, self.sizes, strict=True)]


def scaling(left: Any, across: Any, top: Any, down: Any) -> FloatArray:
    """Return the matrix of a map along both axes."""
    maps = getattr(left, "shape", ())
    if not maps:
        return np.array(((across, 0, left), (0, down, top), (0, 0, 1)), np.float64)
    matrix = np.zeros((*maps, 3, 3))
    matrix[..., 0, 0], matrix[..., 0, 2] = across, left
    matrix[..., 1, 1], matrix[..., 1, 2] = down, top
    matrix[..., 2, 2] = 1
    return matrix


def spacing_of(affine: FloatArray) -> tuple[float, float, float]:
    """Return the spacing of voxels along slices, rows and columns in mm."""
    spacing: tuple[float, float, float] = tuple(np.linalg.norm(affine[:3, :3], axis=0).tolist())
    if not all(0 < side < np.inf for side in spacing):
        raise ParameterError(
            f"an affine with a spacing of {' × '.join(f'{side:g}' for side in spacing)} mm",
            allowed="numbers above 0",
            advice="Correct the affine of the sequence, or leave it out",
        )
    return spacing


def _homogeneous(matrix: FloatArray, points: FloatArray) -> FloatArray:
    result: FloatArray = np.concatenate([points, np.ones_like(points[..., :1])], axis=-1) @ matrix.T
    return result


def _projected(matrix: FloatArray, points: FloatArray) -> FloatArray:
    moved = _homogeneous(matrix, points)
    result: FloatArray = moved[..., :2] / moved[..., 2:]
    return result


def _across_horizon(corners: FloatArray) -> npt.NDArray[np.bool_]:
    """Return which boxes lie on both sides of the vanishing line, or touch it.

    Args:
        corners: ``(…, 4, 3)``, the mapped corners in homogeneous coordinates. The last coordinate of the whole image
            may have either sign, because a matrix and its negative are the same map.
    """
    last = corners[..., 2]
    across: npt.NDArray[np.bool_] = np.asarray((last >= 0).any(axis=-1) & (last <= 0).any(axis=-1))
    return across


def _shown_box(corners: FloatArray, height: int, width: int) -> FloatArray:
    """Return the smallest axis-aligned box around the visible part of a box that crosses the vanishing line.

    The mapped box extends to infinity, so it is clipped to the result. A result also shows the source beyond the
    vanishing line, rotated by 180 degrees, because its pixels are at ``(u / w, v / w)`` for either sign of ``w``.
    """
    # with w >= 0, a point is within the result if its product with each border is not negative
    borders = np.array([[1.0, 0, 0], [0, 1, 0], [-1, 0, width], [0, -1, height]])
    shown = [_cut(side * corners, borders) for side in (1.0, -1.0)]
    visible = np.concatenate([part[:, :2] / part[:, 2:] for part in shown]).clip(0, (width, height))
    if not len(visible):
        return np.zeros(4)
    return np.concatenate([visible.min(axis=0), visible.max(axis=0)])


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


class Windowed(Declaration, register=False):
    """Parameters of operators that crop a window."""

    crop: tuple[int, int] | None = param(
        None, "(height, width) of the window; None for the whole image", kind=int, size=2, lo=1, drawn=False
    )
    crop_pos_x: Number = param(
        0.5, "horizontal position of the window, from 0 (left) to 1 (right)", lo=0, hi=1
    )
    crop_pos_y: Number = param(0.5, "vertical position of the window, from 0 (top) to 1 (bottom)", lo=0, hi=1)

    def window_of(self, p: Any, height: int, width: int) -> Mapping:
        """Return the mapping of the window.

        Args:
            p: the parameters.
            height: rows of the image.
            width: columns of the image.

        Raises:
            ParameterError: the window is larger than the image.
        """
        rows, columns = self.crop or (height, width)
        if rows > height or columns > width:
            raise self.refusal(
                f"crop={self.crop} of images of {height}×{width} pixels",
                allowed=f"up to {height} rows and {width} columns",
                advice="Resize or pad the images first",
            )
        # rounds halves up, as DALI does
        left, top = (
            math.floor(float(part) * margin + 0.5)
            for part, margin in ((p.crop_pos_x, width - columns), (p.crop_pos_y, height - rows))
        )
        return Mapping(scaling(left, 1, top, 1), rows, columns)


class OutputSize(Declaration, register=False):
    """Parameter of operators with an optional output size."""

    size: tuple[int, int] | None = param(
        None,
        "(height, width) of the result; None for those of the input",
        kind=int,
        size=2,
        lo=1,
        drawn=False,
    )


def mirrored(mapping: Mapping, *, left_right: bool) -> Mapping:
    """Return a mapping, followed by mirroring left to right if asked for."""
    if not left_right:
        return mapping
    return mapping.then(Mapping(scaling(mapping.width, -1, 0, 1), mapping.height, mapping.width))
