"""A pool of idle sessions for reuse."""

from __future__ import annotations

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ...core.kernel import load_cupy
from .session import EngineKind, FlowSession

__all__ = ["MOST_IDLE", "POOL", "Pool"]

MOST_IDLE: Final = 8
"""Largest number of idle sessions; each holds buffers for some frames."""


class Pool:
    """Reusable sessions by kind; each is used by one thread at a time, and destroyed after a failure.

    Args:
        make: creates a session.
        most_idle: largest number of idle sessions; the least recently used ones are destroyed first.
    """

    def __init__(
        self, make: Callable[[EngineKind], FlowSession] = FlowSession, most_idle: int = MOST_IDLE
    ) -> None:
        self._make, self._most_idle = make, most_idle
        self._idle: OrderedDict[FlowSession, EngineKind] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def session(self, kind: EngineKind) -> Iterator[FlowSession]:
        """Lease a session of a kind to a ``with`` block; the context of its device must be current."""
        with self._lock:
            session = next((one for one, known in reversed(self._idle.items()) if known == kind), None)
            if session is not None:
                del self._idle[session]
        session = session or self._make(kind)
        try:
            yield session
        except BaseException:
            session.close()
            raise
        with self._lock:
            self._idle[session] = kind
            spare = [self._idle.popitem(last=False)[0] for _ in range(len(self._idle) - self._most_idle)]
        for one in spare:
            _close(one)

    def clear(self) -> None:
        """Destroy all idle sessions."""
        with self._lock:
            spare = list(self._idle)
            self._idle.clear()
        for one in spare:
            _close(one)

    def reset_after_fork(self) -> None:
        """Drop all sessions without destroying them: after a fork they belong to the parent process."""
        self._lock = threading.Lock()
        self._idle.clear()


def _close(session: FlowSession) -> None:
    """Destroy a session in the context of its device."""
    with load_cupy().cuda.Device(session.kind.device):
        session.close()


POOL: Final = Pool()
atexit.register(POOL.clear)
os.register_at_fork(after_in_child=POOL.reset_after_fork)
