"""Request: a sequence to be read, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ...array import Array, BoolArray, IntArray
from ...errors import DamagedSourceError, SeqpipeError, SourceError
from ...sequence import Sequence
from ..convert.output import OutputSpec
from ..packet_index import PacketIndex
from ..source.source import Origin

__all__ = ["Outcomes", "Request", "assembled", "check_memory", "lost_error"]

Outcomes: TypeAlias = "dict[int, Sequence | SeqpipeError]"
"""What became of requests, by their place among those that were given together."""


@dataclass(frozen=True, eq=False)
class Request:
    """A sequence to be read.

    Attributes:
        origin: the video: a path or URL.
        frames: frame numbers to put at each position, int64; -1 for a position that is filled with ``fill``.
        padding: positions that are padding; their frame numbers are given as -1 and their times as NaN.
        output: color, dtype and geometry of the pixels. Every request may have its own, such as a window and a mirror
            drawn for it (``crop``, ``size``, ``mirror``): on a GPU that is done by the launch that makes its pictures,
            and a window never seen before is not waited for.
        fill: the value of the pixels at positions without a frame, or one for each channel.
        out: where to write the pixels, one picture per position; a new array by default.
    """

    origin: Origin
    frames: IntArray
    padding: BoolArray | None = None
    output: OutputSpec = field(default_factory=OutputSpec)
    fill: float | tuple[float, ...] = 0
    out: Array | None = None

    def filled(self, place: int) -> Iterator[tuple[Any, float]]:
        """What is filled at a position, as an index into the pixels, and with which value."""
        if not isinstance(self.fill, tuple):
            yield place, self.fill
            return
        for channel, value in enumerate(self.fill):
            yield (place, channel) if self.output.layout == "FCHW" else (place, ..., channel), value


def check_memory(out: Array, shape: tuple[int, ...], dtype: np.dtype[Any], source: str) -> None:
    """See that memory which was given fits a request.

    Raises:
        SourceError: it does not; the message names both shapes.
    """
    if out.shape != shape or out.dtype != dtype:
        raise SourceError(
            f"its frames make {shape} {dtype}, but {out.shape} {out.dtype} was expected",
            source=source,
            advice="The file may have been replaced by one of another size: make the dataset anew",
        )


def assembled(
    index: PacketIndex, request: Request, pixels: Array, lost: dict[int, str]
) -> Sequence | SeqpipeError:
    """The sequence of a request whose frames were decoded, or the error if some of them were lost."""
    missing = {frame: lost[frame] for frame in request.frames.tolist() if frame in lost} if lost else {}
    if missing:
        return lost_error(index, missing)
    padding = request.frames < 0 if request.padding is None else request.padding | (request.frames < 0)
    frames = np.where(padding, -1, request.frames)
    times = np.where(padding, np.nan, index.timestamps[np.maximum(request.frames, 0)])
    return Sequence(pixels, request.output.layout, index.info.source, frames, times)


def lost_error(index: PacketIndex, lost: dict[int, str], advice: str = "") -> DamagedSourceError:
    """The error for frames that could not be delivered."""
    numbers = tuple(sorted(lost))
    some = ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "")
    frames = f"frame {some}" if len(numbers) == 1 else f"{len(numbers)} frames ({some})"
    return DamagedSourceError(
        f"{frames} cannot be decoded ({lost[numbers[0]]})",
        source=index.info.source,
        advice=advice or "Ask for other frames, or leave the video out with on_error='skip'",
        lost=numbers,
    )
