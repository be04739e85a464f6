"""Presentation order of streams whose container does not store it, by decoding them once when the index is built."""

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
class _DecodeOrder:
    """Presentation order found by decoding.

    Attributes:
        packets: packets in the order of their decoded frames; those that failed to decode, where they were fed.
        failed: packets that failed to decode.
        doubtful: packets whose order might differ if the failed ones had been decoded.
        began: packet that was fed when the first frame came out; -1 if all came out at the end.
    """

    packets: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    doubtful: list[int] = field(default_factory=list)
    began: int = -1

    def insert(self, missing: list[int], table: PacketTable) -> None:
        """Insert packets that yielded no frame because others had failed."""
        for packet in missing:
            before = max(other for other in self.packets if other < packet)
            position = self.packets.index(before)
            # Frames right after a key frame in decode order are presented before it.
            self.packets.insert(position if table.key[before] else position + 1, packet)
        self.doubtful += missing


def order_by_decoding(source: Source, index: PacketIndex) -> PacketIndex:
    """Return the index with presentation order found by decoding, and the sorted times of the packets as pts."""
    table = index.packets
    start = int(np.argmax(table.key))
    order = _decoded(source, index, np.arange(start, len(table)))
    shown = np.zeros(len(table), dtype=bool)
    shown[order.packets] = table.shown[order.packets]
    pts = table.pts.copy()
    pts[[packet for packet in order.packets if shown[packet]]] = np.sort(pts[shown])
    shown[:start] = table.shown[:start]
    # The order of frames around a packet that failed to decode is unknown: all of them are lost.
    damaged, reference = table.damaged.copy(), table.reference.copy()
    damaged[order.failed + order.doubtful] = reference[order.failed] = True
    return replace(index, packets=replace(table, pts=pts, shown=shown, damaged=damaged, reference=reference))


def drop_head(
    source: Source, index: PacketIndex, without_pts: Collection[int], *, refreshed: int = 0
) -> PacketIndex:
    """Remove frames at the start whose reference frames are not in the file.

    Args:
        source: the video.
        index: its index so far.
        without_pts: packets after the first key packet that have no pts; those that decode are ordered by decoding.
        refreshed: number of packets of a gradual refresh until frames are complete; 0 with key frames.
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
            # Whether frames inside the decoder at the end of a refresh come out depends on the packets fed later.
            lost[: order.began + 1] = table.shown[: order.began + 1]
        in_order = [packet for packet in decoded if packet in without_pts]
        pts[in_order] = np.sort(pts[in_order])
    if not lost.any() and not without_pts:
        return index
    # When libavcodec considers a refresh complete depends on every frame that it was fed until then.
    reference = table.reference | (np.arange(len(table)) < refreshed)
    packets = replace(table, pts=pts, shown=table.shown & ~lost, reference=reference)
    return replace(index, packets=packets, dropped_at_start=int(lost.sum()))


def _perhaps_leading(table: PacketTable, start: int, without_pts: Collection[int]) -> IntArray:
    """Return the frames after the first key packet that may be predicted from before it; decoding decides."""
    later_keys = np.flatnonzero(table.key[start + 1 :])
    end = start + 1 + int(later_keys[0]) if later_keys.size else len(table)
    perhaps = table.pts < table.pts[start]
    perhaps[list(without_pts)] = True
    # A remuxer that cut here may have moved the pts of B-frames to the key frame's, or later.
    behind = start + 1 + int(np.argmax(np.append(table.reference[start + 1 : end], True)))
    perhaps[start + 1 : behind] = True
    leading: IntArray = np.flatnonzero(perhaps[start:end] & table.shown[start:end]) + start
    return leading


def _decoded(source: Source, index: PacketIndex, packets: IntArray) -> _DecodeOrder:
    """Decode consecutive packets and return the order of their frames."""
    decoder, reader, table = CpuDecoder(index), open_packets(source, index), index.packets
    order = _DecodeOrder()
    inside: dict[int, None] = {}
    with contextlib.closing(reader):
        for number, data in zip(packets.tolist(), reader.read(packets), strict=True):
            if table.shown[number]:
                inside[number] = None
            try:
                results = decoder.feed([FedPacket(number, data, bool(table.key[number]), wanted=True)])
                out = [packet for result in results for packet in result.decoded]
                if out and order.began < 0:
                    order.began = number
            except DecodeError:
                # The damage is reported when the frame is requested; the others still come out in order.
                order.doubtful += inside
                order.failed.append(number)
                out = [number]
            order.packets += out
            for packet in out:
                inside.pop(packet, None)
        with contextlib.suppress(DecodeError):
            out = [packet for result in decoder.flush() for packet in result.decoded]
            order.packets += out
    order.packets = list(dict.fromkeys(order.packets))
    if order.failed:
        order.insert([packet for packet in inside if packet not in out and packet > order.failed[0]], table)
    return order
