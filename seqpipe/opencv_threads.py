"""OpenCV's threads: none, where seqpipe's own threads call it side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from .forks import renew_after_fork

__all__ = ["OPENCV"]

ResultT = TypeVar("ResultT")


class _OpenCv:
    """OpenCV's process-wide number of threads: one while ours work, which are as many as may be, else the user's."""

    def __init__(self) -> None:
        self._working = self._threads = 0
        self._lock = threading.Lock()
        renew_after_fork(self)

    def single_threaded(self, work: Callable[..., ResultT], *given: Any) -> ResultT:
        """Call a function while OpenCV starts no threads of its own."""
        import cv2

        with self._lock:
            if self._working == 0:
                self._threads = cv2.getNumThreads()
                cv2.setNumThreads(1)
            self._working += 1
        try:
            return work(*given)
        finally:
            with self._lock:
                self._working -= 1
                if self._working == 0 and cv2.getNumThreads() == 1:  # else the user has set another meanwhile
                    cv2.setNumThreads(self._threads)

    def after_fork(self) -> None:
        """Begin anew; if it was one thread it stays so, since OpenCV's threads are the other process's."""
        self._lock, self._working = threading.Lock(), 0


OPENCV: Final = _OpenCv()
