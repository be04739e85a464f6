"""A video that is read from front to back: its frames as they come, in constant memory.

Nothing is indexed, and the source is never sought. Frames are numbered from the first one that can be decoded; numbers,
times and pixels are those of a file of the same bytes.
"""

from __future__ import annotations

import io
import math
import os
import select
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from stat import S_ISFIFO
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

import av
import av.container
import av.error
import numpy as np

from ..array import Array, FloatArray
from ..errors import (
    DamagedSourceError,
    ParameterError,
    SeqpipeError,
    SourceError,
    UnreadableSourceError,
)
from ..sequence import Sequence
from .bitstream import Coded, classifier
from .convert.output import OutputSpec
from .convert.paint import HostPainter
from .convert.surface import AnySurface
from .decode.cpu import CpuDecoder
from .decode.kinds import read_kind
from .decode.packet_decoder import DecodeError, DecodeResult, FedPacket
from .index.assemble import DEFAULT_RATE
from .packet_index import NO_PACKETS, PacketIndex
from .probe.extent import HEAD, data_before_index, declared_size
from .probe.info import StreamInfo
from .probe.probe import FirstPicture, stream_info, unreadable, video_stream
from .source.source import Source, open_source

if TYPE_CHECKING:
    from av.container import InputContainer

__all__ = ["FramePainter", "FrameStream", "StreamFrame", "Streamed"]

Streamed: TypeAlias = "str | os.PathLike[str] | Any"
"""A source to stream: "-" for standard input, a path of a file or pipe, an address, or an object with ``read``."""

_BUFFER: Final = 1 << 16
_INSIDE: Final = 256  # packets of which a decoder may still give a picture
_REORDERED: Final = 32  # packets that may come between one and those that are shown before it, and more
_HELD_BYTES: Final = 64 << 20
_WHOLE_BYTES: Final = 32 << 20
_INDEX_FIRST: Final = (
    "Save the stream to a file, or let its writer put the index first: ffmpeg -movflags +faststart; into a pipe, "
    "fragmented MP4 or another container"
)
_SCHEMES: Final = ("http://", "https://", "rtsp://", "rtmp://", "udp://", "tcp://", "srt://", "hls+http")


@dataclass(frozen=True)
class StreamFrame:
    """A frame of a stream, not converted yet.

    Attributes:
        number: its number, counted from the first frame that can be decoded.
        pts: its timestamp in ticks of the stream's time base.
        seconds: the same in seconds.
        key: whether decoding can start at it; for :class:`FrameStream` with ``look_ahead`` or ``keys`` alone.
        surface: gives its pixels as the codec has them, by its number.
    """

    number: int
    pts: int
    seconds: float
    key: bool
    surface: Callable[[int], AnySurface]


class FramePainter:
    """Converts frames of one stream.

    Args:
        info: the facts of the stream.
        output: color, dtype and geometry of the pixels.

    Attributes:
        shape: of the pixels of one frame.
        dtype: of the pixels.
    """

    def __init__(self, info: StreamInfo, output: OutputSpec) -> None:
        self._source, self._output = info.source, output
        self._painter = HostPainter()
        self._converter = self._painter.converter(info, output)
        self.shape, self.dtype = self._converter.shape, self._converter.dtype

    def pixels(self, number: int, surface: Callable[[int], AnySurface]) -> Array:
        """A new array with the pixels of one frame."""
        pixels = self._painter.allocate(self.shape, self.dtype)
        self._painter.put(surface(number), [(self._converter, pixels)])
        return pixels

    def sequence(self, number: int, seconds: float, surface: Callable[[int], AnySurface]) -> Sequence:
        """One frame as a sequence of layout ``HWC`` or ``CHW``."""
        pixels = self.pixels(number, surface)
        numbers, times = np.array([number]), np.array([seconds])
        return Sequence(pixels, self._output.frame_layout, self._source, numbers, times)


class _Packet(NamedTuple):
    """A packet.

    Attributes:
        data: its bytes.
        key: whether decoding can start at it.
        shown: whether its picture is shown.
        pts: when its picture is shown; of untimed ones, when the next picture of an untimed one is.
        timed: whether the container has times of presentation; else they follow from the order of decoding.
    """

    data: bytes
    key: bool
    shown: bool
    pts: int
    timed: bool


