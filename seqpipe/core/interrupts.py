"""Handling of Ctrl-C, SIGTERM and SIGHUP in the command line.

The first interrupt inside a :func:`graceful` block raises KeyboardInterrupt, so that the command can close its files
and threads. Interrupts within a second of the first are ignored, since raising again during that cleanup would leave
locks, partial files and threads behind. Later ones, and any interrupt outside of such a block, end the process
immediately without a traceback; functions registered with :func:`cleanup_on_exit` run first.
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

__all__ = ["INTERRUPTED", "TERMINATIONS", "cleanup_on_exit", "graceful", "install_handlers"]

INTERRUPTED: Final = 130
"""The exit code."""
TERMINATIONS: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end a process by default: of job schedulers, and of a terminal that closes; Windows has no SIGHUP."""

# Users press Ctrl-C again before the first response appears, and some shells send each signal twice.
_PATIENCE_S: Final = 1.0
_CLEAR_LINE: Final = b"\r\x1b[2K\x1b[?25h"  # erases a progress bar and shows the cursor that it hides


class _Interrupts:
    """The handler of these signals.

    Attributes:
        graceful: whether the first interrupt raises KeyboardInterrupt.
        message: printed when the process ends immediately.
    """

    def __init__(self) -> None:
        self.graceful = False
        self.message = "Interrupted."
        self._first_s: float | None = None

    def __call__(self, _number: int, _frame: object) -> None:
        if self._first_s is None and self.graceful:
            self._first_s = time.monotonic()
            raise KeyboardInterrupt
        if self._first_s is None or time.monotonic() - self._first_s > _PATIENCE_S:
            _exit_now()


_interrupts: Final = _Interrupts()
_lock: Final = threading.RLock()
_cleanups: Final[dict[object, Callable[[], object]]] = {}


def install_handlers() -> None:
    """Install the handlers of this module; called before the imports of the command line, which take long."""
    # a shell makes background jobs ignore SIGINT, and nohup SIGHUP, and they must go on ignoring it
    defaults = {signal.SIGINT: signal.default_int_handler, **dict.fromkeys(TERMINATIONS, signal.SIG_DFL)}
    for number, default in defaults.items():
        if signal.getsignal(number) is default:
            signal.signal(number, _interrupts)
            # registered first, so called last: a signal after that could only change the exit code
            atexit.register(signal.signal, number, signal.SIG_IGN)
    previous_hook = sys.unraisablehook

    def exit_if_interrupted(unraisable: sys.UnraisableHookArgs) -> None:
        """End the process for a KeyboardInterrupt in a finalizer or callback, which Python prints and drops."""
        if unraisable.exc_type is KeyboardInterrupt:
            _exit_now()
        previous_hook(unraisable)

    sys.unraisablehook = exit_if_interrupted


@contextlib.contextmanager
def graceful(message: str) -> Iterator[None]:
    """Raise KeyboardInterrupt for the first interrupt in this context, so that the block can clean up."""
    _interrupts.graceful, _interrupts.message = True, f"Interrupted. {message}"
    try:
        yield
    except KeyboardInterrupt as interrupt:
        interrupt.args = (message,)
        raise
    finally:
        _interrupts.graceful = False


@contextlib.contextmanager
def cleanup_on_exit(cleanup: Callable[[], object]) -> Iterator[None]:
    """Run a function if an interrupt ends the process immediately in this context; otherwise the block cleans up."""
    key = object()
    with _lock:
        _cleanups[key] = cleanup
    try:
        yield
    finally:
        with _lock:
            _cleanups.pop(key)


def _exit_now() -> None:
    _lock.acquire()  # never released: other threads must not enter or leave a context from here on
    for cleanup in list(_cleanups.values()):
        with contextlib.suppress(Exception):
            cleanup()
    with contextlib.suppress(OSError):
        os.write(2, _CLEAR_LINE * os.isatty(2) + f"{_interrupts.message}\n".encode())
    os._exit(INTERRUPTED)
