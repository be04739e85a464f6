"""Feed: the user's own iterable, read from front to back, as a source of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from ..array import IntArray
from ..dataset.dataset import Dataset
from ..dataset.samples import Handed, collated
from ..dataset.source import PLAIN, Heads, ReadPlan, ReadResult
from ..errors import ParameterError, StateError, described_type
from ..ops import Type
from ..pipeline.source import BatchSamples, BatchSource, EndOfData, Fetched, Ticket
from ..readers.report import Report
from .items import Kinds, as_parts, declared

__all__ = ["FeedSource", "feed"]

OnResume: TypeAlias = Literal["refuse", "skip"]


@dataclass(frozen=True, eq=False)
class FeedSource:
    """The items of an iterable.

    Attributes:
        iterable: the user's; a function is called for each epoch.
        kinds: kind or layout of parts by name.
        on_resume: what a state does if the iterable has none: refuse, or skip what was read.
    """

    iterable: Iterable[Any] | Callable[[], Iterable[Any]]
    kinds: Kinds
    on_resume: OnResume
    name: str = "feed"
    size: int = 0
    unit: int = 1
    mix: int = 0
    seed: int = 0
    shuffle: bool = False
    device: str = "cpu"
    fill: float = 0.0

    @property
    def parts(self) -> Mapping[str, Type]:
        """See :class:`seqpipe.dataset.source.SampleSource`; others are known when the first item is read."""
        return declared(self.kinds)

    @property
    def facts(self) -> Mapping[str, object]:
        """The type of the iterable: what it gives is not known."""
        return {"feed": type(self.iterable).__name__}

    def dealt(self, batch_size: int, rank: int, world: int, limit_bytes: int) -> BatchSource:
        """Return the source of batches; ranks take items in turns."""
        del limit_bytes
        return _Fed(self, batch_size, rank, world)

    def begin_iteration(self) -> Iterator[Any]:
        """Return a new iterator."""
        iterable = self.iterable() if callable(self.iterable) else self.iterable
        return iter(iterable)

    def plan(self, epoch: int, indices: IntArray, heads: Heads = PLAIN) -> ReadPlan:  # noqa: ARG002  it has no samples by index
        """Raise: items have no index."""
        raise ParameterError("feed() is read from front to back", advice="Use items() for access by index")

    def begin(self, plan: ReadPlan, *, stack: bool = True) -> Any:
        """See :meth:`plan`."""

    def finish(self, work: Any) -> ReadResult:  # noqa: ARG002
        """See :meth:`plan`."""
        return ReadResult(())

    def cancel(self, work: Any) -> None:
        """Nothing is begun."""

    def metadata(self, indices: IntArray) -> Mapping[str, Any]:
        """Nothing follows from the index alone."""
        del indices
        return {}

    def report(self) -> Report:
        """Nothing is counted."""
        return Report(listed=0, used=0, samples=0, unit="items")

    def stats(self) -> dict[str, Any]:
        """Nothing is counted."""
        return {}

    def close(self) -> None:
        """Nothing is held."""

    def __repr__(self) -> str:
        return f"feed({described_type(self.iterable)})"


@dataclass(eq=False)
class _Fed(BatchSource):
    """Batches of a feed.

    Attributes:
        feed: the feed.
        batch_size: samples in a batch.
        rank: number of the rank, which takes every ``world``-th item.
        world: number of ranks.
    """

    feed: FeedSource
    batch_size: int
    rank: int
    world: int
    in_thread: bool = True
    _items: Iterator[Any] | None = field(default=None, init=False)
    _started: int = field(default=0, init=False)
    _own: Any = field(default=None, init=False)

    @property
    def has_state(self) -> bool:  # type: ignore[override]  # known when the iterable is opened
        """Whether the iterator, or else the iterable, has ``state_dict`` and ``load_state_dict``."""
        return self._items is None or self._stateful(self._items) is not None

    def _stateful(self, items: Any) -> Any:
        """Return the iterator or the iterable, whichever has a state; None if neither has one."""
        named = (
            candidate for candidate in (items, self.feed.iterable) if hasattr(candidate, "load_state_dict")
        )
        return next(named, None)

    def own_state(self) -> Any:
        """See :class:`BatchSource`."""
        loader = None if self._items is None else self._stateful(self._items)
        return self._own if loader is None else loader.state_dict()

    def __post_init__(self) -> None:
        self.name, self.parts = self.feed.name, ("samples",)

    def begin(self) -> Ticket:
        """See :class:`BatchSource`; the end is found when the batch is read."""
        first = self._started
        self._started += self.batch_size
        return Ticket(self._epoch, first, self._started)

    def finish(self, ticket: Ticket) -> Fetched:
        """See :class:`BatchSource`."""
        if self._items is None:
            self._items = self._opened(ticket.position)
        ticket.state = self.own_state()
        samples = []
        for index in range(ticket.position, ticket.end):
            item = self._next()
            if item is None:
                break
            samples.append((index * self.world + self.rank, as_parts(item[0], self.feed.kinds, index)))
        if not samples:
            raise EndOfData
        ticket.end = ticket.position + len(samples)
        result = collated(samples, {})
        batch = BatchSamples(ticket.epoch, result.index, len(samples), result.sources)
        return Fetched((Handed((result.parts, 0)),), batch)

    def _next(self) -> tuple[Any] | None:
        """Return the rank's next item in a tuple; None at the end."""
        items, mine = self._items, None
        for rank in range(self.world):
            try:
                item = next(items)  # type: ignore[arg-type]  # opened
            except StopIteration:
                return None  # ranks stay in step: an incomplete round is left out
            mine = (item,) if rank == self.rank else mine
        return mine

    def _opened(self, position: int) -> Iterator[Any]:
        items = self.feed.begin_iteration()
        if not position:
            return items
        if self._own is not None and (loader := self._stateful(items)) is not None:
            loader.load_state_dict(self._own)
            return items
        for _ in range(position * self.world):
            if next(items, _END) is _END:
                raise StateError(
                    f"the iterable has fewer than {position * self.world} items", source=self.name
                )
        return items

    def take_back(self, ticket: Ticket) -> None:
        """Nothing: :meth:`go_to` opens the iterable anew."""

    def go_to(self, epoch: int, position: int, state: Any = None) -> None:
        """See :class:`BatchSource`."""
        fresh = self._items is None and not self._started
        if position and state is None and self.feed.on_resume == "refuse" and fresh:
            raise StateError(
                "the iterable has no state of its own",
                source=self.name,
                advice="Give it state_dict and load_state_dict; or feed(…, on_resume='skip') reads what was read again",
            )
        self._epoch, self._position, self._started = epoch, position, position
        self._items, self._own = None, state

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """See :class:`BatchSource`."""
        return self.feed.facts


