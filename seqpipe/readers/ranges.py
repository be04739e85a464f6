"""Range: the part of a video that a dataset may use, in frames or in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..array import FloatArray
from ..errors import FrameRangeError, ParameterError
from ..param import Param
from ..sampling import Span, span_between

__all__ = ["COLUMNS", "Range"]

_FRAME = {"lo": 0, "unit": "frames", "optional": True}
_TIME = {"kind": float, "unit": "s", "optional": True}

COLUMNS: Final[dict[str, Param]] = {
    param.name: param
    for param in (
        Param(name="start_frame", doc="First frame of the range", **_FRAME),  # type: ignore[arg-type]  # mixed values
        Param(name="end_frame", doc="Frame after the last one of the range", **_FRAME),  # type: ignore[arg-type]  # same
        Param(name="start_s", doc="Time from which on frames belong to the range", **_TIME),  # type: ignore[arg-type]  # same
        Param(name="end_s", doc="Time from which on frames do not belong to the range any more", **_TIME),  # type: ignore[arg-type]  # same
    )
}
"""The parameters of a range, which are also the columns of a manifest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """The part of a video that samples are taken from, half-open: what begins at the end does not belong to it.

    Either in frames or in seconds; seconds are on the video's own clock, that of ``Sequence.timestamps``, which
    need not begin at 0. What is None is open. A range in seconds may end behind the video's end; a range in
    frames may not.

    Attributes:
        start_frame: the first frame, from 0 on.
        end_frame: the frame after the last one.
        start_s: the time from which on frames belong to it, in seconds.
        end_s: the time from which on frames do not belong to it any more, in seconds.

    Raises:
        ParameterError: frames and seconds are mixed, the end does not lie behind the start, or a value is no number.
    """

    start_frame: int | None = None
    end_frame: int | None = None
    start_s: float | None = None
    end_s: float | None = None

    def __post_init__(self) -> None:
        for name, param in COLUMNS.items():
            object.__setattr__(self, name, param.check(getattr(self, name)))
        given = [name for name in COLUMNS if getattr(self, name) is not None]
        if len({name.rpartition("_")[2] for name in given}) > 1:
            raise ParameterError(
                f"{' and '.join(given)} cannot be mixed in one range",
                allowed="a range in frames, or one in seconds",
            )
        if len(given) == 2 and not getattr(self, given[0]) < getattr(self, given[1]):
            values = ", ".join(f"{name}={getattr(self, name):g}" for name in given)
            raise ParameterError(f"{values} is an empty range", allowed=f"{given[0]} < {given[1]}")

    @property
    def in_seconds(self) -> bool:
        """Whether it takes timestamps to know its frames."""
        return self.start_s is not None or self.end_s is not None

    def of(self, frames: int, timestamps: FloatArray | None) -> Span:
        """The span of a video's frames.

        Args:
            frames: how many frames the video has.
            timestamps: of all of them; needed for a range in seconds.

        Raises:
            FrameRangeError: the range lies outside of the video, or no frame begins in it.
        """
        if self.in_seconds and timestamps is not None:
            return span_between(timestamps, self.start_s, self.end_s)
        first = self.start_frame or 0
        end = frames if self.end_frame is None else self.end_frame
        if first >= frames or end > frames:
            raise FrameRangeError(
                f"the range from frame {first} to {end} is not in the video",
                allowed=f"0 to {frames}, its end",
            )
        return Span(first, end, timestamps)
