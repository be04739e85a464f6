"""Sources of a pipeline: they return batches in order, from positions that can be saved.

A pipeline calls :meth:`BatchSource.begin` in the thread that iterates, for as many batches as are read ahead, and
:meth:`BatchSource.finish` for each of them in order, usually in another thread. Nothing else crosses threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from reprlib import repr as short
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args

import numpy as np

from ..array import IntArray
from ..errors import DamagedSourceError, ParameterError, StateError
from ..ops import Type
from ..sampling.params import BATCH_SIZE, EPOCH

__all__ = [
    "BatchSamples",
    "BatchSource",
    "Counter",
    "Cut",
    "DatasetProtocol",
    "EmptyBatchError",
    "EndOfData",
    "Fetched",
    "Indexed",
    "PipelineLastBatch",
    "Ticket",
]

PipelineLastBatch: TypeAlias = Literal["partial", "drop", "fill", "pad"]
"""Policy for an incomplete last batch: return it short; leave it out; complete it with the first samples of the epoch;
repeat its last sample."""


class EndOfData(Exception):  # noqa: N818  the end is no error
    """A source has no further batch in this epoch."""


class EmptyBatchError(DamagedSourceError):
    """No sample of a batch can be read, and ``on_error`` leaves them out; the pipeline skips the batch."""


class BatchSamples(NamedTuple):
    """The samples of a batch; sampled parameters depend on them.

    Attributes:
        epoch: the epoch.
        indices: indices of the samples within their dataset.
        valid: number of samples that count; the others complete the batch.
        sources: paths or URLs of the samples, for messages.
    """

    epoch: int
    indices: IntArray
    valid: int
    sources: tuple[str, ...] = ()


class Fetched(NamedTuple):
    """A batch of a source.

    Attributes:
        values: one value for each part.
        samples: the samples.
    """

    values: tuple[Any, ...]
    samples: BatchSamples


@dataclass(eq=False)
class Ticket:
    """A pending batch.

    Attributes:
        epoch: the epoch.
        position: number of samples of the epoch before the batch.
        end: number of samples of the epoch up to the batch's end.
        work: what the source needs to finish the batch.
        state: the source's own state, if it has one, from before this batch.
        size: size of the values in bytes, as far as known.
    """

    epoch: int
    position: int
    end: int
    work: Any = None
    state: Any = None
    size: int = 0


class BatchSource(ABC):
    """A source of batches.

    Attributes:
        name: name for messages and statistics.
        parts: names of the values of a batch.
        limit_bytes: limit in bytes for batches that are read ahead; None for no limit.
        in_thread: whether :meth:`finish` runs the user's code, and therefore in a thread of its own.
        endless: whether the next epoch follows without a stop; otherwise :meth:`begin` returns None at the end of each.
    """

    name: str = "source"
    parts: tuple[str, ...] = ()
    limit_bytes: int | None = None
    in_thread: bool = False
    endless: bool = False
    _epoch: int = 0
    _position: int = 0

    def start(self) -> None:  # noqa: B027  most have nothing to start
        """Start processes, before the first batch is begun and before threads are started."""

    def prepare(self) -> None:  # noqa: B027  most have nothing to plan
        """Plan the batch that :meth:`begin` starts next, without starting it."""

    @abstractmethod
    def begin(self) -> Ticket | None:
        """Start the next batch; None at the end of the epoch."""

    @abstractmethod
    def finish(self, ticket: Ticket) -> Fetched:
        """Wait for the batch and return it.

        Raises:
            EndOfData: the source has ended.
        """

    def cancel(self, ticket: Ticket) -> None:  # noqa: B027  most have nothing to cancel
        """Cancel a pending batch, which :meth:`finish` is not called for; :meth:`go_to` follows."""

    def take_back(self, ticket: Ticket) -> None:  # noqa: B027  most make the batch again
        """Take back a batch that was finished and is not returned; :meth:`go_to` follows."""

    def put_back(self, ticket: Ticket) -> None:
        """Undo :meth:`begin` for the batch that was started last: the next call starts it again."""
        self.cancel(ticket)
        self._epoch, self._position = ticket.epoch, ticket.position

    @abstractmethod
    def go_to(self, epoch: int, position: int, state: Any = None) -> None:
        """Move to a position; called when no batch is pending.

        Args:
            epoch: the epoch.
            position: number of samples of the epoch that were returned.
            state: the source's own state, if it has one.

        Raises:
            StateError: the source cannot move there.
        """

    def check_state(self, epoch: int, position: int, state: Any, field: str) -> None:  # noqa: ARG002  for those with bounds
        """Check a position of a saved state, before any source moves.

        Args:
            epoch: the epoch.
            position: number of samples of the epoch that were returned.
            state: the source's own state.
            field: name of that state, for the message.

        Raises:
            StateError: the source cannot move there.
        """
        if state is not None:
            raise StateError(f"{field} {short(state)} is not valid", source=self.name, allowed="None")

    @property
    @abstractmethod
    def fingerprint(self) -> Mapping[str, object]:
        """Everything that determines the samples, as plain values by name."""

    def use(self, parts: Seq[int]) -> None:  # noqa: B027  most make all of them anyway
        """Declare that the values with these numbers are used; values that were never declared may be None."""

    def type_of(self, part: int) -> Type:  # noqa: ARG002  for those that know
        """Return what is known of a value's type before the first batch, by its number."""
        return Type()

    def length(self, epoch: int) -> int | None:  # noqa: ARG002  most have one for all epochs
        """Return the number of samples of an epoch, or None if unknown."""
        return None

    def batches(self, epoch: int) -> int | None:  # noqa: ARG002  likewise
        """Return the number of batches of an epoch, or None if unknown."""
        return None

    def next_size(self) -> int:
        """Return the size of the next batch in bytes, as far as known."""
        return 0

    def close(self) -> None:  # noqa: B027  most hold nothing
        """Stop threads and close files."""


