"""Signal handling in driver callbacks, where exceptions of handlers would be lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["interrupts_later"]


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Hold back Ctrl-C until the end of this context.

    Python runs handlers of signals in the main thread, before the first line of the next function that it enters: in a
    callback, before any ``try``. What is raised there is printed and forgotten by ctypes, and the library told of an
    error. So while it may call back, the handler only takes note.
    """
    in_main = threading.current_thread() is threading.main_thread()
    usual = signal.getsignal(signal.SIGINT) if in_main else None
    if usual is None or not callable(usual):
        yield
        return
    noted: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: noted.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if noted:
            signal.raise_signal(signal.SIGINT)
