"""Sound beside the frames of clips: aligned, the same in every order, and with the policies of unreadable files."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

import seqpipe
from seqpipe import AudioSpec, Clip
from seqpipe.errors import ParameterError, UnreadableSourceError

RATE = 8000
FPS = 10


def write(path: Path, frames: int = 30, *, sound: bool = True, sound_s: float | None = None) -> Path:
    """A video whose sound is a ramp: sample i is i / 40000 (16 bits), so that a value tells its time."""
    with av.open(str(path), "w") as container:
        video = container.add_stream("mpeg4", rate=FPS)
        video.width, video.height, video.pix_fmt = 32, 32, "yuv420p"
        audio = container.add_stream("flac", rate=RATE, layout="mono") if sound else None
        for number in range(frames):
            frame = av.VideoFrame.from_ndarray(np.full((32, 32, 3), number * 8 % 256, np.uint8), "rgb24")
            frame.pts, frame.time_base = number, Fraction(1, FPS)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        if audio is not None:
            count = int((frames / FPS if sound_s is None else sound_s) * RATE)
            for at in range(0, count, 4000):
                data = ramp(at, min(4000, count - at))
                one = av.AudioFrame.from_ndarray(data, "s16", "mono")
                one.sample_rate, one.pts, one.time_base = RATE, at, Fraction(1, RATE)
                container.mux(audio.encode(one))
            container.mux(audio.encode(None))
    return path


def ramp(at: int, count: int) -> np.ndarray:
    return np.arange(at, at + count, dtype=np.int16)[None]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("videos")
    return [write(folder / f"{number}.mkv", 30 + number) for number in range(4)]


def start_of(sound: np.ndarray) -> int:
    return round(float(sound[0, 0]) * 32768)


def test_sound_is_that_of_the_clips_times(files):
    ds = seqpipe.videos(
        files, Clip(8, stride=2, per_video=3), shuffle=True, audio=AudioSpec(sample_rate=RATE)
    )
    assert str(ds.types["audio"]) == "numbers float32 (1×?) on cpu"
    for sample in ds:
        times = sample["timestamps"]
        assert sample["audio"].shape == (1, round((times[-1] - times[0] + 1 / FPS) * RATE))
        assert start_of(sample["audio"]) == pytest.approx(times[0] * RATE, abs=8)  # milliseconds in Matroska
        np.testing.assert_array_equal(np.diff(np.rint(sample["audio"][0] * 32768)), 1)


def test_batches_shards_indices_and_states_hold_the_same_sound(files):
    ds = seqpipe.videos(files, Clip(8, per_video=4), shuffle=True, seed=3, audio=AudioSpec(sample_rate=RATE))
    alone = {int(one["index"]): one["audio"] for one in ds.epoch(1)}
    assert len(alone) == ds.size == 16
    for rank in range(2):
        for batch in ds.batch(3).shard(rank, 2).epoch(1):
            assert batch["audio"].shape == (len(batch.index), 1, 6400)
            for index, sound in zip(batch.index.tolist(), batch["audio"], strict=True):
                np.testing.assert_array_equal(sound, alone[index])
    read = ds.read([5, 2], epoch=1)
    np.testing.assert_array_equal(read["audio"], [alone[5], alone[2]])
    state = next(iter(ds.batch(3).epoch(1))).state
    (rest,) = ds.batch(3).epochs(2, resume=state)
    assert [index for batch in rest for index in batch.index.tolist()] == [
        int(one["index"]) for one in ds.epoch(1)
    ][3:]


def test_a_fixed_length_pads_and_cuts(files):
    for length, kept in ((9000, 6400), (1000, 1000)):
        spec = AudioSpec(sample_rate=RATE, channels=2, length=length)
        (sample,) = seqpipe.videos(files[0], Clip(8, per_video=1), audio=spec)
        assert sample["audio"].shape == (2, length)
        np.testing.assert_array_equal(sample["audio"][:, kept:], 0)
        assert np.diff(sample["audio"][0, :kept]).min() > 0


def test_padded_frames_are_silent(files):
    ds = seqpipe.videos(files[0], Clip(40, pad="edge"), audio=AudioSpec(sample_rate=RATE))
    (sample,) = ds
    assert sample["audio"].shape == (1, 4 * RATE)
    np.testing.assert_array_equal(sample["audio"][0, 3 * RATE :], 0)
    np.testing.assert_array_equal(np.rint(sample["audio"][0, : 3 * RATE] * 32768), np.arange(3 * RATE))


def test_sound_shorter_than_the_frames_ends_in_silence(tmp_path):
    path = write(tmp_path / "short.mkv", 30, sound_s=1.0)
    (sample,) = seqpipe.videos(path, Clip(30), audio=AudioSpec(sample_rate=RATE))
    assert sample["audio"].shape == (1, 3 * RATE)
    np.testing.assert_array_equal(sample["audio"][0, RATE:], 0)


def test_videos_without_sound(files, tmp_path):
    silent = write(tmp_path / "silent.mkv", sound=False)
    listed = [*files, silent]

    def samples(on_error: str, **spec) -> seqpipe.Dataset:
        return seqpipe.videos(
            listed, Clip(8, per_video=1), on_error=on_error, audio=AudioSpec(sample_rate=RATE, **spec)
        )

    with pytest.raises(UnreadableSourceError, match=r"silent\.mkv: the file has no audio stream"):
        list(samples("raise"))
    skipping = samples("skip")
    assert [int(one["index"]) for one in skipping] == [0, 1, 2, 3]
    assert "no audio stream" in str(skipping.report().losses[0].reason)
    batch = next(iter(samples("substitute").batch(5)))
    assert batch["image"].shape[0] == 5
    assert batch["audio"].shape == (5, 1, 6400)
    assert "silent" not in " ".join(batch.sources)
    last = list(samples("raise", required=False))[-1]
    np.testing.assert_array_equal(last["audio"], np.zeros((1, 6400)))


def test_operators_are_fused_and_leave_sound_alone(files):
    spec = AudioSpec(sample_rate=RATE)
    plain = seqpipe.videos(files, Clip(8, per_video=1), audio=spec)
    mapped = plain.map(seqpipe.ops.Resize(size=(16, 16))).batch(2)
    batch = next(iter(mapped))
    assert batch["image"].shape == (2, 8, 16, 16, 3)
    np.testing.assert_array_equal(batch["audio"][1], plain.sample(1)["audio"])


def test_other_arguments_are_refused(files):
    with pytest.raises(ParameterError, match=r"audio is an int; allowed: AudioSpec\("):
        seqpipe.videos(files, 8, audio=16000)
    with pytest.raises(ParameterError, match=r"channels=0 is not valid"):
        AudioSpec(channels=0)
    with pytest.raises(ParameterError, match=r"stream=1\.5 is not valid"):
        AudioSpec(stream=1.5)
