"""Videos, and folders of frames, as a source of clips."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from ..array import IntArray
from ..dataset.dataset import Dataset
from ..dataset.samples import column_part, first_error
from ..dataset.source import PLAIN, Heads, ReadPlan, ReadResult, SampleOutcome
from ..errors import ParameterError, SeqpipeError, described_type, warn_caller
from ..ops import Type
from ..readers.entry import Listing
from ..readers.fetch import Fetcher, LazyEngine, LazyPool, Pair, Pending, begin_together
from ..readers.frame_content import FrameContent, SceneDetector, by_scenes
from ..readers.frame_folders import FolderSurvey, FrameFiles, LazyFolderEngine, list_folders
from ..readers.frame_values import Clock, FrameMotion
from ..readers.labels import LabelParser, LabelType
from ..readers.listing import listing, source_kind
from ..readers.report import Report, ReportBook
from ..readers.selection import Outputs, Selection
from ..readers.survey import VideoSurvey
from ..sampling import QwenFrames, Sampler, WholeSpans, choose_sampler
from ..sampling.params import (
    CLIPS_TOGETHER,
    MAX_FRAMES,
    MIN_FRAMES,
    ON_ERROR,
    REPEATS,
    SEED,
    SHUFFLE,
    OnError,
)
from ..video.convert.output import OutputSpec, check_fill, check_output
from ..video.device import DECODE, STREAM, THREADS, parse_device
from ..video.engine.engine import Engine
from ..video.index.open import IndexOptions
from ..video.index.shared import find_register
from .audio import AudioClips, AudioSpec
from .options import Decode
from .takes import Clip, Every, Segments, Spread, VideoTake, Whole, in_words_of

__all__ = ["ClipSource", "folders", "videos"]

_FETCHERS: Final = 16  # of fused operators, whose plans are kept


@dataclass(frozen=True, eq=False)
class ClipSource:
    """Sequences of frames of videos; the parts of a sample are ``image`` and what is known of it.

    Attributes:
        fetcher: reads samples by their indices.
        take: what is taken of each video.
        shuffle: whether each epoch has a new order.
        device: device of the samples' arrays.
        classes: names of the classes; a name's position is its label.
        label_type: type of the labels.
        name: what the source consists of.
    """

    fetcher: Fetcher
    take: VideoTake
    shuffle: bool
    device: str
    classes: tuple[str, ...]
    label_type: LabelType
    name: str = "videos"
    mix: int = 0
    _fused: dict[int, tuple[Outputs, Fetcher]] = field(default_factory=dict, init=False)

    @property
    def _selection(self) -> Selection:
        return self.fetcher.selection

    @property
    def unit(self) -> int:
        """Number of consecutive samples that stay together."""
        take = self.take
        repeats: int = getattr(take, "repeats", 1)
        return repeats * (take.per_video or 1) if isinstance(take, Clip) and take.together else repeats

    @property
    def size(self) -> int:
        """Number of samples."""
        return self._selection.total

    @property
    def seed(self) -> int:
        """Seed of order and samples."""
        return self._selection.seed

    @property
    def paths(self) -> tuple[str, ...]:
        """Path or URL of each video."""
        return self.fetcher.selection.catalog.names

    @property
    def output(self) -> OutputSpec:
        """Color, dtype, size and layout of the frames, which operators may be fused with."""
        return self.fetcher.output

    @property
    def fill(self) -> float:
        """Pixel value of padding."""
        return self.fetcher.fill

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the further columns of a manifest."""
        return tuple(dict.fromkeys(name for row in self._selection.catalog.fields for name in row))

    @property
    def parts(self) -> Mapping[str, Type]:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        selection = self._selection
        sides = [set(sizes) for sizes in zip(*selection.catalog.shapes, strict=True)]
        shape = (selection.sampler.length, *(side.pop() if len(side) == 1 else None for side in sides))
        numbers = {"label": "", "timestamps": "F", "frames": "F", "index": "", "video": ""}
        types = {
            name: Type("numbers", axes, "float64" if name == "timestamps" else "int64", "cpu")
            for name, axes in numbers.items()
        }
        if self.label_type != "class":
            types["label"] = Type()
        image = Type("images", self.output.layout, self.output.dtype, self.device, shape)
        columns = {column_part(name, ("image",)): Type() for name in self.columns}
        return {"image": image, **types, **columns}

    def sizes(self) -> IntArray:
        """Return (frames, height, width) of each sample, from the catalog."""
        catalog, videos = self._selection.catalog, self._selection.videos_of(np.arange(self.size))
        letters = self.output.layout.replace("F", "")
        shapes = np.array(catalog.shapes, np.int64)[:, [letters.index("H"), letters.index("W")]]
        return np.column_stack([catalog.lengths[videos], shapes[catalog.shape[videos]]])

    def shortened(self, kept: IntArray) -> ClipSource:
        """Return the source of samples that keep their first frames, as many as given for each."""
        selection = replace(self._selection, kept=kept)
        return replace(self, fetcher=replace(self.fetcher, selection=selection))

    @property
    def facts(self) -> Mapping[str, object]:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        return self._selection.facts

    def plan(self, epoch: int, indices: IntArray, heads: Heads = PLAIN) -> ReadPlan:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        fetchers = {name: self._fetcher(head) for name, head in heads.items()}
        return ReadPlan(
            epoch, indices, sum(fetcher.size(epoch, indices) for fetcher in fetchers.values()), fetchers
        )

    def _fetcher(self, head: Outputs | None) -> Fetcher:
        """Return the fetcher of an output; each keeps its last plan."""
        if head is None:
            return self.fetcher
        known = self._fused.get(id(head))
        if known is None:
            if len(self._fused) >= _FETCHERS:
                self._fused.clear()
            known = self._fused[id(head)] = head, replace(self.fetcher, outputs=head)
        return known[1]

    def begin(self, plan: ReadPlan, *, stack: bool = True) -> _Reading:
        """See :class:`seqpipe.dataset.source.SampleSource`; frames are decoded once for all outputs."""
        fetchers: dict[str, Fetcher] = plan.work
        pending = begin_together(list(fetchers.values()), plan.epoch, plan.indices, stack=stack)
        return _Reading(plan, stack, tuple(pending))

    def finish(self, work: _Reading) -> ReadResult:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        if work.pending[0].engine is not self.fetcher.engine.get():
            # the data set was closed, or this is a forked process: what was begun never finishes
            work = self.begin(work.plan, stack=work.stack)
        fetchers: dict[str, Fetcher] = work.plan.work
        fetched = {
            name: fetcher.finish(pending, counted=not number)
            for number, ((name, fetcher), pending) in enumerate(
                zip(fetchers.items(), work.pending, strict=True)
            )
        }
        rows = zip(*(result.outcomes for result in fetched.values()), strict=True)
        outcomes = tuple(_outcome(dict(zip(fetched, row, strict=True))) for row in rows)
        stacked = {name: result.stacked for name, result in fetched.items() if result.stacked is not None}
        return ReadResult(outcomes, stacked)

    def cancel(self, work: _Reading) -> None:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        for pending in work.pending:
            pending.read.cancel()

    def metadata(self, indices: IntArray) -> Mapping[str, Any]:
        """The position of each sample's video in the data set."""
        return {"video": self._selection.videos_of(indices)}

    def report(self) -> Report:
        """Return what was lost."""
        return self.fetcher.book.so_far()

    def stats(self) -> dict[str, Any]:
        """Return counts of decoded frames since the threads started.

        Returns:
            ``frames``: number of decoded frames by backend, ``"cpu"`` or ``"nvdec"``. ``fallbacks``: number of times
            that the CPU decoded instead of NVDEC, by reason.
        """
        return self.fetcher.engine.get().stats()

    def share_cores(self, processes: int) -> None:
        """Let this process use one of ``processes`` parts of the cores."""
        self.fetcher.engine.share_cores(processes)

    def close(self) -> None:
        """Stop the threads; the next read starts them again."""
        self.fetcher.engine.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fused": {}}  # found by identity, which copies do not share

    def __repr__(self) -> str:
        shuffled = f", shuffle seed {self.seed}" if self.shuffle else ""
        count = len(self._selection.catalog)
        return f"{self.name}({count} {self.name}, {self.size} samples, {self.take!r}{shuffled})"


