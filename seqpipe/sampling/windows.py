"""Window sampling by frame numbers: regular starts, random or even clips, and those of them that show motion."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ..array import IntArray
from ..errors import ParameterError
from ..padding import PadMode
from ..param import check_fields
from .clip import FrameClip, Span, check_sample, padded
from .params import CLIPS_PER_VIDEO, MIN_MOTION, PAD_MODE, SEQUENCE_LENGTH, STEP, STRIDE

__all__ = ["EvenClips", "MovingClips", "RandomClips", "Windows", "fitting", "require_rng"]


@dataclass(frozen=True, kw_only=True)
class _ByStarts(ABC):
    """Sequences that are chosen by where they start.

    Attributes:
        sequence_length: frames in a sequence.
        stride: distance between its frames.
        pad_mode: how sequences that reach past the end are filled; "none" leaves them out.
    """

    sequence_length: int
    stride: int = 1
    pad_mode: PadMode = "none"

    @property
    def is_random(self) -> bool:
        """Whether starts are drawn."""
        return False

    @property
    def length(self) -> int:
        """``sequence_length``."""
        return self.sequence_length

    @property
    def distance(self) -> int:
        """The distance between neighboring starts in frames."""
        return 1

    @abstractmethod
    def starts(self, span: Span) -> int:
        """How many places there are to start at: the span's first frame, and each ``distance`` behind it."""

    @abstractmethod
    def samples(self, starts: int) -> int:
        """How many samples that many places to start at give in one epoch."""

    @abstractmethod
    def chosen(self, starts: int, k: int, rng: np.random.Generator | None) -> int:
        """The place among the starts of the k-th sample."""

    def count(self, span: Span) -> int:
        """How many samples the span gives; 0 if it is too short."""
        return self.samples(self.starts(span))

    def clip(self, span: Span, k: int, rng: np.random.Generator | None = None) -> FrameClip:
        """The k-th sequence; of random ones, ``k`` matters through ``rng`` alone.

        Raises:
            ParameterError: there is no such sample, or no ``rng`` for a random one.
        """
        check_sample(self, span, k)
        return self.at(span, self.chosen(self.starts(span), k, rng))

    def at(self, span: Span, place: int) -> FrameClip:
        """The sequence that starts at one of the places."""
        start = span.first + place * self.distance
        last = start + (self.sequence_length - 1) * self.stride
        real = np.arange(start, min(last + 1, span.end), self.stride, dtype=np.int64)
        return padded(real, self.sequence_length, self.pad_mode)


