"""Packet readers, by file offset where packets are stored contiguously, else through the demuxer; and what they learn.

Containers do not store which packets are references for other frames, or store it wrongly: it is found in each packet's
first bytes. So an index built from a container's tables treats every packet as a reference at first. Before frames are
planned, the packets from their key packet on are read, most of which have to be read anyway, and their kinds are stored
in the index. The kinds depend on the file alone: threads that learn the same packets concurrently write the same
values.
"""

from __future__ import annotations

import bisect
import contextlib
import zlib
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import av.error
import numpy as np
import numpy.typing as npt

from ...array import BoolArray, IntArray, distinct
from ...errors import SourceError
from ..bitstream.kind import UNKNOWN, Leading, PacketKind, classifier, droppable, highest_temporal_layer
from ..convert.surface import AnySurface
from ..packet_index import PacketIndex, PacketTable
from ..plan import start_packets
from ..probe.probe import Demuxer, unreadable, video_stream
from ..source.source import Source

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

__all__ = [
    "ALPHA_SIZE_BYTES",
    "DecodeError",
    "DecodeResult",
    "DecodedFrame",
    "Decoders",
    "DemuxedPackets",
    "FedPacket",
    "HeldPackets",
    "IndexMismatchError",
    "OffsetPackets",
    "PacketDecoder",
    "PacketReader",
    "learn",
    "open_packets",
    "parts",
    "read_kind",
    "split_reads",
    "store_kinds",
    "suspect_packets",
]


class DecodeError(Exception):
    """A decoder refused a packet. Internal: users see the frames that depend on it as lost.

    Args:
        fact: the decoder's message.
        packet: the packet's number, if the decoder knows it.
    """

    def __init__(self, fact: str, *, packet: int | None = None) -> None:
        super().__init__(fact)
        self.packet = packet


class FedPacket(NamedTuple):
    """Packet for a decoder.

    Attributes:
        number: packet number, returned with its frame.
        data: bytes of the packet as stored in the container.
        key: whether decoding can start at it.
        wanted: whether its frame is wanted; a decoder may also return unwanted frames.
    """

    number: int
    data: bytes
    key: bool
    wanted: bool


class DecodedFrame(NamedTuple):
    """Frame returned by a decoder.

    Attributes:
        packet: number of its packet.
        surface: creates the surface for a given frame number; owns the frame's memory.
    """

    packet: int
    surface: Callable[[int], AnySurface]


class DecodeResult(NamedTuple):
    """Results of packets that were fed.

    Attributes:
        decoded: packets whose decoding has finished, damaged or not.
        damaged: those of them whose frames are incomplete or concealed.
        frames: decoded frames in presentation order.
    """

    decoded: Seq[int]
    damaged: Seq[int]
    frames: Seq[DecodedFrame]


class PacketDecoder(Protocol):
    """Decoder from packets to frames; belongs to one thread at a time.

    ``feed`` packets in decode order starting at a key packet, then ``flush``; after that the decoder takes the next
    run. Frame buffers are few: release the frames of a result before asking for the next one. A decoder that has raised
    or reported damage is not used again.
    """

    def feed(self, packets: Seq[FedPacket]) -> Iterator[DecodeResult]:
        """Decode packets, and yield results as they become available."""

    def flush(self) -> Iterator[DecodeResult]:
        """Yield the remaining results, and prepare the decoder for another run."""


class Decoders(Protocol):
    """Thread-safe pool of decoders.

    A decoder that has raised or reported damage, or that was abandoned in the middle of a run, is not given back but
    dropped. Nothing is called for it: Python loses a Ctrl-C that arrives while it runs the ``finally`` of an abandoned
    generator.
    """

    def take(self, index: PacketIndex, threads: int) -> PacketDecoder:
        """Return a decoder for the caller's exclusive use."""

    def give_back(self, index: PacketIndex, threads: int, decoder: PacketDecoder) -> None:
        """Keep a flushed decoder for the next run."""


# Bytes of one read: large enough for remote storage, where each request has a latency, and bounded for long requests.
_READ_BYTES = 4 << 20
# The demuxer skips up to this many packets by reading them; beyond, it seeks.
_MOST_SKIPPED = 64


class PacketReader(Protocol):
    """Reader of packets; belongs to one thread at a time."""

    def read(self, numbers: IntArray) -> Iterator[bytes]:
        """Yield the bytes of the packets with the given ascending numbers."""

    def close(self) -> None:
        """Close what the reader has opened."""


