"""Every error that seqpipe raises on purpose.

    SeqpipeError
    ├── SourceError                 something is wrong with one input
    │   ├── SourceNotFoundError     (FileNotFoundError) no such file, folder or object
    │   ├── UnreadableSourceError   not a video that can be opened: empty, text, audio only, cut in the header
    │   ├── DamagedSourceError      opened, but some of its frames cannot be decoded
    │   └── FrameRangeError         (IndexError) a frame number or a time outside of the video
    ├── ParameterError              (ValueError) a parameter outside of its bounds
    ├── ManifestError               (ValueError) a line of a manifest that cannot be used
    ├── OutputError                 (OSError) a result that cannot be written
    ├── BackendError                (RuntimeError) a device or an optional package that is not there
    │   └── DeviceMemoryError       (MemoryError) a device that has no room for what is asked for
    └── StateError                  (ValueError) a saved state that belongs to another dataset

A message is composed here, in one place: the source it concerns, the fact, what is allowed, what to do.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
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
    "SeqpipeError",
    "SourceError",
    "SourceNotFoundError",
    "StateError",
    "UnreadableSourceError",
    "printable",
    "user_line",
    "warn_caller",
]

_PACKAGE: Final = str(Path(__file__).parent) + os.sep


class SeqpipeError(Exception):
    """Base of all errors of seqpipe.

    Args:
        fact: what is wrong, with the offending value, as one clause without a full stop.
        source: the file, URL or object concerned.
        allowed: the values that would have been accepted.
        advice: what the user can do now, as a sentence without a full stop.
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
    """The source cannot be opened as a video."""


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
    """A parameter has a value that it must not have."""


class ManifestError(SeqpipeError, ValueError):
    """A line of a manifest cannot be used; the message names the file and the line."""


class OutputError(SeqpipeError, OSError):
    """A result cannot be written."""


class BackendError(SeqpipeError, RuntimeError):
    """A device or an optional package is not available."""


class DeviceMemoryError(BackendError, MemoryError):
    """A device has no room for what is asked for; no sample is to blame, so none is skipped or substituted for it."""


class StateError(SeqpipeError, ValueError):
    """A saved state does not belong to this dataset."""


def printable(name: str) -> str:
    """A source's name with what cannot be printed escaped, so that a message stays on its line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name)


def _rebuild(kind: type[SeqpipeError], state: dict[str, object]) -> SeqpipeError:
    error = kind.__new__(kind)
    error.__dict__.update(state)
    error.args = (state["fact"],)
    return error


def warn_caller(message: str) -> None:
    """Warn of something, at the line of the user's that led to it: the nearest one outside of this package.

    Args:
        message: as :func:`warnings.warn` takes it.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_ours(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def user_line() -> str:
    """The line of the user's code that is being run, as ``train.py:31 (function)``; empty if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    if frame is None:
        return ""
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} ({frame.f_code.co_name})"


def _is_ours(frame: FrameType) -> bool:
    """Whether a frame is of this package, or the ``__init__`` that dataclasses write."""
    code = frame.f_code
    return code.co_filename.startswith(_PACKAGE) or (code.co_filename, code.co_name) == (
        "<string>",
        "__init__",
    )
