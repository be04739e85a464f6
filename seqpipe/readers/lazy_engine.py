"""LazyEngine: a dataset's threads, started on first use in the process that uses them."""

from __future__ import annotations

import os
import threading
from typing import Any

from ..forks import renew_after_fork
from ..video.device import Decode, Device
from ..video.engine.engine import Engine
from ..video.engine.executors import engine_for

__all__ = ["LazyEngine"]


class LazyEngine:
    """An engine that is made on first use, and anew after :meth:`close` and in a forked or spawned process.

    Threads do not survive a fork: what a child inherits is an engine that never answers, and perhaps a lock that
    nobody will release. So a child begins with none.

    Args:
        threads: how many; by default one per core that the process may use.
        cache_dir: where indexes are kept.
        device: where sequences are to be.
        decode: who decodes for a GPU.
        stream: which stream of each video; None for the best one.
        register: the path of a register of indexes, if there is one.
    """

    def __init__(
        self,
        threads: int | None,
        cache_dir: str | os.PathLike[str] | None,
        device: Device,
        decode: Decode,
        stream: int | None = None,
        register: str | None = None,
    ) -> None:
        self._threads, self._cache_dir, self._device, self._decode = threads, cache_dir, device, decode
        self._stream, self._register = stream, register
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._inherited: list[Engine] = []
        renew_after_fork(self)

    def get(self) -> Engine:
        """The engine of this process."""
        with self._lock:
            if self._engine is None:
                self._engine = engine_for(
                    self._device,
                    decode=self._decode,
                    threads=self._threads,
                    cache_dir=self._cache_dir,
                    stream=self._stream,
                    register=self._register,
                )
            return self._engine

    def close(self) -> None:
        """Stop the threads, once what they have begun is done; a later use starts new ones."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def after_fork(self) -> None:
        """Begin anew in a forked process."""
        self._lock = threading.Lock()
        if self._engine is not None:
            # Kept, never closed: taking down decoders and threads that belong to another process could hang.
            self._inherited.append(self._engine)
            self._engine = None

    def __reduce__(self) -> tuple[Any, ...]:
        given = self._threads, self._cache_dir, self._device, self._decode, self._stream, self._register
        return LazyEngine, given
