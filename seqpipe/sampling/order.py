"""Sample order and sharding: pure functions of (seed, epoch), without state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..array import IntArray
from ..errors import ParameterError
from ..param import keep_checked
from ..random import Permutation
from .params import EPOCH, EVEN_SHARDS, SEED, SHUFFLE, STICK_TO_SHARD, check_shard

__all__ = ["EpochOrder"]


@dataclass(frozen=True, kw_only=True)
class EpochOrder:
    """Which sample stands at each position of a rank's epoch.

    The samples 0 … size - 1 are cut into ``world`` parts that follow each other and differ by at most one
    sample; in every epoch each part belongs to exactly one rank, so the ranks together give every sample
    exactly once.

    ========  ====================================================  ==========================================
    shuffle   ``stick_to_shard=False``                              ``stick_to_shard=True``
    ========  ====================================================  ==========================================
    False     parts of the samples in their own order; the rank     the rank keeps part ``rank`` of the
    samples
              takes part ``(rank + epoch) % world``                 in their own order, in every epoch
    True      parts of one full permutation of the epoch, the       the rank keeps part ``rank`` of the
    samples
              same on all ranks; part ``(rank + epoch) % world``    and goes through it in a new order each
              epoch
    ========  ====================================================  ==========================================

    To stick means to keep the same *samples*, neighbors in the dataset, so that a rank only ever touches its
    own files and can cache them. Data sorted by class then gives each rank few classes; shuffle the list of
    files once before, if that matters.

    Attributes:
        size: samples in the dataset.
        seed: the seed of the shuffling.
        shuffle: whether every epoch has an order of its own.
        shard: ``(rank, world)``.
        stick_to_shard: whether the rank keeps its samples.
        even: whether all ranks get equally many samples, ``ceil(size / world)``, as training in lockstep
            needs: a rank with one less sees the first sample of its epoch again at the end of it.
        block: samples that follow one another in every epoch, such as the clips of a video: 0 … block - 1 are the first
            of these blocks, and all of the above is done with blocks in the place of samples.

    Raises:
        ParameterError: a parameter is out of bounds; ``even`` is asked for with fewer blocks than ranks; or the
            samples are not whole blocks.
    """

    size: int
    seed: int = 0
    shuffle: bool = False
    shard: tuple[int, int] = (0, 1)
    stick_to_shard: bool = False
    even: bool = False
    block: int = 1

    def __post_init__(self) -> None:
        keep_checked(self, SEED, SHUFFLE, STICK_TO_SHARD)
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
        """How many samples the rank gets in an epoch."""
        first, end = self._part(epoch)
        return self.longest if self.even else end - first

    @property
    def longest(self) -> int:
        """The most samples that any rank gets in any epoch."""
        return -(-self._blocks // self.shard[1]) * self.block

    @property
    def shortest(self) -> int:
        """The least samples that any rank gets in any epoch."""
        return self.longest if self.even else self._blocks // self.shard[1] * self.block

    @property
    def _blocks(self) -> int:
        return self.size // self.block

    def sample(self, epoch: int, position: int) -> int:
        """The sample at a position, from 0 to ``length(epoch) - 1``, of the rank's epoch.

        Raises:
            ParameterError: the position is outside.
        """
        return int(self.samples(epoch, np.array([position]))[0])

    def samples(self, epoch: int, positions: IntArray | None = None) -> IntArray:
        """The samples at many positions of the rank's epoch, or at all of them.

        Raises:
            ParameterError: a position is outside.
        """
        length = self.length(epoch)
        places = np.arange(length) if positions is None else _whole_numbers(positions)
        if places.size and (places.min() < 0 or places.max() >= length):
            bad = int(places[(places < 0) | (places >= length)].flat[0])
            raise ParameterError(
                f"position={bad} is not valid in epoch {epoch} of rank {self.shard[0]}",
                allowed=f"0 to {length - 1}" if length else "none, the rank has no samples",
            )
        first, end = self._part(epoch)
        own = end - first
        return self._at(epoch, first, end, np.where(places < own, places, places - own))

    def _at(self, epoch: int, first: int, end: int, places: IntArray) -> IntArray:
        if not self.shuffle:
            return first + places
        blocks, within = np.divmod(places, self.block)
        if self.stick_to_shard:
            # Parts of equal size must not be gone through in the same order by their ranks.
            own = self._permutation(epoch, (end - first) // self.block, f"shard {self.shard[0]}")
            return first + own[blocks] * self.block + within
        every = self._permutation(epoch, self._blocks, "shuffle")
        return every[first // self.block + blocks] * self.block + within

    def _permutation(self, epoch: int, size: int, name: str) -> Permutation:
        return Permutation(size, self.seed, name, epoch)

    def _part(self, epoch: int) -> tuple[int, int]:
        """The rank's part of the epoch, half-open."""
        rank, world = self.shard
        part = rank if self.stick_to_shard else (rank + EPOCH.check(epoch)) % world
        return self._blocks * part // world * self.block, self._blocks * (part + 1) // world * self.block


def _whole_numbers(positions: object) -> IntArray:
    given = np.asarray(positions)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise ParameterError(f"positions={positions!r} is not valid", allowed="a row of whole numbers")
    return given.astype(np.int64, copy=False)
