"""The executor: fetches batches from sources and evaluates a graph on them, on threads, ahead of the consumer."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from weakref import proxy

from ..core.workers import Workers
from ..errors import DeviceMemoryError, ParameterError
from ..parts import Part
from ..sequence import Batch, Sequence
from .source import (
    BatchSamples,
    BatchSource,
    EmptyBatchError,
    EndOfData,
    Fetched,
    SourceNode,
    Ticket,
    add_note,
)

__all__ = ["BatchResult", "Executor", "StageTimes", "error_note", "gib", "nbytes_of"]

_log = logging.getLogger(__name__)

_EXTERNAL: Final = "source"
_COMPUTE: Final = "compute"


@dataclass(frozen=True)
class BatchResult:
    """The outputs of a graph for one batch.

    Attributes:
        values: one value for each output.
        samples: the samples of the batch.
    """

    values: tuple[Any, ...]
    samples: BatchSamples


@dataclass
class StageTimes:
    """Times of a stage, which has a thread of its own.

    Attributes:
        batches: number of finished batches.
        busy_s: seconds of work.
        starved_s: seconds of waiting for the previous stage.
    """

    batches: int = 0
    busy_s: float = 0.0
    starved_s: float = 0.0

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the time of a block as work on one batch."""
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
class _PendingBatch:
    """A pending batch.

    Attributes:
        tickets: the ticket of each source.
        fetched: the batches of the sources.
        result: the outputs of the graph.
    """

    tickets: list[Ticket]
    fetched: Future[list[Fetched]]
    result: Future[BatchResult]


