"""Sampling values: Span (the usable frames), FrameClip (one sample), Sampler (which chooses)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ..array import BoolArray, FloatArray, IntArray
from ..errors import ParameterError
from ..padding import PadMode, source_indices

__all__ = ["FrameClip", "Sampler", "Span", "check_sample", "padded"]


@dataclass(frozen=True, eq=False)
class Span:
    """The half-open range of frames of one video that samples may use.

    Attributes:
        first: the first frame's number.
        end: one more than the last frame's number.
        timestamps: for samplers that go by time: the presentation times in seconds of *all* frames of the
            video (not only of the range), float64, ascending.
        end_s: for samplers that go by time: the time at which the range ends, where it was cut by time; the
            range never lasts longer than until frame ``end`` is shown.
        motion: for samplers that go by motion: how much each frame of the video moves until the next one, in percent
            of the longer side per second, float; NaN where that is not known.

    Raises:
        ParameterError: the range is not one of frames, or there are fewer timestamps, or motion of fewer, than frames.
    """

    first: int
    end: int
    timestamps: FloatArray | None = None
    end_s: float | None = None
    motion: npt.NDArray[np.floating[Any]] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.end:
            raise ParameterError(
                f"the frames {self.first} to {self.end} are no range", allowed="0 <= first <= end"
            )
        for name, values in (("timestamps", self.timestamps), ("values of motion", self.motion)):
            if values is not None and len(values) < self.end:
                raise ParameterError(
                    f"the range ends at frame {self.end}, but there are {len(values)} {name}",
                    allowed="one for every frame of the video",
                )

    def __len__(self) -> int:
        """The number of frames."""
        return self.end - self.first


@dataclass(frozen=True, eq=False)
class FrameClip:
    """The frames that make one sample.

    Attributes:
        frames: the frame to decode for each position, int64, always inside of the span; -1 at positions
            that are filled with a constant. Other padding repeats frames of the clip.
        padding: which positions are padding, bool, as long as ``frames``.
    """

    frames: IntArray
    padding: BoolArray

    def __post_init__(self) -> None:
        if self.frames.shape != self.padding.shape or self.frames.ndim != 1:
            shapes = f"{self.frames.shape} and {self.padding.shape}"
            raise ParameterError(
                f"frames and padding have the shapes {shapes}", allowed="two rows of equal length"
            )
        self.frames.flags.writeable = False
        self.padding.flags.writeable = False

    @classmethod
    def whole(cls, frames: IntArray) -> FrameClip:
        """A clip without padding."""
        return cls(frames, np.zeros(len(frames), dtype=np.bool_))

    def __len__(self) -> int:
        """The number of positions."""
        return len(self.frames)

    def labeled(self) -> IntArray:
        """The source frame number of each position, -1 at padding: what ``Sequence.frames`` says."""
        return np.where(self.padding, np.int64(-1), self.frames)


@runtime_checkable
class Sampler(Protocol):
    """Picks samples from a video by arithmetic alone; immutable, so that threads may share it.

    Every frame of every clip lies inside of the span. The clip is a pure function of the arguments, and of
    the state of ``rng`` if the sampler is random.
    """

    @property
    def is_random(self) -> bool:
        """Whether :meth:`clip` draws, so that it must be given ``rng``."""

    @property
    def length(self) -> int:
        """The number of positions of every clip."""

    def count(self, span: Span) -> int:
        """How many samples the span gives in one epoch; 0 if it is too short."""

    def clip(self, span: Span, k: int, rng: np.random.Generator | None = None) -> FrameClip:
        """The k-th sample of the span.

        Args:
            span: the frames that may be used.
            k: which sample, from 0 to ``count(span) - 1``.
            rng: random numbers of this very sample (:func:`seqpipe.random.stream`); unused if not random.

        Raises:
            ParameterError: there is no such sample, or random numbers or timestamps are missing.
        """


def check_sample(sampler: Sampler, span: Span, k: int) -> int:
    """The sample number, if the span has such a sample.

    Raises:
        ParameterError: it has not; the message says why.
    """
    count = sampler.count(span)
    if not 0 <= k < count:
        fact = f"sample {k} does not exist in frames {span.first} to {span.end} with {sampler!r}"
        raise ParameterError(fact, allowed=f"0 to {count - 1}" if count else "none, the range is too short")
    return k


def padded(real: IntArray, length: int, mode: PadMode) -> FrameClip:
    """Make a clip of ``length`` positions from the frames that exist, filled as ``numpy.pad`` does.

    Args:
        real: the frames of the first positions, at least one, at most ``length``.
        length: positions of the clip.
        mode: how missing positions are filled, see :mod:`seqpipe.padding`; "constant" marks them by -1, "none" is
            allowed only if no frame is missing.
    """
    have = len(real)
    if have == length:
        return FrameClip.whole(real.copy())
    if mode == "none":
        raise ParameterError(
            f"{length - have} of {length} frames lie past the end", advice="Choose a pad_mode"
        )
    index = source_indices(0, length, have, mode)
    padding = np.arange(length) >= have
    frames = np.where(index < 0, -1, real[index])
    return FrameClip(frames, padding)
