"""Sources of batches for the executor: they return batches in order, from positions that can be saved; their nodes.

The executor calls :meth:`BatchSource.begin` in the thread that iterates, for as many batches as are read ahead, and
:meth:`BatchSource.finish` for each of them in order, usually in another thread. Nothing else crosses threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from reprlib import repr as short
from typing import Any, Final, NamedTuple

from ..array import IntArray
from ..errors import DamagedSourceError, StateError
from ..ops import Type
from .inputs import Input

__all__ = [
    "BatchSamples",
    "BatchSource",
    "EmptyBatchError",
    "EndOfData",
    "Fetched",
    "SourceNode",
    "Ticket",
    "add_note",
    "nodes_of",
]

_NUMBERS: Final = count()  # of sources in the order of creation


class EndOfData(Exception):  # noqa: N818  the end is no error
    """A source has no further batch in this epoch."""


class EmptyBatchError(DamagedSourceError):
    """No sample of a batch can be read, and ``on_error`` leaves them out; the executor skips the batch."""


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
        has_state: whether it has a state of its own, besides epoch and position.
        endless: whether the next epoch follows without a stop; otherwise :meth:`begin` returns None at the end of each.
    """

    name: str = "source"
    parts: tuple[str, ...] = ()
    limit_bytes: int | None = None
    in_thread: bool = False
    has_state: bool = False
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

    def release(self, ticket: Ticket) -> None:  # noqa: B027  most have nothing to release
        """Release what a batch was read into; called when it is finished, before its operators begin."""

    def take_back(self, ticket: Ticket) -> None:  # noqa: B027  most make the batch again
        """Take back a batch that was finished and is not returned; :meth:`go_to` follows."""

    def own_state(self) -> Any:
        """Return the source's own state, if it has one; called when no batch is pending."""
        return None

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


@dataclass(frozen=True, eq=False, repr=False)
class SourceNode(Input):
    """A value of a source, for each batch.

    Attributes:
        name: a name that is unique in the process.
        source: the source.
        part: number of the value among the source's.
        order: number of the source in the order of creation.
    """

    source: BatchSource
    part: int
    order: int = 0

    @property
    def label(self) -> str:
        """The source and the part."""
        return f"{self.source.name}.{self.source.parts[self.part]}"

    def written(self, name: Any) -> str:  # noqa: ARG002  it refers to no other nodes
        """See :meth:`seqpipe.ops.DataNode.written`."""
        return self.label


def nodes_of(source: BatchSource) -> tuple[SourceNode, ...]:
    """Return a node for each value of a source."""
    first = next(_NUMBERS)
    return tuple(SourceNode(f"source{first}_{n}", source, n, first) for n in range(len(source.parts)))


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an error, once; tracebacks show notes since Python 3.11."""
    notes = [*getattr(error, "__notes__", ()), note]
    error.__notes__ = list(dict.fromkeys(notes))
