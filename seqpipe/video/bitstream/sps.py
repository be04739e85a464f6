"""Sequence parameter sets of H.264 and HEVC: how frames are numbered, and the chroma sample location in their VUI.

Sources: ITU-T H.264 clauses 7.3.2.1.1 and E.1.1; ITU-T H.265 clauses 7.3.2.2, 7.3.3, 7.3.4, 7.3.7 and E.2.1.
"""

from __future__ import annotations

from typing import NamedTuple

from .bits import BitReader, BitstreamError, NalFormat, avc_format, hevc_format, nal_spans, unescape

__all__ = [
    "H264Sequence",
    "h264_sequence",
    "hevc_chroma_location",
    "hevc_sps_number",
    "stream_chroma_location",
]

_CHROMA_PROFILES = frozenset({44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244})
_EXTENDED_SAR = 255
_MOST_SETS = 64
_MOST_PICTURES = 16
_MOST_NUMBER_BITS = 16


class H264Sequence(NamedTuple):
    """Fields of an H.264 sequence parameter set.

    Attributes:
        number: seq_parameter_set_id.
        number_bits: length of frame_num in slice headers.
        gaps: gaps_in_frame_num_value_allowed_flag.
        frames_only: frame_mbs_only_flag.
        planes_apart: separate_colour_plane_flag.
        chroma_location: FFmpeg's number of the chroma location; 0 if not stated.
    """

    number: int
    number_bits: int
    gaps: bool
    frames_only: bool
    planes_apart: bool
    chroma_location: int


def h264_sequence(bits: BitReader) -> H264Sequence:
    """Parse an H.264 sequence parameter set."""
    profile = bits.u(8)
    bits.skip(16)
    number = bits.ue()
    planes_apart = _h264_chroma_format(bits) if profile in _CHROMA_PROFILES else False
    number_bits = bits.ue() + 4
    if number_bits > _MOST_NUMBER_BITS:
        raise BitstreamError(f"frame numbers of {number_bits} bits")
    order_type = bits.ue()
    if order_type == 0:
        bits.ue()
    elif order_type == 1:
        bits.skip(1)
        _skip_codes(bits, 2)
        _skip_codes(bits, bits.ue())
    bits.ue()  # max_num_ref_frames
    gaps = bits.flag()
    _skip_codes(bits, 2)  # size in macroblocks
    frames_only = bits.flag()
    if not frames_only:
        bits.skip(1)
    bits.skip(1)
    if bits.flag():  # frame_cropping_flag
        _skip_codes(bits, 4)
    chroma = _vui_chroma_location(bits) if bits.flag() else 0
    return H264Sequence(number, number_bits, gaps, frames_only, planes_apart, chroma)


def hevc_chroma_location(bits: BitReader) -> int:
    """Return the chroma location of an HEVC sequence parameter set by FFmpeg's number; 0 if not stated."""
    sublayers = _hevc_sublayers(bits)
    bits.ue()  # sps_seq_parameter_set_id
    if bits.ue() == 3:
        bits.skip(1)
    _skip_codes(bits, 2)  # size in samples
    if bits.flag():  # conformance_window_flag
        _skip_codes(bits, 4)
    _skip_codes(bits, 2)  # bit depths
    order_bits = bits.ue() + 4
    _skip_codes(bits, 3 * (sublayers + 1 if bits.flag() else 1))
    _skip_codes(bits, 6)  # block sizes and transform depths
    if bits.flag() and bits.flag():  # scaling_list_enabled_flag, sps_scaling_list_data_present_flag
        _skip_hevc_scaling_lists(bits)
    bits.skip(2)
    if bits.flag():  # pcm_enabled_flag
        bits.skip(8)
        _skip_codes(bits, 2)
        bits.skip(1)
    _skip_picture_sets(bits)
    if bits.flag():  # long_term_ref_pics_present_flag
        bits.skip(bits.ue() * (order_bits + 1))
    bits.skip(2)
    return _vui_chroma_location(bits) if bits.flag() else 0


def hevc_sps_number(bits: BitReader) -> int:
    """Return the number of an HEVC sequence parameter set."""
    _hevc_sublayers(bits)
    return bits.ue()


def _hevc_sublayers(bits: BitReader) -> int:
    """Parse a sequence parameter set up to its number; returns sps_max_sub_layers_minus1."""
    bits.skip(4)
    sublayers = bits.u(3)
    bits.skip(1)
    _skip_profile_tier_level(bits, sublayers)
    return sublayers


def _vui_chroma_location(bits: BitReader) -> int:
    """Parse the start of the VUI, which both standards share."""
    if bits.flag() and bits.u(8) == _EXTENDED_SAR:
        bits.skip(32)
    if bits.flag():  # overscan_info_present_flag
        bits.skip(1)
    if bits.flag():  # video_signal_type_present_flag
        bits.skip(4)
        if bits.flag():
            bits.skip(24)
    if not bits.flag():  # chroma_loc_info_present_flag
        return 0
    location = bits.ue()
    return location + 1 if location <= 5 else 0


