"""Requests for sequences, and their outcomes: a sequence or an error."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sized
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from ...array import Array, BoolArray, IntArray
from ...core.param import check_list
from ...errors import DamagedSourceError, ParameterError, SeqpipeError, SourceError
from ...sequence import Sequence
from ..convert.output import OutputSpec
from ..packet_index import PacketIndex
from ..source.source import Origin

__all__ = [
    "Outcomes",
    "Request",
    "assemble",
    "check_frame_number",
    "check_frame_numbers",
    "check_memory",
    "check_time_s",
    "lost_error",
    "resolve_slice",
]


def check_frame_number(number: Any) -> int:
    """Return a frame number as an int."""
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
    """Return frame numbers as a list of ints."""
    return [
        check_frame_number(number)
        for number in check_list("numbers", numbers, "a list of frame numbers; video[8] is one frame")
    ]


def resolve_slice(frames: slice, count: int) -> range:
    """Return the frame numbers that a slice selects from ``count`` frames."""
    try:
        return range(count)[frames]
    except (TypeError, ValueError):
        allowed = "whole numbers, and a step that is not 0"
        raise ParameterError(f"{frames} is not valid", allowed=allowed) from None


def check_time_s(seconds: Any) -> float:
    """Return a time in seconds as a float."""
    try:
        if type(seconds) is not bool and isinstance(seconds, Real):
            return float(seconds)
    except OverflowError:  # an int beyond the range of float
        return math.inf if seconds > 0 else -math.inf
    raise ParameterError(f"{seconds!r} is not a time", allowed="a number of seconds")


Outcomes: TypeAlias = "dict[int, Sequence | SeqpipeError]"
"""Sequence or error of each request, by its number among those submitted together."""


@dataclass(frozen=True, eq=False)
class Request:
    """Sequence to be read.

    Attributes:
        origin: the video: a path or URL.
        frames: int64 frame number of each position; -1 for a position that is filled with ``fill``.
        padding: mask of padded positions; the sequence has frame number -1 and time NaN there.
        output: color, dtype and geometry of the pixels. Each request may have its own, such as a random crop and
            mirror (``crop``, ``size``, ``mirror``): on a GPU the conversion kernel applies them at no additional cost.
        fill: pixel value of positions without a frame, or one value for each channel.
        out: array to write the pixels to, one frame per position; a new array by default.
    """

    origin: Origin
    frames: IntArray
    padding: BoolArray | None = None
    output: OutputSpec = field(default_factory=OutputSpec)
    fill: float | tuple[float, ...] = 0
    out: Array | None = None

    def fill_values(self, position: int) -> Iterator[tuple[Any, float]]:
        """Yield the parts of a position to fill, as indices into the pixels, with their values."""
        if not isinstance(self.fill, tuple):
            yield position, self.fill
            return
        for channel, value in enumerate(self.fill):
            yield (position, channel) if self.output.layout == "FCHW" else (position, ..., channel), value


def check_memory(out: Array, shape: tuple[int, ...], dtype: np.dtype[Any], source: str) -> None:
    """Check that an array given for a request's pixels has their shape and dtype."""
    if out.shape != shape or out.dtype != dtype:
        raise SourceError(
            f"its frames make {shape} {dtype}, but {out.shape} {out.dtype} was expected",
            source=source,
            advice="The file may have been replaced by one of another size: create the dataset again",
        )


def assemble(
    index: PacketIndex, request: Request, pixels: Array, lost: dict[int, str]
) -> Sequence | SeqpipeError:
    """Return the sequence of a request whose frames were decoded, or the error if some of them are lost."""
    missing = {frame: lost[frame] for frame in request.frames.tolist() if frame in lost} if lost else {}
    if missing:
        return lost_error(index, missing)
    padding = request.frames < 0 if request.padding is None else request.padding | (request.frames < 0)
    frames = np.where(padding, -1, request.frames)
    times = np.where(padding, np.nan, index.timestamps[np.maximum(request.frames, 0)])
    return Sequence(pixels, request.output.layout, index.info.source, frames, times)


def lost_error(index: PacketIndex, lost: dict[int, str], advice: str = "") -> DamagedSourceError:
    """Return the error for frames that could not be decoded."""
    numbers = tuple(sorted(lost))
    some = ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "")
    frames = f"frame {some}" if len(numbers) == 1 else f"{len(numbers)} frames ({some})"
    return DamagedSourceError(
        f"{frames} cannot be decoded ({lost[numbers[0]]})",
        source=index.info.source,
        advice=advice or "Ask for other frames, or leave the video out with on_error='skip'",
        lost=numbers,
    )
