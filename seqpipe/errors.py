"""The exceptions that seqpipe raises.

    SeqpipeError
    ├── SourceError                 something is wrong with one input
    │   ├── SourceNotFoundError     (FileNotFoundError) no such file, folder or object
    │   ├── UnreadableSourceError   the source cannot be opened: empty, text, audio only, truncated header
    │   ├── DamagedSourceError      the source opens, but some of its frames cannot be decoded
    │   └── FrameRangeError         (IndexError) a frame number or a time is outside of the video
    ├── ParameterError              (ValueError) an argument is invalid
    │   └── ResultSizesError        samples in one array get results of different sizes
    ├── ManifestError               (ValueError) a line of a manifest is invalid
    ├── OutputError                 (OSError) a result cannot be written
    ├── BackendError                (RuntimeError) a device or an optional package is not available
    │   └── DeviceMemoryError       (MemoryError) a device is out of memory
    ├── StateError                  (ValueError) a saved state is not valid, or belongs to another dataset
    └── WorkerError                 (RuntimeError) the user's code raised what a process cannot pass on

Each message names the source, the fact, the allowed values and the remedy, in this order.
"""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType
from typing import Final

__all__ = [
    "BackendError",
    "DamagedSourceError",
    "DeviceMemoryError",
    "FrameRangeError",
    "ManifestError",
    "OutputError",
    "ParameterError",
    "ResultSizesError",
    "SeqpipeError",
    "SourceError",
    "SourceNotFoundError",
    "StateError",
    "UnreadableSourceError",
    "WorkerError",
    "described_type",
    "printable",
    "user_line",
    "warn_caller",
]

_PACKAGE: Final = os.path.dirname(__file__) + os.sep  # noqa: PTH120  pathlib takes a fifth of the import


class SeqpipeError(Exception):
    """Base class of all errors of seqpipe.

    Args:
        fact: what is wrong, with the offending value, as a clause without a full stop.
        source: the file, URL or object concerned.
        allowed: the accepted values.
        advice: what the user can do, as a sentence without a full stop.
    """

    def __init__(
        self, fact: str, *, source: str | None = None, allowed: str | None = None, advice: str | None = None
    ) -> None:
        self.fact = fact
        self.source = source
        self.allowed = allowed
        self.advice = advice
        super().__init__(fact)

    def __str__(self) -> str:
        where = f"{printable(self.source)}: " if self.source else ""
        tail = f"; allowed: {self.allowed}" if self.allowed else ""
        advice = f". {self.advice}" if self.advice else ""
        return f"{where}{self.fact}{tail}{advice}."

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.__dict__.copy())


class SourceError(SeqpipeError):
    """Something is wrong with one input; the others are not affected."""


class SourceNotFoundError(SourceError, FileNotFoundError):
    """There is no such file, folder or object."""


class UnreadableSourceError(SourceError):
    """The source cannot be opened: it is not in a supported format, or its header is damaged."""


class DamagedSourceError(SourceError):
    """Some frames of the source cannot be decoded.

    Attributes:
        lost: the frame numbers that cannot be delivered, ascending.
    """

    def __init__(
        self,
        fact: str,
        *,
        source: str | None = None,
        allowed: str | None = None,
        advice: str | None = None,
        lost: tuple[int, ...] = (),
    ) -> None:
        super().__init__(fact, source=source, allowed=allowed, advice=advice)
        self.lost = lost


class FrameRangeError(SourceError, IndexError):
    """A frame number or a time lies outside of the video."""


class ParameterError(SeqpipeError, ValueError):
    """An argument has an invalid value."""


class ResultSizesError(ParameterError):
    """Results of samples in one array differ in size; those of samples in a list may."""


class ManifestError(SeqpipeError, ValueError):
    """A line of a manifest is invalid; the message names the file and the line."""


class OutputError(SeqpipeError, OSError):
    """A result cannot be written."""


class BackendError(SeqpipeError, RuntimeError):
    """A device or an optional package is not available."""


class DeviceMemoryError(BackendError, MemoryError):
    """A device is out of memory. ``on_error`` does not apply to it, since no sample is at fault."""


class StateError(SeqpipeError, ValueError):
    """A saved state is not valid, or belongs to another dataset."""


class WorkerError(SeqpipeError, RuntimeError):
    """The user's code raised, in a worker process, an exception that cannot be pickled; the message is its text."""


def printable(name: str) -> str:
    """Return a source's name with unprintable characters escaped, so that a message stays on one line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name)


def described_type(value: object) -> str:
    """Return the name of a value's type with its article, such as "an int"."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _rebuild(kind: type[SeqpipeError], state: dict[str, object]) -> SeqpipeError:
    error = kind.__new__(kind)
    error.__dict__.update(state)
    error.args = (state["fact"],)
    return error


def warn_caller(message: str) -> None:
    """Issue a UserWarning that points at the user's code: the nearest frame outside of this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_ours(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def user_line() -> str:
    """Return the line of user code that runs, as ``train.py:31 (function)``; "" if only seqpipe is on the stack."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    if frame is None:
        return ""
    file = frame.f_code.co_filename.rpartition(os.sep)[2]
    return f"{file}:{frame.f_lineno} ({frame.f_code.co_name})"


def _is_ours(frame: FrameType) -> bool:
    """Return whether a stack frame is in this package, or in an ``__init__`` generated by dataclasses."""
    code = frame.f_code
    return code.co_filename.startswith(_PACKAGE) or (code.co_filename, code.co_name) == (
        "<string>",
        "__init__",
    )
