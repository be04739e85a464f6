"""natural_order: sorting of file names by the numbers in them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["natural_order"]

_NUMBER = re.compile(r"([0-9]+)")


def natural_order(names: Iterable[str]) -> list[str]:
    """Sort names by the numbers in them, ``slice_9`` before ``slice_10``; upper and lower case are equal."""
    return sorted(names, key=_key)


def _key(name: str) -> tuple[list[Any], str]:
    parts = _NUMBER.split(name)  # text and numbers in turn
    parts[::2] = map(str.lower, parts[::2])
    return [int(part) if position % 2 else part for position, part in enumerate(parts)], name
