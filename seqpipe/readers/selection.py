"""Selection of the frames and of the output of each sample and epoch, without decoding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..array import BoolArray, FloatArray, IntArray
from ..core.cached import cached_property
from ..errors import ParameterError, SeqpipeError, SourceError, described_type
from ..sampling import Sampler, Span
from ..sampling.clip import draw_clip
from ..video.convert.output import OutputSpec
from ..video.packet_index import Facts
from .frame_values import Clock, FrameMotion

__all__ = [
    "Catalog",
    "Outputs",
    "SampleGroup",
    "SampleRequest",
    "Selection",
    "fill_in",
    "group_of",
]


@dataclass(frozen=True, eq=False)
class SampleRequest:
    """One sample before it is decoded.

    Attributes:
        index: index within the dataset, the same on all ranks and in all epochs.
        video: position of the video within the dataset.
        source: path or URL of the video.
        label: label of the video, -1 for none; a float, a vector of floats or a string for another ``label_type``.
        frames: int64, frame number to decode for each position; -1 where the position is filled with a constant.
        padding: bool, True at padded positions.
        shape: shape of an output frame, in the order of the dataset's layout.
        fields: values of further columns of the video, by name.
    """

    index: int
    video: int
    source: str
    label: Any
    frames: IntArray
    padding: BoolArray
    shape: tuple[int, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Catalog:
    """The videos that have samples; each array has one entry for each video.

    Attributes:
        names: path or URL.
        keys: name in the fingerprint.
        labels: labels, as :func:`seqpipe.readers.labels.tabulated` returns them.
        first: first frame of the range.
        end: frame after the last one of the range.
        end_s: end of a range given in seconds; else NaN.
        bounds: cumulative number of samples, beginning with 0; one entry more than videos.
        lengths: number of frames of a sample of each video.
        shapes: distinct shapes of output frames, in the order of the output's layout.
        shape: index into ``shapes``.
        geometries: distinct values of :attr:`seqpipe.video.packet_index.Facts.geometry`.
        geometry: index into ``geometries``.
        fields: values of further columns of each video; empty if there are none.
    """

    names: tuple[str, ...]
    keys: tuple[str, ...]
    labels: npt.NDArray[Any]
    first: IntArray
    end: IntArray
    end_s: FloatArray
    bounds: IntArray
    lengths: IntArray
    shapes: tuple[tuple[int, int, int], ...]
    shape: IntArray
    geometries: tuple[tuple[int, ...], ...]
    geometry: IntArray
    fields: tuple[Mapping[str, Any], ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def samples(self) -> int:
        """Number of samples of an epoch."""
        return int(self.bounds[-1])

    def shape_of(self, video: int) -> tuple[int, int, int]:
        """Return the shape of a video's output frames."""
        return self.shapes[int(self.shape[video])]

    def facts(self, video: int) -> Facts:
        """Return the facts of a video that determine the shape of its frames for any output."""
        width, height, rotation_degrees, flipped = self.geometries[int(self.geometry[video])]
        return Facts(0, width, height, rotation_degrees, bool(flipped))


