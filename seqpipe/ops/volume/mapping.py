"""Mapping3: a mapping from the voxels of a result to those of its source."""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, TypeAlias

import numpy as np

from ...array import FloatArray
from ...core.cached import cached_property
from .lattice import Lattice

__all__ = ["IDENTITY", "Extent", "Mapping3", "rotation_matrix", "transformed"]

Extent: TypeAlias = tuple[int, int, int]
"""Slices, rows and columns."""
IDENTITY: Final = np.eye(4)
IDENTITY.flags.writeable = False
_FIRST_ROW: Final = [1.0, 0.0, 0.0, 0.0]

_CORNERS: Final = tuple(product((0.0, 1.0), repeat=3))
_WITH_CENTERS: Final = tuple(product((0.0, 0.5, 1.0), repeat=3))


@dataclass(eq=False)
class Mapping3:
    """The position in the source of a result's voxel ``y``: ``pre · φ(post · y)``, with ``φ(q) = q + lattice(q)``.

    Positions are indices (slice, row, column) of voxels, whose centers are at integers.

    Attributes:
        pre: 4×4, from the grid of the field to the source.
        post: 4×4, from the result to the field's grid; the identity where there is no field.
        lattice: the field, or None.
        size: slices, rows and columns of the result.
    """

    size: Extent
    pre: FloatArray = field(default_factory=lambda: IDENTITY)
    lattice: Lattice | None = None
    post: FloatArray = field(default_factory=lambda: IDENTITY)

    def then(self, matrix: FloatArray, size: Extent) -> Mapping3:
        """Return this mapping after a matrix, which maps the voxels of a new result to those of this one's.

        Args:
            matrix: 4×4.
            size: slices, rows and columns of the new result.
        """
        if self.lattice is None:
            return Mapping3(size, _product(self.pre, matrix))
        return Mapping3(size, self.pre, self.lattice, _product(self.post, matrix))

    def warped(self, lattice: Lattice) -> Mapping3:
        """Return this mapping, which has no field, with a field over its result."""
        return Mapping3(self.size, self.pre, lattice)

    @cached_property
    def matrix(self) -> FloatArray:
        """The product of both matrices: the factor of an affine, and the whole mapping if it has no field."""
        return _product(self.pre, self.post)

    @cached_property
    def in_plane(self) -> bool:
        """Whether slices map to slices, so that one table of positions suffices for all of them."""
        first, *others = self.pre.tolist()
        if (
            abs(first[0]) != 1
            or first[1]
            or first[2]
            or not first[3].is_integer()
            or others[0][0]
            or others[1][0]
        ):
            return False
        if self.lattice is None:  # then the other matrix is the identity
            return True
        first, *others = self.post.tolist()
        return first == _FIRST_ROW and not (others[0][0] or others[1][0]) and self.lattice.in_plane

    @cached_property
    def permutation(self) -> tuple[tuple[int, int, int], ...] | None:
        """For each axis of the source, the axis of the result, step and offset; None unless it only permutes voxels."""
        if self.lattice is not None:
            return None
        entries = []
        for row in self.matrix.tolist()[:3]:
            axes = [axis for axis in range(3) if row[axis]]
            if len(axes) != 1 or abs(row[axes[0]]) != 1 or not row[3].is_integer():
                return None
            entries.append((axes[0], int(row[axes[0]]), int(row[3])))
        return tuple(entries) if len({axis for axis, _, _ in entries}) == len(entries) else None

    def positions(self, points: FloatArray) -> FloatArray:
        """Map positions ``(…, 3)`` of the result to the source."""
        if self.lattice is None:
            return transformed(self.matrix, points)
        within = transformed(self.post, points)
        return transformed(self.pre, within + self.lattice.displacements(within))

    def points(self, points: FloatArray) -> FloatArray:
        """Map points ``(…, 3)`` of the source to the result."""
        if self.lattice is None:
            return transformed(np.linalg.inv(self.matrix), points)
        within = self.lattice.inverted(transformed(np.linalg.inv(self.pre), points))
        return transformed(np.linalg.inv(self.post), within)

    def boxes(self, boxes: FloatArray) -> FloatArray:
        """Map boxes of the source to the smallest upright boxes ``(K, 6)``, first and last corner, of the result."""
        parts = np.array(_CORNERS if self.lattice is None else _WITH_CENTERS)
        lo, hi = boxes[:, None, :3], boxes[:, None, 3:]
        moved = self.points(lo + (hi - lo) * parts)
        return np.concatenate([moved.min(axis=1), moved.max(axis=1)], axis=1)

    @property
    def summary(self) -> str:
        """The kind of gather, in words."""
        if self.permutation is not None:
            return "voxels are permuted without interpolation"
        through = " through an elastic field" if self.lattice is not None else ""
        return f"slice by slice, in the plane{through}" if self.in_plane else f"in three dimensions{through}"


def _product(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the product of two matrices, one of them if the other is :data:`IDENTITY`, which saves most products."""
    if first is IDENTITY:
        return second
    return first if second is IDENTITY else first @ second


def transformed(matrix: Any, points: FloatArray | Seq[float]) -> FloatArray:
    """Transform positions ``(…, 3)`` by a 4×4 matrix."""
    positions: FloatArray = np.asarray(points, np.float64)
    result: FloatArray = positions @ matrix[:3, :3].T + matrix[:3, 3]
    return result


def rotation_matrix(angles: FloatArray | Seq[float]) -> list[list[float]]:
    """Return the matrix of rotations about columns, rows and slices, in this order.

    Args:
        angles: degrees about slices, rows and columns.
    """
    x, y, z = (math.radians(angle) for angle in angles)
    a, b, c = math.cos(x), math.cos(y), math.cos(z)
    u, v, w = math.sin(x), math.sin(y), math.sin(z)
    return [
        [b * c, -b * w, -v],
        [a * w - u * v * c, a * c + u * v * w, -u * b],
        [u * w + a * v * c, u * c - a * v * w, a * b],
    ]
