"""H.264: NAL unit types, nal_ref_idc, slice types, recovery points (ITU-T H.264, 7.3.1, 7.3.3, D.1)."""

from __future__ import annotations

from .bits import BitReader, BitstreamError, unescape
from .kind import NO_PICTURE, UNKNOWN, PacketKind, Picture, packet_kind
from .nal import avc_format, nal_spans

__all__ = ["H264Classifier"]

_SLICE_TYPES = frozenset({1, 2, 5})
"""Slice, data partition A, slice of an IDR picture. Partitions B and C repeat the nal_ref_idc of their A."""
_LASTING_TYPES = frozenset({7, 8, 10, 11, 13, 15})
"""Parameter sets and the ends of sequence and stream: they matter to the pictures that follow."""
_SEI = 6
_IDR = 5
_RECOVERY_POINT = 6
_HEADER_BYTES = 16
"""Enough for first_mb_in_slice and slice_type, 63 bits at most, with emulation prevention."""
_LETTERS: tuple[Picture, ...] = ("P", "B", "I", "P", "I")
"""By slice_type modulo 5: P, B, I, SP, SI."""


class H264Classifier:
    """Classifies H.264 packets, each a whole access unit, length-prefixed or Annex B.

    A packet is no reference if nal_ref_idc is 0 in all of its slices and it holds no parameter sets. Such
    pictures take no part in deriving any other picture's order count, frame number or reference lists.

    Args:
        extradata: avcC record, Annex B parameter sets, or empty.
    """

    def __init__(self, extradata: bytes) -> None:
        self._length_size = avc_format(extradata).length_size

    def classify(self, packet: bytes | memoryview) -> PacketKind:
        """What the packet says of itself; `UNKNOWN` for one that cannot be read."""
        try:
            return self._read(packet)
        except BitstreamError:
            return UNKNOWN

    def _read(self, packet: bytes | memoryview) -> PacketKind:
        reference = idr = recovery = False
        letters: set[Picture] = set()
        for begin, end in nal_spans(packet, self._length_size):
            header = packet[begin]
            kind = header & 31
            if kind in _SLICE_TYPES:
                reference = reference or header & 0x60 != 0
                idr = idr or kind == _IDR
                letters.add(_slice_letter(packet[begin + 1 : min(end, begin + _HEADER_BYTES)]))
            elif kind == _SEI:
                recovery = recovery or _recovers_at_once(unescape(packet[begin + 1 : end]))
            elif kind in _LASTING_TYPES:
                reference = True
        if not letters:
            return NO_PICTURE
        picture_type: Picture = "B" if "B" in letters else "P" if "P" in letters else "I"
        access = idr or (True if recovery and picture_type == "I" else None if picture_type == "I" else False)
        return packet_kind(reference or recovery, random_access=access, picture_type=picture_type)


def _slice_letter(header: bytes | memoryview) -> Picture:
    """The slice type from the first bytes behind a slice's NAL header."""
    if len(header) and header[0] & 0x80:  # the picture's first slice: slice_type lies in the other 7 bits
        letter = _FIRST_BYTE[header[0] & 0x7F]
        if letter is not None:
            return letter
    bits = BitReader(unescape(header))
    bits.ue()
    slice_type = bits.ue()
    if slice_type > 9:
        raise BitstreamError(f"slice_type {slice_type}")
    return _LETTERS[slice_type % 5]


def _recovers_at_once(payload: bytes) -> bool:
    """Whether an SEI unit holds a recovery point with recovery_frame_cnt 0.

    After a larger count (gradual refresh) only later frames are whole: no exact start.
    """
    at = 0
    while at + 2 < len(payload):
        kind, at = _sei_number(payload, at)
        size, at = _sei_number(payload, at)
        if kind == _RECOVERY_POINT:
            return BitReader(payload[at : at + size]).ue() == 0
        at += size
    return False


def _sei_number(payload: bytes, at: int) -> tuple[int, int]:
    """A payload type or size: bytes of 255 and a last one below it, summed; and the position behind it."""
    value = 0
    for byte in payload[at:]:
        value += byte
        at += 1
        if byte < 255:
            return value, at
    raise BitstreamError("an SEI message is cut")


def _first_byte_table() -> tuple[Picture | None, ...]:
    letters: list[Picture | None] = []
    for seven in range(128):
        zeros = 7 - seven.bit_length()
        value = (seven >> (6 - 2 * zeros)) - 1 if zeros <= 3 else 10
        letters.append(_LETTERS[value % 5] if value <= 9 else None)
    return tuple(letters)


_FIRST_BYTE = _first_byte_table()
