"""Packet kinds learned while packets are read: which packets are references for other frames.

Containers do not store that, or store it wrongly: it is found in each packet's first bytes. So an index built from a
container's tables treats every packet as a reference at first. Before frames are planned, the packets from their key
packet on are read, most of which have to be read anyway, and their kinds are stored in the index. The kinds depend on
the file alone: threads that learn the same packets concurrently write the same values.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...array import BoolArray, IntArray, distinct
from ...errors import SourceError
from ..bitstream.kind import UNKNOWN, Leading, PacketKind, droppable
from ..bitstream.select import classifier, highest_temporal_layer
from ..packet_index import PacketIndex, PacketTable
from ..plan import start_packets
from .packets import PacketReader

__all__ = [
    "HeldPackets",
    "IndexMismatchError",
    "learn",
    "parts",
    "read_kind",
    "store_kinds",
    "suspect_packets",
]

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
