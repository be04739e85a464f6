"""Dataset iteration: position, read-ahead, and the state to resume from."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from ..errors import DeviceMemoryError, ParameterError, SeqpipeError, StateError
from ..sampling import BatchPlan, IteratorState, check_state
from ..sampling.params import BATCH_SIZE, LastBatch
from ..sequence import Batch, Sequence
from .collate import RAGGED, Ragged, collate
from .fetch import FetchedSamples, Fetcher, Pending
from .outputs import Outputs

__all__ = ["Batches", "Pass", "PassContext", "Sequences", "Singles"]

ItemT = TypeVar("ItemT")

_log = logging.getLogger(__name__)


@dataclass
class PassContext:
    """What all passes through one dataset share.

    Attributes:
        fetcher: reads the samples.
        room: the bytes that batches under way and waiting may hold, for each pass.
        epoch: the epoch that the user has chosen last.
    """

    fetcher: Fetcher
    room: int
    epoch: int = 0
    _said: bool = False

    def length(self, epoch: int) -> int:
        """Samples that the rank gets in an epoch."""
        return self.fetcher.selection.order.length(epoch)

    @property
    def fingerprint(self) -> str:
        """What decides the order of samples and their frames."""
        return self.fetcher.selection.fingerprint

    def group(self, wanted: int, outputs: Outputs | None = None) -> int:
        """How many sequences to read together: as many as wanted, if there is room for two such groups.

        What is made of each on its own is judged by the first ones of the epoch.
        """
        if outputs is None:
            return max(1, min(wanted, self.room // (2 * self.fetcher.largest)))
        first = np.arange(min(wanted, self.length(self.epoch)))
        size = self.fetching(outputs).size(self.epoch, first)
        return max(1, min(wanted, self.room * len(first) // max(1, 2 * size)))

    def fetching(self, outputs: Outputs | None) -> Fetcher:
        """What reads the samples, with an output of its own for each if there are such."""
        return self.fetcher if outputs is None else replace(self.fetcher, outputs=outputs)

    def note_large(self, size: int) -> None:
        """Say, once, that a batch of some bytes is larger than all that are read ahead may be together."""
        if not self._said:
            self._said = True
            _log.warning(
                "a batch takes %s, and prefetch_gib is %s: one at a time is read ahead",
                _gib(size),
                _gib(self.room),
            )


class Pass(ABC, Generic[ItemT]):
    """A place in an epoch of a dataset, from which iteration goes on.

    - ``iter()`` goes on from where it stands: after a ``break``, after an error, after loading a state. It
      begins anew, at the start of the dataset's current epoch, if the epoch was gone through to its end or
      if ``set_epoch`` of the dataset has chosen another one. The epoch never advances by itself.
    - ``len()`` counts what a whole epoch gives.
    - A place is the number of samples of the rank's epoch that the user has got (or that were lost on the
      way); what was read ahead does not count.
    - An error is raised in its turn; the next call goes on behind it.

    - Batches under way and waiting hold at most the bytes that the dataset's ``prefetch_gib`` allows, but one of
      them is always under way, however large it is, unless that is 0. What was given out does not count.
    - Where the device has less room than that, less is read ahead. Only when there is none for the next batch,
      the error is raised; nothing is lost by it, and the next call tries once more.

    A pass belongs to one thread at a time; a dataset may have many. In a forked process it goes on from where
    it stands, with threads of its own; so does what is made of its pickle.
    """

    def __init__(
        self, feed: PassContext, batch_size: int, last_batch: LastBatch, ahead: int, outputs: Outputs | None
    ) -> None:
        self._feed, self._fetcher = feed, feed.fetching(outputs)
        self._batch_size, self._last_batch, self._ahead = BATCH_SIZE.check(batch_size), last_batch, ahead
        self._queue: deque[tuple[int, Pending]] = deque()
        self._go_to(feed.epoch, 0)

    @property
    def epoch(self) -> int:
        """The epoch it stands in."""
        return self._epoch

    @property
    def position(self) -> int:
        """How many samples of the rank's epoch were given out, or lost."""
        return self._position

    def __iter__(self) -> Iterator[ItemT]:
        if self._ended or self._epoch != self._feed.epoch:
            self._go_to(self._feed.epoch, 0)
        return self

    @abstractmethod
    def __next__(self) -> ItemT: ...

    def __getstate__(self) -> dict[str, Any]:
        # What is under way will not arrive elsewhere: it is begun there once more.
        return {**self.__dict__, "_queue": deque(), "_begun": self._given}

    def state_dict(self) -> IteratorState:
        """Where it stands, as plain values: the epoch, the position, and what they are of.

        A state may be loaded by a pass of another batch size, with other threads, or on another machine.
        """
        return IteratorState(epoch=self._epoch, position=self._position, fingerprint=self._feed.fingerprint)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on from a state: with exactly the samples that would have come. The dataset's epoch becomes its epoch.

        Raises:
            StateError: it was taken of another dataset, or with other parameters; the message names them.
        """
        found = check_state(state, self._feed.fingerprint)
        length = self._feed.length(found["epoch"])
        if found["position"] > length:
            raise StateError(
                f"position={found['position']} lies behind the end of epoch {found['epoch']}",
                allowed=f"0 to {length}",
            )
        self._feed.epoch = found["epoch"]
        self._go_to(found["epoch"], found["position"])

    def _go_to(self, epoch: int, position: int) -> None:
        self._drop_queue()
        self._epoch, self._position, self._ended = epoch, position, False
        self._plan = BatchPlan(
            length=self._feed.length(epoch),
            batch_size=self._batch_size,
            last_batch=self._last_batch,
            start=position,
        )
        self._given = self._begun = 0
        self._room = self._feed.room

    def _next_batch(self, *, stack: bool = True) -> FetchedSamples | None:
        """The next batch once it has arrived; None at the end."""
        if self._queue and self._queue[0][1].engine is not self._fetcher.engine.get():
            # The dataset was closed, or this is a forked process: what was begun will not arrive.
            self._step_back()
        try:
            return self._arrived(stack=stack)
        except DeviceMemoryError as error:
            self._step_back()
            if not self._room:
                error.advice = f"{self._advice()}. {error.advice}"
                raise
            self._read_less(0, error)
        except BaseException:
            # Interrupted: nothing of it was given out, so it is begun once more if the user goes on.
            self._step_back()
            raise
        # Not above: the error would hold what it has met on its way, pixels among it.
        return self._next_batch(stack=stack)

    def _arrived(self, *, stack: bool) -> FetchedSamples | None:
        if not self._queue:
            self._begin_next(stack=stack)
        self._read_ahead(self._ahead + 1, stack=stack)
        if not self._queue:
            self._ended = True
            return None
        number, pending = self._queue[0]
        fetched = self._fetcher.finish(pending)
        self._queue.popleft()
        self._read_ahead(self._ahead, stack=stack)
        self._given, self._position = number + 1, self._plan.end(number)
        return fetched

    def _read_ahead(self, most: int, *, stack: bool) -> None:
        """Begin batches until there are as many as told or the room is used up; one, if there is room for anything."""
        while self._begun < self._plan.count and len(self._queue) < most:
            held = sum(pending.size for _, pending in self._queue)
            if held + self._next_size() > self._room and (self._queue or not self._room):
                return
            try:
                self._begin_next(stack=stack)
            except DeviceMemoryError as error:
                self._read_less(held, error)
                return

    def _begin_next(self, *, stack: bool) -> None:
        """Begin the next batch, if there is one."""
        if self._begun < self._plan.count:
            if 0 < self._feed.room < (size := self._next_size()):
                self._feed.note_large(size)
            positions = self._plan.positions(self._begun)
            self._queue.append((self._begun, self._fetcher.begin(self._epoch, positions, stack=stack)))
            self._begun += 1

    def _read_less(self, room: int, error: DeviceMemoryError) -> None:
        """From now on be content with what the device has room for."""
        _log.warning("less is read ahead from now on: %s", str(error))  # its text: the error holds pixels
        self._room = room

    def _next_size(self) -> int:
        return self._fetcher.size(self._epoch, self._plan.positions(self._begun))

    def _advice(self) -> str:
        """What takes the device's memory here, and what decides it."""
        return (
            f"A batch takes {_gib(self._next_size())}, all that are read ahead up to {_gib(self._feed.room)} "
            "(prefetch_gib): give smaller batches, sequences or pictures, or a smaller prefetch_gib"
        )

    def _where(self) -> str:
        return f"epoch {self._epoch}, position {self._position} of {self._feed.length(self._epoch)}"

    def _step_back(self) -> None:
        """Forget what was begun and not given out."""
        self._drop_queue()
        self._begun = self._given

    def _drop_queue(self) -> None:
        for _, pending in self._queue:
            pending.read.cancel()
        self._queue.clear()


