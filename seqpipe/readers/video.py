"""Video: a dataset of sequences cut from many videos."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ..array import IntArray
from ..core.keywords import refuses_unknown
from ..core.padding import PadMode
from ..errors import ParameterError, warn_caller
from ..sampling import EpochOrder, choose_sampler
from ..sampling.params import (
    CLIPS_TOGETHER,
    MIN_FRAMES,
    ON_ERROR,
    REPEATS,
    ClipMode,
    LastBatch,
    OnError,
    SegmentMode,
)
from ..sequence import Sequence
from ..video.convert.output import Color, DType, FrameLayout, OutputSpec, check_fill
from ..video.device import DECODE, STREAM, THREADS, DecodeChoice, parse_device
from ..video.engine.engine import Engine, available_cores
from ..video.index.open import IndexOptions
from ..video.index.shared import find_register
from .collate import Ragged
from .entry import Listing
from .epochs import EpochDataset
from .fetch import Fetcher
from .frame_values import Clock, FrameMotion
from .labels import LabelType
from .lazy_engine import LazyEngine, LazyPool
from .listing import listing_of
from .loader import Batches, PassContext, Sequences
from .outputs import Outputs
from .params import (
    CLIP_LAYOUT,
    PREFETCH,
    PREFETCH_GIB,
    ClipLayout,
    bytes_ahead,
    output_of,
)
from .ranges import Range
from .report import ReportBook
from .selection import SampleRequest, Selection
from .survey import VideoSurvey

__all__ = ["Video"]

_Path = str | os.PathLike[str]


class Video(EpochDataset[SampleRequest]):
    """A dataset of sequences, cut from many videos.

    The frames of a sample depend on (seed, epoch, sample index) only: not on threads, batch size, rank, or interrupted
    iterations. The constructor decodes nothing. It reads the headers of cached indexes, or, for 256 files or more, one
    register that an earlier run has written; it checks the size and modification time of every file. Files without an
    index are indexed first, on all threads.

    Exactly one of ``files``, ``file_root``, ``manifest`` and ``videos`` selects the videos. The sampling arguments
    select the samples:

    ===================================== ====================================================================
    arguments                             samples
    ===================================== ====================================================================
    ``sequence_length``                   windows that start every ``step`` frames
    ``sequence_length, clips_per_video``  ``clips_per_video`` sequences with random starts from each video
    ``segments``                          one frame from each of ``segments`` equal parts of the video
    ``fps`` with one of the first two     the same at a target frame rate, by timestamps
    ===================================== ====================================================================

    Args:
        files: paths and URLs. Relative paths are those of the working folder when a video is opened, also later on.
        file_root: a folder whose subfolders, sorted by name, are the classes; or a folder of videos without labels.
        manifest: a CSV, TSV or JSONL file; see :mod:`seqpipe.readers.manifest`.
        videos: a listing, from :func:`seqpipe.readers.list_videos` or :mod:`seqpipe.readers.published`.
        labels: for ``files``: one label for each, an integer or a name from ``classes``.
        classes: names of the classes; a name's position is its label.
        label_type: type of the labels: "class", "classes" (several for each video), "number", "vector" or "text"; see
            :mod:`seqpipe.readers.labels`.
        ranges: for ``files``: the part of each to use, a :class:`seqpipe.readers.Range` or None.
        sequence_length: frames in a sequence.
        stride: distance between its frames, in source frames; with ``fps``, in frames of that rate.
        step: distance between the starts of neighboring windows; ``sequence_length * stride`` by default.
        clips_per_video: sequences from each video in every epoch.
        clip_mode: start of these sequences: "random"; or "even", spread evenly over the video, for evaluation.
        clips_together: whether the sequences of a video follow one another in every epoch, so that those in one batch
            share its decoding; shards are then divided between videos.
        repeats: number of times that each sample occurs in an epoch, in direct succession; it is decoded once for each
            batch. Its frames are the same; its index is not, so operators draw anew ("repeated augmentation").
        segments: number of equal parts of each video.
        segment_mode: frame of each part: "random" or "center"; or "linspace", frames at equal distances from the first
            to the last of the video.
        fps: target frame rate in Hz.
        pad_mode: padding of sequences that reach past the end of the video or range: "constant", "edge", "reflect",
            "symmetric" or "wrap"; "none" drops them, and a warning counts the videos that have no sample.
            See :mod:`seqpipe.core.padding`.
        fill_value: pixel value of frames padded by "constant", and around smaller frames with ``ragged="pad"``.
        min_frames: shorter videos, or ranges, are left out without a warning.
        min_motion: windows and clips with less mean motion are left out, in percent of the longer side per second; see
            :class:`seqpipe.readers.frame_values.FrameMotion`. Each video is decoded once for it, on the CPU; the values
            are cached next to its index.
        shuffle: whether each epoch has a new random order of all samples.
        seed: seed of the order and of random samples.
        shard: ``(rank, world_size)``: this process reads one of ``world_size`` disjoint parts of every epoch.
        stick_to_shard: whether the rank reads the same samples in every epoch, so that it can cache their files.
        even_shards: whether all ranks get equally many samples; a rank with one sample less repeats its first.
        device: "cpu", "cuda", "cuda:N", or "auto" for the first usable GPU, else the CPU.
        decode: decode backend for a GPU: "auto" (NVDEC, and the CPU for streams that NVDEC does not support),
            "nvdec" (only NVDEC), "mixed" (NVDEC and the CPU concurrently) or "cpu" (the CPU, with an upload).
        stream: number of the stream in the container; by default the best video stream, as ffmpeg chooses.
        threads: CPU threads that decode; by default one for each core that the process may use.
        prefetch: number of batches to read ahead, in addition to the one that the next call returns.
        prefetch_gib: memory limit in GiB of batches that are being read; by default a quarter of the device's memory.
            Larger batches are read one at a time; 0 disables reading ahead.
        color: "RGB", "BGR", "GRAY" or "YCbCr"; for this and the following, see :class:`seqpipe.OutputSpec`.
        dtype: "uint8", "uint16", "float16" or "float32".
        layout: "FHWC", "FCHW", or "CFHW" (batches ``NCFHW``), the layout that 3-D convolutions take.
        mean: for float dtypes: mean on the scale 0…1, subtracted; one number, or one for each channel.
        std: for float dtypes: standard deviation on the same scale, by which the difference is divided.
        size: (height, width) of the frames.
        short_side: length of the shorter side in pixels.
        max_side: maximum length of the longer side in pixels.
        crop: (top, left, height, width) of the oriented frame, before scaling.
        rotate: whether the display matrix is applied.
        mirror: whether frames are mirrored left to right.
        output: an :class:`seqpipe.OutputSpec`, instead of the ten arguments above.
        on_error: policy for unreadable sources. "raise" raises the error; the next call continues after it. "skip"
            leaves the video or sample out. "substitute" leaves out videos that cannot be opened, and replaces other
            samples by samples of the same epoch; see :class:`seqpipe.readers.fetch.Fetcher`. :meth:`report` lists
            every case. A full GPU memory is always raised.
        cache_dir: folder of the indexes; by default ``SEQPIPE_CACHE_DIR``, else the platform's cache folder.
        register: a file of indexes that several users share, made by ``seqpipe index --register FILE``; by default
            ``seqpipe.register`` in ``file_root``, if that file exists.

    Raises:
        ParameterError: an argument is out of bounds, arguments exclude each other, or all videos are too short.
        ManifestError: a line of the manifest is not valid.
        SourceError: a video cannot be opened and ``on_error`` is "raise"; or no video can be opened.
        BackendError: the device is not available.
        DeviceMemoryError: the GPU's memory is full.
    """

    _selection: Selection

    @refuses_unknown("readers.Video")
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
        min_motion: float | None = None,
        shuffle: bool = False,
        seed: int = 0,
        shard: tuple[int, int] = (0, 1),
        stick_to_shard: bool = False,
        even_shards: bool = False,
        device: str = "cpu",
        decode: DecodeChoice = "auto",
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
        self._device = parse_device(device)
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
            min_motion=min_motion,
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
        indexes = IndexOptions(cache_dir, stream, find_register(register, file_root))
        self._engine = self._engine_type(self._threads, self._device, DECODE.check(decode), indexes)

        listing = self._listing(
            videos=videos,
            files=files,
            file_root=file_root,
            manifest=manifest,
            labels=labels,
            classes=classes,
            label_type=label_type,
            ranges=ranges,
        )
        self._book.passed_over(listing.passed_over)
        motion = None if min_motion is None else FrameMotion(indexes)
        survey = self._survey_type(
            sampler, spec, fps is not None, least, on_error, indexes, self._book, motion
        )
        order = self._select(listing, survey, empty, even_shards, Clock(indexes), repeats)
        fetcher = Fetcher(self._selection, self._engine, spec, fill, on_error, self._book)
        self._feed = PassContext(
            replace(fetcher, channels_first=layout == "CFHW"), order, bytes_ahead(prefetch_gib, self._device)
        )

    @property
    def _engine_type(self) -> Callable[..., LazyPool[Engine]]:
        return LazyEngine

    @property
    def _survey_type(self) -> Callable[..., VideoSurvey]:
        return VideoSurvey

    def _listing(self, **sources: Any) -> Listing:
        """Return the listed videos.

        Args:
            **sources: the arguments that select and label the videos.

        Raises:
            ParameterError: arguments exclude each other, or none of them selects videos.
            ManifestError: a line of the manifest is not valid.
        """
        return listing_of(**sources)

    def _select(
        self,
        listing: Listing,
        survey: VideoSurvey,
        order: EpochOrder,
        even: bool,
        clock: Clock,
        repeats: int,
    ) -> EpochOrder:
        """Survey the listed videos and build the table of samples; return their order.

        Args:
            listing: the videos.
            survey: looks at them.
            order: of the samples, but for their number.
            even: whether all ranks get equally many samples.
            clock: where timestamps come from.
            repeats: number of times that each sample occurs.
        """
        catalog = survey.catalog(listing, self._engine.get())
        if warning := survey.warning(len(listing.entries)):
            warn_caller(warning)
        self._classes, self._label_type = listing.classes, listing.label_type
        order = replace(order, size=catalog.samples * repeats, even=even)
        self._selection = Selection(
            catalog, survey.sampler, order.seed, clock, survey.by_time, repeats, survey.motion
        )
        return order

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names; a name's position is its label. Empty if labels are plain integers."""
        return self._classes

    @property
    def label_type(self) -> LabelType:
        """Type of the labels; see :mod:`seqpipe.readers.labels`."""
        return self._label_type

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the further columns of the dataset; see :attr:`seqpipe.Batch.columns`."""
        return tuple(dict.fromkeys(name for row in self._selection.catalog.fields for name in row))

    @property
    def fetcher(self) -> Fetcher:
        """The fetcher of samples at positions of an epoch, for pipelines, which have a schedule of their own."""
        return self._feed.fetcher

    def fetcher_for(self, outputs: Outputs | None) -> Fetcher:
        """Return the fetcher, with ``outputs`` in place of the dataset's output unless None."""
        return self._feed.fetcher_for(outputs)

    @property
    def order(self) -> EpochOrder:
        """The order of the rank's samples."""
        order: EpochOrder = self._feed.order  # type: ignore[assignment]  # the constructor's
        return order

    @property
    def limit_bytes(self) -> int:
        """Memory limit of batches that are being read or wait to be returned; see ``prefetch_gib``."""
        return self._feed.limit_bytes

    @property
    def layout(self) -> ClipLayout:
        """Layout of sequences."""
        return "CFHW" if self.fetcher.channels_first else self.output.layout

    @property
    def output(self) -> OutputSpec:
        """Color, dtype, size and layout of the frames."""
        return self._feed.fetcher.output

    def __repr__(self) -> str:
        catalog, order = self._selection.catalog, self.order
        parts = [f"{len(catalog)} videos", f"{self.total} samples", repr(self._selection.sampler)]
        return f"Video({', '.join(parts + order.clauses())})"

    def videos(self, indices: Any) -> IntArray:
        """Return the position within the dataset of each sample's video; clips of one video share it.

        Args:
            indices: sample indices, integers ``(N,)`` such as :attr:`seqpipe.Batch.indices`.
        """
        return self._selection.videos_of(np.asarray(indices))

    def sample(self, index: int, epoch: int | None = None, *, outputs: Outputs | None = None) -> Sequence:
        """Read one sample by its index within the dataset, which does not depend on rank and order.

        Args:
            index: 0 to ``total - 1``.
            epoch: selects the frames of random samples; by default the current one.
            outputs: see :meth:`batches`.

        Raises:
            ParameterError: ``index`` is out of range, or the video's frames are too small for the output's crop.
            SourceError: the sample cannot be read.
        """
        chosen = self._epoch_or_current(epoch)
        return self._feed.fetcher_for(outputs).single(self._request(index, chosen), chosen)

    @refuses_unknown()
    def batches(
        self,
        batch_size: int,
        *,
        last_batch: LastBatch = "partial",
        ragged: Ragged = "list",
        outputs: Outputs | None = None,
    ) -> Batches:
        """Iterate over the current epoch in batches.

        Args:
            batch_size: samples in a batch.
            last_batch: policy for an incomplete last batch: "partial" returns it short, "drop" leaves it out, "fill"
                completes it with the first samples of the epoch.
            ragged: batches of frames of different sizes: "list" returns a list of sequences; "pad" pads frames with
                ``fill_value`` to one size, and adds a mask that is True for real pixels.
            outputs: a function that replaces the dataset's output for each sample, for example by a random crop: it
                takes a list of :class:`seqpipe.readers.SampleRequest` and their epoch, and returns one
                :class:`seqpipe.OutputSpec` for each. ``fill_value`` is converted to the same color in these.

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
        """Iterate over the current epoch sequence by sequence; the iterator has ``state_dict``.

        Sequences are read in groups of one per thread, two groups at a time; groups are smaller if two of them would
        exceed ``prefetch_gib``.

        Args:
            outputs: see :meth:`batches`.
        """
        group = self._feed.group(max(2, self._threads or available_cores()), outputs)
        return Sequences(self._feed, group=group, outputs=outputs)

    def __iter__(self) -> Sequences:
        return self.sequences()

    def stats(self) -> dict[str, dict[str, int]]:
        """Return counts of decoded frames since the threads started.

        Returns:
            ``frames``: number of decoded frames by backend, ``"cpu"`` or ``"nvdec"``. ``fallbacks``: number of times
            that the CPU decoded instead of NVDEC, by reason.
        """
        return self._engine.get().stats()

    def close(self) -> None:
        """Stop the threads; the next read starts them again."""
        self._engine.close()


def _clips_in_block(clips_per_video: int | None, together: bool) -> int:
    """Return the number of clips of a video that follow one another in every epoch.

    Raises:
        ParameterError: ``clips_together`` is set without ``clips_per_video``.
    """
    if not CLIPS_TOGETHER.check(together):
        return 1
    if clips_per_video is None:
        raise ParameterError(
            "clips_together=True has no meaning without clips_per_video", advice="Give clips_per_video too"
        )
    return clips_per_video
