"""Chroma sample location from the bitstream's headers."""

from __future__ import annotations

from .av1 import av1_sequence
from .bits import BitReader, BitstreamError, unescape
from .nal import NalFormat, avc_format, hevc_format, nal_spans
from .sps import h264_sequence, hevc_chroma_location

__all__ = ["stream_chroma_location"]

_LEFT, _CENTER, _TOP_LEFT = 1, 2, 3
_BY_STANDARD = {"mpeg1video": _CENTER, "mjpeg": _CENTER, "mpeg2video": _LEFT, "mpeg4": _LEFT}
_AV1_POSITIONS = {1: _LEFT, 2: _TOP_LEFT}
_H264_SPS, _HEVC_SPS = 7, 33


def stream_chroma_location(codec: str, extradata: bytes, first_packet: bytes) -> int:
    """Return the chroma sample location by FFmpeg's numbers: 1 left, 2 center, 3 top left, …; 0 if not stated.

    Args:
        codec: the codec's canonical name.
        extradata: the stream's codec configuration; may be empty.
        first_packet: the stream's first packet, parsed if the extradata does not state it; may be empty.
    """
    try:
        if codec == "h264":
            return _h264(avc_format(extradata), first_packet)
        if codec == "hevc":
            return _hevc(hevc_format(extradata), first_packet)
    except BitstreamError:
        return 0
    if codec == "av1":
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
