"""Patches: choosing their positions in a volume, and cropping.

Uniform random numbers determine a position, so sampling them needs no voxels. A voxel of a class is found without a
list of all voxels, by the number of voxels of the class in each row.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import numpy as np

from ...array import FloatArray, IntArray, namespace
from ...core.native import load_functions
from ...core.padding import PadMode, source_indices
from ...errors import ParameterError, UnreadableSourceError
from ...sequence import Sequence
from ..source import AnyArray
from ..space import moved

__all__ = [
    "ClassIndex",
    "WeightIndex",
    "centered",
    "cut_patch",
    "uniform_start",
]

_DIRECT_CLASSES: Final = 4096  # numbers below it are counted without a list of those that occur
_MOST_CLASSES: Final = 1 << 16
_MOST_COUNTS: Final = 2 << 30  # bytes


def uniform_start(draws: Seq[float], grid: Seq[int], patch: Seq[int]) -> tuple[int, int, int]:
    """Return the first voxel of a patch anywhere in a volume; centered, and below 0, where the volume is smaller."""
    depth, height, width = (
        min(math.floor(u * (n - p + 1)), n - p) if n >= p else -((p - n) // 2)
        for u, n, p in zip(draws, grid, patch, strict=True)
    )
    return depth, height, width


def centered(voxel: Seq[int], grid: Seq[int], patch: Seq[int]) -> tuple[int, int, int]:
    """Return the first voxel of the patch centered on a voxel, shifted into the volume where that is possible."""
    depth, height, width = (
        min(max(v - p // 2, 0), n - p) if n >= p else -((p - n) // 2)
        for v, n, p in zip(voxel, grid, patch, strict=True)
    )
    return depth, height, width


def cut_patch(
    sequence: Sequence, start: Seq[int], patch: Seq[int], pad_mode: PadMode = "none", fill_value: float = 0
) -> Sequence:
    """Crop a patch with its affine; the data is copied."""
    first_axis = sequence.layout.index("D")
    grid = sequence.shape[first_axis : first_axis + 3]
    spans = [(max(0, s), min(n, s + p)) for s, p, n in zip(start, patch, grid, strict=True)]
    outside = [(first - s, s + p - end) for (first, end), s, p in zip(spans, start, patch, strict=True)]
    if any(first >= end for first, end in spans) or (pad_mode == "none" and any(map(any, outside))):
        raise ParameterError(
            f"the patch of {'×'.join(map(str, patch))} voxels at {tuple(start)} is not in the volume of "
            f"{'×'.join(map(str, grid))}",
            source=sequence.source,
            advice="Choose a pad such as 'constant' or 'edge'",
        )
    cut = (*[slice(None)] * first_axis, *(slice(*span) for span in spans))
    xp = namespace(sequence.data)
    if pad_mode == "none" or not any(map(any, outside)):
        data = sequence.data[cut].copy()
    elif pad_mode == "constant":
        widths = [*[(0, 0)] * first_axis, *outside, (0, 0)]
        data = xp.pad(sequence.data[cut], widths, constant_values=fill_value)
    else:
        data = sequence.data
        for axis, (s, p, n) in enumerate(zip(start, patch, grid, strict=True), first_axis):
            data = data.take(xp.asarray(source_indices(s, p, n, pad_mode)), axis)
    affine = None if sequence.affine is None else moved(sequence.affine, start)
    return replace(sequence, data=data, affine=affine, frames=None, timestamps=None)


@dataclass(frozen=True, eq=False)
class ClassIndex:
    """Counts of the voxels of each class in each row of a label volume.

    Attributes:
        labels: ``DHW``: for each voxel the position of its class in ``classes``; of regions, those of each channel
            behind those of the one before.
        classes: the class numbers that may occur, ascending, int64.
        counts: cumulative count of the voxels of each class up to the end of each row, int64 ``(classes, D · H)``.
        depth: slices of the volume.
    """

    labels: AnyArray
    classes: IntArray
    counts: IntArray
    depth: int

    @classmethod
    def of(cls, labels: AnyArray, source: str = "") -> ClassIndex:
        """Return the index of a label volume, or of regions, which may overlap: masks ``DHWC``, the first is 1."""
        depth = len(labels)
        if labels.ndim == 4 and labels.shape[3] > 1:
            number = np.arange(1, labels.shape[3] + 1, dtype=np.uint8)
            labels = np.concatenate(np.moveaxis((labels != 0) * number, 3, 0))
        plain = np.ascontiguousarray(labels[..., 0] if labels.ndim == 4 else labels)
        low, high = int(plain.min(initial=0)), int(plain.max(initial=0))
        rows, columns = math.prod(plain.shape[:2]), plain.shape[2]
        if low < 0 or high >= min(
            _DIRECT_CLASSES, _MOST_COUNTS // (8 * max(1, rows))
        ):  # such as those of atlases
            classes, plain = _compact(plain, low, high)
        else:
            classes = np.arange(high + 1, dtype=np.int64)
        if len(classes) > _MOST_CLASSES or len(classes) * rows * 8 > _MOST_COUNTS:
            raise UnreadableSourceError(
                f"there are {len(classes):,} different labels",
                source=source or None,
                allowed=f"{min(_MOST_CLASSES, _MOST_COUNTS // (8 * max(1, rows))):,} in a volume of this size",
                advice="Choose around='uniform', or a map of weights (around='weighted')",
            )
        plain = plain.astype(np.uint8 if len(classes) <= 256 else np.uint16, copy=False)
        per_row = _row_counts(plain.reshape(rows, columns), len(classes))
        counts: IntArray = np.cumsum(per_row.T, axis=1, dtype=np.int64)
        return cls(plain, classes, counts, depth)

    @property
    def present(self) -> dict[int, int]:
        """Number of voxels of each class that occurs."""
        pairs = zip(self.classes.tolist(), self.counts[:, -1].tolist(), strict=True)
        return {number: total for number, total in pairs if total}

    def voxel(self, number: int, draw: float) -> tuple[int, int, int]:
        """Return a voxel of a class, sampled uniformly."""
        position = int(np.searchsorted(self.classes, number))
        counts = self.counts[position]
        wanted = min(int(draw * int(counts[-1])), int(counts[-1]) - 1)
        row = int(np.searchsorted(counts, wanted, side="right"))
        before = int(counts[row - 1]) if row else 0
        depth, height = divmod(row, self.labels.shape[1])
        column = int(np.flatnonzero(self.labels[depth, height] == position)[wanted - before])
        return depth % self.depth, height, column


@dataclass(frozen=True, eq=False)
class WeightIndex:
    """Cumulative sums of the rows of a weight map.

    Attributes:
        weights: ``DHW``, at least 0.
        sums: sum of all weights up to the end of each row, float64 ``(D · H,)``.
    """

    weights: AnyArray
    sums: FloatArray

    @classmethod
    def of(cls, weights: AnyArray, source: str = "") -> WeightIndex:
        """Return the index of a weight map."""
        plain = weights[..., 0] if weights.ndim == 4 else weights
        rows = plain.sum(axis=2, dtype=np.float64).ravel()
        if not np.isfinite(rows).all() or plain.min(initial=0) < 0:
            raise ParameterError(
                "the map has weights that are negative or not finite", source=source, allowed="0 or more"
            )
        return cls(plain, np.cumsum(rows))

    def voxel(self, draw: float) -> tuple[int, int, int] | None:
        """Return a voxel, sampled with probability proportional to its weight; None if all weights are 0."""
        total = float(self.sums[-1])
        if total <= 0:
            return None
        row = int(np.searchsorted(self.sums, draw * total, side="right"))
        row = min(row, int(np.flatnonzero(np.diff(self.sums, prepend=0.0) > 0)[-1]))
        depth, height = divmod(row, self.weights.shape[1])
        before = float(self.sums[row - 1]) if row else 0.0
        inner = np.cumsum(self.weights[depth, height], dtype=np.float64)
        column = int(np.searchsorted(inner, draw * total - before, side="right"))
        return depth, height, min(column, int(np.flatnonzero(self.weights[depth, height] > 0)[-1]))


def _compact(labels: AnyArray, low: int, high: int) -> tuple[IntArray, AnyArray]:
    """Return the numbers that occur, ascending, and for each voxel the position of its number among these."""
    if high - low >= _MOST_CLASSES:
        numbers, positions = np.unique(labels, return_inverse=True)
        return numbers.astype(np.int64), positions.reshape(labels.shape)
    above = np.subtract(labels, low, dtype=np.int64, casting="unsafe")
    occurs = np.bincount(above.ravel(), minlength=1) > 0
    return np.flatnonzero(occurs) + low, (np.cumsum(occurs) - 1)[above]


def _row_counts(labels: AnyArray, classes: int) -> AnyArray:
    """Count the voxels of each class in each row, int32 ``(rows, classes)``."""
    counts = np.zeros((len(labels), classes), dtype=np.int32)
    functions = _functions()
    if functions is not None:
        call = getattr(functions, f"seqpipe_class_rows_{labels.dtype.itemsize}")
        call(labels.ctypes.data, *labels.shape, classes, counts.ctypes.data)
        return counts
    for number in range(classes):
        counts[:, number] = (labels == number).sum(axis=1)
    return counts


@cache
def _functions() -> Any:
    """Return the functions in C, or None."""
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    arguments = (pointer, number, number, number, pointer)
    declared: Mapping[str, tuple[Any, ...]] = {f"class_rows_{size}": arguments for size in (1, 2)}
    return load_functions(__package__, "class_rows.c", declared)
