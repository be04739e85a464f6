"""Thread pool that computes frames or samples concurrently on the CPU."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import copy_context
from functools import partial

from ..errors import BackendError, ParameterError
from .workers import Workers

__all__ = ["parallel_for", "set_threads", "threads"]

_chosen: int | None = None
_pool: tuple[int, Workers] | None = None
_lock = threading.Lock()
_this_thread = threading.local()


def threads() -> int:
    """Return the number of threads that CPU implementations use: that of :func:`set_threads`, or all cores.

    A process that multiprocessing started, such as a worker of torch's DataLoader, uses one thread unless
    :func:`set_threads` was called there, because other workers use the other cores.
    """
    if _chosen is not None:
        return _chosen
    if multiprocessing.parent_process() is not None:
        return 1
    return len(os.sched_getaffinity(0))


def set_threads(count: int | None) -> None:
    """Set the number of threads that CPU implementations use; results do not depend on it.

    Builtin operators process large frames, and large samples of a batch, concurrently. A custom operator is called by
    the caller's thread alone.

    Args:
        count: threads, 1 or more; None for the number of cores available to this process.

    Raises:
        ParameterError: the count is not valid.
    """
    global _chosen
    if count is not None and (type(count) is not int or count < 1):
        raise ParameterError(
            f"count={count!r} is not valid", source="set_threads", allowed="1 or more, or None"
        )
    _chosen = count


def parallel_for(work: Callable[[int], None], count: int) -> None:
    """Call ``work(0)`` to ``work(count - 1)`` in several threads, the caller's among them.

    After an error, threads finish their current call only; the error of the least number is raised.
    """
    most = 1 if getattr(_this_thread, "working", False) else min(threads(), count)
    if most <= 1:
        for number in range(count):
            work(number)
        return
    numbers, errors = itertools.count(), list[tuple[int, BaseException]]()

    def take() -> None:
        _this_thread.working = True
        try:
            # next() of a count is atomic, so no two threads get the same number
            while not errors and (number := next(numbers)) < count:
                try:
                    work(number)
                except BaseException as error:
                    errors.append((number, error))
        finally:
            _this_thread.working = False

    calls = [take]
    others = _start(calls, most - 1)
    try:
        take()
    finally:
        # the caller owns the output again once no thread writes to it
        wait([other for other in others if not other.cancel()])
        calls.clear()
    if errors:
        raise min(errors, key=lambda failure: failure[0])[1]


def _start(calls: list[Callable[[], None]], count: int) -> list[Future[None]]:
    """Call the function of a list in some threads of the pool; in none once the program ends."""
    # A list, as a canceled future stays in the pool's queue until a thread is free: emptied, it keeps no arrays alive.
    global _pool
    with _lock:
        if _pool is None or _pool[0] < count:
            _pool = (
                count,
                Workers(count, "seqpipe.ops"),
            )  # the threads of another one end after its pending work
        workers = _pool[1]
    started: list[Future[None]] = []
    with contextlib.suppress(BackendError):
        for _ in range(count):
            # in copies of the caller's context, which holds NumPy's errstate
            started.append(workers.submit(partial(copy_context().run, _call, calls)))
    return started


def _call(calls: list[Callable[[], None]]) -> None:
    calls[0]()


def _reset_after_fork() -> None:
    """Drop the pool, whose threads a forked process does not have, and the lock, which may be held."""
    global _pool, _lock, _this_thread
    _pool, _lock, _this_thread = None, threading.Lock(), threading.local()


os.register_at_fork(after_in_child=_reset_after_fork)