class FrameStream:
    """An open stream.

    Args:
        source: what is read.
        timeouts: longest waits for data in seconds, while it is opened and afterwards; not applied to objects with
            ``read``.
        stack: closes it.
        stream: which stream of the container, by its number; None for the best video.
        look_ahead: how many frames :meth:`upcoming` tells; so many packets are held before they are decoded, as far as
            64 MiB hold them.
        keys: whether frames are told from which decoding can start.
        threads: how many decode, until damage is met.

    Attributes:
        info: the facts of the stream; nothing is counted.
        error: why it ended too early, once it has.

    Raises:
        UnreadableSourceError: the source is not a video, or its container requires seeking.
        SourceError: there is no data for too long.
        ParameterError: the source cannot be streamed, or has no such stream.
    """

    def __init__(
        self,
        source: Streamed,
        timeouts: tuple[float, float],
        stack: ExitStack,
        *,
        stream: int | None = None,
        look_ahead: int = 0,
        keys: bool = False,
        threads: int = 1,
    ) -> None:
        self._source = cast("Source", SimpleNamespace(name=_name(source), stream=stream))
        self._waiting, self._all_read = _Waiting(*timeouts), False
        self._held: deque[_Packet] = deque()
        self._inside: dict[int, _Packet] = {}
        self._heard: _Heard | None = None
        self.error: SourceError | None = None
        try:
            file = _file(source, self._waiting, stack)
            self._heard = None if isinstance(file, str) else _Heard(file)
            if self._heard is not None:
                file = _seekable_if_needed(self._heard, self._source)
            self._container = _container(file, self._waiting, stack)
            self._stream = video_stream(self._source, self._container)
            self._packets = iter(self._container.demux(self._stream))
            first: list[av.Packet[Any]] = []
            picture = FirstPicture(self._stream)
            while not picture.done and (packet := next(self._packets, None)) is not None:
                picture.offer(packet)
                first.append(packet)
            self._check_interrupt()
        except SeqpipeError:
            raise
        except TimeoutError as error:
            raise _stalled(self._source, error) from error
        except (av.error.FFmpegError, ValueError) as error:
            self._check_interrupt()
            found = unreadable(self._source, error)
            if self._heard is not None and data_before_index(self._heard.look()):
                found.advice = f"It may be cut, for its index comes last. {_INDEX_FIRST}"
            raise found from error
        self.info = stream_info(self._source, self._container, self._stream, picture)
        self._late = _REORDERED if self.info.has_b_frames else 0
        self._look_ahead = look_ahead + self._late if look_ahead else 0
        self._index = self._described()
        self._decoder = CpuDecoder(self._index, threads)
        self._run = _Run() if self._decoder.threads > 1 else None
        self._reading = _Reading(self._index, classified=keys or look_ahead > 0)
        self._first = [self._reading.packet(packet) for packet in first if packet.size]
        self._waiting.opened()

    def frames(self) -> Iterator[StreamFrame]:
        """Its frames, in the order in which they are shown.

        Raises:
            DamagedSourceError: a frame cannot be decoded.
        """
        given = _Given(self.info)
        begun = False
        for number, packet in enumerate(self._ahead()):
            begun = begun or packet.key
            if not begun:
                continue  # nothing can be decoded before the first key packet
            self._inside[number] = packet
            given.feed(packet)
            if self._run is not None:
                self._run.hold(number, packet)
            yield from self._decoded(number, packet, given)
        yield from self._flushed(given)
        if self.error is not None:
            self.error.fact += (
                f", after frame {given.count - 1}" if given.count else ", before its first frame"
            )

    def _decoded(self, number: int, packet: _Packet, given: _Given) -> Iterator[StreamFrame]:
        try:
            for result in self._decoder.feed([FedPacket(number, packet.data, packet.key, wanted=True)]):
                if result.damaged and self._run is not None:
                    raise DecodeError("the decoder had to invent parts of a picture")
                yield from given.frames(result, self._inside)
        except DecodeError as error:
            if self._run is not None:
                yield from self._by_one_thread(given)
            elif given.count and number in self._inside:
                raise given.damaged(str(error)) from error

    def _flushed(self, given: _Given) -> Iterator[StreamFrame]:
        try:
            results = list(self._decoder.flush())
        except DecodeError as error:
            if self._run is None:
                raise given.damaged(str(error)) from error
            results = []
        # several threads are silent about what they could not decode of the last packets
        missing = self._inside.keys() - {number for result in results for number in result.decoded}
        if self._run is not None and (missing or any(result.damaged for result in results)):
            yield from self._by_one_thread(given)
            yield from self._flushed(given)
            return
        for result in results:
            yield from given.frames(result, self._inside)

    def _by_one_thread(self, given: _Given) -> Iterator[StreamFrame]:
        """Decode once more what may be lost with a damaged packet, for several threads tell of damage late."""
        run, self._run = self._run, None
        self._decoder = CpuDecoder(self._index)
        for number, packet in run or ():
            yield from self._decoded(number, packet, given)

    def upcoming(self, seconds: float) -> FloatArray:
        """The times of frames that come after a time, in seconds, ascending, as far as they were looked ahead for."""
        base = self.info.time_base
        packets = (*self._inside.values(), *self._held)
        ticks = sorted(packet.pts for packet in packets if packet.shown)
        # of the last ones, others may come that are shown before them
        known = ticks if self._all_read else ticks[: max(0, len(ticks) - self._late)]
        times = np.array([pts * base.numerator / base.denominator for pts in known], np.float64)
        return times[times > seconds]

    def _described(self) -> PacketIndex:
        """What a decoder needs to know of the stream."""
        context = self._stream.codec_context
        return PacketIndex(
            info=self.info,
            extradata=bytes(context.extradata or b""),
            codec_tag=context.codec_tag,
            coded_bits=context.bits_per_coded_sample,
            packets=NO_PACKETS,
            dropped_at_start=0,
            end_s=0.0,
        )

    def _ahead(self) -> Iterator[_Packet]:
        """The packets, some of them held until those after them are known."""
        held, size = self._held, 0
        for packet in self._data():
            held.append(packet)
            size += len(packet.data)
            while len(held) > self._look_ahead or (len(held) > 1 and size > _HELD_BYTES):
                size -= len(held[0].data)
                yield held.popleft()
        self._all_read = True
        while held:
            yield held.popleft()

    def _data(self) -> Iterator[_Packet]:
        """The packets from the first one on; says in ``error`` why there are no more."""
        yield from self._first
        self._first = []
        try:
            for packet in self._packets:
                if packet.size:
                    yield self._reading.packet(packet)
        except TimeoutError as error:
            self.error = _stalled(self._source, error)
        except av.error.FFmpegError as error:
            self._check_interrupt()
            self.error = self._ended(error.strerror or str(error))
        else:
            self._check_interrupt()
            if self._heard is not None and (missing := self._heard.missing()):
                self.error = self._ended(missing)

    def _check_interrupt(self) -> None:
        if self._heard is not None:
            self._heard.check_interrupt()

    def _ended(self, reason: str) -> SourceError:
        return SourceError(f"the stream ends in the middle ({reason})", source=self._source.name)


