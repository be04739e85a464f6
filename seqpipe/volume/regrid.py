"""Resampling a volume to a spacing or another volume's grid, aligning the parts of a sample, and orientation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Final

import numpy as np

from ..array import FloatArray, namespace, to_numpy
from ..core.param import choice
from ..errors import ParameterError
from ..parts import Image, Labels, Sample, as_part
from ..resampling.gather import INTERPOLATIONS, Interpolation, as_type, gather
from ..resampling.mapping import Mapping3
from ..sequence import Sequence
from .info import VolumeInfo
from .source import AnyArray, Box
from .space import grids_agree, moved, spacing_of, turn_to

__all__ = [
    "INTERP",
    "TargetGrid",
    "align",
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
_SMOOTHED: Final = ("linear", "cubic", "bspline")  # not labels
# voxels around a window on which its values depend; those farther away change splines by less than 2e-6 of the range
_MARGINS: Final = {"cubic": 2, "bspline": 10}
_REACH: Final = 4.0  # of a Gaussian, in σ
_ROUND: Final = 1e-10  # by which entries of a matrix differ from whole numbers through rounding


@dataclass(frozen=True, eq=False)
class TargetGrid:
    """Grid of a result, and interpolation.

    Attributes:
        shape: D, H and W.
        affine: 4×4, from (d, h, w) to millimeters.
        interp: ``"linear"``, ``"nearest"``, ``"cubic"``, ``"vote"`` or ``"bspline"``.
        antialias: whether a Gaussian is applied first along axes that get coarser.
        fill_value: value outside the volume; None repeats its edge.
    """

    shape: tuple[int, int, int]
    affine: FloatArray
    interp: Interpolation = "linear"
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
    interp: Interpolation = "linear",
    antialias: bool = True,
    fill_value: float | None = None,
) -> TargetGrid:
    """Return the target grid; see :func:`resample`."""
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
    interp: Interpolation = "linear",
    antialias: bool = True,
    fill_value: float | None = None,
) -> Sequence:
    """Resample a volume to another grid; structures keep their position in millimeters.

    Args:
        sequence: ``DHWC`` or ``FDHWC``, with an affine.
        spacing_mm: distance between slices, rows and columns of the result, or one number for all; the outer borders
            of the volume are preserved, within half a voxel at the far end.
        like: instead, the owner of the target grid: a reader, a sequence with an affine, or a :class:`VolumeInfo`.
        interp: ``"linear"``; ``"nearest"``; ``"vote"`` for labels: the value with the largest sum of linear weights,
            of equal ones that of the nearest voxel, else the smallest; ``"cubic"``: Keys' cubic; or ``"bspline"``: the
            cubic B-spline through all voxels, as SciPy's order 3.
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
    """Return a window of the grid, reading only the voxels that it needs."""
    return window_of(grid, box, info.grid, info.affine, read)


def window_of(
    grid: TargetGrid,
    box: Box,
    shape: tuple[int, int, int],
    affine: FloatArray,
    read: Callable[[Box], AnyArray],
) -> AnyArray:
    """Return a window of a grid over any volume; see :func:`resampled_window`."""
    matrix = np.linalg.inv(affine) @ moved(grid.affine, box.start)
    factors = np.linalg.norm(matrix[:3, :3], axis=1)
    blurred = grid.antialias and grid.interp in _SMOOTHED
    sigmas = [max(0.0, (f - 1) / 2) if blurred and f > 1 + 1e-6 else 0.0 for f in factors]
    margin = _MARGINS.get(grid.interp, 1)
    needed = _needed(matrix, box.shape, shape, [margin + math.ceil(_REACH * sigma) for sigma in sigmas])
    data = read(needed)
    matrix[:3, 3] -= needed.start
    # whole numbers without the rounding of matrices: voxels that both grids have are copied
    whole = np.rint(matrix)
    mapping = Mapping3(box.shape, np.where(np.abs(matrix - whole) < _ROUND, whole, matrix))

    def resampled(volume: AnyArray) -> AnyArray:
        work = _smoothed(volume, sigmas) if any(sigmas) else volume
        values: AnyArray = gather(work, mapping, grid.interp, grid.fill_value, double=True)
        return values if work is volume else as_type(values, volume.dtype)

    return resampled(data) if data.ndim == 4 else np.stack([resampled(volume) for volume in data])


