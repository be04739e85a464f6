"""Sequential decoding of a stream: yields frames as they arrive, in constant memory.

No index is built, and the source is never seeked. Frames are numbered from the first one that can be decoded; numbers,
times and pixels equal those of a file of the same bytes.
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
_MAX_DELAY: Final = 256  # packets that a decoder reads at most before it returns the frame of an earlier one
_LOOK_AHEAD_BYTES: Final = 64 << 20
_MAX_BUFFERED: Final = 32 << 20
_INDEX_FIRST: Final = (
    "Save the stream to a file, or let its writer put the index first: ffmpeg -movflags +faststart; into a pipe, "
    "fragmented MP4 or another container"
)
_SCHEMES: Final = ("http://", "https://", "rtsp://", "rtmp://", "udp://", "tcp://", "srt://", "hls+http")


@dataclass(frozen=True)
class StreamFrame:
    """A decoded frame of a stream, before its conversion.

    Attributes:
        number: frame number, counted from the first frame that can be decoded.
        pts: presentation timestamp in ticks of the stream's time base.
        seconds: presentation timestamp in seconds.
        key: whether decoding can start here; exact only with ``look_ahead`` or ``keys`` of :class:`FrameStream`,
            otherwise the container's flag.
        surface: returns the decoded surface for the frame number.
    """

    number: int
    pts: int
    seconds: float
    key: bool
    surface: Callable[[int], AnySurface]


class FramePainter:
    """Converts the frames of one stream.

    Args:
        info: properties of the stream.
        output: color, dtype and geometry of the pixels.

    Attributes:
        shape: shape of one converted frame.
        dtype: dtype of the converted frames.
    """

    def __init__(self, info: StreamInfo, output: OutputSpec) -> None:
        self._source, self._output = info.source, output
        self._painter = HostPainter()
        self._converter = self._painter.converter(info, output)
        self.shape, self.dtype = self._converter.shape, self._converter.dtype

    def pixels(self, number: int, surface: Callable[[int], AnySurface]) -> Array:
        """Convert one frame to a new array."""
        pixels = self._painter.allocate(self.shape, self.dtype)
        self._painter.put(surface(number), [(self._converter, pixels)])
        return pixels

    def sequence(self, number: int, seconds: float, surface: Callable[[int], AnySurface]) -> Sequence:
        """Convert one frame to a sequence of layout ``HWC`` or ``CHW``."""
        pixels = self.pixels(number, surface)
        numbers, times = np.array([number]), np.array([seconds])
        return Sequence(pixels, self._output.frame_layout, self._source, numbers, times)


class _Packet(NamedTuple):
    """A demuxed packet.

    Attributes:
        data: the packet's bytes.
        key: whether decoding can start here.
        shown: whether the packet's frame is presented.
        pts: presentation timestamp. Without ``timed``, the timestamps of packets in decoding order are those of
            frames in presentation order.
        timed: whether the container stores presentation timestamps.
    """

    data: bytes
    key: bool
    shown: bool
    pts: int
    timed: bool


class FrameStream:
    """An open stream.

    Args:
        source: the source to read.
        timeouts: longest waits for data in seconds, during opening and afterwards; not applied to objects with
            ``read``.
        stack: exit stack that closes the stream.
        stream: index of the container's stream; None for the best video stream.
        look_ahead: number of packets buffered before they are decoded, whose times :meth:`upcoming` returns.
        keys: whether to determine exactly at which frames decoding can start.

    Attributes:
        info: properties of the stream, without frame counts.
        error: the reason if the stream has ended too early.

    Raises:
        UnreadableSourceError: the source is not a video, or its container requires seeking.
        SourceError: no data has arrived within the timeout.
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
    ) -> None:
        self._source = cast("Source", SimpleNamespace(name=_name(source), stream=stream))
        self._timeout, self._look_ahead = _Timeout(*timeouts), look_ahead
        self._buffered: deque[_Packet] = deque()
        self._in_decoder: dict[int, _Packet] = {}
        self.error: SourceError | None = None
        try:
            file = _file(source, self._timeout, stack)
            self._bytes = None if isinstance(file, str) else _ByteStream(file)
            if self._bytes is not None:
                file = _seekable_if_needed(self._bytes, self._source)
            self._container = _container(file, self._timeout, stack)
            self._stream = video_stream(self._source, self._container)
            self._packets = iter(self._container.demux(self._stream))
            first: list[av.Packet[Any]] = []
            picture = FirstPicture(self._stream)
            while not picture.done and (packet := next(self._packets, None)) is not None:
                picture.offer(packet)
                first.append(packet)
        except SeqpipeError:
            raise
        except TimeoutError as error:
            raise _stalled(self._source, error) from error
        except (av.error.FFmpegError, ValueError) as error:
            self._check_interrupt()
            found = unreadable(self._source, error)
            if self._bytes is not None and data_before_index(self._bytes.peek()):
                found.advice = f"It may be truncated: its index comes last. {_INDEX_FIRST}"
            raise found from error
        self.info = stream_info(self._source, self._container, self._stream, picture)
        index = self._index()
        self._decoder, self._reader = CpuDecoder(index), _PacketReader(index, classify=keys or look_ahead > 0)
        self._first = [self._reader.packet(packet) for packet in first if packet.size]
        self._timeout.opened()

    def frames(self) -> Iterator[StreamFrame]:
        """Iterate over the frames in presentation order.

        Raises:
            DamagedSourceError: a frame cannot be decoded.
        """
        numbering, started = _FrameNumbering(self.info), False
        for number, packet in enumerate(self._with_look_ahead()):
            started = started or packet.key
            if not started:
                continue  # nothing can be decoded before the first key packet
            self._in_decoder[number] = packet
            numbering.feed(packet)
            try:
                for result in self._decoder.feed([FedPacket(number, packet.data, packet.key, wanted=True)]):
                    yield from numbering.frames(result, self._in_decoder)
            except DecodeError as error:
                if not numbering.count:
                    continue
                raise numbering.damaged(str(error)) from error
        for result in self._decoder.flush():
            yield from numbering.frames(result, self._in_decoder)
        if self.error is not None:
            self.error.fact += (
                f", after frame {numbering.count - 1}" if numbering.count else ", before its first frame"
            )

    def upcoming(self, seconds: float) -> FloatArray:
        """Return the times of later frames in seconds, ascending, as far as the look-ahead reaches."""
        base = self.info.time_base
        packets = (*self._in_decoder.values(), *self._buffered)
        ticks = sorted(packet.pts for packet in packets if packet.shown)
        times = np.array([pts * base.numerator / base.denominator for pts in ticks], np.float64)
        return times[times > seconds]

    def _index(self) -> PacketIndex:
        """Return an index without packets, which configures the decoder."""
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

    def _with_look_ahead(self) -> Iterator[_Packet]:
        """Iterate over the packets, each after ``look_ahead`` later ones were demuxed."""
        buffered, size = self._buffered, 0
        for packet in self._demux():
            buffered.append(packet)
            size += len(packet.data)
            while len(buffered) > self._look_ahead or (len(buffered) > 1 and size > _LOOK_AHEAD_BYTES):
                size -= len(buffered[0].data)
                yield buffered.popleft()
        while buffered:
            yield buffered.popleft()

    def _demux(self) -> Iterator[_Packet]:
        """Iterate over all packets; sets ``error`` if they end too early."""
        yield from self._first
        self._first = []
        try:
            for packet in self._packets:
                if packet.size:
                    yield self._reader.packet(packet)
        except TimeoutError as error:
            self.error = _stalled(self._source, error)
        except av.error.FFmpegError as error:
            self._check_interrupt()
            self.error = self._truncated(error.strerror or str(error))
        else:
            self._check_interrupt()
            if self._bytes is not None and (missing := self._bytes.missing()):
                self.error = self._truncated(missing)

    def _check_interrupt(self) -> None:
        if self._bytes is not None:
            self._bytes.check_interrupt()

    def _truncated(self, reason: str) -> SourceError:
        return SourceError(f"the stream is truncated ({reason})", source=self._source.name)


