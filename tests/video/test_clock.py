"""The rules for clocks that seqpipe/video/packet_index.py states, each on a file that needs it.

Frames are told by the numbers in their pixels; times are ffmpeg's wherever it does not guess.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

import seqpipe
from data_scripts.frame_code import read
from seqpipe.errors import FrameRangeError
from seqpipe.video.convert.output import OutputSpec
from seqpipe.video.index.build import build_index
from seqpipe.video.reader import VideoReader
from seqpipe.video.source.source import open_source
from tests.support import access, ffmpeg, media
from tests.support.deep import deep_but

_STEP_S = 0.04


def _numbers(path: Path) -> list[int]:
    """The numbers in the pixels of all frames, each asked for by its own number."""
    with VideoReader(path, output=OutputSpec(rotate=False)) as video:
        return [read(video[number].numpy()) for number in range(len(video))]


def _judged_times(path: Path) -> list[float]:
    return ffmpeg.frame_times(path)


def _spaced(first: float, count: int) -> list[float]:
    return pytest.approx([first + _STEP_S * number for number in range(count)])


@pytest.mark.parametrize("name", deep_but(media.names("sound")[1::7], media.names("sound")))
def test_frames_ascend_as_they_were_drawn(name):
    assert tuple(_numbers(media.made(name))) == media.entry(name).numbers
    index = access.indexed(media.made(name))
    assert len(index) == ffmpeg.count_frames(media.made(name)) == index.info.frame_count
    assert (np.diff(index.timestamps) >= 0).all()
    assert index.timestamps[-1] < index.end_s
    assert index.info.start_s == index.timestamps[0]
    assert index.info.duration_s == pytest.approx(index.end_s - index.timestamps[0])


@pytest.mark.parametrize("name", ["h264_raw", "hevc_raw", "mpeg4_m4v", "av1_obu"])
def test_without_pts_the_clock_runs_at_the_streams_rate(name):
    index = access.indexed(media.made(name))
    assert index.timestamps.tolist() == _spaced(0, 48)
    assert index.timestamps.tolist() == _judged_times(media.made(name))


def test_a_raw_stream_of_another_rate_runs_at_that_rate(tmp_path):
    path = tmp_path / "slow.m4v"
    ffmpeg.write(path, "-r", "10", "-i", str(media.made("mpeg4_m4v")), "-c:v", "mpeg4", "-f", "m4v")
    index = build_index(open_source(path))
    assert np.diff(index.timestamps).tolist() == pytest.approx([0.1] * (len(index) - 1))


@pytest.mark.parametrize("name", ["h264_avi", "mpeg4_avi", "mpeg4_one_b", "mpeg4_packed"])
def test_avi_takes_the_order_from_decoding_and_the_clock_from_the_dts(name):
    """ffmpeg guesses pts for AVI, later by the decoder's delay: the distances are the same."""
    path = media.made(name)
    index = access.indexed(path)
    assert index.info.has_b_frames
    assert index.timestamps.tolist() == _spaced(0, 48)
    shifted = np.array(_judged_times(path)) - index.timestamps
    assert shifted.tolist() == pytest.approx([shifted[0]] * 48)
    assert shifted[0] in (pytest.approx(_STEP_S), pytest.approx(2 * _STEP_S))


@pytest.mark.parametrize(
    ("name", "container"),
    [("h264_raw", "mp4"), ("hevc_raw", "mp4"), ("h264", "mxf"), ("h264", "asf"), ("mpeg4_avi", "mp4")],
)
def test_pts_that_are_dts_do_not_tell_the_order(name, container, tmp_path):
    """As whoever copies a raw stream, or AVI, into another container gives B frames the times of their decoding."""
    path = tmp_path / f"copied.{container}"
    ffmpeg.write(path, "-i", str(media.made(name)), "-c", "copy")
    with av.open(str(path)) as source:
        drawn = [read(frame.to_ndarray(format="rgb24")) for frame in source.decode(video=0)]
    assert drawn == sorted(drawn)
    assert _numbers(path) == drawn
    with VideoReader(path) as video:
        assert [read(frame.numpy()) for frame in video] == drawn
        assert (np.diff(video.timestamps) > 0).all()


