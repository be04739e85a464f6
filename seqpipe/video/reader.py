"""VideoReader: exact frames of one video, by number, by slice, by time, or streamed."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..array import Array, FloatArray, IntArray, to_numpy
from ..errors import BackendError, DamagedSourceError, ParameterError
from ..forks import renew_after_fork
from ..param import listed
from ..sampling.clock import EQUAL_S
from ..sampling.params import SEQUENCE_LENGTH, STRIDE
from ..sequence import Sequence
from .convert.output import OutputSpec, check_output
from .convert.paint import Painter, Targets
from .convert.surface import AnySurface
from .decode.kinds import RefutedError
from .decode.packets import PacketReader, open_packets
from .decode.run import Decoding, Lost
from .device import DECODE, STREAM, THREADS, Decode, parse_device
from .engine.engine import available_cores
from .engine.executors import reader_context
from .engine.fill import fill
from .index.learned import Learned
from .index.open import cached_index, open_index, reindexed
from .packet_index import PacketIndex
from .plan.frame_numbers import check_frame_number, check_frame_numbers, check_time_s, resolve_slice
from .plan.jobs import PlannedVideo
from .plan.plan import make_plan
from .plan.request import lost_error
from .probe.info import StreamInfo
from .source.blocks import CountedSource
from .source.source import Origin, open_source

if TYPE_CHECKING:
    from .index.by_cues import CuedFilm

__all__ = ["VideoReader"]

_WORTH_FRAME_THREADS = 48


class VideoReader:
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

    def __init__(
        self,
        origin: Origin,
        *,
        device: str = "cpu",
        decode: Decode = "auto",
        stream: int | None = None,
        threads: int | None = None,
        output: OutputSpec | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        register: str | os.PathLike[str] | None = None,
    ) -> None:
        # Elsewhere, as in a loader's worker, it is opened anew: file, decoders and streams are this process's.
        self._again = partial(
            type(self),
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
        # the painter's buffers, the stream ahead and the opening of an index are one thread's at a time
        self._lock = threading.RLock()
        self._needed = 0
        self._cache_dir = cache_dir
        self._register = None
        if register is not None:
            from .index.shared import find_register

            self._register = find_register(register, None)
        self._learned = Learned(cache_dir)
        self._numbered: PlannedVideo | None = None
        self._film = self._cued_film()
        if self._film is None:
            self._numbered = self._opened()
        self._place = reader_context(parse_device(device), decode=DECODE.check(decode))
        with self._place.active():
            converter = self._place.painter.converter(self.info, self._output)
            self._shape, self._dtype = converter.shape, converter.dtype
        self._expected = -1
        self._ahead: Iterator[Sequence] | None = None
        self._inherited: Iterator[Sequence] | None = None
        renew_after_fork(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._again, ()

    @property
    def _video(self) -> PlannedVideo:
        if self._numbered is None:
            with self._lock:
                self._numbered = self._numbered or self._opened()
        return self._numbered

    @property
    def _index(self) -> PacketIndex:
        return self._video.index

    @property
    def info(self) -> StreamInfo:
        """Facts of the stream; the number of frames is exact, except for a remote Matroska file opened by its cues."""
        return self._film.info if self._numbered is None and self._film is not None else self._index.info

    @property
    def index(self) -> PacketIndex:
        """The packet index."""
        return self._index

    @property
    def timestamps(self) -> FloatArray:
        """Presentation time of every frame, in seconds."""
        return self._index.timestamps

    def __len__(self) -> int:
        """The number of frames."""
        return len(self._index)

    def __repr__(self) -> str:
        info = self.info
        if info.frame_count is None:
            return f"VideoReader({info.source!r}, {info.codec} {info.width}×{info.height})"
        span = f", {info.start_s:.3f}…{self._index.end_s:.3f} s" if len(self) else ""
        return (
            f"VideoReader({info.source!r}, {len(self)} frames, {info.codec} {info.width}×{info.height}{span})"
        )

    @overload
    def __getitem__(self, place: int) -> Sequence: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence: ...
    def __getitem__(self, place: int | slice) -> Sequence:
        """Return one frame (layout ``HWC``) or a slice of frames (``FHWC``); negative numbers count from the end.

        Raises:
            FrameRangeError: the video has no such frame.
            DamagedSourceError: a frame cannot be decoded.
        """
        if isinstance(place, slice):
            return self.frames(resolve_slice(place, len(self)))
        number = int(self._index.check([check_frame_number(place)])[0])
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
        place = self._place
        with self._lock, place.active():
            pixels = place.painter.allocate((len(wanted), *self._shape), self._dtype)
            lost = self._paint(wanted.tolist(), pixels)
        if lost:
            raise lost_error(self._index, lost)
        return self._sequence(pixels, wanted, self._output.layout)

    def at(self, seconds: Iterable[float]) -> Sequence:
        """Return the frames on screen at times: for each time, the last frame whose timestamp is not later.

        Times that differ by at most a microsecond count as equal.

        Args:
            seconds: times on the stream's own clock, from the first frame's timestamp to before the last frame's end.

        Returns:
            A sequence of layout ``FHWC``. For a remote Matroska file opened by its cues, its ``frames`` is None.

        Raises:
            FrameRangeError: a time is outside of the video.
            DamagedSourceError: frames cannot be decoded; ``lost`` holds their numbers.
        """
        times = [check_time_s(t) for t in listed("seconds", seconds, "a list of times in seconds")]
        if self._numbered is None and (found := self._at_by_cues(times)) is not None:
            return found
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
        return int(np.searchsorted(times, seconds + EQUAL_S, side="right")) - 1

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
        return self._stream(wanted, host=host)

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
        if self._numbered is not None:
            self._learned.save(self._numbered.index)
        with self._lock:
            self._expected, self._ahead = -1, None
            self._place.close()
            self._source.close()

    def after_fork(self) -> None:
        """Begin anew in a forked process: another thread may have held the lock, and a stream shares file positions."""
        self._lock = threading.RLock()
        # Kept: taking down a decoder whose threads are another process's could hang.
        self._expected, self._ahead, self._inherited = -1, None, self._ahead

    def __enter__(self) -> VideoReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _cued_film(self) -> CuedFilm | None:
        """The film by its cues, where numbering its frames would need all of what is far away."""
        source, stamp = self._source, self._source.stamp() if self._source.slow else None
        if not source.slow:
            return None
        if stamp is not None:
            kept = cached_index(source, stamp, cache_dir=self._cache_dir, register=self._register)
            if kept is not None:
                return None
        from .index.by_cues import cued_film

        film = cued_film(source)
        if film is not None:
            source.held = None  # the film keeps what it needs
        return film

    def _opened(self) -> PlannedVideo:
        """The video with its index, for which a film far away may have to be read through."""
        source, stamp = self._source, self._source.stamp()
        index = open_index(source, cache_dir=self._cache_dir, register=self._register)
        self._learned.add(index, stamp)
        return PlannedVideo(source, index)

    def _at_by_cues(self, times: Seq[float]) -> Sequence | None:
        """The frames on screen at some times, by the film's cues; None where they do not tell."""
        from .tables.gate import Distrusted

        place, stamps = self._place, np.empty(len(times))
        assert self._film is not None
        with self._lock, place.active():
            pixels = place.painter.allocate((len(times), *self._shape), self._dtype)
            pictures = place.painter.frame_targets(pixels)
            try:
                for part, places, numbers in self._film.parts(times):
                    targets = self._targets(part, numbers.tolist(), [pictures[at] for at in places.tolist()])
                    if self._fill(part, targets, self._threads_for(part, numbers)):
                        return None  # the whole index has more to decode them from, and their numbers
                    stamps[places] = part.index.timestamps[numbers]
            except (Distrusted, RefutedError):
                return None
        return Sequence(pixels, self._output.layout, self.info.source, None, stamps)

    def _paint(self, numbers: Seq[int], pixels: Array) -> dict[int, str]:
        """Decode frames and paint them; returns those that are lost, with the reason for each."""
        targets = self._targets(self._video, numbers, self._place.painter.frame_targets(pixels))
        threads = self._threads_for(self._video, np.array(numbers, dtype=np.int64))
        try:
            return self._fill(self._video, targets, threads)
        except RefutedError:
            self._reindex()
            return self._fill(self._video, targets, threads)

    def _targets(self, video: PlannedVideo, numbers: Seq[int], pictures: Seq[Any]) -> Targets:
        converter = self._place.painter.converter(video.index.info, self._output)
        targets: Targets = {}
        for number, picture in zip(numbers, pictures, strict=True):
            targets.setdefault(number, []).append((converter, picture))
        return targets

    def _fill(self, video: PlannedVideo, targets: Targets, threads: int) -> dict[int, str]:
        backend, painter = self._place.backend, self._place.painter
        reader = partial(self._open_packets, video)
        return fill(video, targets, backend, painter, _nothing_noted, reader=reader, threads=threads)

    def _reindex(self) -> None:
        """Go on by a scan where the container's tables were refuted."""
        self._numbered = PlannedVideo(
            self._source, reindexed(self._source, self._index, cache_dir=self._cache_dir)
        )

    def _open_packets(self, video: PlannedVideo) -> PacketReader:
        return _CountedPackets(open_packets(video.source, video.index), self, video.index)

    def _need(self, size: int) -> None:
        self._needed += size

    def _stream(self, wanted: IntArray, *, host: bool = False) -> Iterator[Sequence]:
        lost: dict[int, str] = {}
        early: set[int] = set()
        layout, place = self._output.frame_layout, self._place
        # A stream may be left open while other frames are asked for, so it has packets and a painter of its own.
        painter = place.new_painter()
        packets = self._open_packets(self._video)
        items = self._decoded(packets, wanted)
        # No context: whoever abandons a stream closes it thus, and Python loses a Ctrl-C that falls into its end.
        for begin in range(0, len(wanted), place.stream_batch):
            numbers = wanted[begin : begin + place.stream_batch].tolist()
            with place.active():
                pixels = painter.allocate((len(numbers), *self._shape), self._dtype)
                self._paint_next(items, painter, numbers, pixels, lost, early)
            if host:
                pixels = to_numpy(pixels)
            for picture, number in zip(pixels, numbers, strict=True):
                if number not in lost:
                    yield self._sequence(picture, np.array([number]), layout)
        with place.active():
            next(items, None)  # to its end, after which its decoder can be used again
        packets.close()
        if lost:
            raise lost_error(self._index, lost, "The frames before were given; leave the lost ones out")

    def _decoded(self, packets: PacketReader, wanted: IntArray) -> Iterator[AnySurface | Lost]:
        """What decoding gives, ascending; a stream that the way cannot decode goes to its fallback as a whole."""
        backend, threads = self._place.backend, self._threads_for(self._video, wanted)
        left = dict.fromkeys(wanted.tolist())
        try:
            for item in Decoding(self._index, packets, backend.decoders, wanted, threads=threads):
                left.pop(item.number, None)
                yield item
                del item  # as in fill: no picture is held on to
        except RefutedError:
            self._reindex()
            with contextlib.closing(self._open_packets(self._video)) as others:
                yield from Decoding(
                    self._index, others, backend.decoders, np.array(list(left)), threads=threads
                )
        except BackendError:
            if not left:
                return  # it only failed to make ready for the next run
            if backend.fallback is None:
                raise
            yield from Decoding(self._index, packets, backend.fallback, np.array(list(left)), threads=threads)

    def _paint_next(
        self,
        items: Iterator[AnySurface | Lost],
        painter: Painter,
        numbers: Seq[int],
        pixels: Array,
        lost: dict[int, str],
        early: set[int],
    ) -> None:
        """Take from a decoding what it gives for the next frames; the fallback is asked about those that it loses.

        Early ones, which it gave before their turn, are decoded again by themselves: there the timestamps contradict
        the codec's order.
        """
        backend, converter = self._place.backend, painter.converter(self._index.info, self._output)
        left = dict(zip(numbers, painter.frame_targets(pixels), strict=True))
        while left.keys() - lost.keys() - early:
            item = next(items)
            if isinstance(item, Lost):
                lost[item.number] = item.reason
            elif item.number in left:
                painter.put(item, [(converter, left.pop(item.number))])
            else:
                early.add(item.number)
            del item  # as in fill: no picture is held on to
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
            lost.update(fill(self._video, targets, second, painter, _nothing_noted))
        painter.finish()

    def _next_frame(self, number: int) -> Sequence:
        """One frame; whoever walks through a video by number gets a stream behind the scenes."""
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
        # The stream has left out a lost frame, or is at its end: asked for alone, the frame tells what is wrong.
        self._ahead = None
        return self._single(number)

    def _single(self, number: int) -> Sequence:
        found = self.frames([number])
        return self._sequence(found.data[0], np.array([number]), self._output.frame_layout)

    def _threads_for(self, video: PlannedVideo, wanted: IntArray) -> int:
        """Frame threads only pay for a long run: they hold back as many frames as there are threads."""
        table = video.index.packets
        plan = make_plan(table, table.frame_packet[wanted])
        longest = max((len(segment.packets) for segment in plan.segments), default=0)
        return self._threads if longest >= _WORTH_FRAME_THREADS else 1

    def _sequence(self, pixels: Array, numbers: IntArray, layout: str) -> Sequence:
        return Sequence(pixels, layout, self.info.source, numbers, self.timestamps[numbers])


def _nothing_noted(_name: str, _frames: int, _reason: str) -> None:
    """A single reader keeps no statistics."""


class _CountedPackets:
    """Reads packets, and has their size counted."""

    def __init__(self, plain: PacketReader, reader: VideoReader, index: PacketIndex) -> None:
        self._plain, self._need, self._size = plain, reader._need, index.packets.size

    def read(self, numbers: IntArray) -> Iterator[bytes]:
        self._need(int(self._size[numbers].sum()))
        return self._plain.read(numbers)

    def close(self) -> None:
        self._plain.close()
