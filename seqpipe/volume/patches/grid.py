"""Grid inference: overlapping patches of a volume, and the aggregation of a model's output for them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from ...array import Array, IntArray, as_native, namespace
from ...core.padding import PadMode
from ...core.param import Param, choice
from ...core.turns import InTurn
from ...errors import FrameRangeError, ParameterError
from ...sampling.params import BATCH_SIZE
from ...sequence import Batch, Sequence
from ..reader import VolumeReader
from ..source import AnyArray, Box
from ..space import moved
from .cutting import PATCH_PAD, check_patch_size, cut_patch

__all__ = ["GridAggregator", "GridSampler", "Weighting", "grid_starts", "starts_of", "window_weights"]

Weighting: TypeAlias = Literal["constant", "gaussian", "hann"]

_WEIGHTS: Final = choice(
    "weights", "Weight of a voxel by its position in the patch", ("constant", "gaussian", "hann")
)
_OVERLAP: Final = Param(
    name="overlap", doc="Fraction of a patch that it shares with its neighbor", kind=float, lo=0, hi=0.99
)
_LEAST: Final = 1e-3
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
    grid: Seq[int], patch: Seq[int], overlap: float | Seq[float], pad: PadMode, source: str
) -> IntArray:
    """Return the first voxel of each patch that covers a volume, int64 ``(n, 3)``; below 0 where it is smaller.

    Args:
        grid: slices, rows and columns of the volume.
        patch: those of a patch.
        overlap: fraction of a patch that it shares with its neighbor; one, or one for each axis.
        pad: padding of a volume that is smaller than a patch; "none" refuses it.
        source: name of the volume, for messages.

    Raises:
        ParameterError: the patch is larger than the volume and ``pad`` is "none", or ``overlap`` is out of bounds.
    """
    shares = overlap if isinstance(overlap, (list, tuple)) else (overlap,) * 3
    shares = [_OVERLAP.check(share) for share in shares]
    if len(shares) != 3:
        raise ParameterError(f"overlap={overlap!r} is not valid", allowed="one number, or one for each axis")
    if PATCH_PAD.check(pad) == "none" and any(p > n for p, n in zip(patch, grid, strict=True)):
        raise ParameterError(
            f"patch_size={tuple(patch)} is larger than the volume of {'×'.join(map(str, grid))} voxels",
            source=source,
            advice="Choose a pad_mode such as 'constant' or 'edge', or a smaller patch",
        )
    axes = [
        grid_starts(n, p, share) if n >= p else np.array([-((p - n) // 2)])
        for n, p, share in zip(grid, patch, shares, strict=True)
    ]
    result: IntArray = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    return result


def window_weights(patch: Seq[int], weights: Weighting) -> AnyArray:
    """Return the weight of each voxel of a patch, float32 ``DHW``, from 1e-3 to 1.

    σ of ``"gaussian"`` is an eighth of the patch, as in nnU-Net and MONAI; ``"hann"`` is a squared sine.
    """
    axes = []
    for size in patch:
        position = np.arange(size) + 0.5
        if weights == "gaussian":
            axes.append(np.exp(-0.5 * ((position - size / 2) / (size / _SIGMAS)) ** 2))
        elif weights == "hann":
            axes.append(np.sin(np.pi * position / size) ** 2)
        else:
            axes.append(np.ones(size))
    product = axes[0][:, None, None] * axes[1][:, None] * axes[2]
    result: AnyArray = np.maximum(product / product.max(), _LEAST).astype(np.float32)
    return result


class GridSampler:
    """The patches that cover a volume, in order; each is a :class:`~seqpipe.Sequence` with an affine.

    ``for patch in sampler`` yields single patches, ``sampler.batches(4)`` batches; both read windows of the volume.

    Args:
        volume: a reader, or a sequence ``DHWC``; or a series ``FDHWC``, whose volumes are cut at the same position.
        patch_size: slices, rows and columns, or one number for all.
        overlap: least fraction of a patch that it shares with its neighbor.
        pad_mode: padding of a volume smaller than a patch, on both sides; see :mod:`seqpipe.core.padding`. ``"none"``
            refuses it, ``"constant"`` pads with zeros.

    Attributes:
        starts: the first voxel of each patch, int64 ``(n, 3)``; below 0 where the volume is smaller than a patch.

    Raises:
        ParameterError: an argument is out of bounds, or a patch is larger than the volume and ``pad_mode`` is "none".
    """

    def __init__(
        self,
        volume: VolumeReader | Sequence,
        patch_size: int | Seq[int],
        *,
        overlap: float = 0.25,
        pad_mode: PadMode = "none",
    ) -> None:
        self.patch_size = check_patch_size(patch_size)
        share = _OVERLAP.check(overlap)
        self._pad: PadMode = PATCH_PAD.check(pad_mode)
        if isinstance(volume, Sequence) and volume.layout not in ("DHWC", "FDHWC"):
            raise ParameterError(
                f"a sequence {volume.layout} is not a volume", allowed="DHWC, FDHWC, or a reader"
            )
        self.volume = volume
        depth, height, width = volume.shape[-4:-1]
        self.grid = (depth, height, width)
        self.starts: IntArray = starts_of(self.grid, self.patch_size, share, self._pad, self._name)

    @property
    def _name(self) -> str:
        return self.volume.source if isinstance(self.volume, Sequence) else self.volume.info.source

    def out_of_range(self, number: int) -> FrameRangeError:
        """Return the error for the number of a patch that does not exist."""
        return FrameRangeError(
            f"there is no patch {number!r}", source=self._name, allowed=f"0 to {len(self) - 1}"
        )

    def __len__(self) -> int:
        """The number of patches."""
        return len(self.starts)

    def __getitem__(self, number: int) -> Sequence:
        """Return one patch.

        Raises:
            FrameRangeError: the number is out of range.
        """
        if not 0 <= number < len(self):
            raise self.out_of_range(number)
        start = tuple(int(position) for position in self.starts[int(number)])
        whole = self.volume
        spans = [
            (max(0, s), min(n, s + p)) for s, p, n in zip(start, self.patch_size, self.grid, strict=True)
        ]
        box = Box(spans[0], spans[1], spans[2])
        if isinstance(whole, VolumeReader):
            part = whole.sequence(box)
        else:
            affine = None if whole.affine is None else moved(whole.affine, box.start)
            data = whole.data[(..., *box.slices, slice(None))]
            part = replace(whole, data=data, affine=affine, frames=None, timestamps=None)
        inner = [s - b for s, b in zip(start, box.start, strict=True)]
        return cut_patch(part, inner, self.patch_size, self._pad)

    def __iter__(self) -> Iterator[Sequence]:
        return InTurn(self[number] for number in range(len(self)))

    def batches(self, batch_size: int) -> Iterator[tuple[IntArray, Batch]]:
        """Iterate over the numbers of ``batch_size`` patches and the patches ``NDHWC``; the last batch may be smaller.

        Raises:
            ParameterError: ``batch_size`` is below 1.
        """
        return InTurn(self._batches(BATCH_SIZE.check(batch_size)))

    def _batches(self, batch_size: int) -> Iterator[tuple[IntArray, Batch]]:
        for first in range(0, len(self), batch_size):
            numbers = np.arange(first, min(first + batch_size, len(self)))
            yield numbers, Batch.of([self[int(number)] for number in numbers], indices=numbers)


class GridAggregator:
    """Aggregates a model's output for patches: a weighted mean where they overlap.

    The sums are float32, on the device of the first patches. If the model is the identity, the result is the volume:
    exactly for integers of up to 16 bits (``result(dtype=…)``), to 3e-7 of the range for floats.

    Args:
        sampler: the sampler of the patches.
        weights: ``"gaussian"``, ``"hann"`` or ``"constant"``.

    Raises:
        ParameterError: ``weights`` is invalid.
    """

    def __init__(self, sampler: GridSampler, weights: Weighting = "gaussian") -> None:
        volume = sampler.volume
        source = volume.source if isinstance(volume, Sequence) else volume.info.source
        self._place(sampler.grid, sampler.patch_size, sampler.starts, weights, volume.affine, source)

    def _place(
        self,
        grid: Seq[int],
        patch: Seq[int],
        starts: IntArray,
        weights: Weighting,
        affine: Any,
        source: str,
    ) -> None:
        self._grid, self._patch, self._starts = tuple(grid), tuple(patch), starts
        self._affine, self._source = affine, source
        self._weights = window_weights(patch, _WEIGHTS.check(weights))
        self._sum: Array | None = None
        self._total: Array | None = None
        self._added = np.zeros(len(starts), dtype=np.bool_)

    @classmethod
    def of(
        cls,
        grid: Seq[int],
        patch: Seq[int],
        starts: IntArray,
        weights: Weighting,
        affine: Any,
        source: str,
    ) -> GridAggregator:
        """Return an aggregator without a sampler.

        Args:
            grid: slices, rows and columns of the volume.
            patch: those of a patch.
            starts: first voxel of each patch.
            weights: weight of a voxel by its position in the patch.
            affine: the volume's affine, or None.
            source: name of the volume.
        """
        result = cls.__new__(cls)
        result._place(grid, patch, starts, weights, affine, source)
        return result

    @property
    def complete(self) -> bool:
        """Whether the output for every patch was added."""
        return bool(self._added.all())

    def add(self, numbers: int | Iterable[int], output: Any) -> None:
        """Add the output for patches.

        Args:
            numbers: numbers of the patches, or the number of one.
            output: a batch or array ``NDHWC``, or ``DHWC`` for one; with the patches' slices, rows and columns and any
                number of channels. NumPy, CuPy, torch.

        Raises:
            ParameterError: the shape does not fit.
            FrameRangeError: a number is out of range.
        """
        data = as_native(output.data if isinstance(output, (Batch, Sequence)) else output)
        chosen = (
            [int(numbers)] if isinstance(numbers, (int, np.integer)) else [int(number) for number in numbers]
        )
        data = data[None] if data.ndim == 4 else data
        if data.ndim != 5 or data.shape[:4] != (len(chosen), *self._patch):
            raise ParameterError(
                f"the output for {len(chosen)} patches has the shape {tuple(data.shape)}",
                allowed=f"({len(chosen)}, {', '.join(map(str, self._patch))}, channels)",
            )
        if wrong := [number for number in chosen if not 0 <= number < len(self._starts)]:
            raise FrameRangeError(
                f"there is no patch {wrong[0]!r}",
                source=self._source,
                allowed=f"0 to {len(self._starts) - 1}",
            )
        if self._sum is not None and self._sum.shape[3] != data.shape[4]:
            raise ParameterError(
                f"the output has {data.shape[4]} channels, and that for patches before it {self._sum.shape[3]}"
            )
        xp = namespace(data)
        if self._sum is None or self._total is None:
            self._sum = xp.zeros((*self._grid, data.shape[4]), dtype=xp.float32)
            self._total = xp.zeros((*self._grid, 1), dtype=xp.float32)
        weights = xp.asarray(self._weights)[..., None]
        for number, patch in zip(chosen, data, strict=True):
            target, inner = [], []
            for s, p, n in zip(self._starts[number], self._patch, self._grid, strict=True):
                first, end = max(0, int(s)), min(n, int(s) + p)
                target.append(slice(first, end))
                inner.append(slice(first - int(s), end - int(s)))
            weight = weights[tuple(inner)]
            self._sum[tuple(target)] += patch[tuple(inner)].astype(xp.float32) * weight
            self._total[tuple(target)] += weight
            self._added[number] = True

    def result(self, dtype: Any = np.float32) -> Sequence:
        """Return the aggregated volume, with the affine of the sampled one.

        Args:
            dtype: dtype of the result; integers are rounded half to even.

        Raises:
            ParameterError: patches are missing.
        """
        if self._sum is None or self._total is None or not self._added.all():
            missing = np.flatnonzero(~self._added)
            raise ParameterError(
                f"{len(missing)} of {len(self._added)} patches were not added, the first is {missing[0]}",
                advice="Add the output for every patch before calling result",
            )
        xp = namespace(self._sum)
        kind = np.dtype(dtype)
        mean = self._sum / self._total
        if kind.kind in "iu":
            limits = np.iinfo(kind)
            mean = xp.clip(xp.rint(mean), limits.min, limits.max)
        return Sequence(mean.astype(kind), "DHWC", self._source, affine=self._affine)
