"""Span (the usable frames of a video), FrameClip (the frames of a sample) and the Sampler protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ..array import BoolArray, FloatArray, IntArray
from ..core.padding import PadMode, source_indices
from ..errors import ParameterError
from ..random import stream

__all__ = ["FrameClip", "Sampler", "Span", "check_sample", "draw_clip", "padded"]


@dataclass(frozen=True, eq=False)
class Span:
    """The half-open range of frames of one video that samples may use.

    Attributes:
        first: the first frame's number.
        end: one more than the last frame's number.
        timestamps: for samplers by time: the presentation times in seconds of *all* frames of the video (not only of
            the range), float64, ascending.
        end_s: for samplers by time: the end of a range that was given in seconds. The range ends no later than the
            timestamp of frame ``end``.
        motion: for samplers by motion: the motion from each frame of the video to the next, in percent of the longer
            side per second, float; NaN if unknown.

    Raises:
        ParameterError: the range is invalid, or timestamps or motion have fewer values than the range needs.
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
    """The frames of one sample.

    Attributes:
        frames: the frame to decode for each position, int64, always inside of the span; -1 at positions filled with a
            constant. Other padding repeats frames of the clip.
        padding: whether each position is padding, bool, as long as ``frames``.
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
        """Return a clip without padding."""
        return cls(frames, np.zeros(len(frames), dtype=np.bool_))

    def __len__(self) -> int:
        """The number of positions."""
        return len(self.frames)

    def labeled(self) -> IntArray:
        """Return the source frame number of each position, -1 for padding, as in ``Sequence.frames``."""
        return np.where(self.padding, np.int64(-1), self.frames)


@runtime_checkable
class Sampler(Protocol):
    """Selects the samples of a video; immutable and thus thread-safe.

    Every frame of every clip lies inside of the span. A clip is a pure function of the arguments, and of the state of
    ``rng`` if the sampler is random.
    """

    @property
    def is_random(self) -> bool:
        """Whether :meth:`clip` needs ``rng``."""

    @property
    def length(self) -> int | None:
        """Number of positions of each clip; None if that depends on the span, and then on it alone."""

    def count(self, span: Span) -> int:
        """Return the number of samples of the span in one epoch; 0 if it is too short."""

    def clip(self, span: Span, k: int, rng: np.random.Generator | None = None) -> FrameClip:
        """Return the k-th sample of the span.

        Args:
            span: the frames that may be used.
            k: number of the sample, from 0 to ``count(span) - 1``.
            rng: the generator of this sample (:func:`seqpipe.random.stream`); unused if not random.

        Raises:
            ParameterError: ``k`` is out of range, or the generator or timestamps are missing.
        """


def draw_clip(sampler: Sampler, span: Span, k: int, *, seed: int, epoch: int, index: int) -> FrameClip:
    """Return the clip of a dataset's sample.

    Random samplers draw from a stream that is keyed by (seed, "clips", epoch, index), so that a sample is the same on
    every rank, in every thread and in batches of any size. Nothing else in a dataset is random but its order.
    """
    rng = stream(seed, "clips", epoch, index) if sampler.is_random else None
    return sampler.clip(span, k, rng)


def check_sample(sampler: Sampler, span: Span, k: int) -> None:
    """Check the number of a sample."""
    count = sampler.count(span)
    if not 0 <= k < count:
        fact = f"sample {k} does not exist in frames {span.first} to {span.end} with {sampler!r}"
        raise ParameterError(fact, allowed=f"0 to {count - 1}" if count else "none, the range is too short")


def padded(real: IntArray, length: int, mode: PadMode) -> FrameClip:
    """Return a clip of ``length`` positions, padded at the end as by ``numpy.pad``."""
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
