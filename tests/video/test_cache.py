"""Indexes on disk: whole, fresh, or built anew."""

from __future__ import annotations

import json
import logging
import os
import zlib
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from seqpipe.errors import OutputError
from seqpipe.video.index.build import build_index
from seqpipe.video.index.cache import (
    PREFIX,
    cache_directory,
    cache_file,
    load_facts,
    load_index,
    load_summary,
    save_index,
)
from seqpipe.video.index.open import open_index, summary
from seqpipe.video.packet_index import PacketTable
from seqpipe.video.source.source import open_source
from tests.support.media import made


@pytest.fixture
def video(tmp_path):
    copy = tmp_path / "a video.mp4"
    copy.write_bytes(made("h264").read_bytes())
    return copy


def stored(directory, video):
    return cache_file(directory, open_source(video).stamp())


def rewrite_header(path, change):
    """Change the header of an index, its checksum made right."""
    data = path.read_bytes()
    magic, length, _ = PREFIX.unpack_from(data)
    begin, end = PREFIX.size, PREFIX.size + length
    header = json.loads(data[begin:end])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(PREFIX.pack(magic, len(text), zlib.crc32(text)) + text + data[end:])


def assert_same(index, other):
    assert index.info == other.info
    assert (index.extradata, index.codec_tag, index.coded_bits) == (
        other.extradata,
        other.codec_tag,
        other.coded_bits,
    )
    assert (index.dropped_at_start, index.end_s, index.cut) == (
        other.dropped_at_start,
        other.end_s,
        other.cut,
    )
    for field in fields(PacketTable):
        a, b = getattr(index.packets, field.name), getattr(other.packets, field.name)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["h264", "hevc", "vp9", "h264_ts", "mpeg4_packed", "data_cut_mp4"])
def test_what_comes_back_is_what_was_stored(name, tmp_path):
    source = open_source(made(name))
    index = build_index(source)
    save_index(tmp_path, source.stamp(), index)
    assert_same(load_index(tmp_path, source.stamp()), index)
    assert load_summary(tmp_path, source.stamp()) == index.info


def test_the_second_opening_reads_no_packet(video, tmp_path, monkeypatch):
    first = open_index(video, cache_dir=tmp_path / "cache")
    for way in ("index.build.build_index", "index.from_tables.index_of_tables"):
        monkeypatch.setattr(f"seqpipe.video.{way}", lambda *_, **__: pytest.fail("it was built again"))
    assert_same(open_index(video, cache_dir=tmp_path / "cache"), first)
    assert summary(video, cache_dir=tmp_path / "cache") == first.info


def test_a_file_that_changed_is_indexed_anew(video, tmp_path):
    cache = tmp_path / "cache"
    before = open_index(video, cache_dir=cache)
    video.write_bytes(made("h264_short_gops").read_bytes())
    after = open_index(video, cache_dir=cache)
    assert after.packets.key.sum() > before.packets.key.sum()
    os.utime(video, ns=(1, 1))
    assert load_index(cache, open_source(video).stamp()) is None, (
        "the same size at another time is another file"
    )


