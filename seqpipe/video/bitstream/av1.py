"""AV1: open bitstream units, sequence header, the first fields of frame headers.

Source: AV1 bitstream and decoding process specification, version 1.0.0 with errata 1, clauses 5.3, 5.5,
5.9, 7.20.

All that one AV1 frame takes from another lies in the eight reference slots: samples, probabilities, loop
filter deltas, segmentation features and map, motion vectors, global motion and film grain parameters are
saved there by the reference frame update process (clause 7.20) for the slots in refresh_frame_flags, and
loaded from the slot that primary_ref_frame names, or reset. So a frame with refresh_frame_flags = 0 leaves
nothing behind; neither does show_existing_frame, unless the frame shown is a key frame, which is then
loaded into all slots (clause 7.21).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .bits import BitReader, BitstreamError
from .kind import NO_PICTURE, UNKNOWN, PacketKind, packet_kind

__all__ = [
    "SELECT",
    "Av1Classifier",
    "OperatingPoint",
    "SequenceHeader",
    "av1_sequence",
    "av1_shows",
    "read_sequence",
]

SELECT = 2
"""Value of a tool that each frame header switches."""


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """Layers of an operating point, and whether its buffer removal times are sent."""

    layers: int
    timed: bool


@dataclass(frozen=True, slots=True)
class SequenceHeader:
    """Fields of a sequence header that are needed to parse frame headers, and the chroma location.

    Attributes:
        reduced: reduced_still_picture_header.
        points: the operating points.
        modeled: decoder_model_info_present_flag.
        removal_bits: length of a buffer_removal_time.
        presentation_bits: length of a frame_presentation_time; 0 where frames carry none.
        id_bits: length of current_frame_id; 0 where frames carry none.
        screen_content: seq_force_screen_content_tools; 2 where frames choose.
        integer_mv: seq_force_integer_mv; 2 where frames choose.
        order_hint_bits: OrderHintBits.
        chroma_sample_position: 0 unknown, 1 vertical, 2 co-located.
    """

    reduced: bool
    points: tuple[OperatingPoint, ...]
    modeled: bool
    removal_bits: int
    presentation_bits: int
    id_bits: int
    screen_content: int
    integer_mv: int
    order_hint_bits: int
    chroma_sample_position: int


def read_sequence(bits: BitReader) -> SequenceHeader:
    """Parse a sequence header."""
    profile = bits.u(3)
    bits.skip(1)  # still_picture
    reduced = bits.flag()
    if reduced:
        bits.skip(5)  # seq_level_idx
    timing = _Timing() if reduced else _read_timing(bits)
    points = (OperatingPoint(0, False),) if reduced else _read_points(bits, timing)
    width_bits, height_bits = bits.u(4) + 1, bits.u(4) + 1
    bits.skip(width_bits + height_bits)
    id_bits = 0
    if not reduced and bits.flag():  # frame_id_numbers_present_flag
        id_bits = bits.u(4) + bits.u(3) + 3
    bits.skip(3)  # use_128x128_superblock, enable_filter_intra, enable_intra_edge_filter
    tools = _Tools() if reduced else _read_tools(bits)
    bits.skip(3)  # enable_superres, enable_cdef, enable_restoration
    return SequenceHeader(
        reduced=reduced,
        points=points,
        modeled=timing.modeled,
        removal_bits=timing.removal_bits,
        presentation_bits=timing.presentation_bits,
        id_bits=id_bits,
        screen_content=tools.screen_content,
        integer_mv=tools.integer_mv,
        order_hint_bits=tools.order_hint_bits,
        chroma_sample_position=_read_chroma_position(bits, profile),
    )


class _Timing(NamedTuple):
    """Sizes of the fields of the decoder model, in bits; zeros without one."""

    modeled: bool = False
    delay_bits: int = 0
    removal_bits: int = 0
    presentation_bits: int = 0


def _read_timing(bits: BitReader) -> _Timing:
    """Read timing_info and decoder_model_info."""
    if not bits.flag():  # timing_info_present_flag
        return _Timing()
    bits.skip(64)  # num_units_in_display_tick, time_scale
    equal = bits.flag()
    if equal:
        bits.ue()  # num_ticks_per_picture_minus_1
    if not bits.flag():  # decoder_model_info_present_flag
        return _Timing()
    delay_bits = bits.u(5) + 1
    bits.skip(32)  # num_units_in_decoding_tick
    removal_bits, presentation_bits = bits.u(5) + 1, bits.u(5) + 1
    return _Timing(True, delay_bits, removal_bits, 0 if equal else presentation_bits)


def _read_points(bits: BitReader, timing: _Timing) -> tuple[OperatingPoint, ...]:
    """Read the operating points of a sequence header."""
    displayed = bits.flag()  # initial_display_delay_present_flag
    points: list[OperatingPoint] = []
    for _ in range(bits.u(5) + 1):
        layers = bits.u(12)
        if bits.u(5) > 7:
            bits.skip(1)  # seq_tier
        timed = timing.modeled and bits.flag()
        if timed:
            bits.skip(2 * timing.delay_bits + 1)
        if displayed and bits.flag():
            bits.skip(4)
        points.append(OperatingPoint(layers, timed))
    return tuple(points)


class _Tools(NamedTuple):
    """Tools of a sequence that frame headers depend on."""

    screen_content: int = SELECT
    integer_mv: int = SELECT
    order_hint_bits: int = 0


def _read_tools(bits: BitReader) -> _Tools:
    """Read the flags of the coding tools."""
    bits.skip(4)  # enable_interintra_compound to enable_dual_filter
    ordered = bits.flag()  # enable_order_hint
    if ordered:
        bits.skip(2)  # enable_jnt_comp, enable_ref_frame_mvs
    screen_content = SELECT if bits.flag() else bits.u(1)
    integer_mv = SELECT
    if screen_content and not bits.flag():
        integer_mv = bits.u(1)
    return _Tools(screen_content, integer_mv, bits.u(3) + 1 if ordered else 0)


def _read_chroma_position(bits: BitReader, profile: int) -> int:
    """Parse color_config (clause 5.5.2) up to chroma_sample_position; 0 if there is none."""
    high = bits.flag()
    twelve = profile == 2 and high and bits.flag()
    if profile != 1 and bits.flag():  # mono_chrome
        return 0
    description = (bits.u(8), bits.u(8), bits.u(8)) if bits.flag() else (2, 2, 2)
    if description == (1, 13, 0):  # sRGB: always 4:4:4
        return 0
    bits.skip(1)  # color_range
    if profile == 1:
        return 0
    if profile == 2 and not (twelve and bits.flag() and bits.flag()):  # subsampling_x, subsampling_y
        return 0
    return bits.u(2)


_SEQUENCE_HEADER = 1
_FRAME_HEADER, _FRAME = 3, 6
_KEY, _INTER, _SWITCH = 0, 1, 3
_HEADER_BYTES = 48
_ALL_SLOTS = 0xFF


class _Obu(NamedTuple):
    """One open bitstream unit: its type, its layers, and where its payload lies in the packet."""

    kind: int
    temporal_id: int
    spatial_id: int
    begin: int
    end: int


class _FrameHeader(NamedTuple):
    """Fields of a frame header: `slot` is the slot shown again, -1 for a coded frame."""

    slot: int
    frame_type: int
    shown: bool
    refresh: int


class Av1Classifier:
    """Classifies AV1 packets, each a temporal unit in the low-overhead format.

    Args:
        extradata: av1C record, open bitstream units, or empty.
    """

    def __init__(self, extradata: bytes) -> None:
        self._sequence = av1_sequence(extradata)
        self._slots: list[int | None] = [None] * 8

    def classify(self, packet: bytes | memoryview) -> PacketKind:
        """Return the kind of a packet; `UNKNOWN` if it cannot be parsed."""
        try:
            return self._read(packet)
        except BitstreamError:
            self._slots = [None] * 8
            return UNKNOWN

    def _read(self, packet: bytes | memoryview) -> PacketKind:
        frames: list[_FrameHeader] = []
        lasting = False
        for unit in _units(packet):
            payload = packet[unit.begin : min(unit.end, unit.begin + _HEADER_BYTES)]
            if unit.kind == _SEQUENCE_HEADER:
                self._sequence = read_sequence(BitReader(packet[unit.begin : unit.end]))
                lasting = True
            elif unit.kind in (_FRAME_HEADER, _FRAME):
                frames.append(self._frame(BitReader(payload), unit))
        if not frames:
            return NO_PICTURE
        first, shown = frames[0], any(frame.shown for frame in frames)
        intra = all(frame.slot < 0 and frame.frame_type in (_KEY, 2) for frame in frames)
        return packet_kind(
            lasting or len(frames) > 1 or not shown or first.refresh != 0,
            shown,
            random_access=first.slot < 0 and first.frame_type == _KEY and first.shown,
            picture_type="I" if intra else "P",
        )

    def _frame(self, bits: BitReader, unit: _Obu) -> _FrameHeader:
        """Parse a frame header, and update the slots that it fills."""
        if self._sequence is None:
            raise BitstreamError("a frame before any sequence header")
        frame = _read_frame(bits, self._sequence, unit)
        if frame.slot >= 0:
            known = self._slots[frame.slot]
            if known is None:
                raise BitstreamError("an unknown slot is shown")
            frame = _FrameHeader(frame.slot, known, True, _ALL_SLOTS if known == _KEY else 0)
        for slot in range(8):
            if frame.refresh >> slot & 1:
                self._slots[slot] = frame.frame_type
        return frame


def _units(data: bytes | memoryview) -> list[_Obu]:
    """The units of a temporal unit in the low-overhead format (clause 5.3)."""
    units: list[_Obu] = []
    at, size = 0, len(data)
    while at < size:
        header = data[at]
        at += 1
        layers = 0
        if header & 4:
            layers = data[at] if at < size else 0
            at += 1
        end = size
        if header & 2:
            length, at = _leb128(data, at)
            end = at + length
        if end > size or at > size:
            raise BitstreamError("an open bitstream unit is longer than its packet")
        units.append(_Obu(header >> 3 & 15, layers >> 5, layers >> 3 & 3, at, end))
        at = end
    return units


def av1_shows(packet: bytes) -> tuple[bool, bool, bool]:
    """Return whether a temporal unit shows a frame of its own, an earlier one, and has a sequence header."""
    units = _units(packet)
    headers = [unit.begin for unit in units if unit.kind in (_FRAME_HEADER, _FRAME) and unit.begin < unit.end]
    # The first bit of a frame header is show_existing_frame; the last frame of a unit is the one that is shown.
    earlier = bool(headers) and bool(packet[headers[-1]] & 0x80)
    return bool(headers) and not earlier, earlier, any(unit.kind == _SEQUENCE_HEADER for unit in units)


def av1_sequence(extradata: bytes) -> SequenceHeader | None:
    """Return the sequence header in an av1C record or in plain units; None if there is none or it is invalid."""
    data = extradata[4:] if extradata[:1] == b"\x81" else extradata
    try:
        for unit in _units(data):
            if unit.kind == _SEQUENCE_HEADER:
                return read_sequence(BitReader(data[unit.begin : unit.end]))
    except BitstreamError:
        return None
    return None


def _leb128(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Read a number in groups of seven bits, the least significant first."""
    value = 0
    for shift in range(0, 56, 7):
        if at >= len(data):
            break
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
    raise BitstreamError("a length that does not end")


