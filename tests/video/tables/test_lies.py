"""Tables that lie: the scan, an error by name, or an index; in bounded time and memory, and never other frames."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import seqpipe
from seqpipe.errors import SeqpipeError
from seqpipe.video.index.build import build_index
from seqpipe.video.index.from_tables import index_of_tables
from seqpipe.video.source.source import open_source
from seqpipe.video.tables import facts
from seqpipe.video.tables.entries import check_first
from seqpipe.video.tables.facts import _message_kinds
from seqpipe.video.tables.gate import UnusableTablesError, check
from seqpipe.video.tables.matroska import read_header
from seqpipe.video.tables.matroska import read_tables as read_blocks
from seqpipe.video.tables.mp4 import read_movie, read_tables
from tests.support.deep import deep
from tests.support.media import made

LONGEST_S = 5.0
MOST_BYTES = 64 << 20
# of a packet whose length lies the scan may find that it holds no picture, and give the next one its number
MAY_DIFFER = {"shown", "info", "end_s", "key"}


def box(data: bytes, *kinds: bytes) -> tuple[int, int]:
    """Where the body of a box in boxes begins and ends."""
    begin, end = 0, len(data)
    for kind in kinds:
        at = begin
        while data[at + 4 : at + 8] != kind:
            at += int.from_bytes(data[at : at + 4], "big")
            assert at < end
        begin, end = at + 8, at + int.from_bytes(data[at : at + 4], "big")
    return begin, end


def table(data: bytes, kind: bytes) -> int:
    """Where the body of a table begins; boxes that hold others are gone through."""
    return data.index(kind, data.index(b"stbl")) + 4


def changed(data: bytes, at: int, value: int, size: int = 4) -> bytes:
    return data[:at] + value.to_bytes(size, "big") + data[at + size :]


def outcome(build, data):
    try:
        return build(open_source(data))
    except SeqpipeError as error:
        return error


def differences(index, other) -> set[str]:
    columns = ("pts", "size", "offset", "key", "shown", "damaged")
    found = {n for n in columns if not np.array_equal(getattr(index.packets, n), getattr(other.packets, n))}
    rest = ("info", "extradata", "codec_tag", "coded_bits", "end_s", "cut", "dropped_at_start", "set_ups")
    return found | {name for name in rest if getattr(index, name) != getattr(other, name)}


def refused_or_scanned(data: bytes) -> set[str]:
    """What an index by tables has that a scan finds otherwise; nothing if the tables are refused."""
    facts.forget()
    began = time.process_time()
    index = outcome(index_of_tables, data)
    assert time.process_time() - began < LONGEST_S
    if index is None or isinstance(index, SeqpipeError):
        return set()
    truth = outcome(build_index, data)
    assert not isinstance(truth, SeqpipeError)
    return differences(index, truth)


@pytest.mark.parametrize("name", ["h264", deep("hevc"), "h264_mkv"])
def test_one_wrong_byte_gives_the_scan_an_error_or_the_same(name):
    data = made(name).read_bytes()
    begin, end = (0, len(data)) if name.endswith("mkv") else box(data, b"moov")
    random, other = np.random.default_rng(7), 0
    for at in random.integers(begin, end, 150).tolist():
        broken = changed(data, at, data[at] ^ int(random.choice([1, 2, 16, 128, 255])), 1)
        found = refused_or_scanned(broken)
        other += bool(found)
        assert found <= MAY_DIFFER or name.endswith("mkv")
    assert other <= 4


LIES = {
    "more packets than there are sizes": lambda d: changed(d, table(d, b"stsz") + 8, 0xFFFFFFFF),
    "a size past the end": lambda d: changed(d, table(d, b"stsz") + 12 + 4 * 7, 0x7FFFFFFF),
    "an empty packet": lambda d: changed(d, table(d, b"stsz") + 12 + 4 * 7, 0),
    "times of more packets": lambda d: changed(d, table(d, b"stts") + 8, 0x7FFFFFFF),
    "times that run backwards": lambda d: changed(d, table(d, b"stts") + 12, 0xFFFFFF00),
    "a chunk past the end": lambda d: changed(d, table(d, b"stco") + 8, 0xFFFFFF00),
    "chunks of no number": lambda d: changed(d, table(d, b"stsc") + 8, 0),
    "a key packet that is none": lambda d: changed(d, table(d, b"stss") + 8 + 4, 8),
    "a key packet beyond all": lambda d: changed(d, table(d, b"stss") + 8 + 4, 4000),
    "a clock of no ticks": lambda d: changed(d, d.index(b"mdhd") + 4 + 12, 0),
    "a box longer than its own": lambda d: changed(d, table(d, b"stsz") - 8, 0x7FFFFFFF),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_cannot_be_is_left_to_the_scan(lie):
    data = LIES[lie](made("h264").read_bytes())
    tracemalloc.start()
    began = time.process_time()
    try:
        assert outcome(index_of_tables, data) is None
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < LONGEST_S
    assert most < MOST_BYTES


def test_tables_of_a_gigabyte_are_not_read(tmp_path):
    path = tmp_path / "large.mp4"
    data = made("h264").read_bytes()
    with path.open("wb") as file:
        file.write(data[: box(data, b"ftyp")[1]])
        file.write((1 << 30).to_bytes(4, "big") + b"moov")
        file.truncate(3 << 30)
    with pytest.raises(UnusableTablesError, match="too large"):
        read_movie(open_source(path))


def test_frames_of_lying_sizes_are_lost_never_others(tmp_path):
    """Whatever a wrong length makes of its packet, frames that are given are those of their number."""
    data = made("h264").read_bytes()
    with seqpipe.open(data) as video:
        truth = [frame.numpy() for frame in video]
    sizes = table(data, b"stsz") + 12
    given = 0
    for number in range(1, 40, 12):
        at = sizes + 4 * number
        lie = changed(data, at, int.from_bytes(data[at : at + 4], "big") - 3)
        try:
            video = seqpipe.open(lie)
        except SeqpipeError:
            continue
        with video:
            if len(video) != len(truth):
                continue  # a scan has counted what it could read
            for frame in range(len(video)):
                try:
                    found = video[frame].numpy()
                except SeqpipeError:
                    continue
                assert (found == truth[frame]).all()
                given += 1
    assert given


@pytest.mark.parametrize("cut", [0.2, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("name", ["h264_faststart", "h264_mkv", "vp9"])
def test_a_cut_file_is_scanned(name, cut):
    data = made(name).read_bytes()
    assert outcome(index_of_tables, data[: int(len(data) * cut)]) is None


def test_places_are_read_as_they_stand_in_the_file():
    for name, read in (("h264", _of_movie), ("h264_mkv", _of_film)):
        source = open_source(made(name))
        tables = read(source)
        check(tables, source.size())
        with pytest.raises(UnusableTablesError, match="beyond the end"):
            check(tables, source.size() // 2)


def test_packets_out_of_order_lie_beside_each_other():
    source = open_source(made("h264"))
    tables = _of_movie(source)
    size = np.full_like(tables.size, 10)
    swapped = tables.offset.copy()
    swapped[[3, 4]] = swapped[[4, 3]]
    check(replace(tables, size=size, offset=swapped), source.size())
    swapped[3] = swapped[5] + 9
    with pytest.raises(UnusableTablesError, match="packets overlap"):
        check(replace(tables, size=size, offset=swapped), source.size())


@pytest.mark.parametrize("column", ["pts", "size", "offset", "key", "shown"])
def test_tables_that_ffmpeg_contradicts_are_refused(column):
    source = open_source(made("h264"))
    tables = _of_movie(source)
    check_first(source, tables)
    other = getattr(tables, column).copy()
    other[1] = not other[1] if other.dtype == np.bool_ else other[1] + 1
    with pytest.raises(UnusableTablesError, match="packet 1 of FFmpeg differs"):
        check_first(source, replace(tables, **{column: other}))
    with pytest.raises(UnusableTablesError, match="FFmpeg demuxes no packet"):
        check_first(open_source(made("no_frames")), tables)


def test_messages_of_a_unit_follow_one_another():
    """Kinds and lengths from 255 on take more than one byte."""
    messages = [(5, b"ab"), (300, b""), (45, b"\x01" * 260), (1, b"\x05")]
    payload = b"".join(
        b"".join(b"\xff" * (n // 255) + bytes([n % 255]) for n in (kind, len(body))) + body
        for kind, body in messages
    )
    assert _message_kinds(payload + b"\x80") == {5, 300, 45, 1}
    assert _message_kinds(b"\xff\xff\xff") == {-1}


def _of_movie(source):
    movie = read_movie(source)
    return read_tables(movie, movie.tracks[0])


def _of_film(source):
    return read_blocks(source, read_header(source))
