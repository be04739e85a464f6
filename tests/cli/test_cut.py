"""``seqpipe cut``: frames, times, tags and sound of the cut are those of the range."""

from __future__ import annotations

import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import seqpipe
from data_scripts.media_encode import ffmpeg_exe
from tests.support.media import made, shared_media

from .written import lines


def same_frames(source: Path, cut: Path, start_s: float, end_s: float, *, exact: bool = True) -> int:
    """Check that a cut has the frames of a range, and return their number."""
    small = seqpipe.OutputSpec(short_side=64)
    with seqpipe.open(source, output=small) as whole, seqpipe.open(cut, output=small) as part:
        first = whole.frame_at(start_s)
        count = int((whole.timestamps[first:] < end_s).sum())
        wanted, found = whole[first : first + count], part[:count]
        assert len(part) == count if exact else len(part) >= count
        np.testing.assert_array_equal(found.data, wanted.data)
        times = wanted.timestamps - wanted.timestamps[0]
        np.testing.assert_allclose(found.timestamps - found.timestamps[0], times, atol=1e-3)
        for name in (
            "matrix",
            "primaries",
            "transfer",
            "full_range",
            "rotation_degrees",
            "sample_aspect_ratio",
        ):
            assert getattr(part.info, name) == getattr(whole.info, name)
    return count


# B-frames; open GOP; rotation; variable rate, rotation and key frames
FILES = ("actions/juggling_soccer_ball/juggle.mp4", "rotation/rot_nasa.mp4", "vfr/phone_hevc_vfr_rot.mp4")


@pytest.mark.parametrize("name", FILES)
def test_mp4_shows_the_range_alone_without_decoding(run, tmp_path, name):
    source, out = shared_media() / "video" / name, tmp_path / "out.mp4"
    with seqpipe.open(source) as video:
        first, length = video.timestamps[0], min(video.duration, 2)
    start, end = 0.31 * length, 0.55 * length
    result = run("cut", source, out, "--start", start, "--end", end, "--json")
    (told,) = lines(result.stdout)
    assert told["encoded"] == 0
    count = same_frames(source, out, first + start, first + end)
    shown = subprocess.run(
        [
            ffmpeg_exe(),
            "-v",
            "error",
            "-i",
            out,
            "-map",
            "0:v:0",
            "-fps_mode",
            "passthrough",
            "-f",
            "framemd5",
            "-",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert sum(line[:1] != "#" for line in shown.splitlines()) == count


def test_sound_is_cut_at_the_same_times(run, tmp_path):
    source, out = shared_media() / "video/codec/hevc8_1080p_framenumbers.mp4", tmp_path / "out.mp4"
    run("cut", source, out, "--start", "70f", "--end", "80f")
    with seqpipe.open(source) as whole, seqpipe.open(out) as part:
        assert (len(part), part.timestamps[0]) == (10, 0)
        found = part.audio()
        wanted = whole.audio(whole.time_of(70), whole.time_of(80))
        length = wanted.samples.shape[1]
        assert found.start_s == pytest.approx(0, abs=1e-4)
        assert abs(found.samples.shape[1] - length) <= 1
        np.testing.assert_allclose(
            found.samples[:, :length], wanted.samples[:, : found.samples.shape[1]], atol=1e-4
        )


def test_matroska_begins_with_a_key_frame_or_is_encoded(run, tmp_path):
    source = shared_media() / "video/codec/vp9_bbb_642x642.webm"
    with seqpipe.open(source) as video:
        keys = video.timestamps[video.index.key_frames]
        start = float(keys[1]) + 0.2
    run("cut", source, tmp_path / "copy.webm", "--start", start, "--end", start + 0.2)
    same_frames(source, tmp_path / "copy.webm", float(keys[1]), start + 0.2, exact=False)
    result = run("cut", source, tmp_path / "exact.webm", "--start", start, "--end", start + 0.2, "--exact")
    assert "6 frames encoded anew" in result.stderr
    with seqpipe.open(source) as whole, seqpipe.open(tmp_path / "exact.webm") as part:
        first = whole.frame_at(start)
        assert part.timestamps[0] == 0
        assert np.abs(part[:].data.astype(int) - whole[first : first + 6].data).mean() < 2


def test_what_cannot_be_cut(run, tmp_path):
    source, out = made("h264"), tmp_path / "out.mp4"
    assert "start_s=99 is not in the video" in run("cut", source, out, "--start", "99", code=1).stderr
    assert "is not later than" in run("cut", source, out, "--start", "1", "--end", "0.5", code=2).stderr
    assert "frame 999 is not in the video" in run("cut", source, out, "--end", "999f", code=2).stderr
    assert "does not end as a video's name does" in run("cut", source, tmp_path / "out.txt", code=2).stderr
    assert "gif files hold no cuts" in run("cut", source, tmp_path / "out.gif", code=2).stderr
    wrong = run("cut", source, tmp_path / "out.webm", code=1).stderr
    assert "the cut cannot be written" in wrong
    assert "webm holds h264" in wrong
    assert not list(tmp_path.iterdir())
    out.write_bytes(b"")
    assert "Use --overwrite" in run("cut", source, out, code=1).stderr
    run("cut", source, out, "--start", "0.5", "--overwrite")
    assert Fraction(out.stat().st_size) > 0
