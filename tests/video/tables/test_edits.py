"""Edit lists of MP4: what is shown, and when, is what FFmpeg shows, and the scan finds."""

from __future__ import annotations

import struct

import pytest

from seqpipe.video.index.build import build_index
from seqpipe.video.index.from_tables import index_of_tables
from seqpipe.video.source.source import open_source
from tests.support.deep import combined
from tests.support.media import made

from .test_same_as_scan import check_same

ONCE = 1 << 16
EMPTY = -1
# (ticks of the movie's clock, 1000 a second; first tick of the track's, 12800 a second; rate)
EDITS = {
    "all": [(1920, 1024, ONCE)],
    "from before the first frame": [(1920, 0, ONCE)],
    "between two frames": [(1920, 1111, ONCE)],
    "the middle": [(1000, 5120, ONCE)],
    "the middle, between frames": [(500, 6000, ONCE)],
    "not the end": [(1000, 1024, ONCE)],
    "not all of the last frame": [(1900, 1024, ONCE)],
    "nothing first": [(500, EMPTY, ONCE), (1920, 1024, ONCE)],
    "nothing first, then the middle": [(333, EMPTY, ONCE), (900, 7000, ONCE)],
    "the last frames": [(100, 20000, ONCE)],
    "twice as fast, which FFmpeg ignores": [(1920, 1024, 2 * ONCE)],
    "of no rate": [(1920, 1024, 0)],
}
SCANNED = {
    "one twice": [(500, 1024, ONCE), (500, 1024, ONCE)],
    "two from one GOP": [(500, 1024, ONCE), (500, 10240, ONCE)],
    "with a gap": [(400, 1024, ONCE), (200, EMPTY, ONCE), (400, 12000, ONCE)],
    "of no length": [(0, 1024, ONCE)],
    "behind the end": [(1000, 1 << 20, ONCE)],
}
NAMES = ["h264", "h264_no_b", "hevc_open_gop", "h264_short_gops", "mjpeg_422"]


def edited(data: bytes, rows: list[tuple[int, int, int]], *, long: bool = False) -> bytes:
    """A file whose ``moov`` comes last, with other edits of its first track."""
    at = data.index(b"moov") - 4
    moov = data[at:]
    begin = moov.index(b"edts") - 4
    end = begin + int.from_bytes(moov[begin : begin + 4], "big")
    body = b"".join(struct.pack(">QqI" if long else ">IiI", *row) for row in rows)
    table = struct.pack(">I4sII", 16 + len(body), b"elst", long << 24, len(rows)) + body
    box = struct.pack(">I4s", 8 + len(table), b"edts") + table
    grown = bytearray(moov[:begin] + box + moov[end:])
    for place in (0, moov.index(b"trak") - 4):
        size = int.from_bytes(grown[place : place + 4], "big") + len(box) - (end - begin)
        grown[place : place + 4] = size.to_bytes(4, "big")
    return data[:at] + bytes(grown)


@pytest.mark.parametrize(("edit", "name", "long"), combined([*EDITS], NAMES, [False, True]))
def test_what_an_edit_shows_is_what_the_scan_finds(name, edit, long, tmp_path):
    path = tmp_path / "edited.mp4"
    path.write_bytes(edited(made(name).read_bytes(), EDITS[edit], long=long))
    assert check_same(str(path))
    assert not build_index(open_source(path)).cut  # what an edit leaves out is not missing


@pytest.mark.parametrize("edit", SCANNED)
def test_edits_that_show_packets_twice_or_none_are_left_to_the_scan(edit):
    assert index_of_tables(open_source(edited(made("h264").read_bytes(), SCANNED[edit]))) is None
