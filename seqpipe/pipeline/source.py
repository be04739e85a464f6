"""Sources: what a pipeline begins with. They give batches in order, and stand at places that can be saved.

A pipeline calls :meth:`BatchSource.begin` in the thread that iterates, for as many batches as are read ahead, and
:meth:`BatchSource.finish` for each of them in their order, mostly in another thread. Nothing else crosses threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args

import numpy as np

from ..array import IntArray
from ..errors import ParameterError, StateError
from ..ops import Type
from ..sampling.params import BATCH_SIZE, EPOCH

__all__ = [
    "BatchSource",
    "Counter",
    "Cut",
    "DatasetProtocol",
    "EndOfData",
    "Fetched",
    "Indexed",
    "PipelineLastBatch",
    "Place",
    "Ticket",
]

PipelineLastBatch: TypeAlias = Literal["partial", "drop", "fill", "pad"]
"""What becomes of a rest that fills no batch: given short; left out; filled up from the start of the epoch; filled up
with the last sample."""


class EndOfData(Exception):  # noqa: N818  the end is no error
    """A source has no further batch in this epoch."""


class Place(NamedTuple):
    """Which samples a batch consists of; draws depend on it.

    Attributes:
        epoch: the epoch.
        indices: of the samples within their dataset.
        valid: how many of them count; the rest fills the batch up.
        sources: what they are read from, for messages.
    """

    epoch: int
    indices: IntArray
    valid: int
    sources: tuple[str, ...] = ()


class Fetched(NamedTuple):
    """A batch of a source.

    Attributes:
        values: one for each of its parts.
        place: which samples they are.
    """

    values: tuple[Any, ...]
    place: Place


@dataclass(eq=False)
class Ticket:
    """A batch that was begun.

    Attributes:
        epoch: its epoch.
        position: samples of the epoch before it.
        end: samples of the epoch up to its end.
        work: what the source needs to finish it.
        state: of a source that has one of its own, from before it was asked for this batch.
        size: the bytes that its values hold, as far as that is known.
    """

    epoch: int
    position: int
    end: int
    work: Any = None
    state: Any = None
    size: int = 0


class BatchSource(ABC):
    """Something that gives batches.

    Attributes:
        name: for messages and statistics.
        parts: the names of its values.
        room: the bytes that batches under way and waiting may hold; None for any number.
        in_thread: whether :meth:`finish` runs code of the user, and so has a thread for itself.
        endless: whether epochs follow one another; otherwise :meth:`begin` gives None at the end of each.
    """

    name: str = "source"
    parts: tuple[str, ...] = ()
    room: int | None = None
    in_thread: bool = False
    endless: bool = False

    @abstractmethod
    def begin(self) -> Ticket | None:
        """Begin the next batch; None at the end of the epoch."""

    @abstractmethod
    def finish(self, ticket: Ticket) -> Fetched:
        """The batch.

        Raises:
            EndOfData: there is none after all.
        """

    def cancel(self, ticket: Ticket) -> None:  # noqa: B027  most have nothing to cancel
        """Forget a batch that was begun; it is not finished then."""

    @abstractmethod
    def go_to(self, epoch: int, position: int, state: Any = None) -> None:
        """Stand at a place: nothing is under way then.

        Args:
            epoch: the epoch.
            position: samples of it that were given out.
            state: of a source that has one of its own.

        Raises:
            StateError: the source cannot go there.
        """

    @property
    @abstractmethod
    def fingerprint(self) -> Mapping[str, object]:
        """What decides its samples, as plain values by name."""

    def use(self, parts: Seq[int]) -> None:  # noqa: B027  most make all of them anyway
        """Take note of which values are used, by their numbers, beside those used already; others may be None."""

    def type_of(self, part: int) -> Type:  # noqa: ARG002  for those that know
        """What is known of a value before the first batch, by its number."""
        return Type()

    def length(self, epoch: int) -> int | None:  # noqa: ARG002  most have one for all epochs
        """Samples of an epoch; None where that is not known."""
        return None

    def batches(self, epoch: int) -> int | None:  # noqa: ARG002  likewise
        """Batches of an epoch; None where that is not known."""
        return None

    def next_size(self) -> int:
        """The bytes that the next batch will hold, as far as that is known."""
        return 0

    def close(self) -> None:  # noqa: B027  most hold nothing
        """Let go of threads and files."""


class DatasetProtocol(Protocol):
    """Samples that can be asked for by their places in an epoch, such as a reader's."""

    name: str
    parts: tuple[str, ...]

    @property
    def room(self) -> int | None:
        """The bytes that samples under way may hold."""

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """What decides its samples."""

    def length(self, epoch: int) -> int:
        """Samples that this rank has in an epoch."""

    def lockstep(self) -> tuple[int, int]:
        """The least and the most samples that any rank has in any epoch."""

    def use(self, parts: Seq[int]) -> None:
        """See :meth:`Source.use`."""

    def type_of(self, part: int) -> Type:
        """What is known of a value, by its number."""

    def size(self, epoch: int, positions: IntArray) -> int:
        """The bytes that samples will hold, as far as that is known."""

    def begin(self, epoch: int, positions: IntArray) -> Any:
        """Begin to read samples."""

    def finish(self, work: Any) -> tuple[tuple[Any, ...], IntArray, tuple[str, ...]]:
        """The values, the samples' indices, and what they come from."""

    def cancel(self, work: Any) -> None:
        """Forget what was begun."""

    def close(self) -> None:
        """Let go of threads and files."""


