"""Patch order: each volume is open once in an epoch, and patches of several volumes are mixed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..array import FloatArray, IntArray
from ..errors import ParameterError
from ..random import Permutation, stream
from .order import EpochOrder

__all__ = ["DRAWS", "BlockOrder", "patch_draws"]

DRAWS = 6
"""Numbers that place a patch: two choices, one voxel, and a start along each axis."""


@dataclass(frozen=True, kw_only=True)
class BlockOrder:
    """Which patch stands at each position of a rank's epoch.

    Volume ``v`` has the patches ``v · per_volume`` to ``(v + 1) · per_volume - 1``. Volumes are put in order and
    shared by the ranks as :class:`~seqpipe.sampling.order.EpochOrder` does it with samples; a rank then goes
    through its volumes in blocks of ``block``, the patches of a block in an order of their own. So a rank needs no
    more than a block of volumes at once, and each of them once an epoch.

    Attributes:
        volumes: in the dataset.
        per_volume: patches of each.
        block: volumes whose patches are mixed.
        seed: of the shuffling.
        shuffle: whether every epoch has an order of its own; otherwise patches come as they are numbered.
        shard: ``(rank, world)``; a volume belongs to one rank.
        stick_to_shard: whether the rank keeps its volumes.
        even: whether all ranks get equally many patches: a rank with a volume less sees its first patches again.

    Raises:
        ParameterError: a parameter is out of bounds; or ``even`` is asked for with fewer volumes than ranks.
    """

    volumes: int
    per_volume: int = 1
    block: int = 4
    seed: int = 0
    shuffle: bool = False
    shard: tuple[int, int] = (0, 1)
    stick_to_shard: bool = False
    even: bool = False

    def __post_init__(self) -> None:
        for name in ("per_volume", "block"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name}={getattr(self, name)} is not valid", allowed="1 or more")
        object.__setattr__(self, "shard", self._order.shard)
        object.__setattr__(self, "seed", self._order.seed)

    @property
    def _order(self) -> EpochOrder:
        """Of the volumes."""
        return EpochOrder(
            size=self.volumes,
            seed=self.seed,
            shuffle=self.shuffle,
            shard=self.shard,
            stick_to_shard=self.stick_to_shard,
            even=self.even,
        )

    @property
    def size(self) -> int:
        """Patches in the dataset."""
        return self.volumes * self.per_volume

    def length(self, epoch: int = 0) -> int:
        """How many patches the rank gets in an epoch."""
        return self._order.length(epoch) * self.per_volume

    @property
    def longest(self) -> int:
        """The most patches that any rank gets in any epoch."""
        return self._order.longest * self.per_volume

    def samples(self, epoch: int, positions: IntArray | None = None) -> IntArray:
        """The patches at many positions of the rank's epoch, or at all of them.

        Raises:
            ParameterError: a position is outside.
        """
        length = self.length(epoch)
        places = np.arange(length) if positions is None else np.asarray(positions, dtype=np.int64)
        if places.size and (places.min() < 0 or places.max() >= length):
            bad = int(places[(places < 0) | (places >= length)][0])
            raise ParameterError(
                f"position={bad} is not valid in epoch {epoch} of rank {self.shard[0]}",
                allowed=f"0 to {length - 1}" if length else "none, the rank has no volumes",
            )
        order = self._order
        own = np.unique(order.samples(epoch)).size if length else 0
        whole = own * self.per_volume
        places = np.where(places < whole, places, places - whole)
        if not self.shuffle:
            volumes = order.samples(epoch, places // self.per_volume)
            result: IntArray = volumes * self.per_volume + places % self.per_volume
            return result
        wide = self.block * self.per_volume
        found = np.empty_like(places)
        for number in np.unique(places // wide).tolist():
            here = places // wide == number
            first = number * self.block
            count = min(self.block, own - first)
            members = order.samples(epoch, np.arange(first, first + count))
            mixed = Permutation(count * self.per_volume, self.seed, f"block of {int(members[0])}", epoch)
            drawn = mixed[places[here] - number * wide]
            found[here] = members[drawn // self.per_volume] * self.per_volume + drawn % self.per_volume
        return found


def patch_draws(seed: int, epoch: int, index: int) -> FloatArray:
    """The numbers that place a patch, each from 0 to below 1; they depend on these three alone.

    Args:
        seed: the user's.
        epoch: the epoch.
        index: the patch's within the dataset.
    """
    return stream(seed, "patches", epoch, index).random(DRAWS)
