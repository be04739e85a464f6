"""Dataset iteration: position, read-ahead, and the state to resume from."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from ..array import IntArray
from ..core.cached import cached_property
from ..core.turns import TakesTurns
from ..errors import DeviceMemoryError, SeqpipeError
from ..sampling import BatchPlan, IteratorState, check_state, fingerprint
from ..sampling.params import BATCH_SIZE, LastBatch
from .fetch import FetchedSamples

__all__ = ["BatchPass", "Pass", "PassContext", "RankOrder", "Singles"]

ItemT = TypeVar("ItemT")

_log = logging.getLogger(__name__)


class RankOrder(Protocol):
    """The order of a rank's samples."""

    def length(self, epoch: int = 0) -> int:
        """Return the number of samples of the rank in an epoch."""

    def samples(self, epoch: int, positions: IntArray | None = None) -> IntArray:
        """Return the samples at positions of the rank's epoch; by default all of them."""

    def fingerprint_fields(self) -> dict[str, object]:
        """Return everything that determines the order, by name."""


@dataclass
class PassContext:
    """State shared by all iterators over one dataset.

    Attributes:
        fetcher: the fetcher of the dataset's samples.
        order: order of the rank's samples.
        limit_bytes: memory limit of the batches that one iterator reads ahead.
        epoch: the epoch of the last ``set_epoch``.
    """

    fetcher: Any
    order: RankOrder
    limit_bytes: int
    epoch: int = 0
    _warned: bool = False

    def length(self, epoch: int) -> int:
        """Number of samples of the rank in an epoch."""
        return self.order.length(epoch)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of everything that determines samples and their order."""
        return fingerprint(**self.fetcher.selection.facts, **self.order.fingerprint_fields())

    def group(self, wanted: int) -> int:
        """Return the number of samples to read together: ``wanted``, or fewer if two groups exceed ``limit_bytes``."""
        return max(1, min(wanted, self.limit_bytes // int(2 * self.fetcher.largest)))

    def warn_large(self, size: int) -> None:
        """Log, once for each dataset, that a single batch exceeds ``prefetch_gib``."""
        if not self._warned:
            self._warned = True
            _log.warning(
                "a batch takes %s, and prefetch_gib is %s: batches are read one at a time",
                _gib(size),
                _gib(self.limit_bytes),
            )


class Pass(TakesTurns, ABC, Generic[ItemT]):
    """A resumable iterator over an epoch of a dataset.

    - ``iter()`` continues from the current position: after a ``break``, an error, or ``load_state_dict``. It
      starts the dataset's current epoch anew if the epoch was finished or ``set_epoch`` selected another one.
      The epoch never advances by itself.
    - ``len()`` is the length of a whole epoch.
    - The position counts samples of the rank's epoch that were returned or lost; samples that are only read ahead
      do not count.
    - An error is raised at its position in the order; the next call continues after it.
    - Batches that are read ahead hold at most ``prefetch_gib``, not counting returned ones. One batch is read ahead
      even if it exceeds that limit, unless ``prefetch_gib`` is 0.
    - If the device's memory is full, fewer batches are read ahead. The error is raised only if the next batch does
      not fit; no sample is lost, and the next call tries again.

    Several threads may use one iterator, and get each item once. A dataset may have several iterators. A forked process
    and an unpickled copy continue from the same position with threads of their own.
    """

    def __init__(self, feed: PassContext, batch_size: int, last_batch: LastBatch, ahead: int) -> None:
        self._feed, self._fetcher = feed, feed.fetcher
        self._batch_size, self._last_batch, self._ahead = BATCH_SIZE.check(batch_size), last_batch, ahead
        self._queue: deque[tuple[int, Any]] = deque()
        self._go_to(feed.epoch, 0)

    @property
    def epoch(self) -> int:
        """The epoch that is being iterated."""
        return self._epoch

    @property
    def chosen_epoch(self) -> int:
        """The dataset's current epoch, which the next ``iter()`` reads."""
        return self._feed.epoch

    @property
    def position(self) -> int:
        """Number of samples of the rank's epoch that were returned or lost."""
        return self._position

    def __iter__(self) -> Iterator[ItemT]:
        if self._ended or self._epoch != self._feed.epoch:
            self._go_to(self._feed.epoch, 0)
        return self

    @abstractmethod
    def __next__(self) -> ItemT: ...

    def __getstate__(self) -> dict[str, Any]:
        # Pending reads stay in this process; the copy starts them again.
        return {**self.__dict__, "_queue": deque(), "_begun": self._returned}

    def state_dict(self) -> IteratorState:
        """Return epoch, position and the dataset's fingerprint as plain values.

        The state may be loaded with another batch size, another number of threads, or on another machine.
        """
        return IteratorState(epoch=self._epoch, position=self._position, fingerprint=self._feed.fingerprint)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continue from a state with exactly the samples that would have followed; sets the dataset's epoch.

        Raises:
            StateError: the state belongs to another dataset or to other parameters; the message names them.
        """
        checked = check_state(state, self._feed.fingerprint, length=self._feed.length)
        self._feed.epoch = checked["epoch"]
        self._go_to(checked["epoch"], checked["position"])

    def _go_to(self, epoch: int, position: int) -> None:
        self._drop_queue()
        self._epoch, self._position, self._ended = epoch, position, False
        self._plan = BatchPlan(
            length=self._feed.length(epoch),
            batch_size=self._batch_size,
            last_batch=self._last_batch,
            start=position,
        )
        self._returned = self._begun = 0  # numbers of batches
        self._limit_bytes = self._feed.limit_bytes

    def _next_batch(self, *, stack: bool = True) -> FetchedSamples | None:
        """Wait for the next batch; None at the end of the epoch."""
        if self._queue and self._queue[0][1].engine is not self._fetcher.engine.get():
            # The dataset was closed, or this is a forked process: pending reads never finish.
            self._cancel_pending()
        try:
            return self._finish_next(stack=stack)
        except DeviceMemoryError as error:
            self._cancel_pending()
            if not self._limit_bytes:
                error.advice = f"{self._advice()}. {error.advice}"
                raise
            self._lower_limit(0, error)
        except BaseException:
            # Interrupted: nothing was returned, so the next call starts the same batch again.
            self._cancel_pending()
            raise
        # Outside of the except block, where the error's traceback would keep pixels alive.
        return self._next_batch(stack=stack)

    def _finish_next(self, *, stack: bool) -> FetchedSamples | None:
        if not self._queue:
            self._begin_next(stack=stack)
        self._read_ahead(self._ahead + 1, stack=stack)
        if not self._queue:
            self._ended = True
            return None
        number, pending = self._queue[0]
        if self._ahead and self._begun < self._plan.count:
            # while this batch is decoded, so that decoders wait for less after it
            self._fetcher.prepare(self._epoch, self._indices(self._begun))
        fetched: FetchedSamples = self._fetcher.finish(pending)
        self._queue.popleft()
        self._read_ahead(self._ahead, stack=stack)
        self._returned, self._position = number + 1, self._plan.end(number)
        return fetched

    def _read_ahead(self, most: int, *, stack: bool) -> None:
        """Start batches until ``most`` are pending or the memory limit is reached; one at least unless that is 0.

        The limit counts decoded frames. A pipeline, which orders the batches of several sources, applies the same limit
        in ``Executor.fill`` and does not use this iterator.
        """
        while self._begun < self._plan.count and len(self._queue) < most:
            pending_bytes = sum(pending.size for _, pending in self._queue)
            if pending_bytes + self._next_size() > self._limit_bytes and (
                self._queue or not self._limit_bytes
            ):
                return
            try:
                self._begin_next(stack=stack)
            except DeviceMemoryError as error:
                self._lower_limit(pending_bytes, error)
                return

    def _begin_next(self, *, stack: bool) -> None:
        """Start the next batch, if there is one."""
        if self._begun < self._plan.count:
            if 0 < self._feed.limit_bytes < (size := self._next_size()):
                self._feed.warn_large(size)
            indices = self._indices(self._begun)
            self._queue.append((self._begun, self._fetcher.begin(self._epoch, indices, stack=stack)))
            self._begun += 1

    def _lower_limit(self, limit_bytes: int, error: DeviceMemoryError) -> None:
        """Lower the memory limit after the device's memory was full."""
        # str(error), since the exception's traceback would keep pixels alive in a log handler
        _log.warning("less is read ahead from now on: %s", str(error))
        self._limit_bytes = limit_bytes

    def _next_size(self) -> int:
        return int(self._fetcher.size(self._epoch, self._indices(self._begun)))

    def _indices(self, number: int) -> IntArray:
        """Return the indices of the samples of a batch."""
        return self._feed.order.samples(self._epoch, self._plan.positions(number))

    def _advice(self) -> str:
        """Advice for a full device memory."""
        return (
            f"A batch takes {_gib(self._next_size())}, batches read ahead up to {_gib(self._feed.limit_bytes)} "
            "(prefetch_gib): use smaller batches, sequences or frames, or a smaller prefetch_gib"
        )

    def _where(self) -> str:
        return f"epoch {self._epoch}, position {self._position} of {self._feed.length(self._epoch)}"

    def _cancel_pending(self) -> None:
        """Cancel batches that were started and not returned; the next call starts them again."""
        self._drop_queue()
        self._begun = self._returned

    def _drop_queue(self) -> None:
        for _, pending in self._queue:
            pending.read.cancel()
        self._queue.clear()


