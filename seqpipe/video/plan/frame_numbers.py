"""Frame numbers and times as a user gives them, checked."""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Any

import numpy as np

from ...errors import ParameterError
from ...param import check_list

__all__ = ["numbers_of", "time_s", "whole_number", "whole_numbers"]


def whole_number(number: Any) -> int:
    """A frame number.

    Raises:
        ParameterError: it is no whole number.
    """
    try:
        if not isinstance(number, (bool, np.bool_)):
            return operator.index(number)
    except TypeError:
        pass  # told below
    raise ParameterError(
        f"{number!r} is not a frame number",
        allowed="whole numbers",
        advice="For a mask of frames use numpy.flatnonzero(mask)"
        if isinstance(number, (bool, np.bool_))
        else "For times use at([seconds])",
    )


def whole_numbers(numbers: Any) -> list[int]:
    """Frame numbers.

    Raises:
        ParameterError: one of them is no whole number, or they are not several.
    """
    return [whole_number(number) for number in check_list("numbers", numbers, "a list of frame numbers")]


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
    try:
        if type(seconds) is not bool and isinstance(seconds, Real):
            return float(seconds)
    except OverflowError:  # of a whole number beyond every float
        return math.inf if seconds > 0 else -math.inf
    raise ParameterError(f"{seconds!r} is not a time", allowed="a number of seconds")
