"""Packets and headers for libavcodec in memory that it may read on from: behind their bytes it expects zeros."""

from __future__ import annotations

from typing import Any, Final

import av
from av.codec.context import CodecContext

__all__ = ["av_packet", "set_extradata"]

_PADDING: Final = bytes(64)
"""AV_INPUT_BUFFER_PADDING_SIZE of them."""


def av_packet(data: bytes) -> av.Packet[Any]:
    """A packet with a copy of some bytes, and behind them the zeros that decoders read beyond the end.

    ``Packet(data)`` would lend the bytes as they are: where nothing lies behind them, reading on ends the process.
    """
    packet: av.Packet[Any] = av.Packet(len(data))
    packet.update(data)
    return packet


def set_extradata(context: CodecContext, data: bytes) -> None:
    """Give a decoder the headers that a container has for all packets, if it has any."""
    if data:
        # PyAV leaves what was in that memory before behind them; made smaller, it keeps the zeros.
        context.extradata = data + _PADDING
        context.extradata = data