@dataclass(frozen=True, eq=False)
class Selection:
    """The samples that the dataset's parameters select from its videos.

    Attributes:
        catalog: the videos.
        sampler: selects the frames of a sample.
        seed: seed of random clips.
        clock: source of timestamps.
        by_time: whether the sampler needs timestamps.
        repeats: number of times that each sample of the catalog occurs, with different indices and the same frames.
        motion: source of the motion of frames; None if the sampler does not need it.
        kept: number of first frames that each sample keeps; None for all.
    """

    catalog: Catalog
    sampler: Sampler
    seed: int
    clock: Clock
    by_time: bool
    repeats: int = 1
    motion: FrameMotion | None = None
    kept: IntArray | None = None

    @property
    def total(self) -> int:
        """Number of samples of an epoch over all ranks; sample indices are 0 to ``total - 1``."""
        return self.catalog.samples * self.repeats

    def sample(self, index: int, epoch: int) -> SampleRequest:
        """Return one sample of an epoch by its index within the dataset, which does not depend on rank and order."""
        catalog = self.catalog
        video, name, label = self._video(index)
        end_s = float(catalog.end_s[video])
        times = self.clock.of(name) if self.by_time else None
        motion = None if self.motion is None else self.motion.of(name)
        number = index // self.repeats
        k = number - int(catalog.bounds[video])
        try:
            span = Span(
                int(catalog.first[video]),
                int(catalog.end[video]),
                times,
                None if np.isnan(end_s) else end_s,
                motion,
            )
            clip = draw_clip(self.sampler, span, k, seed=self.seed, epoch=epoch, index=number)
        except (
            ParameterError
        ) as error:  # the sample existed when the dataset was created: the file has changed
            raise SourceError(
                f"the video no longer contains sample {index}: {error.fact}",
                source=name,
                advice="The file may have been replaced: create the dataset again",
            ) from error
        fields = catalog.fields[video] if catalog.fields else {}
        kept = slice(None if self.kept is None else int(self.kept[index]))
        shape = catalog.shape_of(video)
        return SampleRequest(index, video, name, label, clip.frames[kept], clip.padding[kept], shape, fields)

    def unknown(self, index: int) -> SampleRequest:
        """Return a sample without frames, for a video whose timestamps or motion cannot be read any more."""
        return SampleRequest(
            index, *self._video(index), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
        )

    def videos_of(self, indices: IntArray) -> IntArray:
        """Return the position within the dataset of each sample's video, by the samples' indices."""
        videos: IntArray = np.searchsorted(self.catalog.bounds, indices // self.repeats, side="right") - 1
        return videos

    def values_of(self, indices: IntArray) -> int:
        """Return the total number of pixel values of samples."""
        catalog, videos = self.catalog, self.videos_of(indices)
        values = np.array([math.prod(shape) for shape in catalog.shapes], dtype=np.int64)
        lengths = catalog.lengths[videos] if self.kept is None else self.kept[indices]
        return int((lengths * values[catalog.shape[videos]]).sum())

    def _video(self, index: int) -> tuple[int, str, Any]:
        """Return position, name and label of a sample's video."""
        video = int(np.searchsorted(self.catalog.bounds, index // self.repeats, side="right")) - 1
        label = self.catalog.labels[video]
        return video, self.catalog.names[video], label if label.ndim else label.item()

    @cached_property
    def facts(self) -> dict[str, object]:
        """Everything that determines the samples, as plain values by name."""
        catalog = self.catalog
        times = [None if np.isnan(t) else t for t in catalog.end_s.tolist()]
        motion = {} if self.motion is None else {"samples": catalog.bounds.tolist()}
        return {
            "files": catalog.keys,
            "frames": [catalog.first.tolist(), catalog.end.tolist(), times if self.by_time else None],
            "sampler": repr(self.sampler),
            **motion,
        }


Outputs: TypeAlias = Callable[[Seq[SampleRequest], int], Seq[OutputSpec]]
"""A function of sample requests and their epoch that returns one output specification for each request.

It must return equal values for equal arguments."""

_PEAKS: Final = {"uint8": 255, "uint16": 65535, "float16": 1, "float32": 1}


class SampleGroup(NamedTuple):
    """Samples that are read together, and their outputs.

    Attributes:
        samples: the samples.
        failed: errors of samples whose frames are not known, by position.
        outputs: output specification of each sample.
        shapes: shape of the frames of each sample; empty for failed samples.
        broken: the error that ``outputs`` raised, or None.
    """

    samples: tuple[SampleRequest, ...]
    failed: dict[int, SeqpipeError]
    outputs: tuple[OutputSpec, ...]
    shapes: tuple[tuple[int, ...], ...]
    broken: SeqpipeError | None = None

    @property
    def size(self) -> int:
        """Size of the samples' pixels in bytes."""
        parts = zip(self.samples, self.outputs, self.shapes, strict=True)
        return sum(
            len(sample.frames) * math.prod(shape) * np.dtype(output.dtype).itemsize
            for sample, output, shape in parts
        )

    @property
    def common(self) -> tuple[tuple[int, ...], str] | None:
        """Shape and dtype that all sequences have in common; None if they differ."""
        kinds = {
            ((len(sample.frames), *shape), output.dtype, output.layout)
            for sample, shape, output in zip(self.samples, self.shapes, self.outputs, strict=True)
        }
        if self.failed or self.broken or len(kinds) != 1:
            return None
        shape, dtype, _ = kinds.pop()
        return shape, dtype


def group_of(
    samples: tuple[SampleRequest, ...],
    failed: dict[int, SeqpipeError],
    catalog: Catalog,
    plain: OutputSpec,
    outputs: Outputs | None,
    epoch: int,
) -> SampleGroup:
    """Combine samples with their output specifications."""
    readable = [sample for number, sample in enumerate(samples) if number not in failed]
    specs = {}
    try:
        if outputs is not None:
            returned = _call_outputs(outputs, readable, epoch) if readable else ()
            specs = dict(zip((sample.index for sample in readable), returned, strict=True))
        shapes = tuple(
            () if number in failed else _shape(specs.get(sample.index, plain), catalog, sample)
            for number, sample in enumerate(samples)
        )
    except SeqpipeError as error:
        return SampleGroup(samples, failed, (plain,) * len(samples), ((),) * len(samples), error)
    return SampleGroup(samples, failed, tuple(specs.get(sample.index, plain) for sample in samples), shapes)


def _call_outputs(outputs: Outputs, samples: list[SampleRequest], epoch: int) -> tuple[OutputSpec, ...]:
    """Call the user's function of outputs, and check its results."""
    if not callable(outputs):
        raise ParameterError(
            f"outputs={outputs!r} is not valid",
            allowed="a function of samples and their epoch that returns an OutputSpec for each sample",
        )
    result = outputs(samples, epoch)
    specs = tuple(result) if isinstance(result, Iterable) else (result,)
    wrong = [described_type(spec) for spec in specs if not isinstance(spec, OutputSpec)]
    if wrong or len(specs) != len(samples):
        raise ParameterError(
            f"outputs returned {wrong[0] if wrong else f'{len(specs)} values'} for {len(samples)} samples",
            allowed="an OutputSpec for each sample",
        )
    return specs


def _shape(output: OutputSpec, catalog: Catalog, sample: SampleRequest) -> tuple[int, ...]:
    """Return the shape of a sample's frames; an error names its source."""
    try:
        return output.frame_shape(catalog.facts(sample.video))
    except ParameterError as error:
        error.source = error.source or sample.source
        raise


def fill_in(value: float, plain: OutputSpec, output: OutputSpec) -> float | tuple[float, ...]:
    """Convert a fill value to the same color in the dtype, mean and std of another output."""
    if (plain.dtype, plain.mean, plain.std) == (output.dtype, output.mean, output.std):
        return value
    parts = [value] * plain.channels
    if plain.is_float:
        parts = [value * std + mean for mean, std in zip(*_statistics(plain), strict=True)]
    fractions = [part / _PEAKS[plain.dtype] for part in parts]
    if output.channels < plain.channels:
        fractions = [sum(fractions) / plain.channels]
    if output.is_float:
        kinds = zip(fractions, *_statistics(output), strict=True)
        fills = tuple((part - mean) / std for part, mean, std in kinds)
    else:
        peak = _PEAKS[output.dtype]
        fills = tuple(float(min(max(round(part * peak), 0), peak)) for part in fractions)
    return fills[0] if len(set(fills)) == 1 else fills


def _statistics(output: OutputSpec) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each channel."""
    mean, std = (
        value if isinstance(value, tuple) else (default,) * output.channels
        for value, default in ((output.mean, 0.0), (output.std, 1.0))
    )
    return mean, std