@dataclass(frozen=True)
class Cut:
    """How the positions of an epoch are cut into batches.

    Attributes:
        length: positions of this rank.
        batch_size: in a batch.
        last_batch: what becomes of the rest.
        least: positions of the rank that has the fewest, of those that keep in step.
        most: of the rank that has the most.
    """

    length: int
    batch_size: int
    last_batch: PipelineLastBatch
    least: int
    most: int

    @property
    def count(self) -> int:
        """Batches of the epoch."""
        return (
            self.least // self.batch_size if self.last_batch == "drop" else -(-self.most // self.batch_size)
        )

    def holds(self, first: int) -> bool:
        """Whether a batch begins at a position."""
        if self.last_batch == "drop":
            return first + self.batch_size <= self.least
        return first < self.most and bool(self.length)

    def positions(self, first: int) -> tuple[IntArray, int]:
        """The positions of the batch that begins at one, and how many of them count.

        A rank whose samples have run out while others have some gets its first one, which does not count.
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
    """A source over a dataset: every batch follows from (epoch, position).

    Attributes:
        dataset: its samples.
        batch_size: samples in a batch.
        last_batch: what becomes of the rest of an epoch.
        endless: whether epochs follow one another.
        lockstep: whether all ranks give as many batches; otherwise each gives those of its own samples.
    """

    dataset: DatasetProtocol
    batch_size: int
    last_batch: PipelineLastBatch = "partial"
    endless: bool = False
    lockstep: bool = False
    _epoch: int = field(default=0, init=False)
    _position: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.batch_size = BATCH_SIZE.check(self.batch_size)
        if self.last_batch not in get_args(PipelineLastBatch):
            allowed = ", ".join(map(repr, get_args(PipelineLastBatch)))
            raise ParameterError(f"last_batch={self.last_batch!r} is not valid", allowed=allowed)
        self.name, self.parts, self.room = self.dataset.name, self.dataset.parts, self.dataset.room

    def cut(self, epoch: int) -> Cut:
        """How an epoch is cut."""
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
        return Fetched(values, Place(ticket.epoch, indices, min(valid, len(indices)), sources))

    def cancel(self, ticket: Ticket) -> None:
        """See :meth:`BatchSource.cancel`."""
        self.dataset.cancel(ticket.work[0])

    def go_to(self, epoch: int, position: int, state: Any = None) -> None:  # noqa: ARG002  it has none
        """See :meth:`BatchSource.go_to`."""
        cut = self.cut(EPOCH.check(epoch))
        if not 0 <= position <= cut.most:
            raise StateError(
                f"position={position} lies behind the end of epoch {epoch}",
                source=self.name,
                allowed=f"0 to {cut.most}",
            )
        self._epoch, self._position = epoch, position

    def use(self, parts: Seq[int]) -> None:
        """See :meth:`Source.use`."""
        self.dataset.use(parts)

    def type_of(self, part: int) -> Type:
        """See :meth:`BatchSource.type_of`."""
        return self.dataset.type_of(part)

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """That of the dataset; batches may be cut otherwise when a state is loaded."""
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
    """A source of nothing but places, without end: for graphs that make everything themselves.

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
        return Fetched((), Place(ticket.epoch, indices, len(indices)))

    def go_to(self, epoch: int, position: int, state: Any = None) -> None:  # noqa: ARG002  it has none
        """See :meth:`BatchSource.go_to`."""
        self._epoch, self._position = epoch, position

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """Nothing else decides its places."""
        return {"counter": 0}
