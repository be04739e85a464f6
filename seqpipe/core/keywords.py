"""Unknown keyword arguments: refused with the name that is meant, by functions and constructors of the public API."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Final, ParamSpec, TypeVar

from ..errors import ParameterError

__all__ = ["OF_OUTPUT", "OF_SEVERAL", "nearest", "refuses_unknown", "refuses_unknown_fields"]

_OF_READERS: Final = (
    "Read sequences by seqpipe.videos(source, Clip(length, stride=…)), or one by .sequence(start, length)"
)
OF_OUTPUT: Final[Mapping[str, str]] = {
    name: f"Write output=OutputSpec({name}=…)"
    for name in (
        *(
            "color",
            "dtype",
            "crop",
            "size",
            "short_side",
            "max_side",
            "rotate",
            "mirror",
            "layout",
            "mean",
            "std",
        ),
    )
}
"""Advice for the fields of :class:`seqpipe.OutputSpec` where it is the value of an argument."""

OF_SEVERAL: Final[Mapping[str, str]] = {**OF_OUTPUT, "sequence_length": _OF_READERS, "stride": _OF_READERS}
"""The same, and for arguments of readers of sequences, where one video is opened."""

P = ParamSpec("P")
R = TypeVar("R")
ClassT = TypeVar("ClassT", bound=type)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the most similar known name, ignoring case; "" if none is similar."""
    from difflib import get_close_matches  # needed for messages only

    folded = {other.lower(): other for other in known}
    close = get_close_matches(name.strip().lower(), folded, n=1, cutoff=0.7)
    return folded[close[0]] if close else ""


def refuses_unknown(
    owner: str = "", elsewhere: Mapping[str, str] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that makes unknown keyword arguments a :class:`ParameterError` with a suggestion."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        code = function.__code__
        known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        accepted, called, others = frozenset(known), owner or function.__name__, elsewhere or {}

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            if not accepted.issuperset(kwargs):
                name = next(name for name in kwargs if name not in accepted)
                meant = nearest(name, (*known, *others))
                advice = others.get(meant) or (f"Perhaps {meant!r} is meant" if meant else "")
                raise ParameterError(
                    f"{called} has no argument {name}",
                    advice=advice or f"Its arguments: {', '.join(one for one in known if one != 'self')}",
                )
            return function(*args, **kwargs)

        return checked

    return decorate


def refuses_unknown_fields(elsewhere: Mapping[str, str] | None = None) -> Callable[[ClassT], ClassT]:
    """Return a decorator of dataclasses whose constructors refuse unknown names, as :func:`refuses_unknown`."""

    def decorate(cls: ClassT) -> ClassT:
        type.__setattr__(cls, "__init__", refuses_unknown(cls.__name__, elsewhere)(vars(cls)["__init__"]))
        return cls

    return decorate