@dataclass(frozen=True, kw_only=True)
class Windows(_ByStarts):
    """Sequences that start at the span's first frame and at each ``step`` behind it.

    A window fits if its last frame does: ``start + (sequence_length - 1) * stride < end``. Without padding,
    the windows that fit are given. With padding, every start that is a frame of the span gives a window, so
    that each window has at least one real frame, each start is used exactly once, and with ``step=1`` there
    is one window for every frame.

    Attributes:
        sequence_length: frames in a sequence.
        stride: distance between its frames.
        step: distance between the starts; ``sequence_length * stride`` if None.
        pad_mode: how the windows that reach past the end are filled; "none" leaves them out.

    Raises:
        ParameterError: a parameter is out of bounds.
    """

    step: int | None = None

    def __post_init__(self) -> None:
        check_fields(self, SEQUENCE_LENGTH, STRIDE, STEP, PAD_MODE)

    @property
    def distance(self) -> int:
        """The distance between neighboring starts in frames, with its default resolved."""
        return self.sequence_length * self.stride if self.step is None else self.step

    def starts(self, span: Span) -> int:
        """How many windows the span gives."""
        starts = len(span) if self.pad_mode != "none" else fitting(span, self.sequence_length, self.stride)
        return -(-starts // self.distance)

    def samples(self, starts: int) -> int:
        """One for each start."""
        return starts

    def chosen(self, starts: int, k: int, rng: np.random.Generator | None) -> int:  # noqa: ARG002 - the protocol's
        """The k-th start."""
        return k


@dataclass(frozen=True, kw_only=True)
class _Clips(_ByStarts):
    """Sequences of which each video gives equally many.

    A span that is too short for one sequence gives none without padding; with padding, it gives sequences
    that start at its first frame, the ones with the most real frames.
    """

    clips_per_video: int = 1

    def __post_init__(self) -> None:
        check_fields(self, SEQUENCE_LENGTH, STRIDE, CLIPS_PER_VIDEO, PAD_MODE)

    def starts(self, span: Span) -> int:
        """How many frames can be the first of a sequence."""
        starts = fitting(span, self.sequence_length, self.stride)
        return starts or int(len(span) > 0 and self.pad_mode != "none")

    def samples(self, starts: int) -> int:
        """``clips_per_video``, or none."""
        return self.clips_per_video if starts else 0


@dataclass(frozen=True, kw_only=True)
class RandomClips(_Clips):
    """Sequences with uniformly random starts among those that fit.

    A span that is too short for one sequence gives none without padding; with padding, it gives sequences
    that start at its first frame, the ones with the most real frames.

    Attributes:
        sequence_length: frames in a sequence.
        stride: distance between its frames.
        clips_per_video: sequences drawn from each video in every epoch, independently of each other.
        pad_mode: how the sequences of videos that are too short are filled; "none" leaves such videos out.

    Raises:
        ParameterError: a parameter is out of bounds.
    """

    @property
    def is_random(self) -> bool:
        """Always."""
        return True

    def chosen(self, starts: int, k: int, rng: np.random.Generator | None) -> int:  # noqa: ARG002 - the protocol's
        """Any of the starts."""
        return int(require_rng(rng).integers(starts))


@dataclass(frozen=True, kw_only=True)
class EvenClips(_Clips):
    """Sequences whose starts are spread evenly from the first to the last that fits; a single one is in the middle.

    Attributes:
        sequence_length: frames in a sequence.
        stride: distance between its frames.
        clips_per_video: sequences of each video; where fewer starts fit, some come several times.
        pad_mode: how the sequences of videos that are too short are filled; "none" leaves such videos out.

    Raises:
        ParameterError: a parameter is out of bounds.
    """

    def chosen(self, starts: int, k: int, rng: np.random.Generator | None) -> int:  # noqa: ARG002 - the protocol's
        """The start nearest to an even spread."""
        last, gaps = starts - 1, self.clips_per_video - 1
        return (2 * k * last + gaps) // (2 * gaps) if gaps else last // 2


@dataclass(frozen=True, kw_only=True)
class MovingClips:
    """Those sequences of another sampler in which enough moves.

    The motion of a sequence is the mean of ``span.motion`` from its first real frame to its last; a sequence of one
    frame has that frame's. Unknown motion (NaN) is left out of the mean, and a sequence of which nothing is known is
    none that moves. Random and even clips choose among the starts whose sequences move.

    Attributes:
        clips: windows, random clips or even clips.
        min_motion: the least motion, in percent of the longer side per second.

    Raises:
        ParameterError: a parameter is out of bounds.
    """

    clips: Windows | RandomClips | EvenClips
    min_motion: float

    def __post_init__(self) -> None:
        check_fields(self, MIN_MOTION)

    @property
    def is_random(self) -> bool:
        """As the sampler it chooses from."""
        return self.clips.is_random

    @property
    def length(self) -> int:
        """As the sampler it chooses from."""
        return self.clips.length

    def count(self, span: Span) -> int:
        """How many samples the span gives; 0 if it is too short, or nothing moves.

        Raises:
            ParameterError: the span's motion is not known.
        """
        return self.clips.samples(len(self._moving(span)))

    def clip(self, span: Span, k: int, rng: np.random.Generator | None = None) -> FrameClip:
        """The k-th sequence.

        Raises:
            ParameterError: there is no such sample, no ``rng`` for a random one, or the motion is not known.
        """
        check_sample(self, span, k)
        moving = self._moving(span)
        return self.clips.at(span, int(moving[self.clips.chosen(len(moving), k, rng)]))

    def _moving(self, span: Span) -> IntArray:
        """The places to start at of the sequences that move."""
        if span.motion is None:
            raise ParameterError("the motion of the frames is not known", advice="Give the Span its motion")
        clips = self.clips
        starts = span.first + np.arange(clips.starts(span), dtype=np.int64) * clips.distance
        steps = np.minimum(clips.sequence_length - 1, (span.end - 1 - starts) // clips.stride)
        known = np.isfinite(span.motion)
        total, number = (
            np.concatenate([[0], np.cumsum(part, dtype=np.float64)])
            for part in (np.where(known, span.motion, 0), known)
        )
        end = starts + np.maximum(steps * clips.stride, 1)
        counted = number[end] - number[starts]
        moves = total[end] - total[starts] >= self.min_motion * counted
        places: IntArray = np.flatnonzero(moves & (counted > 0))
        return places


def fitting(span: Span, sequence_length: int, stride: int) -> int:
    """How many starts of the span leave room for a whole sequence."""
    return max(0, len(span) - (sequence_length - 1) * stride)


def require_rng(rng: np.random.Generator | None) -> np.random.Generator:
    """The random numbers.

    Raises:
        ParameterError: there are none.
    """
    if rng is None:
        raise ParameterError(
            "rng=None is not valid for a random sampler", advice="Pass seqpipe.random.stream(...)"
        )
    return rng
