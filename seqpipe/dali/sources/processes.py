"""External sources in worker processes: arrays pass through shared memory, errors keep the worker's traceback.

``multiprocessing`` is imported when the first process starts.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from ...array import as_native
from ...core.param import Param
from ...core.passed_errors import as_passed
from ...core.workers import submitted
from ...errors import BackendError, ParameterError
from ...pipeline.source import EndOfData, Fetched, Ticket
from ..value import Value
from .external import BatchInfo, External, ExternalSpec, SampleInfo

__all__ = ["ParallelExternal", "StartMethod"]

StartMethod: TypeAlias = Literal["fork", "spawn", "forkserver"]

WORKERS: Final = Param(name="workers", doc="Processes that run the source", lo=1, hi=1024, unit="processes")
_SHARED: Final = 1 << 16  # bytes from which shared memory is faster than a pipe
_ALIGNED: Final = 64
_worker: dict[str, Any] = {}  # in a worker process: its source, and the iterator over it


class _End(Enum):
    """Marks the end of a source in results."""

    END = 0


class _Shared(NamedTuple):
    """An array in the block of shared memory of its result."""

    offset: int
    shape: tuple[int, ...]
    dtype: str


class _Packed(NamedTuple):
    """A result of a worker; arrays are replaced by references to a block of shared memory, if there is one."""

    value: Any
    block: str | None


class ParallelExternal(External):
    """A source of the user's code that runs in worker processes.

    A callable runs in all processes: for each batch, or, with ``batch=False``, for a part of the samples of each batch.
    Batches and samples keep their order. An iterable runs in one process, which holds it. What a source returns is
    copied once, through shared memory. A process that dies is replaced, and its batch is requested once more.

    Args:
        source: as :class:`External` takes it; a callable takes one argument, since processes do not share a count.
        spec: declaration of the values.
        batch_size: samples in a batch.
        workers: number of processes.
        start_method: "fork" inherits the source; "spawn" and "forkserver" pickle it, and are safe after a GPU or other
            threads were used; None for "fork".
        **options: those of :class:`External`, except for ``copies``.

    Raises:
        ParameterError: an argument is not valid, or the callable takes no argument.
    """

    def __init__(
        self,
        source: Any,
        spec: ExternalSpec,
        batch_size: int,
        *,
        workers: int = 1,
        start_method: StartMethod | None = None,
        **options: Any,
    ) -> None:
        super().__init__(source, spec, batch_size, **options, copies=False)
        if start_method is not None and start_method not in get_args(StartMethod):
            allowed = ", ".join(map(repr, get_args(StartMethod)))
            raise ParameterError(
                f"start_method={start_method!r} is not valid", source=self.name, allowed=f"{allowed}, None"
            )
        if self._call is not None and self._call is not source:
            raise ParameterError(
                "a callable without arguments, which processes cannot divide among themselves",
                source=self.name,
                allowed="a callable of the number of the batch, a BatchInfo or a SampleInfo; or an iterable",
            )
        count = WORKERS.check(workers)
        self._count, self._method = (count if self._call is not None else 1), start_method or "fork"
        self._pool: ProcessPoolExecutor | None = None
        self._pid = os.getpid()
        self._run = source
        if self._call is None:
            self._make = self._iterate
            self._source = _RemoteSource(self) if hasattr(source, "state_dict") else object()

    def start(self) -> None:
        """See :meth:`BatchSource.start`.

        Raises:
            BackendError: the source cannot be pickled for another process.
        """
        if self._pool is not None and self._pid == os.getpid():
            return
        import multiprocessing
        from multiprocessing import resource_tracker

        self._pid = os.getpid()
        resource_tracker.ensure_running()  # one for all processes, so that none reports the blocks of another one
        context = multiprocessing.get_context(self._method)
        self._pool = ProcessPoolExecutor(self._count, context, _begin, (self._run, self._make_source))
        try:
            submitted(self._pool, os.getpid).result()
        except Exception as error:
            self._stop()
            raise BackendError(
                f"the source cannot run in another process: {error}",
                source=self.name,
                advice="With start_method='spawn', sources are objects or functions of modules, not closures",
            ) from error

    @property
    def _make_source(self) -> bool:
        """Whether the source is called to make an iterator."""
        return self._call is None and not hasattr(self._run, "__iter__")

    def begin(self) -> Ticket:
        """See :meth:`BatchSource.begin`; the processes begin with the batch."""
        ticket = super().begin()
        assert ticket is not None
        if self._call is not None:
            ticket.work = ticket.work, self._request_batch(ticket, ticket.work)
        return ticket

    def _request_batch(self, ticket: Ticket, iteration: int) -> list[Future[_Packed]]:
        """Request a batch from the processes."""
        if self._batch:
            info: Any = BatchInfo(iteration, ticket.epoch) if self._batch_info else iteration
            return [self.submit(_call_source, [info])]
        infos = [SampleInfo(ticket.position + n, n, iteration, ticket.epoch) for n in range(self._batch_size)]
        size = -(-len(infos) // self._count)
        return [self.submit(_call_source, infos[at : at + size]) for at in range(0, len(infos), size)]

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Call a function of this module in a worker process."""
        self.start()
        assert self._pool is not None
        return submitted(self._pool, _passing, call, *arguments)

    def result(self, request: Callable[[], list[Future[_Packed]]]) -> list[Any]:
        """Return results; if a process has died, replace the processes and request the results once more.

        Args:
            request: requests the results; called a second time if a process has died.

        Raises:
            BackendError: a process has died twice.
        """
        try:
            return [_unpacked(future.result()) for future in request()]
        except BrokenProcessPool:
            self._stop()
        try:
            return [_unpacked(future.result()) for future in request()]
        except BrokenProcessPool as error:
            self._stop()
            raise BackendError(
                "a process that runs the source has died twice at the same batch",
                source=self.name,
                advice="It was killed, perhaps for its memory, or it crashed; parallel=False shows where",
            ) from error

    def finish(self, ticket: Ticket) -> Fetched:
        """See :meth:`External.finish`.

        Raises:
            EndOfData: the source has ended.
        """
        try:
            return super().finish(ticket)
        except BaseException:
            self.cancel(ticket)
            raise

    def _batch_of_call(self, ticket: Ticket) -> tuple[Value, ...]:
        iteration, futures = ticket.work
        waiting = [futures]
        pieces = self.result(lambda: waiting.pop() if waiting else self._request_batch(ticket, iteration))
        parts = [item for part in pieces for item in part]
        if any(array is _End.END for array in parts):
            self._ended = True
            raise EndOfData
        return self._values.batch(parts[0]) if self._batch else self._values.samples(parts)

    def _iterate(self) -> Iterator[Any]:
        """Restart the iterable in its process."""
        self.result(lambda: [self.submit(_open_source)])
        while True:
            ((batch,),) = self.result(lambda: [self.submit(_take_next)])
            if batch is _End.END:
                return
            yield batch

    def cancel(self, ticket: Ticket) -> None:
        """See :meth:`BatchSource.cancel`."""
        if self._call is not None:
            for future in ticket.work[1]:
                if not future.cancel():
                    future.add_done_callback(_discard)

    def _stop(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None and self._pid == os.getpid():
            pool.shutdown(cancel_futures=True)

    def close(self) -> None:
        """End the processes; a later use starts them again."""
        self._stop()
        if self._call is None:
            self._iterator = None


class _RemoteSource:
    """Access to the state of an iterable in a worker process."""

    def __init__(self, owner: ParallelExternal) -> None:
        self._owner = owner

    def state_dict(self) -> Any:
        """Return the state of the iterable."""
        return self._owner.result(lambda: [self._owner.submit(_state)])[0]

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of the iterable."""
        self._owner.result(lambda: [self._owner.submit(_load, state)])


def _begin(source: Any, makes: bool) -> None:
    """Initialize a worker, which ignores Ctrl-C and ends with its parent process."""
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker.update(source=source, makes=makes)
    parent = parent_process()
    assert parent is not None

    def end() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=end, name="seqpipe-parent", daemon=True).start()


def _passing(call: Callable[..., _Packed], *arguments: Any) -> _Packed:
    """Call a function; what the user's code raises is passed on, whatever its type."""
    try:
        return call(*arguments)
    except BaseException as error:
        if (passed := as_passed(error)) is error:
            raise
        raise passed from error


def _call_source(infos: list[Any]) -> _Packed:
    try:
        return _packed([_worker["source"](info) for info in infos])
    except StopIteration:
        return _Packed([_End.END], None)


def _open_source() -> _Packed:
    source = _worker["source"]
    _worker["iterator"] = iter(source() if _worker["makes"] else source)
    return _Packed(None, None)


def _take_next() -> _Packed:
    try:
        return _packed([next(_worker["iterator"])])
    except StopIteration:
        return _Packed([_End.END], None)


def _state() -> _Packed:
    return _Packed(_worker["source"].state_dict(), None)


def _load(state: Any) -> _Packed:
    _worker["source"].load_state_dict(state)
    _worker.pop("iterator", None)
    return _Packed(None, None)


def _packed(value: Any) -> _Packed:
    """Put the arrays of a result into one block of shared memory, unless they are small."""
    from multiprocessing.shared_memory import SharedMemory

    arrays: list[np.ndarray[Any, Any]] = []
    offset = 0

    def packed(item: Any) -> Any:
        nonlocal offset
        if isinstance(item, (list, tuple)):
            return [packed(part) for part in item] if isinstance(item, list) else tuple(map(packed, item))
        if not hasattr(item, "__dlpack__") and not isinstance(item, np.ndarray):
            return item
        array = np.asarray(as_native(item))
        arrays.append(array)
        reference = _Shared(offset, array.shape, array.dtype.str)
        offset += -(-array.nbytes // _ALIGNED) * _ALIGNED
        return reference

    changed = packed(value)
    if offset < _SHARED:
        return _Packed(value, None)
    block = SharedMemory(create=True, size=offset)
    at = 0
    for array in arrays:
        np.ndarray(array.shape, array.dtype, block.buf, at)[...] = array
        at += -(-array.nbytes // _ALIGNED) * _ALIGNED
    name = block.name
    block.close()
    return _Packed(changed, name)


def _unpacked(result: _Packed) -> Any:
    """Return a result, copied out of shared memory, which is released."""
    if result.block is None:
        return result.value
    from multiprocessing.shared_memory import SharedMemory

    block = SharedMemory(result.block)

    def taken(value: Any) -> Any:
        if isinstance(value, _Shared):
            return np.ndarray(value.shape, value.dtype, block.buf, value.offset).copy()
        if isinstance(value, (list, tuple)):
            return [taken(part) for part in value] if isinstance(value, list) else tuple(map(taken, value))
        return value

    try:
        return taken(result.value)
    finally:
        block.close()
        block.unlink()


def _discard(future: Future[_Packed]) -> None:
    """Release the shared memory of a result that is not needed, unless it is released already."""
    if not future.cancelled() and future.exception() is None:
        with suppress(FileNotFoundError):
            _unpacked(future.result())
