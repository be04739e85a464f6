"""Mapping3: a mapping from the voxels of a result to those of its source."""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ..array import FloatArray
from ..core.cached import cached_property
from ..random import generator_at

__all__ = [
    "FOLD_LIMIT",
    "IDENTITY",
    "DrawnControl",
    "Extent",
    "Lattice",
    "Mapping3",
    "nodes_for",
    "rotation_matrix",
    "spline_weights",
    "transformed",
]

Extent: TypeAlias = tuple[int, int, int]
"""Slices, rows and columns."""
IDENTITY: Final = np.eye(4)
IDENTITY.flags.writeable = False
_FIRST_ROW: Final = [1.0, 0.0, 0.0, 0.0]

_CORNERS: Final = tuple(product((0.0, 1.0), repeat=3))
_WITH_CENTERS: Final = tuple(product((0.0, 0.5, 1.0), repeat=3))


def spline_weights(offset: FloatArray) -> FloatArray:
    """Return the weights of the four coefficients around a position, in a new last axis."""
    rest = 1 - offset
    cubics = [rest**3, 3 * offset**3 - 6 * offset**2 + 4, 3 * rest**3 - 6 * rest**2 + 4, offset**3]
    result: FloatArray = np.stack(cubics, axis=-1) / 6
    return result


def _spline_slopes(offset: FloatArray) -> FloatArray:
    """Return the derivatives of :func:`spline_weights` with respect to the position."""
    rest = 1 - offset
    quadratics = [-3 * rest**2, 9 * offset**2 - 12 * offset, -9 * rest**2 + 12 * rest, 3 * offset**2]
    result: FloatArray = np.stack(quadratics, axis=-1) / 6
    return result


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
        """Return this mapping after a matrix, which maps the voxels of a new result to those of this one's."""
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
    """Return the matrix of rotations about columns, rows and slices, in this order."""
    x, y, z = (math.radians(angle) for angle in angles)
    a, b, c = math.cos(x), math.cos(y), math.cos(z)
    u, v, w = math.sin(x), math.sin(y), math.sin(z)
    return [
        [b * c, -b * w, -v],
        [a * w - u * v * c, a * c + u * v * w, -u * b],
        [u * w + a * v * c, u * c - a * v * w, a * b],
    ]


FOLD_LIMIT: Final = 0.40
"""Greatest displacement along an axis, as a fraction of the distance between control points: the field cannot fold.

Choi and Lee prove 1/2.48 in three dimensions (1/2.05 in two) to be safe for cubic B-splines.
"""

_INVERSE_TOLERANCE: Final = 1e-9  # of a voxel
_MOST_STEPS: Final = 60
_START: Final = (0, 0, 0, 0)  # of a key's random numbers


def nodes_for(size: Seq[int], distance: Seq[float]) -> tuple[int, int, int]:
    """Return the number of control points along each axis: one before the first voxel, two after the last one."""
    d, h, w = [max(1, math.ceil((n - 1) / step)) + 3 for n, step in zip(size, distance, strict=True)]
    return d, h, w


@dataclass(eq=False)
class DrawnControl:
    """Control displacements, uniform between a maximum and its negative, generated from a key: here, or on a GPU.

    Attributes:
        key: two words.
        nodes: slices, rows and columns of control points.
        most: maximum displacement along each axis, in voxels.
        flat: whether all slices of control points are equal, without displacement along slices.
    """

    key: tuple[int, int]
    nodes: tuple[int, int, int]
    most: tuple[float, float, float]
    flat: bool = False

    @cached_property
    def values(self) -> npt.NDArray[np.float32]:
        """The displacements, as in :class:`Lattice`; ``control.cu`` computes the same."""
        d, h, w = self.nodes
        with generator_at(self.key, _START) as rng:
            control = rng.random((1 if self.flat else d, h, w, 3))
        # as uniform(-1, 1) has them, in the memory that they are in
        control *= 2
        control -= 1
        control *= self.most
        if self.flat:
            control[..., 0] = 0
            control = control.repeat(d, axis=0)
        values: npt.NDArray[np.float32] = control.astype(np.float32)
        return values


@dataclass(eq=False)
class Lattice:
    """Control displacements and their positions.

    Attributes:
        points: float32 (slices, rows, columns of control points, 3), in voxels along each axis, or their generator.
            Point ``k`` of an axis is at ``(k - 1) * distance``.
        distance: between control points, in voxels, along each axis.
    """

    points: npt.NDArray[np.float32] | DrawnControl
    distance: tuple[float, float, float]

    @property
    def control(self) -> npt.NDArray[np.float32]:
        """The displacements of the control points."""
        return self.points.values if isinstance(self.points, DrawnControl) else self.points

    @property
    def nodes(self) -> tuple[int, int, int]:
        """Slices, rows and columns of control points."""
        if isinstance(self.points, DrawnControl):
            return self.points.nodes
        d, h, w = self.points.shape[:3]
        return d, h, w

    @property
    def in_plane(self) -> bool:
        """Whether the displacement is equal in all slices, and 0 along them."""
        if isinstance(self.points, DrawnControl):
            return self.points.flat
        return not self.points[..., 0].any() and bool((self.points == self.points[:1]).all())

    def displacements(self, positions: FloatArray) -> FloatArray:
        """Return the displacement at positions ``(…, 3)``, in voxels."""
        return self._evaluated(positions, None)

    def jacobian(self, positions: FloatArray) -> FloatArray:
        """Return the Jacobian ``(…, 3, 3)`` of the displaced position."""
        parts = [self._evaluated(positions, axis) for axis in range(3)]
        matrices: FloatArray = np.stack(parts, axis=-1) + np.eye(3)
        return matrices

    def inverted(self, positions: FloatArray) -> FloatArray:
        """Return the positions ``(…, 3)`` that the field moves to these ones, by Newton's method."""
        points = positions - self.displacements(positions)
        for _ in range(_MOST_STEPS):
            off = points + self.displacements(points) - positions
            if not off.size or np.abs(off).max() < _INVERSE_TOLERANCE:
                break
            points = points - np.linalg.solve(self.jacobian(points), off[..., None])[..., 0]
        return points

    def _evaluated(self, positions: FloatArray, derived_along: int | None) -> FloatArray:
        """Return the sum over the 64 control points around each position; with an axis, its derivative there."""
        flat, control = positions.reshape(-1, 3), self.control
        first, weights = [], []
        for axis in range(3):
            last = control.shape[axis] - 3.0
            position = flat[:, axis] / self.distance[axis]
            inside = (position >= 0) & (position <= last)
            position = np.clip(position, 0, last)
            cell = np.minimum(position.astype(np.int64), control.shape[axis] - 4)
            first.append(cell)
            if derived_along == axis:
                weights.append(_spline_slopes(position - cell) * (inside / self.distance[axis])[:, None])
            else:
                weights.append(spline_weights(position - cell))
        sums = np.zeros((len(flat), 3))
        for d in range(4):
            for h in range(4):
                both = weights[0][:, d] * weights[1][:, h]
                for w in range(4):
                    point = control[first[0] + d, first[1] + h, first[2] + w]
                    sums += (both * weights[2][:, w])[:, None] * point
        return sums.reshape(positions.shape)
