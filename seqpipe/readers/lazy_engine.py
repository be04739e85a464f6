"""Pools of threads that start on first use in each process: the decoding engine of a dataset, and others."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Any, Generic, Protocol, TypeVar

from ..core.forks import reset_after_fork
from ..video.device import DecodeChoice, Device
from ..video.engine.engine import Engine, available_cores, engine_for
from ..video.index.open import IndexOptions

__all__ = ["LazyEngine", "LazyPool", "ThreadPool"]


class ThreadPool(Protocol):
    """Threads that can be stopped."""

    def close(self) -> None:
        """Stop the threads after their current work."""


PoolT = TypeVar("PoolT", bound=ThreadPool)


class LazyPool(ABC, Generic[PoolT]):
    """Creates a pool on first use, and again after :meth:`close` and in forked or spawned processes.

    Threads do not survive a fork: a child would inherit a pool that never answers, and possibly a lock that is never
    released. So a child process starts without a pool.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: PoolT | None = None
        self._inherited: list[PoolT] = []
        self._processes = 1
        reset_after_fork(self)

    @abstractmethod
    def make(self) -> PoolT:
        """Create a pool."""

    def share_cores(self, processes: int) -> None:
        """Let a pool that is created from now on use one of ``processes`` equal parts of the cores.

        That is for the workers of a DataLoader, and does not apply if the number of threads was given.
        """
        self._processes = processes

    def threads_for(self, threads: int | None) -> int | None:
        """Return the number of threads: the given one, or that of this process's part of the cores; None for all."""
        return threads if threads or self._processes == 1 else max(1, available_cores() // self._processes)

    def get(self) -> PoolT:
        """Return the pool of this process."""
        with self._lock:
            if self._pool is None:
                self._pool = self.make()
            return self._pool

    def close(self) -> None:
        """Stop the threads after their current work; the next use starts new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def after_fork(self) -> None:
        """Drop the pool inherited from the parent process."""
        self._lock = threading.Lock()
        if self._pool is not None:
            # Kept alive and never closed: closing decoders and threads of the parent process could hang.
            self._inherited.append(self._pool)
            self._pool = None


class LazyEngine(LazyPool[Engine]):
    """A lazy decoding engine.

    Args:
        threads: number of decoding threads; by default one for each core that the process may use.
        device: device of the sequences.
        decode: decode backend for a GPU.
        indexes: options that the indexes of videos are opened with.
    """

    def __init__(
        self, threads: int | None, device: Device, decode: DecodeChoice, indexes: IndexOptions
    ) -> None:
        super().__init__()
        self._arguments = threads, device, decode, indexes

    def make(self) -> Engine:
        """See :meth:`LazyPool.make`."""
        threads, device, decode, indexes = self._arguments
        return engine_for(device, decode=decode, threads=self.threads_for(threads), **indexes._asdict())

    def __reduce__(self) -> tuple[Any, ...]:
        return LazyEngine, self._arguments
