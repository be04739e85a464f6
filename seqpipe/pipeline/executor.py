"""The executor: batches of sources through a graph, some of them ahead of who iterates, on threads of their own."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

from ..errors import ParameterError
from ..video.engine.workers import Workers
from .nodes import Fed, noted
from .source import BatchSource, EmptyBatchError, EndOfData, Fetched, Place, Ticket

__all__ = ["Executor", "Made", "StageTimes"]

_EXTERNAL: Final = "source"
_COMPUTE: Final = "compute"


@dataclass(frozen=True)
class Made:
    """A batch that went through the graph.

    Attributes:
        values: one for each output.
        place: which samples they are.
    """

    values: tuple[Any, ...]
    place: Place


@dataclass
class StageTimes:
    """How a thread spent its time.

    Attributes:
        batches: how many it has made.
        busy_s: seconds that it worked.
        starved_s: seconds that it waited for what comes before it.
    """

    batches: int = 0
    busy_s: float = 0.0
    starved_s: float = 0.0

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the time of a block as work."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.busy_s += time.perf_counter() - begin
            self.batches += 1

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time of a block as waiting."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.starved_s += time.perf_counter() - begin


@dataclass(eq=False)
class _Begun:
    """A batch on its way.

    Attributes:
        tickets: one of each source.
        fetched: what the sources gave.
        made: what the graph made of it.
    """

    tickets: list[Ticket]
    fetched: Future[list[Fetched]]
    made: Future[Made]

    @property
    def size(self) -> int:
        """The bytes of what was read, as far as they are known."""
        return sum(ticket.size for ticket in self.tickets)


@dataclass(eq=False)
class Executor:
    """Runs a graph over what sources give, in order.

    Code of the user that makes batches has a thread, and the graph has one; readers have their own. At most
    ``prefetch`` batches are begun before they are asked for. An error waits for the turn of its batch; the batch after
    it comes next.

    On a GPU, readers decode and uploads copy in streams of their own, beside whatever the default stream does, and the
    thread that needs their result waits for it. Kernels are queued in CuPy's current stream, the default one, without
    a wait: so results are ready for whoever uses them there, and memory that he frees is used again only behind his own
    work. A stream of the graph's own would have to wait for the default one at each allocation to be as safe.

    Attributes:
        sources: in the order in which they were declared; the first says which samples a batch has.
        nodes: the inputs of the graph that stand for values of these.
        graph: what is called for each batch, with the values by the names of the inputs.
        prefetch: batches that are begun ahead; 0 for none, and then all is done in the thread that asks.
        before: called before a batch is begun; it may raise StopIteration, which ends the epoch.
        around: makes a context in which the graph is evaluated.
        settle: called with the values of the inputs of the first batch, before anything is done to them; it may refuse.
        images: the names of inputs that operators act on as on images.
    """

    sources: Seq[BatchSource]
    nodes: Seq[Fed]
    graph: Callable[..., tuple[Any, ...]]
    prefetch: int = 2
    before: Callable[[], None] | None = None
    around: Callable[[], Any] | None = None
    settle: Callable[[Mapping[str, Any]], None] | None = None
    images: frozenset[str] = frozenset()
    stages: dict[str, StageTimes] = field(default_factory=dict, init=False)
    _queue: deque[_Begun] = field(default_factory=deque, init=False)
    _workers: dict[str, Workers] = field(default_factory=dict, init=False)
    _ended: bool = field(default=False, init=False)
    _pid: int = field(default_factory=os.getpid, init=False)
    _broken: Exception | None = field(default=None, init=False)
    _depths: list[int] = field(default_factory=lambda: [0, 0], init=False)
    _waited: StageTimes = field(default_factory=StageTimes, init=False)
    _place: list[tuple[int, int, Any]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._place = [(0, 0, None) for _ in self.sources]

    @property
    def under_way(self) -> int:
        """Batches that were begun and not given out."""
        return len(self._queue)

    def next(self) -> Made | None:
        """The next batch; None at the end of the epoch, until :meth:`go_to` is called.

        Raises:
            Exception: what making the batch has raised; the next call gives the batch behind it.
        """
        while True:
            try:
                return self._next()
            except EmptyBatchError:
                continue

    def _next(self) -> Made | None:
        """The same; a batch of which nothing is left is an error."""
        if self._pid != os.getpid():
            self._restart()
        # as readers do: while a batch is awaited, as many more are read, so that neighbors share their decoding
        calls_users = self.before is not None or any(source.in_thread for source in self.sources)
        self.fill(max(1, self.prefetch) if calls_users else self.prefetch + 1)
        if not self._queue:
            error, self._broken = self._broken, None
            if error is not None:
                raise error
            return None
        begun = self._queue[0]
        self._depths[0] += sum(one.made.done() for one in self._queue)
        self._depths[1] += 1
        with self._waited.waiting():
            try:
                made = begun.made.result()
            except EndOfData:
                self._drop()
                self._ended = True
                return None
            except Exception:
                self._given(begun)
                raise
        self._given(begun)
        if self.before is None:  # who feeds by hand is asked for a batch when one is wanted
            self.fill(self.prefetch, ahead=True)
        return made

    def ended(self) -> bool:
        """Whether the next batch is none: a source has ended."""
        if not self._queue:
            return self._ended
        made = self._queue[0].made
        return not made.cancelled() and isinstance(made.exception(), EndOfData)

    def fill(self, most: int, *, ahead: bool = False) -> None:
        """Begin batches until so many are under way.

        Args:
            most: how many.
            ahead: whether none of them is asked for yet, so that there may be none if there is nothing to make it of.
        """
        if not self._queue:
            for source in self.sources:
                source.start()
        while not self._ended and self._broken is None and len(self._queue) < most:
            if (self._queue or ahead) and not self._fits():
                return
            try:
                if not self._begin():
                    return
            except Exception as error:  # raised in its turn, behind the batches that were begun before
                self._broken = error

    def _fits(self) -> bool:
        """Whether there is room for one more batch, and something to make it of."""
        if any(getattr(source, "starved", False) for source in self.sources) and self.before is None:
            return False
        for number, source in enumerate(self.sources):
            held = sum(begun.tickets[number].size for begun in self._queue)
            if source.room is not None and held + source.next_size() > source.room:
                return False
        return True

    def _begin(self) -> bool:
        """Begin a batch; tells whether there was one."""
        if self.before is not None:
            try:
                self.before()
            except StopIteration:
                self._ended = True
                return False
        tickets: list[Ticket] = []
        for source in self.sources:
            ticket = source.begin()
            if ticket is None:
                for done, other in zip(tickets, self.sources, strict=False):
                    other.cancel(done)
                self._ended = True
                return False
            tickets.append(ticket)
        in_thread = any(source.in_thread for source in self.sources)
        fetched = self._submit(_EXTERNAL if in_thread else _COMPUTE, self._fetching(tickets))
        made = self._submit(_COMPUTE, self._making(fetched))
        self._queue.append(_Begun(tickets, fetched, made))
        return True

    def _submit(self, stage: str, call: Callable[[], Any]) -> Future[Any]:
        self.stages.setdefault(stage, StageTimes())
        if not self.prefetch:
            return _done(call)
        if stage not in self._workers:
            self._workers[stage] = Workers(1, f"seqpipe-{stage}")
        return self._workers[stage].submit(call)

    def _fetching(self, tickets: list[Ticket]) -> Callable[[], list[Fetched]]:
        sources, stages, around = self.sources, self.stages, self.around
        label = _EXTERNAL if any(source.in_thread for source in sources) else _COMPUTE

        def fetch() -> list[Fetched]:
            stage = stages[label]
            timed = stage.working() if label == _EXTERNAL else stage.waiting()
            with timed, nullcontext() if around is None else around():
                pairs = list(zip(sources, tickets, strict=True))
                found = []
                for source, ticket in pairs:
                    with noted(
                        f"source {source.name}, epoch {ticket.epoch}, samples from {ticket.position} on"
                    ):
                        found.append(source.finish(ticket))
                return found

        return fetch

    def _making(self, fetching: Future[list[Fetched]]) -> Callable[[], Made]:
        stages, graph, around = self.stages, self.graph, self.around
        places = [(node, self._number(node), node.name in self.images) for node in self.nodes]

        def make() -> Made:
            with stages[_COMPUTE].waiting():
                fetched = fetching.result()
            with stages[_COMPUTE].working():
                place = _place_of(fetched, self.sources)
                values = {
                    node.name: node.taken(fetched[number].values, images=images)
                    for node, number, images in places
                }
                del fetched
                told = f", of {', '.join(dict.fromkeys(place.sources))}" if place.sources else ""
                note = f"epoch {place.epoch}, samples {_brief(place.indices.tolist())}{told}"
                with noted(note), nullcontext() if around is None else around():
                    if self.settle is not None:
                        self.settle(values)
                        self.settle = None
                    return Made(graph(epoch=place.epoch, index=place.indices, **values), place)

        return make

    def _number(self, node: Fed) -> int:
        return next(n for n, source in enumerate(self.sources) if source is node.source)

    def _given(self, begun: _Begun) -> None:
        self._queue.popleft()
        self._place = [(ticket.epoch, ticket.end, None) for ticket in begun.tickets]

    def places(self) -> list[tuple[int, int, Any]]:
        """Epoch, position and own state of each source, as of what was given out."""
        if not self._queue:
            return self._place
        begun = self._queue[0]
        _settle(begun.fetched)  # states are taken when a source is asked
        return [
            (epoch, position, ticket.state)
            for (epoch, position, _), ticket in zip(self._place, begun.tickets, strict=True)
        ]

    def go_to(self, places: Seq[tuple[int, int, Any]]) -> None:
        """Stand at a place, with nothing under way.

        Raises:
            StateError: a source cannot go there.
        """
        self._drop()
        for source, (epoch, position, state) in zip(self.sources, places, strict=True):
            source.go_to(epoch, position, state)
        self._place = [(epoch, position, state) for epoch, position, state in places]
        self._ended, self._broken = False, None

    def _restart(self) -> None:
        """In a forked process: what was under way does not arrive, and is begun once more."""
        self._pid = os.getpid()
        self._workers, places = {}, self._place
        self._queue.clear()
        self.go_to(places)

    def _drop(self) -> None:
        """Let go of what is under way, the last first, so that what is fed by hand is in its order again."""
        while self._queue:
            begun = self._queue.pop()
            cancelled = begun.made.cancel()
            if begun.fetched.cancel():
                for source, ticket in zip(self.sources, begun.tickets, strict=True):
                    source.cancel(ticket)
            else:
                _settle(begun.fetched)
            if not cancelled:
                _settle(begun.made)

    def statistics(self) -> Mapping[str, Any]:
        """How the stages spent their time, how many batches were ready on average, and what is slowest."""
        stages = {
            name: {"batches": s.batches, "busy_s": s.busy_s, "starved_s": s.starved_s}
            for name, s in self.stages.items()
        }
        ready, asked = self._depths
        busiest = max(self.stages, key=lambda name: self.stages[name].busy_s, default="")
        waited = self._waited.starved_s
        slowest = "consumer" if waited < 0.05 * self._elapsed() else busiest
        if slowest == _COMPUTE and self.stages[_COMPUTE].starved_s > self.stages[_COMPUTE].busy_s:
            slowest = _EXTERNAL if _EXTERNAL in self.stages else "read"
        return {
            "stages": stages,
            "waited_s": waited,
            "ready": ready / asked if asked else 0.0,
            "bottleneck": slowest,
        }

    def _elapsed(self) -> float:
        return max((s.busy_s + s.starved_s for s in self.stages.values()), default=0.0) or 1e-9

    def stop(self) -> None:
        """Let go of what is under way, end the threads, and stay where it stands."""
        self.go_to(self.places())
        self.close()

    def close(self) -> None:
        """Let go of what is under way, end the threads, and close the sources."""
        places = self._place
        self._drop()
        while self._workers:
            self._workers.popitem()[1].close()
        for source, (epoch, position, _) in zip(self.sources, places, strict=True):
            if not source.in_thread:
                source.go_to(epoch, position)
            source.close()


def _place_of(fetched: list[Fetched], sources: Seq[BatchSource]) -> Place:
    """The place that the first source says.

    Raises:
        ParameterError: others give another number of samples.
    """
    if not fetched:
        raise ParameterError("there is no source of samples", allowed="a reader or an external source")
    counts = [len(one.place.indices) for one in fetched]
    if len(set(counts)) > 1:
        told = ", ".join(f"{source.name} gave {n}" for source, n in zip(sources, counts, strict=True))
        raise ParameterError(
            f"sources gave batches of different sizes: {told}",
            allowed="as many samples from each",
            advice="Give them one batch size, or drop the last batch (last_batch='drop')",
        )
    return fetched[0].place


def _brief(indices: list[int]) -> str:
    shown = ", ".join(map(str, indices[:8]))
    return shown + (", …" if len(indices) > 8 else "")


def _settle(future: Future[Any]) -> None:
    """Wait until nothing of it is under way, whatever comes of it."""
    try:
        future.exception()
    except CancelledError:
        return


def _done(call: Callable[[], Any]) -> Future[Any]:
    """What a call gives, made at once."""
    future: Future[Any] = Future()
    try:
        future.set_result(call())
    except Exception as error:
        future.set_exception(error)
    return future