@pytest.mark.parametrize("container", ["mp4", "mov"])
@pytest.mark.parametrize("name", ["mpeg1", "mpeg2_ps"])
def test_some_pts_that_are_dts_do_not_tell_the_order_either(name, container, tmp_path):
    """As whoever copies a DVD's program stream, which has pts for some pictures only: P came before its B pictures."""
    path = tmp_path / f"copied.{container}"
    ffmpeg.write(path, "-ss", "0.5", "-i", str(media.made(name)), "-c", "copy")
    with av.open(str(path)) as source:
        pts = [packet.pts for packet in source.demux(video=0) if packet.size]
    assert any(before >= here for before, here in itertools.pairwise(pts))
    numbers = _numbers(path)
    assert len(numbers) > 24
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    with VideoReader(path) as video:
        assert [read(frame.numpy()) for frame in video] == numbers


def test_dropped_frames_of_avi_leave_a_gap_in_the_clock():
    path = media.shared_media() / "video/codec/mpeg4_960x400.avi"
    index = access.indexed(path)
    assert index.timestamps.tolist() == _judged_times(path)
    ticks = np.round(np.diff(index.timestamps) * float(index.info.average_rate)).astype(int)
    assert sorted(set(ticks.tolist())) == [1, 3]
    assert index.info.declared_frames == len(index) + 2
    assert index.cut == ""


