"""Mapping: where the pixels of a result come from; what moves pixels, points, boxes and a volume's space alike."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...array import FloatArray
from ...errors import ParameterError
from .horizon import across_horizon, shown_box
from .interpolate import places_of

__all__ = ["Mapping", "Mappings", "scaling", "spacing_of"]


class Mapping(NamedTuple):
    """A projective map between images.

    Attributes:
        matrix: 3×3, from the result to the source: ``(x, y, 1)`` of a place in the result is sent to the place in the
            source whose value it takes. Pixel ``i`` reaches from ``i`` to ``i + 1``, so that its center is at
            ``i + 0.5``.
        height: rows of the result.
        width: columns of the result.
    """

    matrix: FloatArray
    height: int
    width: int

    @classmethod
    def identity(cls, height: int, width: int) -> Mapping:
        """The map that leaves images of a size as they are."""
        return cls(scaling(0, 1, 0, 1), height, width)

    def then(self, later: Mapping) -> Mapping:
        """This one and then another, as one."""
        return Mapping(self.matrix @ later.matrix, later.height, later.width)

    def source(self, places: npt.ArrayLike) -> FloatArray:
        """Where places of the result come from.

        Args:
            places: ``(…, 2)``, x and y in pixels.
        """
        return _projected(self.matrix, np.asarray(places, np.float64))

    def points(self, places: npt.ArrayLike) -> FloatArray:
        """Where places of the source go.

        Args:
            places: ``(…, 2)``, x and y in pixels.

        Raises:
            ParameterError: the result shows several of them in one place, or one in several.
        """
        return _projected(self._inverse(), np.asarray(places, np.float64))

    def boxes(self, boxes: npt.ArrayLike) -> FloatArray:
        """The smallest upright boxes around where boxes of the source go; they are not cut off at the borders.

        But for those across the horizon of a map with perspective, of which a result shows what reaches to infinity:
        these are around what it shows, and all 0 where that is nothing.

        Args:
            boxes: ``(…, 4)``, left, top, right and bottom in pixels.
        """
        given = np.asarray(boxes, np.float64)
        corners = np.stack([given[..., [x, y]] for x, y in ((0, 1), (0, 3), (2, 3), (2, 1))], axis=-2)
        moved = _homogeneous(self._inverse(), corners)
        across = across_horizon(moved)
        result = np.empty(given.shape)
        places = moved[~across][..., :2] / moved[~across][..., 2:]
        result[~across] = np.concatenate([places.min(axis=-2), places.max(axis=-2)], axis=-1)
        result[across] = [shown_box(one, self.height, self.width) for one in moved[across]] or 0
        return result

    def _inverse(self) -> FloatArray:
        try:
            return np.asarray(np.linalg.inv(self.matrix), np.float64)
        except np.linalg.LinAlgError as error:
            raise ParameterError(
                f"boxes or points with a map that has no inverse, {self.matrix.tolist()}",
                allowed="a map that sends no two places to one",
            ) from error

    def affine(self, affine: FloatArray) -> FloatArray:
        """The affine of the result of a volume.

        Args:
            affine: 4×4, from voxel ``(slice, row, column)`` to millimeters.

        Returns:
            4×4.

        Raises:
            ParameterError: the map has perspective, and leaves no grid of evenly spaced voxels.
        """
        last = self.matrix[2]
        if last[0] or last[1] or not last[2]:
            raise ParameterError(
                f"a volume with an affine by a map with perspective, {self.matrix.tolist()}",
                allowed="maps whose last row is 0, 0 and a number",
                advice="Give the array without its affine",
            )
        in_plane = self.matrix / self.matrix[2, 2]
        center = in_plane @ [0.5, 0.5, 1] - [0.5, 0.5, 0]
        voxels = np.eye(4)
        voxels[1, 1:3], voxels[2, 1:3] = in_plane[1, 1::-1], in_plane[0, 1::-1]
        voxels[1, 3], voxels[2, 3] = center[1], center[0]
        result: FloatArray = affine @ voxels
        return result

    def nearest(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Images ``(…, H, W, C)`` moved, every pixel that of the source in which its center comes to lie; 0 outside.

        Places are in float32, as kernels and interpolation have them: at the border of two pixels, labels are taken
        from the one that the nearest of images is taken from.
        """
        places = places_of(self.matrix.astype(np.float32), self.height, self.width)
        source = np.floor(np.stack(places, axis=-1)).astype(np.int64)
        height, width = x.shape[-3:-1]
        inside = (source >= 0).all(-1) & (source[..., 0] < width) & (source[..., 1] < height)
        at = np.where(inside[..., None], source, 0)
        moved: npt.NDArray[Any] = np.where(
            inside[..., None], x[..., at[..., 1], at[..., 0], :], x.dtype.type(0)
        )
        return moved


class Mappings(NamedTuple):
    """Those of some rows of parameters.

    Attributes:
        matrices: ``(R, 3, 3)``.
        sizes: rows and columns of each result.
    """

    matrices: FloatArray
    sizes: list[tuple[int, int]]

    def each(self) -> list[Mapping]:
        """One by one."""
        return [Mapping(matrix, *size) for matrix, size in zip(self.matrices, self.sizes, strict=True)]


def scaling(left: Any, across: Any, top: Any, down: Any) -> FloatArray:
    """The matrix of a map along both axes: where the result begins, and the source pixels for each of its pixels.

    Args:
        left: the column where it begins; or that of each of some maps, and likewise the others.
        across: source columns for each of its own.
        top: the row where it begins.
        down: source rows for each of its own.

    Returns:
        ``(3, 3)``, or ``(R, 3, 3)``.
    """
    maps = getattr(left, "shape", ())
    if not maps:
        return np.array(((across, 0, left), (0, down, top), (0, 0, 1)), np.float64)
    matrix = np.zeros((*maps, 3, 3))
    matrix[..., 0, 0], matrix[..., 0, 2] = across, left
    matrix[..., 1, 1], matrix[..., 1, 2] = down, top
    matrix[..., 2, 2] = 1
    return matrix


def spacing_of(affine: FloatArray) -> tuple[float, float, float]:
    """The spacing of voxels along slices, rows and columns in mm.

    Args:
        affine: 4×4, from voxel ``(slice, row, column)`` to millimeters.

    Raises:
        ParameterError: along one of them it is 0, or no number.
    """
    spacing: tuple[float, float, float] = tuple(np.linalg.norm(affine[:3, :3], axis=0).tolist())
    if not all(0 < one < np.inf for one in spacing):
        raise ParameterError(
            f"an affine with a spacing of {' × '.join(f'{one:g}' for one in spacing)} mm",
            allowed="numbers above 0",
            advice="Mend the affine of the sequence, or leave it out",
        )
    return spacing


def _homogeneous(matrix: FloatArray, places: FloatArray) -> FloatArray:
    result: FloatArray = np.concatenate([places, np.ones_like(places[..., :1])], axis=-1) @ matrix.T
    return result


def _projected(matrix: FloatArray, places: FloatArray) -> FloatArray:
    moved = _homogeneous(matrix, places)
    result: FloatArray = moved[..., :2] / moved[..., 2:]
    return result
