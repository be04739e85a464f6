"""Sound of files: the clock, delays of encoders, gaps, any range, resampling; judged by ffmpeg."""

from __future__ import annotations

import io
import os
import pickle
import wave
from fractions import Fraction
from functools import cache
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqpipe
from data_scripts.media_encode import run_ffmpeg
from seqpipe.errors import FrameRangeError, ParameterError, UnreadableSourceError

from ..support.kept import kept_folder
from ..support.media import made, shared_media

RATE = 44_100
LENGTH = 90_000


def tones(count: int = LENGTH) -> np.ndarray:
    """Two channels of chirps, float32."""
    t = np.arange(count) / RATE
    return np.stack([0.5 * np.sin(2000 * t * (1 + t)), 0.3 * np.sin(5000 * t)]).astype(np.float32)


# name → encoder, container, options of the encoder, largest difference from ffmpeg at its own build
FORMATS = {
    "aac.mp4": ("aac", "mp4", {"aac_pns": "0"}, 1e-4),
    "aac.mkv": ("aac", "matroska", {"aac_pns": "0"}, 1e-4),
    "aac.ts": ("aac", "mpegts", {"aac_pns": "0"}, 1e-4),
    "opus.webm": ("libopus", "webm", {}, 0.03),
    "opus.mp4": ("libopus", "mp4", {}, 0.03),
    "opus.ogg": ("libopus", "ogg", {}, 0.03),
    "mp3.mp3": ("libmp3lame", "mp3", {}, 1e-5),
    "mp3.mkv": ("libmp3lame", "matroska", {}, 1e-5),
    "flac.flac": ("flac", "flac", {}, 0),
    "flac.mka": ("flac", "matroska", {}, 0),
    "pcm.wav": ("pcm_s16le", "wav", {}, 0),
    "pcm.mov": ("pcm_s24be", "mov", {}, 0),
    "alac.mp4": ("alac", "ipod", {}, 0),
    "adpcm.wav": ("adpcm_ima_wav", "wav", {}, 2e-3),
}


@cache
def sound(name: str) -> Path:
    """A file of :func:`tones`."""
    path = kept_folder("audio", (FORMATS, LENGTH, av.__version__)) / name
    if not path.exists():
        codec, form, options, _ = FORMATS[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, form, [(tones(), codec, options, None)])
    return path


def write(path: Path, form: str, tracks: list, gap: tuple[int, int] | None = None) -> None:
    """Write tracks of (samples, codec, options, language); ``gap`` moves what follows a sample by so many."""
    part = path.with_suffix(f".{os.getpid()}")
    with av.open(str(part), "w", format=form) as container:
        streams = []
        for samples, codec, options, language in tracks:
            rate = 48_000 if codec == "libopus" else RATE
            stream = container.add_stream(codec, rate=rate, layout="stereo" if len(samples) == 2 else "mono")
            stream.options = options
            if language:
                stream.metadata["language"] = language
            streams.append((stream, samples))
        for stream, samples in streams:
            resampler = av.AudioResampler(stream.format.name, stream.layout, stream.rate)
            for at in range(0, samples.shape[1], 1024):
                chunk = np.ascontiguousarray(samples[:, at : at + 1024])
                frame = av.AudioFrame.from_ndarray(chunk, "fltp", "stereo" if len(samples) == 2 else "mono")
                frame.sample_rate, frame.time_base = RATE, Fraction(1, RATE)
                frame.pts = at + (gap[1] if gap and at >= gap[0] else 0)
                for one in resampler.resample(frame):
                    container.mux(stream.encode(one))
            for one in resampler.resample(None):
                container.mux(stream.encode(one))
            container.mux(stream.encode(None))
    part.rename(path)


def by_ffmpeg(path: Path, channels: int, *options: str) -> np.ndarray:
    out = run_ffmpeg("-i", str(path), "-vn", *options, "-ac", str(channels), "-f", "f32le", "-")
    return np.frombuffer(out, np.float32).reshape(-1, channels).T


