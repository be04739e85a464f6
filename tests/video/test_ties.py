"""Frames of equal time, and frames without one, are in the order of display by every way to read them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

import seqpipe
from data_scripts.frame_code import read
from seqpipe.video.index.build import build_index
from seqpipe.video.source.source import open_source
from tests.support import ffmpeg, media
from tests.support.command_line import run_command
from tests.support.deep import combined, deep

_FLOOR_TO_TWO = "setts=pts=floor(PTS/(2*DURATION))*2*DURATION:dts=DTS"
_ONE_TIME = "setts=pts=1000:dts=1000"


def _copied(name: str, path: Path, bitstream_filter: str) -> Path:
    ffmpeg.write(path, "-i", str(media.made(name)), "-c", "copy", "-bsf:v", bitstream_filter)
    return path


def _drawn(path: Path) -> list[int]:
    """The numbers in the pixels, in the order in which FFmpeg outputs the frames."""
    with av.open(str(path)) as container:
        return [read(frame.to_ndarray(format="rgb24")) for frame in container.decode(video=0)]


def _check_doors(path: Path) -> None:
    """Check that `open`, random access, iteration and `stream` give FFmpeg's order, and the same times."""
    judged = _drawn(path)
    with seqpipe.open(path) as video:
        every = video[:]
        assert [read(frame) for frame in every.numpy()] == judged
        assert [read(frame.numpy()) for frame in video] == judged
        for number in range(len(video) - 1, -1, -7):
            assert read(video.frames([number]).numpy()[0]) == judged[number]
        assert (np.diff(every.timestamps) >= 0).all()
    streamed = list(seqpipe.stream(path))
    assert [read(one.numpy()[0]) for one in streamed] == judged
    assert [float(one.timestamps[0]) for one in streamed] == every.timestamps.tolist()


@pytest.mark.parametrize(
    ("name", "container"),
    combined(["h264", "hevc", "mpeg2_mkv", "h264_open_gop"], ["mkv", "mp4", "ts"]),
)
def test_equal_times_leave_the_order_to_the_decoder(name, container, tmp_path):
    _check_doors(_copied(name, tmp_path / f"two.{container}", _FLOOR_TO_TWO))


@pytest.mark.parametrize("name", ["h264", deep("hevc")])
def test_more_than_a_thousand_frames_a_second_in_milliseconds(name, tmp_path):
    _check_doors(_copied(name, tmp_path / "fast.mkv", "setts=pts=PTS/96:dts=DTS/96"))


def test_equal_times_behind_an_edit_list(tmp_path):
    whole, path = _copied("h264", tmp_path / "two.mp4", _FLOOR_TO_TWO), tmp_path / "cut.mp4"
    ffmpeg.write(path, "-ss", "0.7", "-i", str(whole), "-c", "copy")
    with seqpipe.open(path) as video:
        assert not video.index.packets.shown.all()
    _check_doors(path)


def test_export_has_the_order_of_display(tmp_path):
    path = _copied("h264", tmp_path / "two.mkv", _FLOOR_TO_TWO)
    run_command("export", path, "--out", tmp_path / "out", "--format", "png")
    pictures = sorted((tmp_path / "out").rglob("*.png"))
    assert [read(np.asarray(Image.open(one))) for one in pictures] == _drawn(path)


def test_the_order_of_equal_times_is_cached(tmp_path):
    path = _copied("h264", tmp_path / "two.mkv", _FLOOR_TO_TWO)
    for _ in range(2):
        with seqpipe.open(path, cache_dir=tmp_path / "cache") as video:
            assert (
                video.index.packets.frame_packet.tolist()
                == build_index(open_source(path)).packets.frame_packet.tolist()
            )


@pytest.mark.parametrize("name", ["h264", "vp9", *map(deep, ["hevc", "mjpeg", "mpeg2_mkv"])])
def test_all_times_may_be_equal(name, tmp_path):
    path = _copied(name, tmp_path / "one.mkv", _ONE_TIME)
    _check_doors(path)
    with seqpipe.open(path) as video:
        assert set(video.timestamps.tolist()) == {video.info.start_s}
        assert read(video.at([video.info.start_s]).numpy()[0]) == _drawn(path)[-1]


