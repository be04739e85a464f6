"""LazyEngine: a dataset's threads, started when they are needed, in the process that needs them."""

from __future__ import annotations

import os
import threading
from typing import Any

from ..video.device import Decode, Device
from ..video.engine.engine import Engine
from ..video.engine.executors import engine_for

__all__ = ["LazyEngine"]


class LazyEngine:
    """An engine that is made on first use, and anew after :meth:`close` and in a forked or spawned process.

    Threads do not survive a fork: what a child inherits is an engine that never answers. So the process is
    looked at on every use.

    Args:
        threads: how many; by default one per core that the process may use.
        cache_dir: where indexes are kept.
        device: where sequences are to be.
        decode: who decodes for a GPU.
    """

    def __init__(
        self,
        threads: int | None,
        cache_dir: str | os.PathLike[str] | None,
        device: Device,
        decode: Decode,
    ) -> None:
        self._threads, self._cache_dir, self._device, self._decode = threads, cache_dir, device, decode
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._process = -1
        self._inherited: list[Engine] = []

    def get(self) -> Engine:
        """The engine of this process."""
        if self._engine is not None and self._process != os.getpid():
            # Kept, never closed: taking down decoders and threads that belong to another process could hang.
            self._inherited.append(self._engine)
            self._engine, self._lock = None, threading.Lock()
        with self._lock:
            if self._engine is None:
                self._engine = engine_for(
                    self._device, decode=self._decode, threads=self._threads, cache_dir=self._cache_dir
                )
                self._process = os.getpid()
            return self._engine

    def close(self) -> None:
        """Stop the threads, once what they have begun is done; a later use starts new ones."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None and self._process == os.getpid():
            engine.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return LazyEngine, (self._threads, self._cache_dir, self._device, self._decode)
