"""Operators on volumes by whole voxels, without interpolation, and on the values of labels."""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import numpy as np

from ...array import Array, namespace
from ...errors import ParameterError
from ...resampling.mapping import IDENTITY, Mapping3
from ..core.distributions import Choice, Flag, Number
from ..core.parameters import param
from .base import VolumeGeometry, Volumetric
from .state import VoxelGrid

__all__ = ["Crop3d", "Flip3d", "Pad3d", "ReplaceLabel", "Rot90"]

_AXES: Final = ("depth", "height", "width")
_PLANES: Final = {"hw": (1, 2), "dw": (0, 2), "dh": (0, 1)}


class Flip3d(VolumeGeometry):
    """Mirror a volume along its axes, by default left to right as :class:`Flip`."""

    depth: Flag = param(False, "whether to reverse the order of slices", identity=False)
    height: Flag = param(False, "whether to reverse the order of rows", identity=False)
    width: Flag = param(True, "whether to reverse the order of columns", identity=False)

    examples = (
        {},
        {"depth": Choice((0, 1)), "height": Choice((0, 1)), "width": False, "p": 0.5, "seed": 1},
    )

    def moved(self, mapping: Mapping3, p: Any, grid: VoxelGrid) -> Mapping3:
        """See :meth:`VolumeGeometry.moved`."""
        matrix = IDENTITY.copy()
        for axis, name in enumerate(_AXES):
            if getattr(p, name):
                matrix[axis, axis], matrix[axis, 3] = -1, grid.size[axis] - 1
        return mapping.then(matrix, grid.size)


class Rot90(VolumeGeometry):
    """Rotate a volume by multiples of 90 degrees in one of its planes, as :func:`numpy.rot90` does."""

    turns: Number = param(
        1, "quarter turns from the first axis of the plane to the second", lo=-3, hi=3, identity=0
    )
    plane: str = param(
        "hw",
        "plane of rotation: rows and columns, slices and columns, or slices and rows",
        choices=tuple(_PLANES),
    )

    examples = ({"turns": 1}, {"turns": (0, 3), "plane": "dh", "seed": 1})

    def moved(self, mapping: Mapping3, p: Any, grid: VoxelGrid) -> Mapping3:
        """See :meth:`VolumeGeometry.moved`."""
        first, second = _PLANES[self.plane]
        size = list(grid.size)
        for _ in range(int(p.turns) % 4):
            matrix = IDENTITY.copy()
            matrix[first, first] = matrix[second, second] = 0
            matrix[first, second], matrix[second, first] = 1, -1
            matrix[second, 3] = size[second] - 1
            size[first], size[second] = size[second], size[first]
            mapping = mapping.then(matrix, (size[0], size[1], size[2]))
        return mapping


class Crop3d(VolumeGeometry):
    """Crop a window of a volume, at a position between the beginning (0) and the end (1) along each axis."""

    size: tuple[int, int, int] = param((1, 1, 1), "slices, rows and columns", lo=1, size=3, drawn=False)
    position: Number = param(
        (0.5, 0.5, 0.5),
        "position of the window along each axis, from 0 (beginning) to 1 (end)",
        lo=0,
        hi=1,
        size=3,
    )
    pad_mode: Literal["none", "constant", "edge"] = param(
        "none",
        "how volumes that are too small are padded, on both sides; none refuses them",
        choices=("none", "constant", "edge"),
    )
    fill_value: float = param(
        0.0, "value of images outside of the volume for pad_mode='constant'", drawn=False
    )
    label_fill: int = param(0, "label outside of the volume for pad_mode='constant'", drawn=False)

    for_each_axis = ("position",)
    examples = ({"size": (2, 3, 4)}, {"size": (2, 2, 2), "position": (0, 1), "seed": 1})

    def moved(self, mapping: Mapping3, p: Any, grid: VoxelGrid) -> Mapping3:
        """See :meth:`VolumeGeometry.moved`."""
        # plain numbers, as in RandomAffine3d.moved
        spare = [n - wanted for n, wanted in zip(grid.size, self.size, strict=True)]
        if min(spare) < 0 and self.pad_mode == "none":
            raise ParameterError(
                f"size={self.size} of a volume of {' × '.join(map(str, grid.size))} voxels",
                source=self.name,
                allowed="no more than the volume has",
                advice="Choose pad_mode='constant' or 'edge'",
            )
        matrix = IDENTITY.copy()
        # padding is equal on both sides
        matrix[:3, 3] = [
            left // 2 if left < 0 else min(math.floor(position * (left + 1)), left)
            for position, left in zip(p.position.tolist(), spare, strict=True)
        ]
        return mapping.then(matrix, self.size)

    def settings_of_gather(self) -> dict[str, Any]:
        """See :attr:`VolumeGeometry.gather_settings`: a crop that does not pad agrees with any other operator."""
        return {} if self.pad_mode == "none" else _padded(self.pad_mode, super().settings_of_gather())


class Pad3d(VolumeGeometry):
    """Add voxels around a volume."""

    before: tuple[int, int, int] = param(
        (0, 0, 0), "slices, rows and columns to add at the beginning", lo=0, size=3, drawn=False
    )
    after: tuple[int, int, int] = param(
        (0, 0, 0), "slices, rows and columns to add at the end", lo=0, size=3, drawn=False
    )
    size: tuple[int, int, int] | None = param(
        None,
        "minimum size of the result, instead of before and after; padding is centered",
        kind=int,
        lo=1,
        size=3,
        drawn=False,
    )
    pad_mode: Literal["constant", "edge"] = param(
        "constant", "how added voxels are filled", choices=("constant", "edge")
    )
    fill_value: float = param(0.0, "value of images in added voxels for pad_mode='constant'", drawn=False)
    label_fill: int = param(0, "label of added voxels for pad_mode='constant'", drawn=False)

    examples = (
        {"before": (1, 0, 2), "after": (0, 3, 0)},
        {"size": (9, 9, 9), "pad_mode": "edge", "p": 0.5, "seed": 1},
    )

    def moved(self, mapping: Mapping3, p: Any, grid: VoxelGrid) -> Mapping3:  # noqa: ARG002  nothing is drawn
        """See :meth:`VolumeGeometry.moved`."""
        before, after = np.array(self.before), np.array(self.after)
        if self.size is not None:
            missing = np.maximum(0, np.array(self.size) - grid.size)
            before, after = missing // 2, missing - missing // 2
        matrix = IDENTITY.copy()
        matrix[:3, 3] = -before
        d, h, w = (int(n) for n in grid.size + before + after)
        return mapping.then(matrix, (d, h, w))

    def settings_of_gather(self) -> dict[str, Any]:
        """See :attr:`VolumeGeometry.gather_settings`."""
        return _padded(self.pad_mode, super().settings_of_gather())


def _padded(pad_mode: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings of a gather, in which the fill value None repeats the edge voxels."""
    return {**settings, "fill_value": None} if pad_mode == "edge" else settings


class ReplaceLabel(Volumetric):
    """Replace a label by another one, in all labels of a sample."""

    label: int = param(-1, "label to replace", drawn=False)
    by: int = param(0, "new label", drawn=False)

    on_labels = True
    examples = ({"label": -1, "by": 0}, {"label": 2, "by": 1, "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:  # noqa: ARG002  nothing is drawn
        """The labels ``(D, H, W, C)``."""
        return namespace(x).where(x == self.label, x.dtype.type(self.by), x) if self._fits(x) else x

    def _fits(self, x: Array) -> bool:
        """Return whether the dtype of the labels can hold the replaced label."""
        return x.dtype.kind != "u" or self.label >= 0
