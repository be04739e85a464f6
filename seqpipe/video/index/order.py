"""Presentation order where the container does not tell it: by decoding, once, when the index is built."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np

from ...array import BoolArray, IntArray
from ..decode.cpu import CpuDecoder
from ..decode.packet_decoder import DecodeError, FedPacket
from ..decode.packets import open_packets
from ..packet_index import PacketIndex, PacketTable
from ..source.source import Source

__all__ = ["drop_head", "order_by_decoding"]


@dataclass
class _Order:
    """What decoding tells of the presentation order.

    Attributes:
        packets: in the order in which their pictures come; those that do not decode stand where they are fed.
        failed: those that do not decode.
        doubtful: those whose pictures might have come sooner or later if the failed ones had decoded.
        began: the one that was fed when the first picture came; -1 if all waited for the end.
    """

    packets: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    doubtful: list[int] = field(default_factory=list)
    began: int = -1

    def insert(self, swallowed: list[int], table: PacketTable) -> None:
        """Give packets a place whose pictures did not come because others had failed."""
        for packet in swallowed:
            before = max(other for other in self.packets if other < packet)
            place = self.packets.index(before)
            # What follows a key picture at once is presented before it.
            self.packets.insert(place if table.key[before] else place + 1, packet)
        self.doubtful += swallowed


def order_by_decoding(source: Source, index: PacketIndex) -> PacketIndex:
    """Give pictures without pts their place, and the ticks of the packets, sorted, as their clock."""
    table = index.packets
    start = int(np.argmax(table.key))
    order = _decoded(source, index, np.arange(start, len(table)))
    shown = np.zeros(len(table), dtype=bool)
    shown[order.packets] = table.shown[order.packets]
    pts = table.pts.copy()
    pts[[packet for packet in order.packets if shown[packet]]] = np.sort(pts[shown])
    shown[:start] = table.shown[:start]
    # Where a packet did not decode, no one knows which place its frame had among those around it: all are lost.
    damaged, reference = table.damaged.copy(), table.reference.copy()
    damaged[order.failed + order.doubtful] = reference[order.failed] = True
    return replace(index, packets=replace(table, pts=pts, shown=shown, damaged=damaged, reference=reference))


def drop_head(
    source: Source, index: PacketIndex, without_pts: Collection[int], *, refreshed: int = 0
) -> PacketIndex:
    """Take out the frames for which the file does not hold what they are predicted from.

    Args:
        source: the video.
        index: its index so far.
        without_pts: packets behind the first key packet that have no pts; those that decode are put in order.
        refreshed: how many packets it may take until pictures are whole where the first one is not.
    """
    table = index.packets
    start = int(np.argmax(table.key))
    lost: BoolArray = np.zeros(len(table), dtype=bool)
    lost[:start] = table.shown[:start]
    leading = _perhaps_leading(table, start, without_pts)
    leading = np.union1d(leading, np.flatnonzero(table.shown[:refreshed]))
    pts = table.pts.copy()
    if leading.size:
        order = _decoded(source, index, np.arange(start, int(leading[-1]) + 1))
        decoded = order.packets
        lost[np.setdiff1d(leading, decoded)] = True
        if refreshed:
            # What is inside when a refresh has been seen to end comes or not as more is fed behind it.
            lost[: order.began + 1] = table.shown[: order.began + 1]
        in_order = [packet for packet in decoded if packet in without_pts]
        pts[in_order] = np.sort(pts[in_order])
    if not lost.any() and not without_pts:
        return index
    # How soon libavcodec calls a refresh complete depends on every picture that it is given until then.
    reference = table.reference | (np.arange(len(table)) < refreshed)
    packets = replace(table, pts=pts, shown=table.shown & ~lost, reference=reference)
    return replace(index, packets=packets, dropped_at_start=int(lost.sum()))


def _perhaps_leading(table: PacketTable, start: int, without_pts: Collection[int]) -> IntArray:
    """The pictures behind the first key packet that may be predicted from before it; decoding will tell."""
    later_keys = np.flatnonzero(table.key[start + 1 :])
    end = start + 1 + int(later_keys[0]) if later_keys.size else len(table)
    perhaps = table.pts < table.pts[start]
    perhaps[list(without_pts)] = True
    # A remuxer that cut here may have moved the pts of B-frames up to the key frame's, or behind it.
    behind = start + 1 + int(np.argmax(np.append(table.reference[start + 1 : end], True)))
    perhaps[start + 1 : behind] = True
    found: IntArray = np.flatnonzero(perhaps[start:end] & table.shown[start:end]) + start
    return found


def _decoded(source: Source, index: PacketIndex, packets: IntArray) -> _Order:
    """Decode packets in a row, and see in which order their pictures come."""
    decoder, reader, table = CpuDecoder(index), open_packets(source, index), index.packets
    found = _Order()
    inside: dict[int, None] = {}
    with contextlib.closing(reader):
        for number, data in zip(packets.tolist(), reader.read(packets), strict=True):
            if table.shown[number]:
                inside[number] = None
            try:
                fed = decoder.feed([FedPacket(number, data, bool(table.key[number]), wanted=True)])
                out = [packet for result in fed for packet in result.decoded]
                if out and found.began < 0:
                    found.began = number
            except DecodeError:
                # Damage is reported when the frame is asked for; the rest still comes in its order.
                found.doubtful += inside
                found.failed.append(number)
                out = [number]
            found.packets += out
            for packet in out:
                inside.pop(packet, None)
        with contextlib.suppress(DecodeError):
            out = [packet for result in decoder.flush() for packet in result.decoded]
            found.packets += out
    found.packets = list(dict.fromkeys(found.packets))
    if found.failed:
        found.insert([packet for packet in inside if packet not in out and packet > found.failed[0]], table)
    return found
