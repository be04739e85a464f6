"""JSON of unknown origin: an error names the field that is not what it should be."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from reprlib import repr as short
from typing import Any, Final, TypeVar

from ..errors import ParameterError, SeqpipeError

__all__ = ["field_of", "parse_json", "reading_json"]

KindT = TypeVar("KindT")

_MAX_DEPTH: Final = 200
"""Nesting from which text is refused: what is read is walked by recursion."""
_NAMES: Final = {
    bool: "true or false",
    dict: "an object",
    int: "a whole number",
    list: "a list",
    str: "a text",
}


def parse_json(text: object) -> Any:
    """Return the value of a JSON text."""
    if not isinstance(text, (str, bytes)):
        raise ValueError(f"{short(text)} is no text")
    try:
        value = json.loads(text)
    except RecursionError:
        raise _too_deep() from None
    level, depth = [value], 0
    while level := [
        value
        for whole in level
        if isinstance(whole, (dict, list))
        for value in (whole.values() if isinstance(whole, dict) else whole)
    ]:
        depth += 1
        if depth > _MAX_DEPTH:
            raise _too_deep()
    return value


def _too_deep() -> ValueError:
    return ValueError(f"it is nested more than {_MAX_DEPTH} levels deep")


@contextmanager
def reading_json(what: str, source: str) -> Iterator[None]:
    """Turn whatever the block raises at a value that nobody has checked into an error that names its kind."""
    try:
        yield
    except SeqpipeError:  # its message names the parameter
        raise
    except _FieldError as error:
        raise ParameterError(
            f"this is no {what} ({error})", source=source, allowed="what to_json() gives"
        ) from error
    # constructors of all operators run on the values, so no list of exceptions is complete
    except Exception as error:
        raise ParameterError(
            f"this is no {what} ({type(error).__name__}: {error})",
            source=source,
            allowed="what to_json() gives",
        ) from error


class _FieldError(ValueError):
    """A field of a JSON object is missing, or of another type."""


def field_of(entry: object, name: str, kind: type[KindT], where: str) -> KindT:
    """Return a field of a JSON object."""
    if not isinstance(entry, Mapping):
        raise _FieldError(f"{where or 'the whole'}={short(entry)} is not valid, but an object")
    path = f"{where}.{name}" if where else name
    if name not in entry:
        raise _FieldError(f"{path} is missing, {_NAMES.get(kind, 'a value')}")
    value = entry[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _FieldError(f"{path}={short(value)} is not valid, but {_NAMES.get(kind, 'another value')}")
    return value
