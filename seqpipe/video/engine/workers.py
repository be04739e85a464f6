"""Worker threads that outlive the main thread while another thread reads, and end with the program."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

from ...errors import BackendError
from ..finalizers import Afterwards
from ..interruptible import Awaited

__all__ = ["CLOSED_MEANWHILE", "Workers"]

CLOSED_MEANWHILE: Final = "Let all threads that read come to an end before anything is closed"
"""What to do about reading that was overtaken by closing."""

ResultT = TypeVar("ResultT")


class _Task(NamedTuple):
    """A call and who waits for it."""

    future: Future[Any]
    call: Callable[[], Any]


_Tasks = SimpleQueue["_Task | None"]


class Workers:
    """Threads that take calls in turn.

    Those of ``concurrent.futures`` take no more calls once the main thread has ended, although other threads of the
    program may still read; and they make all calls that wait before they let a program end.

    Args:
        count: how many; each starts when it is needed.
        name: begins the names of the threads.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._process = os.getpid()
        self._tasks: _Tasks = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._lock = threading.Lock()
        # After all threads that the program waits for, before the interpreter is taken down.
        self._at_exit = _at_exit(weakref.ref(self))
        # Forgotten: the threads end by themselves. No lock is asked for, whoever it is that collects garbage.
        self._afterwards = [Afterwards(atexit.unregister, self._at_exit)]

    def submit(self, call: Callable[[], ResultT]) -> Future[ResultT]:
        """Make a call on one of the threads.

        Raises:
            BackendError: they have been shut down, or the program is ending.
        """
        future: Awaited[ResultT] = Awaited()
        with self._lock:
            if self._closed:
                raise BackendError(
                    "nothing can be begun: this was closed, or the program is ending", advice=CLOSED_MEANWHILE
                )
            self._tasks.put(_Task(future, call))
            if len(self._threads) < self._count:
                name = f"{self._name}_{len(self._threads)}"
                # A daemon, or the interpreter would wait for it before it lets us tell it to end.
                thread = threading.Thread(target=_serve, args=(self._tasks,), name=name, daemon=True)
                self._threads.append(thread)
                self._afterwards.append(Afterwards(self._tasks.put, None))
                thread.start()
        return future

    def close(self) -> None:
        """Cancel what has not begun, and wait for what has."""
        for task in self._leave():
            task.future.cancel()
        atexit.unregister(self._at_exit)
        for thread in self._threads:
            thread.join()

    def end(self) -> None:
        """The program ends: whoever still waits is not waited for."""
        if self._process == os.getpid():
            self._leave()
            for thread in self._threads:
                thread.join()

    def _leave(self) -> list[_Task]:
        """Let the threads end; returns what will not be done."""
        left: list[_Task] = []
        with self._lock:
            self._closed = True
            while (task := _next(self._tasks)) is not None:
                left.append(task)
            for _ in self._threads:
                self._tasks.put(None)
        return left


def _serve(tasks: _Tasks) -> None:
    """What a thread does; it must not hold the workers themselves, or they could not be forgotten."""
    while (task := tasks.get()) is not None:
        if task.future.set_running_or_notify_cancel():
            try:
                task.future.set_result(task.call())
            except BaseException as error:
                task.future.set_exception(error)
        del task  # what it holds must not wait for the next one


def _next(tasks: _Tasks) -> _Task | None:
    try:
        return tasks.get_nowait()
    except Empty:
        return None


def _at_exit(workers: weakref.ref[Workers]) -> Callable[[], None]:
    def end() -> None:
        if (found := workers()) is not None:
            found.end()

    atexit.register(end)
    return end
