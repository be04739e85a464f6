"""Thread pool that keeps working after the main thread has ended, and stops when the interpreter exits.

While its threads call OpenCV, that uses no threads of its own (:data:`OPENCV`).
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

from ..errors import BackendError
from .finalizers import Finalizer
from .forks import reset_after_fork

__all__ = ["CLOSED_MEANWHILE", "OPENCV", "InterruptibleFuture", "Workers", "submitted"]

CLOSED_MEANWHILE: Final = "Wait for all threads that read before the reader is closed"
"""Advice for reads that were canceled because the reader was closed."""

ResultT = TypeVar("ResultT")


class _Task(NamedTuple):
    """A call and the future of its result."""

    future: Future[Any]
    call: Callable[[], Any]


_Tasks = SimpleQueue["_Task | None"]


class Workers:
    """Pool of daemon threads that run calls in the order of submission.

    A ``ThreadPoolExecutor`` takes no more calls once the main thread has ended, although other threads of the program
    may still read; and it runs all queued calls before it lets a program end.

    Args:
        count: maximum number of threads; each is started when it is needed.
        name: prefix of the threads' names.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._pool = _PoolThreads()
        # Runs after all non-daemon threads have ended and before the interpreter is torn down. A thread of a pool that
        # was collected has to be waited for as well: one that is torn down inside of C++ code aborts the program.
        # So the handler is unregistered once the pool and all of its threads are gone.
        self._at_exit = Finalizer(atexit.unregister, atexit.register(self._pool.end))
        # Stop the threads when the pool is collected; finalizers take no lock, so any thread may collect it.
        self._finalizer = Finalizer(self._pool.tasks.put, None)

    def submit(self, call: Callable[[], ResultT]) -> Future[ResultT]:
        """Run a call on one of the threads, or before this returns where the system lets none start.

        Raises:
            BackendError: the pool is closed, or the program is ending.
        """
        future: InterruptibleFuture[ResultT] = InterruptibleFuture()
        task, pool = _Task(future, call), self._pool
        with pool.lock:
            if pool.closed:
                raise BackendError(
                    "no work can be started: the reader was closed, or the program is ending",
                    advice=CLOSED_MEANWHILE,
                )
            if len(pool.threads) < self._count:
                self._start_thread()
            if served := bool(pool.threads):
                pool.tasks.put(task)
        if not served:
            _run(task)
        return future

    def _start_thread(self) -> None:
        """Start another thread if the system allows it; the pool does with those that it has."""
        # It refuses one beyond its limit, and Python 3.12.0 to 3.12.2 any once the main thread has ended.
        threads = self._pool.threads
        # A daemon: the interpreter waits for other threads before it runs the exit handler that stops them.
        thread = threading.Thread(
            target=_serve,
            args=(self._pool.tasks, self._at_exit),
            name=f"{self._name}_{len(threads)}",
            daemon=True,
        )
        threads.append(thread)  # beforehand: an interrupt may come once it runs
        try:
            thread.start()
        except RuntimeError:
            threads.remove(thread)

    def close(self) -> None:
        """Cancel queued calls, and wait for running ones."""
        for task in self._pool.shut_down():
            task.future.cancel()
        atexit.unregister(self._pool.end)
        self._pool.join()


def submitted(pool: Executor, call: Callable[..., ResultT], *arguments: Any) -> Future[ResultT]:
    """Submit a call to an executor of processes."""
    try:
        return pool.submit(call, *arguments)
    except BrokenExecutor:
        raise
    except RuntimeError as error:
        raise BackendError(
            f"no work can be started in another process: {error}",
            advice="The main thread has ended: let it wait for the threads that read",
        ) from error


class _PoolThreads:
    """The threads of a pool and their queue, which may outlive the pool."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.tasks: _Tasks = SimpleQueue()
        self.threads: list[threading.Thread] = []
        self.closed = False
        self.lock = threading.Lock()

    def shut_down(self) -> list[_Task]:
        """Tell the threads to end, and return the tasks that none of them has taken."""
        dropped: list[_Task] = []
        with self.lock:
            self.closed = True
            while (task := _next(self.tasks)) is not None:
                dropped.append(task)
            self.tasks.put(None)
        return dropped

    def join(self) -> None:
        """Wait for the threads to end."""
        for thread in self.threads:
            thread.join()

    def end(self) -> None:
        """Drop queued calls and wait for running ones: the program ends."""
        if self.process == os.getpid():
            self.shut_down()
            self.join()


def _serve(tasks: _Tasks, _at_exit: Finalizer) -> None:
    """Run tasks until None comes; holds no reference to the pool, which could otherwise never be collected."""
    while (task := tasks.get()) is not None:
        _run(task)
        del task  # releases what it references before the next one is waited for
    tasks.put(None)  # for the next thread


def _run(task: _Task) -> None:
    """Set a task's future, unless it was canceled."""
    if task.future.set_running_or_notify_cancel():
        try:
            task.future.set_result(task.call())
        except BaseException as error:
            task.future.set_exception(error)


def _next(tasks: _Tasks) -> _Task | None:
    try:
        return tasks.get_nowait()
    except Empty:
        return None


# A signal that arrives just before a wait begins is handled only once it ends.
_POLL_S: Final = 0.1


class InterruptibleFuture(Future[ResultT]):
    """Future that waits in a single C call until it is done, and takes the standard future's lock only then.

    The standard future acquires and releases its lock in Python. A signal handler that raises between the two leaves
    the lock held, and the thread that computes the result then blocks forever when it sets it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._ended = False
        self._wakeups: SimpleQueue[None] = SimpleQueue()
        self.add_done_callback(_end)

    def result(self, timeout: float | None = None) -> ResultT:
        """Return the result once it is there; ``timeout`` is ignored while the call is pending."""
        while not self._ended:
            try:
                self._wakeups.get(timeout=_POLL_S)
            except Empty:  # another waiting thread, or one that was interrupted, consumed the wake-up
                continue
        return super().result(timeout)


def _end(future: Any) -> None:
    future._ended = True
    future._wakeups.put(None)


class _OpenCv:
    """OpenCV's process-wide thread count: 1 while any :meth:`single_threaded` call runs, else the user's setting.

    OpenCV is not imported for it: a call that imports it keeps its threads, later ones do not.
    """

    def __init__(self) -> None:
        self._calls = 0
        self._threads: int | None = None
        self._lock = threading.Lock()
        reset_after_fork(self)

    def single_threaded(self, function: Callable[..., ResultT], *args: Any) -> ResultT:
        """Call a function while OpenCV uses no threads of its own; return its result."""
        with self._lock:
            self._calls += 1
            cv2: Any = sys.modules.get("cv2")
            # it may be in the middle of its import
            if self._threads is None and hasattr(cv2, "setNumThreads"):
                self._threads = cv2.getNumThreads()
                cv2.setNumThreads(1)
        try:
            return function(*args)
        finally:
            with self._lock:
                self._calls -= 1
                if self._calls == 0 and self._threads is not None:
                    cv2 = sys.modules["cv2"]
                    if cv2.getNumThreads() == 1:  # else the user changed it meanwhile
                        cv2.setNumThreads(self._threads)
                    self._threads = None

    def after_fork(self) -> None:
        """Reset the lock and the count; a thread count of 1 stays, since OpenCV's pool does not survive the fork."""
        self._lock, self._calls, self._threads = threading.Lock(), 0, None


OPENCV: Final = _OpenCv()