def open_packets(source: Source, index: PacketIndex) -> PacketReader:
    """Open the fastest reader for the packets of an indexed source."""
    direct = OffsetPackets(source, index) if index.by_offset else DemuxedPackets(source, index)
    if index.alpha is not None:
        return _AlphaPackets(direct, source, index.alpha)
    return _ParameterSetPackets(direct, index) if index.set_ups else direct


class OffsetPackets:
    """Reader by file offset, without a demuxer; any number of them can share a source."""

    def __init__(self, source: Source, index: PacketIndex) -> None:
        self._source = source
        self._offsets = index.packets.offset
        self._sizes = index.packets.size

    def read(self, numbers: IntArray) -> Iterator[bytes]:
        """Yield the packets' bytes, read in parts of a few megabytes."""
        for group in split_reads(numbers, self._sizes[numbers]):
            ranges = list(zip(self._offsets[group].tolist(), self._sizes[group].tolist(), strict=True))
            for number, (_, size), data in zip(
                group.tolist(), ranges, self._source.read(ranges), strict=True
            ):
                if len(data) != size:
                    raise _changed(self._source, number)
                yield data

    def close(self) -> None:
        """Do nothing: the source is shared."""


def split_reads(numbers: IntArray, sizes: npt.NDArray[Any]) -> list[IntArray]:
    """Split packets into parts that are read together."""
    before = np.cumsum(sizes, dtype=np.int64)
    if not len(numbers) or before[-1] < _READ_BYTES:
        return [numbers] if len(numbers) else []
    return np.split(numbers, np.flatnonzero(np.diff(before // _READ_BYTES)) + 1)


class DemuxedPackets:
    """Reader through the demuxer: seeks to key packets, and finds its position by the packets' checksums."""

    def __init__(self, source: Source, index: PacketIndex) -> None:
        self._source = source
        self._table = index.packets
        self._stream = index.info.stream
        self._demuxer: Demuxer | None = None
        self._next = 0
        self._demuxed: Iterator[bytes] = iter(())

    def read(self, numbers: IntArray) -> Iterator[bytes]:
        """Yield the packets' bytes; packets between them are demuxed and skipped."""
        for number in numbers.tolist():
            yield self._packet(number)

    def close(self) -> None:
        """Close the demuxer."""
        demuxer, self._demuxer, self._demuxed = self._demuxer, None, iter(())
        if demuxer is not None:
            demuxer.close()

    def _packet(self, number: int) -> bytes:
        """Return the bytes of a packet; after a mismatch it is tried once more from the start."""
        if self._demuxer is None or number < self._next or number > self._next + _MOST_SKIPPED:
            self._go_to(number)
        data = self._advance(number)
        if data is None:
            self._restart()
            data = self._advance(number)
        if data is None:
            raise _changed(self._source, number)
        return data

    def _advance(self, number: int) -> bytes | None:
        """Demux up to a packet; None if a packet differs from the index."""
        try:
            for data in self._demuxed:
                here = self._next
                self._next += 1
                if here >= len(self._table) or zlib.crc32(data) != self._table.checksum[here]:
                    return None
                if here == number:
                    return data
        except av.error.FFmpegError as error:
            # The index ends where the demuxer failed when it was built; reading beyond is a different error.
            if self._next < len(self._table):
                raise unreadable(self._source, error) from error
        return None

    def _go_to(self, number: int) -> None:
        """Seek to the key packet before a packet, or restart where seeking fails."""
        key = int(self._table.gop[number])
        if self._demuxer is not None and self._next <= number and key <= self._next:
            return
        if key == 0 or not self._seek(key):
            self._restart()

    def _seek(self, key: int) -> bool:
        """Seek to a key packet; False if the demuxer's position cannot be recognized."""
        container, stream = self._restart()
        with contextlib.suppress(av.error.FFmpegError):
            container.seek(int(self._table.pts[key]), stream=stream, backward=True)
            self._demuxed = _packets(container, stream)
            return self._recognize(key)
        return False

    def _recognize(self, key: int) -> bool:
        """Find the demuxer's position by the checksums of the next two packets."""
        first = next(self._demuxed, None)
        second = None if first is None else next(self._demuxed, None)
        if first is None or second is None:
            return False
        table = self._table.checksum
        here = np.flatnonzero((table[:-1] == zlib.crc32(first)) & (table[1:] == zlib.crc32(second)))
        if here.size != 1 or here[0] > key:
            return False
        rest = self._demuxed
        self._demuxed = _chain(first, second, rest)
        self._next = int(here[0])
        return True

    def _restart(self) -> tuple[InputContainer, VideoStream]:
        """Open the demuxer again."""
        self.close()
        demuxer = self._demuxer = Demuxer(self._source)
        stream = video_stream(self._source, demuxer.container, self._stream)
        self._demuxed, self._next = _packets(demuxer.container, stream), 0
        return demuxer.container, stream


class _ParameterSetPackets:
    """Reader that prepends the parameter sets in force to each key packet, so that decoding can start at any."""

    def __init__(self, direct: PacketReader, index: PacketIndex) -> None:
        self._direct = direct
        self._key = index.packets.key
        self._begins = [number for number, _ in index.set_ups]
        self._units = [units for _, units in index.set_ups]

    def read(self, numbers: IntArray) -> Iterator[bytes]:
        """Yield the packets' bytes."""
        for number, data in zip(numbers.tolist(), self._direct.read(numbers), strict=True):
            if self._key[number]:
                yield self._units[bisect.bisect_right(self._begins, number) - 1] + data
            else:
                yield data

    def close(self) -> None:
        """Close the underlying reader."""
        self._direct.close()


ALPHA_SIZE_BYTES: Final = 4
"""Bytes of the size of a packet's alpha, which precede it; the packet follows it."""


class _AlphaPackets:
    """Reader that prepends its alpha to each packet."""

    def __init__(self, direct: PacketReader, source: Source, alpha: tuple[IntArray, IntArray]) -> None:
        self._direct, self._source, self._alpha = direct, source, alpha

    def read(self, numbers: IntArray) -> Iterator[bytes]:
        """Yield the packets' bytes."""
        offsets, sizes = self._alpha
        packets = self._direct.read(numbers)
        for group in split_reads(numbers, sizes[numbers]):
            ranges = list(zip(offsets[group].tolist(), sizes[group].tolist(), strict=True))
            for (_, size), alpha in zip(ranges, self._source.read(ranges), strict=True):
                yield size.to_bytes(ALPHA_SIZE_BYTES, "big") + alpha + next(packets)

    def close(self) -> None:
        """Close the underlying reader."""
        self._direct.close()


def _packets(container: InputContainer, stream: VideoStream) -> Iterator[bytes]:
    for packet in container.demux(stream):
        if packet.size:
            yield bytes(packet)


def _chain(first: bytes, second: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield second
    yield from rest


def _changed(source: Source, number: int) -> SourceError:
    """Return the error for a packet that differs from the index."""
    return SourceError(
        f"packet {number} differs from the file's index",
        source=source.name,
        advice="The file has changed since it was opened: open it again",
    )


_FIRST_PART_PACKETS, _MOST_PART_PACKETS = 1024, 1 << 14
_FIRST_PART_BYTES = 16 << 20
_MOST_HELD_BYTES = 32 << 20


def read_kind(kind: PacketKind, data: bytes | memoryview, codec: str) -> PacketKind:
    """Return the kind of a packet; a damaged one that seems to hold no frame counts as a lost frame.

    Otherwise all later frames would be misnumbered. Packets of zeros come from faulty copies; and every temporal unit
    of AV1 shows a frame (AV1 specification, clause 7.5).
    """
    return UNKNOWN if not any(data) or (codec == "av1" and not kind.shown) else kind


def parts(table: PacketTable, wanted: IntArray) -> Iterator[IntArray]:
    """Split wanted packets, ascending, into parts that are learned, planned and decoded one after the other.

    They form a single part if all kinds are known. Otherwise a request for a whole file would first read all of it.
    """
    if table.whole or len(wanted) < 2:
        yield wanted
        return
    gop = table.gop[wanted]
    begin, most = 0, _FIRST_PART_PACKETS
    for at in (np.flatnonzero(np.diff(gop)) + 1).tolist():
        first, end = int(gop[begin]), int(wanted[at - 1]) + 1
        if (
            end - first >= most
            or int(table.size[first:end].sum()) >= _FIRST_PART_BYTES * most // _FIRST_PART_PACKETS
        ):
            yield wanted[begin:at]
            begin, most = (
                at,
                min(2 * most, _MOST_PART_PACKETS),
            )  # each part restarts the decoder: let them grow
    yield wanted[begin:]


class IndexMismatchError(SourceError):
    """A packet contradicts the container's tables.

    Args:
        index: the video's index.
        number: the packet's number.
    """

    def __init__(self, index: PacketIndex, number: int) -> None:
        super().__init__(
            f"packet {number} contradicts the container's tables",
            source=index.info.source,
            advice="Index the file once by reading all of it: seqpipe index FILE",
        )


class HeldPackets:
    """Packet reader that keeps the packets read to learn their kinds, so that they are read once.

    Args:
        direct: reads packets.
    """

    def __init__(self, direct: PacketReader) -> None:
        self._direct = direct
        self._buffered: dict[int, bytes] = {}
        self._available = _MOST_HELD_BYTES

    def hold(self, numbers: IntArray) -> Iterator[bytes]:
        """Yield packets, and keep them, up to a limit of bytes, until they are read again."""
        for number, data in zip(numbers.tolist(), self.read(numbers), strict=True):
            if self._available >= len(data):
                self._buffered[number] = data
                self._available -= len(data)
            yield data

    def read(self, numbers: IntArray) -> Iterator[bytes]:
        """Yield the bytes of the packets with the given ascending numbers."""
        buffered = self._buffered
        if not buffered:
            yield from self._direct.read(numbers)
            return
        missing = np.array([number for number in numbers.tolist() if number not in buffered], dtype=np.int64)
        others = self._direct.read(missing)
        for number in numbers.tolist():
            yield buffered[number] if number in buffered else next(others)

    def drop(self) -> None:
        """Drop the packets kept so far."""
        self._buffered, self._available = {}, _MOST_HELD_BYTES

    def close(self) -> None:
        """Drop the kept packets and close the underlying reader."""
        self.drop()
        self._direct.close()


def learn(index: PacketIndex, reader: HeldPackets, wanted: IntArray, *, earlier: int = 0) -> None:
    """Learn the kinds of the packets from which a plan for the wanted ones is made."""
    table = index.packets
    if table.whole or not len(wanted):
        return
    reader.drop()
    packets = distinct(wanted)
    known = table.known[table.gop[packets[0]] : packets[-1] + 1]
    if known.all() and not earlier and not table.leads(packets).any():
        return  # the plan needs no packet before the first one's key packet
    # Whether a leading picture can be decoded from its own key frame is known only once its kind was learned.
    for starts in (table.gop[packets], start_packets(table, packets, earlier)):
        for first, last in _spans(table, starts, packets):
            if not table.known[first : last + 1].all():
                _learn_run(index, reader, first, last)


def _spans(table: PacketTable, starts: IntArray, packets: IntArray) -> Iterator[tuple[int, int]]:
    """Yield for each GOP that is needed its key packet and the last packet needed of it."""
    until: dict[int, int] = {}
    for start, last in zip(starts.tolist(), packets.tolist(), strict=True):
        at = last
        while True:
            key = int(table.gop[at])
            until[key] = max(until.get(key, key), at)
            if key <= start:
                break
            at = key - 1
    yield from sorted(until.items())


def _learn_run(index: PacketIndex, reader: HeldPackets, first: int, last: int) -> None:
    """Read packets of a GOP, and store their kinds."""
    table, codec = index.packets, index.info.codec
    # Whether a VP9 packet is a reference depends on whether the next packet uses its context.
    behind = last + 1 < len(table) and not table.key[last + 1] and codec == "vp9"
    numbers = np.arange(first, last + (2 if behind else 1))
    classify = classifier(codec, index.extradata).classify
    kinds = [read_kind(classify(data), data, codec) for data in reader.hold(numbers)]
    for number, kind in zip(numbers.tolist(), kinds, strict=True):
        # Only a frame that the table has: undecodable packets at the start of a file are not counted as frames.
        hidden = table.shown[number] and not kind.shown
        if hidden or (table.key[number] and kind.random_access is False):
            raise IndexMismatchError(index, number)
    store_kinds(
        table,
        first,
        kinds[: last + 1 - first],
        droppable(kinds, highest_temporal_layer(codec, index.extradata)),
    )


def store_kinds(table: PacketTable, first: int, kinds: list[PacketKind], superfluous: list[bool]) -> None:
    """Write the kinds of consecutive packets to a table."""
    rows = slice(first, first + len(kinds))
    needed = ~np.array(superfluous[: len(kinds)], dtype=bool) | suspect_packets(kinds, table.key[rows])
    table.reference[rows] = needed | table.key[rows]
    table.undecodable[rows] = [kind.leading is Leading.RASL for kind in kinds]
    table.self_contained[rows] = [kind.leading is Leading.RADL for kind in kinds]
    table.known[rows] = True  # last: other threads may plan with the rows from here on


def suspect_packets(kinds: list[PacketKind], key: BoolArray) -> BoolArray:
    """Return a mask of the packets in GOPs that hold a packet which contradicts those before it.

    The headers of all packets of such a GOP may be wrong: each is treated as a reference, so that the decoded frames do
    not depend on which of them were requested.
    """
    contradicts = np.array([kind.contradicts for kind in kinds], dtype=bool)
    gop = np.cumsum(key)
    doubtful: BoolArray = np.isin(gop, gop[contradicts])
    return doubtful
