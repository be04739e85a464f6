"""Packet readers: by file offset where packets are stored contiguously, else through the demuxer."""

from __future__ import annotations

import bisect
import contextlib
import zlib
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import av.error
import numpy as np
import numpy.typing as npt

from ...array import IntArray
from ...errors import SourceError
from ..convert.surface import AnySurface
from ..packet_index import PacketIndex
from ..probe.probe import Demuxer, unreadable, video_stream
from ..source.source import Source

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

__all__ = [
    "DecodeError",
    "DecodeResult",
    "DecodedFrame",
    "Decoders",
    "DemuxedPackets",
    "FedPacket",
    "OffsetPackets",
    "PacketDecoder",
    "PacketReader",
    "open_packets",
    "split_reads",
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
    return _ParameterSetPackets(direct, index) if index.set_ups else direct


class OffsetPackets:
    """Reader by file offset, without a demuxer; any number of them can share a source."""

    def __init__(self, source: Source, index: PacketIndex) -> None:
        self._source = source
        self._offsets = index.packets.offset
        self._sizes = index.packets.size

    def read(self, numbers: IntArray) -> Iterator[bytes]:
        """Yield the packets' bytes, read in parts of a few megabytes."""
        for part in split_reads(numbers, self._sizes[numbers]):
            ranges = list(zip(self._offsets[part].tolist(), self._sizes[part].tolist(), strict=True))
            for number, (_, size), data in zip(part.tolist(), ranges, self._source.read(ranges), strict=True):
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


def _packets(container: InputContainer, stream: VideoStream) -> Iterator[bytes]:
    for packet in container.demux(stream):
        if packet.size:
            yield bytes(packet)


def _chain(first: bytes, second: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield second
    yield from rest


def _changed(source: Source, number: int) -> SourceError:
    return SourceError(
        f"packet {number} differs from the file's index",
        source=source.name,
        advice="The file has changed since it was opened: open it again",
    )
