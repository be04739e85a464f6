"""Sample order and sharding: pure functions of (seed, epoch), without state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..array import IntArray
from ..core.param import check_fields
from ..errors import ParameterError
from ..random import Permutation
from .params import EPOCH, SEED, SHUFFLE, STICK_TO_SHARD, check_shard

__all__ = ["EpochOrder"]


@dataclass(frozen=True, kw_only=True)
class EpochOrder:
    """The sample at each position of a rank's epoch.

    The samples 0 … size - 1 are divided into ``world`` consecutive parts whose sizes differ by at most one. In every
    epoch each part belongs to exactly one rank, so the ranks together read every sample exactly once.

    =======  ==================================================  ===============================================
    shuffle  ``stick_to_shard=False``                            ``stick_to_shard=True``
    =======  ==================================================  ===============================================
    False    parts of the samples in dataset order; the rank     the rank keeps part ``rank`` of the samples, in
             reads part ``(rank + epoch) % world``               dataset order, in every epoch
    True     parts of one permutation of all samples for each    the rank keeps part ``rank`` of the samples, in
             epoch, the same on all ranks; the rank reads part   a new order in each epoch
             ``(rank + epoch) % world``
    =======  ==================================================  ===============================================

    With ``stick_to_shard``, a rank reads the same neighboring samples in every epoch and can cache their files. If the
    dataset is sorted by class, each rank then sees few classes; shuffle the list of files once to avoid that.

    Attributes:
        size: number of samples of the dataset.
        seed: seed of the permutations.
        shuffle: whether each epoch has a new random order.
        shard: ``(rank, world)``.
        stick_to_shard: whether the rank keeps its samples.

    Raises:
        ParameterError: a parameter is out of bounds.
    """

    size: int
    seed: int = 0
    shuffle: bool = False
    shard: tuple[int, int] = (0, 1)
    stick_to_shard: bool = False

    def __post_init__(self) -> None:
        check_fields(self, SEED, SHUFFLE, STICK_TO_SHARD)
        object.__setattr__(self, "shard", check_shard(self.shard))
        if self.size < 0:
            raise ParameterError(f"size={self.size} is not valid", allowed="a whole number of at least 0")

    def length(self, epoch: int = 0) -> int:
        """Return the number of samples of the rank in an epoch."""
        first, end = self._part(epoch)
        return end - first

    @property
    def longest(self) -> int:
        """Largest number of samples of a rank in an epoch."""
        return -(-self.size // self.shard[1])

    @property
    def shortest(self) -> int:
        """Smallest number of samples of a rank in an epoch."""
        return self.size // self.shard[1]

    def samples(self, epoch: int, positions: IntArray | None = None) -> IntArray:
        """Return the samples at positions of the rank's epoch; by default all of them.

        Raises:
            ParameterError: a position is outside of the epoch.
        """
        length = self.length(epoch)
        positions = np.arange(length) if positions is None else _whole_numbers(positions)
        if positions.size and (positions.min() < 0 or positions.max() >= length):
            bad = int(positions[(positions < 0) | (positions >= length)].flat[0])
            raise ParameterError(
                f"position={bad} is not valid in epoch {epoch} of rank {self.shard[0]}",
                allowed=f"0 to {length - 1}" if length else "none, the rank has no samples",
            )
        first, end = self._part(epoch)
        if not self.shuffle:
            return first + positions
        if self.stick_to_shard:
            # A stream name per rank: otherwise all ranks would permute their parts in the same way.
            name = f"shard {self.shard[0]}"
            return first + Permutation(end - first, self.seed, name, epoch)[positions]
        return Permutation(self.size, self.seed, "shuffle", epoch)[first + positions]

    def fingerprint_fields(self) -> dict[str, object]:
        """Return the fields that determine the order, without ``size``, for :func:`fingerprint`."""
        return {
            "seed": self.seed,
            "shuffle": self.shuffle,
            "shard": list(self.shard),
            "stick_to_shard": self.stick_to_shard,
        }

    def _part(self, epoch: int) -> tuple[int, int]:
        """Return the rank's part of the epoch, half-open."""
        rank, world = self.shard
        part = rank if self.stick_to_shard else (rank + EPOCH.check(epoch)) % world
        return self.size * part // world, self.size * (part + 1) // world


def _whole_numbers(positions: object) -> IntArray:
    array = np.asarray(positions)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ParameterError(f"positions={positions!r} is not valid", allowed="a list of whole numbers")
    return array.astype(np.int64, copy=False)
