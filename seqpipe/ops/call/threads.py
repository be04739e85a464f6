"""Threads that make frames side by side on the CPU."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context

from ...errors import ParameterError

__all__ = ["set_threads", "side_by_side", "threads"]

_chosen: int | None = None
_pool: tuple[int, ThreadPoolExecutor] | None = None
_lock = threading.Lock()
_own = threading.local()


def threads() -> int:
    """How many threads the operators' forms for CPUs use: those that :func:`set_threads` chose, or all that there are.

    In a process that multiprocessing started, as the workers of torch's DataLoader are, it is one unless chosen: there
    are other workers for the other cores.
    """
    if _chosen is not None:
        return _chosen
    if multiprocessing.parent_process() is not None:
        return 1
    return len(os.sched_getaffinity(0))


def set_threads(count: int | None) -> None:
    """Choose how many threads the operators' forms for CPUs use; results are the same with any.

    Large frames, and large samples of a batch, are made side by side, by operators of seqpipe. An operator of one's own
    is called by one thread at a time, the one that calls it.

    Args:
        count: threads, 1 or more; None for as many as there are cores for this process.

    Raises:
        ParameterError: it is no such number.
    """
    global _chosen
    if count is not None and (type(count) is not int or count < 1):
        raise ParameterError(
            f"count={count!r} is not valid", source="set_threads", allowed="1 or more, or None"
        )
    _chosen = count


def side_by_side(work: Callable[[int], None], count: int) -> None:
    """Call ``work(0)`` to ``work(count - 1)``, by several threads, this one among them.

    An error of one ends all of them, as soon as they have done what they are at, and is raised; of several, the first.

    Args:
        work: what is done with a number; what it asks for of this itself, its own thread does alone.
        count: how many there are.
    """
    most = 1 if getattr(_own, "working", False) else min(threads(), count)
    if most <= 1:
        for number in range(count):
            work(number)
        return
    numbers, errors = itertools.count(), list[tuple[int, BaseException]]()

    def take() -> None:
        _own.working = True
        try:
            # next() of a count is one step, so that no two threads have the same number
            while not errors and (number := next(numbers)) < count:
                try:
                    work(number)
                except BaseException as error:
                    errors.append((number, error))
        finally:
            _own.working = False

    others = _start(take, most - 1)
    try:
        take()
    finally:
        # what they write into is the caller's: he may have it when nobody does any more
        wait([other for other in others if not other.cancel()])
    if errors:
        raise min(errors, key=lambda found: found[0])[1]


def _start(take: Callable[[], None], count: int) -> list[Future[None]]:
    """Have some threads, which are kept, call a function."""
    global _pool
    with _lock:
        if _pool is None or _pool[0] < count:
            if _pool is not None:
                _pool[1].shutdown(wait=False)  # when they have done what they were given
            _pool = count, ThreadPoolExecutor(count, thread_name_prefix="seqpipe.ops")
        # each in the caller's context, of which NumPy's errstate is part
        return [_pool[1].submit(copy_context().run, take) for _ in range(count)]


def _forget() -> None:
    """A process that is forked has none of the threads, and perhaps a lock that nobody will open."""
    global _pool, _lock, _own
    _pool, _lock, _own = None, threading.Lock(), threading.local()


os.register_at_fork(after_in_child=_forget)
