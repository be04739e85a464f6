"""Frame numbers and times as a user gives them, checked."""

from __future__ import annotations

import operator
from numbers import Real
from typing import Any

from ...errors import ParameterError
from ...param import listed

__all__ = ["numbers_of", "time_s", "whole_number", "whole_numbers"]


def whole_number(number: Any) -> int:
    """A frame number.

    Raises:
        ParameterError: it is no whole number.
    """
    try:
        return operator.index(number)
    except TypeError:
        raise ParameterError(
            f"{number!r} is not a frame number", allowed="whole numbers", advice="For times use at([seconds])"
        ) from None


def whole_numbers(numbers: Any) -> list[int]:
    """Frame numbers.

    Raises:
        ParameterError: one of them is no whole number, or they are not several.
    """
    return [whole_number(number) for number in listed("numbers", numbers, "a list of frame numbers")]


def numbers_of(chosen: slice, count: int) -> range:
    """The frame numbers that a slice takes of so many.

    Raises:
        ParameterError: its ends are no whole numbers, or it goes by steps of 0.
    """
    try:
        return range(count)[chosen]
    except (TypeError, ValueError):
        allowed = "whole numbers, and a step that is not 0"
        raise ParameterError(f"{chosen} is not valid", allowed=allowed) from None


def time_s(seconds: Any) -> float:
    """A time.

    Raises:
        ParameterError: it is no number.
    """
    if not isinstance(seconds, Real):
        raise ParameterError(f"{seconds!r} is not a time", allowed="a number of seconds")
    return float(seconds)