@pytest.mark.parametrize(("name", "first"), [("duplicate_pts", 0.0), ("duplicate_pts_mp4", 0.08)])
def test_equal_pts_keep_their_decode_order(name, first):
    """ffmpeg takes the dts once pts have repeated in MP4; the container's own pts are the judge there."""
    path = media.made(name)
    index = access.indexed(path)
    with av.open(str(path)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.pts is not None]
    assert index.timestamps.tolist() == [float(p.pts * p.time_base) for p in packets]
    assert index.timestamps.tolist() == pytest.approx([first + 0.08 * (n // 2) for n in range(48)])
    with VideoReader(path) as video:
        assert [video.frame_at(first + 0.08 * n + 0.02) for n in range(23)] == [2 * n + 1 for n in range(23)]
        assert [read(frame) for frame in video.at([first, first + 0.1]).numpy()] == [1, 3]


@pytest.mark.parametrize("ticks", [10, 13, 20])
@pytest.mark.parametrize("name", ["h264", "hevc", "mpeg4_one_b"])
def test_times_that_a_muxer_moved_do_not_decide_the_order_of_b_frames(name, ticks, tmp_path):
    """With fewer ticks than frames, FFmpeg's muxer makes times ascend as the packets are decoded."""
    path = tmp_path / "coarse.mov"
    ffmpeg.write(path, "-i", str(media.made(name)), "-c", "copy", "-video_track_timescale", str(ticks))
    with av.open(str(path)) as container:
        shown = [read(frame.to_ndarray(format="rgb24")) for frame in container.decode(video=0)]
    assert _numbers(path) == shown == sorted(shown)
    assert [read(frame.numpy()[0]) for frame in seqpipe.stream(path)] == shown


def test_negative_pts_are_kept():
    path = media.made("negative_pts")
    index = access.indexed(path)
    assert index.timestamps.tolist() == _judged_times(path)
    assert index.timestamps.tolist() == _spaced(-5, 48)
    assert index.info.start_s == -5
    assert index.end_s == pytest.approx(-3.08)
    with VideoReader(path) as video:
        assert read(video.at([-4.97]).numpy()[0]) == 0
        with pytest.raises(
            FrameRangeError, match=r"0\.000000 s is not in the video.*from -5\.000000 s to before -3\.08"
        ):
            video.at([0])


def test_negative_composition_offsets_start_at_zero():
    assert access.indexed(media.made("negative_cts")).timestamps.tolist() == _spaced(0, 48)


@pytest.mark.parametrize(("name", "first", "fed"), [("edit_list", 19, 29), ("edit_list_b", 30, 18)])
def test_what_an_edit_list_cuts_off_is_decoded_but_is_no_frame(name, first, fed):
    path = media.made(name)
    index = access.indexed(path)
    assert index.timestamps.tolist() == _judged_times(path)
    assert index.timestamps.tolist() == _spaced(0, 48 - first)
    assert _numbers(path) == list(range(first, 48))
    assert len(index.packets) > len(index) == fed
    # The first frame needs packets that are no frames: those of the cut-off start of its GOP.
    start = index.packets.frame_packet[0]
    assert not index.packets.shown[: index.packets.gop[start] + 1].any() or index.packets.key[start]


def test_without_an_edit_list_b_frames_delay_the_start():
    path = media.made("no_edit_list")
    assert access.indexed(path).timestamps.tolist() == _judged_times(path) == _spaced(0.08, 48)


@pytest.mark.parametrize(
    ("name", "first"), [("start_10s", 10), ("start_10s_mkv", 10), ("start_10s_ts", 11.4)]
)
def test_a_start_that_is_not_zero_is_kept(name, first):
    path = media.made(name)
    index = access.indexed(path)
    assert index.timestamps.tolist() == _judged_times(path) == _spaced(first, 48)
    with VideoReader(path) as video:
        assert read(video.at([first + 1]).numpy()[0]) == 25
        with pytest.raises(FrameRangeError):
            video.at([first - 0.01])


@pytest.mark.parametrize("name", ["vfr", "vfr_mkv", "vfr_webm"])
def test_uneven_distances_are_kept_and_times_find_their_frames(name):
    path = media.made(name)
    drawn = [(40 * n + 7 * (n % 5) + 300 * (n >= 20)) / 1000 for n in range(48)]
    index = access.indexed(path)
    assert index.timestamps.tolist() == pytest.approx(drawn)
    assert index.timestamps.tolist() == _judged_times(path)
    assert index.end_s == pytest.approx(2.234)
    with VideoReader(path) as video:
        times = [0.0, 0.046, 0.047, drawn[20] - 0.002, drawn[20], 2.23]
        assert [read(frame) for frame in video.at(times).numpy()] == [0, 0, 1, 19, 20, 47]


def test_a_clock_that_begins_again_goes_on_from_where_it_was():
    path = media.made("joined")
    index, judged = access.indexed(path), _judged_times(path)
    assert index.timestamps.tolist() == _spaced(1.48, 72)
    assert index.timestamps[:48].tolist() == judged[:48]
    assert (np.diff(judged[47:]) <= 0).any()
    assert _numbers(path) == [*range(48), *range(100, 124)]
    assert not index.packets.damaged.any()


def test_a_33_bit_clock_that_wraps_goes_on():
    path = media.made("ts_wrap")
    index = access.indexed(path)
    assert index.timestamps.tolist() == _judged_times(path)
    assert np.diff(index.timestamps).tolist() == pytest.approx([_STEP_S] * 47)


@pytest.mark.parametrize("name", ["h264_live_mkv", "h264_fragments", "h264_flv", "gif", "h264_ts", "vp9_ivf"])
def test_the_last_frame_lasts_as_long_as_the_one_before_where_nothing_says_more(name):
    index = access.indexed(media.made(name))
    assert index.end_s == pytest.approx(index.timestamps[-1] + _STEP_S)


def test_a_real_file_without_any_duration_ends_one_distance_behind_its_last_frame():
    index = access.indexed(media.shared_media() / "video/vfr/noduration_vfr.webm")
    last = index.timestamps[-1] - index.timestamps[-2]
    assert index.end_s == pytest.approx(index.timestamps[-1] + last, abs=0.011)
    assert index.info.duration_s == pytest.approx(index.end_s - index.timestamps[0])


def test_a_single_frame_lasts_as_long_as_the_rate_says(tmp_path):
    path = tmp_path / "one.mkv"
    ffmpeg.write(path, "-i", str(media.made("h264")), "-frames:v", "1", "-c", "copy")
    index = build_index(open_source(path))
    assert len(index) == 1
    assert index.end_s - index.timestamps[0] == pytest.approx(_STEP_S, abs=0.001)


@pytest.mark.parametrize("share", [0.1, 0.25, 0.3])
@pytest.mark.parametrize("name", ["h264_ts", "hevc_ts", "mpeg2_ts", "mpeg2_closed"])
def test_frames_before_the_first_key_frame_are_no_frames(name, share, tmp_path):
    """A recording that begins anywhere: H.264, HEVC with RASL, MPEG-2 with open and closed GOPs."""
    data = media.made(name).read_bytes()
    path = tmp_path / "begun.ts"
    path.write_bytes(data[int(len(data) * share) // 188 * 188 :])
    index = build_index(open_source(path))
    numbers = _numbers(path)
    assert numbers == list(range(48 - len(index), 48))
    assert index.timestamps.tolist() == _judged_times(path)
    assert index.dropped_at_start > 0
    assert index.dropped_at_start + len(index) == len(index.packets)


@pytest.mark.parametrize("container", ["mkv", "ts"])
@pytest.mark.parametrize("name", ["h264_open_gop", "hevc_open_gop", "hevc_radl", "mpeg2_mkv"])
def test_leading_pictures_of_a_cut_open_gop_are_frames_only_if_they_decode(name, container, tmp_path):
    path = tmp_path / f"cut.{container}"
    ffmpeg.write(path, "-ss", "0.7", "-i", str(media.made(name)), "-c", "copy")
    if (name, container) == ("h264_open_gop", "ts"):
        pytest.skip("ffmpeg writes no parameter sets into this file: nothing of it can be decoded")
    index = build_index(open_source(path))
    assert len(index) == ffmpeg.count_frames(path)
    assert _numbers(path) == list(range(48 - len(index), 48))
    # The RADL pictures keep their place before the key frame; Matroska cannot say so, and ffmpeg takes their dts.
    if (name, container) == ("hevc_radl", "mkv"):
        assert index.timestamps.tolist() == _spaced(-0.08, 38)
    else:
        assert index.timestamps.tolist() == _judged_times(path)
    clean = {p.md5 for p in ffmpeg.judge(media.made(name), planar=True).frames}
    assert set(access.decode(path, index, range(len(index))).frames.values()) <= clean


def test_leading_pictures_at_the_start_of_an_edited_mp4_are_cut_off_with_the_rest(tmp_path):
    path = tmp_path / "cut.mp4"
    ffmpeg.write(path, "-ss", "0.7", "-i", str(media.made("hevc_open_gop")), "-c", "copy")
    index = build_index(open_source(path))
    assert _numbers(path) == list(range(18, 48))
    assert index.timestamps.tolist() == _judged_times(path) == _spaced(0, 30)


@pytest.mark.parametrize("container", ["mp4", "mkv"])
@pytest.mark.parametrize("b_frames", [0, 2])
def test_a_cut_gradual_refresh_begins_where_its_pictures_are_whole(container, b_frames, tmp_path):
    """Frames that came in a row were lost when asked for alone; what was cut away came back as lost frames."""
    whole, path = tmp_path / "whole.mp4", tmp_path / f"cut.{container}"
    refreshed = f"intra-refresh=1:keyint=12:bframes={b_frames}"
    ffmpeg.write(whole, "-i", str(media.made("h264")), "-c:v", "libx264", "-x264-params", refreshed)
    ffmpeg.write(path, "-i", str(whole), "-ss", "0.5", "-c", "copy")
    index = build_index(open_source(path))
    found = access.decode(path, index, range(len(index)))
    judged = [p.md5 for p in ffmpeg.judge(path, planar=True).frames]
    assert len(judged) - b_frames - 1 <= len(index) == len(found.frames)
    assert index.dropped_at_start + len(index) == len(index.packets)
    assert [found.frames[number] for number in range(len(index))] == judged[-len(index) :]
    for number in range(len(index)):
        assert access.decode(path, index, [number]).frames == {number: found.frames[number]}


def test_times_are_rounded_once():
    index = access.indexed(media.made("ntsc"))
    tick = Fraction(1001, 30000)
    assert index.timestamps.tolist() == [float(number * tick) for number in range(48)]


@pytest.mark.parametrize("name", access.shared_names("vfr", "timing", "long", "actions"))
def test_the_clock_of_a_real_video_is_ffmpegs(name):
    if "counter_9000" in name:
        pytest.skip("test_exact goes through it")
    path = media.shared_media() / name
    index = access.indexed(path)
    assert index.timestamps.tolist() == _judged_times(path)
    assert (np.diff(index.timestamps) > 0).all()