@dataclass(eq=False)
class Executor:
    """Evaluates a graph on the batches of sources, in order.

    The user's code in external sources has a thread, and the graph has one; readers have their own. At most
    ``prefetch`` batches are started before they are requested. An error is raised in the order of its batch; the next
    call returns the batch after it.

    On a GPU, readers decode and uploads copy in streams of their own, concurrently with the default stream, and the
    thread that needs their result waits for it. Kernels are queued in CuPy's current stream, the default one, without
    a wait: results are ready for consumers in that stream, and memory that they free is reused only behind their own
    work. A stream of the graph's own would have to wait for the default one at each allocation to be as safe.

    Attributes:
        sources: the sources in the order of their declaration; the first determines the samples of a batch.
        nodes: the inputs of the graph, which stand for values of the sources.
        graph: called for each batch, with the values by the names of the inputs; None returns the values of the first
            source, in the thread that asks for them.
        prefetch: number of batches that are started ahead; with 0 everything runs in the consumer's thread.
        before: called before a batch is started; it may raise StopIteration, which ends the epoch.
        around: returns a context in which the user's code and the graph run.
    """

    sources: Seq[BatchSource]
    nodes: Seq[SourceNode]
    graph: Callable[..., tuple[Any, ...]] | None
    prefetch: int = 2
    before: Callable[[], None] | None = None
    around: Callable[[], Any] | None = None
    stages: dict[str, StageTimes] = field(default_factory=dict, init=False)
    _queue: deque[_PendingBatch] = field(default_factory=deque, init=False)
    _workers: dict[str, Workers] = field(default_factory=dict, init=False)
    _ended: bool = field(default=False, init=False)
    _closed: bool = field(default=False, init=False)
    _pid: int = field(default_factory=os.getpid, init=False)
    _broken: Exception | None = field(default=None, init=False)
    _depths: list[int] = field(default_factory=lambda: [0, 0], init=False)
    _waited: StageTimes = field(default_factory=StageTimes, init=False)
    _positions: list[tuple[int, int, Any]] = field(default_factory=list, init=False)
    _result_bytes: int = field(default=0, init=False)
    _most_bytes: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._positions = [(0, 0, None) for _ in self.sources]

    @property
    def pending_batches(self) -> int:
        """Number of pending batches."""
        return len(self._queue)

    def next(self) -> BatchResult | None:
        """Return the next batch; None at the end of the epoch, until :meth:`go_to` is called.

        Raises:
            Exception: the error of this batch; the next call returns the batch after it.
        """
        while True:
            try:
                return self._next()
            except EmptyBatchError:
                continue
            except DeviceMemoryError as error:
                self._restart_pending()
                if self._limit_bytes == 0 or not self.prefetch:
                    error.advice = f"{self._advice()}. {error.advice}"
                    raise
                self._read_less(0, error)
            # outside of the except block, where the error's traceback would keep pixels alive

    def _next(self) -> BatchResult | None:
        """Return the next batch; a batch without readable samples raises :class:`EmptyBatchError`."""
        if self._pid != os.getpid():
            self._restart()
        # while the consumer waits for a batch, readers read ``prefetch`` more, so that neighbors share decoding
        calls_users = self.before is not None or any(source.in_thread for source in self.sources)
        self.fill(max(1, self.prefetch) if calls_users else self.prefetch + 1)
        if not self._queue:
            error, self._broken = self._broken, None
            if error is not None:
                raise error
            return None
        pending = self._queue[0]
        if self.prefetch and self.before is None and not self._ended:
            for source in self.sources:
                source.prepare()  # while this batch is read, so that decoders wait for less after it
        self._depths[0] += sum(queued.result.done() for queued in self._queue)
        self._depths[1] += 1
        with self._waited.waiting():
            try:
                result = pending.result.result()
            except EndOfData:
                self._drop()
                self._ended = True
                return None
            except DeviceMemoryError:  # the batch is not lost
                raise
            except Exception:
                self._returned(pending)
                raise
            except BaseException:  # interrupted; what runs in this thread has not finished
                if isinstance(pending.result, _InThisThread):
                    self._restart_pending()
                raise
        self._hand_out(pending)
        return result

    def _hand_out(self, pending: _PendingBatch) -> None:
        """Take the first batch out of the queue, and read ahead."""
        positions = self._positions
        self._returned(pending)
        if self.before is not None:  # it is called only for requested batches
            return
        try:
            self.fill(self.prefetch, ahead=True)
        except BaseException:  # interrupted, before the batch was returned: the next call returns it
            self._queue.appendleft(pending)
            self._positions = positions
            raise

    def ended(self) -> bool:
        """Return whether the epoch has ended, without a further batch."""
        if not self._queue:
            return self._ended
        result = self._queue[0].result
        return not result.cancelled() and isinstance(result.exception(), EndOfData)

    def fill(self, most: int, *, ahead: bool = False) -> None:
        """Start batches until ``most`` are pending.

        Args:
            most: number of batches.
            ahead: whether no batch is requested yet, so that memory limits and empty queues apply to the first, too.
        """
        if self._closed:
            self.go_to(self._positions)
        if not self._queue:
            for source in self.sources:
                source.start()
        while not self._ended and self._broken is None and len(self._queue) < most:
            if (self._queue or ahead) and not self._fits():
                return
            try:
                if not self._begin():
                    return
            except DeviceMemoryError as error:
                if not self._queue and not ahead:
                    raise
                self._read_less(self._pending_bytes(), error)
                return
            except Exception as error:  # raised after the batches that were started before
                self._broken = error

    def _restart_pending(self) -> None:
        """Cancel pending batches; they are begun again when they are requested."""
        self.go_to(self.positions() if self._calls_users else self._positions)

    @property
    def _calls_users(self) -> bool:
        return any(source.in_thread for source in self.sources)

    def _read_less(self, most_bytes: int, error: DeviceMemoryError) -> None:
        """Lower the memory limit after the device's memory was full."""
        # str(error), since the exception's traceback would keep pixels alive in a log handler
        _log.warning("less is read ahead from now on: %s", str(error))
        self._most_bytes = most_bytes

    def _advice(self) -> str:
        """Advice for a full device memory."""
        size = sum(source.next_size() for source in self.sources) + self._result_bytes
        limits = [source.limit_bytes for source in self.sources if source.limit_bytes is not None]
        ahead = f", batches read ahead up to {gib(min(limits))}" if limits else ""
        return (
            f"A batch takes {gib(size)}{ahead}: use smaller batches, sequences or frames, or prefetch(gib=…)"
        )

    def _pending_bytes(self) -> int:
        """Size of pending batches: what sources read or the graph's result, whichever is larger."""
        return sum(self._size_of(pending) for pending in self._queue)

    def _size_of(self, pending: _PendingBatch) -> int:
        if pending.result.done():
            return self._result_bytes
        return max(sum(ticket.size for ticket in pending.tickets), self._result_bytes)

    @property
    def _limit_bytes(self) -> int | None:
        """Memory limit of pending batches: the smallest of the sources', and what was left when memory was full."""
        limits = [source.limit_bytes for source in self.sources if source.limit_bytes is not None]
        return min([*limits, *([] if self._most_bytes is None else [self._most_bytes])], default=None)

    def _fits(self) -> bool:
        """Return whether the memory limits allow one more batch, and no source waits for a batch that is pushed.

        One budget counts a batch from its start until it is returned: what sources read and, at the size of the last
        one, the graph's result. Each source has a limit of its own besides.
        """
        if any(getattr(source, "starved", False) for source in self.sources) and self.before is None:
            return False
        limit = self._limit_bytes
        if not self._queue and limit != 0:
            return True  # one batch is read ahead even if it is larger than the limit
        for number, source in enumerate(self.sources):
            pending_bytes = sum(pending.tickets[number].size for pending in self._queue)
            if source.limit_bytes is not None and pending_bytes + source.next_size() > source.limit_bytes:
                return False
        if limit is None:
            return True
        size = max(sum(source.next_size() for source in self.sources), self._result_bytes)
        return self._pending_bytes() + size <= limit

    def _begin(self) -> bool:
        """Start a batch; return False at the end of the epoch.

        If a source raises an error or has ended, the batches of the other sources are put back.
        """
        if self.before is not None:
            try:
                self.before()
            except StopIteration:
                self._ended = True
                return False
        tickets: list[Ticket] = []
        try:
            for source in self.sources:
                ticket = source.begin()
                if ticket is None:
                    break
                tickets.append(ticket)
        except BaseException:
            self._put_back(tickets)
            raise
        if len(tickets) < len(self.sources):
            self._put_back(tickets)
            self._ended = True
            return False
        if self.graph is None and not self._calls_users and self.prefetch:
            # nothing to compute: a thread between the sources and the consumer would only delay
            here = proxy(self)  # no cycle: an iterator that is forgotten frees what it has begun at once
            fetching: Future[list[Fetched]] = _InThisThread(partial(Executor._fetch, here, tickets))
            result: Future[BatchResult] = _InThisThread(partial(Executor._evaluate, here, fetching, tickets))
            self._queue.append(_PendingBatch(tickets, fetching, result))
            return True
        try:
            fetched = self._submit(
                _EXTERNAL if self._calls_users else _COMPUTE, partial(self._fetch, tickets)
            )
            result = self._submit(_COMPUTE, partial(self._evaluate, fetched, tickets))
        except BaseException:  # interrupted in this thread, without prefetch
            self._put_back(tickets)
            raise
        self._queue.append(_PendingBatch(tickets, fetched, result))
        return True

    def _put_back(self, tickets: Seq[Ticket]) -> None:
        for ticket, source in zip(tickets, self.sources, strict=False):
            source.put_back(ticket)

    def _submit(self, stage: str, call: Callable[[], Any]) -> Future[Any]:
        self.stages.setdefault(stage, StageTimes())
        if not self.prefetch:
            return _done(call)
        if stage not in self._workers:
            self._workers[stage] = Workers(1, f"seqpipe-{stage}")
        return self._workers[stage].submit(call)

    def _fetch(self, tickets: list[Ticket]) -> list[Fetched]:
        """Wait for a batch of each source."""
        external = self._calls_users
        stage = self.stages.setdefault(_EXTERNAL if external else _COMPUTE, StageTimes())
        batches = []
        with stage.working() if external else stage.waiting(), self._context():
            for source, ticket in zip(self.sources, tickets, strict=True):
                where = f"source {source.name}, epoch {ticket.epoch}, samples from {ticket.position} on"
                with error_note(where):
                    batches.append(source.finish(ticket))
        return batches

    def _evaluate(self, fetching: Future[list[Fetched]], tickets: Seq[Ticket]) -> BatchResult:
        """Wait for the batches of the sources, and evaluate the graph on them."""
        stage = self.stages.setdefault(_COMPUTE, StageTimes())
        with stage.waiting():
            fetched = fetching.result()
        if self.graph is None:
            return BatchResult(fetched[0].values, fetched[0].samples)
        with stage.working():
            samples, values = _samples_of(fetched, self.sources), self._inputs(fetched)
            del fetched  # its memory is freed while the graph is evaluated
            for source, ticket in zip(self.sources, tickets, strict=True):
                source.release(ticket)
            with error_note(_described(samples)), self._context():
                outputs = self.graph(epoch=samples.epoch, index=samples.indices, **values)
                self._result_bytes = sum(map(nbytes_of, outputs))
                return BatchResult(outputs, samples)

    def _inputs(self, fetched: list[Fetched]) -> dict[str, Any]:
        """Return the values of the graph's inputs by name."""
        return {
            node.name: fetched[number].values[node.part]
            for node in self.nodes
            for number, source in enumerate(self.sources)
            if source is node.source
        }

    def _context(self) -> Any:
        """Return the context in which the user's code and the graph run."""
        return nullcontext() if self.around is None else self.around()

    def _returned(self, pending: _PendingBatch) -> None:
        self._queue.popleft()
        self._positions = [(ticket.epoch, ticket.end, None) for ticket in pending.tickets]

    def positions(self) -> list[tuple[int, int, Any]]:
        """Return epoch, position and own state of each source, after the last returned batch."""
        if self._closed or not any(source.has_state for source in self.sources):
            return self._positions
        if self._queue:
            _wait(self._queue[0].fetched)  # finish() stores the states
            states = [ticket.state for ticket in self._queue[0].tickets]
        else:
            states = [source.own_state() for source in self.sources]
        return [
            (epoch, position, state)
            for (epoch, position, _), state in zip(self._positions, states, strict=True)
        ]

    def go_to(self, positions: Seq[tuple[int, int, Any]]) -> None:
        """Cancel pending batches, and move the sources to positions.

        Raises:
            StateError: a source cannot move there.
        """
        self._drop()
        for source, (epoch, position, state) in zip(self.sources, positions, strict=True):
            source.go_to(epoch, position, state)
        self._positions = [(epoch, position, state) for epoch, position, state in positions]
        self._ended, self._broken, self._closed = False, None, False

    def _restart(self) -> None:
        """Start pending batches again in a forked process, where they would never finish."""
        self._pid = os.getpid()
        self._workers, positions = {}, self._positions
        self._queue.clear()
        self.go_to(positions)

    def _drop(self) -> None:
        """Cancel pending batches, the last first, so that queues of fed batches keep their order."""
        while self._queue:
            pending = self._queue.pop()
            cancelled = pending.result.cancel()
            if pending.fetched.cancel():
                for source, ticket in zip(self.sources, pending.tickets, strict=True):
                    source.cancel(ticket)
            else:
                _wait(pending.fetched)
                for source, ticket in zip(self.sources, pending.tickets, strict=True):
                    source.take_back(ticket)
            if not cancelled:
                _wait(pending.result)

    def statistics(self) -> Mapping[str, Any]:
        """Return the times of the stages, the average number of finished batches, and the slowest stage."""
        stages = {
            name: {"batches": s.batches, "busy_s": s.busy_s, "starved_s": s.starved_s}
            for name, s in self.stages.items()
        }
        ready, requested = self._depths
        busiest = max(self.stages, key=lambda name: self.stages[name].busy_s, default="")
        waited = self._waited.starved_s
        slowest = "consumer" if waited < 0.05 * self._elapsed() else busiest
        if slowest == _COMPUTE and self.stages[_COMPUTE].starved_s > self.stages[_COMPUTE].busy_s:
            slowest = _EXTERNAL if _EXTERNAL in self.stages else "read"
        return {
            "stages": stages,
            "waited_s": waited,
            "ready": ready / requested if requested else 0.0,
            "bottleneck": slowest,
        }

    def _elapsed(self) -> float:
        return max((s.busy_s + s.starved_s for s in self.stages.values()), default=0.0) or 1e-9

    def stop(self) -> None:
        """Cancel pending batches, stop the threads, and keep the position."""
        self.go_to(self.positions())
        self.close()

    def close(self) -> None:
        """Cancel pending batches, stop the threads, and close the sources; the next batch opens them again."""
        # batches that external sources have returned ahead are requested again by the next use
        self._positions = self.positions()
        self._drop()
        while self._workers:
            self._workers.popitem()[1].close()
        for source in self.sources:
            source.close()
        self._closed = True