class DatasetProtocol(Protocol):
    """A dataset whose samples are read by their positions in an epoch, such as a reader."""

    name: str
    parts: tuple[str, ...]

    @property
    def limit_bytes(self) -> int | None:
        """Limit in bytes for samples that are being read; None for no limit."""

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """Everything that determines the samples, as plain values by name."""

    def length(self, epoch: int) -> int:
        """Return the number of samples of this rank in an epoch."""

    def lockstep(self) -> tuple[int, int]:
        """Smallest and largest number of samples of a rank in an epoch."""

    def type_of(self, part: int) -> Type:
        """Return what is known of a value's type, by its number."""

    def size(self, epoch: int, positions: IntArray) -> int:
        """Return the size of samples in bytes, as far as known."""

    def begin(self, epoch: int, positions: IntArray) -> Any:
        """Start to read samples."""

    def finish(self, work: Any) -> tuple[tuple[Any, ...], IntArray, tuple[str, ...]]:
        """Wait for samples; return their values, indices and sources."""

    def cancel(self, work: Any) -> None:
        """Cancel a pending read."""

    def close(self) -> None:
        """Stop threads and close files."""


@dataclass(frozen=True)
class Cut:
    """Division of an epoch's positions into batches.

    Attributes:
        length: number of positions of this rank.
        batch_size: samples in a batch.
        last_batch: policy for an incomplete last batch.
        least: smallest number of positions of a rank, of ranks in lockstep.
        most: largest number of positions of a rank.
    """

    length: int
    batch_size: int
    last_batch: PipelineLastBatch
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
    """A source over a dataset, whose batches follow from (epoch, position).

    Attributes:
        dataset: the dataset.
        batch_size: samples in a batch.
        last_batch: policy for an incomplete last batch.
        endless: whether the next epoch follows without a stop.
        lockstep: whether all ranks return equally many batches, instead of those of their own samples.
        declared_pad: whether ``last_batch`` was "pad" at first; iterators replace it by their own policy.
    """

    dataset: DatasetProtocol
    batch_size: int
    last_batch: PipelineLastBatch = "partial"
    endless: bool = False
    lockstep: bool = False
    declared_pad: bool = field(default=False, init=False)
    _epoch: int = field(default=0, init=False)
    _position: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.batch_size = BATCH_SIZE.check(self.batch_size)
        if self.last_batch not in get_args(PipelineLastBatch):
            allowed = ", ".join(map(repr, get_args(PipelineLastBatch)))
            raise ParameterError(f"last_batch={self.last_batch!r} is not valid", allowed=allowed)
        self.declared_pad = self.last_batch == "pad"
        self.name, self.parts, self.limit_bytes = (
            self.dataset.name,
            self.dataset.parts,
            self.dataset.limit_bytes,
        )

    def cut(self, epoch: int) -> Cut:
        """Return the division of an epoch into batches."""
        length = self.dataset.length(epoch)
        least, most = self.dataset.lockstep() if self.lockstep else (length, length)
        return Cut(length, self.batch_size, self.last_batch, least, most)

    def begin(self) -> Ticket | None:
        """See :meth:`BatchSource.begin`."""
        cut = self.cut(self._epoch)
        if not cut.holds(self._position):
            if not self.endless or not cut.count:
                return None
            self._epoch, self._position = self._epoch + 1, 0
            return self.begin()
        positions, valid = cut.positions(self._position)
        work = self.dataset.begin(self._epoch, positions), valid
        end = min(self._position + self.batch_size, cut.most)
        ticket = Ticket(
            self._epoch, self._position, end, work, size=self.dataset.size(self._epoch, positions)
        )
        self._position = end
        return ticket

    def next_size(self) -> int:
        """See :meth:`BatchSource.next_size`."""
        cut = self.cut(self._epoch)
        at = self._position if cut.holds(self._position) else 0
        return self.dataset.size(self._epoch, cut.positions(at)[0]) if cut.length else 0

    def finish(self, ticket: Ticket) -> Fetched:
        """See :meth:`BatchSource.finish`."""
        work, valid = ticket.work
        values, indices, sources = self.dataset.finish(work)
        return Fetched(values, BatchSamples(ticket.epoch, indices, min(valid, len(indices)), sources))

    def cancel(self, ticket: Ticket) -> None:
        """See :meth:`BatchSource.cancel`."""
        self.dataset.cancel(ticket.work[0])

    def check_state(self, epoch: int, position: int, state: Any, field: str) -> None:
        """See :meth:`BatchSource.check_state`."""
        super().check_state(epoch, position, state, field)
        if position > (most := self.cut(epoch).most):
            raise StateError(
                f"position={position} is past the end of epoch {epoch}",
                source=self.name,
                allowed=f"0 to {most}",
            )

    def go_to(self, epoch: int, position: int, state: Any = None) -> None:
        """See :meth:`BatchSource.go_to`."""
        self.check_state(EPOCH.check(epoch), position, state, "the state")
        self._epoch, self._position = epoch, position

    def use(self, parts: Seq[int]) -> None:
        """See :meth:`BatchSource.use`; most datasets make all of their values."""
        if (use := getattr(self.dataset, "use", None)) is not None:
            use(parts)

    def type_of(self, part: int) -> Type:
        """See :meth:`BatchSource.type_of`."""
        return self.dataset.type_of(part)

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """The dataset's fingerprint; a state may be loaded with another batch size."""
        return self.dataset.fingerprint

    def length(self, epoch: int) -> int:
        """See :meth:`BatchSource.length`."""
        return self.dataset.length(epoch)

    def batches(self, epoch: int) -> int:
        """See :meth:`BatchSource.batches`."""
        return self.cut(epoch).count

    def close(self) -> None:
        """See :meth:`BatchSource.close`."""
        self.dataset.close()


@dataclass(eq=False)
class Counter(BatchSource):
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
