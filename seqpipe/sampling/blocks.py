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

    Volume ``v`` has the patches ``v · per_volume`` to ``(v + 1) · per_volume - 1``. The ranks share the volumes in the
    order of ``volumes``. A rank goes through its volumes in blocks of ``block``, whose patches are shuffled together.
    So a rank needs one block of volumes in memory at a time, and reads each volume once an epoch.

    Attributes:
        volumes: order of the volumes; each belongs to one rank. If its ``shuffle`` is set, patches are shuffled, too.
        per_volume: patches of each volume.
        block: number of volumes whose patches are mixed.

    Raises:
        ParameterError: ``per_volume`` or ``block`` is less than 1.
    """

    volumes: EpochOrder
    per_volume: int = 1
    block: int = 4

    def __post_init__(self) -> None:
        for name in ("per_volume", "block"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name}={getattr(self, name)} is not valid", allowed="1 or more")

    @property
    def size(self) -> int:
        """Number of patches of the dataset."""
        return self.volumes.size * self.per_volume

    def length(self, epoch: int = 0) -> int:
        """Return the number of patches of the rank in an epoch."""
        return self.volumes.length(epoch) * self.per_volume

    @property
    def longest(self) -> int:
        """Largest number of patches of a rank in an epoch."""
        return self.volumes.longest * self.per_volume

    def samples(self, epoch: int, positions: IntArray | None = None) -> IntArray:
        """Return the patches at positions of the rank's epoch; by default all of them.

        Raises:
            ParameterError: a position is outside.
        """
        order, length = self.volumes, self.length(epoch)
        places = np.arange(length) if positions is None else np.asarray(positions, dtype=np.int64)
        if places.size and (places.min() < 0 or places.max() >= length):
            bad = int(places[(places < 0) | (places >= length)][0])
            raise ParameterError(
                f"position={bad} is not valid in epoch {epoch} of rank {order.shard[0]}",
                allowed=f"0 to {length - 1}" if length else "none, the rank has no volumes",
            )
        own = np.unique(order.samples(epoch)).size if length else 0
        whole = own * self.per_volume
        places = np.where(places < whole, places, places - whole)
        if not order.shuffle:
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
            mixed = Permutation(count * self.per_volume, order.seed, f"block of {int(members[0])}", epoch)
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
