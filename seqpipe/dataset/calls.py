"""Calls of the user's functions, on threads or in worker processes."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any, Final

from ..core.param import Param
from ..core.passed_errors import as_passed
from ..core.workers import Workers, submitted
from ..errors import BackendError, ParameterError
from ..readers.fetch import LazyPool

__all__ = ["PROCESSES", "CallPool", "check_pickles", "may_start_processes"]

PROCESSES: Final = Param(name="workers", doc="Processes that run Python code of the user's", lo=0, hi=1024)
_THREADS: Final = 4


class CallPool(LazyPool[Any]):
    """Lazy threads, or processes, that call a function; what processes call and return is pickled.

    Args:
        workers: number of processes; 0 for threads.
        name: what the function does, for errors and the names of threads.
    """

    def __init__(self, workers: int, name: str) -> None:
        super().__init__()
        self._workers, self._name = workers, name

    def make(self) -> Any:
        """See :meth:`LazyPool.make`."""
        return _Processes(self._workers) if self._workers else Workers(_THREADS, f"seqpipe-{self._name}")

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Call a function on one of the threads, or in one of the processes."""
        call = partial(_passing, function, *arguments) if self._workers else partial(function, *arguments)
        future: Future[Any] = self.get().submit(call)
        return future

    def result(self, future: Future[Any]) -> Any:
        """Return the result of a call."""
        try:
            return future.result()
        except BrokenProcessPool as error:
            self.close()
            raise BackendError(
                f"a process of {self._name} has died",
                advice="It was killed, perhaps for its memory, or it crashed; workers=0 shows where",
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return CallPool, (self._workers, self._name)


def may_start_processes() -> bool:
    """Return whether this process may start others: a worker of a DataLoader, for example, may not."""
    return not multiprocessing.current_process().daemon


def check_pickles(function: Callable[..., Any], name: str) -> None:
    """Check that processes can get a function."""
    try:
        pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ParameterError(
            f"{name} of a function that processes cannot get: {error}",
            source="Dataset",
            allowed="a function or an object of a module, not a lambda or closure",
            advice="Or leave out workers",
        ) from error


class _Processes:
    """Worker processes."""

    def __init__(self, workers: int) -> None:
        self._pool = ProcessPoolExecutor(workers, multiprocessing.get_context("forkserver"))

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Run a call."""
        return submitted(self._pool, call)

    def close(self) -> None:
        """Stop the processes."""
        self._pool.shutdown(cancel_futures=True)


def _passing(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call in a worker process; an error that does not pickle is passed on by its type and text."""
    try:
        return function(*arguments)
    except Exception as error:  # the user's own, of any type
        raise as_passed(error) from None
