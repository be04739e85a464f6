"""Detection of H.264 and HEVC packets without a picture: only parameter sets, messages and filler.

One flipped bit changes the type of a slice's NAL unit. A packet whose units do not have the content of their type is
therefore a damaged picture; counting it as no picture would shift the numbers of all later frames.
Sources: ITU-T H.264 and H.265, clauses 7.3.2 and 7.4.2.
"""

from __future__ import annotations

from .bits import BitReader, BitstreamError, unescape
from .sps import h264_sequence, hevc_chroma_location

__all__ = ["h264_has_none", "hevc_has_none", "sei_number"]

_H264_PROFILES = frozenset({44, 66, 77, 83, 86, 88, 100, 110, 118, 122, 128, 134, 135, 138, 139, 144, 244})
_HIGHEST_LEVEL = 63
_LAST_SLICE = 31
_MOST_H264_SETS, _MOST_HEVC_SETS = 256, 64


def h264_has_none(unit: bytes) -> bool:
    """Return whether an H.264 unit, with its header, has the content of its type and is no picture."""
    kind, payload = unit[0] & 31, unescape(unit[1:]).rstrip(b"\0")
    try:
        if kind == 6:
            return _is_sei(payload)
        if kind in (7, 15):
            plausible = payload[0] in _H264_PROFILES and not payload[1] & 3 and payload[2] <= _HIGHEST_LEVEL
            return plausible and h264_sequence(BitReader(payload)).number_bits > 0
        if kind == 8:
            return BitReader(payload).ue() < _MOST_H264_SETS
    except (BitstreamError, IndexError):
        return False
    return kind in (13, 14, 20) or _is_plain(kind, payload, delimiter=9, ends=(10, 11), filler=12)


def hevc_has_none(unit: bytes) -> bool:
    """Return whether an HEVC unit, with its header, has the content of its type and is no picture."""
    kind, payload = unit[0] >> 1 & 63, unescape(unit[2:]).rstrip(b"\0")
    if kind > _LAST_SLICE and (unit[0] & 1 or unit[1] >> 3):
        return True  # an enhancement layer's unit
    try:
        if kind == 32:
            return payload[2:4] == b"\xff\xff"  # vps_reserved_0xffff_16bits
        if kind == 33:
            hevc_chroma_location(BitReader(payload))
            profile, compatible = payload[1] & 31, int.from_bytes(payload[2:6], "big")
            return bool(compatible >> (31 - profile) & 1)
        if kind == 34:
            return BitReader(payload).ue() < _MOST_HEVC_SETS
        if kind in (39, 40):
            return _is_sei(payload)
    except (BitstreamError, IndexError):
        return False
    return _is_plain(kind, payload, delimiter=35, ends=(36, 37), filler=38)


def sei_number(payload: bytes, at: int) -> tuple[int, int]:
    """Read a payload type or size, the sum of bytes of 255 and a last smaller one; returns it and its end.

    Raises:
        BitstreamError: it is truncated.
    """
    value = 0
    for byte in payload[at:]:
        value += byte
        at += 1
        if byte < 255:
            return value, at
    raise BitstreamError("an SEI message is cut")


def _is_sei(payload: bytes) -> bool:
    """Return whether the sizes of the messages in a unit add up to its size."""
    at = 0
    while at + 1 < len(payload):
        _, at = sei_number(payload, at)
        size, at = sei_number(payload, at)
        at += size
    return at <= len(payload)


def _is_plain(kind: int, payload: bytes, *, delimiter: int, ends: tuple[int, int], filler: int) -> bool:
    if kind == delimiter:
        return len(payload) <= 1
    if kind in ends:
        return not payload
    return kind == filler and not payload.rstrip(b"\x80").strip(b"\xff")
