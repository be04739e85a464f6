"""Timestamp cache: clocks of videos, loaded on demand and kept for a while."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import Any

from ..array import FloatArray
from ..video.index.open import open_index

__all__ = ["Clock"]

_KEPT_FRAMES = 1 << 21


class Clock:
    """Cache of timestamps by path or URL, least recently used first out, of two million values (16 MiB).

    Args:
        cache_dir: folder of the indexes.
        stream: number of the stream in the container; None for the best video stream.
        register: path of a register of indexes, or None.
    """

    def __init__(
        self,
        cache_dir: str | os.PathLike[str] | None,
        stream: int | None = None,
        register: str | None = None,
    ) -> None:
        self._cache_dir, self._stream, self._register = cache_dir, stream, register
        self._known: OrderedDict[str, FloatArray] = OrderedDict()
        self._frames = 0
        self._lock = threading.Lock()

    @property
    def kept_frames(self) -> int:
        """Number of cached timestamps."""
        return self._frames

    def timestamps(self, name: str) -> FloatArray:
        """Return the presentation times of all frames of a video, in seconds.

        Raises:
            SourceError: the video cannot be opened.
        """
        with self._lock:
            if (known := self._known.get(name)) is not None:
                self._known.move_to_end(name)
                return known
        # A copy: the view would keep the whole index in memory.
        index = open_index(name, cache_dir=self._cache_dir, stream=self._stream, register=self._register)
        times: FloatArray = index.timestamps.copy()
        times.flags.writeable = False
        with self._lock:
            if name not in self._known:
                self._known[name] = times
                self._frames += len(times)
            while self._frames > _KEPT_FRAMES and len(self._known) > 1:
                self._frames -= len(self._known.popitem(last=False)[1])
        return times

    def __reduce__(self) -> tuple[Any, ...]:
        return Clock, (self._cache_dir, self._stream, self._register)
