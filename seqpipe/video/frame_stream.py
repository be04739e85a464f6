"""Sequential decoding of a stream: yields frames as they arrive, in constant memory.

No index is built, and the source is never seeked. Frames are numbered from the first one that can be decoded; numbers,
times and pixels equal those of a file of the same bytes.
"""

from __future__ import annotations

import contextlib
import heapq
import math
import os
from collections import deque
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain, dropwhile
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

import av
import av.container
import av.error
import numpy as np

from ..array import Array, FloatArray
from ..errors import DamagedSourceError, SeqpipeError, SourceError
from ..sequence import Sequence
from .bitstream.kind import Classifier, classifier
from .byte_streams import (
    INDEX_FIRST,
    PeekableBytes,
    ReadTimeouts,
    Streamed,
    demuxer_over,
    is_address,
    open_bytes,
    seekable_if_needed,
    source_name,
    stalled,
)
from .convert.converter import HostPainter
from .convert.output import OutputSpec
from .convert.surface import AnySurface
from .decode.cpu import CpuDecoder
from .decode.packets import DecodeError, DecodeResult, FedPacket, read_kind
from .index.order import DEFAULT_RATE, frame_step
from .packet_index import NO_PACKETS, PacketIndex
from .probe.info import StreamInfo
from .probe.probe import (
    FirstPicture,
    encrypted_packets,
    is_encrypted,
    nothing_decodable,
    stores_pts,
    stream_info,
    unreadable,
    video_stream,
)
from .probe.recognize import data_before_index
from .source.source import Source, open_source

__all__ = ["FramePainter", "FrameStream", "StreamFrame"]