class _PacketReader:
    """Converts demuxed packets, with timestamps on one continuous clock.

    Args:
        index: describes the stream.
        classify: whether to parse packets for their kind; otherwise the container's flags are used.
    """

    def __init__(self, index: PacketIndex, *, classify: bool) -> None:
        info = index.info
        coded = Coded(info.width, info.height, index.coded_bits)
        self._codec = info.codec
        self._classifier = classifier(info.codec, index.extradata, coded) if classify else None
        # AVI stores no presentation timestamps; FFmpeg's are guesses
        self._timed: bool | None = False if info.container == "avi" else None
        self._tick = 1 / ((info.average_rate or info.real_rate or DEFAULT_RATE) * info.time_base)
        self._count, self._shift = 0, 0
        self._latest: list[int] = []
        self._last_key: int | None = None

    def packet(self, packet: av.Packet[Any]) -> _Packet:
        """Convert the next packet."""
        data, key, shown = bytes(packet), packet.is_keyframe, not packet.is_discard
        if self._timed is None and key:
            self._timed = packet.pts is not None
        ticks = packet.dts if packet.pts is None or not self._timed else packet.pts
        ticks = round(self._count * self._tick) if ticks is None else ticks
        if self._timed:
            ticks = self._continued(ticks, key=key)
        self._count += 1
        if self._classifier is not None:
            kind = read_kind(self._classifier.classify(data), memoryview(data), self._codec)
            key, shown = key and kind.random_access is not False, shown and kind.shown
        return _Packet(data, key, shown, ticks, bool(self._timed))

    def _continued(self, pts: int, *, key: bool) -> int:
        """Shift timestamps that restart, as in concatenated recordings, so that they continue to ascend."""
        pts += self._shift
        if key and self._last_key is not None and pts <= self._last_key and len(self._latest) > 1:
            before, last = self._latest
            self._shift += 2 * last - before - pts
            pts = 2 * last - before
        if key:
            self._last_key = pts
        self._latest = sorted([*self._latest, pts])[-2:]
        return pts


