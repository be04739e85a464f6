"""Epoch: a resumable iterator over the batches, or samples, of one epoch of a data set."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from ..core.closing import Closing
from ..core.turns import TakesTurns
from ..errors import SeqpipeError
from ..pipeline.executor import BatchResult, Executor
from ..pipeline.source import nodes_of
from ..sampling.dealing import History, joined_history
from .samples import Handed, Samples, described, source_of
from .state import state_of

__all__ = ["Epoch", "EpochOwner", "finished"]


class EpochOwner(Protocol):
    """What an epoch asks its data set for."""

    @property
    def title(self) -> str:
        """Name of the source."""

    @property
    def rank(self) -> int:
        """Number of this process."""

    @property
    def world(self) -> int:
        """Number of processes that share every epoch."""

    @property
    def read_ahead(self) -> int:
        """Number of batches that are read ahead."""

    @property
    def is_single(self) -> bool:
        """Whether iteration gives single samples."""

    @property
    def fingerprint(self) -> str:
        """Digest of everything that determines the samples."""

    def dealt(self, done: History = (), turn: tuple[int, int] = (0, 1)) -> Any:
        """Return the source of batches."""

    def transform(self) -> Callable[..., tuple[Any, ...]] | None:
        """Return the function that applies the operators."""

    def finished(self, parts: Mapping[str, Any], epoch: int, index: Any) -> Samples:
        """Return parts as samples."""

    def opened(self, executor: Executor) -> None:
        """Register an executor."""


class Epoch(TakesTurns, Closing, Iterator[Samples]):
    """The batches of one epoch, or its samples if the data set has no ``batch``.

    - ``iter()`` continues where the last loop stopped, after a ``break`` or an error; it starts the epoch anew after
      the end.
    - An error is raised at its position in the order; the next call continues after it. A full device memory loses
      nothing: the next call tries again.
    - Several threads may use it: each batch comes once. A forked process and an unpickled copy continue from the same
      position with threads of their own.

    Args:
        dataset: the data set.
        number: the epoch.
        history: what has been read of it.
        own: state of a source that is read from front to back.
        turn: (number, count) of workers that share the batches in turns.
    """

    in_turn = ("close",)

    def __init__(
        self,
        dataset: EpochOwner,
        number: int,
        history: History = (),
        own: Any = None,
        turn: tuple[int, int] = (0, 1),
    ) -> None:
        self._dataset, self._epoch, self._turn = dataset, number, turn
        self._done: History = ()
        self._ended = False
        self._ready: deque[tuple[int, Any]] = deque()
        self._start(history, own)

    def _start(self, history: History, own: Any) -> None:
        dataset = self._dataset
        world = dataset.world
        # what the same number of ranks has read goes on; another number of ranks deals what remains anew
        last = history[-1] if history else (world, 0)
        self._done, position = (history[:-1], last[1]) if last[0] == world else (history, 0)
        self._dealt = dataset.dealt(self._done, self._turn)
        transform = dataset.transform()
        # a batch that waits for its operators, or for the consumer, keeps no decoder busy: one more is read
        ahead = dataset.read_ahead and dataset.read_ahead + (transform is not None)
        self._executor = Executor([self._dealt], nodes_of(self._dealt), transform, ahead)
        self._executor.go_to([(self._epoch, position, own)])
        dataset.opened(self._executor)

    def move(self, position: int) -> None:
        """Continue after a position of the rank, as if the batches before it had been returned.

        Raises:
            StateError: the epoch is shorter.
        """
        self._executor.go_to([(self._epoch, position, None)])

    @property
    def number(self) -> int:
        """The epoch."""
        return self._epoch

    def __len__(self) -> int:
        """Number of batches, or samples, of the whole epoch, or of what remained of it after a change of ranks.

        Raises:
            TypeError: the length of the source is unknown.
        """
        dealt = self._dealt
        count: int | None = (
            dealt.length(self._epoch) if self._dataset.is_single else dealt.batches(self._epoch)
        )
        if count is None:
            raise TypeError(f"the length of {self._dealt.name} is unknown")
        return count

    def __iter__(self) -> Epoch:
        if self._ended:
            self._executor.stop()
            self._ended = False
            self._ready.clear()
            self._start((), None)
        return self

    def __next__(self) -> Samples:
        if self._dataset.is_single:
            return self._next_sample()
        result = self._executor.next()
        if result is None:
            self._ended = True
            raise StopIteration
        return self._samples(result)

    def _samples(self, result: BatchResult) -> Samples:
        (value,) = result.values
        if not isinstance(value, Samples):
            parts, lost = value.take()
            value = self._dataset.finished(parts, result.samples.epoch, result.samples.indices)
            value.lost = lost
        value.sources, value.state = result.samples.sources, self.state_dict()
        return value

    def _next_sample(self) -> Samples:
        """Return the next sample of a data set without ``batch``; they are read in groups."""
        while not self._ready:
            before = self._executor.positions()[0][1]
            result = self._executor.next()
            if result is None:
                self._ended = True
                raise StopIteration
            (outcomes,) = result.values
            outcomes = outcomes.take().outcomes if isinstance(outcomes, Handed) else outcomes
            self._ready.extend(enumerate(outcomes, before + 1))
        _, outcome = self._ready.popleft()
        if isinstance(outcome, SeqpipeError):
            raise outcome
        if outcome is None:
            return self._next_sample()
        if not isinstance(outcome, Samples):
            index, parts = outcome
            outcome = self._dataset.finished(parts, self._epoch, index)
        outcome.state = self.state_dict()
        return outcome

    def state_dict(self) -> dict[str, Any]:
        """Return the state after the last returned batch, as plain values.

        It may be loaded with another batch size, number of ranks, workers or threads, or on another machine.
        """
        ((epoch, position, own),) = self._executor.positions()
        if self._ready:
            position = self._ready[0][0] - 1
        history = joined_history([*self._done, (self._dataset.world, position)])
        return state_of(epoch, history, self._dataset.fingerprint, own)

    def stats(self) -> Mapping[str, Any]:
        """Return how the stages spent their time.

        Returns:
            ``stages``: ``batches``, ``busy_s`` and ``starved_s`` of each stage; ``waited_s``: seconds that the consumer
            waited; ``ready``: average number of finished batches; ``bottleneck``: the slowest stage.
        """
        return self._executor.statistics()

    def close(self) -> None:
        """Cancel pending batches and stop the threads; the next item continues at the same position."""
        self._executor.stop()

    def __repr__(self) -> str:
        ((epoch, position, _),) = self._executor.positions()
        return f"Epoch({epoch} of {self._dataset.title}; {position} samples of rank {self._dataset.rank} returned)"

    def __reduce__(self) -> tuple[Any, ...]:
        state = self.state_dict()
        return _again, (self._dataset, self._epoch, state["history"], state["sources"], self._turn)


def _again(dataset: EpochOwner, number: int, history: Any, own: Any, turn: tuple[int, int]) -> Epoch:
    return Epoch(dataset, number, joined_history(history), own, turn)


def finished(parts: Mapping[str, Any], metadata: Mapping[str, Any], epoch: int, index: Any) -> Samples:
    """Return parts after operators as samples, with what their batch knows."""
    result = Samples(described(parts, metadata, index), getattr(parts, "_history", ()))
    result.index, result.epoch = index, epoch
    if not np.ndim(index) and (source := source_of(parts)):
        result.sources = (source,)
    return result
