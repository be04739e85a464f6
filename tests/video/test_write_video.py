"""Videos out: times, colors and sizes read back, by this reader and by ffmpeg or Pillow."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import seqpipe
from seqpipe import AudioSamples, Sequence
from seqpipe.errors import BackendError, OutputError, ParameterError
from seqpipe.video.encode import write

from ..support.ffmpeg import judge


def clip(height: int = 64, width: int = 80, count: int = 6, channels: int = 3, times=None) -> Sequence:
    """Smooth colors that move, with saturated ones among them."""
    f, y, x = np.mgrid[:count, :height, :width]
    planes = [4 * x + 8 * f, 3 * y, 255 - 2 * x - 2 * y, 255 * (x > width // 2)]
    pixels = np.stack(planes, -1)[..., :channels].clip(0, 255).astype(np.uint8)
    times = np.arange(count) / 25 if times is None else np.array(times, float)
    return Sequence(pixels, "FHWC", "made", np.arange(count), times)


@pytest.mark.parametrize(
    ("name", "codec", "error"),
    [
        ("x.mp4", None, 4),
        ("x.mp4", "hevc", 4),
        ("x.mp4", "av1", 4),
        ("x.mkv", "h264", 4),
        ("x.webm", None, 4),
        ("x.gif", None, 8),
        ("x.apng", None, 0),
    ],
)
def test_frames_and_times_are_read_back(tmp_path, name, codec, error):
    times = [2.0, 2.04, 2.08, 2.2, 2.24, 2.3]  # variable
    made = clip(times=times)
    assert made.save(tmp_path / name, codec=codec, quality=None if error in (0, 8) else 85) == 6
    with seqpipe.open(tmp_path / name) as video:
        read = video[:]
        assert (video.info.matrix, video.info.full_range) == (
            (1, False) if error == 4 else (2, None) if error else (0, True)
        )
        np.testing.assert_allclose(read.timestamps, np.array(times) - 2, atol=1.1e-3 if error < 8 else 6e-3)
    assert read.shape == made.shape
    assert np.abs(read.data.astype(int) - made.data).mean() <= error / 2
    if error == 4:
        assert [path.name for path in tmp_path.iterdir()] == [name]


def test_colors_are_tagged_for_other_readers(tmp_path):
    clip(channels=1).save(tmp_path / "gray.mp4")
    judgment = judge(tmp_path / "gray.mp4")
    assert len(judgment.frames) == 6
    clip().save(tmp_path / "x.mp4", quality=100)
    with seqpipe.open(tmp_path / "x.mp4") as video:
        info = video.info
        assert (info.matrix, info.primaries, info.transfer, info.full_range) == (1, 1, 1, False)


def test_alpha(tmp_path):
    made = clip(channels=4)
    for name in ("x.webp", "x.apng"):
        made.save(tmp_path / name, quality=90 if name == "x.webp" else None)
        with Image.open(tmp_path / name) as image:
            assert (image.n_frames, image.size) == (6, (80, 64))
            image.seek(3)
            found = np.asarray(image.convert("RGBA"))
            assert image.info["duration"] == pytest.approx(40, abs=1)
        np.testing.assert_array_equal(found[..., 3], made.data[3, ..., 3])
        shown = found[..., 3] > 0
        assert np.abs(found[shown].astype(int) - made.data[3][shown]).mean() < 6
    made.save(tmp_path / "x.webm")
    with pytest.raises(ParameterError, match="libx264 stores no alpha, and the frames have 4 channels"):
        made.save(tmp_path / "x.mp4")


def test_odd_sizes(tmp_path):
    made = clip(63, 79)
    made.save(tmp_path / "x.mp4", quality=90)
    made.save(tmp_path / "x.webm", quality=90)
    with seqpipe.open(tmp_path / "x.mp4") as padded, seqpipe.open(tmp_path / "x.webm") as exact:
        assert padded[0].shape == (64, 80, 3)
        assert exact[0].shape == (63, 79, 3)
        assert np.abs(padded[:].data[:, :63, :79].astype(int) - made.data).mean() < 4


def test_rate_key_frames_and_several_sequences(tmp_path):
    made = clip(count=9)
    assert seqpipe.write_video(tmp_path / "x.mp4", [made[:4], made[4:]], fps=30000 / 1001, gop=3) == 9
    with seqpipe.open(tmp_path / "x.mp4") as video:
        np.testing.assert_allclose(video.timestamps, np.arange(9) * 1001 / 30000, atol=1e-5)
        np.testing.assert_array_equal(video.index.key_frames, [0, 3, 6])
        assert video.duration == pytest.approx(9 * 1001 / 30000, abs=1e-4)
    moved = Sequence(np.moveaxis(made.data, -1, 1), "FCHW")
    moved.save(tmp_path / "y.mp4", fps=5)
    with pytest.raises(ParameterError, match="the frames have no times; allowed: fps=…"):
        moved.save(tmp_path / "y.mp4")


@pytest.mark.parametrize("name", ["x.mp4", "x.webm", "x.mkv"])
def test_sound(tmp_path, name):
    rate = 16_000
    t = np.arange(rate) / rate
    sound = AudioSamples(np.stack([np.sin(3000 * t), np.sin(900 * t)]).astype(np.float32) / 2, rate, 2.0)
    clip(count=25).save(tmp_path / name, audio=sound)
    with seqpipe.open(tmp_path / name) as video:
        assert len(video) == 25
        read = video.audio(0, 0.9, sample_rate=rate)
    assert np.abs(read.samples - sound.samples[:, : read.samples.shape[1]])[:, 500:-500].mean() < 0.05


def test_what_cannot_be_written(tmp_path, monkeypatch):
    made = clip()
    with pytest.raises(
        ParameterError, match=r"'x\.png' does not end as a video's name does; allowed: \.mp4, "
    ):
        made.save(tmp_path / "x.png")
    with pytest.raises(ParameterError, match="codec='vp9' is not for mp4 files; allowed: h264, hevc, av1"):
        made.save(tmp_path / "x.mp4", codec="vp9")
    with pytest.raises(ParameterError, match=r"quality=101 is not valid; allowed: a number from 0 to 100"):
        made.save(tmp_path / "x.mp4", quality=101)
    with pytest.raises(ParameterError, match="quality=50 has no meaning for apng"):
        made.save(tmp_path / "x.apng", quality=50)
    with pytest.raises(
        ParameterError, match=r"float32 with shape .* is no video.*Read frames with OutputSpec"
    ):
        Sequence(made.data.astype(np.float32), "FHWC").save(tmp_path / "x.mp4", fps=1)
    with pytest.raises(ParameterError, match=r"frame 3 has shape \(32, 80, 3\); allowed: \(64, 80, 3\)"):
        seqpipe.write_video(tmp_path / "x.mp4", [made[:3], clip(32)], fps=10)
    with pytest.raises(ParameterError, match="the time of frame 2 is not later than that of the one before"):
        clip(times=[0, 1, 1, 2, 3, 4]).save(tmp_path / "x.mp4")
    with pytest.raises(OutputError, match=r"the video cannot be written \(No such file or directory"):
        made.save(tmp_path / "missing" / "x.mp4")
    with pytest.raises(OutputError, match="a video without frames cannot be written"):
        seqpipe.write_video(tmp_path / "x.mp4", [])
    with pytest.raises(ParameterError, match="gif files hold no sound"):
        made.save(tmp_path / "x.gif", audio=AudioSamples(np.zeros((1, 9), np.float32), 9, 0))
    monkeypatch.setattr(write, "_has", lambda name: name == "gif")
    with pytest.raises(BackendError, match=r"has no encoder for hevc; allowed: gif\. Install PyAV's wheel"):
        made.save(tmp_path / "x.mp4", codec="hevc")
    assert not list(tmp_path.iterdir())