@pytest.mark.parametrize("name", ["h264", "vp9", *map(deep, ["hevc", "mpeg2_mkv"])])
def test_times_that_are_missing_at_the_start_count_back(name, tmp_path):
    path = tmp_path / "early.mkv"
    moved = ("-itsoffset", "-0.5", "-i", str(media.made(name)))
    ffmpeg.write(path, *moved, "-c", "copy", "-copyts", "-avoid_negative_ts", "disabled")
    with seqpipe.open(path) as video:
        assert video.info.start_s == video.timestamps[0] == pytest.approx(-0.5, abs=0.001)
        assert video.timestamps.tolist() == pytest.approx([-0.5 + 0.04 * n for n in range(48)], abs=0.002)
    _check_doors(path)


def test_sparse_times_of_a_program_stream(tmp_path):
    """Several frames lie in one packet of the stream, with a time for the first of them; a KeyError before."""
    path = tmp_path / "few.mpg"
    small = ("-f", "lavfi", "-i", "testsrc2=size=64x64:rate=60", "-t", "1", "-pix_fmt", "yuv420p")
    ffmpeg.write(path, *small, "-c:v", "libx264", "-bf", "2", "-b:v", "30k")
    with av.open(str(path)) as container:
        known = [packet.pts for packet in container.demux(video=0) if packet.size and packet.pts is not None]
    assert 1 < len(known) < 30
    with seqpipe.open(path) as video:
        every = video[:]
    streamed = list(seqpipe.stream(path))
    assert len(every) == len(streamed) == ffmpeg.count_frames(path) == 60
    assert np.array_equal(np.concatenate([one.numpy() for one in streamed]), every.numpy())
    assert [float(one.timestamps[0]) for one in streamed] == every.timestamps.tolist()
    assert {pts / 90000 for pts in known} <= set(every.timestamps.tolist())
    assert np.diff(every.timestamps).tolist() == pytest.approx([1 / 60] * 59)


@pytest.mark.parametrize("container", ["mkv", "mp4", "ts"])
def test_a_late_start_knows_of_a_bug_of_the_encoder(container, tmp_path):
    """x264 up to build 150 wrote 4:4:4 otherwise, and states its build in the first packet only.

    These frames of a later build are decoded as those of an earlier one: wrong, but the same from wherever one starts.
    """
    new, old = tmp_path / f"new.{container}", tmp_path / f"old.{container}"
    x264 = ("-pix_fmt", "yuv444p", "-qp", "10", "-g", "5", "-x264-params", "8x8dct=1:threads=1:scenecut=0")
    moving = ("-f", "lavfi", "-i", "mandelbrot=size=64x48:rate=25", "-frames:v", "20")
    ffmpeg.write(new, *moving, "-c:v", "libx264", *x264)
    data = new.read_bytes()
    at = data.index(b"x264 - core ") + len(b"x264 - core ")
    old.write_bytes(data[:at] + b"120" + data[at + 3 :])
    with av.open(str(old)) as container_:
        judged = [frame.to_ndarray(format="yuv444p") for frame in container_.decode(video=0)]
    with av.open(str(new)) as container_:
        plain = [frame.to_ndarray(format="yuv444p") for frame in container_.decode(video=0)]
    if np.array_equal(judged, plain):
        pytest.skip("these pictures do not tell the builds apart")
    whole = [one.numpy()[0] for one in seqpipe.stream(old)]
    for number in (19, 12, 7):
        with seqpipe.open(old) as video:
            assert np.array_equal(video.frames([number]).numpy()[0], whole[number])


@pytest.mark.parametrize("container", ["mkv", "mp4", "avi"])
@pytest.mark.parametrize("codec", ["libx264 -bf 0", "mpeg2video", "libvpx", "mpeg4"])
def test_doors_agree_where_there_is_no_key_frame(codec, container, tmp_path):
    whole, path = tmp_path / "whole.mkv", tmp_path / f"keyless.{container}"
    name, *options = codec.split()
    drawn = ("-f", "lavfi", "-i", "testsrc2=size=128x96:rate=25", "-t", "2.6", "-pix_fmt", "yuv420p")
    ffmpeg.write(whole, *drawn, "-c:v", name, "-g", "30", *options)
    try:
        ffmpeg.write(path, "-i", str(whole), "-c", "copy", "-bsf:v", "noise=drop=key")
    except ffmpeg.FFmpegError:
        pytest.skip("the container does not take the codec")
    opened = _outcome(lambda: len(seqpipe.open(path)))
    assert opened == _outcome(lambda: sum(1 for _ in seqpipe.stream(path)))
    assert opened


def _outcome(way: Callable[[], int]) -> int | str:
    """The number of frames, or why there are none."""
    try:
        return way()
    except seqpipe.UnreadableSourceError as error:
        return error.fact
