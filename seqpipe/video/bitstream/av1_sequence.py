"""AV1: the sequence header.

Source: AV1 bitstream and decoding process specification, version 1.0.0 with errata 1, clause 5.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .bits import BitReader

__all__ = ["SELECT", "OperatingPoint", "SequenceHeader", "read_sequence"]

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
    """Parse a sequence header.

    Raises:
        BitstreamError: it is truncated.
    """
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
    modeled: bool = False
    delay_bits: int = 0
    removal_bits: int = 0
    presentation_bits: int = 0


def _read_timing(bits: BitReader) -> _Timing:
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
    screen_content: int = SELECT
    integer_mv: int = SELECT
    order_hint_bits: int = 0


def _read_tools(bits: BitReader) -> _Tools:
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
