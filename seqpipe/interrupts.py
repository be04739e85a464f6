"""Ctrl-C and SIGTERM in a program that is seqpipe's own: once or ten times, at any moment, it ends in quiet.

Python raises KeyboardInterrupt wherever it is. That is right for what has to be left in order, once. Raised again while
that is done, it leaves locks, parts of files, and threads that abort when the interpreter is taken down under them. So
the first interrupt of such work is raised, those right behind it are not, and who insists later ends the program at
once, as any interrupt does where nothing has to be left in order. Parts of files and locks are tidied away even then.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

__all__ = ["INTERRUPTED", "cleanup_on_exit", "graceful", "install_handlers"]

INTERRUPTED: Final = 130
"""The exit code."""

# Who presses again right away has not seen yet that it was heard; and some shells send each one twice.
_PATIENCE_S: Final = 1.0
_CLEAR_LINE: Final = b"\r\x1b[2K\x1b[?25h"  # of a progress bar, which hides the cursor


class _Interrupts:
    """The handler of both signals.

    Attributes:
        in_order: whether work goes on that has to be left in order.
        last_words: what is said if the program ends at once.
    """

    def __init__(self) -> None:
        self.in_order = False
        self.last_words = "Interrupted."
        self._first_s: float | None = None

    def __call__(self, _number: int, _frame: object) -> None:
        if self._first_s is None and self.in_order:
            self._first_s = time.monotonic()
            raise KeyboardInterrupt
        if self._first_s is None or time.monotonic() - self._first_s > _PATIENCE_S:
            _end_at_once()


_interrupts: Final = _Interrupts()
_lock: Final = threading.RLock()
_unfinished: Final[dict[object, Callable[[], object]]] = {}


def install_handlers() -> None:
    """Let interrupts end this process in quiet; for a program's first line, before the imports that take long."""
    # what a shell has put in the background ignores Ctrl-C, and is to go on doing so
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        if signal.getsignal(number) is usual:
            signal.signal(number, _interrupts)
            # after all other calls: what still comes then could only change how an ended program ends
            atexit.register(signal.signal, number, signal.SIG_IGN)
    printed = sys.unraisablehook

    def lost(found: sys.UnraisableHookArgs) -> None:
        """An interrupt that fell where Python can raise nothing would be printed and forgotten."""
        if found.exc_type is KeyboardInterrupt:
            _end_at_once()
        printed(found)

    sys.unraisablehook = lost


@contextlib.contextmanager
def graceful(farewell: str) -> Iterator[None]:
    """Raise the first interrupt, for what goes on in this context has to be left in order.

    Args:
        farewell: what there is to say then; the interrupt's only argument.

    Raises:
        KeyboardInterrupt: once; what comes later finds the program ending.
    """
    _interrupts.in_order, _interrupts.last_words = True, f"Interrupted. {farewell}"
    try:
        yield
    except KeyboardInterrupt as interrupt:
        interrupt.args = (farewell,)
        raise
    finally:
        _interrupts.in_order = False


@contextlib.contextmanager
def cleanup_on_exit(tidy: Callable[[], object]) -> Iterator[None]:
    """Have something done if the program ends at once in this context; otherwise that is for the block to do.

    Args:
        tidy: called from wherever the program is, also in the middle of the block. What it raises is ignored.
    """
    key = object()
    with _lock:
        _unfinished[key] = tidy
    try:
        yield
    finally:
        with _lock:
            _unfinished.pop(key)


def _end_at_once() -> None:
    _lock.acquire()  # for good: nobody begins anything that would be left behind
    for tidy in list(_unfinished.values()):
        with contextlib.suppress(Exception):
            tidy()
    with contextlib.suppress(OSError):
        os.write(2, _CLEAR_LINE * os.isatty(2) + f"{_interrupts.last_words}\n".encode())
    os._exit(INTERRUPTED)
