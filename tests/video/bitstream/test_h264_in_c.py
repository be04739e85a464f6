"""The two forms of reading H.264 packets: packets in a row by C, and each by Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe.video.bitstream import h264
from seqpipe.video.bitstream.kind import PacketKind, classifier, classify_all
from seqpipe.video.probe.probe import av_packet

from .clips import H264, encoded


@pytest.fixture(scope="module", autouse=True)
def native() -> None:
    if h264._native() is None:
        pytest.skip("no C compiler")


def both(extradata: bytes, packets: list[bytes]) -> tuple[list[PacketKind], list[PacketKind]]:
    """What C says of packets, in rows of seven, and what Python does."""
    one, other = classifier("h264", extradata), classifier("h264", extradata)
    in_rows = [packets[at : at + 7] for at in range(0, len(packets), 7)]
    by_c = [kind for some in in_rows for kind in classify_all(one, [av_packet(data) for data in some])]
    return by_c, [other.classify(data) for data in packets]


@pytest.mark.parametrize("name", H264)
def test_packets_of_encoders_are_the_same_kinds_whole_and_damaged(name: str) -> None:
    stream = encoded(H264[name])
    by_c, by_python = both(stream.extradata, list(stream.packets))
    assert by_c == by_python
    random = np.random.default_rng(len(stream.packets))
    for _ in range(40):
        broken = [bytearray(data) for data in stream.packets]
        for data in broken:
            data[int(random.integers(min(len(data), 60)))] ^= int(random.choice([1, 4, 32, 64, 128, 255]))
        broken += [data[: int(random.integers(1, len(data)))] for data in broken[:4]]
        by_c, by_python = both(stream.extradata, [bytes(data) for data in broken])
        assert by_c == by_python


def test_nearly_all_packets_are_read_by_c(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, left = encoded(H264["defaults"]), list[bytes]()
    found = classifier("h264", stream.extradata)
    by_python = found.classify

    def noted(data: bytes) -> PacketKind:
        left.append(data)
        return by_python(data)

    monkeypatch.setattr(found, "classify", noted)
    classify_all(found, [av_packet(data) for data in stream.packets])
    assert len(left) < len(stream.packets) / 4


UNITS = st.lists(
    st.builds(
        lambda kind, rest: b"\0\0\1" + bytes([kind]) + rest,
        st.sampled_from([0x01, 0x21, 0x41, 0x65, 0x02, 0x06, 0x09, 0x0C, 0x67, 0x68, 0x0A, 0x0F, 0x14]),
        st.lists(st.sampled_from([b"\0", b"\0\0\3", b"\x80", b"\x9a", b"\6\1\xc4", b"\xff"]), max_size=9).map(
            b"".join
        ),
    ),
    max_size=4,
).map(b"".join)


@given(st.lists(UNITS.filter(bool), min_size=1, max_size=6))
def test_packets_of_any_units_are_the_same_kinds(packets: list[bytes]) -> None:
    stream = encoded(H264["defaults"])
    form = stream.extradata if packets[0][3] == 0x14 else b""
    by_c, by_python = both(form, [b"\0\0\1" + stream.extradata[8:40], *packets])
    assert by_c == by_python