class Batches(Pass[Batch]):
    """Batches of a dataset; see :meth:`seqpipe.readers.Video.batches`."""

    def __init__(
        self,
        feed: PassContext,
        *,
        batch_size: int,
        last_batch: LastBatch,
        ragged: Ragged,
        prefetch: int,
        outputs: Outputs | None = None,
    ) -> None:
        self._ragged: Ragged = RAGGED.check(ragged)
        if outputs is not None and self._ragged == "pad":
            raise ParameterError(
                "ragged='pad' and outputs exclude one another",
                advice="Give every sample's output the same size",
            )
        super().__init__(feed, batch_size, last_batch, prefetch, outputs)

    def __len__(self) -> int:
        """Batches of a whole epoch; lost samples are not known beforehand."""
        length = self._feed.length(self._feed.epoch)
        return BatchPlan(length=length, batch_size=self._batch_size, last_batch=self._last_batch).count

    def __next__(self) -> Batch:
        while True:
            fetched = self._next_batch()
            if fetched is None:
                raise StopIteration
            if fetched.error is not None:
                raise fetched.error
            if fetched.pairs:
                return collate(fetched, ragged=self._ragged, fill=self._fetcher.fill)

    def __repr__(self) -> str:
        return (
            f"Batches(batch_size={self._batch_size}, last_batch={self._last_batch!r}, ragged={self._ragged!r}; "
            f"{self._where()})"
        )


