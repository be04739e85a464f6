"""Videos, and folders of frames, as a source of clips."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..array import IntArray
from ..errors import ParameterError, described_type
from ..ops import Type
from ..pipeline.fusion import Head
from ..readers.entry import Listing
from ..readers.fetch import FetchedSamples, Fetcher, Pending
from ..readers.frame_folders import FrameFolders
from ..readers.labels import LabelType
from ..readers.listing import list_videos
from ..readers.ranges import Range
from ..readers.report import Report
from ..readers.video import Video
from ..sampling.params import OnError
from ..video.convert.output import OutputSpec
from .audio import AudioClips, AudioSpec
from .dataset import Dataset
from .options import Decode
from .samples import column_part
from .source import ReadPlan, ReadResult
from .takes import Clip, VideoTake, in_words_of

__all__ = ["ClipSource", "folders", "listing", "read_of", "videos"]

_Path: TypeAlias = "str | os.PathLike[str]"
_MANIFESTS = (".csv", ".tsv", ".jsonl")


@dataclass(frozen=True, eq=False)
class ClipSource:
    """Sequences of frames of videos; the parts of a sample are ``image`` and what is known of it.

    Attributes:
        reader: the reader, whose samples are taken by their indices.
        take: what is taken of each video.
        shuffle: whether each epoch has a new order.
        name: what the source consists of.
    """

    reader: Video
    take: VideoTake
    shuffle: bool
    name: str = "videos"
    mix: int = 0

    @property
    def fetcher(self) -> Fetcher:
        """Reads samples by their indices."""
        return self.reader.fetcher

    @property
    def unit(self) -> int:
        """Number of consecutive samples that stay together."""
        take = self.take
        if not isinstance(take, Clip):
            return getattr(take, "repeats", 1)
        return take.repeats * (take.per_video or 1 if take.together else 1)

    @property
    def size(self) -> int:
        """Number of samples."""
        return self.reader.total

    @property
    def seed(self) -> int:
        """Seed of order and samples."""
        return self.fetcher.selection.seed

    @property
    def device(self) -> str:
        """Device of the samples' arrays."""
        return self.reader.device

    @property
    def output(self) -> OutputSpec:
        """Color, dtype, size and layout of the frames, which operators may be fused with."""
        return self.reader.output

    @property
    def layout(self) -> str:
        """Layout of sequences."""
        return self.reader.layout

    @property
    def fill(self) -> float:
        """Pixel value of padding."""
        return self.fetcher.fill

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; a name's position is its label."""
        return self.reader.classes

    @property
    def parts(self) -> Mapping[str, Type]:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        selection = self.fetcher.selection
        sides = [set(one) for one in zip(*selection.catalog.shapes, strict=True)]
        shape = (selection.sampler.length, *(side.pop() if len(side) == 1 else None for side in sides))
        numbers = {"label": "", "timestamps": "F", "frames": "F", "index": "", "video": ""}
        types = {
            name: Type("numbers", axes, "float64" if name == "timestamps" else "int64", "cpu")
            for name, axes in numbers.items()
        }
        if self.reader.label_type != "class":
            types["label"] = Type()
        image = Type("images", self.output.layout, self.output.dtype, self.device, shape)
        columns = {column_part(name, ("image",)): Type() for name in self.reader.columns}
        return {"image": image, **types, **columns}

    @property
    def facts(self) -> Mapping[str, object]:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        return self.fetcher.selection.facts

    def plan(self, epoch: int, indices: IntArray, head: Head | None = None) -> ReadPlan:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        fetcher = self._fetcher(head)
        fetcher.prepare(epoch, indices)
        return ReadPlan(epoch, indices, fetcher.size(epoch, indices), fetcher)

    def _fetcher(self, head: Head | None) -> Fetcher:
        return self.reader.fetcher_for(head)

    def begin(self, plan: ReadPlan, *, stack: bool = True) -> tuple[Fetcher, Pending]:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        fetcher: Fetcher = plan.work
        return fetcher, fetcher.begin(plan.epoch, plan.indices, stack=stack)

    def finish(self, work: tuple[Fetcher, Pending]) -> ReadResult:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        fetcher, pending = work
        if pending.engine is not fetcher.engine.get():
            # the data set was closed, or this is a forked process: what was begun never finishes
            indices = np.array([sample.index for sample in pending.group.samples], np.int64)
            pending = fetcher.begin(pending.epoch, indices, stack=pending.stacked is not None)
        return read_of(fetcher.finish(pending))

    def cancel(self, work: tuple[Fetcher, Pending]) -> None:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        work[1].read.cancel()

    def metadata(self, indices: IntArray) -> Mapping[str, Any]:
        """The position of each sample's video in the data set."""
        return {"video": self.reader.videos(indices)}

    def report(self) -> Report:
        """Return what was lost."""
        return self.reader.report()

    def stats(self) -> dict[str, Any]:
        """Return counts of decoded frames by backend."""
        return self.reader.stats()

    def share_cores(self, processes: int) -> None:
        """Let this process use one of ``processes`` parts of the cores."""
        self.fetcher.engine.share_cores(processes)

    def close(self) -> None:
        """Stop the threads."""
        self.reader.close()

    def __repr__(self) -> str:
        shuffled = f", shuffle seed {self.seed}" if self.shuffle else ""
        count = len(self.fetcher.selection.catalog)
        return f"{self.name}({count} {self.name}, {self.size} samples, {self.take!r}{shuffled})"


