"""Validation of frame numbers and times given by users."""

from __future__ import annotations

import math
import operator
from collections.abc import Sized
from numbers import Real
from typing import Any

import numpy as np

from ...core.param import check_list
from ...errors import ParameterError

__all__ = ["check_frame_number", "check_frame_numbers", "check_time_s", "resolve_slice"]


def check_frame_number(number: Any) -> int:
    """Return a frame number as an int.

    Raises:
        ParameterError: the number is not a whole number.
    """
    try:
        if not isinstance(number, (bool, np.bool_)):
            return operator.index(number)
    except TypeError:
        pass  # raised below
    raise ParameterError(f"{number!r} is not a frame number", allowed="whole numbers", advice=_advice(number))


def _advice(number: Any) -> str:
    if isinstance(number, (bool, np.bool_)):
        return "For a mask of frames use numpy.flatnonzero(mask)"
    if isinstance(number, Sized) and not isinstance(number, str):
        return "For several frames use frames([0, 8, 16]), or a slice"
    return "For times use at([seconds]); round other numbers"


def check_frame_numbers(numbers: Any) -> list[int]:
    """Return frame numbers as a list of ints.

    Raises:
        ParameterError: the argument is not a list, or one of its entries is not a whole number.
    """
    return [
        check_frame_number(number)
        for number in check_list("numbers", numbers, "a list of frame numbers; video[8] is one frame")
    ]


def resolve_slice(frames: slice, count: int) -> range:
    """Return the frame numbers that a slice selects from ``count`` frames.

    Raises:
        ParameterError: a bound or the step is not a whole number, or the step is 0.
    """
    try:
        return range(count)[frames]
    except (TypeError, ValueError):
        allowed = "whole numbers, and a step that is not 0"
        raise ParameterError(f"{frames} is not valid", allowed=allowed) from None


def check_time_s(seconds: Any) -> float:
    """Return a time in seconds as a float.

    Raises:
        ParameterError: the time is not a number.
    """
    try:
        if type(seconds) is not bool and isinstance(seconds, Real):
            return float(seconds)
    except OverflowError:  # an int beyond the range of float
        return math.inf if seconds > 0 else -math.inf
    raise ParameterError(f"{seconds!r} is not a time", allowed="a number of seconds")