class Singles(Pass[ItemT]):
    """The samples of a dataset one by one."""

    def __init__(self, feed: PassContext, *, group: int, outputs: Outputs | None = None) -> None:
        self._ready: deque[tuple[int, Any]] = deque()
        self._index = -1
        # Read in groups, so that neighbors that share a GOP share its decoding.
        super().__init__(feed, group, "partial", 1, outputs)

    @property
    def index(self) -> int:
        """The index within the dataset of the sequence that was given out last; -1 before the first."""
        return self._index

    def __len__(self) -> int:
        """Sequences of a whole epoch; lost samples are not known beforehand."""
        return self._feed.length(self._feed.epoch)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._where()})"

    def __next__(self) -> ItemT:
        while True:
            while not self._ready:
                before = self._position
                fetched = self._next_batch(stack=False)
                if fetched is None:
                    raise StopIteration
                self._position = before
                self._ready.extend(enumerate(fetched.outcomes, before + 1))
            self._position, outcome = self._ready.popleft()
            if isinstance(outcome, SeqpipeError):
                raise outcome
            if outcome is not None:
                self._index = outcome[0].index
                item: ItemT = outcome[1]
                return item

    def _go_to(self, epoch: int, position: int) -> None:
        self._ready.clear()
        super()._go_to(epoch, position)


class Sequences(Singles[Sequence]):
    """The sequences of a dataset one by one; see :meth:`seqpipe.readers.Video.sequences`."""


def _gib(size: int) -> str:
    return f"{size / 2**30:.3g} GiB"
