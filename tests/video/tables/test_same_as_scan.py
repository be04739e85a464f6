"""An index from tables says what a scan says, of every file that there is; and frames are the same by both."""

from __future__ import annotations

from dataclasses import fields
from functools import cache

import numpy as np
import pytest

import seqpipe
from data_scripts.make_videos import ITEMS
from seqpipe.errors import DamagedSourceError, SeqpipeError
from seqpipe.video.decode.packets import HeldPackets, learn, open_packets
from seqpipe.video.index.build import build_index
from seqpipe.video.index.cache import load_index
from seqpipe.video.index.from_tables import index_of_tables
from seqpipe.video.index.open import open_index
from seqpipe.video.packet_index import PacketIndex
from seqpipe.video.source.source import open_source
from tests.support import ffmpeg
from tests.support.access import digests, shared_names, tap_surfaces
from tests.support.datasets import clips
from tests.support.deep import combined
from tests.support.media import made, names, shared_media

CONTAINERS = (".mp4", ".mov", ".m4v", ".3gp", ".mkv", ".webm")
ORDERS = ["h264", "h264_open_gop", "h264_flip_disposable", "hevc_radl", "hevc_open_gop", "av1", "h264_mkv"]
KNOWN = ("pts", "size", "offset", "key", "shown", "damaged", "checksum")
LEARNED = ("reference", "undecodable", "self_contained")

SCANNED = {
    "raw_bgr24": "whether a palette changes on the way is not read",
    "raw_yuyv": "whether a palette changes on the way is not read",
    "data_cut_fragmented": "its last fragment is cut",
    "data_cut_moov": "its tables are cut off",
    "data_cut_mkv": "it is cut",
    "data_cut_mp4": "packets lie beyond its end",
    "data_cut_webm": "it is cut",
    "duplicate_pts": "frames have one time, or its edit does not begin with its first frame",
    "h264_live_mkv": "a live recording states no lengths",
    "header_cut_mkv": "it is cut",
    "mpeg2": "packets of MPEG-2 may hold several pictures, or none",
    "noduration_vfr": "a live recording states no lengths",
    "odd_mpeg2": "packets of MPEG-2 may hold several pictures, or none",
    "vp8_altref": "hidden frames have the time of shown ones",
    "vp9_mp4_lost_reference": "a packet holds only zeros",
    "h264_lost_key": "a key packet is blanked",
    "h264_refresh": "it calls points of gradual refresh key packets",
    "header_cut_mp4": "its tables are cut off",
    "hevc_lost_key": "a key packet is blanked",
    "mpeg4": "packets of MPEG-4 may hold several pictures, or none",
    "no_frames": "it has no packets",
    "odd_mpeg4": "packets of MPEG-4 may hold several pictures, or none",
    "png": "whether each packet of such a codec shows a picture is not read",
    "qtrle": "whether each packet of such a codec shows a picture is not read",
    "raw_uyvy": "all of its packets are of one size, and need no table",
    "truncated_mdat": "packets lie beyond its end",
}


@cache
def scanned(path: str):
    return build_index(open_source(path))


def whole(index, path, seed):
    """The index with the kinds of all packets learned, in an order of no sense."""
    reader = HeldPackets(open_packets(open_source(path), index))
    for packet in np.random.default_rng(seed).permutation(len(index.packets))[:12]:
        learn(index, reader, np.array([packet]))
    learn(index, reader, np.arange(len(index.packets)))
    reader.close()
    return index


def check_same(path: str) -> bool:
    """See that the tables say what the scan says; whether they were believed."""
    index = index_of_tables(open_source(path))
    if index is None:
        return False
    truth = scanned(path)
    for name in KNOWN:
        np.testing.assert_array_equal(getattr(index.packets, name), getattr(truth.packets, name), name)
    learned = whole(index, path, seed=len(path))
    assert learned.packets.whole
    for name in LEARNED:
        np.testing.assert_array_equal(getattr(learned.packets, name), getattr(truth.packets, name), name)
    for field in fields(PacketIndex):
        if field.name != "packets":
            assert getattr(index, field.name) == getattr(truth, field.name)
    return True


def is_read(file: str) -> bool:
    return file.endswith(CONTAINERS)


@pytest.mark.parametrize("name", [name for name in names() if is_read(ITEMS[name].file)])
def test_a_made_file_is_indexed_as_by_a_scan(name):
    path = str(made(name))
    reason = next((why for kind, why in SCANNED.items() if name.startswith(kind)), "")
    if ITEMS[name].state == "unreadable":
        with pytest.raises(SeqpipeError):
            open_index(path)
        return
    believed = check_same(path)
    assert believed != bool(reason), reason or "its tables were not believed"