class _Reading(NamedTuple):
    """Samples that are being read, with each output."""

    plan: ReadPlan
    stack: bool
    pending: tuple[Pending, ...]


def _outcome(by_name: Mapping[str, Pair | SeqpipeError | None]) -> SampleOutcome:
    """Return what was read of one sample with each output."""
    pairs = {name: outcome for name, outcome in by_name.items() if isinstance(outcome, tuple)}
    if len(pairs) < len(by_name):
        return first_error(by_name.values())
    index = next(iter(pairs.values()))[0].index
    return index, {name: sequence for name, (_, sequence) in pairs.items()}


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
    split: Literal["scenes"] | SceneDetector | None = None,
) -> Dataset:
    """Return a data set of sequences of frames, cut from many videos.

    ds = seqpipe.videos("train", Clip(16, stride=2, per_video=4), shuffle=True).map(augment).batch(8)

    Nothing is decoded yet; files without an index are indexed on all threads. The parts of a sample are ``image`` (a
    :class:`seqpipe.Sequence`, in batches a :class:`seqpipe.Batch`), ``label``, ``timestamps`` in seconds, ``frames``
    (numbers, -1 for padding), ``index``, ``video`` (the position of its video), and the further columns of a manifest.

    Args:
        source: a folder (its subfolders are the classes), a manifest (.csv, .tsv, .jsonl), a video, a list of videos,
            or a :func:`listing`.
        take: what is taken of each video: :class:`Clip`, :class:`Segments`, :class:`Every`, :class:`Spread`, or
            :class:`Whole`, which is all of it, or of the part that a manifest's ``start_s`` and ``end_s`` give; a
            number is the length of clips.
        output: color, dtype, size and crop of the frames; by default RGB uint8 at full size.
        decode: backend, stream, threads and indexes.
        device: "cpu", "cuda", "cuda:N", or "auto" for the first usable GPU, else the CPU.
        shuffle: whether each epoch has a new random order of all samples.
        seed: seed of the order and of random samples.
        on_error: policy for unreadable sources: "raise", "skip", or "substitute" by a random sample of the data set.
            :meth:`Dataset.report` lists every case.
        audio: rate and channels of the sound, which is then the part ``audio``: float32 of shape (channels, samples),
            from the clip's first frame to the end of its last one.
        split: "scenes" takes samples of each scene as of a video of its own, so that none spans a cut. Scenes are found
            by the adaptive rule of PySceneDetect; each video is decoded once for it, and the result is kept beside its
            index. Or a function of a :class:`seqpipe.VideoReader`, which returns the frames with which scenes begin.

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
    kind = {} if isinstance(source, Listing) else source_kind(source)
    place, stream = parse_device(device), STREAM.check(chosen.stream)
    indexes = IndexOptions(chosen.cache_dir, stream, find_register(chosen.register, kind.get("file_root")))
    engine = LazyEngine(THREADS.check(chosen.threads), place, DECODE.check(chosen.backend), indexes)
    plan = _Sampling.of(taken, output, seed, shuffle, on_error)
    motion = None if getattr(taken, "min_motion", None) is None else FrameMotion(indexes)
    survey = VideoSurvey(
        *(
            plan.sampler,
            plan.output,
            plan.by_time,
            plan.min_frames,
            plan.on_error,
            indexes,
            plan.book,
            motion,
        ),
        max_frames=plan.max_frames,
    )
    listed = source if isinstance(source, Listing) else listing(source)
    if split is not None:
        if not (callable(split) or (isinstance(split, str) and split == "scenes")):
            raise ParameterError(
                f"split={split!r} is not valid",
                source="videos",
                allowed="'scenes', a function of a video, or None",
            )
        content = FrameContent(indexes, str(place))
        listed = by_scenes(listed, split if callable(split) else None, content, engine.get().map)
    dataset = plan.dataset(listed, survey, engine, Clock(indexes), str(place), "videos")
    return dataset if audio is None else Dataset(AudioClips(dataset.source, audio))  # type: ignore[arg-type]  # ClipSource


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
    for name in ("fps", "min_motion"):
        if getattr(taken, name, None) is not None:
            raise ParameterError(f"{name} needs times, and folders of frames have none", source="Clip")
    if getattr(taken, "together", False):
        raise ParameterError("together has no meaning for single images", source="Clip")
    files = FrameFiles(template, first_number)
    engine = LazyFolderEngine(files, THREADS.check(threads))
    plan, indexes = _Sampling.of(taken, output, seed, shuffle, on_error), IndexOptions(None, None, None)
    survey = FolderSurvey(
        *(plan.sampler, plan.output, plan.by_time, plan.min_frames, plan.on_error, indexes, plan.book),
        max_frames=plan.max_frames,
        files=files,
    )
    listed = list_folders(source, labels, LabelParser(classes, label_type))
    return plan.dataset(listed, survey, engine, Clock(indexes), "cpu", "folders")


@dataclass(frozen=True, eq=False)
class _Sampling:
    """The checked arguments that videos and folders of frames have in common."""

    take: VideoTake
    sampler: Sampler
    output: OutputSpec
    fill: float
    min_frames: int | None
    max_frames: int | None
    seed: int
    shuffle: bool
    on_error: OnError
    book: ReportBook = field(default_factory=ReportBook)

    @classmethod
    def of(cls, take: VideoTake, output: Any, seed: Any, shuffle: Any, on_error: Any) -> _Sampling:
        """Check arguments, before any file is touched."""
        spec = check_output(OutputSpec() if output is None else output)
        with in_words_of(take):
            fill = check_fill(getattr(take, "fill", 0), spec)
            least = MIN_FRAMES.check(getattr(take, "min_frames", None))
            longest = MAX_FRAMES.check(getattr(take, "max_frames", None))
            REPEATS.check(getattr(take, "repeats", 1))
            if CLIPS_TOGETHER.check(getattr(take, "together", False)) and not getattr(
                take, "per_video", None
            ):
                raise ParameterError(
                    "together=True has no meaning without per_video", advice="Give per_video too"
                )
            sampler = _sampler_of(take)
        seed, shuffle = SEED.check(seed), SHUFFLE.check(shuffle)
        return cls(take, sampler, spec, fill, least, longest, seed, shuffle, ON_ERROR.check(on_error))

    @property
    def by_time(self) -> bool:
        """Whether samples are chosen by timestamps."""
        return getattr(self.take, "fps", None) is not None

    def dataset(
        self,
        listed: Listing,
        survey: VideoSurvey,
        engine: LazyPool[Engine],
        clock: Clock,
        device: str,
        name: str,
    ) -> Dataset:
        """Return the data set of listed videos, after looking at all of them."""
        if not len(listed):
            raise ParameterError("the listing is empty", source=name, allowed="at least one video")
        self.book.skipped(listed.skipped)
        catalog = survey.catalog(listed, engine.get())
        if warning := survey.warning(len(listed.entries)):
            warn_caller(warning)
        selection = Selection(
            *(catalog, survey.sampler, self.seed, clock, self.by_time),
            getattr(self.take, "repeats", 1),
            survey.motion,
        )
        fetcher = Fetcher(selection, engine, self.output, self.fill, self.on_error, self.book)
        named = listed.classes, listed.label_type
        return Dataset(ClipSource(fetcher, self.take, self.shuffle, device, *named, name))


def _sampler_of(take: VideoTake) -> Sampler:
    """Return what selects the frames of samples."""
    if isinstance(take, Spread):
        return QwenFrames(fps=take.fps, min_count=take.min_count, max_count=take.max_count)
    if isinstance(take, Whole):
        return WholeSpans(stride=take.stride, fps=take.fps)
    own = ("clips_together", "repeats", "fill_value", "min_frames")
    return choose_sampler(**{name: value for name, value in take.arguments().items() if name not in own})


def _checked_take(take: Any) -> VideoTake:
    taken = Clip(take) if isinstance(take, int) and not isinstance(take, bool) else take
    if not isinstance(taken, (Clip, Segments, Every, Spread, Whole)):
        raise ParameterError(
            f"take is {described_type(take)}",
            source="videos",
            allowed="Clip(length, …), Segments(count), Every(frames), Spread(fps), Whole(), or a length",
        )
    return taken