def read_of(fetched: FetchedSamples) -> ReadResult:
    """Return what a fetcher has read."""
    outcomes: list[Any] = []
    for outcome in fetched.outcomes:
        if isinstance(outcome, tuple):
            sample, sequence = outcome
            outcomes.append((sample.index, {"image": sequence}))
        else:
            outcomes.append(outcome)
    return ReadResult(tuple(outcomes), {} if fetched.stacked is None else {"image": fetched.stacked})


def listing(
    source: Any = None,
    *,
    files: Iterable[Any] | None = None,
    file_root: _Path | None = None,
    manifest: _Path | None = None,
    labels: Iterable[Any] | None = None,
    classes: Iterable[str] | None = None,
    label_type: LabelType = "class",
    ranges: Iterable[Range | None] | None = None,
) -> Listing:
    """List videos, before they are read: for labels, classes, ranges and splits.

    train, held_out = seqpipe.listing("videos").split((0.9, 0.1), seed=0, stratified=True)

    Args:
        source: a folder, a manifest (.csv, .tsv, .jsonl), a video, or a list of videos; or one of the next three.
        files: paths and URLs.
        file_root: a folder whose subfolders, sorted by name, are the classes; or a folder of videos without labels.
        manifest: a CSV, TSV or JSONL file.
        labels: for a list: one label for each video, an integer or a name from ``classes``.
        classes: names of the classes; a name's position is its label.
        label_type: type of the labels: "class", "classes", "number", "vector" or "text".
        ranges: for a list: the part of each video to use.

    Raises:
        ParameterError: not exactly one source is given, or arguments exclude one another.
        ManifestError: a line of the manifest is not valid.
    """
    named: dict[str, Any] = {"files": files, "file_root": file_root, "manifest": manifest}
    if source is not None:
        named = {**named, **_kind_of(source)}
    return list_videos(**named, labels=labels, classes=classes, label_type=label_type, ranges=ranges)


def _kind_of(source: Any) -> dict[str, Any]:
    """Return what a source of videos is: ``file_root``, ``manifest`` or ``files``."""
    if isinstance(source, (str, os.PathLike)):
        text = os.fspath(source)
        if not isinstance(text, str):
            raise ParameterError(f"source={text!r} is bytes", allowed="a path as text, or a list")
        if text.lower().endswith(_MANIFESTS):
            return {"manifest": text}
        return {"file_root": text} if Path(text).is_dir() else {"files": [text]}
    if isinstance(source, Iterable):
        return {"files": source}
    raise ParameterError(
        f"source is {described_type(source)}",
        allowed="a folder, a manifest (.csv, .tsv, .jsonl), a video, a list of videos, or seqpipe.listing(…)",
    )


