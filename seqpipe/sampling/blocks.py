"""Order of patches: each volume is read once in an epoch, and the patches of several volumes are mixed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..array import FloatArray, IntArray
from ..errors import ParameterError
from ..random import Permutation, stream
from .order import EpochOrder

__all__ = ["DRAWS", "BlockOrder", "patch_draws"]

DRAWS = 6
"""Random numbers for the position of a patch: two choices, one voxel, and a start along each axis."""


@dataclass(frozen=True, kw_only=True)
class BlockOrder:
    """The patch at each position of a rank's epoch.

    Volume ``v`` has the patches ``v · per_volume`` to ``(v + 1) · per_volume - 1``. The ranks share the volumes in the
    order of ``volumes``. A rank processes its volumes in blocks of ``block``, and shuffles the patches within a block.
    So it holds one block of volumes in memory at a time, and reads each volume once an epoch.

    Attributes:
        volumes: order of the volumes; each belongs to one rank. Patches are shuffled if its ``shuffle`` is set.
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

    def fingerprint_fields(self) -> dict[str, object]:
        """Return the fields that determine the order, for a fingerprint."""
        return self.volumes.fingerprint_fields()

    def samples(self, epoch: int, positions: IntArray | None = None) -> IntArray:
        """Return the patches at positions of the rank's epoch; by default all of them.

        Raises:
            ParameterError: a position is outside of the epoch.
        """
        order, length = self.volumes, self.length(epoch)
        positions = np.arange(length) if positions is None else np.asarray(positions, dtype=np.int64)
        if positions.size and (positions.min() < 0 or positions.max() >= length):
            bad = int(positions[(positions < 0) | (positions >= length)][0])
            raise ParameterError(
                f"position={bad} is not valid in epoch {epoch} of rank {order.shard[0]}",
                allowed=f"0 to {length - 1}" if length else "none, the rank has no volumes",
            )
        # with even shards, positions past the rank's own volumes repeat the first one
        own_volumes = np.unique(order.samples(epoch)).size if length else 0
        own_patches = own_volumes * self.per_volume
        positions = np.where(positions < own_patches, positions, positions - own_patches)
        if not order.shuffle:
            volumes = order.samples(epoch, positions // self.per_volume)
            result: IntArray = volumes * self.per_volume + positions % self.per_volume
            return result
        block_patches = self.block * self.per_volume
        patches = np.empty_like(positions)
        for number in np.unique(positions // block_patches).tolist():
            in_block = positions // block_patches == number
            first = number * self.block
            count = min(self.block, own_volumes - first)
            members = order.samples(epoch, np.arange(first, first + count))
            mixed = Permutation(count * self.per_volume, order.seed, f"block of {int(members[0])}", epoch)
            chosen = mixed[positions[in_block] - number * block_patches]
            patches[in_block] = (
                members[chosen // self.per_volume] * self.per_volume + chosen % self.per_volume
            )
        return patches


def patch_draws(seed: int, epoch: int, index: int) -> FloatArray:
    """Return the :data:`DRAWS` random numbers in [0, 1) that determine the position of a patch.

    Args:
        seed: the user's seed.
        epoch: the epoch.
        index: index of the patch in the dataset.
    """
    return stream(seed, "patches", epoch, index).random(DRAWS)
