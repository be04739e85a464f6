"""Sampling by frame numbers: windows at regular starts, random or even clips, segments, and a filter by motion."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from ..array import IntArray
from ..core.padding import PadMode
from ..core.param import check_fields
from ..errors import ParameterError
from .clip import FrameClip, Span, check_sample, padded
from .params import (
    CLIPS_PER_VIDEO,
    COUNT,
    EVERY,
    MIN_MOTION,
    PAD_MODE,
    SEGMENT_MODE,
    SEGMENTS,
    SEQUENCE_LENGTH,
    STEP,
    STRIDE,
    SegmentMode,
)

__all__ = [
    "EvenClips",
    "MovingClips",
    "RandomClips",
    "RollingWindows",
    "UniformSegments",
    "Windows",
    "every",
    "linspace",
    "require_rng",
    "uniform",
]


@dataclass(frozen=True, kw_only=True)
class _StartSampler(ABC):
    """Base of the samplers that choose the first frame of a sequence among equally spaced starts.

    Attributes:
        sequence_length: frames in a sequence.
        stride: distance between its frames.
        pad_mode: padding of sequences that reach past the end; "none" leaves them out.
    """

    sequence_length: int
    stride: int = 1
    pad_mode: PadMode = "none"

    @property
    def is_random(self) -> bool:
        """Whether starts are random."""
        return False

    @property
    def length(self) -> int:
        """``sequence_length``."""
        return self.sequence_length

    @property
    def distance(self) -> int:
        """Distance between neighboring starts in frames."""
        return 1

    @abstractmethod
    def count_starts(self, span: Span) -> int:
        """Return the number of possible starts: the span's first frame, and every ``distance`` frames after it."""

    @abstractmethod
    def count_samples(self, starts: int) -> int:
        """Return the number of samples in one epoch, given the number of possible starts."""

    @abstractmethod
    def choose_start(self, starts: int, k: int, rng: np.random.Generator | None) -> int:
        """Return the index of the k-th sample's start."""

    def count(self, span: Span) -> int:
        """Return the number of samples of the span; 0 if it is too short."""
        return self.count_samples(self.count_starts(span))

    def clip(self, span: Span, k: int, rng: np.random.Generator | None = None) -> FrameClip:
        """Return the k-th sequence; for random starts, ``k`` has no effect besides the state of ``rng``.

        Raises:
            ParameterError: ``k`` is out of range, or starts are random and ``rng`` is None.
        """
        check_sample(self, span, k)
        return self.clip_at(span, self.choose_start(self.count_starts(span), k, rng))

    def clip_at(self, span: Span, start_index: int) -> FrameClip:
        """Return the sequence at one of the possible starts."""
        start = span.first + start_index * self.distance
        last = start + (self.sequence_length - 1) * self.stride
        real = np.arange(start, min(last + 1, span.end), self.stride, dtype=np.int64)
        return padded(real, self.sequence_length, self.pad_mode)