class _FrameNumbering:
    """Numbers the decoded frames and assigns their timestamps."""

    def __init__(self, info: StreamInfo) -> None:
        self.count = 0
        self._info = info
        self._untimed: deque[int] = deque()

    def feed(self, packet: _Packet) -> None:
        """Record a packet that is fed to the decoder."""
        if packet.shown and not packet.timed:
            self._untimed.append(packet.pts)

    def frames(self, result: DecodeResult, in_decoder: dict[int, _Packet]) -> Iterator[StreamFrame]:
        """Iterate over the presented frames of a result; damaged frames before the first intact one are skipped."""
        for picture in result.frames:
            if (
                self.count
                and self._info.codec == "av1"
                and min(in_decoder, default=math.inf) < picture.packet
            ):
                # each AV1 packet has one frame, in the order of the packets
                raise self.damaged("the decoder returned no frame")
            packet = in_decoder.pop(picture.packet, None)
            if packet is None or not packet.shown:
                continue  # the second frame of a packet, or one outside the edit list
            pts = packet.pts if packet.timed else self._untimed.popleft()
            if picture.packet in result.damaged:
                if not self.count:
                    continue
                raise self.damaged("the decoder concealed an error in its frame")
            self.count += 1
            seconds = pts * self._info.time_base.numerator / self._info.time_base.denominator
            yield StreamFrame(self.count - 1, pts, seconds, packet.key, picture.surface)
        oldest = min(result.decoded, default=0) - _MAX_DELAY
        for number in [number for number in in_decoder if number < oldest]:
            del in_decoder[number]  # not shown, or not decoded

    def damaged(self, reason: str) -> DamagedSourceError:
        """Return the error for the next frame."""
        return DamagedSourceError(
            f"frame {self.count} cannot be decoded ({reason})",
            source=self._info.source,
            advice="Save the stream to a file, and leave lost frames out there",
            lost=(self.count,),
        )


class _Timeout:
    """The longest wait for data, which differs between opening and reading."""

    def __init__(self, open_s: float, read_s: float) -> None:
        self.open_s, self.read_s = open_s, read_s
        self.current_s = open_s

    def opened(self) -> None:
        """Switch to the timeout of reading."""
        self.current_s = self.read_s


class _Pipe:
    """A file descriptor that is read sequentially, with a timeout."""

    def __init__(self, descriptor: int, timeout: _Timeout) -> None:
        self._descriptor, self._timeout = descriptor, timeout

    def read(self, size: int = _BUFFER) -> bytes:
        """Read at most ``size`` bytes as soon as any are available; ``b""`` at the end.

        Raises:
            TimeoutError: no data has arrived within the timeout.
        """
        limit = self._timeout.current_s
        if not select.select([self._descriptor], [], [], limit)[0]:
            raise TimeoutError(f"no data for {limit:g} s")
        return os.read(self._descriptor, max(1, size))