@pytest.mark.parametrize("name", FORMATS)
def test_all_of_it_equals_ffmpeg(name):
    with seqpipe.open(sound(name)) as reader:
        audio = reader.audio()
    judged = by_ffmpeg(sound(name), 2)
    assert audio.samples.dtype == np.float32
    if name == "opus.mp4":  # ffmpeg plays its last packet to the end, and the container says where to stop
        judged = judged[:, : audio.samples.shape[1]]
    assert audio.samples.shape == judged.shape
    assert np.abs(audio.samples - judged).max() <= FORMATS[name][3]


@pytest.mark.parametrize("name", FORMATS)
def test_delays_of_encoders_are_left_out(name):
    """What was encoded begins at the first sample."""
    with seqpipe.open(sound(name)) as reader:
        audio = reader.audio(sample_rate=RATE)
    delay = 1024 if name == "aac.ts" else 0  # the container does not say
    found = audio.samples[:, delay : delay + 80_000]
    assert np.abs(found - tones()[:, : found.shape[1]])[:, 2000:].mean() < 0.02
    assert audio.start_s == pytest.approx(1105 / RATE if name == "mp3.mp3" else 0, abs=1e-6)


@settings(max_examples=15, deadline=None)
@given(
    name=st.sampled_from(sorted(FORMATS)),
    ends=st.tuples(st.integers(0, LENGTH), st.integers(0, LENGTH)),
    form=st.sampled_from([(None, None), (16_000, 1), (48_000, 2), (22_050, 1)]),
)
def test_any_range_is_that_of_the_whole(name, ends, form):
    rate, channels = form
    whole = decoded(name, rate, channels)
    first, last = sorted(min(one, whole.samples.shape[1]) for one in ends)
    with seqpipe.open(sound(name)) as reader:
        times = (whole.start_s + one / whole.sample_rate for one in (first, last))
        part = reader.audio(*times, sample_rate=rate, channels=channels)
    np.testing.assert_array_equal(part.samples, whole.samples[:, first:last])
    assert part.start_s == pytest.approx(whole.start_s + first / whole.sample_rate, abs=1e-9)


@cache
def decoded(name: str, rate: int | None, channels: int | None) -> seqpipe.AudioSamples:
    with seqpipe.open(sound(name)) as reader:
        return reader.audio(sample_rate=rate, channels=channels)


@pytest.mark.parametrize("name", ["pcm.wav", "flac.mka", "alac.mp4"])
@pytest.mark.parametrize(("rate", "channels"), [(16_000, 1), (48_000, 2), (8_000, 6)])
def test_resampling_is_that_of_ffmpeg(name, rate, channels):
    layout = {1: "mono", 2: "stereo", 6: "5.1"}[channels]
    mixed = f"aformat=sample_fmts=fltp,aresample={rate},aformat=channel_layouts={layout}"
    judged = by_ffmpeg(sound(name), channels, "-af", mixed)
    found = decoded(name, rate, channels).samples
    assert abs(found.shape[1] - judged.shape[1]) <= 1
    length = min(found.shape[1], judged.shape[1])
    assert np.abs(found[:, :length] - judged[:, :length])[:, 100:-100].max() < 2e-3


@pytest.mark.parametrize("name", ["flac.mka", "aac.mp4", "opus.mp4"])
def test_gaps_are_silent(tmp_path, name):
    codec, form, options, _ = FORMATS[name]
    gap = 18_432, 4_096
    write(tmp_path / name, form, [(tones(), codec, options, None)], gap=gap)
    with seqpipe.open(tmp_path / name) as reader, seqpipe.open(sound(name)) as plain:
        found, whole = reader.audio(sample_rate=RATE).samples, plain.audio(sample_rate=RATE).samples
    assert found.shape[1] - whole.shape[1] == pytest.approx(gap[1], abs=45 if name == "flac.mka" else 2)
    moved = slice(gap[0] + 3000, 70_000)
    after = slice(moved.start + found.shape[1] - whole.shape[1], moved.stop + found.shape[1] - whole.shape[1])
    assert np.abs(found[:, after] - whole[:, moved]).mean() < 0.02
    assert np.abs(found[:, gap[0] + 2000 : gap[0] + 3000]).max() < 1e-6


def test_a_real_gap_is_where_ffmpeg_fills_it():
    path = shared_media() / ("video/vfr/fire2_vfr_rot180.mp4")
    with seqpipe.open(path) as reader:
        found = reader.audio().samples
    judged = by_ffmpeg(path, 1, "-af", "aresample=async=1:min_hard_comp=0.02")
    assert found.shape == judged.shape
    # noise that the codec invents differs
    assert np.abs(found - judged).mean() < 1e-3


