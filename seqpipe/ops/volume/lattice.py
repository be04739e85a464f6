"""Lattice: an elastic field as a cubic B-spline over a few control displacements, never stored voxel by voxel."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ...array import FloatArray
from ...bspline import slopes
from ...bspline import weights as spline_weights

__all__ = ["FOLD_LIMIT", "Lattice", "nodes_for"]

FOLD_LIMIT: Final = 0.40
"""Of the distance between control points, how far each may move along an axis so that the field cannot fold.

Choi and Lee prove 1/2.48 in three dimensions (1/2.05 in two) to be safe for cubic B-splines.
"""

_ENOUGH: Final = 1e-9  # of a voxel
_MOST_STEPS: Final = 60


def nodes_for(size: Seq[int], distance: Seq[float]) -> tuple[int, int, int]:
    """How many control points an extent needs along each axis: one beyond its first voxel, two beyond its last.

    Args:
        size: slices, rows and columns.
        distance: between control points, in voxels, along each of them.
    """
    d, h, w = (max(1, int(np.ceil((n - 1) / step))) + 3 for n, step in zip(size, distance, strict=True))
    return d, h, w


@dataclass(frozen=True, eq=False)
class Lattice:
    """Control displacements and where they are.

    Attributes:
        control: float32 (slices, rows, columns of control points, 3), in voxels along each axis. Point ``k`` of an axis
            is at ``(k - 1) * distance``.
        distance: between them, in voxels, along each axis.
    """

    control: npt.NDArray[np.float32]
    distance: tuple[float, float, float]

    @property
    def in_plane(self) -> bool:
        """Whether it moves nothing from slice to slice, and every slice alike."""
        return not self.control[..., 0].any() and bool((self.control == self.control[:1]).all())

    def displacements(self, places: FloatArray) -> FloatArray:
        """How far each of some places ``(…, 3)`` is moved, in voxels."""
        return self._evaluated(places, None)

    def jacobian(self, places: FloatArray) -> FloatArray:
        """The derivative ``(…, 3, 3)`` of a place and its displacement by the place."""
        parts = [self._evaluated(places, axis) for axis in range(3)]
        found: FloatArray = np.stack(parts, axis=-1) + np.eye(3)
        return found

    def inverted(self, places: FloatArray) -> FloatArray:
        """The places ``(…, 3)`` that the field moves to the given ones, by Newton's method."""
        found = places - self.displacements(places)
        for _ in range(_MOST_STEPS):
            off = found + self.displacements(found) - places
            if not off.size or np.abs(off).max() < _ENOUGH:
                break
            found = found - np.linalg.solve(self.jacobian(found), off[..., None])[..., 0]
        return found

    def _evaluated(self, places: FloatArray, by: int | None) -> FloatArray:
        """The sum over the 64 control points around each place; of its derivative along one axis, if that is given."""
        flat = places.reshape(-1, 3)
        first, weights = [], []
        for axis in range(3):
            last = self.control.shape[axis] - 3.0
            place = flat[:, axis] / self.distance[axis]
            inside = (place >= 0) & (place <= last)
            place = np.clip(place, 0, last)
            cell = np.minimum(place.astype(np.int64), self.control.shape[axis] - 4)
            first.append(cell)
            if by == axis:
                weights.append(slopes(place - cell) * (inside / self.distance[axis])[:, None])
            else:
                weights.append(spline_weights(place - cell))
        found = np.zeros((len(flat), 3))
        for d in range(4):
            for h in range(4):
                both = weights[0][:, d] * weights[1][:, h]
                for w in range(4):
                    point = self.control[first[0] + d, first[1] + h, first[2] + w]
                    found += (both * weights[2][:, w])[:, None] * point
        return found.reshape(places.shape)