@pytest.mark.parametrize("part", ["magic", "header", "body", "short", "empty"])
def test_a_damaged_entry_is_built_anew_never_trusted(video, tmp_path, part, caplog):
    cache = tmp_path / "cache"
    index = open_index(video, cache_dir=cache)
    path = stored(cache, video)
    data = bytearray(path.read_bytes())
    if part in ("short", "empty"):
        data = data[: len(data) // 2 if part == "short" else 0]
    else:
        data[{"magic": 0, "header": 40, "body": len(data) - 1}[part]] ^= 0x10
    path.write_bytes(data)
    with caplog.at_level(logging.WARNING):
        assert load_index(cache, open_source(video).stamp()) is None
    assert "rebuilt" in caplog.text
    assert_same(open_index(video, cache_dir=cache), index)
    assert_same(load_index(cache, open_source(video).stamp()), index)


@pytest.mark.parametrize("name", ["extradata", "end_s", "set_ups", "columns", "info"])
def test_an_index_that_lacks_what_others_have_is_built_anew(video, tmp_path, name, caplog):
    """Between two commits a header got more fields, and every video that was indexed before was a KeyError."""
    cache = tmp_path / "cache"
    index = open_index(video, cache_dir=cache)
    path = stored(cache, video)
    rewrite_header(path, lambda header: header.pop(name))
    with caplog.at_level(logging.WARNING):
        assert_same(open_index(video, cache_dir=cache), index)
    assert f"cannot be read (KeyError('{name}')): it is rebuilt" in caplog.text
    assert_same(load_index(cache, open_source(video).stamp()), index)


def test_every_flipped_byte_is_noticed(video, tmp_path):
    cache = tmp_path / "cache"
    open_index(video, cache_dir=cache)
    path, stamp = stored(cache, video), open_source(video).stamp()
    data = path.read_bytes()
    for place in np.random.default_rng(0).integers(0, len(data), 200):
        broken = bytearray(data)
        broken[place] ^= 1 << int(place) % 8
        path.write_bytes(broken)
        assert load_index(cache, stamp) is None


def test_a_file_that_is_cut_short_at_any_place_is_built_anew(video, tmp_path):
    """Columns are read, not mapped: a mapped file that someone cuts short ends the process."""
    cache = tmp_path / "cache"
    index = open_index(video, cache_dir=cache)
    path, stamp = stored(cache, video), open_source(video).stamp()
    data = path.read_bytes()
    for size in (*range(0, len(data), 97), len(data) - 1):
        path.write_bytes(data[:size])
        assert load_index(cache, stamp) is None
        load_facts(cache, stamp)  # what its header tells, if that is whole
    path.write_bytes(data)
    found = load_index(cache, stamp)
    path.write_bytes(b"")  # while it is used
    assert_same(found, index)
    np.testing.assert_array_equal(found.timestamps, index.timestamps)


def test_an_index_of_an_older_version_is_built_anew_without_a_word(video, tmp_path, caplog):
    cache = tmp_path / "cache"
    index = open_index(video, cache_dir=cache)
    path = stored(cache, video)
    rewrite_header(path, lambda header: header.update(format=7))
    with caplog.at_level(logging.WARNING):
        assert_same(open_index(video, cache_dir=cache), index)
    assert not caplog.records
    assert_same(load_index(cache, open_source(video).stamp()), index)


def test_columns_lie_where_arrays_can_use_them(video, tmp_path):
    cache = tmp_path / "cache"
    open_index(video, cache_dir=cache)
    packets = load_index(cache, open_source(video).stamp()).packets
    columns = [getattr(packets, field.name) for field in fields(PacketTable)]
    assert all(column.flags.aligned for column in columns)
    assert {column.flags.writeable for column in columns[:5]} == {False}
    order = packets.frame_packet
    del packets.__dict__["frame_packet"]
    np.testing.assert_array_equal(packets.frame_packet, order)


def test_an_unwritable_cache_costs_a_warning_not_the_video(video, tmp_path, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with caplog.at_level(logging.WARNING):
        assert len(open_index(video, cache_dir=blocked)) == len(
            open_index(video, cache_dir=tmp_path / "cache")
        )
        open_index(made("h264_no_b"), cache_dir=blocked)
    assert "SEQPIPE_CACHE_DIR" in caplog.text
    assert f"{blocked}: " in caplog.text
    assert len(caplog.records) == 1, "once for all files of a dataset"
    with pytest.raises(OutputError, match="cannot be written"):
        save_index(blocked, open_source(video).stamp(), build_index(open_source(video)))


def test_a_failed_write_leaves_nothing_behind(video, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OutputError, match="No space left on device"):
        save_index(tmp_path, open_source(video).stamp(), build_index(open_source(video)))
    assert not [p for p in tmp_path.rglob("*.idx*") if p.is_file()]


def test_where_indexes_are_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("SEQPIPE_CACHE_DIR", str(tmp_path / "environment"))
    assert cache_directory(tmp_path / "argument") == tmp_path / "argument"
    assert cache_directory() == tmp_path / "environment"
    monkeypatch.delenv("SEQPIPE_CACHE_DIR")
    assert cache_directory().parts[-2:] == ("seqpipe", "index")


def test_memory_is_not_cached(tmp_path):
    index = open_index(made("h264").read_bytes(), cache_dir=tmp_path)
    assert len(index) == len(open_index(made("h264"), cache_dir=tmp_path / "other"))
    assert not list(tmp_path.glob("??"))
