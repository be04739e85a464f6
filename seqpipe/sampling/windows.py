"""Window sampling by frame numbers: regular starts, or random clips."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..array import IntArray
from ..errors import ParameterError
from ..param import keep_checked
from .clip import FrameClip, Span, check_sample, padded
from .params import CLIPS_PER_VIDEO, PAD_MODE, SEQUENCE_LENGTH, STEP, STRIDE, PadMode

__all__ = ["EvenClips", "RandomClips", "Windows", "fitting", "require_rng"]


@dataclass(frozen=True, kw_only=True)
class Windows:
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

    sequence_length: int
    stride: int = 1
    step: int | None = None
    pad_mode: PadMode = "none"

    def __post_init__(self) -> None:
        keep_checked(self, SEQUENCE_LENGTH, STRIDE, STEP, PAD_MODE)

    @property
    def is_random(self) -> bool:
        """Never."""
        return False

    @property
    def length(self) -> int:
        """``sequence_length``."""
        return self.sequence_length

    @property
    def distance(self) -> int:
        """The distance between neighboring starts in frames, with its default resolved."""
        return self.sequence_length * self.stride if self.step is None else self.step

    def count(self, span: Span) -> int:
        """How many windows the span gives; 0 if it is too short."""
        starts = len(span) if self.pad_mode != "none" else fitting(span, self.sequence_length, self.stride)
        return -(-starts // self.distance)

    def clip(self, span: Span, k: int, rng: np.random.Generator | None = None) -> FrameClip:  # noqa: ARG002 - the protocol's
        """The k-th window.

        Raises:
            ParameterError: there is no such window.
        """
        start = span.first + check_sample(self, span, k) * self.distance
        return padded(
            _real(span, start, self.sequence_length, self.stride), self.sequence_length, self.pad_mode
        )


@dataclass(frozen=True, kw_only=True)
class RandomClips:
    """Sequences at random starts, all starts that fit being equally likely.

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

    sequence_length: int
    stride: int = 1
    clips_per_video: int = 1
    pad_mode: PadMode = "none"

    def __post_init__(self) -> None:
        keep_checked(self, SEQUENCE_LENGTH, STRIDE, CLIPS_PER_VIDEO, PAD_MODE)

    @property
    def is_random(self) -> bool:
        """Always."""
        return True

    @property
    def length(self) -> int:
        """``sequence_length``."""
        return self.sequence_length

    def count(self, span: Span) -> int:
        """``clips_per_video``; 0 if the span is too short."""
        starts = fitting(span, self.sequence_length, self.stride)
        return self.clips_per_video if starts or (len(span) and self.pad_mode != "none") else 0

    def clip(self, span: Span, k: int, rng: np.random.Generator | None = None) -> FrameClip:
        """One random sequence; which of the video's it is (``k``) only matters through ``rng``.

        Raises:
            ParameterError: the span has no such sample, or there is no ``rng``.
        """
        check_sample(self, span, k)
        starts = max(1, fitting(span, self.sequence_length, self.stride))
        start = span.first + int(require_rng(rng).integers(starts))
        return padded(
            _real(span, start, self.sequence_length, self.stride), self.sequence_length, self.pad_mode
        )


@dataclass(frozen=True, kw_only=True)
class EvenClips:
    """Sequences whose starts are spread evenly from the first that fits to the last; one alone is in the middle.

    Attributes:
        sequence_length: frames in a sequence.
        stride: distance between its frames.
        clips_per_video: sequences of each video; where fewer starts fit, some come several times.
        pad_mode: how the sequences of videos that are too short are filled; "none" leaves such videos out.

    Raises:
        ParameterError: a parameter is out of bounds.
    """

    sequence_length: int
    stride: int = 1
    clips_per_video: int = 1
    pad_mode: PadMode = "none"

    def __post_init__(self) -> None:
        keep_checked(self, SEQUENCE_LENGTH, STRIDE, CLIPS_PER_VIDEO, PAD_MODE)

    @property
    def is_random(self) -> bool:
        """Never."""
        return False

    @property
    def length(self) -> int:
        """``sequence_length``."""
        return self.sequence_length

    def count(self, span: Span) -> int:
        """``clips_per_video``; 0 if the span is too short."""
        starts = fitting(span, self.sequence_length, self.stride)
        return self.clips_per_video if starts or (len(span) and self.pad_mode != "none") else 0

    def clip(self, span: Span, k: int, rng: np.random.Generator | None = None) -> FrameClip:  # noqa: ARG002 - the protocol's
        """The k-th sequence.

        Raises:
            ParameterError: there is no such sequence.
        """
        last = max(1, fitting(span, self.sequence_length, self.stride)) - 1
        gaps, place = self.clips_per_video - 1, check_sample(self, span, k)
        start = span.first + ((2 * place * last + gaps) // (2 * gaps) if gaps else last // 2)
        return padded(
            _real(span, start, self.sequence_length, self.stride), self.sequence_length, self.pad_mode
        )


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


def _real(span: Span, start: int, sequence_length: int, stride: int) -> IntArray:
    """The frames of a sequence that lie inside of the span."""
    last = start + (sequence_length - 1) * stride
    return np.arange(start, min(last + 1, span.end), stride, dtype=np.int64)
