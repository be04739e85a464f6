"""Dealt: the samples of a source in the order of a rank, cut into batches, as a source of the executor."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

from ..array import IntArray
from ..core.param import choice
from ..errors import StateError
from ..pipeline.executor import gib
from ..pipeline.source import BatchSamples, BatchSource, EmptyBatchError, Fetched, Ticket
from ..sampling.dealing import History, SampleOrder, Share
from .samples import Handed, collated, first_error
from .source import Heads, ReadPlan, ReadResult, SampleSource

_log = logging.getLogger(__name__)

__all__ = ["LAST", "BatchSteps", "Dealt", "Last"]

Last: TypeAlias = Literal["partial", "drop", "fill", "pad"]
"""Policy for an incomplete last batch: return it short; leave it out, on all ranks alike; complete it with the first
samples of the rank's epoch; repeat its last sample."""

LAST: Final = choice("last", "Policy for an incomplete last batch", get_args(Last))


@dataclass(frozen=True)
class BatchSteps:
    """Division of a rank's share into batches.

    Attributes:
        share: the rank's samples of the epoch.
        size: samples in a batch.
        last: policy for an incomplete last batch.
    """

    share: Share
    size: int
    last: Last = "partial"

    def holds(self, first: int) -> bool:
        """Return whether a batch begins at a position."""
        return self.count(first) > 0

    def count(self, first: int = 0) -> int:
        """Return the number of batches from a position on."""
        if self.last == "drop":
            return max(0, (self.share.shortest - first) // self.size)
        return max(0, -(-(len(self.share) - first) // self.size))

    def indices(self, first: int) -> IntArray:
        """Return the samples of the batch that begins at a position."""
        positions = np.arange(first, first + self.size, dtype=np.int64)
        length = len(self.share)
        if self.last == "fill":
            positions %= length
        elif self.last == "pad":
            positions = np.minimum(positions, length - 1)
        else:
            positions = positions[positions < length]
        return self.share.indices(positions)

    def end(self, first: int) -> int:
        """Return the position after a batch, the same on all ranks."""
        return min(first + self.size, self.share.longest)


@dataclass(eq=False)
class Dealt(BatchSource):
    """Batches of a source, in the order of a rank.

    Attributes:
        source: the source.
        order: order of its samples.
        heads: operators that the source applies while it reads.
        rank: number of the rank.
        world: number of ranks.
        batch_size: samples in a batch.
        last: policy for an incomplete last batch.
        even: whether all ranks get equally many samples.
        stick: whether a rank reads the same samples in every epoch.
        single: whether samples are handed on one by one, as a list of outcomes.
        limit_bytes: limit in bytes for batches that are read ahead.
        done: what earlier numbers of ranks have read of the epoch.
        turn: (number, count) of workers that share the rank's batches in turns.
        told: what has been logged for the data set.
    """

    source: SampleSource
    order: SampleOrder
    heads: Heads
    rank: int
    world: int
    batch_size: int
    last: Last = "partial"
    even: bool = False
    stick: bool = False
    single: bool = False
    limit_bytes: int | None = None
    done: History = ()
    turn: tuple[int, int] = (0, 1)
    told: set[str] = field(default_factory=set)
    _epoch: int = field(default=0, init=False)
    _position: int = field(default=0, init=False)
    _first: int | None = field(default=None, init=False)
    _number: int = field(default=0, init=False)
    _planned: tuple[int, ReadPlan] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.name, self.parts = self.source.name, ("samples",)

    def heads_of(self, indices: IntArray) -> Heads:  # noqa: ARG002  alike for all samples
        """Return what the source applies to the samples of a batch."""
        return self.heads

    def steps(self, epoch: int) -> BatchSteps:
        """Return the division of an epoch, or of what remains of it, into batches."""
        share = self.order.share(
            epoch, self.rank, self.world, done=self.done, even=self.even, stick=self.stick
        )
        return BatchSteps(share, self.batch_size, self.last)

    @property
    def _next(self) -> int:
        """Position that the next batch begins at."""
        return (self._first or 0) + self._number * self.batch_size

    def _plan(self) -> ReadPlan | None:
        first = self._next
        if self._planned is not None and self._planned[0] == first:
            return self._planned[1]
        steps = self.steps(self._epoch)
        if not steps.holds(first):
            return None
        indices = steps.indices(first)
        plan = self.source.plan(self._epoch, indices, self.heads_of(indices))
        self._planned = first, plan
        return plan

    def prepare(self) -> None:
        """See :meth:`BatchSource.prepare`."""
        self._plan()

    def begin(self) -> Ticket | None:
        """See :meth:`BatchSource.begin`."""
        plan = self._plan()
        if plan is None:
            return None
        if self.limit_bytes and plan.nbytes > self.limit_bytes and "large" not in self.told:
            self.told.add("large")
            _log.warning(
                "a batch takes %s, and prefetch(gib=…) allows %s: batches are read one at a time",
                gib(plan.nbytes),
                gib(self.limit_bytes),
            )
        work = self.source.begin(plan, stack=not self.single)
        first = self._next
        self._planned = None
        self._number += self.turn[1]
        return Ticket(self._epoch, first, self.steps(self._epoch).end(first), work, size=plan.nbytes)

    def put_back(self, ticket: Ticket) -> None:
        """See :meth:`BatchSource.put_back`."""
        self.cancel(ticket)
        self._number -= self.turn[1]

    def next_size(self) -> int:
        """See :meth:`BatchSource.next_size`."""
        plan = self._plan()
        return 0 if plan is None else plan.nbytes

    def finish(self, ticket: Ticket) -> Fetched:
        """See :meth:`BatchSource.finish`."""
        read = self.source.finish(ticket.work)
        if self.single:
            indices = np.array(
                [outcome[0] for outcome in read.outcomes if isinstance(outcome, tuple)], dtype=np.int64
            )
            return Fetched((Handed(read),), BatchSamples(ticket.epoch, indices, len(indices)))
        return self._batch(read, ticket)

    def _batch(self, read: ReadResult, ticket: Ticket) -> Fetched:
        if (error := first_error(read.outcomes)) is not None:
            raise error
        samples = [outcome for outcome in read.outcomes if isinstance(outcome, tuple)]
        if not samples:
            raise EmptyBatchError("no sample of a batch can be read", advice="See the data set's report()")
        stacked = read.stacked if len(samples) == len(read.outcomes) else {}
        result = collated(samples, stacked)
        lost = len(read.outcomes) - len(samples)
        batch = BatchSamples(ticket.epoch, result.index, len(samples), result.sources)
        return Fetched((Handed((result.parts, lost)),), batch)

    def release(self, ticket: Ticket) -> None:
        """See :meth:`BatchSource.release`."""
        ticket.work = None

    def cancel(self, ticket: Ticket) -> None:
        """See :meth:`BatchSource.cancel`."""
        self.source.cancel(ticket.work)

    def go_to(self, epoch: int, position: int, state: Any = None) -> None:  # noqa: ARG002  it has none
        """See :meth:`BatchSource.go_to`; batches of other workers are passed by."""
        longest = self.steps(epoch).share.longest
        if not 0 <= position <= longest:
            raise StateError(
                f"history has {position} samples of a rank in epoch {epoch}",
                source=self.name,
                allowed=f"0 to {longest}",
            )
        self._planned = None
        if self._first is None or epoch != self._epoch:
            self._epoch, self._first, self._number = epoch, position, self.turn[0]
            return
        number, count = self.turn
        passed = -(-(position - self._first) // self.batch_size)  # whole batches before the position
        self._number = number + max(0, -(-(passed - number) // count)) * count

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """See :attr:`BatchSource.fingerprint`."""
        return self.source.facts

    def length(self, epoch: int) -> int:
        """See :meth:`BatchSource.length`."""
        return len(self.steps(epoch).share)

    def batches(self, epoch: int) -> int:
        """See :meth:`BatchSource.batches`."""
        return self.steps(epoch).count()

    def close(self) -> None:
        """Nothing: iterators of a data set share its source, which :meth:`Dataset.close` closes."""