class _InThisThread(Future[Any]):
    """A call that runs in the thread that asks for its result first."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__()
        self._call = call

    def result(self, timeout: float | None = None) -> Any:
        """Run the call, or return its result."""
        if not self.done():
            try:
                self.set_result(self._call())
            except Exception as error:
                self.set_exception(error)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Run the call, or return its error."""
        with suppress(Exception):
            self.result()
        return super().exception(timeout)


@contextmanager
def error_note(note: str) -> Iterator[None]:
    """Return a context that adds a note to errors."""
    try:
        yield
    except EndOfData:
        raise
    except Exception as error:
        add_note(error, note)
        raise


def nbytes_of(value: Any) -> int:
    """Return the size of the arrays of a value in bytes, as far as known."""
    if isinstance(value, Mapping):
        return sum(map(nbytes_of, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(nbytes_of, value))
    if isinstance(value, Batch):
        return nbytes_of(value.sequences if value.stacked is None else value.stacked)
    if isinstance(value, (Part, Sequence)):
        return nbytes_of(value.data)
    return int(getattr(value, "nbytes", 0))


def gib(size: int) -> str:
    """Return a size as text."""
    return f"{size / 2**30:.3g} GiB"


def _samples_of(fetched: list[Fetched], sources: Seq[BatchSource]) -> BatchSamples:
    """Return the samples of the first source."""
    if not fetched:
        raise ParameterError("there is no source of samples", allowed="a reader or an external source")
    counts = [len(selection.samples.indices) for selection in fetched]
    if len(set(counts)) > 1:
        sizes = ", ".join(f"{source.name} gave {n}" for source, n in zip(sources, counts, strict=True))
        raise ParameterError(
            f"sources gave batches of different sizes: {sizes}",
            allowed="as many samples from each",
            advice="Give them one batch size, or drop the last batch (last_batch='drop')",
        )
    return fetched[0].samples


def _described(samples: BatchSamples) -> str:
    """Return a note for errors on the samples of a batch."""
    indices = samples.indices.tolist()
    shown = ", ".join(map(str, indices[:8])) + (", …" if len(indices) > 8 else "")
    named = ", ".join(filter(None, dict.fromkeys(samples.sources)))
    files = f", of {named}" if named else ""
    return f"epoch {samples.epoch}, samples {shown}{files}"


def _wait(future: Future[Any]) -> None:
    """Wait for a future, and ignore its result and error."""
    try:
        future.exception()
    except CancelledError:
        return


def _done(call: Callable[[], Any]) -> Future[Any]:
    """Call a function now, and return its result as a future."""
    future: Future[Any] = Future()
    try:
        future.set_result(call())
    except Exception as error:
        future.set_exception(error)
    return future
