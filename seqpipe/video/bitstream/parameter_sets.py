"""Parameter sets of H.264 and HEVC that change within a stream, tracked so that decoding can start at any key packet.

Sources: ITU-T H.264 clause 7.4.1.2.1, ITU-T H.265 clause 7.4.2.4.2 (a parameter set is in force until one with the same
number replaces it), ISO/IEC 14496-15 (parameter sets in the container, in the packets, or in both).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import TypeAlias

from .bits import BitReader, BitstreamError, NalFormat, avc_format, hevc_format, nal_spans, unescape
from .sps import h264_sequence, hevc_chroma_location, hevc_sps_number

__all__ = [
    "ParameterSets",
    "SetUp",
    "encoder_version",
    "h264_has_none",
    "hevc_has_none",
    "sei_number",
    "with_version",
]

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
    """Read a payload type or size, the sum of bytes of 255 and a last smaller one; returns it and its end."""
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


SetUp: TypeAlias = tuple[int, bytes]
"""Number of the packet from which parameter sets are in force, and these in the packets' format."""

_Name: TypeAlias = tuple[int, int]

_START = b"\0\0\0\1"
_FORMATS = {"h264": avc_format, "hevc": hevc_format}
_H264_SPS, _H264_SUBSET_SPS, _H264_SETS = 7, 15, (7, 13, 15, 8)
_H264_SEI = 6
_X264_VERSION = re.compile(rb"x264 - core (\d+)")
_HEAD = 1 << 14
_DIRECT_BUILDS, _BUILDS_444 = 33, 150
"""The last builds of x264 with an error in direct prediction, and in 4:4:4, which libavcodec repeats."""

_HEVC_VPS, _HEVC_SPS, _HEVC_SETS = 32, 33, (32, 33, 34)


class ParameterSets:
    """Tracks the parameter sets of one stream from packet to packet.

    Args:
        codec: the codec's canonical name.
        extradata: the stream's codec configuration as the container holds it; may be empty.
    """

    def __init__(self, codec: str, extradata: bytes) -> None:
        self._format = _FORMATS.get(codec)
        self._name = _hevc_name if codec == "hevc" else _h264_name
        form = self._format(extradata) if self._format else NalFormat(0)
        self._length_size = form.length_size
        self._units: dict[_Name, bytes] = {}
        self._take(form.parameter_sets)
        self._set_ups: list[SetUp] = [(0, self._written())]

    @property
    def set_ups(self) -> tuple[SetUp, ...]:
        """Parameter sets by the packet from which they are in force; empty if those of the extradata never change."""
        return tuple(self._set_ups) if len(self._set_ups) > 1 else ()

    def replace(self, number: int, extradata: bytes) -> bytes:
        """Replace the extradata from a packet on; returns its parameter sets in the packets' format."""
        form = self._format(extradata) if self._format else NalFormat(0)
        if form.length_size == self._length_size:
            self._note(number, form.parameter_sets)
        return self._written()

    def look(self, number: int, packet: bytes) -> None:
        """Read the parameter sets in a key packet."""
        if self._format is not None:
            with contextlib.suppress(BitstreamError):
                self._note(number, [packet[a:b] for a, b in nal_spans(packet, self._length_size)])

    def _note(self, number: int, units: Sequence[bytes]) -> None:
        if self._take(units):
            self._set_ups.append((number, self._written()))

    def _take(self, units: Sequence[bytes]) -> bool:
        """Store parameter sets; returns whether any has changed."""
        before = dict(self._units)
        for unit in units:
            with contextlib.suppress(BitstreamError):
                if (name := self._name(unit)) is not None:
                    self._units[name] = unit.rstrip(b"\0")  # zeros may precede the next start code
        return self._units != before

    def _written(self) -> bytes:
        size = self._length_size
        units = [self._units[name] for name in sorted(self._units)]
        return b"".join((len(unit).to_bytes(size, "big") if size else _START) + unit for unit in units)


def encoder_version(codec: str, extradata: bytes, first_packet: bytes, chroma: str) -> bytes:
    """Return the unit in which an encoder states its version, if libavcodec works around bugs of this version, or b"".

    x264 states it in the first packet only (SEI, user data unregistered); a decoder that starts later needs it as well.
    """
    stated = _X264_VERSION.search(first_packet, 0, _HEAD) if codec == "h264" else None
    if stated is None or int(stated[1]) > (_BUILDS_444 if chroma == "4:4:4" else _DIRECT_BUILDS):
        return b""
    size = avc_format(extradata).length_size
    with contextlib.suppress(BitstreamError):
        for a, b in nal_spans(first_packet, size):
            if first_packet[a] & 31 == _H264_SEI and a <= stated.start() < b:
                unit = first_packet[a:b]
                return (len(unit).to_bytes(size, "big") if size else _START) + unit
    return b""


def with_version(set_ups: Sequence[SetUp], version: bytes) -> tuple[SetUp, ...]:
    """Return set-ups that begin with the unit of an encoder's version."""
    if not version:
        return tuple(set_ups)
    return tuple((number, version + units) for number, units in set_ups or [(0, b"")])


def _h264_name(unit: bytes) -> _Name | None:
    """Return the type's rank and the number of a unit's parameter set; None if the unit is none."""
    kind = unit[0] & 31
    if kind not in _H264_SETS:
        return None
    bits = BitReader(unescape(unit[1:24]))
    if kind in (_H264_SPS, _H264_SUBSET_SPS):
        bits.skip(24)
    return _H264_SETS.index(kind), bits.ue()


def _hevc_name(unit: bytes) -> _Name | None:
    """Return the same for HEVC; parameter sets of enhancement layers are skipped."""
    kind = unit[0] >> 1 & 63
    if kind not in _HEVC_SETS or unit[0] & 1 or unit[1] >> 3:
        return None
    bits = BitReader(unescape(unit[2:]))
    if kind == _HEVC_SPS:
        return _HEVC_SETS.index(kind), hevc_sps_number(bits)
    return _HEVC_SETS.index(kind), bits.u(4) if kind == _HEVC_VPS else bits.ue()
