"""What a data set takes of each video or volume: the second argument of ``videos`` and ``volumes``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, TypeAlias

from ..core.padding import PadMode
from ..errors import ParameterError
from ..sampling.params import ClipMode, SegmentMode

__all__ = [
    "Clip",
    "Every",
    "Grid",
    "Patch",
    "Segments",
    "VideoTake",
    "VolumeTake",
    "Whole",
    "in_reader_words",
    "in_words_of",
]

Around: TypeAlias = Literal["uniform", "balanced", "classes", "weighted"]


class _Take:
    """What is taken; its ``repr`` shows what differs from the defaults."""

    def __repr__(self) -> str:
        given = [one for one in fields(self) if getattr(self, one.name) != one.default]  # type: ignore[arg-type]  # dataclasses
        return (
            f"{type(self).__name__}({', '.join(f'{one.name}={getattr(self, one.name)!r}' for one in given)})"
        )


@dataclass(frozen=True, repr=False)
class Clip(_Take):
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
        return in_reader_words(self)


@dataclass(frozen=True, repr=False)
class Segments(_Take):
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
        return in_reader_words(self)


@dataclass(frozen=True, repr=False)
class Every(_Take):
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
        return {"sequence_length": 1, **in_reader_words(self)}


@dataclass(frozen=True, repr=False)
class Whole(_Take):
    """All of each volume, video, or part of a video that a manifest gives: one sample each.

    Sequences of videos have different lengths: batches of them are lists, or are padded by ``batch(ragged="pad")``.

    Attributes:
        stride: for videos: distance between frames; with ``fps``, in frames of that rate.
        fps: for videos: target frame rate in Hz, by timestamps.
        max_frames: for videos: the largest number of frames of a sequence. A longer one is an error, which
            ``on_error="skip"`` leaves out with an entry in the report.
        repeats: for videos: number of times that each sample occurs in an epoch.
        fill: for videos: pixel value of what ``batch(ragged="pad")`` adds.
    """

    names: ClassVar[Mapping[str, str]] = {"repeats": "repeats", "fill_value": "fill"}
    stride: int = 1
    fps: float | None = None
    max_frames: int | None = None
    repeats: int = 1
    fill: float = 0

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a reader of volumes.

        Raises:
            ParameterError: a field of videos is set.
        """
        if self != Whole():
            raise ParameterError(f"{self!r} has fields of videos", source="volumes", allowed="Whole()")
        return {}


@dataclass(frozen=True, repr=False)
class Patch(_Take):
    """Patches of each volume.

    Attributes:
        size: (slices, rows, columns), or one number for all axes.
        per_volume: patches of each volume in every epoch.
        around: where patches are cut: "uniform"; "balanced", a share of them around foreground; "classes", around
            voxels of classes by ``class_weights``; "weighted", by the part ``weights``.
        foreground: for "balanced": share of patches that are centered on foreground.
        class_weights: for "classes": weight of each class; all classes alike by default.
        weights: for "weighted": name of the part that holds weights of voxels.
        pad: padding of volumes that are smaller than a patch; "none" refuses them.
        fill: value of padded voxels.
        mix: number of volumes in memory whose patches are shuffled among each other.
    """

    size: int | Seq[int]
    per_volume: int = 1
    around: Around = "uniform"
    foreground: float = 1 / 3
    class_weights: Mapping[int, float] | None = field(default=None)
    weights: str | None = None
    pad: PadMode = "none"
    fill: float = 0
    mix: int = 4

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a reader of volumes."""
        return {
            "patch_size": self.size,
            "patches_per_volume": self.per_volume,
            "sampler": self.around,
            "foreground": self.foreground,
            "class_weights": self.class_weights,
            "weights": self.weights,
            "pad_mode": self.pad,
            "fill_value": self.fill,
            "open_volumes": self.mix,
        }


@dataclass(frozen=True, repr=False)
class Grid(_Take):
    """Overlapping patches that cover each volume, for inference; see :class:`seqpipe.volume.Aggregate`.

    Attributes:
        size: (slices, rows, columns), or one number for all axes.
        overlap: share of a patch that neighbors have in common, below 1; one for all axes, or one for each.
        pad: padding of volumes that are smaller than a patch; "none" refuses them.
    """

    size: int | Seq[int]
    overlap: float | Seq[float] = 0.25
    pad: PadMode = "none"


def in_reader_words(take: Any) -> dict[str, Any]:
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


VideoTake: TypeAlias = Clip | Segments | Every | Whole
VolumeTake: TypeAlias = Whole | Patch | Grid