def _smoothed(array: AnyArray, sigmas: Seq[float]) -> AnyArray:
    """Apply a Gaussian along the first three axes, repeating edges; σ in voxels, 0 for none."""
    import cv2

    exact = array.dtype.itemsize > 4 or (array.dtype.kind in "iu" and array.dtype.itemsize == 4)
    result: AnyArray = np.ascontiguousarray(array, np.float64 if exact else np.float32)
    edge = {"borderType": cv2.BORDER_REPLICATE}
    along_d, along_h, along_w = map(_gaussian, sigmas)
    if len(along_d) > 1:  # each slice becomes one row
        flat = result.reshape(len(result), -1)
        result = cv2.sepFilter2D(flat, -1, np.ones(1), along_d, **edge).reshape(result.shape)
    if len(along_h) > 1 or len(along_w) > 1:
        blurred = np.empty_like(result)
        for plane, target in zip(result, blurred, strict=True):
            target[:] = cv2.sepFilter2D(plane, -1, along_w, along_h, **edge).reshape(target.shape)
        result = blurred
    return result


def _gaussian(sigma: float) -> FloatArray:
    """Return the weights of a Gaussian, with a sum of 1; a single weight for σ = 0."""
    reach = int(np.ceil(_REACH * max(sigma, 0.0)))
    weights: FloatArray = np.exp(-0.5 * (np.arange(-reach, reach + 1) / (sigma if reach else 1.0)) ** 2)
    weights /= weights.sum()
    return weights


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
    """Return the distances between slices, rows and columns."""
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


def align(
    sample: Mapping[str, Any],
    to: str | None = None,
    *,
    interp: Interpolation = "linear",
    antialias: bool = True,
    fill_value: float | None = None,
) -> Sample:
    """Resample the images and labels of a sample to one grid, as operators on samples require.

    ``align({"ct": ct, "pet": pet, "label": Labels(mask)})`` resamples PET and labels to the grid of the CT. Points and
    boxes are unchanged: in mm they do not depend on a grid, in voxels they refer to the grid of the part ``to``.

    Args:
        sample: parts by name; images and labels are sequences ``DHWC`` with an affine.
        to: name of the part with the target grid; by default the first image, or the first labels if there is none.
        interp: interpolation of images; labels have their own ``interp``, and are 0 outside.
        antialias: see :func:`resample`.
        fill_value: value outside images; None repeats the edge.

    Returns:
        The sample with its names and part types; a part that is already on the grid is not copied.

    Raises:
        ParameterError: the part ``to`` does not exist, or a part has no affine.
    """
    parts = {name: as_part(value) for name, value in sample.items()}
    voxels = {name: part for name, part in parts.items() if isinstance(part, (Image, Labels))}
    images = [name for name, part in voxels.items() if isinstance(part, Image)]
    chosen = to if to is not None else next(iter([*images, *voxels]), None)
    if chosen is None or chosen not in voxels:
        raise ParameterError(
            f"the sample has no image or labels {to!r}" if to is not None else "the sample has no images",
            source="align",
            allowed=", ".join(voxels) or "images and labels",
        )
    grid = _with_affine(chosen, voxels[chosen].data)
    aligned: dict[str, Any] = dict(sample)
    for name, part in voxels.items():
        own = _with_affine(name, part.data)
        same = own.shape[-4:-1] == grid.shape[-4:-1]
        if same and grids_agree(own.affine, grid.affine, own.shape[-4:-1]):
            continue
        how: Any = part.interp if isinstance(part, Labels) else interp
        outside = 0 if isinstance(part, Labels) else fill_value
        resampled = resample(own.scaled(), like=grid, interp=how, antialias=antialias, fill_value=outside)
        aligned[name] = resampled if sample[name] is part.data else part.with_data(resampled)
    return Sample(aligned, getattr(sample, "history", ()))


def _with_affine(name: str, data: Any) -> Sequence:
    """Return the sequence of a part, which must have an affine."""
    if not isinstance(data, Sequence) or data.affine is None or not data.layout.endswith("DHWC"):
        raise ParameterError(
            f"{name} has no affine",
            source="align",
            allowed="sequences DHWC with an affine, as seqpipe.open(…).sequence() returns",
        )
    return data
