"""Lattice: an elastic field as a cubic B-spline over control points, which is evaluated but never stored."""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ...array import FloatArray
from ...core.bspline import slopes
from ...core.bspline import weights as spline_weights
from ...core.cached import cached_property
from ...random import generator_at

__all__ = ["FOLD_LIMIT", "DrawnControl", "Lattice", "nodes_for"]

FOLD_LIMIT: Final = 0.40
"""Greatest displacement along an axis, as a fraction of the distance between control points: the field cannot fold.

Choi and Lee prove 1/2.48 in three dimensions (1/2.05 in two) to be safe for cubic B-splines.
"""

_ENOUGH: Final = 1e-9  # of a voxel
_MOST_STEPS: Final = 60
_START: Final = (0, 0, 0, 0)  # of a key's random numbers


def nodes_for(size: Seq[int], distance: Seq[float]) -> tuple[int, int, int]:
    """Return the number of control points along each axis: one before the first voxel, two after the last one.

    Args:
        size: slices, rows and columns.
        distance: between control points, in voxels, along each of them.
    """
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
        """The displacements, as in :class:`Lattice`; ``control3.cu`` computes the same."""
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
            if not off.size or np.abs(off).max() < _ENOUGH:
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
                weights.append(slopes(position - cell) * (inside / self.distance[axis])[:, None])
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
