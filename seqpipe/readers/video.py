"""Video: a dataset of sequences cut from many videos."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterable
from typing import Any, Final

from ..array import IntArray
from ..sampling import EpochOrder, choose_sampler
from ..sampling.params import EPOCH, MIN_FRAMES, ON_ERROR, ClipMode, LastBatch, OnError, PadMode, SegmentMode
from ..sequence import Sequence
from ..video.convert.output import Color, DType, FrameLayout, OutputSpec
from ..video.device import DECODE, STREAM, THREADS, Decode, parse_device
from ..video.engine.engine import available_cores
from ..video.index.shared import find_register
from .collate import Ragged
from .epochs import EpochDataset
from .fetch import Fetcher
from .frame_values import Clock, FrameMotion
from .labels import LabelParser
from .lazy_engine import LazyEngine
from .listing import list_videos
from .loader import Batches, PassContext, Sequences
from .outputs import Outputs
from .params import PREFETCH, PREFETCH_GIB, bytes_ahead, check_fill, check_index, output_of
from .ranges import Range
from .report import ReportBook
from .selection import SampleRequest, Selection
from .survey import VideoSurvey

__all__ = ["Video"]

# The one thing here that a room below makes: it is fetched by its name when it is asked for.
_DOOR: Final = "seqpipe.torch"

_Path = str | os.PathLike[str]


class Video(EpochDataset):
    """A dataset of sequences, cut from many videos.

    Which frames make which sample is decided by arithmetic: a sample depends on (seed, epoch, its index) alone,
    not on threads, batch size, rank, or how often iteration was stopped. Making a dataset reads only the heads
    of cached indexes, or, the next time and for 256 files or more, one register of them all; each file's size and
    time of change are looked at every time. Files without an index are indexed first, on all threads.

    Exactly one of ``files``, ``file_root`` and ``manifest`` says which videos. What a sample is:

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
        labels: for ``files``: a label for each, a whole number or the name of one of ``classes``.
        classes: names of classes, which decide their numbers.
        ranges: for ``files``: the part of each to use, a :class:`seqpipe.readers.Range` or None.
        sequence_length: frames in a sequence.
        stride: distance between its frames, in frames (of the rate ``fps``, if given).
        step: distance between the starts of neighboring windows; ``sequence_length * stride`` by default.
        clips_per_video: how many sequences each video gives in every epoch.
        clip_mode: where these begin: "random"; or "even", spread over the video, as evaluation wants them.
        segments: how many equal parts each video is cut into.
        segment_mode: which frame of each part: "random" or "center".
        fps: target frame rate in Hz.
        pad_mode: how sequences that reach past the end of the video or range are filled: "edge", "constant",
            "reflect" or "wrap"; "none" leaves them out, and a warning counts the videos that give none.
        fill_value: the pixels of padding by "constant", and around pictures in batches with ``ragged="pad"``.
        min_frames: videos, or ranges, with fewer frames are left out, without a warning.
        min_motion: windows and clips in which less moves on average are left out, in percent of the longer side per
            second, as :class:`seqpipe.readers.frame_values.FrameMotion` has it. Each video is decoded once for it, on
            the CPU; the values are kept beside its index.
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
        layout: "FHWC" or "FCHW".
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
        labels: Iterable[int | str] | None = None,
        classes: Iterable[str] | None = None,
        ranges: Iterable[Range | None] | None = None,
        sequence_length: int | None = None,
        stride: int = 1,
        step: int | None = None,
        clips_per_video: int | None = None,
        clip_mode: ClipMode = "random",
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
        decode: Decode = "auto",
        stream: int | None = None,
        threads: int | None = None,
        prefetch: int = 2,
        prefetch_gib: float | None = None,
        color: Color = "RGB",
        dtype: DType = "uint8",
        layout: FrameLayout = "FHWC",
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
            min_motion=min_motion,
        )
        fields = OutputSpec(color, dtype, crop, size, short_side, max_side, rotate, mirror, layout, mean, std)
        spec = output_of(output, fields)
        fill, least = check_fill(fill_value, spec), MIN_FRAMES.check(min_frames)
        order = {"seed": seed, "shuffle": shuffle, "shard": shard, "stick_to_shard": stick_to_shard}
        EpochOrder(size=0, **order)  # type: ignore[arg-type]  # mixed values; checked before any file is touched
        self._threads, self._prefetch = THREADS.check(threads), PREFETCH.check(prefetch)
        stream, prefetch_gib = STREAM.check(stream), PREFETCH_GIB.check(prefetch_gib)
        self._book = ReportBook()
        shared = find_register(register, file_root)
        self._engine = LazyEngine(self._threads, cache_dir, place, DECODE.check(decode), stream, shared)

        listing = list_videos(LabelParser(classes), files, file_root, manifest, labels, ranges)
        self._book.passed_over(listing.passed_over)
        motion = None if min_motion is None else FrameMotion(cache_dir, stream, shared)
        survey = VideoSurvey(
            sampler, spec, fps is not None, least, on_error, cache_dir, self._book, stream, shared, motion
        )
        catalog = survey.catalog(listing.entries, self._engine.get())
        if said := survey.left_out(len(listing.entries)):
            warnings.warn(said, stacklevel=2)
        self._classes = listing.classes
        self._selection = Selection(
            catalog,
            sampler,
            EpochOrder(size=catalog.samples, even=even_shards, **order),  # type: ignore[arg-type]  # mixed values
            Clock(cache_dir, stream, shared),
            by_time=fps is not None,
            motion=motion,
        )
        fetcher = Fetcher(self._selection, self._engine, spec, fill, on_error, self._book)
        self._feed = PassContext(fetcher, bytes_ahead(prefetch_gib, place))

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes by their numbers; none where labels are just numbers."""
        return self._classes

    @property
    def total(self) -> int:
        """Samples of an epoch, of all ranks together; indices go from 0 to before this."""
        return self._selection.catalog.samples

    @property
    def fetcher(self) -> Fetcher:
        """What reads the samples at given positions of an epoch, for those that decide themselves which come when."""
        return self._feed.fetcher

    @property
    def room(self) -> int:
        """The bytes that ``prefetch_gib`` allows to batches under way and waiting."""
        return self._feed.room

    @property
    def output(self) -> OutputSpec:
        """What pictures are made into."""
        return self._feed.fetcher.output

    def __repr__(self) -> str:
        catalog, order = self._selection.catalog, self._selection.order
        parts = [f"{len(catalog)} videos", f"{catalog.samples} samples", repr(self._selection.sampler)]
        parts += [f"shuffle seed {order.seed}"] if order.shuffle else []
        parts += [f"shard {order.shard[0]} of {order.shard[1]}"] if order.shard[1] > 1 else []
        return f"Video({', '.join(parts)})"

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
            **options: ``last_batch`` and ``layout``.

        Raises:
            ImportError: torch is not installed.
            ParameterError: an argument is not valid.
        """
        return importlib.import_module(_DOOR).Dataset(self, batch_size, **options)

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
