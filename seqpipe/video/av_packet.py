"""Packets and extradata for libavcodec with the zero padding that it expects after their bytes."""

from __future__ import annotations

from typing import Any, Final

import av
from av.codec.context import CodecContext

__all__ = ["av_packet", "set_extradata"]

_PADDING: Final = bytes(64)
"""AV_INPUT_BUFFER_PADDING_SIZE zeros."""


def av_packet(data: bytes) -> av.Packet[Any]:
    """Return a packet with a copy of the bytes, followed by the zeros that decoders may read beyond the end.

    ``Packet(data)`` would reference the bytes without padding, and a read beyond them may crash the process.
    """
    packet: av.Packet[Any] = av.Packet(len(data))
    packet.update(data)
    return packet


def set_extradata(context: CodecContext, data: bytes) -> None:
    """Set a decoder's extradata, if there is any, followed by zeros."""
    if data:
        # PyAV does not clear the padding; assigning shorter data keeps the zeros of the first assignment.
        context.extradata = data + _PADDING
        context.extradata = data
