"""What a data set takes of each video or volume: the second argument of ``videos`` and ``volumes``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from ..core.keywords import refuses_unknown_fields
from ..core.padding import PadMode
from ..core.param import Brief
from ..errors import ParameterError
from ..readers.volumes.options import Grid, Patch, VolumeTake, Whole
from ..sampling.params import ClipMode, SegmentMode

__all__ = [
    "Clip",
    "Every",
    "Grid",
    "Patch",
    "Segments",
    "Spread",
    "VideoTake",
    "VolumeTake",
    "Whole",
    "in_words_of",
]


@refuses_unknown_fields(
    {"sequence_length": "Write Clip(length=…)", "clips_per_video": "Write Clip(per_video=…)"}
)
@dataclass(frozen=True, repr=False)
class Clip(Brief):
    """Sequences of frames at equal distances.

    Attributes:
        length: frames in a sequence.
        stride: distance between its frames, in source frames; with ``fps``, in frames of that rate.
        step: distance between the starts of neighboring sequences; ``length * stride`` by default.
        per_video: sequences from each video in every epoch, instead of one every ``step`` frames.
        starts: starts of these sequences: "random", or "even", spread evenly over the video, for evaluation.
        together: whether the sequences of a video follow one another in every epoch, so that those in one batch share
            its decoding.
        fps: target frame rate in Hz, by timestamps.
        min_motion: sequences with less mean motion are left out, in percent of the longer side per second.
        repeats: number of times that each sample occurs in an epoch, in direct succession, each with other draws.
        pad: padding of sequences that reach past the end; "none" leaves them out.
        fill: pixel value of frames padded by "constant".
        min_frames: shorter videos are left out without a warning.
    """

    names: ClassVar[Mapping[str, str]] = {
        "sequence_length": "length",
        "stride": "stride",
        "step": "step",
        "clips_per_video": "per_video",
        "clip_mode": "starts",
        "clips_together": "together",
        "fps": "fps",
        "min_motion": "min_motion",
        "repeats": "repeats",
        "pad_mode": "pad",
        "fill_value": "fill",
        "min_frames": "min_frames",
    }
    length: int
    stride: int = 1
    step: int | None = None
    per_video: int | None = None
    starts: ClipMode = "random"
    together: bool = False
    fps: float | None = None
    min_motion: float | None = None
    repeats: int = 1
    pad: PadMode = "none"
    fill: float = 0
    min_frames: int | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a reader of videos."""
        return _arguments(self)


@refuses_unknown_fields()
@dataclass(frozen=True, repr=False)
class Segments(Brief):
    """One frame of each of several equal parts of a video.

    Attributes:
        count: number of parts.
        where: frame of each part: "random" or "center"; or "linspace", frames at equal distances from the first to the
            last of the video.
        repeats: number of times that each sample occurs in an epoch.
        fill: pixel value around frames that ``batch(ragged="pad")`` pads to one size.
        min_frames: shorter videos are left out without a warning.
    """

    names: ClassVar[Mapping[str, str]] = {
        "segments": "count",
        "segment_mode": "where",
        "repeats": "repeats",
        "fill_value": "fill",
        "min_frames": "min_frames",
    }
    count: int
    where: SegmentMode = "random"
    repeats: int = 1
    fill: float = 0
    min_frames: int | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a reader of videos."""
        return _arguments(self)


@refuses_unknown_fields()
@dataclass(frozen=True, repr=False)
class Every(Brief):
    """Single frames at equal distances: every ``frames``-th, or ``fps`` in a second.

    Attributes:
        frames: distance in source frames; with ``fps``, in frames of that rate.
        fps: rate in Hz, by timestamps.
    """

    names: ClassVar[Mapping[str, str]] = {"step": "frames", "fps": "fps"}
    frames: int = 1
    fps: float | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a reader of videos."""
        return {"sequence_length": 1, **_arguments(self)}


@refuses_unknown_fields()
@dataclass(frozen=True, repr=False)
class Spread(Brief):
    """Frames spread evenly over each video, their number by its duration, as Qwen's video-language models take them.

    The number is ``fps`` times the duration, within the bounds and the frames that there are, rounded down to an even
    number; see :func:`seqpipe.sampling.qwen_vl`. Sequences have different lengths: batches of them are lists, or are
    padded by ``batch(ragged="pad")``, or have one length by ``batch(bucket=…)``. For a fixed number of frames, as
    LLaVA-Video and InternVL take them, use :class:`Segments` with ``where="linspace"`` or ``"center"``.

    Attributes:
        fps: frames per second to take, by timestamps.
        min_count: smallest number of frames, rounded up to an even one; a video of fewer frames gives all of them, or
            all but one.
        max_count: largest number of frames, rounded down to an even one.
        repeats: number of times that each sample occurs in an epoch.
        fill: value of what ``batch(ragged="pad")`` adds.
        min_frames: shorter videos are left out without a warning.
    """

    names: ClassVar[Mapping[str, str]] = {
        "repeats": "repeats",
        "fill_value": "fill",
        "min_frames": "min_frames",
    }
    fps: float = 2.0
    min_count: int = 4
    max_count: int = 768
    repeats: int = 1
    fill: float = 0
    min_frames: int | None = None


def _arguments(take: Any) -> dict[str, Any]:
    """Return the fields of a take by the names of a reader's arguments."""
    return {argument: getattr(take, name) for argument, name in take.names.items()}


@contextmanager
def in_words_of(take: Any) -> Iterator[None]:
    """Let errors of a reader's arguments name the fields of the take that they come from."""
    try:
        yield
    except ParameterError as error:
        told = [error.fact, error.allowed, error.advice]
        words = re.compile("|".join(rf"\b{name}\b" for name in take.names) or "$^")
        own = [text and words.sub(lambda found: take.names[found[0]], text) for text in told]
        if own != told or error.fact.startswith(tuple(f"{name}=" for name in take.names.values())):
            error.source = error.source or type(take).__name__
        error.fact, error.allowed, error.advice = own[0] or "", own[1], own[2]
        raise


VideoTake: TypeAlias = Clip | Segments | Every | Spread | Whole