@dataclass(frozen=True, kw_only=True)
class Windows(_StartSampler):
    """Sequences that start at the span's first frame and every ``step`` frames after it.

    A window fits if its last frame does: ``start + (sequence_length - 1) * stride < end``. Without padding, only
    windows that fit are sampled. With padding, every start inside of the span has a window, so that each window has at
    least one real frame, and ``step=1`` gives one window for every frame.

    Attributes:
        sequence_length: frames in a sequence.
        stride: distance between its frames.
        step: distance between the starts; ``sequence_length * stride`` if None.
        pad_mode: padding of windows that reach past the end; "none" leaves them out.

    Raises:
        ParameterError: a parameter is out of bounds.
    """

    step: int | None = None

    def __post_init__(self) -> None:
        check_fields(self, SEQUENCE_LENGTH, STRIDE, STEP, PAD_MODE)

    @property
    def distance(self) -> int:
        """Distance between neighboring starts in frames, with its default resolved."""
        return self.sequence_length * self.stride if self.step is None else self.step

    def count_starts(self, span: Span) -> int:
        """Return the number of windows of the span."""
        starts = len(span) if self.pad_mode != "none" else _fitting(span, self.sequence_length, self.stride)
        return -(-starts // self.distance)

    def count_samples(self, starts: int) -> int:
        """Return one sample for each start."""
        return starts

    def choose_start(self, starts: int, k: int, rng: np.random.Generator | None) -> int:  # noqa: ARG002  inherited
        """Return the k-th start."""
        return k


@dataclass(frozen=True, kw_only=True)
class _Clips(_StartSampler):
    """Base of the samplers with a fixed number of sequences per video, which may start at any frame.

    A span that is too short for one sequence has none without padding; with padding, its sequences start at its first
    frame, where the fewest frames are missing.
    """

    clips_per_video: int = 1

    def __post_init__(self) -> None:
        check_fields(self, SEQUENCE_LENGTH, STRIDE, CLIPS_PER_VIDEO, PAD_MODE)

    def count_starts(self, span: Span) -> int:
        """Return the number of frames that can be the first of a sequence."""
        starts = _fitting(span, self.sequence_length, self.stride)
        return starts or int(len(span) > 0 and self.pad_mode != "none")

    def count_samples(self, starts: int) -> int:
        """Return ``clips_per_video``; 0 without a possible start."""
        return self.clips_per_video if starts else 0


@dataclass(frozen=True, kw_only=True)
class RandomClips(_Clips):
    """Sequences with uniformly random starts among those that fit.

    A span that is too short for one sequence has none without padding; with padding, its sequences start at its first
    frame, where the fewest frames are missing.

    Attributes:
        sequence_length: frames in a sequence.
        stride: distance between its frames.
        clips_per_video: sequences drawn from each video in every epoch, independently of each other.
        pad_mode: padding of the sequences of videos that are too short; "none" leaves such videos out.

    Raises:
        ParameterError: a parameter is out of bounds.
    """

    @property
    def is_random(self) -> bool:
        """True."""
        return True

    def choose_start(self, starts: int, k: int, rng: np.random.Generator | None) -> int:  # noqa: ARG002  inherited
        """Return a random start."""
        return int(require_rng(rng).integers(starts))


@dataclass(frozen=True, kw_only=True)
class EvenClips(_Clips):
    """Sequences whose starts are spread evenly from the first to the last that fits; a single one is in the middle.

    Attributes:
        sequence_length: frames in a sequence.
        stride: distance between its frames.
        clips_per_video: sequences of each video; if fewer starts fit, some are repeated.
        pad_mode: padding of the sequences of videos that are too short; "none" leaves such videos out.

    Raises:
        ParameterError: a parameter is out of bounds.
    """

    def choose_start(self, starts: int, k: int, rng: np.random.Generator | None) -> int:  # noqa: ARG002  inherited
        """Return the start nearest to the k-th of an even spread."""
        last, gaps = starts - 1, self.clips_per_video - 1
        return (2 * k * last + gaps) // (2 * gaps) if gaps else last // 2


@dataclass(frozen=True, kw_only=True)
class MovingClips:
    """The sequences of another sampler that have enough motion.

    The motion of a sequence is the mean of ``span.motion`` from its first frame to its last, without padding; for a
    sequence of one frame, that frame's value. Unknown motion (NaN) is left out of the mean, and a sequence with only
    unknown motion is excluded. Random and even clips choose among the starts of sequences with enough motion.

    Attributes:
        clips: windows, random clips or even clips.
        min_motion: smallest mean motion, in percent of the longer side per second.

    Raises:
        ParameterError: a parameter is out of bounds.
    """

    clips: Windows | RandomClips | EvenClips
    min_motion: float

    def __post_init__(self) -> None:
        check_fields(self, MIN_MOTION)

    @property
    def is_random(self) -> bool:
        """Whether the starts of ``clips`` are random."""
        return self.clips.is_random

    @property
    def length(self) -> int:
        """The ``sequence_length`` of ``clips``."""
        return self.clips.length

    def count(self, span: Span) -> int:
        """Return the number of samples of the span; 0 if it is too short or has too little motion.

        Raises:
            ParameterError: ``span.motion`` is None.
        """
        return self.clips.count_samples(len(self._moving_starts(span)))

    def clip(self, span: Span, k: int, rng: np.random.Generator | None = None) -> FrameClip:
        """Return the k-th sequence.

        Raises:
            ParameterError: ``k`` is out of range, starts are random and ``rng`` is None, or ``span.motion`` is None.
        """
        check_sample(self, span, k)
        moving = self._moving_starts(span)
        return self.clips.clip_at(span, int(moving[self.clips.choose_start(len(moving), k, rng)]))

    def _moving_starts(self, span: Span) -> IntArray:
        """Return the indices of the starts whose sequences have enough motion."""
        if span.motion is None:
            raise ParameterError("the motion of the frames is not known", advice="Set the motion of the Span")
        clips = self.clips
        starts = span.first + np.arange(clips.count_starts(span), dtype=np.int64) * clips.distance
        steps = np.minimum(clips.sequence_length - 1, (span.end - 1 - starts) // clips.stride)
        known = np.isfinite(span.motion)
        total, number = (
            np.concatenate([[0], np.cumsum(part, dtype=np.float64)])
            for part in (np.where(known, span.motion, 0), known)
        )
        end = starts + np.maximum(steps * clips.stride, 1)
        counted = number[end] - number[starts]
        enough = total[end] - total[starts] >= self.min_motion * counted
        indices: IntArray = np.flatnonzero(enough & (counted > 0))
        return indices


def _fitting(span: Span, sequence_length: int, stride: int) -> int:
    """Return the number of frames of the span from which a whole sequence fits."""
    return max(0, len(span) - (sequence_length - 1) * stride)


def require_rng(rng: np.random.Generator | None) -> np.random.Generator:
    """Return the generator."""
    if rng is None:
        raise ParameterError(
            "rng=None is not valid for a random sampler", advice="Pass seqpipe.random.stream(...)"
        )
    return rng


ItemT = TypeVar("ItemT")


class RollingWindows(Generic[ItemT]):
    """The windows of a span whose end is unknown while its frames arrive.

    Args:
        windows: the windows.
        first: the number of the span's first frame.

    Attributes:
        buffer: the caller's items for frames of later windows, by frame number; items that no later window needs are
            removed.
    """

    def __init__(self, windows: Windows, first: int) -> None:
        self._windows, self._first = windows, first
        self._reach = (windows.sequence_length - 1) * windows.stride
        self._next, self._end = 0, first
        self.buffer: dict[int, ItemT] = {}

    def needs(self, number: int) -> bool:
        """Return whether a later window contains a frame."""
        at, distance, stride = number - self._first, self._windows.distance, self._windows.stride
        earliest = max(self._next, -(-(at - self._reach) // distance))
        return any((at - k * distance) % stride == 0 for k in range(earliest, at // distance + 1))

    def passed(self, number: int) -> Iterator[FrameClip]:
        """Yield the windows that a frame completes; ``buffer`` has the frames of a window until the next is yielded."""
        self._end = number + 1
        while self._begin + self._reach < self._end:
            yield from self._window()

    def rest(self) -> Iterator[FrameClip]:
        """Yield the padded windows that reach past the last frame; none without padding."""
        while self._windows.pad_mode != "none" and self._begin < self._end:
            yield from self._window()

    @property
    def _begin(self) -> int:
        """The first frame of the next window."""
        return self._first + self._next * self._windows.distance

    def _window(self) -> Iterator[FrameClip]:
        yield self._windows.clip_at(Span(self._first, self._end), self._next)
        self._next += 1
        self.buffer = {number: item for number, item in self.buffer.items() if number >= self._begin}


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
