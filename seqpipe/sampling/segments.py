"""Segment sampling: one frame from each of several equal parts of a video."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..array import IntArray
from ..core.param import check_fields
from .clip import FrameClip, Span, check_sample
from .params import COUNT, EVERY, SEGMENT_MODE, SEGMENTS, SegmentMode
from .windows import require_rng

__all__ = ["UniformSegments", "every", "linspace", "uniform"]


@dataclass(frozen=True, kw_only=True)
class UniformSegments:
    """One frame from each of ``segments`` nearly equal parts of the span, as in temporal segment networks.

    With n frames, part i has the frames from ``i * n // segments`` to ``(i + 1) * n // segments``, end not included;
    the parts differ by at most one frame and cover the span. "random" draws one frame of each part uniformly. "center"
    takes the centers of ``segments`` exactly equal parts, :func:`uniform`. If the span has fewer frames than segments,
    both modes take the centers, which repeat every frame ``segments // n`` times or once more. "linspace" takes frames
    at equal distances from the first to the last one, :func:`linspace`. Repeated frames are not padding.

    Sources: Wang et al., "Temporal Segment Networks", 2016 (the parts, and the centers for testing), and
    mmaction2's documentation of ``UniformSampleFrames`` (the same parts in integers).

    Attributes:
        segments: parts, and frames in a sequence.
        mode: "random", "center" or "linspace".

    Raises:
        ParameterError: a parameter is out of bounds.
    """

    segments: int
    mode: SegmentMode = "random"

    def __post_init__(self) -> None:
        check_fields(self, SEGMENTS)
        SEGMENT_MODE.check(self.mode)

    @property
    def is_random(self) -> bool:
        """Whether the mode is "random"."""
        return self.mode == "random"

    @property
    def length(self) -> int:
        """``segments``."""
        return self.segments

    def count(self, span: Span) -> int:
        """Return 1; 0 if the span is empty."""
        return min(1, len(span))

    def clip(self, span: Span, k: int, rng: np.random.Generator | None = None) -> FrameClip:
        """Return the sample.

        Raises:
            ParameterError: the span is empty, or the mode is "random" and ``rng`` is None.
        """
        check_sample(self, span, k)
        if self.mode == "linspace":
            return FrameClip.whole(linspace(span, self.segments))
        draw = require_rng(rng) if self.is_random else None
        if draw is None or len(span) < self.segments:
            return FrameClip.whole(uniform(span, self.segments))
        bounds = span.first + np.arange(self.segments + 1, dtype=np.int64) * len(span) // self.segments
        return FrameClip.whole(draw.integers(bounds[:-1], bounds[1:]))


def uniform(span: Span, count: int) -> IntArray:
    """Return the frames at the centers of ``count`` equal parts of a span: ``first + (2 i + 1) n // (2 count)``.

    Frames ascend; they are distinct if the span has at least ``count`` frames, and evenly repeated otherwise. An empty
    span gives none.

    Raises:
        ParameterError: the count is less than 1.
    """
    COUNT.check(count)
    parts = np.arange(count if len(span) else 0, dtype=np.int64)
    return span.first + (2 * parts + 1) * len(span) // (2 * count)


def linspace(span: Span, count: int) -> IntArray:
    """Return frames at equal distances from the first to the last of a span: ``np.linspace``, halves rounded up."""
    distances = max(count - 1, 1)
    return span.first + (2 * np.arange(count, dtype=np.int64) * (len(span) - 1) + distances) // (
        2 * distances
    )


def every(span: Span, n: int) -> IntArray:
    """Return each n-th frame of a span, beginning with its first.

    Raises:
        ParameterError: n is less than 1.
    """
    return np.arange(span.first, span.end, EVERY.check(n), dtype=np.int64)