class _Run:
    """The last packets that were fed, from the key packet before the last one on."""

    def __init__(self) -> None:
        self._before: list[tuple[int, _Packet]] = []
        self._since: list[tuple[int, _Packet]] = []
        self._size = 0

    def __iter__(self) -> Iterator[tuple[int, _Packet]]:
        """Each packet with its number, in the order of decoding."""
        return chain(self._before, self._since)

    def hold(self, number: int, packet: _Packet) -> None:
        """Take the next packet; more than can be held are forgotten, up to the next key packet."""
        if packet.key:
            self._before, self._since = self._since, []
            self._size = sum(len(one.data) for _, one in self._before)
        self._size += len(packet.data)
        if self._size > _HELD_BYTES:
            self._before, self._since = [], []
        else:
            self._since.append((number, packet))


class _Reading:
    """Packets as they are demuxed, on one clock.

    Args:
        index: describes the stream.
        classified: whether packets are looked into for what they are; else the container's word is taken.
    """

    def __init__(self, index: PacketIndex, *, classified: bool) -> None:
        info = index.info
        coded = Coded(info.width, info.height, index.coded_bits)
        self._codec = info.codec
        self._classifier = classifier(info.codec, index.extradata, coded) if classified else None
        # AVI has no place for times of presentation; what FFmpeg gives for them is a guess
        self._timed: bool | None = False if info.container == "avi" else None
        self._tick = 1 / ((info.average_rate or info.real_rate or DEFAULT_RATE) * info.time_base)
        self._count, self._shift = 0, 0
        self._latest: list[int] = []
        self._last_key: int | None = None

    def packet(self, packet: av.Packet[Any]) -> _Packet:
        """The next packet."""
        data, key, shown = bytes(packet), packet.is_keyframe, not packet.is_discard
        if self._timed is None and key:
            self._timed = packet.pts is not None
        ticks = packet.dts if packet.pts is None or not self._timed else packet.pts
        ticks = round(self._count * self._tick) if ticks is None else ticks
        if self._timed:
            ticks = self._on_one_clock(ticks, key=key)
        self._count += 1
        if self._classifier is not None:
            kind = read_kind(self._classifier.classify(data), memoryview(data), self._codec)
            key, shown = key and kind.random_access is not False, shown and kind.shown
        return _Packet(data, key, shown, ticks, bool(self._timed))

    def _on_one_clock(self, pts: int, *, key: bool) -> int:
        """Let a clock that starts again go on from where it was, as where two recordings were joined."""
        pts += self._shift
        if key and self._last_key is not None and pts <= self._last_key and len(self._latest) > 1:
            before, last = self._latest
            self._shift += 2 * last - before - pts
            pts = 2 * last - before
        if key:
            self._last_key = pts
        self._latest = sorted([*self._latest, pts])[-2:]
        return pts


