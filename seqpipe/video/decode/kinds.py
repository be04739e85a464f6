"""Packet types, learned when runs are read: which packets are references for other frames.

Containers do not tell that, or tell it wrongly: what a packet is stands in its own first bytes. So an index that comes
from a container's tables knows nothing of it at first, and takes every packet for a reference. Before a run is planned,
its packets are read from its key packet on, which they would be anyway but for those that turn out to be superfluous,
and what they say is noted in the index. That depends on the file alone, never on who asked first: threads that learn
the same at once write the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...array import BoolArray, IntArray, distinct
from ...errors import SourceError
from ..bitstream import UNKNOWN, Leading, PacketKind, classifier, droppable, highest_temporal_layer
from ..packet_index import PacketIndex, PacketTable
from ..plan.plan import reached_from
from .packets import PacketReader

__all__ = ["HeldPackets", "RefutedError", "in_doubt", "learn", "note_kinds", "parts", "read_kind"]

_PACKETS_AT_ONCE, _MOST_PACKETS_AT_ONCE = 1024, 1 << 14
_BYTES_AT_ONCE = 16 << 20
_MOST_HELD = 32 << 20


def read_kind(kind: PacketKind, data: bytes | memoryview, codec: str) -> PacketKind:
    """What a packet is; a damaged one that seems to hold no picture is a lost frame, not none.

    Otherwise all later frames would be misnumbered. Blanked packets come from bad copies; and every temporal unit of
    AV1 shows a picture (AV1 specification, clause 7.5).
    """
    return UNKNOWN if not any(data) or (codec == "av1" and not kind.shown) else kind


def parts(table: PacketTable, wanted: IntArray) -> Iterator[IntArray]:
    """Wanted packets, ascending, in parts that are learned, planned and decoded one after the other.

    All of them at once where everything is known. Else a stream of a whole film would be read through first.
    """
    if table.whole or len(wanted) < 2:
        yield wanted
        return
    gop = table.gop[wanted]
    begin, most = 0, _PACKETS_AT_ONCE
    for at in (np.flatnonzero(np.diff(gop)) + 1).tolist():
        first, end = int(gop[begin]), int(wanted[at - 1]) + 1
        if (
            end - first >= most
            or int(table.size[first:end].sum()) >= _BYTES_AT_ONCE * most // _PACKETS_AT_ONCE
        ):
            yield wanted[begin:at]
            begin, most = at, min(2 * most, _MOST_PACKETS_AT_ONCE)  # decoding begins anew with each part
    yield wanted[begin:]


class RefutedError(SourceError):
    """A packet is not what the container's tables say of it.

    Args:
        index: the video's index.
        number: of the packet.
    """

    def __init__(self, index: PacketIndex, number: int) -> None:
        super().__init__(
            f"packet {number} is not what the container's tables say of it",
            source=index.info.source,
            advice="Index it once by reading it through: seqpipe index FILE",
        )


class HeldPackets:
    """Hands on packets that were read to learn of them, and reads the others.

    Args:
        plain: reads packets.
    """

    def __init__(self, plain: PacketReader) -> None:
        self._plain = plain
        self._held: dict[int, bytes] = {}
        self._room = _MOST_HELD

    def hold(self, numbers: IntArray) -> Iterator[bytes]:
        """Read packets, and keep as many as there is room for until they are read once more."""
        for number, data in zip(numbers.tolist(), self.read(numbers), strict=True):
            if self._room >= len(data):
                self._held[number] = data
                self._room -= len(data)
            yield data

    def read(self, numbers: IntArray) -> Iterator[bytes]:
        """The bytes of the packets with the given ascending numbers.

        Raises:
            SourceError: the source cannot be read, or is not what was indexed.
        """
        held = self._held
        if not held:
            yield from self._plain.read(numbers)
            return
        missing = np.array([number for number in numbers.tolist() if number not in held], dtype=np.int64)
        others = self._plain.read(missing)
        for number in numbers.tolist():
            yield held[number] if number in held else next(others)

    def forget(self) -> None:
        """Keep nothing of what was read so far."""
        self._held, self._room = {}, _MOST_HELD

    def close(self) -> None:
        """Give back what is held open."""
        self.forget()
        self._plain.close()


def learn(index: PacketIndex, reader: HeldPackets, wanted: IntArray, *, earlier: int = 0) -> None:
    """Find out of which kind the packets are that lie on the way to wanted ones.

    Args:
        index: its packets' table is added to.
        reader: where packets come from; what is read is held there.
        wanted: packet numbers.
        earlier: see :func:`seqpipe.video.plan.plan.make_plan`.

    Raises:
        RefutedError: a packet is not what the container's tables say of it.
        SourceError: the source cannot be read.
    """
    table = index.packets
    if table.whole or not len(wanted):
        return
    reader.forget()
    packets = distinct(wanted)
    on_the_way = table.known[table.gop[packets[0]] : packets[-1] + 1]
    if on_the_way.all() and not earlier and not table.leads(packets).any():
        return  # nothing before the first one's key packet is needed
    # Whether a leading picture can be decoded from its own key frame is known only once it was looked at.
    for starts in (table.gop[packets], reached_from(table, packets, earlier)):
        for first, last in _spans(table, starts, packets):
            if not table.known[first : last + 1].all():
                _learn_run(index, reader, first, last)


def _spans(table: PacketTable, starts: IntArray, packets: IntArray) -> Iterator[tuple[int, int]]:
    """From a key packet to the last one that is needed before the next key packet, for all that is on the way."""
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
    # what a packet of VP9 leaves behind matters if the next one takes it up
    behind = last + 1 < len(table) and not table.key[last + 1] and codec == "vp9"
    numbers = np.arange(first, last + (2 if behind else 1))
    classify = classifier(codec, index.extradata).classify
    kinds = [read_kind(classify(data), data, codec) for data in reader.hold(numbers)]
    for number, kind in zip(numbers.tolist(), kinds, strict=True):
        hidden = (
            table.shown[number] and not kind.shown
        )  # those that cannot be decoded at the file's head are no frames
        if hidden or (table.key[number] and kind.random_access is False):
            raise RefutedError(index, number)
    note_kinds(
        table,
        first,
        kinds[: last + 1 - first],
        droppable(kinds, highest_temporal_layer(codec, index.extradata)),
    )


def note_kinds(table: PacketTable, first: int, kinds: list[PacketKind], superfluous: list[bool]) -> None:
    """Put into a table what some packets in a row are."""
    some = slice(first, first + len(kinds))
    needed = ~np.array(superfluous[: len(kinds)], dtype=bool) | in_doubt(kinds, table.key[some])
    table.reference[some] = needed | table.key[some]
    table.undecodable[some] = [kind.leading is Leading.RASL for kind in kinds]
    table.self_contained[some] = [kind.leading is Leading.RADL for kind in kinds]
    table.known[some] = True  # last: another thread may plan by it at once


def in_doubt(kinds: list[PacketKind], key: BoolArray) -> BoolArray:
    """Which packets in a row lie between the same two key packets as one that contradicts those before it.

    What such packets say of themselves may be as wrong: each is taken for a reference, so that what is decoded does not
    depend on which of them were asked for.
    """
    contradicts = np.array([kind.contradicts for kind in kinds], dtype=bool)
    gop = np.cumsum(key)
    found: BoolArray = np.isin(gop, gop[contradicts])
    return found