_END = object()


def feed(
    iterable: Iterable[Any] | Callable[[], Iterable[Any]],
    *,
    parts: Kinds | None = None,
    on_resume: OnResume = "refuse",
) -> Dataset:
    """Return a data set of the items of an iterable, which is read from front to back in every epoch.

    Args:
        iterable: an iterable that can be iterated again, or a function that returns one, such as a generator function.
            Items are as for :func:`seqpipe.items`.
        parts: for parts by name: a class of :mod:`seqpipe.parts`, or the layout of images.
        on_resume: how a state is loaded: "refuse" raises an error, "skip" reads what was read again and drops it.

    Raises:
        ParameterError: it is not iterable, or an argument is not valid.
    """
    if not callable(iterable) and not isinstance(iterable, Iterable):
        raise ParameterError(
            f"iterable is {described_type(iterable)}",
            source="feed",
            allowed="an iterable, or a generator function",
        )
    if isinstance(iterable, Iterator):
        raise ParameterError(
            f"iterable is {described_type(iterable)}, which can be read once",
            source="feed",
            allowed="a list, a data set, or a function that returns an iterator for each epoch",
            advice="Pass the generator function itself, without calling it",
        )
    if on_resume not in get_args(OnResume):
        raise ParameterError(
            f"on_resume={on_resume!r} is not valid",
            source="feed",
            allowed=", ".join(map(repr, get_args(OnResume))),
        )
    return Dataset(FeedSource(iterable, dict(parts or {}), on_resume))