class _Given:
    """The frames that were given so far."""

    def __init__(self, info: StreamInfo) -> None:
        self.count = 0
        self._info = info
        self._untimed: deque[int] = deque()

    def feed(self, packet: _Packet) -> None:
        """Note a packet that is being decoded."""
        if packet.shown and not packet.timed:
            self._untimed.append(packet.pts)

    def frames(self, result: DecodeResult, inside: dict[int, _Packet]) -> Iterator[StreamFrame]:
        """The frames of what a decoder gave; damaged ones before the first sound one are none."""
        for picture in result.frames:
            if self.count and self._info.codec == "av1" and min(inside, default=math.inf) < picture.packet:
                # each of its packets has a picture, and they come in the packets' order
                raise self.damaged("the decoder gave no picture of it")
            packet = inside.pop(picture.packet, None)
            if packet is None or not packet.shown:
                continue  # the second picture of a packet, or what an edit list leaves out
            pts = packet.pts if packet.timed else self._untimed.popleft()
            if picture.packet in result.damaged:
                if not self.count:
                    continue
                raise self.damaged("the decoder concealed an error in its frame")
            self.count += 1
            seconds = pts * self._info.time_base.numerator / self._info.time_base.denominator
            yield StreamFrame(self.count - 1, pts, seconds, packet.key, picture.surface)
        for number in [number for number in inside if number < min(result.decoded, default=0) - _INSIDE]:
            del inside[number]  # hidden, or not decoded

    def damaged(self, reason: str) -> DamagedSourceError:
        """The error for the next frame."""
        return DamagedSourceError(
            f"frame {self.count} cannot be decoded ({reason})",
            source=self._info.source,
            advice="Save the stream to a file, and leave lost frames out there",
            lost=(self.count,),
        )


class _Waiting:
    """How long to wait for data."""

    def __init__(self, open_s: float, read_s: float) -> None:
        self.open_s, self.read_s = open_s, read_s
        self.now_s = open_s

    def opened(self) -> None:
        """From now on the stream is read."""
        self.now_s = self.read_s


class _Pipe:
    """A descriptor that is read from front to back, and not waited for forever."""

    def __init__(self, descriptor: int, waiting: _Waiting) -> None:
        self._descriptor, self._waiting = descriptor, waiting

    def read(self, size: int = _BUFFER) -> bytes:
        """Up to so many bytes, as soon as there are some; none at the end.

        Raises:
            TimeoutError: there are none for too long.
        """
        limit = self._waiting.now_s
        if not select.select([self._descriptor], [], [], limit)[0]:
            raise TimeoutError(f"no data for {limit:g} s")
        return os.read(self._descriptor, max(1, size))


