"""Ctrl-C at every place where Python asks for signals: before the first line of a function, and after a call of C."""

from __future__ import annotations

import inspect
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

__all__ = ["INTERRUPTIBLE", "PROGRAM", "Place", "lost_interrupts", "places"]

# A shell that runs the tests in the background has SIGINT ignored, nohup SIGHUP, and children would inherit that.
INTERRUPTIBLE = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    "; signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
)
PROGRAM = INTERRUPTIBLE + "from seqpipe.__main__ import main; main()"


class Place(NamedTuple):
    """Where Python asks for signals.

    Attributes:
        file: of the function.
        function: its name.
        line: where it is.
        after: the function of C that was called there; "" where the function itself begins.
    """

    file: str
    function: str
    line: int
    after: str


def places(run: Callable[[], object]) -> list[Place]:
    """All places that this thread comes by, each once."""
    found: dict[Place, None] = {}
    _watched(run, lambda place: found.setdefault(place))
    return list(found)


def lost_interrupts(run: Callable[[], object], *, every: int = 1) -> list[Place]:
    """The places at which a Ctrl-C, when they are come by first, does not end a run with KeyboardInterrupt.

    Args:
        run: may be gone through again and again, also after it was interrupted.
        every: try every so manieth place only.
    """
    assert threading.current_thread() is threading.main_thread(), "others get no signals"
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return [place for place in places(run)[::every] if _is_lost(run, place)]
    finally:
        signal.signal(signal.SIGINT, usual)


def _is_lost(run: Callable[[], object], wanted: Place) -> bool:
    """Whether it is lost at a place twice: the run before may have left something that is only tidied up there."""
    if _came(run, wanted):
        return False
    run()
    return not _came(run, wanted)


def _came(run: Callable[[], object], wanted: Place) -> bool:
    """Whether an interrupt at a place ends a run; also if it does not come by any more."""
    came = []

    def look(place: Place) -> None:
        if place == wanted and not came:
            came.append(place)
            signal.raise_signal(signal.SIGINT)

    try:
        _watched(run, look)
    except KeyboardInterrupt:
        return True
    return not came


def _watched(run: Callable[[], object], look: Callable[[Place], object]) -> None:
    """Show every place that a run comes by to a function, which may raise there as a handler of a signal does."""

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        # behind its lock for imports, which it takes before it tries, Python 3.10 would never give it back
        if code.co_filename.startswith("<frozen importlib"):
            return
        if event == "c_return" or (event == "call" and not _goes_on(frame)):
            after = getattr(argument, "__qualname__", "?") if event == "c_return" else ""
            look(Place(code.co_filename, code.co_name, frame.f_lineno, after))

    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)


def _goes_on(frame: FrameType) -> bool:
    """Whether a generator goes on, or is closed: where that is done by C, it does not ask for signals."""
    return (
        bool(frame.f_code.co_flags & inspect.CO_GENERATOR) and frame.f_lineno != frame.f_code.co_firstlineno
    )
