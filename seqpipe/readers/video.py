"""Video: a dataset of sequences cut from many videos."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ..array import IntArray
from ..errors import ParameterError
from ..sampling import EpochOrder, choose_sampler
from ..sampling.params import (
    CLIPS_TOGETHER,
    EPOCH,
    MIN_FRAMES,
    ON_ERROR,
    REPEATS,
    ClipMode,
    LastBatch,
    OnError,
    PadMode,
    SegmentMode,
)
from ..sequence import Sequence
from ..video.convert.output import Color, DType, FrameLayout, OutputSpec
from ..video.device import DECODE, STREAM, THREADS, Decode, parse_device
from ..video.engine.engine import available_cores
from ..video.index.shared import find_register
from .clock import Clock
from .collate import Ragged
from .entry import Listing
from .epochs import EpochDataset
from .fetch import Fetcher
from .labels import LabelType
from .lazy_engine import LazyEngine
from .listing import listing_of
from .loader import Batches, PassContext, Sequences
from .outputs import Outputs
from .params import (
    CLIP_LAYOUT,
    PREFETCH,
    PREFETCH_GIB,
    TORCH_DOOR,
    ClipLayout,
    bytes_ahead,
    check_fill,
    check_index,
    output_of,
)
from .ranges import Range
from .report import ReportBook
from .selection import SampleRequest, Selection
from .survey import VideoSurvey

__all__ = ["Video"]

_Path = str | os.PathLike[str]


class Video(EpochDataset):
    """A dataset of sequences, cut from many videos.

    Which frames make which sample is decided by arithmetic: a sample depends on (seed, epoch, its index) alone,
    not on threads, batch size, rank, or how often iteration was stopped. Making a dataset reads only the heads
    of cached indexes, or, the next time and for 256 files or more, one register of them all; each file's size and
    time of change are looked at every time. Files without an index are indexed first, on all threads.

    Exactly one of ``files``, ``file_root``, ``manifest`` and ``videos`` says which videos. What a sample is:

    ===================================== ====================================================================
    given                                 samples
    ===================================== ====================================================================
    ``sequence_length``                   windows that start every ``step`` frames
    ``sequence_length, clips_per_video``  sequences at random starts, so many from each video in every epoch
    ``segments``                          one frame from each of so many equal parts of the video
    ``fps`` with one of the first two     the same at a target frame rate, by timestamps
    ===================================== ====================================================================

    Args:
        files: paths and URLs.
        file_root: a folder of class folders, sorted; or of videos, which then have no label.
        manifest: a CSV, TSV or JSONL file; see :mod:`seqpipe.readers.manifest`.
        videos: a listing, as :func:`seqpipe.readers.list_videos` and :mod:`seqpipe.readers.published` make it.
        labels: for ``files``: a label for each, a whole number or the name of one of ``classes``.
        classes: names of classes, which decide their numbers.
        label_type: what labels are: "class", "classes" (several for each video), "number", "vector" or "text"; see
            :mod:`seqpipe.readers.labels`.
        ranges: for ``files``: the part of each to use, a :class:`seqpipe.readers.Range` or None.
        sequence_length: frames in a sequence.
        stride: distance between its frames, in frames (of the rate ``fps``, if given).
        step: distance between the starts of neighboring windows; ``sequence_length * stride`` by default.
        clips_per_video: how many sequences each video gives in every epoch.
        clip_mode: where these begin: "random"; or "even", spread over the video, as evaluation wants them.
        clips_together: whether the sequences of a video follow one another in every epoch, so that those of one batch
            share its decoding; shards are then cut between videos.
        repeats: how often each sample comes in an epoch, one time after the other, decoded once in a batch. Its
            frames are the same; its index is not, so that operators draw anew ("repeated augmentation").
        segments: how many equal parts each video is cut into.
        segment_mode: which frame of each part: "random" or "center".
        fps: target frame rate in Hz.
        pad_mode: how sequences that reach past the end of the video or range are filled: "edge", "constant",
            "reflect" or "wrap"; "none" leaves them out, and a warning counts the videos that give none.
        fill_value: the pixels of padding by "constant", and around pictures in batches with ``ragged="pad"``.
        min_frames: videos, or ranges, with fewer frames are left out, without a warning.
        shuffle: a new order of all samples in every epoch.
        seed: of the order and of random sequences.
        shard: ``(rank, world)``: the rank gets its part of every epoch.
        stick_to_shard: the rank keeps the same samples in every epoch, so that it can cache their files.
        even_shards: all ranks get equally many samples: where one would get one less, it repeats its first.
        device: "cpu", "cuda", "cuda:N", or "auto": the first GPU if there is one that can be used.
        decode: who decodes for a GPU: its engines, and the CPU what they cannot ("auto"); the engines alone
            ("nvdec"); engines and CPU side by side ("mixed"); the CPU alone ("cpu").
        stream: which stream of each file, by its number in the container; by default the best video, as ffmpeg chooses.
        threads: of the CPU, that decode; by default one for each core that the process may use.
        prefetch: batches that are read ahead, beside the one that is waited for.
        prefetch_gib: GiB of the device's memory that these and the one that is waited for may hold; a quarter of
            all by default. Larger batches are read one at a time; with 0 nothing is read ahead.
        color: "RGB", "BGR", "GRAY" or "YCbCr"; this and the next: see :class:`seqpipe.OutputSpec`.
        dtype: "uint8", "uint16", "float16" or "float32".
        layout: "FHWC", "FCHW", or "CFHW" (batches ``NCFHW``), as networks of three-dimensional convolutions take it.
        mean: for floats, what is taken off each value of 0…1: a number, or one for each channel.
        std: for floats, what is divided by after that.
        size: (height, width).
        short_side: length of the shorter side.
        max_side: the most that the longer side may have.
        crop: (top, left, height, width) of the upright picture, before scaling.
        rotate: whether the display matrix is applied.
        mirror: whether pictures are mirrored left to right.
        output: these in one value, instead of them.
        on_error: what becomes of what cannot be read. "raise": the error is raised, and iteration can go on
            behind it. "skip": it is left out. "substitute": a video that cannot be opened is left out, a
            sample is replaced by another one of the epoch; see :class:`seqpipe.readers.fetch.Fetcher`.
            :meth:`report` names each. That a GPU's memory is full is no sample's fault, and always raised.
        cache_dir: where indexes are kept; by default ``SEQPIPE_CACHE_DIR``, else the platform's cache folder.
        register: a file of indexes that a team or a cluster shares, as ``seqpipe index --register FILE`` makes it; by
            default ``seqpipe.register`` in ``file_root``, if it is there.

    Raises:
        ParameterError: an argument is out of bounds, arguments exclude each other, or all videos are too short.
        ManifestError: a line of the manifest cannot be used.
        SourceError: a video cannot be used and ``on_error`` is "raise"; or none can be.
        BackendError: the device is not available.
        DeviceMemoryError: the GPU is full already.
    """

    def __init__(
        self,
        *,
        files: Iterable[_Path] | None = None,
        file_root: _Path | None = None,
        manifest: _Path | None = None,
        videos: Listing | None = None,
        labels: Iterable[Any] | None = None,
        classes: Iterable[str] | None = None,
        label_type: LabelType = "class",
        ranges: Iterable[Range | None] | None = None,
        sequence_length: int | None = None,
        stride: int = 1,
        step: int | None = None,
        clips_per_video: int | None = None,
        clip_mode: ClipMode = "random",
        clips_together: bool = False,
        repeats: int = 1,
        segments: int | None = None,
        segment_mode: SegmentMode = "random",
        fps: float | None = None,
        pad_mode: PadMode = "none",
        fill_value: float = 0,
        min_frames: int | None = None,
        shuffle: bool = False,
        seed: int = 0,
        shard: tuple[int, int] = (0, 1),
        stick_to_shard: bool = False,
        even_shards: bool = False,
        device: str = "cpu",
        decode: Decode = "auto",
        stream: int | None = None,
        threads: int | None = None,
        prefetch: int = 2,
        prefetch_gib: float | None = None,
        color: Color = "RGB",
        dtype: DType = "uint8",
        layout: ClipLayout = "FHWC",
        mean: float | tuple[float, ...] | None = None,
        std: float | tuple[float, ...] | None = None,
        size: tuple[int, int] | None = None,
        short_side: int | None = None,
        max_side: int | None = None,
        crop: tuple[int, int, int, int] | None = None,
        rotate: bool = True,
        mirror: bool = False,
        output: OutputSpec | None = None,
        on_error: OnError = "raise",
        cache_dir: _Path | None = None,
        register: _Path | None = None,
    ) -> None:
        place = self._place = parse_device(device)
        on_error = ON_ERROR.check(on_error)
        sampler = choose_sampler(
            sequence_length=sequence_length,
            stride=stride,
            step=step,
            clips_per_video=clips_per_video,
            clip_mode=clip_mode,
            segments=segments,
            segment_mode=segment_mode,
            fps=fps,
            pad_mode=pad_mode,
        )
        by_frame: FrameLayout = "FCHW" if CLIP_LAYOUT.check(layout) == "CFHW" else layout  # type: ignore[assignment]  # narrowed
        fields = OutputSpec(
            color, dtype, crop, size, short_side, max_side, rotate, mirror, by_frame, mean, std
        )
        spec = output_of(output, fields)
        fill, least = check_fill(fill_value, spec), MIN_FRAMES.check(min_frames)
        block = REPEATS.check(repeats) * _clips_in_block(clips_per_video, clips_together)
        empty = EpochOrder(
            size=0, seed=seed, shuffle=shuffle, shard=shard, stick_to_shard=stick_to_shard, block=block
        )  # checked before any file is touched
        self._threads, self._prefetch = THREADS.check(threads), PREFETCH.check(prefetch)
        stream, prefetch_gib = STREAM.check(stream), PREFETCH_GIB.check(prefetch_gib)
        self._book = ReportBook()
        shared = find_register(register, file_root)
        self._engine = LazyEngine(self._threads, cache_dir, place, DECODE.check(decode), stream, shared)

        named = {"files": files, "file_root": file_root, "manifest": manifest, "labels": labels}
        listing = listing_of(videos, **named, classes=classes, label_type=label_type, ranges=ranges)
        self._book.passed_over(listing.passed_over)
        timed = fps is not None
        survey = VideoSurvey(sampler, spec, timed, least, on_error, cache_dir, self._book, stream, shared)
        catalog = survey.catalog(listing, self._engine.get())
        if said := survey.left_out(len(listing.entries)):
            warnings.warn(said, stacklevel=2)
        self._classes, self._label_type = listing.classes, listing.label_type
        self._selection = Selection(
            catalog,
            sampler,
            replace(empty, size=catalog.samples * repeats, even=even_shards),
            Clock(cache_dir, stream, shared),
            by_time=timed,
            repeats=repeats,
        )
        fetcher = Fetcher(self._selection, self._engine, spec, fill, on_error, self._book)
        self._feed = PassContext(
            replace(fetcher, channels_first=layout == "CFHW"), bytes_ahead(prefetch_gib, place)
        )

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes by their numbers; none where labels are just numbers."""
        return self._classes

    @property
    def label_type(self) -> LabelType:
        """What labels are."""
        return self._label_type

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what the dataset knows of its samples beside labels, as :attr:`seqpipe.Batch.columns` has it."""
        return tuple(dict.fromkeys(name for row in self._selection.catalog.fields for name in row))

    @property
    def total(self) -> int:
        """Samples of an epoch, of all ranks together; indices go from 0 to before this."""
        return self._selection.total

    @property
    def fetcher(self) -> Fetcher:
        """What reads the samples at given positions of an epoch, for those that decide themselves which come when."""
        return self._feed.fetcher

    @property
    def room(self) -> int:
        """The bytes that ``prefetch_gib`` allows to batches under way and waiting."""
        return self._feed.room

    @property
    def layout(self) -> ClipLayout:
        """The axes of sequences."""
        return "CFHW" if self.fetcher.channels_first else self.output.layout

    @property
    def output(self) -> OutputSpec:
        """What pictures are made into."""
        return self._feed.fetcher.output

    def __repr__(self) -> str:
        catalog, order = self._selection.catalog, self._selection.order
        parts = [f"{len(catalog)} videos", f"{self.total} samples", repr(self._selection.sampler)]
        parts += [f"shuffle seed {order.seed}"] if order.shuffle else []
        parts += [f"shard {order.shard[0]} of {order.shard[1]}"] if order.shard[1] > 1 else []
        return f"Video({', '.join(parts)})"

    def videos(self, indices: Any) -> IntArray:
        """The videos that samples are taken from, as places in the dataset: clips and views of one video share one.

        Args:
            indices: of samples, whole numbers ``(N,)`` such as :attr:`seqpipe.Batch.indices`.
        """
        return self._selection.videos_of(np.asarray(indices))

    def requests(self, epoch: int | None = None, positions: IntArray | None = None) -> list[SampleRequest]:
        """What an epoch consists of, for this rank and in its order; nothing is decoded.

        Args:
            epoch: by default the current one.
            positions: places within the rank's epoch; by default all of them.

        Raises:
            ParameterError: a position is outside of the epoch.
        """
        return self._selection.at(self._feed.epoch if epoch is None else EPOCH.check(epoch), positions)

    def sample(self, index: int, epoch: int | None = None, *, outputs: Outputs | None = None) -> Sequence:
        """One sample by its index within the dataset, whatever the rank and the order.

        Args:
            index: from 0 to ``total - 1``.
            epoch: decides the frames of random samples; by default the current one.
            outputs: as :meth:`batches` takes it.

        Raises:
            ParameterError: there is no such sample, or its pictures do not have what is asked of them.
            SourceError: it cannot be read.
        """
        index = check_index(index, self.total)
        chosen = self._feed.epoch if epoch is None else EPOCH.check(epoch)
        return self._feed.fetching(outputs).single(self._selection.sample(index, chosen), chosen)

    def batches(
        self,
        batch_size: int,
        *,
        last_batch: LastBatch = "partial",
        ragged: Ragged = "list",
        outputs: Outputs | None = None,
    ) -> Batches:
        """The current epoch in batches.

        Args:
            batch_size: samples in a batch.
            last_batch: what becomes of the rest that does not fill one: "partial" gives it short, "drop" leaves
                it out, "fill" completes it from the start of the epoch.
            ragged: pictures of different sizes make a batch that is a list of sequences, or, with "pad", an
                array that is filled up with ``fill_value``, and a mask that is True for real pixels.
            outputs: what the pictures of each sample are to be instead of what the dataset says, such as a window drawn
                for it: called with some samples (:class:`seqpipe.readers.SampleRequest`) and their epoch, it gives an
                :class:`seqpipe.OutputSpec` for each. ``fill_value`` is then the same color in these.

        Returns:
            An iterator with ``len``, ``state_dict`` and ``load_state_dict``; see :class:`seqpipe.readers.Batches`.

        Raises:
            ParameterError: an argument is out of bounds.
        """
        return Batches(
            self._feed,
            batch_size=batch_size,
            last_batch=last_batch,
            ragged=ragged,
            prefetch=self._prefetch,
            outputs=outputs,
        )

    def sequences(self, *, outputs: Outputs | None = None) -> Sequences:
        """The current epoch sequence by sequence, as an iterator with ``state_dict``; outputs as :meth:`batches` has.

        It reads in groups of as many sequences as there are threads, two groups at once; in smaller ones where
        these would hold more than ``prefetch_gib``.
        """
        group = self._feed.group(max(2, self._threads or available_cores()), outputs)
        return Sequences(self._feed, group=group, outputs=outputs)

    def __iter__(self) -> Sequences:
        return self.sequences()

    def as_torch(self, batch_size: int, **options: Any) -> Any:
        """The batches as torch's IterableDataset, right with any number of workers; see :class:`seqpipe.torch.Dataset`.

        Args:
            batch_size: samples in a batch; the DataLoader is given ``batch_size=None``.
            **options: ``last_batch``, ``layout``, ``device`` and ``pin_memory``.

        Raises:
            ImportError: torch is not installed.
            ParameterError: an argument is not valid.
        """
        return importlib.import_module(TORCH_DOOR).Dataset(self, batch_size, **options)

    def stats(self) -> dict[str, dict[str, int]]:
        """What was decoded since the threads were started.

        Returns:
            ``frames``: distinct frames of each run by who decoded them, ``"cpu"`` or ``"nvdec"``. ``fallbacks``: why
            something went to the CPU that was meant for a GPU, with how often.
        """
        return self._engine.get().stats()

    def close(self) -> None:
        """Stop the threads; a later use starts them again."""
        self._engine.close()


def _clips_in_block(clips_per_video: int | None, together: bool) -> int:
    """How many samples follow one another in every epoch.

    Raises:
        ParameterError: clips are to be together, and their number is not given.
    """
    if not CLIPS_TOGETHER.check(together):
        return 1
    if clips_per_video is None:
        raise ParameterError(
            "clips_together=True has no meaning without clips_per_video", advice="Give clips_per_video too"
        )
    return clips_per_video
