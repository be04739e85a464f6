"""Damaged bytes: never an exception, and no packet is given up that cannot be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe.video.bitstream.kind import PacketKind, chroma_location, classifier

from .clips import AV1, H264, HEVC, MPEG, VP9, Recipe, encoded

CODECS = ("h264", "hevc", "av1", "vp8", "vp9", "mpeg1video", "mpeg2video", "mpeg4", "mjpeg", "msmpeg4v3")
MADE = {
    "h264-mp4": H264["defaults"],
    "h264-ts": H264["sliced-ts"],
    "hevc-mp4": HEVC["layers"],
    "hevc-ts": HEVC["sliced-ts"],
    "av1": AV1["mp4"],
    "vp9": VP9["layers"],
    "mpeg2": MPEG["mpeg2"],
    "mpeg4": MPEG["mpeg4-avi"],
}
UNREADABLE = {
    "h264-long-unit": ("h264", b"\1\x64\0\x1e\xff\xe0\0", b"\0\0\xff\xff\x01\x9a"),
    "h264-no-start-code": ("h264", b"", b"\x01\x9a\x10\x20\x30"),
    "h264-slice-type": ("h264", b"", b"\0\0\1\x01\x84\x20"),
    "hevc-no-parameters": ("hevc", b"", b"\0\0\1\x00\x01\xd0\x09"),
    "hevc-no-temporal-id": ("hevc", b"", b"\0\0\1\x02\x00\xd0\x09"),
    "av1-no-sequence": ("av1", b"", b"\x32\x03\x30\x00\x00"),
    "av1-long-unit": ("av1", b"", b"\x32\x7f\x30\x00\x00"),
    "vp9-no-marker": ("vp9", b"", b"\x00\x01\x02\x03"),
    "mpeg2-cut": ("mpeg2video", b"", b"\0\0\1\0\0"),
    "mpeg4-cut": ("mpeg4", b"", b"\0\0\1\xb6"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_is_kept_and_expected_to_be_shown(name: str) -> None:
    codec, extradata, packet = UNREADABLE[name]
    kind = classifier(codec, extradata).classify(packet)
    assert (kind.reference, kind.shown, kind.random_access) == (True, True, None)


@given(st.sampled_from(CODECS), st.binary(max_size=80), st.lists(st.binary(max_size=80), max_size=4))
def test_random_bytes_never_raise(codec: str, extradata: bytes, packets: list[bytes]) -> None:
    classify = classifier(codec, extradata).classify
    for packet in packets:
        assert classify(packet) == classify(packet) or codec in ("vp9", "av1", "mpeg4")
        chroma_location(codec, extradata, packet)


UNIT = st.builds(
    lambda head, rest: b"\0\0\1" + head + rest, st.binary(min_size=1, max_size=2), st.binary(max_size=40)
)


@given(
    st.sampled_from(CODECS),
    st.lists(UNIT, max_size=5).map(b"".join),
    st.lists(UNIT, max_size=5).map(b"".join),
)
def test_random_units_never_raise(codec: str, extradata: bytes, packet: bytes) -> None:
    assert classifier(codec, extradata).classify(packet).temporal_id in range(7)
    assert chroma_location(codec, extradata, packet) in range(7)


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_cut_packets_and_extradata_never_raise(made: Recipe) -> None:
    stream = encoded(made)
    for length in range(0, len(stream.extradata) + 1):
        classify = classifier(stream.codec, stream.extradata[:length]).classify
        assert classify(stream.packets[0]).reference
        assert chroma_location(stream.codec, stream.extradata[:length], stream.packets[0][:64]) in range(7)
    for packet in stream.packets[:6]:
        for length in [*range(0, min(len(packet), 120)), len(packet) - 1]:
            classifier(stream.codec, stream.extradata).classify(packet[:length])


@given(st.sampled_from(sorted(MADE)), st.data())
def test_flipped_bits_never_raise(name: str, data: st.DataObject) -> None:
    stream = encoded(MADE[name])
    classify = classifier(stream.codec, stream.extradata).classify
    for packet in stream.packets[:4]:
        damaged = bytearray(packet)
        for bit in data.draw(st.lists(st.integers(0, min(len(packet), 64) * 8 - 1), max_size=8)):
            damaged[bit // 8] ^= 1 << bit % 8
        assert isinstance(classify(bytes(damaged)), PacketKind)


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_memory_views_are_read_like_bytes(made: Recipe) -> None:
    stream = encoded(made)
    plain, viewed = (classifier(stream.codec, stream.extradata) for _ in range(2))
    assert [plain.classify(p) for p in stream.packets] == [
        viewed.classify(memoryview(p)) for p in stream.packets
    ]


@pytest.mark.parametrize("codec", ["h264", "hevc", "av1", "vp8", "vp9", "mpeg2video", "mpeg4"])
def test_an_empty_packet_is_kept(codec: str) -> None:
    assert classifier(codec, b"").classify(b"").reference
