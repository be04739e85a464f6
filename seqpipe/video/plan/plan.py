"""DecodePlan: which packets to feed, in which order, to obtain given frames. Pure arithmetic.

Nothing is fed that cannot matter: decoding starts at the nearest key frame that reaches the wanted frame, feeds every
reference frame up to the last one wanted, a non-reference frame only if it is wanted itself, and jumps to the next key
frame as soon as all that is wanted lies beyond it. A leading picture of an open GOP is predicted from the GOP before,
so wanting one starts a key frame earlier; starting at its own key frame, it is left out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from ...array import BoolArray, IntArray, distinct
from ..packet_index import PacketTable

__all__ = ["DecodePlan", "Segment", "awaited", "damaged_by", "make_plan", "reached_from", "undecodable"]


@dataclass(frozen=True, eq=False)
class Segment:
    """One uninterrupted run of a decoder.

    Attributes:
        packets: packet numbers to feed, ascending; the first is a key packet.
        wanted: packet numbers whose frames are wanted, ascending, a subset of ``packets``.
    """

    packets: IntArray
    wanted: IntArray


@dataclass(frozen=True, eq=False)
class DecodePlan:
    """The runs that deliver the wanted frames, in file order."""

    segments: tuple[Segment, ...]

    @property
    def cost(self) -> int:
        """Packets to decode."""
        return sum(len(segment.packets) for segment in self.segments)


def make_plan(
    table: PacketTable,
    wanted: IntArray,
    *,
    earlier: int = 0,
    damaged: Collection[int] = (),
    thorough: bool = False,
) -> DecodePlan:
    """The cheapest way to the frames of the given packets.

    Args:
        table: the packets of the stream.
        wanted: packet numbers of the wanted frames, in any order, repeats allowed.
        earlier: how many key frames before the nearest one to start, for streams whose key frames do not hold
            what they promise.
        damaged: packets that were found not to decode: they are not fed again, and nothing that is wanted needs them.
        thorough: leave nothing out, and begin anew at every key frame that a wanted frame can be reached from. For
            damaged streams: what they say of their packets may be wrong, and a decoder may keep what damage has left.

    Returns:
        Segments in file order; every wanted packet is in exactly one of them.
    """
    packets = distinct(wanted)
    if not packets.size:
        return DecodePlan(())
    starts = reached_from(table, packets, earlier)
    # A run is left where that saves feeding at least one reference frame on the way to the next start.
    first = int(starts[0])
    before = np.concatenate([[0], np.cumsum(table.reference[first : int(packets[-1])], dtype=np.int64)])
    saved = before[starts[1:] - first] - before[np.minimum(packets[:-1] + 1, starts[1:]) - first]
    apart = np.diff(starts) > 0 if thorough else saved > 0
    ends = [*(np.flatnonzero(apart) + 1).tolist(), packets.size]
    return DecodePlan(
        tuple(
            _segment(table, int(starts[begin]), packets[begin:end], damaged, thorough=thorough)
            for begin, end in zip([0, *ends], ends, strict=False)
        )
    )


def reached_from(table: PacketTable, packets: IntArray, earlier: int) -> IntArray:
    """The key packet from which each of some ascending packets is reached."""
    starts = table.gop[packets]
    back = (table.leads(packets) & ~table.self_contained[packets]).astype(np.int64) + earlier
    for _ in range(int(back.max())):
        step = (back > 0) & (starts > 0)
        starts = np.where(step, table.gop[np.maximum(starts - 1, 0)], starts)
        back -= 1
    # Where a later packet needs an earlier start, those before it are reached on the way.
    result: IntArray = np.minimum.accumulate(starts[::-1])[::-1]
    return result


def undecodable(table: PacketTable, segment: Segment) -> BoolArray:
    """Which packets of a segment are fed for their place among the others only: leading pictures of its key frame."""
    packets = segment.packets
    leading: BoolArray = table.leads(packets) & (table.gop[packets] == packets[0])
    if leading.any():
        leading &= ~np.isin(packets, segment.wanted)
    return leading


def awaited(table: PacketTable, segment: Segment) -> BoolArray:
    """Which packets of a segment others may be predicted from: what became of them has to be known."""
    packets = segment.packets
    found: BoolArray = table.reference[packets] & (table.packet_frame[packets] >= 0)
    return found & ~undecodable(table, segment)


def damaged_by(table: PacketTable, packet: int) -> IntArray:
    """The packets whose frames cannot be trusted once a packet did not decode.

    Of a non-reference frame, that is only itself. Of any other, all that follow it up to the next key packet, and the
    leading pictures of that one, which are predicted from before it. Of a leading picture of HEVC, the leading ones
    that follow: no others may be predicted from it, and where decoding starts at its key packet it is left out.
    """
    if not table.reference[packet]:
        return np.array([packet], dtype=np.int64)
    later_keys = np.flatnonzero(table.key[packet + 1 :])
    end = packet + 1 + int(later_keys[0]) if later_keys.size else len(table)
    if table.undecodable[packet] or table.self_contained[packet]:
        followers: IntArray = np.flatnonzero(table.leads(slice(packet, end))) + packet
        return np.union1d(followers, packet)
    end_leading = packet + 1 + int(later_keys[1]) if later_keys.size > 1 else len(table)
    leading = np.flatnonzero(table.leads(slice(end, end_leading))) + end
    return np.concatenate([np.arange(packet, end), leading])


def _segment(
    table: PacketTable, start: int, wanted: IntArray, damaged: Collection[int], *, thorough: bool
) -> Segment:
    last = int(wanted[-1])
    feed = table.reference[start : last + 1] | thorough
    # Leading reference pictures of H.264 are fed even though they cannot be decoded from here: leaving them out would
    # open a gap in frame_num, which the decoder fills with inventions. HEVC leaves its RASL pictures out by design.
    feed &= ~(table.undecodable[start : last + 1] & (table.gop[start : last + 1] == start))
    feed[[packet - start for packet in damaged if start < packet <= last]] = False
    feed[wanted - start] = True
    return Segment(np.flatnonzero(feed) + start, wanted)
