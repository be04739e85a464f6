"""Iterators over an augmented dataset: the reader's iterators, with the rest of the chain applied to each item."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from ..ops import Chain
from ..readers import Batches, Sequences
from ..sampling import IteratorState, check_state
from ..sequence import Batch, Sequence

__all__ = ["AugmentedBatches", "AugmentedPass", "AugmentedSequences"]

ItemT = TypeVar("ItemT", Batch, Sequence)


class AugmentedPass(ABC, Generic[ItemT]):
    """A resumable iterator over an epoch of an augmented dataset; it continues and restarts as the reader's does.

    A state continues with exactly the samples and augmentations that would have followed, for every ``fuse``. An error
    is raised at its position in the order; the next call continues behind it.

    Args:
        inner: the reader's iterator.
        tail: the operators to apply to its items; None for none.
        fingerprint: digest of the reader and the chain.
    """

    def __init__(self, inner: Batches | Sequences, tail: Chain | None, fingerprint: str) -> None:
        self._inner, self._tail, self._fingerprint = inner, tail, fingerprint

    @property
    def epoch(self) -> int:
        """The epoch that is being iterated."""
        return self._inner.epoch

    @property
    def position(self) -> int:
        """Number of samples of the rank's epoch that were returned or lost."""
        return self._inner.position

    def __len__(self) -> int:
        """Number of items of a whole epoch, including those that may turn out to be lost."""
        return len(self._inner)

    def __iter__(self) -> Iterator[ItemT]:
        iter(self._inner)
        return self

    @abstractmethod
    def __next__(self) -> ItemT: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner!r})"

    def state_dict(self) -> IteratorState:
        """Return epoch, position and the fingerprint as plain values."""
        state = self._inner.state_dict()
        return IteratorState(epoch=state["epoch"], position=state["position"], fingerprint=self._fingerprint)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continue from a state with exactly the items that would have followed; sets the dataset's epoch.

        Raises:
            StateError: the state belongs to another dataset, chain or other parameters; the message names them.
        """
        found = check_state(state, self._fingerprint)
        self._inner.load_state_dict({**found, "fingerprint": self._inner.state_dict()["fingerprint"]})


class AugmentedBatches(AugmentedPass[Batch]):
    """Iterator over batches of an augmented dataset; see :meth:`seqpipe.pipeline.Augmented.batches`."""

    def __init__(self, inner: Batches, tail: Chain | None, fingerprint: str) -> None:
        super().__init__(inner, tail, fingerprint)
        self._batches = inner

    def __next__(self) -> Batch:
        batch = next(self._batches)
        return batch if self._tail is None else self._tail(batch, epoch=self._batches.epoch)


class AugmentedSequences(AugmentedPass[Sequence]):
    """Iterator over sequences of an augmented dataset; see :meth:`seqpipe.pipeline.Augmented.sequences`."""

    def __init__(self, inner: Sequences, tail: Chain | None, fingerprint: str) -> None:
        super().__init__(inner, tail, fingerprint)
        self._sequences = inner

    def __next__(self) -> Sequence:
        sequence, inner = next(self._sequences), self._sequences
        if self._tail is None:
            return sequence
        return self._tail(sequence, epoch=inner.epoch, index=inner.index)
