"""Time-to-frame lookup: the frame on screen at a time, and the frames between two times.

Timestamps are presentation times in seconds, float64, ascending, one for each frame of a video, on the video's own
clock: the first one need not be 0, and their distances may vary. Frame i is shown from its timestamp until the next
one. Times that were computed or written with six decimals differ from timestamps by rounding errors, so a time and a
timestamp are equal if they differ by at most a microsecond.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..array import FloatArray, IntArray
from ..errors import FrameRangeError, ParameterError
from .clip import Span

__all__ = [
    "EQUAL_S",
    "clock_of",
    "clock_text",
    "end_of",
    "frame_range",
    "frames_at",
    "rate_tolerance_s",
    "span_between",
]

EQUAL_S: Final = 1e-6
"""Largest difference in seconds of times that are equal."""

_COARSEST_TICK_S: Final = 1e-3  # Matroska's default
_INSPECTED: Final = 256  # frames that determine a clock's rounding; bounds the cost of a clip


def clock_text(seconds: float) -> str:
    """Return a time as text: ``1:02:03.250``, or ``2:03.250`` below an hour."""
    sign, milliseconds = "-" if seconds < 0 else "", round(abs(seconds) * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    tail = f"{rest / 1000:06.3f}"
    return f"{sign}{hours}:{minutes:02d}:{tail}" if hours else f"{sign}{minutes}:{tail}"


def frames_at(timestamps: FloatArray, times_s: FloatArray | float) -> IntArray:
    """Return the frame on screen at each time: the last one with a timestamp at or before it, -1 for none."""
    return np.searchsorted(timestamps, np.asarray(times_s) + EQUAL_S, side="right").astype(np.int64) - 1


def frame_range(
    timestamps: FloatArray, start_s: float | None = None, end_s: float | None = None
) -> tuple[int, int]:
    """Return the frames whose timestamps lie in ``[start_s, end_s)``, as ``(first, end)``, end not included.

    Adjacent ranges share no frame and miss none.

    Args:
        timestamps: timestamps of all frames.
        start_s: seconds on the video's clock; None for the first frame.
        end_s: seconds on the video's clock; None for the end of the video.

    Raises:
        ParameterError: ``end_s`` is not after ``start_s``, or one of them is NaN.
        FrameRangeError: no frame begins in the range.
    """
    lo = -np.inf if start_s is None else float(start_s)
    hi = np.inf if end_s is None else float(end_s)
    if not lo < hi:
        raise ParameterError(f"start_s={start_s!r}, end_s={end_s!r} is no range", allowed="start_s < end_s")
    first, end = (int(n) for n in np.searchsorted(timestamps, np.array([lo, hi]) - EQUAL_S, side="left"))
    if first >= end:
        extent = f"{timestamps[0]:.6f} s to {timestamps[-1]:.6f} s" if len(timestamps) else "no frames"
        raise FrameRangeError(
            f"no frame begins from start_s={start_s!r} up to end_s={end_s!r}",
            allowed=f"the timestamps of the frames, {extent}",
            advice="Times are on the video's own clock, which need not begin at 0",
        )
    return first, end


def span_between(timestamps: FloatArray, start_s: float | None = None, end_s: float | None = None) -> Span:
    """Return the span of the frames of :func:`frame_range`, with ``end_s`` as its end in time.

    Raises:
        ParameterError: ``end_s`` is not after ``start_s``, or one of them is NaN.
        FrameRangeError: no frame begins in the range.
    """
    first, end = frame_range(timestamps, start_s, end_s)
    return Span(first, end, timestamps, end_s)


def end_of(span: Span) -> float:
    """Return the end of the span's last frame, in seconds on the video's clock.

    A frame ends when the next one begins. The duration of a video's last frame is estimated as the mean distance of
    the last 256 timestamps, without distances above 1.5 times their median (pauses); 0 for a single frame.
    """
    timestamps = clock_of(span)
    if span.end < len(timestamps):
        end_s = float(timestamps[span.end])
    else:
        end_s = float(timestamps[span.end - 1]) + _typical_distance(timestamps[: span.end])
    return end_s if span.end_s is None else min(end_s, span.end_s)


def rate_tolerance_s(span: Span) -> float:
    """Return the largest difference in seconds at which a timestamp equals a position at a constant rate.

    It is a microsecond, unless the timestamps are a constant rate rounded to ticks. Matroska and WebM store 30 frames/s
    as 0.033, 0.067, 0.100: without tolerance, frame 1 would be on screen at the exact time of frame 2 (0.0667), and
    sampling such a file at its own rate would repeat and skip frames. Rounded timestamps have distances that differ by
    one tick. So if the distances of the span's first 256 frames differ by at most a millisecond, the coarsest tick in
    use, the tolerance is that difference, but at most half a typical distance.
    """
    timestamps = clock_of(span)[span.first : min(span.end, span.first + _INSPECTED)]
    spread_s = float(np.ptp(np.diff(timestamps))) if len(timestamps) > 2 else 0.0
    if spread_s > _COARSEST_TICK_S + EQUAL_S:
        return EQUAL_S
    return max(EQUAL_S, min(spread_s + EQUAL_S, _typical_distance(timestamps) / 2))


def clock_of(span: Span) -> FloatArray:
    """Return the timestamps of all frames of the span's video."""
    if span.timestamps is None or not len(span):
        missing = "no timestamps" if span.timestamps is None else "no frames"
        raise ParameterError(
            f"the span from frame {span.first} to {span.end} has {missing}, so it has no time"
        )
    return span.timestamps


def _typical_distance(timestamps: FloatArray) -> float:
    gaps = np.diff(timestamps[-_INSPECTED:])
    gaps = gaps[gaps > 0]
    return float(gaps[gaps <= 1.5 * np.median(gaps)].mean()) if gaps.size else 0.0