def _read_frame(bits: BitReader, seq: SequenceHeader, unit: _Obu) -> _FrameHeader:
    """uncompressed_header (clause 5.9.2) up to refresh_frame_flags."""
    if seq.reduced:
        return _FrameHeader(-1, _KEY, True, _ALL_SLOTS)
    if bits.flag():
        return _FrameHeader(bits.u(3), -1, True, 0)
    frame_type, shown = bits.u(2), bits.flag()
    if shown:
        bits.skip(seq.presentation_bits)
    else:
        bits.skip(1)  # showable_frame
    at_start = frame_type == _KEY and shown
    resilient = frame_type == _SWITCH or at_start or bits.flag()
    bits.skip(1)  # disable_cdf_update
    screen_content = bits.u(1) if seq.screen_content == SELECT else seq.screen_content
    if screen_content and seq.integer_mv == SELECT:
        bits.skip(1)  # force_integer_mv
    bits.skip(seq.id_bits)
    if frame_type != _SWITCH:
        bits.skip(1)  # frame_size_override_flag
    bits.skip(seq.order_hint_bits)
    if frame_type in (_INTER, _SWITCH) and not resilient:
        bits.skip(3)  # primary_ref_frame
    if seq.modeled and bits.flag():
        _skip_removal_times(bits, seq, unit)
    return _FrameHeader(-1, frame_type, shown, _ALL_SLOTS if at_start or frame_type == _SWITCH else bits.u(8))


def _skip_removal_times(bits: BitReader, seq: SequenceHeader, unit: _Obu) -> None:
    for point in seq.points:
        within = point.layers >> unit.temporal_id & 1 and point.layers >> (unit.spatial_id + 8) & 1
        if point.timed and (within or not point.layers):
            bits.skip(seq.removal_bits)
