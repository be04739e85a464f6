"""The two forms of the pass over Matroska's blocks: by C, and by Python."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from seqpipe.video.source.source import open_source
from seqpipe.video.tables import matroska
from seqpipe.video.tables.gate import UnusableTablesError
from tests.support.media import made

NAMES = ["h264_mkv", "hevc_mkv", "vp9", "vp8_altref", "audio_first", "vfr_webm"]


def outcome(way, source, film):
    try:
        return way(source, film)
    except UnusableTablesError as reason:
        return str(reason)


@pytest.fixture(scope="module", autouse=True)
def native():
    if matroska._native() is None:
        pytest.skip("no C compiler")


@pytest.mark.parametrize("name", NAMES)
def test_both_find_the_same(name, tmp_path):
    data = made(name).read_bytes()
    path = tmp_path / "film.mkv"
    path.write_bytes(data)
    film = matroska.read_header(open_source(path))
    random, refused = np.random.default_rng(len(data)), 0
    for at in [
        None,
        *random.integers(film.begin, len(data), 150).tolist(),
        *range(film.begin, film.begin + 40),
    ]:
        broken = bytearray(data)
        if at is not None:
            broken[at] ^= int(random.choice([1, 2, 16, 128, 255]))
        path.write_bytes(broken)
        value, other = (
            outcome(way, open_source(path), film) for way in (matroska._by_c, matroska._by_python)
        )
        assert type(value) is type(other)
        if isinstance(value, str):
            refused += 1
        else:
            for a, b in zip(value, other, strict=True):
                np.testing.assert_array_equal(a, b)
    assert refused


@pytest.mark.parametrize("room", [16, 100])
def test_more_blocks_than_there_is_room_for_come_in_parts(room, monkeypatch):
    source = open_source(made("h264_mkv"))
    film = matroska.read_header(source)
    monkeypatch.setattr(matroska, "_CAPACITY", room)
    found, expected = matroska._by_c(source, film), matroska._by_python(source, film)
    if found is not None:
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)
    assert matroska.read_tables(source, film).pts.tolist() == expected[0].tolist()


def element(identity: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return identity + (len(body) | 0x4000).to_bytes(2, "big") + body


def cluster(*groups: list[bytes]) -> bytes:
    return element(
        b"\x1f\x43\xb6\x75", element(b"\xe7", b"\x64"), *(element(b"\xa0", *parts) for parts in groups)
    )


@pytest.mark.parametrize("way", [matroska._by_c, matroska._by_python])
def test_a_group_of_blocks_is_one_frame(way, tmp_path):
    """FFmpeg writes groups only for frames with a duration or side data; other writers for all."""
    header = matroska.read_header(open_source(made("h264_mkv")))
    block, other, refers, lasts, adds = (
        element(b"\xa1", bytes([header.track | 0x80]), b"\x00\x05\x00", b"picture"),
        element(b"\xa1", bytes([header.track + 1 | 0x80]), b"\x00\x05\x00", b"sound"),
        element(b"\xfb", b"\xff"),
        element(b"\x9b", b"\x28"),
        element(b"\x75\xa1"),
    )

    def read(*groups):
        path = tmp_path / "groups.mkv"
        path.write_bytes(cluster(*groups))
        return way(open_source(path), replace(header, begin=0, end=path.stat().st_size))

    pts, size, _, duration, key = read([block, lasts], [other], [refers, block], [other, adds])
    assert (pts.tolist(), size.tolist()) == ([105, 105], [7, 7])
    assert (duration.tolist(), key.tolist()) == ([40, -1], [1, 0])
    for group in ([block, block], [block, adds]):
        with pytest.raises(UnusableTablesError, match="a frame has more than one block"):
            read([block], group)