@pytest.mark.parametrize("name", shared_names())
def test_a_real_file_is_indexed_as_by_a_scan(name):
    if not is_read(name):
        pytest.skip("its container has no tables that are read")
    believed = check_same(str(shared_media() / name))
    reason = next((why for kind, why in SCANNED.items() if kind in name), "")
    assert believed != bool(reason), reason or "its tables were not believed"


@pytest.mark.parametrize(("name", "seed"), combined(ORDERS, range(3)))
def test_frames_do_not_depend_on_who_asked_first(name, seed, tmp_path, monkeypatch):
    """Windows, single frames and streams in any order, from an index that knows no kinds when they begin."""
    tap_surfaces(monkeypatch)
    random = np.random.default_rng(seed)
    path = str(made(name))
    with monkeypatch.context() as patch:
        patch.setattr("seqpipe.video.index.from_tables.index_of_tables", lambda *_, **__: None)
        truth = all_frames(path, tmp_path / "scan")
    with seqpipe.open(path, cache_dir=tmp_path / "tables") as video:
        assert not video.index.packets.whole
        for _ in range(12):
            length = int(random.integers(1, 9))
            stride = int(random.integers(1, 5))
            numbers = np.arange(length) * stride + int(random.integers(0, len(video)))
            numbers = random.permutation(numbers[numbers < len(video)])
            lost = {n for n in numbers.tolist() if n not in truth}
            if lost:
                with pytest.raises(DamagedSourceError) as error:
                    video.frames(numbers.tolist())
                assert set(error.value.lost) == lost
            else:
                got = digests(video.frames(numbers.tolist()))
                assert got == [(n, truth[n]) for n in numbers.tolist()]
    assert all_frames(path, tmp_path / "tables") == truth


def all_frames(path, cache):
    """What each frame that is not lost looks like."""
    found = {}
    with seqpipe.open(path, cache_dir=cache) as video:
        try:
            for frame in video:
                found.update(digests(frame))
        except DamagedSourceError:
            pass
    return found


def test_what_was_learned_is_kept(tmp_path):
    """By a reader once it is closed, by an engine meanwhile; and it is what a scan finds."""
    path, cache = str(made("h264_short_gops")), tmp_path / "cache"
    stamp = open_source(path).stamp()
    with seqpipe.open(path, cache_dir=cache) as video:
        video[0]
    assert not load_index(cache, stamp).packets.known[12:].any()
    with seqpipe.open(path, cache_dir=cache) as video:
        for _ in video:
            pass
    found = load_index(cache, stamp).packets
    assert not len(found.known)
    for name in (*KNOWN, *LEARNED):
        np.testing.assert_array_equal(getattr(found, name), getattr(scanned(path).packets, name), name)

    cache = tmp_path / "other"
    with clips([path], length=1, cache_dir=cache) as dataset:
        assert len([*dataset]) == len(video)
    assert not len(load_index(cache, stamp).packets.known)


def test_an_index_of_another_content_is_not_kept(tmp_path):
    path, cache = tmp_path / "video.mp4", tmp_path / "cache"
    path.write_bytes(made("h264").read_bytes())
    with seqpipe.open(path, cache_dir=cache) as video:
        list(video)
        path.write_bytes(made("h264_short_gops").read_bytes())
        now = open_source(path).stamp()
    assert load_index(cache, now) is None


def test_what_was_learned_does_not_replace_what_a_scan_found(tmp_path):
    path, cache = str(made("h264_short_gops")), tmp_path / "cache"
    with seqpipe.open(path, cache_dir=cache) as video:
        list(video)
        assert open_index(path, cache_dir=cache, verified=True).verified
    assert load_index(cache, open_source(path).stamp()).verified


def test_facts_that_are_remembered_are_those_of_the_file():
    """All files one after the other, none forgotten: each is told what it would be told if it were the first."""
    for _ in range(2):
        for name in names():
            if is_read(ITEMS[name].file) and ITEMS[name].state != "unreadable":
                path = str(made(name))
                index = index_of_tables(open_source(path))
                assert index is None or index.info == scanned(path).info


@pytest.mark.parametrize("ending", ["mkv", "mp4"])
@pytest.mark.parametrize("name", ["hevc_open_gop", "h264_open_gop", "hevc_radl"])
def test_leading_pictures_of_a_cut_file_are_no_frames(name, ending, tmp_path):
    """Cut at a later key frame, which is followed by pictures that are predicted from before it."""
    path = tmp_path / f"cut.{ending}"
    ffmpeg.write(path, "-ss", "0.9", "-i", str(made(name)), "-c", "copy", "-copyts")
    believed = check_same(str(path))
    assert believed or ending == "mp4"  # FFmpeg writes an edit there
    with seqpipe.open(path, cache_dir=tmp_path) as video:
        assert len(list(video)) == len(video) == len(scanned(str(path)))