class BatchPass(Pass[ItemT]):
    """Iterator over the batches of a dataset."""

    def __len__(self) -> int:
        """Number of batches of a whole epoch; batches may be fewer if samples are lost."""
        length = self._feed.length(self._feed.epoch)
        return BatchPlan(length=length, batch_size=self._batch_size, last_batch=self._last_batch).count

    def __next__(self) -> ItemT:
        while True:
            fetched = self._next_batch()
            if fetched is None:
                raise StopIteration
            if fetched.error is not None:
                raise fetched.error
            if fetched.pairs:
                return self._collate(fetched)

    @abstractmethod
    def _collate(self, fetched: FetchedSamples) -> ItemT:
        """Return a batch of at least one sample."""

    def _options(self) -> str:
        return f"batch_size={self._batch_size}, last_batch={self._last_batch!r}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._options()}; {self._where()})"


class Singles(Pass[ItemT]):
    """Iterator over the samples of a dataset."""

    def __init__(self, feed: PassContext, *, group: int) -> None:
        self._ready: deque[tuple[int, Any]] = deque()
        self._index = -1
        # Samples are read in groups: neighbors in one GOP share its decoding.
        super().__init__(feed, group, "partial", 1)

    @property
    def index(self) -> int:
        """Index within the dataset of the last returned sequence; -1 before the first."""
        return self._index

    def __len__(self) -> int:
        """Number of samples of a whole epoch, including those that may turn out to be lost."""
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


def _gib(size: int) -> str:
    return f"{size / 2**30:.3g} GiB"
