"""Sampling at a target frame rate, by timestamps: for variable frame rates and any ratio of rates.

Position k of a clip that starts at time t is the frame on screen at ``t + k / fps``. Times are computed from k, so
rounding errors do not accumulate. Positions at or after the end of the span are padding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ..array import FloatArray, IntArray
from ..core.param import check_fields
from .clip import FrameClip, Span, check_sample, padded
from .clock import clock_of, end_of, rate_tolerance_s
from .params import FPS, STRIDE
from .windows import RandomClips, Windows, require_rng

__all__ = ["RandomRateClips", "RateWindows", "WholeSpans", "at_rate"]


def at_rate(span: Span, fps: float) -> IntArray:
    """Return the frames that show a span at a constant rate.

    Position 0 is the first frame of the span; position k is the frame on screen k / fps seconds later. Frames are
    skipped if the rate is lower than the video's, repeated if it is higher.

    Args:
        span: a part of a video, with timestamps.
        fps: positions per second.

    Returns:
        Frame numbers, int64, ascending; none if the span is empty.

    Raises:
        ParameterError: the rate is out of bounds, or the span has no timestamps.
    """
    FPS.check(fps)
    if not len(span):
        return np.empty(0, dtype=np.int64)
    timeline = _Timeline(span)
    return timeline.shown(span.first, np.arange(timeline.positions(fps)) / fps)


@dataclass(frozen=True)
class RateWindows:
    """Sequences at regular times: windows over the positions of :func:`at_rate`.

    Attributes:
        fps: the target rate in Hz.
        windows: the windows, counted in frames of the target rate.

    Raises:
        ParameterError: the rate is out of bounds.
    """

    fps: float
    windows: Windows

    def __post_init__(self) -> None:
        check_fields(self, FPS)

    @property
    def is_random(self) -> bool:
        """False."""
        return False

    @property
    def length(self) -> int:
        """The windows' ``sequence_length``."""
        return self.windows.length

    def count(self, span: Span) -> int:
        """Return the number of windows of the span; 0 if it is too short.

        Raises:
            ParameterError: the span has no timestamps.
        """
        return self.windows.count(Span(0, _Timeline(span).positions(self.fps))) if len(span) else 0

    def clip(self, span: Span, k: int, rng: np.random.Generator | None = None) -> FrameClip:
        """Return the k-th window.

        Raises:
            ParameterError: ``k`` is out of range, or the span has no timestamps.
        """
        check_sample(self, span, k)
        timeline = _Timeline(span)
        grid = self.windows.clip(Span(0, timeline.positions(self.fps)), k, rng)
        frames = timeline.shown(span.first, grid.frames / self.fps)
        return FrameClip(np.where(grid.frames < 0, np.int64(-1), frames), grid.padding.copy())


@dataclass(frozen=True)
class RandomRateClips:
    """Sequences at a target rate that start at random frames of the source.

    All frames that are followed by enough time for a whole sequence are equally likely. A span that is too short for
    one sequence has none without padding; with padding, its sequences start at its first frame.

    Attributes:
        fps: the target rate in Hz.
        clips: the clips, their stride counted in frames of the target rate.

    Raises:
        ParameterError: the rate is out of bounds.
    """

    fps: float
    clips: RandomClips

    def __post_init__(self) -> None:
        check_fields(self, FPS)

    @property
    def is_random(self) -> bool:
        """True."""
        return True

    @property
    def length(self) -> int:
        """The clips' ``sequence_length``."""
        return self.clips.length

    def count(self, span: Span) -> int:
        """Return ``clips_per_video``; 0 if the span is too short.

        Raises:
            ParameterError: the span has no timestamps.
        """
        fits = len(span) and (self.clips.pad_mode != "none" or _Timeline(span).starts(self._times_s()[-1]))
        return self.clips.clips_per_video if fits else 0

    def clip(self, span: Span, k: int, rng: np.random.Generator | None = None) -> FrameClip:
        """Return a random sequence; ``k`` has no effect besides the state of ``rng``.

        Raises:
            ParameterError: ``k`` is out of range, the span has no timestamps, or ``rng`` is None.
        """
        check_sample(self, span, k)
        timeline, times_s, draw = _Timeline(span), self._times_s(), require_rng(rng)
        if starts := timeline.starts(times_s[-1]):
            return FrameClip.whole(timeline.shown(span.first + int(draw.integers(starts)), times_s))
        have = -(-timeline.positions(self.fps) // self.clips.stride)
        return padded(timeline.shown(span.first, times_s[:have]), self.length, self.clips.pad_mode)

    def _times_s(self) -> FloatArray:
        return np.arange(self.length) * self.clips.stride / self.fps


@dataclass(frozen=True, kw_only=True)
class WholeSpans:
    """All of each span as one sequence, whose length depends on the span.

    Attributes:
        stride: distance between frames; with ``fps``, in frames of that rate.
        fps: the target rate in Hz; None for the source's frames.

    Raises:
        ParameterError: a parameter is out of bounds.
    """

    stride: int = 1
    fps: float | None = None

    def __post_init__(self) -> None:
        check_fields(self, STRIDE, replace(FPS, optional=True))

    @property
    def is_random(self) -> bool:
        """False."""
        return False

    @property
    def length(self) -> None:
        """None: it depends on the span."""
        return

    def count(self, span: Span) -> int:
        """Return 1; 0 if the span is empty."""
        return min(1, len(span))

    def clip(self, span: Span, k: int, rng: np.random.Generator | None = None) -> FrameClip:  # noqa: ARG002  not random
        """Return the sequence.

        Raises:
            ParameterError: the span is empty, or has no timestamps and ``fps`` is given.
        """
        check_sample(self, span, k)
        frames = np.arange(span.first, span.end) if self.fps is None else at_rate(span, self.fps)
        return FrameClip.whole(frames[:: self.stride].astype(np.int64))


class _Timeline:
    """The times at which the frames of a span are on screen."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._clock = clock_of(span)
        self._tolerance_s = rate_tolerance_s(span)
        self._end_s = end_of(span) - self._tolerance_s

    def shown(self, start: int, later_s: FloatArray) -> IntArray:
        """Return the frames on screen at times after the timestamp of frame ``start``; past the end, the last one."""
        clock = self._clock[self._span.first : self._span.end]
        times_s = self._clock[start] + later_s + self._tolerance_s
        frames: IntArray = (
            self._span.first - 1 + np.searchsorted(clock, times_s, side="right").astype(np.int64)
        )
        return frames

    def positions(self, fps: float) -> int:
        """Return the number of times k / fps from the first frame that lie before the end, at least 1."""
        duration_s = self._end_s - float(self._clock[self._span.first])
        # duration_s * fps may be off by one through rounding, so compare k / fps as shown() computes it
        near = max(0, math.floor(duration_s * fps) - 1)
        return max(1, near + sum(k / fps < duration_s for k in range(near, near + 4)))

    def starts(self, last_s: float) -> int:
        """Return the number of frames that are followed by at least ``last_s`` seconds of the span."""
        if last_s == 0:
            return len(self._span)
        clock = self._clock[self._span.first : self._span.end]
        return int(np.searchsorted(clock, self._end_s - last_s, side="left"))