def videos(
    source: Any,
    take: VideoTake | int,
    *,
    output: OutputSpec | None = None,
    decode: Decode | None = None,
    device: str = "cpu",
    shuffle: bool = False,
    seed: int = 0,
    on_error: OnError = "raise",
    audio: AudioSpec | None = None,
) -> Dataset:
    """Return a data set of sequences of frames, cut from many videos.

    ds = seqpipe.videos("train", Clip(16, stride=2, per_video=4), shuffle=True).map(augment).batch(8)

    Nothing is decoded yet; files without an index are indexed on all threads. The parts of a sample are ``image`` (a
    :class:`seqpipe.Sequence`, in batches a :class:`seqpipe.Batch`), ``label``, ``timestamps`` in seconds, ``frames``
    (numbers, -1 for padding), ``index``, ``video`` (the position of its video), and the further columns of a manifest.

    Args:
        source: a folder (its subfolders are the classes), a manifest (.csv, .tsv, .jsonl), a video, a list of videos,
            or a :func:`listing`.
        take: what is taken of each video: :class:`Clip`, :class:`Segments`, :class:`Every`; a number is the length of
            clips.
        output: color, dtype, size and crop of the frames; by default RGB uint8 at full size.
        decode: backend, stream, threads and indexes.
        device: "cpu", "cuda", "cuda:N", or "auto" for the first usable GPU, else the CPU.
        shuffle: whether each epoch has a new random order of all samples.
        seed: seed of the order and of random samples.
        on_error: policy for unreadable sources: "raise", "skip", or "substitute" by a random sample of the data set.
            :meth:`Dataset.report` lists every case.
        audio: rate and channels of the sound, which is then the part ``audio``: float32 of shape (channels, samples),
            from the clip's first frame to the end of its last one.

    Raises:
        ParameterError: an argument is out of bounds, or all videos are too short.
        ManifestError: a line of the manifest is not valid.
        SourceError: a video cannot be opened and ``on_error`` is "raise"; or no video can be opened.
        BackendError: the device is not available.
    """
    taken = _checked_take(take)
    if not isinstance(decode, Decode | None):
        raise ParameterError(
            f"decode is {described_type(decode)}", source="videos", allowed="Decode(backend=…, threads=…, …)"
        )
    if not isinstance(audio, AudioSpec | None):
        raise ParameterError(
            f"audio is {described_type(audio)}",
            source="videos",
            allowed="AudioSpec(sample_rate=…, channels=…)",
        )
    chosen = decode or Decode()
    listed = {"videos": source} if isinstance(source, Listing) else _kind_of(source)
    with in_words_of(taken):
        reader = Video(
            **listed,
            **taken.arguments(),
            output=output,
            device=device,
            shuffle=shuffle,
            seed=seed,
            on_error=on_error,
            decode=chosen.backend,
            stream=chosen.stream,
            threads=chosen.threads,
            cache_dir=chosen.cache_dir,
            register=chosen.register,
        )
    clips = ClipSource(reader, taken, bool(shuffle))
    return Dataset(clips if audio is None else AudioClips(clips, audio))


def folders(
    source: Any,
    take: VideoTake | int,
    *,
    template: str | None = None,
    first_number: int = 1,
    labels: Iterable[Any] | None = None,
    classes: Iterable[str] | None = None,
    label_type: LabelType = "class",
    output: OutputSpec | None = None,
    threads: int | None = None,
    shuffle: bool = False,
    seed: int = 0,
    on_error: OnError = "raise",
) -> Dataset:
    """Return a data set of sequences, cut from folders of frames: one image for each frame.

    Args:
        source: a folder of folders (with classes between, or not), a list of folders, or a listing, such as that of
            :func:`seqpipe.readers.published.rawframes`.
        take: as for :func:`videos`, without ``fps`` and ``min_motion``, as frames have no times.
        template: file name of a frame with a field for its number, such as ``img_{:05}.jpg``; None for all images of a
            folder, sorted by the numbers in their names.
        first_number: number of the first frame in names by the template.
        labels: for a list: one label for each folder.
        classes: names of the classes.
        label_type: type of the labels.
        output: color, dtype, size and crop of the frames.
        threads: threads that decode; by default one for each core that the process may use.
        shuffle: whether each epoch has a new random order of all samples.
        seed: seed of the order and of random samples.
        on_error: policy for unreadable folders and frames.

    Raises:
        ParameterError: an argument is out of bounds, or all folders have too few frames.
        SourceError: a folder cannot be read and ``on_error`` is "raise"; or none can be.
    """
    taken = _checked_take(take)
    arguments = taken.arguments()
    for name in ("fps", "min_motion"):
        if arguments.pop(name, None) is not None:
            raise ParameterError(f"{name} needs times, and folders of frames have none", source="Clip")
    together = arguments.pop("clips_together", False)
    if together:
        raise ParameterError("together has no meaning for single images", source="Clip")
    if labels is not None and isinstance(source, (Listing, str, os.PathLike)):
        given = "a listing" if isinstance(source, Listing) else "a folder of folders"
        raise ParameterError(f"labels and {given} exclude one another", source="folders", allowed="a list")
    if isinstance(source, Listing):
        listed: dict[str, Any] = {"videos": source}
    elif isinstance(source, (str, os.PathLike)):
        listed = {"file_root": source}
    else:
        listed = {"folders": source, "labels": labels}
    with in_words_of(taken):
        reader = FrameFolders(
            **listed,
            **arguments,
            template=template,
            first_number=first_number,
            classes=classes,
            label_type=label_type,
            output=output,
            threads=threads,
            shuffle=shuffle,
            seed=seed,
            on_error=on_error,
        )
    return Dataset(ClipSource(reader, taken, bool(shuffle), name="folders"))


def _checked_take(take: Any) -> VideoTake:
    taken = Clip(take) if isinstance(take, int) and not isinstance(take, bool) else take
    if not hasattr(taken, "arguments") or "patch_size" in taken.arguments():
        raise ParameterError(
            f"take is {described_type(take)}",
            source="videos",
            allowed="Clip(length, …), Segments(count), Every(frames), or a length",
        )
    return taken
