"""Requests for sequences, and their outcomes: a sequence or an error."""

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

__all__ = ["Outcomes", "Request", "assemble", "check_memory", "lost_error"]

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
    """Check that an array given for a request's pixels has their shape and dtype.

    Raises:
        SourceError: it does not; the message names both shapes.
    """
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
