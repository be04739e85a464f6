"""Verification: a video is decoded once on the CPU, and damaged packets are marked in its index.

Some damage is detected only by a careful decoder: NVDEC conceals much of it silently. Frames that the index marks as
damaged are lost for every reader on every device, without being decoded.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np

from ...array import IntArray
from ..decode.packets import open_packets
from ..decode.pool import DecoderPool
from ..decode.run import Decoding, Lost
from ..packet_index import PacketIndex
from ..plan.plan import damaged_by
from ..source.parsing import parsing
from ..source.source import Source

__all__ = ["lost_frames", "verify"]


def verify(source: Source, index: PacketIndex) -> PacketIndex:
    """Return the index with all packets marked that the CPU decoder finds damaged.

    Args:
        source: the video.
        index: its index.

    Raises:
        SourceError: the source cannot be read.
        BackendError: there is no decoder for the codec.
    """
    table = index.packets
    damaged = table.damaged.copy()
    with parsing(source), contextlib.closing(open_packets(source, index)) as packets:
        decoding = Decoding(index, packets, DecoderPool(idle=1), np.arange(len(index)))
        lost = {item.number for item in decoding if isinstance(item, Lost)}
    damaged[list(decoding.damaged)] = True
    # Packets without a frame although no packet was reported as damaged.
    unexplained = lost - set(lost_frames(replace(index, packets=replace(table, damaged=damaged))).tolist())
    damaged[table.frame_packet[list(unexplained)]] = True
    return replace(index, packets=replace(table, damaged=damaged), verified=True)


def lost_frames(index: PacketIndex) -> IntArray:
    """Return the frames that depend on damaged packets, ascending."""
    table = index.packets
    packets = [damaged_by(table, packet) for packet in np.flatnonzero(table.damaged).tolist()]
    frames = table.packet_frame[np.concatenate(packets)] if packets else np.empty(0, dtype=np.int64)
    result: IntArray = np.unique(frames[frames >= 0])
    return result
