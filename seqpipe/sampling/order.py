"""Sample order and sharding: pure functions of (seed, epoch), without state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..array import IntArray
from ..core.param import check_fields
from ..errors import ParameterError
from ..random import Permutation
from .params import EPOCH, EVEN_SHARDS, SEED, SHUFFLE, STICK_TO_SHARD, check_shard

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
        even: whether all ranks get equally many samples, as training in lockstep needs: a rank with one sample less
            repeats the first sample of its epoch at the end.
        block: number of consecutive samples, such as the clips of a video, that stay together in every epoch. Parts
            and permutations then consist of blocks instead of samples; ``size`` is a multiple of ``block``.

    Raises:
        ParameterError: a parameter is out of bounds; ``even`` is set with fewer blocks than ranks; or ``size`` is not a
            multiple of ``block``.
    """

    size: int
    seed: int = 0
    shuffle: bool = False
    shard: tuple[int, int] = (0, 1)
    stick_to_shard: bool = False
    even: bool = False
    block: int = 1

    def __post_init__(self) -> None:
        check_fields(self, SEED, SHUFFLE, STICK_TO_SHARD)
        EVEN_SHARDS.check(self.even)
        _, world = shard = check_shard(self.shard)
        object.__setattr__(self, "shard", shard)
        if self.size < 0:
            raise ParameterError(f"size={self.size} is not valid", allowed="a whole number of at least 0")
        if self.block < 1 or self.size % self.block:
            raise ParameterError(
                f"{self.size} samples are not whole blocks of {self.block}", allowed="a multiple of block"
            )
        if self.even and self._blocks < world:
            raise ParameterError(
                f"{self.size} samples cannot be shared evenly by {world} ranks",
                allowed=f"at least {world * self.block} samples",
                advice="Use fewer ranks, a smaller step or more clips per video",
            )

    def length(self, epoch: int = 0) -> int:
        """Return the number of samples of the rank in an epoch."""
        first, end = self._part(epoch)
        return self.longest if self.even else end - first

    @property
    def longest(self) -> int:
        """Largest number of samples of a rank in an epoch."""
        return -(-self._blocks // self.shard[1]) * self.block

    @property
    def shortest(self) -> int:
        """Smallest number of samples of a rank in an epoch."""
        return self.longest if self.even else self._blocks // self.shard[1] * self.block

    @property
    def _blocks(self) -> int:
        return self.size // self.block

    def sample(self, epoch: int, position: int) -> int:
        """Return the sample at a position, 0 to ``length(epoch) - 1``, of the rank's epoch.

        Raises:
            ParameterError: the position is outside of the epoch.
        """
        return int(self.samples(epoch, np.array([position]))[0])

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
        own = end - first
        return self._samples_at(epoch, first, end, np.where(positions < own, positions, positions - own))

    def fingerprint_fields(self) -> dict[str, object]:
        """Return the fields that determine the order, without ``size``, for :func:`fingerprint`."""
        return {
            "seed": self.seed,
            "shuffle": self.shuffle,
            "shard": list(self.shard),
            "stick_to_shard": self.stick_to_shard,
            "even_shards": self.even,
            **({"block": self.block} if self.block > 1 else {}),
        }

    def clauses(self) -> list[str]:
        """Return clauses on seed and shard for a ``repr``, where they matter."""
        shuffled = [f"shuffle seed {self.seed}"] if self.shuffle else []
        return shuffled + ([f"shard {self.shard[0]} of {self.shard[1]}"] if self.shard[1] > 1 else [])

    def _samples_at(self, epoch: int, first: int, end: int, positions: IntArray) -> IntArray:
        if not self.shuffle:
            return first + positions
        blocks, within = np.divmod(positions, self.block)
        if self.stick_to_shard:
            # A stream name per rank: otherwise all ranks would permute their parts in the same way.
            own = self._permutation(epoch, (end - first) // self.block, f"shard {self.shard[0]}")
            return first + own[blocks] * self.block + within
        every = self._permutation(epoch, self._blocks, "shuffle")
        return every[first // self.block + blocks] * self.block + within

    def _permutation(self, epoch: int, size: int, name: str) -> Permutation:
        return Permutation(size, self.seed, name, epoch)

    def _part(self, epoch: int) -> tuple[int, int]:
        """Return the rank's part of the epoch, half-open."""
        rank, world = self.shard
        part = rank if self.stick_to_shard else (rank + EPOCH.check(epoch)) % world
        return self._blocks * part // world * self.block, self._blocks * (part + 1) // world * self.block


def _whole_numbers(positions: object) -> IntArray:
    array = np.asarray(positions)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ParameterError(f"positions={positions!r} is not valid", allowed="a list of whole numbers")
    return array.astype(np.int64, copy=False)
