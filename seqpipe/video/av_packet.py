"""Packets of PyAV in memory that libavcodec may read on from."""

from __future__ import annotations

from typing import Any

import av

__all__ = ["av_packet"]


def av_packet(data: bytes) -> av.Packet[Any]:
    """A packet with a copy of some bytes, and behind them the zeros that decoders read beyond the end.

    ``Packet(data)`` would lend the bytes as they are: where nothing lies behind them, reading on ends the process.
    """
    packet: av.Packet[Any] = av.Packet(len(data))
    packet.update(data)
    return packet