def _skip_codes(bits: BitReader, count: int) -> None:
    """Skip exponential-Golomb codes; signed and unsigned ones have the same lengths."""
    for _ in range(count):
        bits.ue()


def _h264_chroma_format(bits: BitReader) -> bool:
    """Skip the fields of high profiles; returns separate_colour_plane_flag."""
    chroma = bits.ue()
    planes_apart = bits.flag() if chroma == 3 else False
    _skip_codes(bits, 2)  # bit depths
    bits.skip(1)
    if bits.flag():  # seq_scaling_matrix_present_flag
        for index in range(12 if chroma == 3 else 8):
            if bits.flag():
                _skip_h264_scaling_list(bits, 16 if index < 6 else 64)
    return planes_apart


def _skip_h264_scaling_list(bits: BitReader, size: int) -> None:
    """Skip a scaling list."""
    scale = 8
    for _ in range(size):
        following = (scale + bits.se()) % 256
        if not following:  # the last value holds for the rest of the list
            return
        scale = following


def _skip_profile_tier_level(bits: BitReader, sublayers: int) -> None:
    """Skip profile_tier_level."""
    bits.skip(96)
    present = [(bits.flag(), bits.flag()) for _ in range(sublayers)]
    if sublayers:
        bits.skip(2 * (8 - sublayers))
    for profile, level in present:
        bits.skip(88 * profile + 8 * level)


def _skip_hevc_scaling_lists(bits: BitReader) -> None:
    """Skip scaling_list_data."""
    for size in range(4):
        for _ in range(0, 6, 3 if size == 3 else 1):
            if not bits.flag():  # scaling_list_pred_mode_flag
                bits.ue()
            else:
                _skip_codes(bits, (size > 1) + min(64, 1 << (4 + 2 * size)))


def _skip_picture_sets(bits: BitReader) -> None:
    """Skip the short-term reference picture sets; the length of one that is predicted from another depends on it."""
    count = bits.ue()
    if count > _MOST_SETS:
        raise BitstreamError(f"{count} reference picture sets")
    before: list[int] = []
    for index in range(count):
        before = _predicted_set(bits, before) if index and bits.flag() else _plain_set(bits)


def _plain_set(bits: BitReader) -> list[int]:
    """Parse a set without prediction; returns its order count differences: negative ones first, nearest ones first."""
    counts = (bits.ue(), bits.ue())
    if max(counts) > _MOST_PICTURES:
        raise BitstreamError(f"{max(counts)} pictures in a reference picture set")
    deltas: list[int] = []
    for sign, count in zip((-1, 1), counts, strict=True):
        delta = 0
        for _ in range(count):
            delta += sign * (bits.ue() + 1)
            bits.skip(1)
            deltas.append(delta)
    return deltas


def _predicted_set(bits: BitReader, before: list[int]) -> list[int]:
    """Parse a set predicted from the previous one (H.265 equations 7-61 and 7-62)."""
    negative = bits.flag()
    shift = (bits.ue() + 1) * (-1 if negative else 1)
    shifted = [delta + shift for delta in [*before, 0] if bits.flag() or bits.flag()]
    return sorted((d for d in shifted if d < 0), reverse=True) + sorted(d for d in shifted if d > 0)


_LEFT, _CENTER, _TOP_LEFT = 1, 2, 3
_BY_STANDARD = {"mpeg1video": _CENTER, "mjpeg": _CENTER, "mpeg2video": _LEFT, "mpeg4": _LEFT}
_AV1_POSITIONS = {1: _LEFT, 2: _TOP_LEFT}
_H264_SPS, _HEVC_SPS = 7, 33


def stream_chroma_location(codec: str, extradata: bytes, first_packet: bytes) -> int:
    """Return the chroma sample location by FFmpeg's numbers: 1 left, 2 center, 3 top left, …; 0 if not stated."""
    try:
        if codec == "h264":
            return _h264(avc_format(extradata), first_packet)
        if codec == "hevc":
            return _hevc(hevc_format(extradata), first_packet)
    except BitstreamError:
        return 0
    if codec == "av1":
        from .av1 import av1_sequence  # imported late: most videos are not AV1

        sequence = av1_sequence(extradata) or av1_sequence(first_packet)
        return _AV1_POSITIONS.get(sequence.chroma_sample_position, 0) if sequence else 0
    return _BY_STANDARD.get(codec, 0)


def _h264(form: NalFormat, first_packet: bytes) -> int:
    for unit in _units(form, first_packet):
        if unit[0] & 31 == _H264_SPS:
            return h264_sequence(BitReader(unescape(unit[1:]))).chroma_location
    return 0


def _hevc(form: NalFormat, first_packet: bytes) -> int:
    for unit in _units(form, first_packet):
        if unit[0] >> 1 == _HEVC_SPS:
            return hevc_chroma_location(BitReader(unescape(unit[2:])))
    return 0


def _units(form: NalFormat, first_packet: bytes) -> list[bytes]:
    """Return the units of the extradata, or those of the packet if there are none."""
    if form.parameter_sets:
        return list(form.parameter_sets)
    return [first_packet[begin:end] for begin, end in nal_spans(first_packet, form.length_size)]
