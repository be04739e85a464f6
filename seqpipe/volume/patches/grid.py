"""Grid inference: overlapping patches of a volume, and the sums of a model's output for them."""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from ...array import Array, IntArray, namespace
from ...core.param import choice
from ...errors import ParameterError
from ..source import AnyArray

__all__ = [
    "NO_MARGINS",
    "WEIGHTS",
    "PatchSums",
    "Weighting",
    "grid_starts",
    "starts_of",
    "window_weights",
    "without_margins",
]

Weighting: TypeAlias = Literal["constant", "gaussian", "hann"]

WEIGHTS: Final = choice(
    "weights", "Weight of a voxel by its position in the patch", ("constant", "gaussian", "hann")
)
NO_MARGINS: Final = (0, 0, 0)
_MIN_WEIGHT: Final = 1e-3
_SIGMAS: Final = 8


def grid_starts(size: int, patch: int, overlap: float) -> IntArray:
    """Return the starts of patches along an axis: evenly from the first voxel to the last, with at least the overlap.

    Args:
        size: voxels of the axis, at least ``patch``.
        patch: voxels of a patch.
        overlap: overlapping fraction of a patch, below 1.
    """
    step = max(1, math.floor(patch * (1 - overlap)))
    count = math.ceil((size - patch) / step) + 1
    starts: IntArray = np.rint(np.linspace(0, size - patch, count)).astype(np.int64)
    return starts


def starts_of(
    grid: Seq[int], patch: Seq[int], overlaps: Seq[float], margins: Seq[int] = NO_MARGINS
) -> IntArray:
    """Return the first voxel of each patch that covers a volume without its margin, int64 ``(n, 3)``.

    It is below 0 in margins, and where the volume is smaller than a patch.
    """
    axes = [
        grid_starts(n, p - 2 * m, share) - m if n >= p - 2 * m else np.array([-((p - n) // 2)])
        for n, p, share, m in zip(grid, patch, overlaps, margins, strict=True)
    ]
    result: IntArray = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    return result


def without_margins(output: Array, margins: Seq[int], kept: Seq[int]) -> Array:
    """Return the output ``NDHWC`` for patches without their margins, if it has them."""
    size = tuple(side + 2 * margin for side, margin in zip(kept, margins, strict=True))
    if output.ndim != 5 or output.shape[1:4] != size:
        return output
    cut = (slice(m, m + side) for m, side in zip(margins, kept, strict=True))
    inner: Array = output[(slice(None), *cut)]
    return inner


def window_weights(patch: Seq[int], weights: Weighting, margins: Seq[int] = NO_MARGINS) -> AnyArray:
    """Return the weight of each voxel of a patch without its margins, float32 ``DHW``, from 1e-3 to 1.

    σ of ``"gaussian"`` is an eighth of the patch, as in nnU-Net and MONAI; ``"hann"`` is a squared sine.
    """
    axes = []
    for side, margin in zip(patch, margins, strict=True):
        size = side - 2 * margin
        position = np.arange(size) + 0.5
        if weights == "gaussian":
            axes.append(np.exp(-0.5 * ((position - size / 2) / (size / _SIGMAS)) ** 2))
        elif weights == "hann":
            axes.append(np.sin(np.pi * position / size) ** 2)
        else:
            axes.append(np.ones(size))
    product = axes[0][:, None, None] * axes[1][:, None] * axes[2]
    result: AnyArray = np.maximum(product / product.max(), _MIN_WEIGHT).astype(np.float32)
    return result


class PatchSums:
    """A model's output for the patches of a volume: a weighted mean where they overlap.

    The sums are float32, on the device of the first patches. If the model is the identity, the result is the volume:
    exactly for integers of up to 16 bits (``result(dtype=…)``), to 3e-7 of the range for floats.

    Args:
        grid: slices, rows and columns of the volume.
        starts: first voxel of each patch.
        weights: weight of each voxel of a patch without its margins, ``DHW``.
        margins: voxels on each side of a patch whose output is left out.
    """

    def __init__(
        self, grid: Seq[int], starts: IntArray, weights: AnyArray, margins: Seq[int] = NO_MARGINS
    ) -> None:
        self._grid, self._weights, self._margins = tuple(grid), weights, tuple(margins)
        self._starts: IntArray = starts + np.array(margins)
        self._sum: Array | None = None
        self._total: Array | None = None
        self._added = np.zeros(len(starts), dtype=np.bool_)

    @property
    def complete(self) -> bool:
        """Whether the output for every patch was added."""
        return bool(self._added.all())

    def add(self, numbers: Seq[int], output: Array) -> None:
        """Add the output for patches.

        Args:
            numbers: numbers of the patches.
            output: ``NDHWC``, of any number of channels, with the margins of patches or without.

        Raises:
            ParameterError: the shape does not fit.
        """
        patch = self._weights.shape
        output = without_margins(output, self._margins, patch)
        if output.ndim != 5 or output.shape[:4] != (len(numbers), *patch):
            raise ParameterError(
                f"the output for {len(numbers)} patches has the shape {tuple(output.shape)}",
                allowed=f"({len(numbers)}, {', '.join(map(str, patch))}, channels)",
            )
        if self._sum is not None and self._sum.shape[3] != output.shape[4]:
            raise ParameterError(
                f"the output has {output.shape[4]} channels, and that for patches before it {self._sum.shape[3]}"
            )
        xp = namespace(output)
        if self._sum is None or self._total is None:
            self._sum = xp.zeros((*self._grid, output.shape[4]), dtype=xp.float32)
            self._total = xp.zeros((*self._grid, 1), dtype=xp.float32)
        weights = xp.asarray(self._weights)[..., None]
        for number, values in zip(numbers, output, strict=True):
            target, inner = [], []
            for s, p, n in zip(self._starts[number].tolist(), patch, self._grid, strict=True):
                first, end = max(0, s), min(n, s + p)
                target.append(slice(first, end))
                inner.append(slice(first - s, end - s))
            weight = weights[tuple(inner)]
            self._sum[tuple(target)] += values[tuple(inner)].astype(xp.float32) * weight
            self._total[tuple(target)] += weight
            self._added[number] = True

    def result(self, dtype: Any = np.float32) -> Array:
        """Return the volume ``DHWC``, once it is complete.

        Args:
            dtype: dtype of the result; integers are rounded half to even, and saturate.
        """
        xp, kind = namespace(self._sum), np.dtype(dtype)
        mean = self._sum / self._total  # type: ignore[operator]  # there are patches
        if kind.kind in "iu":
            limits = np.iinfo(kind)
            mean = xp.clip(xp.rint(mean), limits.min, limits.max)
        return mean.astype(kind)