class _Front:
    """A file object that is read from front to back, whatever else it could do."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, size: int = _BUFFER) -> bytes:
        """Up to so many bytes."""
        data = self._file.read(size)
        if not isinstance(data, bytes):
            raise ParameterError("the file object gives text", advice="Open it with mode 'rb'")
        return data


def _name(source: Streamed) -> str:
    if isinstance(source, (str, os.PathLike)):
        return "<standard input>" if source == "-" else os.fspath(source)
    return f"<{getattr(source, 'name', None) or type(source).__name__}>"


class _Heard:
    """A stream of bytes that is looked at first; its end is noticed where its header promises more."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain
        self._head, self._size = b"", 0
        self._looked = b""
        self._interrupt: KeyboardInterrupt | None = None

    def look(self) -> bytes:
        """The first bytes, which are read again later."""
        while len(self._head) < HEAD and (data := self._plain.read(HEAD - len(self._head))):
            self._head += data
            self._looked += data
        return self._head

    def read(self, size: int = _BUFFER) -> bytes:
        """Up to so many bytes; none at the end, and from an interrupt on."""
        if self._interrupt is not None:
            return b""
        try:
            data: bytes = self._looked[:size] or self._plain.read(size)
        except KeyboardInterrupt as interrupt:  # FFmpeg has called this, and lets only an Exception through
            self._interrupt, data = interrupt, b""
        self._looked = self._looked[len(data) :]
        self._size += len(data)
        return data

    def check_interrupt(self) -> None:
        """Raise the interrupt that has ended reading, if one has.

        Raises:
            KeyboardInterrupt: it.
        """
        if self._interrupt is not None:
            raise self._interrupt

    def missing(self) -> str:
        """What does not come of what the header promises, or nothing."""
        stated = declared_size(self._head)
        while stated is not None and stated > self._size and self.read():
            pass  # what stands behind the last packet
        if stated is None or stated <= self._size:
            return ""
        return f"its header promises {stated} bytes, {self._size} came"


def _container(file: Any, waiting: _Waiting, stack: ExitStack) -> InputContainer:
    """The demuxer over a path, an address, or an object that reads."""
    if isinstance(file, str):
        timeout = (waiting.open_s, waiting.read_s) if file.startswith(_SCHEMES) else None
        return stack.enter_context(av.open(file, timeout=timeout))
    return cast("InputContainer", stack.enter_context(av.open(file, "r", buffer_size=_BUFFER)))


def _file(source: Streamed, waiting: _Waiting, stack: ExitStack) -> Any:
    """What ``av.open`` takes: a path or address, or an object that reads."""
    if not isinstance(source, (str, os.PathLike)):
        if not hasattr(source, "read"):
            raise ParameterError(
                f"a {type(source).__name__} cannot be streamed",
                allowed='"-", a path, an address, or a binary file object',
            )
        return _Front(source)
    name = os.fspath(source)
    if name == "-":
        return _Pipe(sys.stdin.fileno(), waiting)
    if name.startswith(_SCHEMES):
        return name
    if "://" in name:
        import fsspec

        return stack.enter_context(fsspec.open(name, "rb").open())
    if S_ISFIFO(os.stat(name).st_mode) if os.path.exists(name) else False:  # noqa: PTH110, PTH116  names are texts here
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        stack.callback(os.close, descriptor)
        return _Pipe(descriptor, waiting)
    return open_source(name).for_demuxer()


def _seekable_if_needed(heard: _Heard, source: Source) -> Any:
    """A stream as it is, or what is in it: MP4 with its index behind its data requires seeking.

    Raises:
        UnreadableSourceError: it requires seeking, and is too large to be held.
    """
    behind = data_before_index(heard.look())
    if not behind:
        return heard
    if behind > _WHOLE_BYTES:
        raise UnreadableSourceError(
            "this MP4 or QuickTime stream has its index (moov) behind its data, which requires seeking",
            source=source.name,
            allowed=f"at most {_WHOLE_BYTES >> 20} MiB of data before the index",
            advice=_INDEX_FIRST,
        )
    return io.BytesIO(b"".join(iter(heard.read, b"")))


def _stalled(source: Source, error: TimeoutError) -> SourceError:
    return SourceError(
        f"the stream has stalled ({error})",
        source=source.name,
        advice="Give more time: open_timeout_s, read_timeout_s",
    )
