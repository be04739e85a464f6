"""Elementary streams hold the units that FFmpeg's bitstream filters give, and the headers where decoding starts."""

from __future__ import annotations

import av
import pytest
from av.bitstream import BitStreamFilterContext

from seqpipe.video.bitstream.bits import BitstreamError, nal_spans
from seqpipe.video.bitstream.elementary import ElementaryStream
from tests.support.media import made

FILTERS = {"h264": "h264_mp4toannexb", "hevc": "hevc_mp4toannexb"}


def units(data):
    """The NAL units of an Annex B stream; zeros between them belong to none."""
    return [data[begin:end].rstrip(b"\0") for begin, end in nal_spans(data, 0)]


def is_parameter_set(codec, unit):
    return unit[0] & 31 in (7, 8) if codec == "h264" else unit[0] >> 1 & 63 in (32, 33, 34)


@pytest.mark.parametrize(
    "name", ["h264", "h264_slices", "h264_open_gop", "h264_mkv", "h264_ts", "hevc", "hevc_open_gop"]
)
def test_units_are_those_of_ffmpegs_filter(name):
    with av.open(str(made(name))) as container:
        stream = container.streams.video[0]
        codec, extradata = stream.codec_context.name, stream.codec_context.extradata or b""
        packets = [packet for packet in container.demux(stream) if packet.size]
        ours = ElementaryStream(codec, extradata)
        judge = BitStreamFilterContext(FILTERS[codec], in_stream=stream)
        for number, packet in enumerate(packets):
            mine = units(ours.packet(bytes(packet), first=number == 0))
            theirs = [unit for given in judge.filter(packet) for unit in units(bytes(given))]
            assert [u for u in mine if not is_parameter_set(codec, u)] == [
                u for u in theirs if not is_parameter_set(codec, u)
            ]
            if number == 0:
                assert {u for u in theirs if is_parameter_set(codec, u)} <= set(mine)


def test_the_header_comes_only_where_decoding_starts():
    record = bytes([1, 66, 0, 30, 0xFF, 0xE1, 0, 2, 0x67, 1, 1, 0, 1, 0x68])
    stream = ElementaryStream("h264", record)
    header = b"\0\0\0\1\x67\1\0\0\0\1\x68"
    slices = b"\0\0\0\2\x65\5\0\0\0\1\x06"
    assert stream.packet(slices, first=True) == header + b"\0\0\0\1\x65\5\0\0\0\1\x06"
    assert stream.packet(slices, first=False) == b"\0\0\0\1\x65\5\0\0\0\1\x06"
    assert stream.packet(b"\0\0\0\2\x65\5", first=False) == b"\0\0\0\1\x65\5"


@pytest.mark.parametrize("codec", ["vp8", "vp9"])
def test_codecs_without_units_go_through_as_they_are(codec):
    assert ElementaryStream(codec, b"\1\2").packet(b"anything", first=True) == b"anything"


def test_mpeg4_gets_its_header():
    assert (
        ElementaryStream("mpeg4", b"\0\0\1\xb0").packet(b"\0\0\1\xb6", first=True) == b"\0\0\1\xb0\0\0\1\xb6"
    )


def test_a_length_beyond_the_packet_is_refused():
    record = bytes([1, 66, 0, 30, 0xFF, 0xE1, 0, 2, 0x67, 1, 1, 0, 1, 0x68])
    with pytest.raises(BitstreamError, match="longer than its packet"):
        ElementaryStream("h264", record).packet(b"\0\0\0\x09\x65\5", first=False)
