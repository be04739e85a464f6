"""Conditional replenishment: codecs that update the changed parts of the previous frame.

Containers often mark key frames of these codecs wrongly: a QuickTime file without a table of key frames marks all
packets, and "key frames" of FFmpeg's encoders of rpza and smc depend on the previous frame or its colors. So each
packet is parsed up to the first part that it leaves unchanged: key frames are the first packet, and each packet that
the container marks and that codes all pixels.

A training feed of random clips of 8 frames from 300 frames of 320×240, all of them key frames, decodes 327 frames/s of
QuickTime Animation and 901 of Cinepak that way; 139 and 272 from the first packet on. The flags of Microsoft RLE and
Video 1 in AVI files find the same key frames, so packets of these are not parsed.

Sources: libavcodec's decoders of these codecs, which are their only specifications; multimedia.cx's wiki.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from .kind import PacketKind, packet_kind

__all__ = ["READ_THROUGH", "REPLENISHED", "UNREAD", "Coded", "ReplenishedClassifier"]


class Coded(NamedTuple):
    """Frame properties on which a packet's syntax depends.

    Attributes:
        width: coded width in pixels.
        height: coded height in pixels.
        bits: bits per pixel stated by the container.
    """

    width: int
    height: int
    bits: int


class ReplenishedClassifier:
    """Finds the packets of a stream at which decoding can start: the first one, and those that code all pixels.

    Args:
        codec: FFmpeg's name of the codec, one of :data:`READ_THROUGH`.
        coded: properties of its frames.
    """

    def __init__(self, codec: str, coded: Coded) -> None:
        self._draws_all, self._coded = READ_THROUGH[codec], coded
        self._first = True

    def classify(self, packet: bytes | memoryview) -> PacketKind:
        """Return whether decoding can start at a packet; a truncated packet does not code all pixels."""
        first, self._first = self._first, False
        try:
            whole = first or self._draws_all(bytes(packet), self._coded)
        except IndexError:
            whole = False
        return packet_kind(True, random_access=whole)


def _never(data: bytes, coded: Coded) -> bool:  # noqa: ARG001
    """Apple Video and Graphics: FFmpeg's encoders flag packets that depend on others, by blocks or color tables."""
    return False


_QTRLE_UNITS: Final = {2: (16, 4), 4: (8, 4), 8: (4, 4), 16: (1, 2), 24: (1, 3), 32: (1, 4)}
"""By bits per pixel: number of pixels that are coded together, and their number of bytes."""


def _qtrle(data: bytes, coded: Coded) -> bool:
    """QuickTime Animation: runs within lines, some of which are skipped."""
    pixels, size = _QTRLE_UNITS.get(coded.bits & 31 or 32, (0, 0))
    if not pixels or len(data) < 8:
        return False
    at, lines = 6, coded.height
    if data[5] & 8:
        if int.from_bytes(data[6:8], "big") or int.from_bytes(data[10:12], "big") < lines:
            return False
        at = 14
    for _ in range(lines):
        drawn, at = 0, at + 1
        if data[at - 1] != 1:
            return False
        while (code := data[at]) != 0xFF:
            if not code:
                return False
            run = 256 - code if code >= 0x80 else code
            at += 1 + size * (1 if code >= 0x80 else run)
            drawn += run * pixels
        if drawn < coded.width:
            return False
        at += 1
    return at <= len(data)


def _cinepak(data: bytes, coded: Coded) -> bool:  # noqa: ARG001  the strips say how high they are
    """Cinepak: strips of vectors, from tables that may be those of the previous strip or frame."""
    at, inherits = 10, not data[0] & 1
    have: set[int] = set()
    for strip in range(int.from_bytes(data[8:10], "big")):
        end = at + int.from_bytes(data[at + 2 : at + 4], "big")
        if strip == 0 or not inherits:
            have = set()
        at += 12
        if end <= at:
            return False
        while at < end:
            code, size = data[at], int.from_bytes(data[at + 2 : at + 4], "big")
            if code in (0x20, 0x22, 0x24, 0x26):
                have.add(code & 2)
            elif code == 0x31 or (code in (0x30, 0x32) and not have >= ({2} if code == 0x32 else {0, 2})):
                return False
            at += max(size, 4)
    return True


def _flashsv(data: bytes, coded: Coded) -> bool:  # noqa: ARG001  the packet says how large it is
    """Screen video: blocks, each with its size; those of size 0 are unchanged."""
    across, down = ((data[i] >> 4) + 1 << 4 for i in (0, 2))
    width, height = (int.from_bytes(data[i : i + 2], "big") & 0xFFF for i in (0, 2))
    at = 4
    for _ in range(-(-width // across) * -(-height // down)):
        size = data[at] << 8 | data[at + 1]
        if not size:
            return False
        at += 2 + size
    return at <= len(data)


def _zmbv(data: bytes, coded: Coded) -> bool:  # noqa: ARG001
    """Zip Motion Blocks: a flag in the first byte."""
    return bool(data[0] & 1)


def _svq1(data: bytes, coded: Coded) -> bool:  # noqa: ARG001
    """Sorenson Video 1: the frame type, after its start code and number."""
    return not data[3] & 3


def _flv1(data: bytes, coded: Coded) -> bool:  # noqa: ARG001
    """Sorenson H.263: the frame type, after its start code, number and size."""
    bits = int.from_bytes(data[:9].ljust(9, b"\0"), "big")
    behind = {0: 16, 1: 32}.get(bits >> 72 - 33 & 7, 0)
    return not bits >> 72 - 35 - behind & 3


def _msmpeg4(data: bytes, coded: Coded) -> bool:  # noqa: ARG001
    """Microsoft's MPEG-4 2 and 3, and Windows Media Video 7: the frame type in the first bits."""
    return not data[0] >> 6


def _wmv2(data: bytes, coded: Coded) -> bool:  # noqa: ARG001
    """Windows Media Video 8: the frame type in the first bit."""
    return not data[0] >> 7


READ_THROUGH: Final[dict[str, Callable[[bytes, Coded], bool]]] = {
    "cinepak": _cinepak,
    "flashsv": _flashsv,
    "flv1": _flv1,
    "msmpeg4v2": _msmpeg4,
    "msmpeg4v3": _msmpeg4,
    "qtrle": _qtrle,
    "rpza": _never,
    "smc": _never,
    "svq1": _svq1,
    "wmv1": _msmpeg4,
    "wmv2": _wmv2,
    "zmbv": _zmbv,
}
"""By FFmpeg's name of a codec, a function that returns whether a packet codes all pixels independently."""

UNREAD: Final = frozenset(
    {"cscd", "flashsv2", "flic", "msrle", "msvideo1", "snow", "svq3", "tscc", "tscc2", "vmnc"}
)
"""Other such codecs, whose key flags are used unless every packet has one."""

REPLENISHED: Final = frozenset(READ_THROUGH) | UNREAD
"""All such codecs: their decoders keep the last frame across a flush, and a first packet may refer to a blank one."""
