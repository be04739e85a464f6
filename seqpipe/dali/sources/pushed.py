"""Batches that the user passes to ``feed_input``, in a queue."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Any

import numpy as np

from ...errors import ParameterError, SeqpipeError
from ...ops import Type
from ...pipeline.source import BatchSamples, BatchSource, Fetched, Ticket
from ...sampling.params import BATCH_SIZE
from ..value import Value
from .external import ExternalSpec, ExternalValues, type_of

__all__ = ["PushSource", "PushedBatches", "StarvedError", "push_source"]


class PushSource(BatchSource):
    """A source of values that the user passes to ``feed_input``."""

    @property
    @abstractmethod
    def starved(self) -> bool:
        """Whether there is nothing for the next run."""

    @abstractmethod
    def feed(self, batch: Any, layout: str | None = None) -> None:
        """Append values to the queue.

        Args:
            batch: the values of a batch.
            layout: letters of the axes of a sample; None for those of the declaration.

        Raises:
            ParameterError: the values do not match the declaration.
        """

    def take_back(self, ticket: Ticket) -> None:
        """Return the batch to the queue: nobody feeds it again."""
        self.cancel(ticket)


class PushedBatches(PushSource):
    """A queue of batches that the user passes to ``feed_input``; each run takes one.

    Args:
        spec: declaration of the values.
        batch_size: samples in a batch.
        name: name for ``feed_input``.
        repeat_last: whether a run with an empty queue repeats the last batch.
        copies: whether ``feed_input`` copies arrays.
    """

    def __init__(
        self,
        spec: ExternalSpec,
        batch_size: int,
        *,
        name: str,
        repeat_last: bool = False,
        copies: bool = True,
    ) -> None:
        self.name, self.parts = name, spec.names
        self._values = ExternalValues(name, spec, BATCH_SIZE.check(batch_size), copies)
        self.host_copies = self._values.host_copies
        self._queue: deque[tuple[Value, ...]] = deque()
        self._repeat_last = repeat_last
        self._last: tuple[Value, ...] | None = None
        self._epoch = self._position = 0

    @property
    def starved(self) -> bool:
        """Whether the queue has no batch for the next run."""
        return not self._queue and (self._last is None or not self._repeat_last)

    def feed(self, batch: Any, layout: str | None = None) -> None:
        """Append a batch to the queue; see :meth:`PushSource.feed`.

        Args:
            batch: an array ``(N, …)``, or a list of samples; for several parts, a tuple of them.
            layout: letters of the axes of a sample; None for those of the declaration.

        Raises:
            ParameterError: the batch does not match the declaration.
        """
        arrays = self._values.batch(batch)
        if layout is not None:
            for array in arrays:
                if len(layout) != array.ndim:
                    raise ParameterError(
                        f"layout={layout!r} for samples with {array.ndim} axes",
                        source=self.name,
                        allowed="one letter for each axis",
                    )
            arrays = tuple(array.with_data(array.data, layout) for array in arrays)
        self._queue.append(arrays)

    def begin(self) -> Ticket | None:
        """See :meth:`BatchSource.begin`.

        Raises:
            StarvedError: the queue is empty.
        """
        if self.starved:
            raise StarvedError(
                "the source has no batch for this run",
                source=self.name,
                advice=f"Pass a batch before each run: pipe.feed_input({self.name!r}, batch)",
            )
        if fed := bool(self._queue):
            self._last = self._queue.popleft()
        assert self._last is not None
        count = len(self._last[0])
        ticket = Ticket(self._epoch, self._position, self._position + count, (self._last, fed))
        self._position = ticket.end
        return ticket

    def finish(self, ticket: Ticket) -> Fetched:
        """See :meth:`BatchSource.finish`."""
        values, _ = ticket.work
        count = len(values[0])
        indices = np.arange(ticket.position, ticket.position + count, dtype=np.int64)
        return Fetched(values, BatchSamples(ticket.epoch, indices, count))

    def cancel(self, ticket: Ticket) -> None:
        """Return the batch to the front of the queue, unless it repeats the last one."""
        values, fed = ticket.work
        if fed:
            self._queue.appendleft(values)

    def go_to(self, epoch: int, position: int, state: Any = None) -> None:  # noqa: ARG002  it is fed by hand
        """See :meth:`BatchSource.go_to`."""
        self._epoch, self._position = epoch, position

    def type_of(self, part: int) -> Type:
        """See :meth:`BatchSource.type_of`."""
        return type_of(self._values.spec, part)

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """Nothing is known of what it is fed."""
        return {"feed": [self.name, len(self.parts)]}

    def close(self) -> None:
        """Release the memory of unused batches."""
        self._values.close()


class StarvedError(SeqpipeError, IndexError):
    """The queue of a source without its own data is empty."""


def push_source(sources: Seq[BatchSource], name: str) -> PushSource:
    """Return the source that ``feed_input`` calls by a name.

    Raises:
        ParameterError: there is no such source.
    """
    known = [source for source in sources if isinstance(source, PushSource)]
    for source in known:
        if source.name == name:
            return source
    raise ParameterError(
        f"there is no source {name!r} for feed_input()",
        source="Pipeline",
        allowed=", ".join(repr(source.name) for source in known) or "none: all sources have their own data",
    )
