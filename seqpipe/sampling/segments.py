"""Segment sampling: one frame from each of several equal parts of a video."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..array import IntArray
from ..param import check_fields
from .clip import FrameClip, Span, check_sample
from .params import COUNT, EVERY, SEGMENT_MODE, SEGMENTS, SegmentMode
from .windows import require_rng

__all__ = ["UniformSegments", "every", "uniform"]


@dataclass(frozen=True, kw_only=True)
class UniformSegments:
    """One frame from each of ``segments`` nearly equal parts of the span, as temporal segment networks do.

    With n frames, part i has the frames from ``i * n // segments`` to ``(i + 1) * n // segments``, end not
    included; the parts differ by at most one frame and cover the span. "random" draws one frame of each
    part, all equally likely. "center" takes the frame that is on screen at the middle of the i-th of
    ``segments`` exactly equal stretches, :func:`uniform`. A span with fewer frames than segments repeats
    frames: both modes then give the centers, which name every frame ``segments // n`` times or once more.
    Repeated frames are frames, not padding.

    Sources: Wang et al., "Temporal Segment Networks", 2016 (the parts, and the centers for testing), and
    mmaction2's documentation of ``UniformSampleFrames`` (the same parts in integers).

    Attributes:
        segments: parts, and frames in a sequence.
        mode: "random" or "center".

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
        """Whether frames are drawn."""
        return self.mode == "random"

    @property
    def length(self) -> int:
        """``segments``."""
        return self.segments

    def count(self, span: Span) -> int:
        """1; 0 if the span is empty."""
        return min(1, len(span))

    def clip(self, span: Span, k: int, rng: np.random.Generator | None = None) -> FrameClip:
        """The sample.

        Raises:
            ParameterError: the span is empty, or there is no ``rng`` to draw from.
        """
        check_sample(self, span, k)
        draw = require_rng(rng) if self.is_random else None
        if draw is None or len(span) < self.segments:
            return FrameClip.whole(uniform(span, self.segments))
        bounds = span.first + np.arange(self.segments + 1, dtype=np.int64) * len(span) // self.segments
        return FrameClip.whole(draw.integers(bounds[:-1], bounds[1:]))


def uniform(span: Span, count: int) -> IntArray:
    """The frames at the centers of ``count`` equal parts of a span: ``first + (2 i + 1) n // (2 count)``.

    Ascending; all different if the span has at least ``count`` frames, evenly repeated if it has fewer;
    none if it has none.

    Raises:
        ParameterError: the count is less than 1.
    """
    COUNT.check(count)
    places = np.arange(count if len(span) else 0, dtype=np.int64)
    return span.first + (2 * places + 1) * len(span) // (2 * count)


def every(span: Span, n: int) -> IntArray:
    """Each n-th frame of a span, beginning with its first.

    Raises:
        ParameterError: n is less than 1.
    """
    return np.arange(span.first, span.end, EVERY.check(n), dtype=np.int64)
