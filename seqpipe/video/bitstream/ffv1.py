"""Checksums of FFV1 slices (RFC 9043, 4.3.2 and 4.5: slice_size, error_status and slice_crc_parity)."""

from __future__ import annotations

import zlib

__all__ = ["ffv1_is_sound", "ffv1_may_check"]

_MIRRORED = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))
_REMAINDERS = (0, 0x7A8C4079)
"""CRC remainder of an undamaged slice or extradata: of version 3, and of version 4 with another initial value."""
_WITHOUT, _WITH = 3, 8
"""Bytes after each slice: its size, and with checksums a status and the checksum."""


def ffv1_may_check(extradata: bytes) -> bool:
    """Return whether a stream's packets may have checksums: from version 3 on, whose extradata has one, too."""
    return len(extradata) > 4 and _remainder(extradata) in _REMAINDERS


def ffv1_is_sound(packet: bytes) -> bool:
    """Return whether the sizes of a packet's slices add up, and their checksums, if any, are correct.

    libavcodec fills a slice with a wrong checksum from the previously decoded frame, and only logs that.

    Args:
        packet: packet of a stream for which :func:`ffv1_may_check` returns True.
    """
    slices = _slices(packet, _WITH)
    if slices:
        return all(_remainder(piece) in _REMAINDERS for piece in slices)
    return bool(_slices(packet, _WITHOUT))


def _slices(packet: bytes, behind: int) -> list[bytes]:
    """Return the slices with their trailers, parsed from the packet's end; empty if their sizes do not add up."""
    slices: list[bytes] = []
    end = len(packet)
    while end > behind:
        begin = end - behind - int.from_bytes(packet[end - behind : end - behind + 3], "big")
        if begin < 0:
            return []
        slices.append(packet[begin:end])
        end = begin
    return slices if not end else []


def _remainder(data: bytes) -> int:
    # CRC-32 with the most significant bit first and initial value 0; zlib has the opposite order and all ones.
    reverse = zlib.crc32(data.translate(_MIRRORED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{reverse:032b}"[::-1], 2)
