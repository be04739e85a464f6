"""The readers of DALI programs: samples of a source in DALI's order of shards and epochs, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ..array import IntArray
from ..dataset.dealt import Last
from ..dataset.samples import collated, described, first_error
from ..dataset.source import ReadPlan, SampleSource
from ..errors import SeqpipeError, StateError
from ..ops import Type
from ..parts import Metadata
from ..pipeline.source import BatchSamples, BatchSource, Fetched, Ticket
from ..readers.params import bytes_ahead
from ..sampling import EpochOrder
from ..sampling.params import EPOCH
from ..sources.items import ItemSource
from ..video.device import parse_device

__all__ = ["Indexed", "Items", "SampleCounter", "read_item"]

_Gathered: TypeAlias = "tuple[tuple[Any, ...], IntArray, tuple[str, ...]]"


@dataclass(frozen=True)
class _BatchPlan:
    """Division of an epoch's positions into batches.

    Attributes:
        length: number of positions of this rank.
        batch_size: samples in a batch.
        last_batch: policy for an incomplete last batch.
        least: smallest number of positions of a rank, of ranks with equally many batches.
        most: largest number of positions of a rank.
    """

    length: int
    batch_size: int
    last_batch: Last
    least: int
    most: int

    @property
    def count(self) -> int:
        """Number of batches of the epoch."""
        return (
            self.least // self.batch_size if self.last_batch == "drop" else -(-self.most // self.batch_size)
        )

    def holds(self, first: int) -> bool:
        """Return whether there is a batch that begins at a position."""
        if self.last_batch == "drop":
            return first + self.batch_size <= self.least
        return first < self.most and bool(self.length)

    def positions(self, first: int) -> tuple[IntArray, int]:
        """Return the positions of the batch that begins at ``first``, and the number of positions that count.

        A rank that has no samples left while other ranks have some repeats its first sample, which does not count.
        """
        wanted = np.arange(first, first + self.batch_size, dtype=np.int64)
        if self.last_batch == "fill":
            return wanted % self.length, self.batch_size
        if self.last_batch == "pad":
            return np.minimum(wanted, self.length - 1), self.batch_size
        inside = wanted[wanted < self.length]
        return (inside, len(inside)) if len(inside) else (np.zeros(1, np.int64), 0)


@dataclass(eq=False)
class Indexed(BatchSource):
    """Batches of a source, which follow from (epoch, position).

    Attributes:
        source: the source.
        order: order of the rank's samples.
        names: names of the parts that are the values of a batch.
        batch_size: samples in a batch.
        last_batch: policy for an incomplete last batch.
        endless: whether the next epoch follows without a stop.
        equal_steps: whether all ranks return equally many batches, instead of those of their own samples.
        declared_pad: whether ``last_batch`` was "pad" at first; iterators replace it by their own policy.
    """

    source: SampleSource
    order: EpochOrder
    names: tuple[str, ...]
    batch_size: int
    last_batch: Last = "partial"
    endless: bool = True
    equal_steps: bool = False
    declared_pad: bool = field(default=False, init=False)
    _epoch: int = field(default=0, init=False)
    _position: int = field(default=0, init=False)
    _planned: ReadPlan | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.declared_pad = self.last_batch == "pad"
        self.name, self.parts = self.source.name, self.names
        if not isinstance(self.source, Items):  # the size of items is unknown
            self.limit_bytes = bytes_ahead(None, parse_device(self.source.device))

    def batch_plan(self, epoch: int) -> _BatchPlan:
        """Return the division of an epoch into batches."""
        length, order = self.order.length(epoch), self.order
        least, most = (order.shortest, order.longest) if self.equal_steps else (length, length)
        return _BatchPlan(length, self.batch_size, self.last_batch, least, most)

    def _plan(self, positions: IntArray) -> ReadPlan:
        """Return what is read at positions of the epoch; the last plan is kept, as :meth:`next_size` asks, too."""
        indices, known = self.order.samples(self._epoch, positions), self._planned
        if known is None or known.epoch != self._epoch or not np.array_equal(known.indices, indices):
            known = self._planned = self.source.plan(self._epoch, indices)
        return known

    def begin(self) -> Ticket | None:
        """See :meth:`BatchSource.begin`."""
        batches = self.batch_plan(self._epoch)
        if not batches.holds(self._position):
            if not self.endless or not batches.count:
                return None
            self._epoch, self._position = self._epoch + 1, 0
            return self.begin()
        positions, valid = batches.positions(self._position)
        plan = self._plan(positions)
        end = min(self._position + self.batch_size, batches.most)
        work = self.source.begin(plan), valid
        ticket = Ticket(self._epoch, self._position, end, work, size=plan.nbytes)
        self._position = end
        return ticket

    def next_size(self) -> int:
        """See :meth:`BatchSource.next_size`."""
        batches = self.batch_plan(self._epoch)
        at = self._position if batches.holds(self._position) else 0
        return self._plan(batches.positions(at)[0]).nbytes if batches.length else 0

    def finish(self, ticket: Ticket) -> Fetched:
        """See :meth:`BatchSource.finish`."""
        work, valid = ticket.work
        read = self.source.finish(work)
        if (error := first_error(read.outcomes)) is not None:
            raise error
        samples = [outcome for outcome in read.outcomes if isinstance(outcome, tuple)]
        if isinstance(self.source, Items):
            values, indices, sources = self.source.gathered(samples)
        else:
            batch = collated(samples, read.stacked)
            known = described(batch.parts, {}, batch.index)
            values, indices, sources = tuple(known[name] for name in self.parts), batch.index, batch.sources
        return Fetched(values, BatchSamples(ticket.epoch, indices, min(valid, len(indices)), sources))

    def cancel(self, ticket: Ticket) -> None:
        """See :meth:`BatchSource.cancel`."""
        self.source.cancel(ticket.work[0])

    def check_state(self, epoch: int, position: int, state: Any, field: str) -> None:
        """See :meth:`BatchSource.check_state`."""
        super().check_state(epoch, position, state, field)
        if position > (most := self.batch_plan(epoch).most):
            raise StateError(
                f"position={position} is past the end of epoch {epoch}",
                source=self.name,
                allowed=f"0 to {most}",
            )

    def go_to(self, epoch: int, position: int, state: Any = None) -> None:
        """See :meth:`BatchSource.go_to`."""
        self.check_state(EPOCH.check(epoch), position, state, "the state")
        self._epoch, self._position = epoch, position

    def type_of(self, part: int) -> Type:
        """See :meth:`BatchSource.type_of`."""
        return self.source.parts.get(self.parts[part], Type())

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """That of the source and the order; a state may be loaded with another batch size."""
        return {**self.source.facts, "order": [self.order.size, *self.order.fingerprint_fields().items()]}

    def length(self, epoch: int) -> int:
        """See :meth:`BatchSource.length`."""
        return self.order.length(epoch)

    def batches(self, epoch: int) -> int:
        """See :meth:`BatchSource.batches`."""
        return self.batch_plan(epoch).count

    def close(self) -> None:
        """See :meth:`BatchSource.close`."""
        self.source.close()


@dataclass(eq=False)
class SampleCounter(BatchSource):
    """An endless source of sample indices without values, for graphs without inputs.

    Attributes:
        batch_size: samples in a batch.
    """

    batch_size: int
    name: str = "samples"
    endless: bool = True
    _epoch: int = field(default=0, init=False)
    _position: int = field(default=0, init=False)

    def begin(self) -> Ticket:
        """See :meth:`BatchSource.begin`."""
        ticket = Ticket(self._epoch, self._position, self._position + self.batch_size)
        self._position = ticket.end
        return ticket

    def finish(self, ticket: Ticket) -> Fetched:
        """See :meth:`BatchSource.finish`."""
        indices = np.arange(ticket.position, ticket.end, dtype=np.int64)
        return Fetched((), BatchSamples(ticket.epoch, indices, len(indices)))

    def go_to(self, epoch: int, position: int, state: Any = None) -> None:  # noqa: ARG002  it has none
        """See :meth:`BatchSource.go_to`."""
        self._epoch, self._position = epoch, position

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """Empty: the indices depend on nothing."""
        return {"counter": 0}


@dataclass(frozen=True, eq=False)
class Items(ItemSource):
    """Items that are read one by one, on separate threads; their values stay as they are.

    Attributes:
        names: names of the values of an item.
        told: everything that determines the items, as plain values.
        described: path or URL of each item.
        gather: combines the values of all items of a batch into one, for each name.
    """

    names: tuple[str, ...] = ()
    told: Mapping[str, object] = field(default_factory=dict)
    described: Seq[str] = ()
    gather: Callable[[list[Any], tuple[str, ...]], Any] | None = None

    @property
    def facts(self) -> Mapping[str, object]:
        """Everything that determines the items."""
        return self.told

    def gathered(self, samples: Seq[tuple[int, Mapping[str, Any]]]) -> _Gathered:
        """Return the values of a batch, indices and sources."""
        assert self.gather is not None
        indices = np.array([index for index, _ in samples], np.int64)
        sources = tuple(self.described[index] for index in indices.tolist())
        columns = ([parts[name].data for _, parts in samples] for name in self.names)
        return tuple(self.gather(column, sources) for column in columns), indices, sources


def read_item(
    read: Callable[[int], tuple[Any, ...]], names: tuple[str, ...], described: Seq[str], index: int
) -> dict[str, Metadata]:
    """Return the values of an item by their names; an error names the item."""
    try:
        values = read(index)
    except SeqpipeError as error:
        error.source = error.source or described[index]
        raise
    return {name: Metadata(value) for name, value in zip(names, values, strict=True)}
