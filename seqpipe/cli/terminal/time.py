"""Time positions on the command line: ``12.5``, ``1:02:03.250`` or ``123f``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import click

from .options import ParamType

__all__ = ["MARK", "TIMES", "Mark"]

_FORMS = "seconds (12.5), [hh:]mm:ss[.ms] (1:02:03.25) or a number of frames (123f)"
_FRAMES = re.compile(r"(\d+)f", re.ASCII)
_SECONDS = re.compile(r"\d+(\.\d*)?|\.\d+", re.ASCII)
_CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d{1,2}(?:\.\d*)?)", re.ASCII)


@dataclass(frozen=True)
class Mark:
    """A position counted from the first frame, or a duration.

    Attributes:
        value: seconds, or number of frames.
        in_frames: whether ``value`` counts frames.
    """

    value: float
    in_frames: bool = False

    def __str__(self) -> str:
        return f"{self.value:.0f}f" if self.in_frames else f"{self.value:g} s"


class _MarkType(ParamType):
    """Click type of a :class:`Mark`."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Mark:
        if isinstance(value, Mark):
            return value
        try:
            mark = _parse(value.strip())
        except ValueError:  # int() refuses more than 4300 digits
            mark = None
        if mark is None:
            self.fail(f"{value!r} is not a time; allowed: {_FORMS}, none of them negative.", param, ctx)
        return mark


MARK = _MarkType()


class _TimesType(ParamType):
    """Click type of times in seconds, separated by commas."""

    name = "times"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        marks = [MARK.convert(part, param, ctx) for part in value.split(",")]
        if frames := [str(mark) for mark in marks if mark.in_frames]:
            self.fail(f"{frames[0]!r} is a frame, not a time; --frames takes frame numbers.", param, ctx)
        return tuple(mark.value for mark in marks)


TIMES = _TimesType()


def _parse(text: str) -> Mark | None:
    if match := _FRAMES.fullmatch(text):
        return Mark(int(match[1]), in_frames=True)
    if _SECONDS.fullmatch(text):
        return Mark(float(text))
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = match.groups()
    # 60 seconds or more, or 60 minutes or more after hours, are typing errors
    if float(seconds) >= 60 or (hours is not None and int(minutes) >= 60):
        return None
    return Mark(int(hours or 0) * 3600 + int(minutes) * 60 + float(seconds))
