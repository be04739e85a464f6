"""A volume on another grid (spacing, or another volume's grid), and in another orientation."""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Final

import numpy as np

from ...array import FloatArray, namespace, to_numpy
from ...errors import ParameterError
from ...param import choice
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
    """Where the voxels of a result lie, and how they are interpolated.

    Attributes:
        shape: D, H and W.
        affine: 4×4, from (d, h, w) to millimeters.
        interp: ``"linear"``, ``"nearest"``, ``"vote"`` or ``"bspline"``.
        antialias: whether a Gaussian comes first along axes that get coarser.
        fill_value: for places outside of the volume; None repeats its edge.
    """

    shape: tuple[int, int, int]
    affine: FloatArray
    interp: RegridInterpolation = "linear"
    antialias: bool = True
    fill_value: float | None = None

    def on(self, other: TargetGrid) -> TargetGrid:
        """The same interpolation on another grid."""
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
    """The grid that is asked for; see :func:`resample`.

    Args:
        of: what is resampled: a :class:`VolumeInfo`, a reader, or a sequence with an affine.
        spacing_mm: of the result.
        like: whose grid is taken.
        interp: how voxels are interpolated.
        antialias: whether a Gaussian comes first.
        fill_value: for places outside.

    Raises:
        ParameterError: both or none of spacing_mm and like are given, or a value is out of bounds.
    """
    INTERP.check(interp)
    if (spacing_mm is None) == (like is None):
        fact = (
            "there is no grid to resample to" if like is None else "spacing_mm and like exclude one another"
        )
        raise ParameterError(fact, allowed="one of spacing_mm and like")
    if like is not None:
        shape, affine = _place_of(like, "like")
        return TargetGrid(shape, affine, interp, antialias, fill_value)
    size, affine = _place_of(of, "the volume")
    have = spacing_of(affine)
    want = spacing_of_three(spacing_mm)
    # the outer borders of the first voxels stay where they are
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
    """A volume on another grid; what it shows stays at its place in millimeters.

    Args:
        sequence: ``DHWC`` or ``FDHWC``, with an affine.
        spacing_mm: distance between slices, rows and columns of the result, or one number for all; the outer borders
            of the volume stay, up to half a voxel at the far end.
        like: instead, whose grid is to be taken: a reader, a sequence with an affine, or a :class:`VolumeInfo`.
        interp: ``"linear"``, ``"nearest"``, or ``"vote"`` for labels: the value with the largest linear weight; or
            ``"bspline"``: the cubic B-spline through all voxels.
        antialias: whether a Gaussian of σ = (factor - 1) / 2 voxels comes first along axes that get coarser; never for
            ``"nearest"`` and ``"vote"``.
        fill_value: for places outside of the volume; None repeats the edge.

    Returns:
        Of the same dtype; integers are rounded half to even.

    Raises:
        ParameterError: an argument is out of bounds, or there is no affine.
    """
    shape, affine = _place_of(sequence, "the sequence")
    grid = grid_of(sequence, spacing_mm, like, interp=interp, antialias=antialias, fill_value=fill_value)
    data = to_numpy(sequence.data)

    def read(box: Box) -> AnyArray:
        return data[(..., *box.slices, slice(None))]

    made = window_of(grid, Box.whole(grid.shape), shape, affine, read)
    result = namespace(sequence.data).asarray(made)
    return replace(sequence, data=result, affine=grid.affine, frames=None, timestamps=None)


def resampled_window(
    grid: TargetGrid, box: Box, info: VolumeInfo, read: Callable[[Box], AnyArray]
) -> AnyArray:
    """A window of the grid, from no more of the volume than it needs.

    Args:
        grid: what is asked for.
        box: the window of it.
        info: of the volume.
        read: gives voxels of the volume.
    """
    return window_of(grid, box, info.grid, info.affine, read)


def window_of(
    grid: TargetGrid,
    box: Box,
    shape: tuple[int, int, int],
    affine: FloatArray,
    read: Callable[[Box], AnyArray],
) -> AnyArray:
    """A window of a grid over any volume; see :func:`resampled_window`.

    Args:
        grid: what is asked for.
        box: the window of it.
        shape: D, H and W of the volume.
        affine: of the volume.
        read: gives voxels of the volume.
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
    made = [gather(v, local, box.shape, grid.interp, grid.fill_value, sigmas) for v in volumes]
    return np.stack(made) if data.ndim == 5 else made[0]


def _needed(matrix: FloatArray, window: Seq[int], shape: Seq[int], margin: Seq[int]) -> Box:
    """The voxels of the volume that a window of the grid is made of."""
    corners = np.array(
        [[d, h, w, 1] for d in (0, window[0] - 1) for h in (0, window[1] - 1) for w in (0, window[2] - 1)]
    )
    places = (matrix @ corners.T)[:3]
    ranges = []
    for low, high, size, more in zip(places.min(axis=1), places.max(axis=1), shape, margin, strict=True):
        first = int(np.clip(math.floor(low) - more, 0, size - 1))
        last = int(np.clip(math.ceil(high) + more, 0, size - 1))
        ranges.append((first, last + 1))
    return Box(ranges[0], ranges[1], ranges[2])


def _place_of(value: Any, what: str) -> tuple[tuple[int, int, int], FloatArray]:
    """D, H and W, and the affine, of whatever has them."""
    info = getattr(value, "info", value)
    affine = getattr(info, "affine", None)
    if isinstance(info, VolumeInfo):
        return info.grid, info.affine
    layout = getattr(value, "layout", "")
    if affine is None or "DHW" not in layout:
        raise ParameterError(
            f"{what} has no place in space",
            allowed="a volume reader, a VolumeInfo, or a sequence DHWC with an affine",
        )
    place = layout.index("D")
    depth, height, width = value.shape[place : place + 3]
    return (depth, height, width), np.asarray(affine)


def spacing_of_three(spacing_mm: Any) -> tuple[float, ...]:
    """Distances between slices, rows and columns.

    Raises:
        ParameterError: it is neither a number above 0 nor three of them.
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
    """The same volume with its axes permuted and reversed; exact, and a view of its array.

    Args:
        sequence: with D, H and W in its layout, and an affine.
        orientation: where columns, rows and slices are to go, such as ``"LPS"``.

    Raises:
        ParameterError: it is no orientation, or the sequence has no place in space.
    """
    place = sequence.layout.find("DHW")
    if sequence.affine is None or place < 0:
        raise ParameterError(
            f"a sequence {sequence.layout} cannot be reoriented"
            + (": it has no affine" if sequence.affine is None else ""),
            source=sequence.source,
            allowed="a volume, such as DHWC, with an affine",
        )
    turn = turn_to(sequence.affine, orientation)
    shape = sequence.shape[place : place + 3]
    data = turn.array(sequence.data, place)
    return replace(
        sequence, data=data, affine=turn.affine(sequence.affine, shape), frames=None, timestamps=None
    )


def to_canonical(sequence: Sequence) -> Sequence:
    """:func:`reorient` to ``"RAS"``: columns to the right, rows to the front, slices to the head."""
    return reorient(sequence, "RAS")
