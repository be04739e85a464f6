"""Iterators over an augmented dataset: an executor applies the rest of the chain to the reader's items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

import numpy as np

from ..core.turns import TakesTurns
from ..ops import Chain
from ..readers import Batches, Sequences
from ..sampling import IteratorState, check_state
from ..sequence import Batch, Sequence
from .executor import Executor
from .nodes import nodes_of
from .source import BatchSamples, BatchSource, EndOfData, Fetched, Ticket

__all__ = ["AugmentedBatches", "AugmentedPass", "AugmentedSequences"]

ItemT = TypeVar("ItemT", Batch, Sequence)

# augmented items; the reader's iterator limits the decoded ones by its prefetch and prefetch_gib
_AHEAD: Final = 2


class _PassSource(BatchSource):
    """The items of a reader's iterator, which reads ahead itself, as a source.

    Attributes:
        inner: the reader's iterator.
    """

    name = "reader"
    parts = ("item",)
    in_thread = True

    def __init__(self, inner: Batches | Sequences) -> None:
        self.inner = inner

    def begin(self) -> Ticket:
        """See :meth:`BatchSource.begin`; :meth:`finish` finds out whether there is an item."""
        return Ticket(self.inner.epoch, self.inner.position, self.inner.position)

    def finish(self, ticket: Ticket) -> Fetched:
        """See :meth:`BatchSource.finish`.

        Raises:
            EndOfData: the epoch has ended.
        """
        try:
            item: Any = next(self.inner)
        except StopIteration:
            raise EndOfData from None
        finally:  # a lost item counts as returned
            ticket.position, ticket.end = ticket.end, self.inner.position
        batch = item if isinstance(item, Batch) else Batch((item,))
        indices = np.asarray(batch.indices)
        return Fetched((item,), BatchSamples(ticket.epoch, indices, len(indices), batch.sources))

    def go_to(self, epoch: int, position: int, state: Any = None) -> None:  # noqa: ARG002  it has none
        """See :meth:`BatchSource.go_to`."""
        mark = self.inner.state_dict()["fingerprint"]
        self.inner.load_state_dict({"epoch": epoch, "position": position, "fingerprint": mark})

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """That of the reader."""
        return {"reader": self.inner.state_dict()["fingerprint"]}


class AugmentedPass(TakesTurns, Generic[ItemT]):
    """A resumable iterator over an epoch of an augmented dataset; it continues and restarts as the reader's does.

    The tail runs on a separate thread, up to ``ahead`` items ahead of the consumer; without a tail, the reader's items
    are returned as they are. A state continues with exactly the
    samples and augmentations that would have followed, for every ``fuse``. An error is raised at its position in the
    order; the next call continues after it.

    Args:
        inner: the reader's iterator.
        tail: the operators to apply to its items; None for none.
        fingerprint: digest of the reader and the chain.
        ahead: number of items to prepare ahead; 0 does everything in the consumer's thread.
    """

    def __init__(
        self, inner: Batches | Sequences, tail: Chain | None, fingerprint: str, ahead: int = _AHEAD
    ) -> None:
        self._inner, self._tail, self._fingerprint = inner, tail, fingerprint
        # without a tail there is nothing to do ahead: the reader reads ahead, and a thread between would only delay
        self._ahead = 0 if tail is None else ahead
        self._ended = False
        self._start(inner.epoch, inner.position)

    def _start(self, epoch: int, position: int) -> None:
        source, tail = _PassSource(self._inner), self._tail

        def apply_tail(*, epoch: int, index: Any, **values: Any) -> tuple[Any, ...]:
            (item,) = values.values()
            if tail is None:
                return (item,)
            return (tail(item, epoch=epoch, index=index if isinstance(item, Batch) else int(index[0])),)

        self._executor = Executor([source], nodes_of(source), apply_tail, self._ahead)
        self._executor.go_to([(epoch, position, None)])

    @property
    def epoch(self) -> int:
        """The epoch that is being iterated."""
        return self._executor.positions()[0][0]

    @property
    def position(self) -> int:
        """Number of samples of the rank's epoch that were returned or lost."""
        return self._executor.positions()[0][1]

    def __len__(self) -> int:
        """Number of items of a whole epoch, including those that may turn out to be lost."""
        return len(self._inner)

    def __iter__(self) -> Iterator[ItemT]:
        chosen = self._inner.chosen_epoch
        if self._ended or self.epoch != chosen:
            self._go_to(chosen, 0)
        return self

    def __next__(self) -> ItemT:
        result = self._executor.next()
        if result is None:
            self._ended = True
            raise StopIteration
        item: ItemT = result.values[0]
        return item

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner!r})"

    def __getstate__(self) -> dict[str, Any]:
        # Pending items do not arrive in another process: they are begun again there.
        kept = {name: value for name, value in self.__dict__.items() if name != "_executor"}
        return {**kept, "_resume_at": (self.epoch, self.position)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        resume_at = state.pop("_resume_at")
        self.__dict__.update(state)
        self._start(*resume_at)

    def state_dict(self) -> IteratorState:
        """Return epoch, position and the fingerprint as plain values."""
        return IteratorState(epoch=self.epoch, position=self.position, fingerprint=self._fingerprint)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continue from a state with exactly the items that would have followed; sets the dataset's epoch.

        Raises:
            StateError: the state belongs to another dataset, chain or other parameters; the message names them.
        """
        checked = check_state(state, self._fingerprint)
        self._go_to(checked["epoch"], checked["position"])

    def _go_to(self, epoch: int, position: int) -> None:
        self._executor.go_to([(epoch, position, None)])
        self._ended = False

    def stats(self) -> Mapping[str, Any]:
        """Return how the stages spent their time; see :meth:`seqpipe.pipeline.Pipeline.stats`."""
        return self._executor.statistics()

    @property
    def executor(self) -> Executor:
        """The executor of the chain; its threads keep it alive until they are idle."""
        return self._executor

    def close(self) -> None:
        """Cancel pending items and stop the threads; the next item continues at the same position."""
        self._executor.stop()


class AugmentedBatches(AugmentedPass[Batch]):
    """Iterator over batches of an augmented dataset; see :meth:`seqpipe.pipeline.Augmented.batches`."""


class AugmentedSequences(AugmentedPass[Sequence]):
    """Iterator over sequences of an augmented dataset; see :meth:`seqpipe.pipeline.Augmented.sequences`."""