class _SequentialFile:
    """A file object of which only ``read`` is used, so that FFmpeg does not seek."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, size: int = _BUFFER) -> bytes:
        """Read at most ``size`` bytes."""
        data = self._file.read(size)
        if not isinstance(data, bytes):
            raise ParameterError("the file object returns text", advice="Open it with mode 'rb'")
        return data


def _name(source: Streamed) -> str:
    if isinstance(source, (str, os.PathLike)):
        return "<standard input>" if source == "-" else os.fspath(source)
    return f"<{getattr(source, 'name', None) or type(source).__name__}>"


class _ByteStream:
    """A byte stream whose head can be peeked at and whose size is compared with the one that its header declares."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._head, self._size = b"", 0
        self._peeked = b""
        self._interrupt: KeyboardInterrupt | None = None

    def peek(self) -> bytes:
        """Return the first bytes without consuming them."""
        while len(self._head) < HEAD and (data := self._file.read(HEAD - len(self._head))):
            self._head += data
            self._peeked += data
        return self._head

    def read(self, size: int = _BUFFER) -> bytes:
        """Read at most ``size`` bytes; ``b""`` at the end and after an interrupt."""
        if self._interrupt is not None:
            return b""
        try:
            data: bytes = self._peeked[:size] or self._file.read(size)
        except KeyboardInterrupt as interrupt:  # PyAV's callback propagates subclasses of Exception only
            self._interrupt, data = interrupt, b""
        self._peeked = self._peeked[len(data) :]
        self._size += len(data)
        return data

    def check_interrupt(self) -> None:
        """Raise the interrupt that ended reading, if any.

        Raises:
            KeyboardInterrupt: an interrupt ended reading.
        """
        if self._interrupt is not None:
            raise self._interrupt

    def missing(self) -> str:
        """Describe how much shorter the stream is than its header declares; "" if it is complete."""
        declared = declared_size(self._head)
        while declared is not None and declared > self._size and self.read():
            pass  # count the bytes after the last packet
        if declared is None or declared <= self._size:
            return ""
        return f"its header declares {declared} bytes, it has {self._size}"


def _container(file: Any, timeout: _Timeout, stack: ExitStack) -> InputContainer:
    """Open the demuxer for a path, an address, or a file object."""
    if isinstance(file, str):
        timeouts = (timeout.open_s, timeout.read_s) if file.startswith(_SCHEMES) else None
        return stack.enter_context(av.open(file, timeout=timeouts))
    return cast("InputContainer", stack.enter_context(av.open(file, "r", buffer_size=_BUFFER)))


def _file(source: Streamed, timeout: _Timeout, stack: ExitStack) -> Any:
    """Return the argument for ``av.open``: a path, an address, or a file object."""
    if not isinstance(source, (str, os.PathLike)):
        if not hasattr(source, "read"):
            raise ParameterError(
                f"a {type(source).__name__} cannot be streamed",
                allowed='"-", a path, an address, or a binary file object',
            )
        return _SequentialFile(source)
    name = os.fspath(source)
    if name == "-":
        return _Pipe(sys.stdin.fileno(), timeout)
    if name.startswith(_SCHEMES):
        return name
    if "://" in name:
        import fsspec

        return stack.enter_context(fsspec.open(name, "rb").open())
    if os.path.exists(name) and S_ISFIFO(os.stat(name).st_mode):  # noqa: PTH110, PTH116  names are texts here
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        stack.callback(os.close, descriptor)
        return _Pipe(descriptor, timeout)
    return open_source(name).for_demuxer()


def _seekable_if_needed(stream: _ByteStream, source: Source) -> Any:
    """Read an MP4 whose index follows its data into memory, since it requires seeking; return others unchanged.

    Raises:
        UnreadableSourceError: the stream requires seeking and is too large for memory.
    """
    preceding = data_before_index(stream.peek())
    if not preceding:
        return stream
    if preceding > _MAX_BUFFERED:
        raise UnreadableSourceError(
            "this MP4 or QuickTime stream has its index (moov) behind its data, which requires seeking",
            source=source.name,
            allowed=f"at most {_MAX_BUFFERED >> 20} MiB of data before the index",
            advice=_INDEX_FIRST,
        )
    return io.BytesIO(b"".join(iter(stream.read, b"")))


def _stalled(source: Source, error: TimeoutError) -> SourceError:
    return SourceError(
        f"the stream has stalled ({error})",
        source=source.name,
        advice="Give more time: open_timeout_s, read_timeout_s",
    )
