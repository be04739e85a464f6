"""Passes through an augmented dataset: those of its reader, with what is left of the chain done to each item."""

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
    """A place in an epoch of an augmented dataset; it goes on, ends and begins anew as its reader's do.

    A state goes with the reader's samples and with the chain: it continues with exactly the samples and augmentations
    that would have come, whatever ``fuse`` says. An error is raised in its turn; the next call goes on behind it.

    Args:
        inner: the reader's pass.
        tail: what is done to its items; None for nothing.
        fingerprint: of the reader and the chain.
    """

    def __init__(self, inner: Batches | Sequences, tail: Chain | None, fingerprint: str) -> None:
        self._inner, self._tail, self._fingerprint = inner, tail, fingerprint

    @property
    def epoch(self) -> int:
        """The epoch it stands in."""
        return self._inner.epoch

    @property
    def position(self) -> int:
        """How many samples of the rank's epoch were given out, or lost."""
        return self._inner.position

    def __len__(self) -> int:
        """What a whole epoch gives; lost samples are not known beforehand."""
        return len(self._inner)

    def __iter__(self) -> Iterator[ItemT]:
        iter(self._inner)
        return self

    @abstractmethod
    def __next__(self) -> ItemT: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner!r})"

    def state_dict(self) -> IteratorState:
        """Where it stands, as plain values: the epoch, the position, and what they are of."""
        state = self._inner.state_dict()
        return IteratorState(epoch=state["epoch"], position=state["position"], fingerprint=self._fingerprint)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on from a state: with exactly what would have come. The dataset's epoch becomes its epoch.

        Raises:
            StateError: it was taken of another dataset or chain, or with other parameters; the message names them.
        """
        found = check_state(state, self._fingerprint)
        self._inner.load_state_dict({**found, "fingerprint": self._inner.state_dict()["fingerprint"]})


class AugmentedBatches(AugmentedPass[Batch]):
    """Batches of an augmented dataset; see :meth:`seqpipe.pipeline.Augmented.batches`."""

    def __init__(self, inner: Batches, tail: Chain | None, fingerprint: str) -> None:
        super().__init__(inner, tail, fingerprint)
        self._batches = inner

    def __next__(self) -> Batch:
        batch = next(self._batches)
        return batch if self._tail is None else self._tail(batch, epoch=self._batches.epoch)


class AugmentedSequences(AugmentedPass[Sequence]):
    """The sequences of an augmented dataset one by one; see :meth:`seqpipe.pipeline.Augmented.sequences`."""

    def __init__(self, inner: Sequences, tail: Chain | None, fingerprint: str) -> None:
        super().__init__(inner, tail, fingerprint)
        self._sequences = inner

    def __next__(self) -> Sequence:
        sequence, inner = next(self._sequences), self._sequences
        if self._tail is None:
            return sequence
        return self._tail(sequence, epoch=inner.epoch, index=inner.index)
