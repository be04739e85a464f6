"""Errors that pass from a worker process to the process that waits for it, whatever their types are."""

from __future__ import annotations

import pickle
from traceback import format_exception_only

from ..errors import WorkerError

__all__ = ["as_passed", "as_passed_by_text"]

_PROBE = "text of an error"


def as_passed(error: BaseException) -> BaseException:
    """Return an error that another process receives as it is, or else a WorkerError with its type and its text."""
    try:
        received = pickle.loads(pickle.dumps(error))
        passes = type(received) is type(error) and str(received) == str(error)
    except Exception:  # pickling and unpickling run the user's code, which may raise anything
        passes = False
    return error if passes else _described(error)


def as_passed_by_text(error: Exception) -> Exception:
    """Return an error whose type can be raised again with another text, as torch's DataLoader does; else likewise."""
    kind = type(error)
    try:
        pickle.dumps(kind)
        passes = not hasattr(kind, "message") and _PROBE in str(kind(_PROBE))
    except Exception:  # as above
        passes = False
    return error if passes else _described(error)


def _described(error: BaseException) -> WorkerError:
    text = "".join(format_exception_only(type(error), error)).strip()
    return WorkerError(
        text.rstrip("."), advice=f"{type(error).__name__} itself does not pass between processes"
    )
