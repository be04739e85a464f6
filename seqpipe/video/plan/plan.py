"""Decode plans: which packets to feed, in which order, to obtain given frames.

A plan feeds no packet that cannot affect a wanted frame: it starts at the nearest key frame from which the wanted frame
can be decoded, feeds every reference frame up to the last wanted one, a non-reference frame only if it is wanted, and
skips to a later key frame where that saves reference frames. A leading picture of an open GOP is predicted from the GOP
before, so a plan for it starts one key frame earlier; where decoding starts at its own key frame, it is left out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from ...array import BoolArray, IntArray, distinct
from ..packet_index import PacketTable

__all__ = ["DecodePlan", "Segment", "damaged_by", "make_plan", "start_packets", "tracked", "undecodable"]


@dataclass(frozen=True, eq=False)
class Segment:
    """Packets that a decoder is fed from a key packet to a flush.

    Attributes:
        packets: packet numbers to feed, ascending; the first is a key packet.
        wanted: packet numbers whose frames are wanted, ascending, a subset of ``packets``.
    """

    packets: IntArray
    wanted: IntArray


@dataclass(frozen=True, eq=False)
class DecodePlan:
    """Segments that deliver the wanted frames, in file order."""

    segments: tuple[Segment, ...]

    @property
    def cost(self) -> int:
        """Number of packets to decode."""
        return sum(len(segment.packets) for segment in self.segments)


def make_plan(
    table: PacketTable,
    wanted: IntArray,
    *,
    earlier: int = 0,
    damaged: Collection[int] = (),
    thorough: bool = False,
) -> DecodePlan:
    """Return the plan that decodes the fewest packets for the frames of the given packets.

    Args:
        table: the packets of the stream.
        wanted: packet numbers of the wanted frames, in any order, repeats allowed.
        earlier: number of key frames before the nearest one to start at, for streams whose key frames are not true
            random access points.
        damaged: packets that failed to decode; they are not fed again, and no wanted frame depends on them.
        thorough: feed all packets, and start a segment at every key frame that wanted frames depend on. Used for
            damaged streams: their packet headers may be wrong, and a decoder may keep state left by damage.

    Returns:
        Segments in file order; each wanted packet is in exactly one of them.
    """
    packets = distinct(wanted)
    if not packets.size:
        return DecodePlan(())
    starts = start_packets(table, packets, earlier)
    # A segment ends where skipping to the next start saves at least one reference frame.
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


def start_packets(table: PacketTable, packets: IntArray, earlier: int) -> IntArray:
    """Return the key packet at which decoding starts for each of the given ascending packets."""
    starts = table.gop[packets]
    back = (table.leads(packets) & ~table.self_contained[packets]).astype(np.int64) + earlier
    for _ in range(int(back.max())):
        step = (back > 0) & (starts > 0)
        starts = np.where(step, table.gop[np.maximum(starts - 1, 0)], starts)
        back -= 1
    # Where a later packet needs an earlier start, the packets before it share that start.
    result: IntArray = np.minimum.accumulate(starts[::-1])[::-1]
    return result


def undecodable(table: PacketTable, segment: Segment) -> BoolArray:
    """Return a mask of the packets fed although they cannot be decoded: unwanted leading pictures of the key frame."""
    packets = segment.packets
    leading: BoolArray = table.leads(packets) & (table.gop[packets] == packets[0])
    if leading.any():
        leading &= ~np.isin(packets, segment.wanted)
    return leading


def tracked(table: PacketTable, segment: Segment) -> BoolArray:
    """Return a mask of the reference frames whose decode result must be known before frames are delivered."""
    packets = segment.packets
    references: BoolArray = table.reference[packets] & (table.packet_frame[packets] >= 0)
    return references & ~undecodable(table, segment)


def damaged_by(table: PacketTable, packet: int) -> IntArray:
    """Return the packets whose frames are invalid once a packet failed to decode.

    For a non-reference frame, that is only itself. For any other, all packets up to the next key packet, and the
    leading pictures of that one, which are predicted from before it. For a leading picture of HEVC, the leading
    pictures that follow: no other frames may be predicted from it, and a decode that starts at its key packet skips it.
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
    # open a gap in frame_num, which the decoder conceals with made-up frames. HEVC skips its RASL pictures by design.
    feed &= ~(table.undecodable[start : last + 1] & (table.gop[start : last + 1] == start))
    feed[[packet - start for packet in damaged if start < packet <= last]] = False
    feed[wanted - start] = True
    return Segment(np.flatnonzero(feed) + start, wanted)
