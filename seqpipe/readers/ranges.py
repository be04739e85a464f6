"""Range: the part of a video that a dataset may use, in frames or in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..array import FloatArray
from ..core.param import Param
from ..errors import FrameRangeError, ParameterError
from ..sampling import Span, span_between

__all__ = ["COLUMNS", "Range"]

_FRAME = {"lo": 0, "unit": "frames", "optional": True}
_TIME = {"kind": float, "unit": "s", "optional": True}

COLUMNS: Final[dict[str, Param]] = {
    param.name: param
    for param in (
        Param(name="start_frame", doc="First frame of the range", **_FRAME),  # type: ignore[arg-type]  # mixed values
        Param(name="end_frame", doc="Frame after the last one of the range", **_FRAME),  # type: ignore[arg-type]  # same
        Param(name="start_s", doc="Start of the range", **_TIME),  # type: ignore[arg-type]  # same
        Param(name="end_s", doc="End of the range; a frame that begins there is left out", **_TIME),  # type: ignore[arg-type]  # same
    )
}
"""The parameters of a range, which are also the columns of a manifest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """The part of a video that samples are taken from; half-open, in frames or in seconds.

    Seconds are on the video's own clock, like ``Sequence.timestamps``, and need not begin at 0. None leaves an end
    open. A range in seconds may end after the end of the video; a range in frames may not.

    Attributes:
        start_frame: the first frame, counted from 0.
        end_frame: the frame after the last one.
        start_s: start in seconds; a frame that begins there belongs to the range.
        end_s: end in seconds; a frame that begins there does not belong to the range.

    Raises:
        ParameterError: frames and seconds are mixed, the end is not after the start, or a value is not a number.
    """

    start_frame: int | None = None
    end_frame: int | None = None
    start_s: float | None = None
    end_s: float | None = None

    def __post_init__(self) -> None:
        for name, param in COLUMNS.items():
            object.__setattr__(self, name, param.check(getattr(self, name)))
        ends = [name for name in COLUMNS if getattr(self, name) is not None]
        if len({name.rpartition("_")[2] for name in ends}) > 1:
            raise ParameterError(
                f"{' and '.join(ends)} cannot be mixed in one range",
                allowed="a range in frames, or one in seconds",
            )
        if len(ends) == 2 and not getattr(self, ends[0]) < getattr(self, ends[1]):
            values = ", ".join(f"{name}={getattr(self, name):g}" for name in ends)
            raise ParameterError(f"{values} is an empty range", allowed=f"{ends[0]} < {ends[1]}")

    @property
    def in_seconds(self) -> bool:
        """Whether the range is given in seconds, so that its frames follow from timestamps."""
        return self.start_s is not None or self.end_s is not None

    def of(self, frames: int, timestamps: FloatArray | None) -> Span:
        """Return the span of a video's frames that the range selects.

        Args:
            frames: number of frames of the video.
            timestamps: presentation times of all frames in seconds; required for a range in seconds.

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
