"""Errors as DALI's users catch them: those of definitions and of runs are RuntimeErrors as well."""

from __future__ import annotations

from functools import cache
from types import TracebackType
from typing import Any

from ..errors import ParameterError, SeqpipeError

__all__ = ["as_dali_raises"]


class _AsDaliRaises:
    """A context in which errors become the kinds that DALI raises, in addition to their own."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self,
        _: type[BaseException] | None,
        error: BaseException | None,
        __: TracebackType | None,
    ) -> None:
        if isinstance(error, SeqpipeError) and not issubclass(type(error), RuntimeError):
            kind: Any = type(error)
            error.__class__ = _kind_of(kind)


as_dali_raises = _AsDaliRaises()
"""DALI raises RuntimeError for what its operators find, and TypeError or ValueError for arguments."""


@cache
def _kind_of(kind: Any) -> Any:
    """Return a kind of error that is a RuntimeError as well; errors of arguments are TypeErrors, too."""
    more = (RuntimeError, TypeError) if issubclass(kind, ParameterError) else (RuntimeError,)

    def reduced(error: SeqpipeError) -> tuple[Any, ...]:
        plain: Any = kind.__reduce__(error)
        return plain[0], (kind, plain[1][1])  # pickled as its own kind

    members = {"__module__": kind.__module__, "__doc__": kind.__doc__, "__reduce__": reduced}
    return type(kind.__name__, (kind, *more), members)
