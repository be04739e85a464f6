"""Deferral of Ctrl-C during driver callbacks, where exceptions of signal handlers are lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["defer_sigint"]


@contextmanager
def defer_sigint() -> Iterator[None]:
    """Defer SIGINT until the end of this context.

    Python runs signal handlers in the main thread at the start of the next Python function, which may be a callback,
    before any ``try`` in it. ctypes prints and drops what they raise there, and returns an error to the library.
    """
    in_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT) if in_main else None
    if handler is None or not callable(handler):
        yield
        return
    deferred: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: deferred.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if deferred:
            signal.raise_signal(signal.SIGINT)
