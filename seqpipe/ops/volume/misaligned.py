"""Operators that move parts of a volume against each other: channels, cells of a grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...array import Array, FloatArray
from ...resampling.gather import gather
from ...resampling.mapping import Lattice, Mapping3, rotation_matrix
from ..call.backends import cuda_device_of
from ..core.distributions import Number
from ..core.parameters import param
from .base import RANDOM_PURPOSE, Intensity, Spatial, generator
from .state import VoxelGrid

__all__ = ["ChannelMisalignment", "GridDistortion3d"]


class ChannelMisalignment(Intensity):
    """Move each channel but the first by a small random affine map of its own, as registrations that fail do.

    Labels and the first channel of a sample stay where they are; voxels from outside repeat the edge. See Kovacs et
    al., Addressing image misalignments in multi-parametric prostate MRI, Scientific Reports 13, 2023.
    """

    rotate: Number = param((0.0, 3.0), "maximum rotation about each axis", unit="degrees", lo=0, hi=180)
    scale: Number = param((0.0, 0.05), "maximum relative change of each axis' scale", lo=0, hi=0.9)
    translate_mm: Number = param(
        (0.0, 3.0),
        "maximum translation along each axis; without a spacing, voxels count as 1 mm",
        unit="mm",
        lo=0,
    )

    examples = (
        {"rotate": 5.0, "translate_mm": 2.0},
        {"p_channel": 0.5, "per_channel": True, "p": 0.5, "seed": 1},
    )

    def reference(self, x: Array, p: Any) -> Array:
        """The channel, gathered by the map about its center with linear interpolation."""
        if int(p.channel) == 0:
            return x
        rng = generator(p.key, int(p.channel), RANDOM_PURPOSE)
        spacing: FloatArray = np.ones(3) if p.spacing is None else np.asarray(p.spacing)
        angles, scales, shifts = rng.uniform(-1, 1, (3, 3)) * [
            [float(p.rotate)],
            [float(p.scale)],
            [float(p.translate_mm)],
        ]
        turn = np.array(rotation_matrix(angles)).T * spacing / spacing[:, None] / (1 + scales)[:, None]
        matrix, center = np.eye(4), (np.array(x.shape) - 1) / 2
        matrix[:3, :3], matrix[:3, 3] = turn, center - turn @ (center + shifts / spacing)
        device = None if isinstance(x, np.ndarray) else cuda_device_of(x)
        return gather(x[..., None], Mapping3(x.shape, matrix), "linear", None, device=device)[..., 0]


class GridDistortion3d(Spatial):
    """Stretch and shrink the cells of a grid along each axis by random factors; the outer voxels stay in place.

    Borders of cells are where factors of ``1 ± amplitude`` put them, divided by their mean; between them, positions
    follow a cubic spline, where other libraries have lines with kinks.
    """

    cells: int = param(5, "cells along each axis", lo=1, hi=64, drawn=False)
    amplitude: Number = param(0.2, "maximum relative change of a cell's size", lo=0, hi=0.3, identity=0.0)
    in_plane: bool = param(False, "whether to distort within slices only", drawn=False)

    warps = True
    keyed = True
    examples = (
        {"amplitude": 0.3, "cells": 3},
        {"amplitude": (0.0, 0.3), "in_plane": True, "p": 0.8, "seed": 2},
    )

    def moved(self, mapping: Mapping3, p: Any, grid: VoxelGrid) -> Mapping3:
        """See :meth:`VolumeGeometry.moved`."""
        rng, nodes = generator(p.key, 0, RANDOM_PURPOSE), self.cells + 3
        factors = 1 + rng.uniform(-1, 1, (3, self.cells)) * float(p.amplitude)
        d, h, w = (max(1.0, (n - 1) / self.cells) for n in grid.size)
        control = np.zeros((nodes, nodes, nodes, 3), np.float32)
        for axis, (row, step, size) in enumerate(zip(factors, (d, h, w), grid.size, strict=True)):
            if size <= self.cells or (self.in_plane and axis == 0):
                continue
            borders = np.concatenate([[0.0], np.cumsum(row / row.mean())]) - np.arange(self.cells + 1)
            along = [-1 if a == axis else 1 for a in range(3)]
            control[..., axis] = (_coefficients(borders) * step).reshape(along)
        return mapping.warped(Lattice(control, (d, h, w)))


def _coefficients(values: Any) -> FloatArray:
    """Return the coefficients of the natural cubic spline through values at distances of 1."""
    count = len(values) + 2
    matrix, wanted = np.zeros((count, count)), np.concatenate([[0.0], values, [0.0]])
    for row in range(1, count - 1):
        matrix[row, row - 1 : row + 2] = np.array([1, 4, 1]) / 6
    matrix[0, :3] = matrix[-1, -3:] = [1, -2, 1]
    solved: FloatArray = np.linalg.solve(matrix, wanted)
    return solved
