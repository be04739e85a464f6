"""Conversion of a manifest's further columns into numbers, arrays and strings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Any

import numpy as np

__all__ = ["fields_of"]


def fields_of(rows: Seq[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the fields of each row, with one type for each column.

    A column of strings becomes integers, or else floats, if all are written without leading zeros (``007`` stays a
    string). A list of numbers becomes an array. Other values are unchanged.

    Args:
        rows: rows of a table by column name; some may lack some columns.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    converters = {name: _converter([row[name] for row in rows if name in row]) for name in names}
    return [{name: converters[name](value) for name, value in row.items()} for row in rows]


def _converter(values: Seq[Any]) -> Any:
    if all(isinstance(value, str) for value in values):
        return next((kind for kind in (int, float) if all(_is_number(value, kind) for value in values)), str)
    return _array_or_same


def _is_number(text: str, kind: type[int] | type[float]) -> bool:
    try:
        number = kind(text)
    except ValueError:
        return False
    if kind is int:
        return str(number) == text and abs(number) < 1 << 63
    whole = text.lstrip("-").partition(".")[0]
    return math.isfinite(number) and text.isascii() and "_" not in text and (whole == "0" or whole[:1] != "0")


def _array_or_same(value: Any) -> Any:
    if not isinstance(value, list) or not value:
        return value
    try:
        array = np.array(value)
    except ValueError:  # nested lists of different lengths
        return value
    return array if array.dtype.kind in "biuf" else value
