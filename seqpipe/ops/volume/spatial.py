"""Geometry of volumes: flips, crops and pads by whole voxels; affine transforms, elastic deformation and resampling."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence as Seq
from typing import Any, Final, TypeAlias

import numpy as np

from ...array import Array, FloatArray, namespace
from ...core.padding import FILL_MODES, PAD_MODES, FillMode, PadMode
from ...errors import ParameterError
from ...resampling.mapping import (
    FOLD_LIMIT,
    IDENTITY,
    DrawnControl,
    Lattice,
    Mapping3,
    nodes_for,
    rotation_matrix,
)
from ..core.distributions import Choice, Flag, Number
from ..core.parameters import param
from .acquisition import GaussianBlur3d
from .base import Intensity, Spatial, VolumeGeometry, Volumetric, spacing_of
from .plan import SampledParameters
from .state import VoxelGrid

__all__ = [
    "Crop3d",
    "Elastic3d",
    "Flip3d",
    "Pad3d",
    "RandomAffine3d",
    "ReplaceLabel",
    "Resample3d",
    "Rot90",
    "Zoom3d",
]

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
    pad_mode: PadMode = param(
        "none",
        "how volumes that are too small are padded, on both sides; none refuses them",
        choices=PAD_MODES,
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
    pad_mode: FillMode = param("constant", "how added voxels are filled", choices=FILL_MODES)
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
    """Return settings of a gather, in which the fill value None repeats the edge voxels, and a name is another way.

    The latter agree with no operator that interpolates.
    """
    if pad_mode in ("constant", "edge"):
        return {**settings, "fill_value": None} if pad_mode == "edge" else settings
    return {"fill_value": pad_mode, "interp": "copied"}


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


_Three: TypeAlias = tuple[float, float, float]
_ZEROS: Final = (0.0, 0.0, 0.0)
_IDENTITY_ROWS: Final = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
_LAST_ROW: Final = (0.0, 0.0, 0.0, 1.0)
_FLAT: Final = 1e-6  # of a volume, that a shear leaves of it
_ROUND: Final = 1e-6  # of a voxel, by which steps differ from 1 through rounding


class RandomAffine3d(Spatial):
    """Rotate, scale, shear and translate a volume about its center, in millimeters.

    A number or a range stands for all three axes (slices, rows, columns); ``((-180, 180), (0, 0), (0, 0))`` rotates
    within slices alone, which are then read slice by slice. The voxels of a volume without an affine count as cubes.
    """

    rotate: Number = param(
        _ZEROS,
        "rotation about each axis, first about columns, last about slices",
        unit="degrees",
        identity=_ZEROS,
        size=3,
    )
    scale: Number = param(
        (1.0, 1.0, 1.0),
        "scale factor along each axis",
        lo=0.01,
        hi=100,
        identity=(1.0, 1.0, 1.0),
        size=3,
    )
    isotropic: bool = param(False, "whether the first scale applies to all axes", drawn=False)
    in_plane: bool = param(False, "whether to transform within slices only", drawn=False)
    shear: Number = param(
        (0.0,) * 6,
        "angles by which slices lean along rows and columns, rows along slices and columns, columns along both",
        unit="degrees",
        lo=-80,
        hi=80,
        identity=(0.0,) * 6,
        size=6,
    )
    translate_mm: Number = param(
        _ZEROS,
        "translation along each axis; requires a volume with a spacing",
        unit="mm",
        identity=_ZEROS,
        size=3,
    )

    for_each_axis = ("rotate", "scale", "shear", "translate_mm")
    examples = (
        {"rotate": (15.0, 0.0, -5.0), "scale": 1.1},
        {"rotate": (-30, 30), "scale": (0.7, 1.4), "isotropic": True, "p": 0.5, "seed": 3},
        {"shear": (-10, 10), "interp": "cubic", "fill_value": None},
    )

    def moved(self, mapping: Mapping3, p: Any, grid: VoxelGrid) -> Mapping3:
        """See :meth:`VolumeGeometry.moved`."""
        # plain numbers: NumPy takes ten times as long for so few of them
        shift = p.translate_mm.tolist()
        measured = spacing_of(self, grid, "translate_mm") if any(shift) else grid.spacing_mm
        dz, dy, dx = spacing = (1.0, 1.0, 1.0) if measured is None else measured.tolist()
        z, y, x = p.scale.tolist()
        scale = (1.0 if self.in_plane else z, z if self.isotropic else y, z if self.isotropic else x)
        back = list(zip(*rotation_matrix(p.rotate.tolist()), strict=True))
        if any(angles := p.shear.tolist()):
            shear = _unsheared(self, angles)
            back = [
                tuple([a * u + b * v + c * w for u, v, w in zip(*back, strict=True)]) for a, b, c in shear
            ]
        u, v, w = ((n - 1) / 2 + s / mm for n, s, mm in zip(grid.size, shift, spacing, strict=True))
        rows = []
        for direction, n, factor, mm in zip(back, grid.size, scale, spacing, strict=True):
            a, b, c = (
                direction[0] * dz / mm / factor,
                direction[1] * dy / mm / factor,
                direction[2] * dx / mm / factor,
            )
            rows.append((a, b, c, (n - 1) / 2 - (a * u + b * v + c * w)))
        matrix = np.array([*rows, _LAST_ROW])
        return mapping.then(matrix, grid.size)


class Elastic3d(Spatial):
    """Deform a volume by a cubic B-spline over a grid of randomly displaced control points.

    Displacements along each axis are uniform between the amplitude and its negative. Amplitudes for which the field
    could fold are refused.
    """

    spacing: int = param(16, "of control points along each axis, in voxels", lo=2, hi=1024, drawn=False)
    spacing_mm: float | None = param(
        None, "the same in mm, instead", kind=float, unit="mm", lo=0.1, drawn=False
    )
    amplitude: Number = param(
        0.25,
        "maximum displacement of a control point along an axis, as a fraction of their distance",
        lo=0,
        hi=FOLD_LIMIT,
    )
    amplitude_mm: Number | None = param(None, "the same in mm, instead", kind=float, unit="mm", lo=0)
    in_plane: bool = param(False, "whether to deform within slices only, all slices equally", drawn=False)

    warps = True
    keyed = True
    examples = (
        {"amplitude": 0.2, "spacing": 4},
        {"amplitude": (0.0, 0.4), "spacing": 8, "in_plane": True, "p": 0.8, "seed": 2},
    )

    def moved(self, mapping: Mapping3, p: Any, grid: VoxelGrid) -> Mapping3:
        """See :meth:`VolumeGeometry.moved`."""
        distance, most = self._distances(p, grid)
        a, b = p.key.tolist()
        points = DrawnControl((int(a), int(b)), nodes_for(grid.size, distance), most, self.in_plane)
        return mapping.warped(Lattice(points, distance))

    def _distances(self, p: Any, grid: VoxelGrid) -> tuple[_Three, _Three]:
        """Return the distance between control points and the maximum displacement, in voxels along each axis."""
        # plain numbers, as in RandomAffine3d.moved
        d = h = w = float(self.spacing)
        if self.spacing_mm is not None:
            d, h, w = np.maximum(self.spacing_mm / spacing_of(self, grid, "spacing_mm"), 1.0).tolist()
        if self.amplitude_mm is None:
            part = float(p.amplitude)
            return (d, h, w), (d * part, h * part, w * part)
        distance, spacing = np.array((d, h, w)), spacing_of(self, grid, "amplitude_mm")
        most = float(p.amplitude_mm) / spacing
        if self.in_plane:
            most[0] = 0
        if (most > FOLD_LIMIT * distance * (1 + 1e-6)).any():
            moving = distance[1:] * spacing[1:] if self.in_plane else distance * spacing
            raise ParameterError(
                f"amplitude_mm={float(p.amplitude_mm):g} with control points {moving.min():.4g} mm apart could fold",
                source=self.name,
                allowed=f"up to {FOLD_LIMIT * moving.min():.4g} mm, {FOLD_LIMIT} of their distance",
                advice="Take a smaller amplitude, or control points farther apart",
            )
        u, v, t = most.tolist()
        return (d, h, w), (u, v, t)


class _Resized(Spatial, register=False):
    """Change the number of voxels over the same extent, by default with antialiasing.

    Where voxels become coarser by a factor ``f`` along an axis, images are first smoothed along it by a Gaussian of
    ``(f - 1) / 2`` voxels, as scikit-image does; labels, and images with ``interp="nearest"``, are not.
    """

    antialias: bool = param(
        True, "whether images are smoothed first along axes that are downsampled", drawn=False
    )
    # the extent stays: new voxels up to half a voxel beyond the outer centers belong to the edge voxels
    fill_value: float | None = param(
        None,
        "value outside of the volume, interpolated with edge voxels; None repeats edge voxels, also of labels, and"
        " leaves the value to operators in the same pass",
        kind=float,
        drawn=False,
        optional=True,
    )

    def settings_of_gather(self) -> dict[str, Any]:
        """See :attr:`VolumeGeometry.gather_settings`: repeated edge voxels agree with any other operator."""
        return {"interp": self.interp} if self.fill_value is None else super().settings_of_gather()

    @abstractmethod
    def step(self, p: Any, grid: VoxelGrid) -> FloatArray:
        """Distance between voxels of the result, in voxels of the input, along each axis."""

    @property
    def smooths(self) -> bool:
        """See :attr:`VolumeGeometry.smooths`."""
        return self.antialias and self.interp != "nearest"

    def smoothing(self, p: Any, grid: VoxelGrid) -> tuple[Intensity, SampledParameters] | None:
        """See :meth:`VolumeGeometry.smoothing`."""
        step = self.step(p, grid) if self.smooths else np.ones(3)
        if (step <= 1 + _ROUND).all():
            return None
        d, h, w = (max(0.0, (float(ratio) - 1) / 2) for ratio in step)
        blur = GaussianBlur3d(sigma=(d, h, w))
        return blur, SampledParameters.of(blur, {}, acts=True)


class Zoom3d(_Resized):
    """Change the number of voxels along each axis by a factor or to a size; the extent in mm is preserved.

    Images that become smaller are smoothed first; see ``antialias``.
    """

    factor: Number | None = param(None, "scale factor along each axis", kind=float, lo=0.01, hi=100, size=3)
    size: tuple[int, int, int] | None = param(
        None,
        "(slices, rows, columns) of the result, instead of a factor",
        kind=int,
        lo=1,
        size=3,
        drawn=False,
    )

    for_each_axis = ("factor",)
    exclusive = (("factor", "size"),)
    examples = ({"factor": 1.5}, {"size": (4, 9, 8)}, {"factor": (0.8, 1.25), "fill_value": 0.0, "seed": 1})

    def moved(self, mapping: Mapping3, p: Any, grid: VoxelGrid) -> Mapping3:
        """See :meth:`VolumeGeometry.moved`."""
        step = self.step(p, grid)
        return _resized(mapping, np.rint(np.array(grid.size) / step), grid, step)

    def step(self, p: Any, grid: VoxelGrid) -> FloatArray:
        """The input's number of voxels over the result's; see :meth:`_Resized.step`."""
        extent = np.array(grid.size)
        size = extent if self.factor is None else np.maximum(1, np.rint(extent * p.factor))
        step: FloatArray = extent / (np.array(self.size) if self.size is not None else size)
        return step


class Resample3d(_Resized):
    """Resample to another distance of voxels; the extent in mm is preserved to half a voxel.

    Images that become coarser are smoothed first; see ``antialias``.
    """

    spacing_mm: Number = param(
        (1.0, 1.0, 1.0),
        "distance between slices, rows and columns of the result",
        unit="mm",
        lo=0.001,
        size=3,
    )

    for_each_axis = ("spacing_mm",)
    examples = ({"spacing_mm": 2.0}, {"spacing_mm": ((1.0, 2.0), (1.0, 1.0), (1.0, 1.0)), "seed": 1})

    def moved(self, mapping: Mapping3, p: Any, grid: VoxelGrid) -> Mapping3:
        """See :meth:`VolumeGeometry.moved`."""
        step = self.step(p, grid)
        return _resized(mapping, np.maximum(1, np.rint(np.array(grid.size) / step)), grid, step)

    def step(self, p: Any, grid: VoxelGrid) -> FloatArray:
        """The new spacing relative to the old one."""
        wanted: FloatArray = np.asarray(p.spacing_mm, np.float64)
        return wanted / spacing_of(self, grid, "spacing_mm")


def _resized(mapping: Mapping3, size: FloatArray, grid: VoxelGrid, step: FloatArray) -> Mapping3:
    """Return a mapping with another number of voxels about the same center."""
    extent = np.array(grid.size)
    matrix = IDENTITY.copy()
    matrix[:3, :3] = np.diag(step)
    matrix[:3, 3] = (extent - 1) / 2 - step * (size - 1) / 2
    d, h, w = (int(n) for n in size)
    return mapping.then(matrix, (d, h, w))


def _unsheared(op: Volumetric, angles: Seq[float]) -> Seq[Seq[float]]:
    """Return the inverse of the matrix of a shear by six angles in degrees; zeros that separate slices stay zeros."""
    if not any(angles):
        return _IDENTITY_ROWS
    b, c, d, f, g, h = (math.tan(math.radians(angle)) for angle in angles)
    # cofactors of ((1, b, c), (d, 1, f), (g, h, 1)), of which columns become rows
    cofactors = (
        (1 - f * h, c * h - b, b * f - c),
        (f * g - d, 1 - c * g, c * d - f),
        (d * h - g, b * g - h, 1 - b * d),
    )
    whole = cofactors[0][0] + b * cofactors[1][0] + c * cofactors[2][0]
    if abs(whole) < _FLAT:
        raise ParameterError(
            f"shear={tuple(angles)} makes a volume flat",
            source=op.name,
            advice="Take smaller angles, or fewer that are not 0",
        )
    return [[value / whole for value in row] for row in cofactors]
