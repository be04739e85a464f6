"""Awaited: a future that the main thread can wait for through a Ctrl-C."""

from __future__ import annotations

from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

__all__ = ["Awaited"]

ResultT = TypeVar("ResultT")

_LOOK_AGAIN_S: Final = 1.0


class Awaited(Future[ResultT]):
    """Waits in one call of C until it is done, and only then asks as other futures do.

    These take and give back their lock in Python, where a handler of a signal may raise between the two: the lock is
    kept, and whoever has the result waits for ever to set it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._ended = False
        self._told: SimpleQueue[None] = SimpleQueue()
        self.add_done_callback(_end)

    def result(self, timeout: float | None = None) -> ResultT:
        """What came of it; a time limit counts from when it is done."""
        while not self._ended:
            try:
                self._told.get(timeout=_LOOK_AGAIN_S)
            except Empty:  # another thread that waits has taken it, or one that was interrupted
                continue
        return super().result(timeout)


def _end(future: Any) -> None:
    future._ended = True
    future._told.put(None)
