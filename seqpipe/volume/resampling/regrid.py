"""Resampling a volume to a spacing or another volume's grid, and changing its orientation."""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Final

import numpy as np

from ...array import FloatArray, namespace, to_numpy
from ...core.param import choice
from ...errors import ParameterError
from ...sequence import Sequence
from ..info import VolumeInfo
from ..source import AnyArray, Box
from ..space import moved, spacing_of, turn_to
from .gather import INTERPOLATIONS, RegridInterpolation, gather
from .spline import MARGIN

__all__ = [
    "INTERP",
    "RegridInterpolation",
    "TargetGrid",
    "grid_of",
    "reorient",
    "resample",
    "resampled_window",
    "spacing_of_three",
    "to_canonical",
    "window_of",
]

INTERP: Final = choice("interp", "How voxels are interpolated", INTERPOLATIONS)
_MOST_VOXELS: Final = 1 << 34


@dataclass(frozen=True, eq=False)
class TargetGrid:
    """Grid of a result, and interpolation.

    Attributes:
        shape: D, H and W.
        affine: 4×4, from (d, h, w) to millimeters.
        interp: ``"linear"``, ``"nearest"``, ``"vote"`` or ``"bspline"``.
        antialias: whether a Gaussian is applied first along axes that get coarser.
        fill_value: value outside the volume; None repeats its edge.
    """

    shape: tuple[int, int, int]
    affine: FloatArray
    interp: RegridInterpolation = "linear"
    antialias: bool = True
    fill_value: float | None = None

    def on(self, other: TargetGrid) -> TargetGrid:
        """Return the same interpolation on another grid."""
        return replace(self, shape=other.shape, affine=other.affine)


def grid_of(
    of: Any,
    spacing_mm: float | Seq[float] | None,
    like: Any,
    *,
    interp: RegridInterpolation = "linear",
    antialias: bool = True,
    fill_value: float | None = None,
) -> TargetGrid:
    """Return the target grid; see :func:`resample`.

    Args:
        of: the volume to resample: a :class:`VolumeInfo`, a reader, or a sequence with an affine.
        spacing_mm: spacing of the result.
        like: owner of the target grid.
        interp: interpolation.
        antialias: whether a Gaussian is applied first.
        fill_value: value outside the volume.

    Raises:
        ParameterError: both or neither of spacing_mm and like are set, or a value is out of bounds.
    """
    INTERP.check(interp)
    if (spacing_mm is None) == (like is None):
        fact = (
            "there is no grid to resample to" if like is None else "spacing_mm and like exclude one another"
        )
        raise ParameterError(fact, allowed="one of spacing_mm and like")
    if like is not None:
        shape, affine = _shape_and_affine(like, "like")
        return TargetGrid(shape, affine, interp, antialias, fill_value)
    size, affine = _shape_and_affine(of, "the volume")
    have = spacing_of(affine)
    want = spacing_of_three(spacing_mm)
    # the outer borders of the first voxels are preserved
    factors = [w / h for w, h in zip(want, have, strict=True)]
    counts = [max(1, math.ceil(n / f - 0.5 - 1e-6)) for n, f in zip(size, factors, strict=True)]
    if math.prod(counts) > _MOST_VOXELS:
        raise ParameterError(
            f"spacing_mm={spacing_mm!r} makes {'×'.join(map(str, counts))} voxels",
            allowed=f"up to {_MOST_VOXELS:,} voxels",
        )
    start = [(f - 1) / 2 for f in factors]
    return TargetGrid(
        (counts[0], counts[1], counts[2]), moved(affine, start, factors), interp, antialias, fill_value
    )


def resample(
    sequence: Sequence,
    spacing_mm: float | Seq[float] | None = None,
    *,
    like: Any = None,
    interp: RegridInterpolation = "linear",
    antialias: bool = True,
    fill_value: float | None = None,
) -> Sequence:
    """Resample a volume to another grid; structures keep their position in millimeters.

    Args:
        sequence: ``DHWC`` or ``FDHWC``, with an affine.
        spacing_mm: distance between slices, rows and columns of the result, or one number for all; the outer borders
            of the volume are preserved, within half a voxel at the far end.
        like: instead, the owner of the target grid: a reader, a sequence with an affine, or a :class:`VolumeInfo`.
        interp: ``"linear"``, ``"nearest"``, or ``"vote"`` for labels: the value with the largest linear weight; or
            ``"bspline"``: the cubic B-spline through all voxels.
        antialias: whether a Gaussian of σ = (factor - 1) / 2 voxels is applied first along coarser axes; never for
            ``"nearest"`` and ``"vote"``.
        fill_value: value outside the volume; None repeats the edge.

    Returns:
        A sequence of the same dtype; integers are rounded half to even.

    Raises:
        ParameterError: an argument is out of bounds, or the sequence has no affine.
    """
    shape, affine = _shape_and_affine(sequence, "the sequence")
    grid = grid_of(sequence, spacing_mm, like, interp=interp, antialias=antialias, fill_value=fill_value)
    data = to_numpy(sequence.data)

    def read(box: Box) -> AnyArray:
        return data[(..., *box.slices, slice(None))]

    resampled = window_of(grid, Box.whole(grid.shape), shape, affine, read)
    result = namespace(sequence.data).asarray(resampled)
    return sequence.on_grid(result, grid.affine)


