"""Selection: which frames make each sample of each epoch. Arithmetic; nothing is decoded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..array import BoolArray, FloatArray, IntArray
from ..errors import ParameterError, SourceError
from ..sampling import EpochOrder, Sampler, Span, fingerprint
from ..sampling.draw import draw_clip
from ..video.probe.facts import Facts
from .frame_values import Clock, FrameMotion

__all__ = ["Catalog", "SampleRequest", "Selection"]


@dataclass(frozen=True, eq=False)
class SampleRequest:
    """One sample, before it is decoded.

    Attributes:
        index: its index within the dataset, the same on all ranks and in all epochs.
        video: the place of its video within the dataset.
        source: the path or URL of the video.
        label: the video's label, -1 for none.
        frames: the frame to decode for each position, int64; -1 at positions that are filled with a constant.
        padding: which positions are padding, bool.
        shape: of a picture as the dataset delivers it, in the order of its layout.
    """

    index: int
    video: int
    source: str
    label: int
    frames: IntArray
    padding: BoolArray
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Catalog:
    """The videos that give samples; one entry of each array for each.

    Attributes:
        names: what opens them.
        keys: their names for the fingerprint.
        labels: whole numbers, -1 for none.
        first: the first frame that may be used.
        end: the frame after the last one that may be used.
        end_s: where the range was given in seconds, its end; else NaN.
        bounds: how many samples the videos before have, and at the end how many there are; one entry more.
        shapes: the shapes of pictures that occur, in the order of the output's layout.
        shape: which of them the video's pictures have.
        pictures: width, height, rotation and flip that occur, as
            :attr:`seqpipe.video.probe.facts.Facts.picture` has them.
        picture: which of them the video has.
    """

    names: tuple[str, ...]
    keys: tuple[str, ...]
    labels: IntArray
    first: IntArray
    end: IntArray
    end_s: FloatArray
    bounds: IntArray
    shapes: tuple[tuple[int, int, int], ...]
    shape: IntArray
    pictures: tuple[tuple[int, ...], ...]
    picture: IntArray

    def __len__(self) -> int:
        return len(self.names)

    @property
    def samples(self) -> int:
        """Samples of an epoch."""
        return int(self.bounds[-1])

    def shape_of(self, video: int) -> tuple[int, int, int]:
        """The shape of a video's pictures."""
        return self.shapes[int(self.shape[video])]

    def facts(self, video: int) -> Facts:
        """What decides the shape of a video's pictures, whatever they are to be."""
        width, height, rotation_degrees, flipped = self.pictures[int(self.picture[video])]
        return Facts(0, width, height, rotation_degrees, bool(flipped))


@dataclass(frozen=True, eq=False)
class Selection:
    """What the dataset's parameters choose from its videos.

    Attributes:
        catalog: the videos.
        sampler: picks the frames of a sample.
        order: the order in which the rank gets samples.
        clock: where timestamps come from.
        by_time: whether the sampler needs them.
        motion: where the motion of frames comes from; None if the sampler does not need it.
    """

    catalog: Catalog
    sampler: Sampler
    order: EpochOrder
    clock: Clock
    by_time: bool
    motion: FrameMotion | None = None

    def sample(self, index: int, epoch: int) -> SampleRequest:
        """One sample of an epoch by its index within the dataset, whatever the rank and the order.

        Raises:
            SourceError: the sampler goes by time, and the video's index cannot be read any more, or is another one.
        """
        catalog = self.catalog
        video, name, label = self._video(index)
        end_s = float(catalog.end_s[video])
        times = self.clock.of(name) if self.by_time else None
        motion = None if self.motion is None else self.motion.of(name)
        k = index - int(catalog.bounds[video])
        try:
            span = Span(
                int(catalog.first[video]),
                int(catalog.end[video]),
                times,
                None if np.isnan(end_s) else end_s,
                motion,
            )
            clip = draw_clip(self.sampler, span, k, seed=self.order.seed, epoch=epoch, index=index)
        except ParameterError as error:  # the clock has it no more that had it when the dataset was made
            raise SourceError(
                f"sample {index} is not in it any more: {error.fact}",
                source=name,
                advice="The file may have been replaced by another one: make the dataset anew",
            ) from error
        return SampleRequest(index, video, name, label, clip.frames, clip.padding, catalog.shape_of(video))

    def unknown(self, index: int) -> SampleRequest:
        """A sample whose frames cannot be told, because its video's timestamps or motion cannot be read any more."""
        return SampleRequest(
            index, *self._video(index), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
        )

    def at(self, epoch: int, positions: IntArray | None = None) -> list[SampleRequest]:
        """The samples at positions of the rank's epoch; at all of them by default.

        Raises:
            ParameterError: a position is outside of the epoch.
        """
        return [self.sample(index, epoch) for index in self.order.samples(epoch, positions).tolist()]

    def videos_at(self, epoch: int, positions: IntArray) -> IntArray:
        """The videos that the samples at positions are taken from."""
        indices = self.order.samples(epoch, positions)
        videos: IntArray = np.searchsorted(self.catalog.bounds, indices, side="right") - 1
        return videos

    def values_at(self, epoch: int, positions: IntArray) -> int:
        """How many values the pictures of the samples at positions have, all together."""
        catalog = self.catalog
        pictures = np.array([math.prod(shape) for shape in catalog.shapes], dtype=np.int64)
        return self.sampler.length * int(pictures[catalog.shape[self.videos_at(epoch, positions)]].sum())

    @property
    def largest(self) -> int:
        """How many values the pictures of a sample have at most."""
        return self.sampler.length * max(map(math.prod, self.catalog.shapes))

    def _video(self, index: int) -> tuple[int, str, int]:
        """The place, name and label of a sample's video."""
        video = int(np.searchsorted(self.catalog.bounds, index, side="right")) - 1
        return video, self.catalog.names[video], int(self.catalog.labels[video])

    @cached_property
    def fingerprint(self) -> str:
        """What decides the order of samples and their frames."""
        catalog, order = self.catalog, self.order
        times = [None if np.isnan(t) else t for t in catalog.end_s.tolist()]
        return fingerprint(
            files=catalog.keys,
            frames=[catalog.first.tolist(), catalog.end.tolist(), times if self.by_time else None],
            sampler=repr(self.sampler),
            seed=order.seed,
            shuffle=order.shuffle,
            shard=list(order.shard),
            stick_to_shard=order.stick_to_shard,
            even_shards=order.even,
        )
