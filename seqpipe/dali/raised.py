"""Errors as DALI's users catch them: those of definitions and of runs are RuntimeErrors as well."""

from __future__ import annotations

import re
from functools import cache
from types import TracebackType
from typing import Any, Final

from ..errors import ParameterError, SeqpipeError

__all__ = ["as_dali_raises", "dali_error"]

_TEXTS: Final = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (
            r"crop=\S.* of images of|a window from .* of axis",
            "Slice can't be placed out of bounds with current policy. Got:",
        ),
        (r"layout='(\w*)' is unknown", r'The layout "\1" does not match any of the allowed layouts'),
        (
            r"sigma=-(\S+) is not valid",
            r"`sigma` must have non-negative values, got -\1 for sample: 0, axis: 0.",
        ),
        (r"\S+ ([&|^]|<<|>>) \S+$", r"Inputs to bitwise operator `\1` must be of integral type."),
        (r"a signal of \d+ samples", "Signal is too short"),
        (r"dct_type=1, normalize=True", "Ortho-normalization is not supported for DCT type I"),
        (
            r"dct_type=(\d+), normalize=\w+ of",
            r"Unsupported DCT type: \1. Supported types are: 1, 2, 3, 4",
        ),
        (r"^the array has the dtype", "Unknown Numpy type string"),
    )
)
"""The words in which DALI states what seqpipe's operators state: what they say, and what DALI says."""


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
            found = ((pattern.search(error.fact), text) for pattern, text in _TEXTS)
            said = next((match.expand(text) for match, text in found if match), None)
            if said is not None:
                error.fact = f"{said} ({error.fact})"


as_dali_raises = _AsDaliRaises()
"""DALI raises RuntimeError for what its operators find, and TypeError or ValueError for arguments."""


def dali_error(fact: str, **more: Any) -> Any:
    """Return an error about an argument as DALI raises it."""
    return _kind_of(ParameterError)(fact, **more)


@cache
def _kind_of(kind: Any) -> Any:
    """Return a kind of error that is a RuntimeError as well; errors of arguments are TypeErrors, too."""
    more = (RuntimeError, TypeError) if issubclass(kind, ParameterError) else (RuntimeError,)

    def reduced(error: SeqpipeError) -> tuple[Any, ...]:
        plain: Any = kind.__reduce__(error)
        return plain[0], (kind, plain[1][1])  # pickled as its own kind

    members = {"__module__": kind.__module__, "__doc__": kind.__doc__, "__reduce__": reduced}
    return type(kind.__name__, (kind, *more), members)