def resampled_window(
    grid: TargetGrid, box: Box, info: VolumeInfo, read: Callable[[Box], AnyArray]
) -> AnyArray:
    """Return a window of the grid, reading only the voxels that it needs.

    Args:
        grid: the target grid.
        box: window of the grid.
        info: info of the volume.
        read: reads voxels of the volume.
    """
    return window_of(grid, box, info.grid, info.affine, read)


def window_of(
    grid: TargetGrid,
    box: Box,
    shape: tuple[int, int, int],
    affine: FloatArray,
    read: Callable[[Box], AnyArray],
) -> AnyArray:
    """Return a window of a grid over any volume; see :func:`resampled_window`.

    Args:
        grid: the target grid.
        box: window of the grid.
        shape: D, H and W of the volume.
        affine: affine of the volume.
        read: reads voxels of the volume.
    """
    matrix = np.linalg.inv(affine) @ moved(grid.affine, box.start)
    factors = np.linalg.norm(matrix[:3, :3], axis=1)
    blurred = grid.antialias and grid.interp in ("linear", "bspline")
    sigmas = [max(0.0, (f - 1) / 2) if blurred and f > 1 + 1e-6 else 0.0 for f in factors]
    needed = _needed(
        matrix,
        box.shape,
        shape,
        [(MARGIN if grid.interp == "bspline" else 1) + math.ceil(4 * s) for s in sigmas],
    )
    data = read(needed)
    local = matrix.copy()
    local[:3, 3] -= needed.start
    volumes = data if data.ndim == 5 else data[None]
    windows = [gather(v, local, box.shape, grid.interp, grid.fill_value, sigmas) for v in volumes]
    return np.stack(windows) if data.ndim == 5 else windows[0]


def _needed(matrix: FloatArray, window: Seq[int], shape: Seq[int], margin: Seq[int]) -> Box:
    """Return the voxels of the volume that a window of the grid depends on."""
    corners = np.array(
        [[d, h, w, 1] for d in (0, window[0] - 1) for h in (0, window[1] - 1) for w in (0, window[2] - 1)]
    )
    positions = (matrix @ corners.T)[:3]
    ranges = []
    for low, high, size, more in zip(
        positions.min(axis=1), positions.max(axis=1), shape, margin, strict=True
    ):
        first = int(np.clip(math.floor(low) - more, 0, size - 1))
        last = int(np.clip(math.ceil(high) + more, 0, size - 1))
        ranges.append((first, last + 1))
    return Box(ranges[0], ranges[1], ranges[2])


def _shape_and_affine(value: Any, what: str) -> tuple[tuple[int, int, int], FloatArray]:
    """Return D, H and W, and the affine, of a reader, an info or a sequence."""
    info = getattr(value, "info", value)
    affine = getattr(info, "affine", None)
    if isinstance(info, VolumeInfo):
        return info.grid, info.affine
    layout = getattr(value, "layout", "")
    if affine is None or "DHW" not in layout:
        raise ParameterError(
            f"{what} has no affine",
            allowed="a volume reader, a VolumeInfo, or a sequence DHWC with an affine",
        )
    first_axis = layout.index("D")
    depth, height, width = value.shape[first_axis : first_axis + 3]
    return (depth, height, width), np.asarray(affine)


def spacing_of_three(spacing_mm: Any) -> tuple[float, ...]:
    """Return the distances between slices, rows and columns.

    Raises:
        ParameterError: ``spacing_mm`` is neither a positive number nor three of them.
    """
    single = isinstance(spacing_mm, Real) and not isinstance(spacing_mm, bool)
    try:
        values = (spacing_mm,) * 3 if single else tuple(spacing_mm)
        numbers = tuple(map(float, values))
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) != 3 or not all(math.isfinite(n) and n > 0 for n in numbers):
        raise ParameterError(
            f"spacing_mm={spacing_mm!r} is not valid",
            allowed="a number above 0, or three: between slices, rows and columns",
        )
    return numbers


def reorient(sequence: Sequence, orientation: str) -> Sequence:
    """Permute and reverse the axes of a volume; exact, and a view of its array.

    Args:
        sequence: a sequence with D, H and W in its layout, and an affine.
        orientation: anatomical directions of columns, rows and slices, such as ``"LPS"``.

    Raises:
        ParameterError: ``orientation`` is invalid, or the sequence has no affine.
    """
    first_axis = sequence.layout.find("DHW")
    if sequence.affine is None or first_axis < 0:
        raise ParameterError(
            f"a sequence {sequence.layout} cannot be reoriented"
            + (": it has no affine" if sequence.affine is None else ""),
            source=sequence.source,
            allowed="a volume, such as DHWC, with an affine",
        )
    turn = turn_to(sequence.affine, orientation)
    shape = sequence.shape[first_axis : first_axis + 3]
    data = turn.array(sequence.data, first_axis)
    return sequence.on_grid(data, turn.affine(sequence.affine, shape))


def to_canonical(sequence: Sequence) -> Sequence:
    """Reorient a volume to ``"RAS"``: columns to the right, rows to the front, slices to the head."""
    return reorient(sequence, "RAS")
