"""SampleOrder of an epoch's samples, dealt to ranks: a state continues on any number of ranks.

The samples of an epoch have one global order, a pure function of (seed, epoch). Unit ``j`` of what remains belongs to
rank ``j`` mod world. When the number of ranks changes within an epoch, what remains is dealt anew: blocks that a rank
has begun stay whole, and each remaining sample comes once.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from ..array import FloatArray, IntArray
from ..core.param import check_fields
from ..errors import ParameterError
from ..random import Permutation, stream
from .params import EPOCH, SEED, SHUFFLE, check_shard

__all__ = ["History", "SampleOrder", "Share", "distinct", "joined_history", "patch_draws", "substitutes"]

History: TypeAlias = tuple[tuple[int, int], ...]
"""For each number of ranks that has read a part of an epoch: (world, samples of each rank)."""

_RUN: Final = 32  # neighbors that stay together without shuffle, so that not all ranks open every file
_PATCH_DRAWS: Final = 6
_CANDIDATES: Final = 64  # random samples that a substitute is looked for among
_MAX_SUBSTITUTES: Final = 16  # substitutes that are tried


@dataclass(frozen=True, kw_only=True)
class SampleOrder:
    """The order of a dataset's samples in each epoch.

    Attributes:
        size: number of samples, a multiple of ``unit``.
        seed: seed of the permutations.
        shuffle: whether each epoch has a new random order of all units.
        unit: number of consecutive samples that stay together, such as the clips of a video or the patches of a volume.
        mix: number of units of a rank whose samples are shuffled among each other; with 1, those of a unit keep their
            order. It applies to shuffled epochs.
        mixes: whether samples are shuffled within ``mix`` units.

    Raises:
        ParameterError: a parameter is out of bounds.
    """

    size: int
    seed: int = 0
    shuffle: bool = False
    unit: int = 1
    mix: int = 1
    mixes: bool = False

    def __post_init__(self) -> None:
        check_fields(self, SEED, SHUFFLE)
        for name in ("unit", "mix"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name}={getattr(self, name)} is not valid", allowed="1 or more")
        if self.size < 0 or self.size % self.unit:
            raise ParameterError(
                f"{self.size} samples are not whole units of {self.unit}", allowed="a multiple of unit"
            )

    @property
    def units(self) -> int:
        """Number of units."""
        return self.size // self.unit

    def share(
        self,
        epoch: int,
        rank: int = 0,
        world: int = 1,
        *,
        done: History = (),
        even: bool = False,
        stick: bool = False,
    ) -> Share:
        """Return the part of an epoch that a rank reads.

        Args:
            epoch: the epoch.
            rank: number of the rank.
            world: number of ranks.
            done: what earlier numbers of ranks have read of the epoch.
            even: whether all ranks get equally many samples: a rank with fewer repeats its first.
            stick: whether a rank reads the same samples in every epoch; ``done`` must be empty.

        Raises:
            ParameterError: a rank is beyond the world; or ``even`` is set, and a rank has no sample at all.
        """
        rank, world = check_shard((rank, world))
        if stick:
            first, end = self.units * rank // world, self.units * (rank + 1) // world
            most, least = -(-self.units // world), self.units // world
            deal = _Deal(self, EPOCH.check(epoch), 1, (), 0, first, end - first, f"shard {rank}")
            share = Share(deal, 0, even, most * self.unit, least * self.unit)
        else:
            deal = _deal(self, EPOCH.check(epoch), tuple(done), world)
            lengths = deal.lengths
            share = Share(deal, rank, even, max(lengths), min(lengths))
        if even and share.longest and not share.shortest:
            raise ParameterError(
                f"{self.size} samples cannot be shared evenly by {world} ranks",
                allowed=f"at least {world * self.unit} samples",
                advice="Use fewer ranks, a smaller step or more clips per video",
            )
        return share


@dataclass(frozen=True)
class Share:
    """The samples of one rank in an epoch, or in what remains of it.

    Attributes:
        deal: how what remains is dealt.
        rank: number of the rank.
        even: whether all ranks have equally many samples.
        longest: largest number of samples of a rank.
        shortest: smallest number of samples of a rank, of those that it does not repeat.
    """

    deal: _Deal
    rank: int
    even: bool
    longest: int
    shortest: int

    def __len__(self) -> int:
        """Number of samples of the rank."""
        return self.longest if self.even else self.own

    @property
    def own(self) -> int:
        """Number of samples of the rank without repeated ones."""
        return self.deal.lengths[self.rank]

    def indices(self, positions: IntArray) -> IntArray:
        """Return the indices of the samples at positions of the rank's share.

        Raises:
            ParameterError: a position is outside of the share.
        """
        positions = np.asarray(positions, dtype=np.int64)
        if positions.size and (positions.min() < 0 or positions.max() >= len(self)):
            bad = int(positions[(positions < 0) | (positions >= len(self))][0])
            allowed = f"0 to {len(self) - 1}" if len(self) else "none, the rank has no samples"
            raise ParameterError(f"position={bad} is not valid", allowed=allowed)
        return self.deal.indices(self.rank, positions % self.own if self.even else positions)


@dataclass(frozen=True)
class _Block:
    """Units that one rank reads in succession.

    Attributes:
        units: places of the units in the order of the epoch.
        done: number of samples that were read.
    """

    units: tuple[int, ...]
    done: int = 0


@dataclass(frozen=True)
class _Deal:
    """What remains of an epoch, dealt to ranks.

    Attributes:
        order: the order.
        epoch: the epoch.
        world: number of ranks.
        blocks: blocks that were begun or passed by; they come first.
        start: place of the first unit that is in no block.
        base: number of the unit at place 0, for a part of the dataset.
        units: number of places.
        name: name of the permutation's stream.
    """

    order: SampleOrder
    epoch: int
    world: int
    blocks: tuple[_Block, ...]
    start: int
    base: int
    units: int
    name: str

    @property
    def _group(self) -> int:
        """Number of units of a rank that follow one another as a block."""
        if self.order.shuffle:
            return self.order.mix if self.order.mixes else 1
        return max(1, min(_RUN // self.order.unit, (self.units - self.start) // (8 * self.world)))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Number of samples of each rank."""
        return _lengths(self)

    def slots(self, rank: int) -> int:
        """Number of a rank's units that are in no earlier block."""
        left, first, group = self.units - self.start, self._first(rank), self._group
        if self.order.shuffle:
            return max(0, -(-(left - first) // self.world))
        cycles, rest = divmod(left, group * self.world)
        return cycles * group + min(max(rest - first * group, 0), group)

    def places(self, rank: int, slots: IntArray) -> IntArray:
        """Return the places of a rank's units."""
        first = self._first(rank)
        if self.order.shuffle:
            return self.start + first + slots * self.world
        run, within = np.divmod(slots, self._group)
        return self.start + (first + run * self.world) * self._group + within

    def _first(self, rank: int) -> int:
        """The rank's first turn, after the blocks."""
        return (rank - len(self.blocks)) % self.world

    def begun(self, rank: int) -> list[tuple[_Block, int]]:
        """The rank's earlier blocks, and how many samples each has left."""
        unit = self.order.unit
        return [(block, len(block.units) * unit - block.done) for block in self.blocks[rank :: self.world]]

    def indices(self, rank: int, positions: IntArray) -> IntArray:
        """Return the samples at a rank's positions."""
        result = np.empty_like(positions)
        begin = 0
        for block, left in self.begun(rank):
            inside = (positions >= begin) & (positions < begin + left)
            if inside.any():
                result[inside] = self._samples(np.array(block.units), positions[inside] - begin + block.done)
            begin += left
        later = positions >= begin
        rest, unit = positions[later] - begin, self.order.unit
        if not rest.size:
            return result
        if not self._mixed:
            slots, within = np.divmod(rest, unit)
            result[later] = self._numbers(self.places(rank, slots)) * unit + within
            return result
        length = self._group * unit
        found = np.empty_like(rest)
        for number in np.unique(rest // length).tolist():
            inside = rest // length == number
            members = np.arange(number * self._group, min((number + 1) * self._group, self.slots(rank)))
            found[inside] = self._samples(self.places(rank, members), rest[inside] - number * length)
        result[later] = found
        return result

    @property
    def _mixed(self) -> bool:
        return self.order.shuffle and self.order.mixes

    def _samples(self, places: IntArray, positions: IntArray) -> IntArray:
        """Return the samples at positions of a block."""
        numbers, unit = self._numbers(places), self.order.unit
        if self._mixed:
            name = f"block of {int(numbers[0])}"
            positions = Permutation(len(numbers) * unit, self.order.seed, name, self.epoch)[positions]
        return numbers[positions // unit] * unit + positions % unit

    def _numbers(self, places: IntArray) -> IntArray:
        """Return the units at places of the epoch's order."""
        if self.order.shuffle:
            places = _permutation(self.units, self.order.seed, self.name, self.epoch)[places]
        return self.base + places

    def after(self, count: int) -> tuple[tuple[_Block, ...], int]:
        """Return the blocks and the start of what remains after each rank has read ``count`` samples."""
        unit, group = self.order.unit, self._group
        blocks, begun = list[_Block](), []
        for rank in range(self.world):
            left = count
            for block, length in self.begun(rank):
                if left < length:
                    blocks.append(_Block(block.units, block.done + left))
                left = max(0, left - length)
            slots = self.slots(rank)
            full, part = divmod(min(left, slots * unit), group * unit)
            first, end = full * group, min((full + bool(part)) * group, slots)
            if part:
                members = tuple(self.places(rank, np.arange(first, end)).tolist())
                if part < len(members) * unit:
                    blocks.append(_Block(members, part))
            begun.append(end)
        ends = [int(self.places(r, np.array([n - 1]))[0]) + 1 for r, n in enumerate(begun) if n]
        start = max(ends, default=self.start)
        for rank, first in enumerate(begun):
            blocks += self._passed_by(rank, first, start)
        return tuple(sorted(blocks, key=lambda block: block.units[0])), start

    def _passed_by(self, rank: int, first: int, start: int) -> Iterator[_Block]:
        """Yield a rank's units from a slot on that lie before the new start."""
        for slot in range(first, self.slots(rank)):
            place = int(self.places(rank, np.array([slot]))[0])
            if place >= start:
                return
            yield _Block((place,))


@lru_cache(maxsize=64)
def _deal(order: SampleOrder, epoch: int, done: History, world: int) -> _Deal:
    """Return what remains of an epoch after a history, for a number of ranks."""
    blocks, start = tuple[_Block, ...](), 0
    for ranks, count in done:
        deal = _Deal(order, epoch, ranks, blocks, start, 0, order.units, "shuffle")
        blocks, start = deal.after(count)
    return _Deal(order, epoch, world, blocks, start, 0, order.units, "shuffle")


@lru_cache(maxsize=64)
def _lengths(deal: _Deal) -> tuple[int, ...]:
    unit = deal.order.unit
    return tuple(
        sum(left for _, left in deal.begun(rank)) + deal.slots(rank) * unit for rank in range(deal.world)
    )


@lru_cache(maxsize=16)
def _permutation(size: int, seed: int, name: str, epoch: int) -> Permutation:
    return Permutation(size, seed, name, epoch)


def substitutes(seed: int, epoch: int, index: int, size: int) -> IntArray:
    """Return random samples that may replace an unreadable one; they depend on (seed, epoch, index) only."""
    return stream(seed, "substitutes", epoch, index).integers(0, max(size, 1), _CANDIDATES, dtype=np.int64)


def distinct(candidates: IntArray, files: IntArray, lost: int) -> IntArray:
    """Return candidates in the order in which they are tried."""
    first = np.zeros(len(candidates), dtype=np.bool_)
    first[np.unique(files, return_index=True)[1]] = True
    first &= files != lost
    return np.concatenate([candidates[first], candidates[~first]])[:_MAX_SUBSTITUTES]


def joined_history(pairs: Seq[Seq[int]]) -> History:
    """Return a history as a tuple; neighboring pairs of equal numbers of ranks are joined."""
    joined: list[tuple[int, int]] = []
    for world, count in pairs:
        if joined and joined[-1][0] == world:
            joined[-1] = world, joined[-1][1] + count
        elif count or not joined:
            joined.append((world, count))
    return tuple(joined)


def patch_draws(seed: int, epoch: int, index: int) -> FloatArray:
    """Return the random numbers in [0, 1) that determine a patch's position: two choices, a voxel, and three starts."""
    return stream(seed, "patches", epoch, index).random(_PATCH_DRAWS)