# upper bound of the packets that a decoder reads before it returns the frame of an earlier one
_DECODER_DELAY: Final = 256
_REORDERED: Final = 32  # upper bound of the packets between one and a later one with an earlier timestamp
_BUFFERED_BYTES: Final = 64 << 20  # compressed packets of a stream that cannot be read again, such as a pipe


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
        pts: presentation timestamp; an estimate if not ``known``. Without ``timed``, the timestamps of packets in
            decoding order are those of frames in presentation order.
        timed: whether the container stores presentation timestamps.
        known: whether it stores this one.
        step: ticks from this frame to the next one, as far as known.
    """

    data: bytes
    key: bool
    shown: bool
    pts: int
    timed: bool
    known: bool
    step: Fraction


class FrameStream:
    """An open stream.

    Args:
        source: the source to read.
        timeouts: longest waits for data in seconds, during opening and afterwards; not applied to objects with
            ``read``.
        stack: exit stack that closes the stream.
        stream: index of the container's stream; None for the best video stream.
        look_ahead: number of frames whose times :meth:`upcoming` returns; as many packets, up to 64 MiB, are buffered
            before they are decoded.
        keys: whether to determine exactly at which frames decoding can start.
        threads: number of decoding threads, until damage is found.

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
        threads: int = 1,
    ) -> None:
        self._bytes: PeekableBytes | None = None
        head = partial(self._head, source)
        self._source = cast(
            "Source", SimpleNamespace(name=source_name(source), stream=stream, read=head, slow=False)
        )
        self._timeouts, self._all_read = ReadTimeouts(*timeouts), False
        self._buffered: deque[_Packet] = deque()
        self._pending: dict[int, _Packet] = {}
        self.error: SourceError | None = None
        try:
            file = open_bytes(source, self._timeouts, stack)
            self._bytes = None if isinstance(file, str) else PeekableBytes(file)
            if self._bytes is not None:
                file = seekable_if_needed(self._bytes, self._source)
            self._container = demuxer_over(file, self._timeouts, stack)
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
            raise stalled(self._source, error) from error
        except (av.error.FFmpegError, ValueError) as error:
            self._check_interrupt()
            unreadable_error = unreadable(self._source, error)
            if self._bytes is not None and data_before_index(self._bytes.peek()):
                unreadable_error.advice = f"It may be truncated: its index comes last. {INDEX_FIRST}"
            raise unreadable_error from error
        self.info = stream_info(self._source, self._container, self._stream, picture)
        self._late = _REORDERED if self.info.has_b_frames else 0
        self._look_ahead = look_ahead + self._late if look_ahead else 0
        self._index = self._empty_index()
        self._decoder = CpuDecoder(self._index, threads)
        self._recent = _RecentPackets() if self._decoder.threads > 1 else None
        self._reader = _PacketReader(self._index, classified=keys or look_ahead > 0)
        self._first = [self._reader.packet(packet) for packet in first if packet.size]
        self._numbering = _FrameNumbering(self.info)
        self._timeouts.opened()

    def _head(self, source: Streamed, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        """Return the first bytes for each range from the start; those of an address are not read again."""
        if self._bytes is not None:
            return [self._bytes.peek() for _ in ranges]
        name = os.fspath(source)
        return [b"" for _ in ranges] if is_address(name) else open_source(name).read(ranges)

    def frames(self) -> Iterator[StreamFrame]:
        """Iterate over the frames in presentation order."""
        numbering = self._numbering
        for number, packet in enumerate(self._begun(self._ahead())):
            self._pending[number] = packet
            numbering.feed(packet, number)
            if self._recent is not None:
                self._recent.add(number, packet)
            yield from self._decoded(number, packet, numbering)
        yield from self._flushed(numbering)
        if self.error is None and not numbering.any_frame and self._reader.count:
            raise nothing_decodable(self._source, self._reader.count)
        if self.error is not None:
            self.error.fact += (
                f", after frame {numbering.count - 1}" if numbering.count else ", before its first frame"
            )

    def _begun(self, packets: Iterator[_Packet]) -> Iterator[_Packet]:
        """Iterate over the packets from the first key packet on, or over all of the first ones if none is among them.

        Streams of gradual refresh, or cut ones, have no key packet; they are decoded from the start.
        """
        head: list[_Packet] = []
        for packet in _recorded(packets, head):
            if packet.key:
                del head[:-1]
                break
        else:
            self._numbering.refreshes = self._all_read or self._reader.refreshes
            if not self._numbering.refreshes:
                head.clear()
                packets = dropwhile(lambda packet: not packet.key, packets)
        yield from head
        head.clear()
        yield from packets

    def _decoded(self, number: int, packet: _Packet, numbering: _FrameNumbering) -> Iterator[StreamFrame]:
        """Feed a packet, and yield the frames that come out."""
        try:
            for result in self._decoder.feed([FedPacket(number, packet.data, packet.key, wanted=True)]):
                if result.damaged and self._recent is not None:
                    raise DecodeError("the decoder concealed an error in a frame")
                yield from numbering.frames(result, self._pending)
        except DecodeError as error:
            if self._recent is not None:
                yield from self._by_one_thread(numbering)
            elif numbering.count and number in self._pending:
                raise numbering.damaged(str(error)) from error

    def _flushed(self, numbering: _FrameNumbering) -> Iterator[StreamFrame]:
        """Yield the last frames."""
        try:
            results = list(self._decoder.flush())
            numbering.fed = -1
        except DecodeError as error:
            if self._recent is None:
                raise numbering.damaged(str(error)) from error
            results = []
        # frame threads do not report errors in the last packets
        missing = self._pending.keys() - {number for result in results for number in result.decoded}
        if self._recent is not None and (missing or any(result.damaged for result in results)):
            yield from self._by_one_thread(numbering)
            yield from self._flushed(numbering)
            return
        for result in results:
            yield from numbering.frames(result, self._pending)

    def _by_one_thread(self, numbering: _FrameNumbering) -> Iterator[StreamFrame]:
        """Decode the last packets again by one thread, because several threads report damage late."""
        run, self._recent = self._recent, None
        self._decoder = CpuDecoder(self._index)
        for number, packet in run or ():
            yield from self._decoded(number, packet, numbering)

    def upcoming(self, seconds: float) -> FloatArray:
        """Return the times of later frames in seconds, ascending, as far as the look-ahead reaches."""
        base = self.info.time_base
        packets = (*self._pending.values(), *self._buffered)
        ticks = sorted(packet.pts for packet in packets if packet.shown)
        # later packets may have timestamps before the last ones
        known = ticks if self._all_read else ticks[: max(0, len(ticks) - self._late)]
        times = np.array([pts * base.numerator / base.denominator for pts in known], np.float64)
        return times[times > seconds]

    def _empty_index(self) -> PacketIndex:
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

    def _ahead(self) -> Iterator[_Packet]:
        """Iterate over the packets, each after ``look_ahead`` later ones were demuxed."""
        buffered, size = self._buffered, 0
        for packet in self._anchored(self._data()):
            buffered.append(packet)
            size += len(packet.data)
            while len(buffered) > self._look_ahead or (len(buffered) > 1 and size > _BUFFERED_BYTES):
                size -= len(buffered[0].data)
                yield buffered.popleft()
        self._all_read = True
        while buffered:
            yield buffered.popleft()

    def _anchored(self, packets: Iterator[_Packet]) -> Iterator[_Packet]:
        """Iterate over the packets; where the first ones have no times, decode ahead to the first that has one."""
        head: list[_Packet] = []
        if any(packet.timed and not packet.known for packet in self._first):
            self._numbering.anchor = _first_time(self._index, _recorded(packets, head)) or (0, 0)
        yield from head
        head.clear()
        yield from packets

    def _data(self) -> Iterator[_Packet]:
        """Iterate over all packets; sets ``error`` if they end too early."""
        yield from self._first
        self._first = []
        try:
            for packet in self._packets:
                if packet.size:
                    if is_encrypted(packet):
                        raise encrypted_packets(self._source)
                    yield self._reader.packet(packet)
        except TimeoutError as error:
            self.error = stalled(self._source, error)
        except av.error.FFmpegError as error:
            self._check_interrupt()
            self.error = self._ended(error.strerror or str(error))
        else:
            self._check_interrupt()
            if self._bytes is not None and (missing := self._bytes.missing()):
                self.error = self._ended(missing)

    def _check_interrupt(self) -> None:
        if self._bytes is not None:
            self._bytes.check_interrupt()

    def _ended(self, reason: str) -> SourceError:
        return SourceError(f"the stream is truncated ({reason})", source=self._source.name)


def _recorded(packets: Iterator[_Packet], record: list[_Packet]) -> Iterator[_Packet]:
    """Iterate over the packets that may be buffered, and record them."""
    size = 0
    while len(record) < _DECODER_DELAY and size < _BUFFERED_BYTES and (packet := next(packets, None)):
        record.append(packet)
        size += len(packet.data)
        yield packet


def _first_time(index: PacketIndex, packets: Iterator[_Packet]) -> tuple[int, int] | None:
    """Return the time and the number of the first frame that has a time; None if none is found."""
    decoder, fed, count = CpuDecoder(index), list[_Packet](), 0
    with contextlib.suppress(DecodeError):
        begun = dropwhile(lambda packet: not packet.key, packets)
        for packet in chain[_Packet | None](begun, [None]):
            if packet is None:
                results = decoder.flush()
            else:
                results = decoder.feed([FedPacket(len(fed), packet.data, packet.key, wanted=True)])
                fed.append(packet)
            for picture in (picture for result in results for picture in result.frames):
                if fed[picture.packet].shown and fed[picture.packet].known:
                    return fed[picture.packet].pts, count
                count += fed[picture.packet].shown
    return None


class _RecentPackets:
    """The last packets that were fed, from the second-last key packet."""

    def __init__(self) -> None:
        self._before: list[tuple[int, _Packet]] = []
        self._since: list[tuple[int, _Packet]] = []
        self._size = 0

    def __iter__(self) -> Iterator[tuple[int, _Packet]]:
        """Iterate over numbers and packets in decoding order."""
        return chain(self._before, self._since)

    def add(self, number: int, packet: _Packet) -> None:
        """Add the next packet; a run that exceeds the memory limit is dropped until the next key packet."""
        if packet.key:
            self._before, self._since = self._since, []
            self._size = sum(len(kept.data) for _, kept in self._before)
        self._size += len(packet.data)
        if self._size > _BUFFERED_BYTES:
            self._before, self._since = [], []
        else:
            self._since.append((number, packet))


class _PacketReader:
    """Converts demuxed packets, with timestamps on one continuous clock.

    Args:
        index: describes the stream.
        classified: whether all packets are parsed for their type; otherwise those up to the first key packet are, and
            the container's flags are used for the others.

    Attributes:
        count: number of packets so far.
        refreshes: whether the container marks a gradual refresh as a key packet.
    """

    def __init__(self, index: PacketIndex, *, classified: bool) -> None:
        info = index.info
        self._codec = info.codec
        self._classifier: Classifier | None = classifier(info.codec, index.extradata, from_start=True)
        self._timed: bool | None = None if stores_pts(info) else False
        self._tick = 1 / ((info.average_rate or info.real_rate or DEFAULT_RATE) * info.time_base)
        self.count, self._shift = 0, 0
        self.refreshes = False
        self._known, self._since = 0, 0
        self._classified = classified
        self._latest: list[int] = []
        self._last_key: int | None = None

    def packet(self, packet: av.Packet[Any]) -> _Packet:
        """Convert the next packet."""
        data, key, shown = bytes(packet), packet.is_keyframe, not packet.is_discard
        if self._timed is None and key:
            self._timed = packet.pts is not None or packet.dts is None
        step = frame_step(packet.duration or 0, self._tick)
        if self._timed:
            ticks = self._time(packet, step)
        else:
            ticks = round(self.count * self._tick) if packet.dts is None else packet.dts
        self.count += 1
        if self._classifier is not None:
            kind = read_kind(self._classifier.classify(data), memoryview(data), self._codec)
            self.refreshes |= key and kind.random_access is False
            key, shown = key and kind.random_access is not False, shown and kind.shown
            if key and not self._classified:
                self._classifier = None
        return _Packet(data, key, shown, ticks, bool(self._timed), packet.pts is not None, step)

    def _time(self, packet: av.Packet[Any], step: Fraction) -> int:
        """Return the packet's time, else one that counts on from the last packet that has one."""
        if packet.pts is None:
            self._since += 1
            return self._known + round(self._since * step)
        self._known, self._since = self._on_one_clock(packet.pts, key=packet.is_keyframe), 0
        return self._known

    def _on_one_clock(self, pts: int, *, key: bool) -> int:
        """Shift timestamps that restart, as in concatenated recordings, as :func:`one_clock` does."""
        pts += self._shift
        if key and self._last_key is not None and pts <= self._last_key and (last := self._latest[-1]) > pts:
            here = 2 * last - self._latest[0] if len(self._latest) > 1 else last + max(1, round(self._tick))
            self._shift += here - pts
            pts = here
        if key:
            self._last_key = pts
        self._latest = sorted([*self._latest, pts])[-2:]
        return pts


class _FrameNumbering:
    """Numbers the decoded frames and assigns their timestamps.

    Attributes:
        count: number of frames so far.
        anchor: time of the last frame whose packet has one, or of the first one to come, and its number.
        any_frame: whether the decoder has returned a frame.
        fed: number of the last packet that was fed; -1 at the end.
        refreshes: whether there is no key packet: frames that were fed before the first one came out may be incomplete.
    """

    def __init__(self, info: StreamInfo) -> None:
        self.count = 0
        self.anchor = 0, 0
        self.any_frame = self.refreshes = False
        self.fed = self._incomplete = -1
        self._info = info
        self._untimed: deque[int] = deque()
        self._reorders = bool(info.has_b_frames)
        # times of the packets without a frame so far, where the container's contradict the order of frames
        self._contradicted: list[int] | None = None

    def feed(self, packet: _Packet, number: int) -> None:
        """Record a packet that is fed to the decoder."""
        self.fed = number
        if packet.shown and not packet.timed:
            self._untimed.append(packet.pts)
        elif packet.shown and self._contradicted is not None:
            heapq.heappush(self._contradicted, packet.pts)

    def frames(self, result: DecodeResult, pending: dict[int, _Packet]) -> Iterator[StreamFrame]:
        """Iterate over the presented frames of a result; skip damaged frames before the first intact one."""
        if result.frames and not self.any_frame:
            self.any_frame, self._incomplete = True, self.fed if self.refreshes else -1
        for frame in result.frames:
            if self.count and self._info.codec == "av1" and min(pending, default=math.inf) < frame.packet:
                # each AV1 packet has one frame, in the order of the packets
                raise self.damaged("the decoder returned no frame")
            packet = pending.pop(frame.packet, None)
            if packet is None or not packet.shown or frame.packet <= self._incomplete:
                continue  # the second frame of a packet, or one outside the edit list
            if self._reorders and self._contradicted is None and packet.known and packet.timed:
                self._check_order(frame.packet, packet, pending)
            pts = self._time(packet)
            if frame.packet in result.damaged:
                if not self.count:
                    continue
                raise self.damaged("the decoder concealed an error in its frame")
            self.count += 1
            seconds = pts * self._info.time_base.numerator / self._info.time_base.denominator
            yield StreamFrame(self.count - 1, pts, seconds, packet.key, frame.surface)
        for number in [
            number for number in pending if number < min(result.decoded, default=0) - _DECODER_DELAY
        ]:
            del pending[number]  # not shown, or not decoded

    def _time(self, packet: _Packet) -> int:
        """Return the time of the next frame."""
        if not packet.timed:
            return self._untimed.popleft()
        if self._contradicted:
            self.anchor = heapq.heappop(self._contradicted), self.count
        elif packet.known:
            self.anchor = packet.pts, self.count
        pts, number = self.anchor
        return pts + round((self.count - number) * packet.step)

    def _check_order(self, number: int, packet: _Packet, pending: dict[int, _Packet]) -> None:
        """Sort the times from here on if an earlier packet with an earlier time yields a later frame.

        Such times were copied from a stream without pts, whose dts they are.
        """
        last = self.anchor[0] if self.count else packet.pts
        for before, other in pending.items():
            if before >= number:
                return
            if other.shown and other.known and last <= other.pts < packet.pts:
                waiting = (later.pts for later in pending.values() if later.shown and later.pts >= last)
                self._contradicted = sorted([packet.pts, *waiting])
                return

    def damaged(self, reason: str) -> DamagedSourceError:
        """Return the error for the next frame."""
        return DamagedSourceError(
            f"frame {self.count} cannot be decoded ({reason})",
            source=self._info.source,
            advice="Save the stream to a file, and leave lost frames out there",
            lost=(self.count,),
        )