def test_streams_by_number_and_language(tmp_path):
    path = tmp_path / "two.mka"
    tracks = [(tones(9000), "flac", {}, "eng"), (tones(9000)[:1] * 0.5, "flac", {}, "ger")]
    write(path, "matroska", tracks)
    with seqpipe.open(path) as reader:
        assert [(one.number, one.language, one.channels) for one in reader.streams] == [
            (0, "eng", 2),
            (1, "ger", 1),
        ]
        german = reader.audio(stream="ger")
        np.testing.assert_array_equal(german.samples, reader.audio(stream=1).samples)
        assert (german.channels, reader.audio().channels) == (1, 2)
        with pytest.raises(
            ParameterError, match=r"stream='fre' is no audio stream; allowed: .*1: flac .* mono ger"
        ):
            reader.audio(stream="fre")
    with seqpipe.open(path, stream=1) as reader:
        assert reader.audio().channels == 1


def test_a_file_of_sound_alone():
    data = io.BytesIO()
    with wave.open(data, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(np.arange(-4000, 4000, dtype=np.int16).tobytes())
    with seqpipe.open(data.getvalue()) as reader:
        audio = reader.audio(0.25, 0.5)
        np.testing.assert_array_equal(audio.samples[0] * 32768, np.arange(-2000, 0))
        assert repr(audio) == "AudioSamples(1 × 2000 samples, 8000 Hz, 0.250…0.500 s)"
        assert (audio.start_s, audio.end_s, audio.channels) == (0.25, 0.5, 1)
    with seqpipe.open(made("audio_only")) as reader:
        again = pickle.loads(pickle.dumps(reader))
        np.testing.assert_array_equal(again.audio().samples, reader.audio().samples)


def test_a_range_outside_is_refused():
    with seqpipe.open(sound("pcm.wav")) as reader:
        with pytest.raises(
            FrameRangeError, match=r"end_s=9 is not in its audio; allowed: from 0\.0.* to 2\.0408"
        ):
            reader.audio(0, 9)
        with pytest.raises(FrameRangeError, match="start_s=-1"):
            reader.audio(-1)
        with pytest.raises(ParameterError, match=r"start_s=1 is later than end_s=0\.5"):
            reader.audio(1, 0.5)
        with pytest.raises(ParameterError, match="sample_rate=0 is not valid"):
            reader.audio(sample_rate=0)
        with pytest.raises(
            ParameterError, match="channels=9 is not valid; allowed: a whole number from 1 to 8"
        ):
            reader.audio(channels=9)
        assert reader.audio(0.5, 0.5).samples.shape == (2, 0)


def test_no_audio():
    with (
        seqpipe.open(made("h264")) as reader,
        pytest.raises(UnreadableSourceError, match="the file has no audio stream that can be decoded"),
    ):
        reader.audio()
    with pytest.raises(UnreadableSourceError, match="not a video that FFmpeg can open"):
        seqpipe.open(made("text"))


def test_a_damaged_packet_is_silent_and_the_rest_keeps_its_place(tmp_path):
    data = bytearray(sound("aac.mp4").read_bytes())
    with av.open(str(sound("aac.mp4"))) as container:
        packets = [packet for packet in container.demux(audio=0) if packet.size]
    for packet in packets[40:44]:
        place = data.find(bytes(packet))
        data[place : place + packet.size] = bytes(packet.size)
    with seqpipe.open(bytes(data)) as reader:
        damaged = reader.audio().samples
    whole = decoded("aac.mp4", None, None).samples
    assert damaged.shape == whole.shape
    end = 64 * 1024
    np.testing.assert_array_equal(damaged[:, end:], whole[:, end:])


def test_sound_of_a_video_is_on_the_clock_of_its_frames():
    path = shared_media() / ("video/codec/hevc8_1080p_framenumbers.mp4")
    with seqpipe.open(path) as reader:
        part = reader.audio(2.0, 2.5, sample_rate=16_000, channels=1)
        assert part.samples.shape == (1, 8000)
        assert part.start_s == 2.0
