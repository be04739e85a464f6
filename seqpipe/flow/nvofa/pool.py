"""Sessions that wait for the next pairs of their kind."""

from __future__ import annotations

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ...kernel import load_cupy
from .session import EngineKind, FlowSession

__all__ = ["MOST_IDLE", "POOL", "Pool"]

MOST_IDLE: Final = 8
"""How many sessions wait at most; each holds some frames of its size."""


class Pool:
    """Sessions by their kinds; each is used by one thread at a time, and those that failed are destroyed.

    Args:
        make: makes a session.
        most_idle: how many wait at most; those that were used longest ago are destroyed first.
    """

    def __init__(
        self, make: Callable[[EngineKind], FlowSession] = FlowSession, most_idle: int = MOST_IDLE
    ) -> None:
        self._make, self._most_idle = make, most_idle
        self._idle: OrderedDict[FlowSession, EngineKind] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def session(self, kind: EngineKind) -> Iterator[FlowSession]:
        """A session of a kind for the length of a block; the context of its device must be current.

        Raises:
            BackendError: the engine refuses to make one.
        """
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
            _close_there(one)

    def clear(self) -> None:
        """Destroy all that wait."""
        with self._lock:
            spare = list(self._idle)
            self._idle.clear()
        for one in spare:
            _close_there(one)

    def forget(self) -> None:
        """Know none of them any more: in a process that was forked they belong to its parent."""
        self._lock = threading.Lock()
        self._idle.clear()


def _close_there(session: FlowSession) -> None:
    """Destroy a session in the context of its device."""
    with load_cupy().cuda.Device(session.kind.device):
        session.close()


POOL: Final = Pool()
atexit.register(POOL.clear)
os.register_at_fork(after_in_child=POOL.forget)
