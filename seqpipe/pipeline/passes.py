"""Passes through an augmented dataset: those of its reader, with the rest of the chain done by an executor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

import numpy as np

from ..ops import Chain
from ..readers import Batches, Sequences
from ..sampling import IteratorState, check_state
from ..sequence import Batch, Sequence
from .executor import Executor
from .nodes import nodes_of
from .source import BatchSource, EndOfData, Fetched, Place, Ticket

__all__ = ["AugmentedBatches", "AugmentedPass", "AugmentedSequences"]

ItemT = TypeVar("ItemT", Batch, Sequence)

_AHEAD: Final = 2


class _PassSource(BatchSource):
    """The items of a reader's pass, which reads ahead itself, as a source.

    Attributes:
        inner: the pass.
    """

    name = "reader"
    parts = ("item",)
    in_thread = True

    def __init__(self, inner: Batches | Sequences) -> None:
        self.inner = inner

    def begin(self) -> Ticket:
        """See :meth:`BatchSource.begin`; whether there is an item is known when it is finished."""
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
        finally:  # an item that is lost counts as given
            ticket.position, ticket.end = ticket.end, self.inner.position
        batch = item if isinstance(item, Batch) else Batch((item,))
        indices = np.asarray(batch.indices)
        return Fetched((item,), Place(ticket.epoch, indices, len(indices), batch.sources))

    def go_to(self, epoch: int, position: int, state: Any = None) -> None:  # noqa: ARG002  it has none
        """See :meth:`BatchSource.go_to`."""
        mark = self.inner.state_dict()["fingerprint"]
        self.inner.load_state_dict({"epoch": epoch, "position": position, "fingerprint": mark})

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """That of the reader."""
        return {"reader": self.inner.state_dict()["fingerprint"]}


class AugmentedPass(Generic[ItemT]):
    """A place in an epoch of an augmented dataset; it goes on, ends and begins anew as its reader's do.

    The chain runs on a thread of its own, up to two items ahead of who iterates. A state goes with the reader's samples
    and with the chain: it continues with exactly the samples and augmentations that would have come, whatever ``fuse``
    says. An error is raised in its turn; the next call goes on behind it.

    Args:
        inner: the reader's pass.
        tail: what is done to its items; None for nothing.
        fingerprint: of the reader and the chain.
        ahead: items that are made ahead; with 0 everything is done in the thread that iterates.
    """

    def __init__(
        self, inner: Batches | Sequences, tail: Chain | None, fingerprint: str, ahead: int = _AHEAD
    ) -> None:
        self._inner, self._tail, self._fingerprint, self._ahead = inner, tail, fingerprint, ahead
        self._ended = False
        self._start(inner.epoch, inner.position)

    def _start(self, epoch: int, position: int) -> None:
        source, tail = _PassSource(self._inner), self._tail

        def made(*, epoch: int, index: Any, **values: Any) -> tuple[Any, ...]:
            (item,) = values.values()
            if tail is None:
                return (item,)
            return (tail(item, epoch=epoch, index=index if isinstance(item, Batch) else int(index[0])),)

        self._executor = Executor([source], nodes_of(source), made, self._ahead)
        self._executor.go_to([(epoch, position, None)])

    @property
    def epoch(self) -> int:
        """The epoch it stands in."""
        return self._executor.places()[0][0]

    @property
    def position(self) -> int:
        """How many samples of the rank's epoch were given out, or lost."""
        return self._executor.places()[0][1]

    def __len__(self) -> int:
        """What a whole epoch gives; lost samples are not known beforehand."""
        return len(self._inner)

    def __iter__(self) -> Iterator[ItemT]:
        chosen = self._inner.chosen_epoch
        if self._ended or self.epoch != chosen:
            self._go_to(chosen, 0)
        return self

    def __next__(self) -> ItemT:
        made = self._executor.next()
        if made is None:
            self._ended = True
            raise StopIteration
        item: ItemT = made.values[0]
        return item

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner!r})"

    def __getstate__(self) -> dict[str, Any]:
        # What is under way will not arrive elsewhere: it is begun there once more.
        kept = {name: value for name, value in self.__dict__.items() if name != "_executor"}
        return {**kept, "_place": (self.epoch, self.position)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        place = state.pop("_place")
        self.__dict__.update(state)
        self._start(*place)

    def state_dict(self) -> IteratorState:
        """Where it stands, as plain values: the epoch, the position, and what they are of."""
        return IteratorState(epoch=self.epoch, position=self.position, fingerprint=self._fingerprint)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on from a state: with exactly what would have come. The dataset's epoch becomes its epoch.

        Raises:
            StateError: it was taken of another dataset or chain, or with other parameters; the message names them.
        """
        found = check_state(state, self._fingerprint)
        self._go_to(found["epoch"], found["position"])

    def _go_to(self, epoch: int, position: int) -> None:
        self._executor.go_to([(epoch, position, None)])
        self._ended = False

    def stats(self) -> Mapping[str, Any]:
        """How the stages spent their time; see :meth:`seqpipe.pipeline.Pipeline.stats`."""
        return self._executor.statistics()

    def close(self) -> None:
        """Stop what is under way, and the threads; it goes on from where it stands if it is used again."""
        self._executor.go_to(self._executor.places())
        self._executor.close()


class AugmentedBatches(AugmentedPass[Batch]):
    """Batches of an augmented dataset; see :meth:`seqpipe.pipeline.Augmented.batches`."""


class AugmentedSequences(AugmentedPass[Sequence]):
    """The sequences of an augmented dataset one by one; see :meth:`seqpipe.pipeline.Augmented.sequences`."""
