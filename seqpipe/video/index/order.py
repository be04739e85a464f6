"""Presentation order of streams whose container does not store it, by decoding them once when the index is built."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from ...array import BoolArray, IntArray
from ..decode.cpu import CpuDecoder
from ..decode.packets import DecodeError, FedPacket, open_packets
from ..packet_index import PacketIndex, PacketTable
from ..source.source import Source

__all__ = [
    "DEFAULT_RATE",
    "drop_head",
    "fill_missing",
    "finish",
    "frame_step",
    "one_clock",
    "order_by_decoding",
    "place",
]

_LAST_TICK = 1 << 62


def one_clock(pts: IntArray, key: BoolArray, known: BoolArray | None = None, *, step: int = 1) -> IntArray:
    """Shift times that restart, as where two recordings were joined, to continue the times before.

    A key packet restarts the clock if it is not later than the key packet before it, but earlier than another packet.
    """
    keys = np.flatnonzero(key if known is None else key & known)
    # Shifting a packet shifts all later ones, so that comparisons of later keys stay valid.
    suspects = keys[1:][pts[keys[1:]] <= pts[keys[:-1]]]
    begin, latest = 0, np.empty(0, dtype=np.int64)
    for restart in suspects.tolist():
        stretch = pts[begin:restart] if known is None else pts[begin:restart][known[begin:restart]]
        latest, begin = np.sort(np.concatenate([latest, stretch]))[-2:], restart
        last = int(latest[-1])
        if last <= pts[restart]:
            continue
        shift = last + (last - int(latest[0]) if len(latest) > 1 else step) - int(pts[restart])
        if abs(shift) + int(np.abs(pts[restart:]).max()) > _LAST_TICK:
            raise ValueError("its clock exceeds 64 bits")  # becomes an error of the source, see parsing()
        pts[restart:] += shift
    return pts


def frame_step(duration: int, tick: Fraction) -> Fraction:
    """Return the ticks from one frame to the next, for frames without times."""
    return tick if not duration or abs(tick - duration) <= 1 else Fraction(duration)


def fill_missing(pts: IntArray, known: BoolArray, step: Fraction) -> IntArray:
    """Return times counted on from the known time before each frame, and back from the first known one."""
    number = np.arange(len(pts))
    before = np.maximum.accumulate(np.where(known, number, -1))
    anchor = np.where(before < 0, int(np.argmax(known)), before)
    distance = (number - anchor).tolist()
    return np.array([time + round(n * step) for time, n in zip(pts[anchor].tolist(), distance, strict=True)])


DEFAULT_RATE = Fraction(25)
"""Frames per second where the stream has no frame rate."""


def finish(index: PacketIndex, duration: int) -> PacketIndex:
    """Return the index with frame count, start, end and reordering computed from its packets."""
    frames = index.packets.frame_packet
    times = index.timestamps
    if not frames.size:
        return replace(index, info=replace(index.info, frame_count=0, has_b_frames=False))
    last = duration * float(index.info.time_base)
    if last <= 0:
        last = (
            float(times[-1] - times[-2])
            if len(times) > 1
            else float(1 / (index.info.average_rate or DEFAULT_RATE))
        )
    info = replace(
        index.info,
        frame_count=len(frames),
        has_b_frames=bool((np.diff(frames) < 0).any()),
        start_s=float(times[0]),
        duration_s=float(times[-1]) + last - float(times[0]),
    )
    return replace(index, info=info, end_s=float(times[-1]) + last)


@dataclass
class _DecodeOrder:
    """Presentation order found by decoding.

    Attributes:
        packets: packets in the order of their decoded frames; those that failed to decode, where they were fed.
        failed: packets that failed to decode.
        doubtful: packets whose order might differ if the failed ones had been decoded.
        began: packet that was fed when the first frame came out; -1 if all came out at the end.
        any_frame: whether any frame came out.
    """

    packets: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    doubtful: list[int] = field(default_factory=list)
    began: int = -1
    any_frame: bool = False

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
    table = _marked(replace(table, pts=pts, shown=shown), order)
    if len(_tied(table)):
        rank = np.arange(len(table), dtype=np.int32)
        rank[start:] = _ranks(order, start, len(table))
        table = replace(table, rank=rank)
    return replace(index, packets=table)


def place(
    source: Source,
    index: PacketIndex,
    missing: BoolArray,
    step: Fraction,
    *,
    reorders: bool,
    suspect: Collection[int] = (),
) -> PacketIndex:
    """Return the index with times for frames without pts, and frames of equal pts in the order of their decoding.

    The groups of pictures with equal pts are decoded, and with them the first one with ``suspect`` packets: if their
    times contradict the order of their frames, decoding decides the order of all.
    """
    table = index.packets
    rank, decoded = np.arange(len(table)), np.zeros(len(table), dtype=bool)
    reorders = reorders and not table.key.all()
    if missing.any():
        span = _around(table, missing)
        if reorders:
            order = _decoded(source, index, np.arange(*span))
            rank[slice(*span)], decoded[slice(*span)] = _ranks(order, *span), True
            table = _marked(table, order)
        packets = span[0] + np.argsort(rank[slice(*span)])
        packets = packets[table.shown[packets]]
        pts = table.pts.copy()
        pts[packets] = fill_missing(pts[packets], ~missing[packets], step)
        table = replace(table, pts=pts)
    if not reorders:
        return replace(index, packets=table)
    tied = _tied(table)
    doubtful = tied[~decoded[tied].all(axis=1)]
    if len(tied) and (first := [packet for packet in suspect if not decoded[packet]][:1]):
        doubtful = np.concatenate([doubtful, [[first[0], first[0]]]])
    for begin, end in _spans(table, doubtful):
        order = _decoded(source, index, np.arange(begin, end))
        shown = [packet for packet in order.packets if table.shown[packet]]
        if (np.diff(table.pts[shown]) < 0).any():  # times that contradict the order of frames decide nothing
            return order_by_decoding(source, replace(index, packets=table))
        rank[begin:end] = _ranks(order, begin, end)
    return replace(index, packets=replace(table, rank=rank.astype(np.int32)) if len(tied) else table)


def _around(table: PacketTable, missing: BoolArray) -> tuple[int, int]:
    """Return the begin and end of the packets that are decoded for the places of those without pts.

    They end with the key packet after the last one, so that frames with pts are among them.
    """
    keys = np.flatnonzero(table.key)
    later = keys[keys > int(np.flatnonzero(missing)[-1])]
    end = int(later[0]) + 1 if later.size else len(table)
    known = np.flatnonzero(table.shown & ~missing)
    return int(table.gop[min(int(np.argmax(missing)), int(known[0]))]), max(end, int(known[0]) + 1)


def _tied(table: PacketTable) -> IntArray:
    """Return pairs of frames with equal pts; rows of a lower and a higher packet number."""
    packets, pts = table.frame_packet, table.pts[table.frame_packet]
    equal = np.flatnonzero(pts[1:] == pts[:-1])
    return np.stack([packets[equal], packets[equal + 1]], axis=1)


def _spans(table: PacketTable, tied: IntArray) -> list[tuple[int, int]]:
    """Return the begins and ends of the packets to decode for the order of tied ones: whole groups of pictures.

    A muxer that moved times to make them ascend has moved those behind equal ones as well.
    """
    spans: list[tuple[int, int]] = []
    keys = np.append(np.flatnonzero(table.key), len(table))
    for first, last in tied[np.argsort(tied[:, 0], kind="stable")].tolist():
        begin = int(table.gop[first])
        # A leading picture may be predicted from before its key frame; the times do not tell whether this is one.
        if any(table.gop[p] == begin != p and table.pts[p] <= table.pts[begin] for p in (first, last)):
            begin = int(table.gop[max(0, begin - 1)])
        end = int(keys[np.searchsorted(keys, last, side="right")])
        if spans and begin < spans[-1][1]:
            spans[-1] = min(begin, spans[-1][0]), max(end, spans[-1][1])
        else:
            spans.append((begin, end))
    return spans


def _ranks(order: _DecodeOrder, begin: int, end: int) -> IntArray:
    """Return the rank of each packet from ``begin`` to ``end`` among them; one without a frame follows the last one."""
    position = np.full(end - begin, -1)
    position[np.array(order.packets, dtype=np.int64) - begin] = np.arange(len(order.packets))
    before = np.maximum.accumulate(np.where(position >= 0, np.arange(len(position)), 0))
    rank = np.empty(len(position), dtype=np.int64)
    rank[np.argsort(position[before], kind="stable")] = np.arange(begin, end)
    return rank


def _marked(table: PacketTable, order: _DecodeOrder) -> PacketTable:
    """Return the table with the frames around a packet that failed to decode as damaged: their order is unknown."""
    damaged, reference = table.damaged.copy(), table.reference.copy()
    damaged[order.failed + order.doubtful] = reference[order.failed] = True
    return replace(table, damaged=damaged, reference=reference)


def drop_head(
    source: Source, index: PacketIndex, without_pts: Collection[int], *, refreshed: int = 0
) -> PacketIndex:
    """Remove frames at the start whose reference frames are not in the file."""
    table = index.packets
    start = int(np.argmax(table.key))
    lost: BoolArray = np.zeros(len(table), dtype=bool)
    lost[:start] = table.shown[:start]
    leading = _perhaps_leading(table, start, without_pts)
    leading = np.union1d(leading, np.flatnonzero(table.shown[:refreshed]))
    if leading.size:
        order = _decoded(source, index, np.arange(start, int(leading[-1]) + 1))
        lost[np.setdiff1d(leading, order.packets)] = True
        if refreshed:
            # Whether frames inside the decoder at the end of a refresh come out depends on the packets fed later.
            begun = order.began + 1 if order.any_frame else refreshed
            lost[:begun] = table.shown[:begun]
    if not lost.any():
        return index
    # When libavcodec considers a refresh complete depends on every frame that it was fed until then.
    reference = table.reference | (np.arange(len(table)) < refreshed)
    packets = replace(table, shown=table.shown & ~lost, reference=reference)
    return replace(index, packets=packets, dropped_at_start=int(lost.sum()))


def _perhaps_leading(table: PacketTable, start: int, without_pts: Collection[int]) -> IntArray:
    """Return the frames after the first key packet that may be predicted from before it; decoding decides."""
    later_keys = np.flatnonzero(table.key[start + 1 :])
    end = start + 1 + int(later_keys[0]) if later_keys.size else len(table)
    perhaps = table.pts <= table.pts[start]
    perhaps[start] = False
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
                    order.began, order.any_frame = number, True
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
            order.any_frame |= bool(out)
    order.packets = list(dict.fromkeys(order.packets))
    if order.failed:
        order.insert([packet for packet in inside if packet not in out and packet > order.failed[0]], table)
    return order
