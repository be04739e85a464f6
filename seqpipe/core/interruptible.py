"""Future whose ``result()`` can be interrupted by Ctrl-C without leaving its lock held."""

from __future__ import annotations

from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

__all__ = ["InterruptibleFuture"]

ResultT = TypeVar("ResultT")

_POLL_S: Final = 1.0


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
