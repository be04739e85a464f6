"""VideoReader: exact frames of one video, by number, by slice, by time, or streamed."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from ..array import Array, FloatArray, IntArray, to_numpy
from ..core.closing import Closing
from ..core.forks import reset_after_fork
from ..core.keywords import OF_SEVERAL, refuses_unknown
from ..core.param import check_list
from ..core.turns import InTurn
from ..errors import BackendError, DamagedSourceError, ParameterError
from ..sampling.clock import EQUAL_S, frames_at
from ..sampling.params import SEQUENCE_LENGTH, STRIDE
from ..sequence import Sequence
from .convert.converter import Painter, Targets
from .convert.output import OutputSpec, check_output
from .convert.surface import AnySurface
from .decode.packets import IndexMismatchError, PacketReader, open_packets
from .decode.run import Decoding, Lost
from .device import DECODE, STREAM, THREADS, DecodeChoice, parse_device
from .engine.backend import fill
from .engine.engine import available_cores, reader_context
from .index.cache import Learned
from .index.open import cached_index, open_index, reindexed
from .packet_index import PacketIndex
from .plan import (
    PlannedVideo,
    check_frame_number,
    check_frame_numbers,
    check_time_s,
    lost_error,
    make_plan,
    nearest_frames,
    resolve_slice,
)
from .probe.info import StreamInfo
from .source.blocks import CountedSource
from .source.source import Origin, open_source

if TYPE_CHECKING:
    from .audio.reader import AudioReader
    from .audio.samples import AudioSamples
    from .index.from_tables import CuedVideo

__all__ = ["VideoReader"]

_WORTH_FRAME_THREADS = 48


class VideoReader(Closing):
    """Exact random access to the frames of one video.

    A remote Matroska file (``s3://…``) is opened by its cues: :meth:`at` reads the requested frames without the rest of
    the file, and these frames have no numbers. Whatever needs frame numbers, such as ``len``, reads the file once.

    Frame ``i`` is the ``i``-th frame in presentation order. Times are seconds on the stream's own clock, as
    ``timestamps`` and ``info.start_s``. Threads may share a reader, but take turns; one reader for each thread is
    faster. Copies and unpickled readers open the video again.

    Args:
        origin: a path, a URL (``s3://…``), the bytes of a file, or a seekable binary file object.
        device: device of the frames: ``"cpu"``, ``"cuda"``, ``"cuda:N"``, or ``"auto"`` for the first usable GPU, else
            the CPU.
        decode: decode backend for a GPU; ``"mixed"`` is the same as ``"auto"`` for a single reader.
        stream: number of the stream in the container; by default the best video stream, as ffmpeg chooses.
        threads: decoding threads; by default one for each core that this process may use.
        output: color, dtype and geometry of the frames; by default oriented 8-bit RGB at the video's own size.
        cache_dir: folder of the indexes; by default ``SEQPIPE_CACHE_DIR``, else the platform's cache folder.
        register: a register of indexes, made by ``seqpipe index --register``, for videos that are not in the cache.

    Raises:
        SourceNotFoundError: the source or the register does not exist.
        UnreadableSourceError: the source is not a video that can be decoded.
        BackendError: the device is not available.
        ParameterError: a parameter is out of bounds, for example a crop outside of the frame.
    """

    @refuses_unknown("VideoReader", OF_SEVERAL)
    def __init__(
        self,
        origin: Origin,
        *,
        device: str = "cpu",
        decode: DecodeChoice = "auto",
        stream: int | None = None,
        threads: int | None = None,
        output: OutputSpec | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        register: str | os.PathLike[str] | None = None,
    ) -> None:
        # Copies, such as those of a DataLoader's workers, open the video again: files and decoders cannot be shared.
        again: Callable[..., VideoReader] = type(self)
        self._reopen = partial(
            again,
            origin,
            device=device,
            decode=decode,
            stream=stream,
            threads=threads,
            output=output,
            cache_dir=cache_dir,
            register=register,
        )
        self._threads = THREADS.check(threads) or available_cores()
        self._output = check_output(output)
        self._source = CountedSource(open_source(origin, stream=STREAM.check(stream)))
        # Held while the painter's buffers, the stream ahead or the opening of the index are used.
        self._lock = threading.RLock()
        self._needed = 0
        self._cache_dir = cache_dir
        self._register = None
        if register is not None:
            from .index.shared import find_register

            self._register = find_register(register, None)
        self._learned = Learned(cache_dir)
        self._indexed: PlannedVideo | None = None
        self._by_cues = self._open_by_cues()
        if self._by_cues is None:
            self._indexed = self._open()
        on_cpu = self._output.color == "RGBA" and str(device) == "auto"
        self._context = reader_context(parse_device("cpu" if on_cpu else device), decode=DECODE.check(decode))
        with self._context.active():
            converter = self._context.painter.converter(self.info, self._output)
            self._shape, self._dtype = converter.shape, converter.dtype
        self._expected = -1
        self._ahead: Iterator[Sequence] | None = None
        self._inherited: Iterator[Sequence] | None = None
        self._sound: AudioReader | None = None
        reset_after_fork(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._reopen, ()

    @property
    def _video(self) -> PlannedVideo:
        """The indexed video, opened on first use."""
        if self._indexed is None:
            with self._lock:
                self._indexed = self._indexed or self._open()
        return self._indexed

    @property
    def _index(self) -> PacketIndex:
        return self._video.index

    @property
    def info(self) -> StreamInfo:
        """Facts of the stream; the number of frames is exact, except for a remote Matroska file opened by its cues."""
        return self._by_cues.info if self._indexed is None and self._by_cues is not None else self._index.info

    @property
    def index(self) -> PacketIndex:
        """The packet index."""
        return self._index

    @property
    def timestamps(self) -> FloatArray:
        """Presentation time of every frame, in seconds."""
        return self._index.timestamps

    @property
    def fps(self) -> float | None:
        """Frames per second on average, ``info.average_rate`` as a number; None where unknown."""
        rate = self.info.average_rate
        return None if rate is None else float(rate)

    @property
    def duration(self) -> float | None:
        """Seconds from the first frame's start to the last one's end, ``info.duration_s``; None where unknown."""
        return self.info.duration_s

    @property
    def width(self) -> int:
        """Width of the picture in pixels after its rotation, before ``output`` scales or crops it."""
        return self.info.display_size[0]

    @property
    def height(self) -> int:
        """Height of the picture in pixels after its rotation, before ``output`` scales or crops it."""
        return self.info.display_size[1]

    def __len__(self) -> int:
        """The number of frames."""
        return len(self._index)

    def __repr__(self) -> str:
        info = self.info
        if info.frame_count is None:
            return f"VideoReader({info.source!r}, {info.codec} {info.width}×{info.height})"
        span = f", {info.start_s:.3f}…{self._index.end_s:.3f} s" if len(self) else ""
        count = f"{len(self)} frame{'' if len(self) == 1 else 's'}"
        return f"VideoReader({info.source!r}, {count}, {info.codec} {info.width}×{info.height}{span})"

    @overload
    def __getitem__(self, frames: int) -> Sequence: ...
    @overload
    def __getitem__(self, frames: slice) -> Sequence: ...
    def __getitem__(self, frames: int | slice) -> Sequence:
        """Return one frame (layout ``HWC``) or a slice of frames (``FHWC``); negative numbers count from the end.

        Raises:
            FrameRangeError: the video has no such frame.
            DamagedSourceError: a frame cannot be decoded.
        """
        if isinstance(frames, slice):
            return self.frames(resolve_slice(frames, len(self)))
        number = int(self._index.check([check_frame_number(frames)])[0])
        with self._lock:
            return self._next_frame(number)

    def __iter__(self) -> Iterator[Sequence]:
        """Iterate over all frames in order, layout ``HWC``."""
        return self.stream(range(len(self)))

    def frames(self, numbers: Iterable[int]) -> Sequence:
        """Return frames by number, in any order and with repeats; negative numbers count from the end.

        Returns:
            A sequence of layout ``FHWC``; repeated frames are decoded once.

        Raises:
            FrameRangeError: the video has no such frame.
            DamagedSourceError: frames cannot be decoded; ``lost`` holds their numbers.
        """
        wanted = self._index.check(check_frame_numbers(numbers))
        context = self._context
        with self._lock, context.active():
            pixels = context.painter.allocate((len(wanted), *self._shape), self._dtype)
            lost = self._paint(wanted.tolist(), pixels)
        if lost:
            raise lost_error(self._index, lost)
        return self._sequence(pixels, wanted, self._output.layout)

    def at(
        self, seconds: float | Iterable[float], *, nearest: bool = False, tolerance_s: float | None = None
    ) -> Sequence:
        """Return the frames on screen at times: for each time, the last frame whose timestamp is not later.

        Times that differ by at most a microsecond count as equal.

        Args:
            seconds: a time on the stream's own clock, from the first frame's timestamp to before the last frame's end;
                or several.
            nearest: take the frame whose timestamp is nearest, of two the earlier one; times may be outside then.
            tolerance_s: with ``nearest``: largest distance from a time to the timestamp, in seconds; None for any.

        Returns:
            A sequence of layout ``HWC`` for one time, as for one frame number, and ``FHWC`` for several. For a remote
            Matroska file opened by its cues, its ``frames`` is None.

        Raises:
            FrameRangeError: a time is outside of the video.
            DamagedSourceError: frames cannot be decoded; ``lost`` holds their numbers.
        """
        if isinstance(seconds, Real) or getattr(seconds, "shape", None) == ():
            frame = self.at([cast("float", seconds)], nearest=nearest, tolerance_s=tolerance_s)
            return Sequence(
                frame.data[0], self._output.frame_layout, frame.source, frame.frames, frame.timestamps
            )
        times = [
            check_time_s(t)
            for t in check_list("seconds", seconds, "a time in seconds, such as 1.5, or a list of times")
        ]
        if nearest or tolerance_s is not None:
            return self.frames(nearest_frames(self._index, times, nearest, tolerance_s))
        if self._indexed is None and (displayed := self._at_by_cues(times)) is not None:
            return displayed
        return self.frames([self.frame_at(t) for t in times])

    def sequence(self, start: int, length: int, stride: int = 1) -> Sequence:
        """Return ``length`` frames, ``stride`` frames apart, beginning with frame ``start``.

        Raises:
            ParameterError: length or stride is less than 1.
            FrameRangeError: the sequence reaches past the end of the video.
        """
        length, stride = SEQUENCE_LENGTH.check(length), STRIDE.check(stride)
        first = int(self._index.check([check_frame_number(start)])[0])
        if (last := first + (length - 1) * stride) >= len(self):
            raise self._index.range_error(
                f"frame {last}, the last of {length} from {first} on with stride {stride},",
                f"0 to {len(self) - 1}",
            )
        return self.frames(range(first, last + 1, stride))

    def time_of(self, number: int) -> float:
        """Return the timestamp of a frame in seconds.

        Raises:
            FrameRangeError: the video has no such frame.
        """
        return float(self.timestamps[self._index.check([check_frame_number(number)])[0]])

    def frame_at(self, seconds: float) -> int:
        """Return the number of the frame on screen at a time.

        Raises:
            FrameRangeError: the time is outside of the video.
        """
        times, end, seconds = self.timestamps, self._index.end_s, check_time_s(seconds)
        if not (len(times) and times[0] - EQUAL_S <= seconds < end):
            allowed = f"from {times[0]:.6f} s to before {end:.6f} s" if len(times) else ""
            raise self._index.range_error(f"{seconds:.6f} s", allowed)
        return int(frames_at(times, seconds))

    def stream(self, numbers: Iterable[int], *, host: bool = False) -> Iterator[Sequence]:
        """Iterate over frames in constant memory, layout ``HWC`` or ``CHW``.

        Args:
            numbers: frame numbers, strictly ascending.
            host: whether to return frames in main memory, wherever they are decoded.

        Raises:
            ParameterError: the numbers are not ascending.
            FrameRangeError: the video has no such frame.
            DamagedSourceError: frames cannot be decoded; raised after all others were returned. ``lost`` holds their
                numbers.
        """
        wanted = self._index.check(check_frame_numbers(numbers))
        if (np.diff(wanted) <= 0).any():
            raise ParameterError(
                "the frame numbers of a stream must ascend", advice="Sort them, or use frames([…])"
            )
        return InTurn(self._stream(wanted, host=host))

    def audio(
        self,
        start_s: float | None = None,
        end_s: float | None = None,
        *,
        sample_rate: int | None = None,
        channels: int | None = None,
        stream: int | str | None = None,
    ) -> AudioSamples:
        """Return a range of the file's sound, on the clock of ``timestamps``.

        See :meth:`seqpipe.AudioReader.audio` for arguments and errors.

        Raises:
            UnreadableSourceError: the file has no sound that can be decoded.
        """
        from .audio.reader import AudioReader

        with self._lock:
            self._sound = sound = self._sound or AudioReader(self._source)
        return sound.audio(start_s, end_s, sample_rate=sample_rate, channels=channels, stream=stream)

    def stats(self) -> dict[str, int]:
        """Return counts of reads so far.

        Returns:
            ``requests``: number of read requests to the source, with adjacent ranges counted once; ``bytes_read``:
            bytes that these returned; ``bytes_needed``: size of the packets that the requested frames depend on.
            Opening counts in ``bytes_read`` only.
        """
        return {
            "requests": self._source.requests,
            "bytes_read": self._source.bytes_read,
            "bytes_needed": self._needed,
        }

    def close(self) -> None:
        """Close the file and release the decoders."""
        if self._indexed is not None:
            self._learned.save(self._indexed.index)
        with self._lock:
            self._expected, self._ahead = -1, None
            self._context.close()
            self._source.close()

    def after_fork(self) -> None:
        """Reset in a forked process: another thread may have held the lock, and a stream shares file positions."""
        self._lock = threading.RLock()
        # Referenced forever: destroying a decoder whose threads belong to the parent process could hang.
        self._expected, self._ahead, self._inherited = -1, None, self._ahead

    def _open_by_cues(self) -> CuedVideo | None:
        """Open a remote Matroska file by its cues, unless its index is cached; None for other sources."""
        source = self._source
        if not source.slow or self._output.color == "RGBA":
            return None
        if (stamp := source.stamp()) is not None:
            cached = cached_index(source, stamp, cache_dir=self._cache_dir, register=self._register)
            if cached is not None:
                return None
        from .index.from_tables import open_by_cues

        video = open_by_cues(source)
        if video is not None:
            source.blocks = None  # the video holds the blocks that it needs
        return video

    def _open(self) -> PlannedVideo:
        """Open the index, for which a remote file may have to be read as a whole."""
        source, stamp = self._source, self._source.stamp()
        alpha = self._output.color == "RGBA"
        index = open_index(source, cache_dir=self._cache_dir, register=self._register, alpha=alpha)
        self._learned.add(index, stamp)
        return PlannedVideo(source, index)

    def _at_by_cues(self, times: Seq[float]) -> Sequence | None:
        """Return the frames displayed at the given times by the cues; None where these do not suffice."""
        from .tables.gate import UnusableTablesError

        context, stamps = self._context, np.empty(len(times))
        assert self._by_cues is not None
        with self._lock, context.active():
            pixels = context.painter.allocate((len(times), *self._shape), self._dtype)
            frames = context.painter.frame_targets(pixels)
            try:
                for video, positions, numbers in self._by_cues.parts(times):
                    targets = self._targets(video, numbers.tolist(), [frames[i] for i in positions.tolist()])
                    if self._fill(video, targets, self._threads_for(video, numbers)):
                        return None  # the full index allows decoding from an earlier key frame, and names lost frames
                    stamps[positions] = video.index.timestamps[numbers]
            except (UnusableTablesError, IndexMismatchError):
                return None
        return Sequence(pixels, self._output.layout, self.info.source, None, stamps)

    def _paint(self, numbers: Seq[int], pixels: Array) -> dict[int, str]:
        """Decode frames into an array; returns the reason for each lost frame."""
        targets = self._targets(self._video, numbers, self._context.painter.frame_targets(pixels))
        threads = self._threads_for(self._video, np.array(numbers, dtype=np.int64))
        try:
            return self._fill(self._video, targets, threads)
        except IndexMismatchError:
            self._reindex()
            return self._fill(self._video, targets, threads)

    def _targets(self, video: PlannedVideo, numbers: Seq[int], frames: Seq[Any]) -> Targets:
        """Return converter and target of each frame, by number."""
        converter = self._context.painter.converter(video.index.info, self._output)
        targets: Targets = {}
        for number, frame in zip(numbers, frames, strict=True):
            targets.setdefault(number, []).append((converter, frame))
        return targets

    def _fill(self, video: PlannedVideo, targets: Targets, threads: int) -> dict[int, str]:
        backend, painter = self._context.backend, self._context.painter
        reader = partial(self._open_packets, video)
        return fill(video, targets, backend, painter, _count_nothing, reader=reader, threads=threads)

    def _reindex(self) -> None:
        """Index the video by a scan, after a packet has contradicted the container's tables."""
        self._indexed = PlannedVideo(
            self._source, reindexed(self._source, self._index, cache_dir=self._cache_dir)
        )

    def _open_packets(self, video: PlannedVideo) -> PacketReader:
        return _CountedPackets(open_packets(video.source, video.index), self, video.index)

    def _need(self, size: int) -> None:
        self._needed += size

    def _stream(self, wanted: IntArray, *, host: bool = False) -> Iterator[Sequence]:
        """Yield wanted frames one by one, and raise the lost ones at the end."""
        lost: dict[int, str] = {}
        early: set[int] = set()
        layout, context = self._output.frame_layout, self._context
        # A stream may stay open while other frames are requested, so it has its own packet reader and painter.
        painter = context.new_painter()
        packets = self._open_packets(self._video)
        items = self._decoded(packets, wanted)
        # No `with packets`: Python loses a Ctrl-C that arrives while it runs the cleanup of an abandoned generator.
        for begin in range(0, len(wanted), context.stream_batch):
            numbers = wanted[begin : begin + context.stream_batch].tolist()
            with context.active():
                pixels = painter.allocate((len(numbers), *self._shape), self._dtype)
                self._paint_next(items, painter, numbers, pixels, lost, early)
            if host:
                pixels = to_numpy(pixels)
            for frame, number in zip(pixels, numbers, strict=True):
                if number not in lost:
                    yield self._sequence(frame, np.array([number]), layout)
        with context.active():
            next(items, None)  # runs the iterator to its end, which returns the decoder to the pool
        packets.close()
        if lost:
            raise lost_error(self._index, lost, "All other selected frames are intact; leave these out")

    def _decoded(self, packets: PacketReader, wanted: IntArray) -> Iterator[AnySurface | Lost]:
        """Decode frames in ascending order; frames left by a backend that fails are decoded by its fallback."""
        backend, threads = self._context.backend, self._threads_for(self._video, wanted)
        decoders, left = backend.decoders, dict.fromkeys(wanted.tolist())
        reopened: PacketReader | None = None
        while left:
            frames = np.array(list(left), np.int64)
            try:
                for item in Decoding(self._index, reopened or packets, decoders, frames, threads=threads):
                    left.pop(item.number, None)
                    yield item
                    del item  # as in fill.py: a referenced frame buffer is not reused
            except IndexMismatchError:
                self._reindex()
                reopened = self._open_packets(self._video)
            except BackendError:
                if left and (backend.fallback is None or decoders is backend.fallback):
                    raise
                decoders = backend.fallback or decoders  # with no frames left, only the flush failed
        if reopened is not None:
            reopened.close()

    def _paint_next(
        self,
        items: Iterator[AnySurface | Lost],
        painter: Painter,
        numbers: Seq[int],
        pixels: Array,
        lost: dict[int, str],
        early: set[int],
    ) -> None:
        """Convert the next frames of a decoding, and decode those that it loses with the fallback.

        Frames that arrive before their turn (``early``), where timestamps contradict the codec's order, are decoded
        again when it is their turn.
        """
        backend, converter = self._context.backend, painter.converter(self._index.info, self._output)
        left = dict(zip(numbers, painter.frame_targets(pixels), strict=True))
        while left.keys() - lost.keys() - early:
            item = next(items)
            if isinstance(item, Lost):
                lost[item.number] = item.reason
            elif item.number in left:
                painter.put(item, [(converter, left.pop(item.number))])
            else:
                early.add(item.number)
            del item  # as in fill.py: a referenced frame buffer is not reused
        again = left.keys() & early if backend.fallback is None else left.keys()
        if again:
            targets: Targets = {number: [(converter, left[number])] for number in again}
            for number in again:
                lost.pop(number, None)
            second = (
                backend
                if backend.fallback is None
                else replace(backend, decoders=backend.fallback, fallback=None)
            )
            lost.update(fill(self._video, targets, second, painter, _count_nothing))
        painter.finish()

    def _next_frame(self, number: int) -> Sequence:
        """Return one frame; consecutive calls with ascending numbers read from an internal stream."""
        follows, self._expected = number == self._expected, number + 1
        if not follows:
            self._ahead = None
            return self._single(number)
        if self._ahead is None:
            self._ahead = self._stream(np.arange(number, len(self)))
        with contextlib.suppress(DamagedSourceError):
            frame = next(self._ahead, None)
            if frame is not None and frame.frames is not None and int(frame.frames[0]) == number:
                return frame
        # The stream has skipped a lost frame or has ended: reading the frame alone raises the error.
        self._ahead = None
        return self._single(number)

    def _single(self, number: int) -> Sequence:
        frames = self.frames([number])
        return self._sequence(frames.data[0], np.array([number]), self._output.frame_layout)

    def _threads_for(self, video: PlannedVideo, wanted: IntArray) -> int:
        """Return the number of frame threads: 1 for short segments, as each thread delays one frame."""
        table = video.index.packets
        plan = make_plan(table, table.frame_packet[wanted])
        longest = max((len(segment.packets) for segment in plan.segments), default=0)
        return self._threads if longest >= _WORTH_FRAME_THREADS else 1

    def _sequence(self, pixels: Array, numbers: IntArray, layout: str) -> Sequence:
        return Sequence(pixels, layout, self.info.source, numbers, self.timestamps[numbers])


def _count_nothing(_name: str, _frames: int, _reason: str) -> None:
    """Ignore the counts: a single reader has no statistics of frames."""


class _CountedPackets:
    """PacketReader that counts the bytes of the packets read."""

    def __init__(self, direct: PacketReader, reader: VideoReader, index: PacketIndex) -> None:
        self._direct, self._need, self._size = direct, reader._need, index.packets.size

    def read(self, numbers: IntArray) -> Iterator[bytes]:
        self._need(int(self._size[numbers].sum()))
        return self._direct.read(numbers)

    def close(self) -> None:
        self._direct.close()
