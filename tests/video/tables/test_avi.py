"""AVI by its index: only where that is of the chunks themselves."""

from __future__ import annotations

import pytest

from seqpipe.video.index.from_tables import index_of_tables
from seqpipe.video.source.source import open_source
from tests.support.media import made


def changed(data: bytes, row: int, byte: int) -> bytes:
    """With one bit of a row of ``idx1`` turned over."""
    at = data.rindex(b"idx1") + 8 + 16 * row + byte
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


@pytest.mark.parametrize("name", ["mjpeg", "huffyuv"])
def test_an_index_is_believed_only_where_it_is_of_the_chunks(name):
    data = made(name).read_bytes()
    assert index_of_tables(open_source(data)) is not None
    for row in (2, 20, 25):
        for byte in (8, 9, 12, 13):  # of the place, of the size
            assert index_of_tables(open_source(changed(data, row, byte))) is None
    assert index_of_tables(open_source(data[:-40])) is None


def test_an_index_is_believed_only_where_the_headers_agree():
    data = made("mjpeg").read_bytes()
    length = data.index(b"strh") + 8 + 32
    frames = int.from_bytes(data[length : length + 4], "little")
    more = (frames + 3).to_bytes(4, "little")
    assert index_of_tables(open_source(data[:length] + more + data[length + 4 :])) is None
    riff = (int.from_bytes(data[4:8], "little") + 100).to_bytes(4, "little")
    assert index_of_tables(open_source(data[:4] + riff + data[8:])) is None
