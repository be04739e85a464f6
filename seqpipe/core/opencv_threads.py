"""OpenCV's thread count, reduced to one while seqpipe's own threads call OpenCV concurrently."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from .forks import reset_after_fork

__all__ = ["OPENCV"]

ResultT = TypeVar("ResultT")


class _OpenCv:
    """OpenCV's process-wide thread count: 1 while any :meth:`single_threaded` call runs, else the user's setting."""

    def __init__(self) -> None:
        self._calls = self._threads = 0
        self._lock = threading.Lock()
        reset_after_fork(self)

    def single_threaded(self, function: Callable[..., ResultT], *args: Any) -> ResultT:
        """Call a function while OpenCV uses no threads of its own; return its result."""
        import cv2

        with self._lock:
            if self._calls == 0:
                self._threads = cv2.getNumThreads()
                cv2.setNumThreads(1)
            self._calls += 1
        try:
            return function(*args)
        finally:
            with self._lock:
                self._calls -= 1
                if self._calls == 0 and cv2.getNumThreads() == 1:  # else the user changed it meanwhile
                    cv2.setNumThreads(self._threads)

    def after_fork(self) -> None:
        """Reset the lock and the count; a thread count of 1 stays, since OpenCV's pool does not survive the fork."""
        self._lock, self._calls = threading.Lock(), 0


OPENCV: Final = _OpenCv()
