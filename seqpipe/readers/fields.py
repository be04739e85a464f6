"""Fields: what a manifest says of videos beside their labels and ranges, as numbers where all of a column are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Any

import numpy as np

__all__ = ["fields_of"]


def fields_of(rows: Seq[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The fields of each row, of one kind in all of them.

    The texts of a column become whole numbers, or else floats, if each is written as Python writes that number (so that
    ``007`` stays a text). A list of numbers becomes an array. Everything else stays as it is.

    Args:
        rows: of a table; some may lack some columns.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    kinds = {name: _kind([row[name] for row in rows if name in row]) for name in names}
    return [{name: kinds[name](value) for name, value in row.items()} for row in rows]


def _kind(values: Seq[Any]) -> Any:
    """What makes fields of the values of a column."""
    if all(isinstance(value, str) for value in values):
        return next((kind for kind in (int, float) if all(_is(value, kind) for value in values)), str)
    return _plain


def _is(text: str, kind: type[int] | type[float]) -> bool:
    try:
        number = kind(text)
    except ValueError:
        return False
    if kind is int:
        return str(number) == text and abs(number) < 1 << 63
    whole = text.lstrip("-").partition(".")[0]
    return math.isfinite(number) and text.isascii() and "_" not in text and (whole == "0" or whole[:1] != "0")


def _plain(value: Any) -> Any:
    if isinstance(value, list) and value:
        found = _as_array(value)
        return value if found is None else found
    return value


def _as_array(value: list[Any]) -> np.ndarray[Any, Any] | None:
    """A list as an array of numbers; None if it is none."""
    try:
        found = np.array(value)
    except ValueError:  # lists of different lengths
        return None
    return found if found.dtype.kind in "biuf" else None
