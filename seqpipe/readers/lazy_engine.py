"""LazyEngine: an engine that starts its threads on first use in each process."""

from __future__ import annotations

import os
import threading
from typing import Any

from ..core.forks import reset_after_fork
from ..video.device import Decode, Device
from ..video.engine.engine import Engine
from ..video.engine.executors import engine_for

__all__ = ["LazyEngine"]


class LazyEngine:
    """Creates an engine on first use, and again after :meth:`close` and in forked or spawned processes.

    Threads do not survive a fork: a child would inherit an engine that never answers, and possibly a lock that is
    never released. So a child process starts without an engine.

    Args:
        threads: number of decoding threads; by default one for each core that the process may use.
        cache_dir: folder of the indexes.
        device: device of the sequences.
        decode: decode backend for a GPU.
        stream: number of the stream in the container; None for the best video stream.
        register: path of a register of indexes, or None.
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
        reset_after_fork(self)

    def get(self) -> Engine:
        """Return the engine of this process."""
        with self._lock:
            if self._engine is None:
                self._engine = self.make()
            return self._engine

    def make(self) -> Engine:
        """Create an engine."""
        return engine_for(
            self._device,
            decode=self._decode,
            threads=self._threads,
            cache_dir=self._cache_dir,
            stream=self._stream,
            register=self._register,
        )

    def close(self) -> None:
        """Stop the threads after their current work; the next use starts new ones."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def after_fork(self) -> None:
        """Drop the engine inherited from the parent process."""
        self._lock = threading.Lock()
        if self._engine is not None:
            # Kept alive and never closed: closing decoders and threads of the parent process could hang.
            self._inherited.append(self._engine)
            self._engine = None

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = self._threads, self._cache_dir, self._device, self._decode, self._stream, self._register
        return LazyEngine, arguments
