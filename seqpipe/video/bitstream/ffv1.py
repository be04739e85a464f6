"""FFV1: the checksums of its slices (RFC 9043, 4.3.2 and 4.5: slice_size, error_status and slice_crc_parity)."""

from __future__ import annotations

import zlib

__all__ = ["ffv1_is_sound", "ffv1_may_check"]

_MIRRORED = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))
_REMAINDERS = (0, 0x7A8C4079)
"""What a sound slice or set-up leaves: of version 3, and of version 4, which begins with another value."""
_WITHOUT, _WITH = 3, 8
"""Bytes behind each slice: its size, and with checksums a status and the checksum."""


def ffv1_may_check(extradata: bytes) -> bool:
    """Whether a stream's packets may hold checksums: from version 3 on, whose set-up bytes have one, too."""
    return len(extradata) > 4 and _remainder(extradata) in _REMAINDERS


def ffv1_is_sound(packet: bytes) -> bool:
    """Whether all slices of a packet have their size, and their checksum if the stream has any.

    libavcodec fills a slice with a wrong checksum from whatever picture it decoded before, and says so in its log only.

    Args:
        packet: of a stream for which :func:`ffv1_may_check` holds.
    """
    slices = _slices(packet, _WITH)
    if slices:
        return all(_remainder(piece) in _REMAINDERS for piece in slices)
    return bool(_slices(packet, _WITHOUT))


def _slices(packet: bytes, behind: int) -> list[bytes]:
    """The slices with what stands behind each, read from the packet's end; none if their sizes do not fill it."""
    found: list[bytes] = []
    end = len(packet)
    while end > behind:
        begin = end - behind - int.from_bytes(packet[end - behind : end - behind + 3], "big")
        if begin < 0:
            return []
        found.append(packet[begin:end])
        end = begin
    return found if not end else []


def _remainder(data: bytes) -> int:
    # CRC-32 from the most significant bit on, beginning with 0: zlib goes the other way, and begins with all ones
    reverse = zlib.crc32(data.translate(_MIRRORED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{reverse:032b}"[::-1], 2)
