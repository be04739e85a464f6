"""``seqpipe export`` of videos: clips with their times and sound, scenes, black, blurred and repeated frames."""

from __future__ import annotations

import errno
import re
from urllib.parse import unquote

import av
import numpy as np
import pytest
from PIL import Image

import seqpipe
from seqpipe import AudioSamples, Sequence
from seqpipe.errors import OutputError
from seqpipe.readers.frame_content import FrameContent
from seqpipe.video.encode import write
from seqpipe.writers.encoders import encoder
from tests.support.ffmpeg import judge
from tests.support.media import shared_media

from .written import files, lines

FPS = 25


def picture(seed: int, count: int) -> np.ndarray:
    """Frames of a random picture of blocks, which moves a little."""
    blocks = np.random.default_rng(seed).integers(60, 256, (6, 8, 3), np.uint8)
    whole = np.kron(blocks, np.ones((16, 16, 1), np.uint8))
    return np.stack([np.roll(whole, shift // 2, axis=1) for shift in range(count)])


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    """Three scenes of 20, 30 and 24 frames, of which the last one begins black, with a tone that begins at 0.5 s."""
    scenes = [picture(1, 20), picture(2, 30), np.zeros((4, 96, 128, 3), np.uint8), picture(3, 20)]
    pixels = np.concatenate(scenes)
    tone = np.sin(np.arange(3 * 16_000) * 2 * np.pi * 440 / 16_000)[None].astype(np.float32) / 2
    tone[:, :8000] = 0
    path = tmp_path_factory.mktemp("film") / "film.mp4"
    frames = Sequence(pixels, "FHWC", timestamps=np.arange(len(pixels)) / FPS)
    seqpipe.write_video(path, frames, gop=10, audio=AudioSamples(tone, 16_000, 0.0))
    return path


def decoded(path):
    with seqpipe.open(path) as video:
        return video[:].data.astype(int), video.timestamps - video.timestamps[0]


@pytest.mark.parametrize(("ending", "error"), [("mp4", 5), ("webm", 5), ("gif", 12), ("apng", 0)])
def test_a_range_becomes_a_video(run, tmp_path, film, ending, error):
    manifest = tmp_path / "m.jsonl"
    command = "export", film, "--out", tmp_path, "--start", "0.4", "--end", "1.2", "--format", ending
    run(*command, "--every", 2, "--manifest", manifest)
    assert files(tmp_path) == [f"film.{ending}", "m.jsonl"]
    (row,) = lines(manifest.read_text())
    assert (row["frame"], row["length"], row["bytes"]) == (
        10,
        10,
        (tmp_path / f"film.{ending}").stat().st_size,
    )
    read, times = decoded(tmp_path / f"film.{ending}")
    with seqpipe.open(film) as video:
        assert np.abs(read - video[10:30:2].data).mean() <= error
    np.testing.assert_allclose(times, np.arange(10) * 2 / FPS, atol=2e-3)


@pytest.mark.parametrize(("ending", "error"), [("mp4", 1e-4), ("webm", 0.1)])
def test_clips_have_the_sound_of_their_range(run, tmp_path, film, ending, error):
    """AAC is copied into MP4, where an edit list hides what decoders need before; WebM gets Opus."""
    codec = {"mp4": "hevc", "webm": "vp9"}[ending]
    cut = "--sequence-length", 20, "--codec", codec, "--gop", 5, "--format", ending
    run("export", film, "--out", tmp_path, *cut)
    assert files(tmp_path) == [f"film/{number:06d}.{ending}" for number in range(3)]
    with seqpipe.open(film) as video, seqpipe.open(tmp_path / f"film/000000.{ending}") as clip:
        assert (clip.info.codec, clip.index.key_frames.tolist()) == (codec, [0, 5, 10, 15])
        first, last = clip.audio().samples, video.audio(1.6, 2.4).samples
    rate = 48_000 if ending == "webm" else 16_000
    assert (
        np.abs(first[:, : rate * 3 // 8]).max()
        < 0.02
        < np.abs(first[:, rate * 9 // 16 : rate * 3 // 4]).max()
    )
    with seqpipe.open(tmp_path / f"film/000002.{ending}") as clip:
        sound = clip.audio(sample_rate=16_000).samples
    count = min(sound.shape[1], last.shape[1])
    assert abs(sound.shape[1] - last.shape[1]) < 1100, "no more than a packet"
    assert np.abs(sound[:, :count] - last[:, :count])[:, 2000:-2000].max() < error
    assert len(judge(tmp_path / f"film/000002.{ending}").frames) == 20


def test_the_sound_of_a_whole_video_is_copied_into_every_format_that_takes_it(run, tmp_path, film):
    with av.open(str(film)) as source:
        expected = [bytes(packet) for packet in source.demux(audio=0) if packet.size]
    run("export", film, "--out", tmp_path, "--format", "mp4")
    with av.open(str(tmp_path / "film.mp4")) as copy:
        assert [bytes(packet) for packet in copy.demux(audio=0) if packet.size] == expected
    # Opus, which is copied then
    run("export", tmp_path / "film.mp4", "--out", tmp_path / "a", "--format", "webm")
    run("export", tmp_path / "a/film.webm", "--out", tmp_path / "b", "--format", "webm", "--every", 2)
    first, second = (seqpipe.open(tmp_path / f"{name}/film.webm") for name in "ab")
    with first, second:
        whole, copied = first.audio().samples, second.audio().samples
        assert 0 < copied.shape[1] <= whole.shape[1]
        assert (whole[:, : copied.shape[1]] == copied).all()


def test_a_rate_above_the_frames_repeats_them(run, tmp_path, film):
    run("export", film, "--out", tmp_path, "--format", "mp4", "--end", "10f", "--fps", 50)
    read, times = decoded(tmp_path / "film.mp4")
    np.testing.assert_allclose(np.diff(times), 0.02, atol=1e-3)
    assert len(read) == 20
    assert np.abs(read[::2] - read[1::2]).mean() < 1


def test_sprite_sheets_hold_what_a_web_vtt_file_tells(run, tmp_path, film):
    """Ten thumbnails on sheets of six, with the times of the whole film, though a range is exported."""
    command = "export", film, "--out", tmp_path, "--format", "vtt", "--start", "0.4", "--every", 7
    run(*command, "--sheet-grid", "3x2", "--max-side", 64, "--quality", 95, "--pattern", "a b.{ext}")
    sheets = ["a b.sprite-000.jpg", "a b.sprite-001.jpg"]
    assert files(tmp_path) == [*sheets, "a b.vtt"]
    head, *cues = (tmp_path / "a b.vtt").read_text().strip().split("\n\n")
    times = [0.4 + 7 / FPS * number for number in range(len(cues) + 1)]
    assert (head, len(cues)) == ("WEBVTT", 10)
    with seqpipe.open(film, output=seqpipe.OutputSpec(max_side=64)) as video:
        frames = video[10::7].data
    for number, (cue, frame) in enumerate(zip(cues, frames, strict=True)):
        clock, place = cue.splitlines()
        assert clock == " --> ".join(f"00:00:{time:06.3f}" for time in times[number : number + 2])
        name, x, y, width, height = re.fullmatch(r"(.*)#xywh=(\d+),(\d+),(\d+),(\d+)", place).groups()
        x, y, width, height = map(int, (x, y, width, height))
        assert unquote(name) == sheets[number // 6]
        with Image.open(tmp_path / sheets[number // 6]) as image:
            sheet = np.asarray(image)
        assert np.abs(sheet[y : y + height, x : x + width].astype(int) - frame).mean() < 6


def test_a_thumbnail_alone_and_sheets_of_the_default_size(run, tmp_path, film):
    run("export", film, "--out", tmp_path, "--format", "vtt", "--frames", 3)
    assert (tmp_path / "film.vtt").read_text() == (
        "WEBVTT\n\n00:00:00.120 --> 00:00:01.120\nfilm.sprite-000.jpg#xywh=0,0,128,96\n"
    )
    with Image.open(tmp_path / "film.sprite-000.jpg") as sheet:
        assert sheet.size == (128, 96)


def test_sheets_do_not_stay_without_their_web_vtt_file(tmp_path, film):
    (tmp_path / "film.vtt" / "in the way").mkdir(parents=True)
    with seqpipe.open(film) as video, pytest.raises(OutputError, match=r"film\.vtt"):
        encoder("vtt", None, dtype="uint8").write_video(
            tmp_path / "film.vtt", [video[0]], fps=None, audio=None, start_s=0.0
        )
    assert files(tmp_path) == []


def test_each_scene_is_a_sequence(run, tmp_path, film):
    run("export", film, "--out", tmp_path / "a", "--scenes", "--format", "mp4", "--skip-black")
    lengths = []
    for name in files(tmp_path / "a"):
        lengths.append(len(decoded(tmp_path / "a" / name)[0]))
    assert lengths == [20, 30, 20]
    run("export", film, "--out", tmp_path / "b", "--scenes", "--num", 2, "--manifest", tmp_path / "m.jsonl")
    rows = lines((tmp_path / "m.jsonl").read_text())
    assert [(row["sequence"], row["frame"]) for row in rows] == [
        *((0, 5), (0, 15), (1, 27), (1, 42), (2, 56), (2, 68)),
    ]
    run("export", film, "--out", tmp_path / "c", "--scenes", "--sequence-length", 12, "--format", "npy")
    assert len(files(tmp_path / "c")) == 1 + 2 + 2
    run("export", film, "--out", tmp_path / "d", "--scenes", "--format", "npz")
    shapes = [np.load(tmp_path / "d" / name)["data"].shape[0] for name in files(tmp_path / "d")]
    assert shapes == [20, 30, 24]


@pytest.mark.parametrize(
    "options", [("--format", "mp4"), ("--format", "apng", "--every", 3), ("--format", "webm")]
)
def test_scenes_are_written_in_the_pass_that_finds_them(run, tmp_path, film, monkeypatch, options):
    """Files are those of a plan that knows the scenes; WebM, whose sound is encoded anew, needs a pass before."""
    command = "export", film, *options, "--scenes", "--cache-dir", tmp_path / "cache"
    opened, before = [], FrameContent._open
    monkeypatch.setattr(
        FrameContent, "_open", lambda self, name: (opened.append(name), before(self, name))[1]
    )
    run(*command, "--out", tmp_path / "once", "--manifest", tmp_path / "a.jsonl")
    assert len(opened) == ("webm" in options)
    run(*command, "--out", tmp_path / "twice", "--manifest", tmp_path / "b.jsonl")
    assert files(tmp_path / "once") == files(tmp_path / "twice")
    assert len(files(tmp_path / "once")) == 3
    first, second = (lines((tmp_path / f"{name}.jsonl").read_text()) for name in "ab")
    assert first == second
    for name in () if "webm" in options else files(tmp_path / "once"):  # WebM has random identifiers
        assert (tmp_path / "once" / name).read_bytes() == (tmp_path / "twice" / name).read_bytes(), name
    assert not [path for path in (tmp_path / "once").iterdir() if "scenes" in path.name]


def test_frames_are_left_out_by_what_they_show(run, tmp_path, film):
    def kept(*options):
        run(
            "export",
            film,
            "--out",
            tmp_path / "x",
            "--overwrite",
            "--manifest",
            tmp_path / "m.jsonl",
            *options,
        )
        return [row["frame"] for row in lines((tmp_path / "m.jsonl").read_text())]

    assert kept("--skip-black") == [*range(50), *range(54, 74)]
    assert kept("--min-sharpness", 1) == [*range(50), *range(54, 74)]
    unique = kept("--dedup", 0)
    assert unique[0] == 0
    assert {20, 50, 54} < set(unique)
    assert len(unique) < 60
    refused = run(
        "export", film, "--out", tmp_path / "y", "--end", "20f", "--min-sharpness", 1e6, code=1
    ).stderr
    assert "none of its 20 frames or sequences is kept by --min-sharpness 1e+06" in refused


def test_a_video_without_sound_and_one_whose_sound_ends_early(run, tmp_path):
    frames = Sequence(picture(5, 20), "FHWC", timestamps=np.arange(20) / FPS)
    frames.save(tmp_path / "silent.mp4")
    sound = AudioSamples(np.ones((1, 4000), np.float32) / 2, 16_000, 0)
    seqpipe.write_video(tmp_path / "early.mp4", frames, audio=sound)
    run(
        "export", tmp_path / "silent.mp4", tmp_path / "early.mp4", "--out", tmp_path / "o", "--format", "webm"
    )
    for name, heard in (("silent", False), ("early", True)):
        with seqpipe.open(tmp_path / f"o/{name}.webm") as video:
            assert (len(video), video.info.has_audio) == (20, heard)
            assert not heard or video.audio().duration_s < 0.4


def test_a_full_disk_leaves_no_partial_video_and_resume_goes_on(run, tmp_path, film, monkeypatch):
    command = "export", film, "--out", tmp_path / "o", "--format", "mp4", "--scenes", "--jobs", 1
    encode, calls = write._Writer._encode, []

    def full(*arguments):
        calls.append(arguments)
        if len(calls) > 30:
            raise OSError(errno.ENOSPC, "No space left on device")
        encode(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(write._Writer, "_encode", full)
        said = run(*command, code=1).stderr
    assert "000001.mp4 (No space left on device)" in said
    assert files(tmp_path / "o") == ["film/000000.mp4"]
    before = (tmp_path / "o/film/000000.mp4").stat()
    run(*command, "--resume")
    assert len(files(tmp_path / "o")) == 3
    assert (tmp_path / "o/film/000000.mp4").stat() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--format", "mp4", "--codec", "vp9"), "codec='vp9' is not for mp4 files; allowed: h264, hevc, av1"),
        (("--format", "gif", "--quality", 5), "quality=5 means nothing for gif"),
        (
            ("--format", "png", "--gop", 5),
            "gop=5 means nothing for png; allowed: the formats mp4, webm, gif, apng",
        ),
        (("--scenes", "--frames", "1,2"), "--frames and --scenes exclude one another"),
        (
            ("--transfer", "linear"),
            "linear gives float32, which jpg does not hold; allowed: the formats npy and npz",
        ),
        (("--format", "vtt", "--codec", "h264"), "codec='h264' means nothing for vtt"),
    ],
)
def test_what_does_not_fit_together_is_refused(run, tmp_path, film, options, message):
    assert message in run("export", film, "--out", tmp_path / "o", *options, code=2).stderr


@pytest.mark.parametrize(("transfer", "ending"), [("sdr", "png"), ("linear", "npy")])
def test_hdr_films_become_sdr_or_light(run, tmp_path, transfer, ending):
    source = shared_media() / "video/codec/hevc10_pq_nasa.mp4"
    run("export", source, "--out", tmp_path, "--frames", 3, "--transfer", transfer, "--format", ending)
    path = tmp_path / f"hevc10_pq_nasa/000000.{ending}"
    dtype = "uint8" if ending == "png" else "float32"
    with seqpipe.open(source, output=seqpipe.OutputSpec(transfer=transfer, dtype=dtype)) as video:
        expected = video[3].data
    np.testing.assert_array_equal(np.load(path) if ending == "npy" else decoded(path)[0][0], expected)


@pytest.mark.deep
def test_a_gif_of_a_thousand_frames(run, tmp_path):
    frames = np.random.default_rng(0).integers(0, 256, (1000, 16, 16, 3), np.uint8)
    Sequence(frames, "FHWC", timestamps=np.arange(1000) / 50).save(tmp_path / "long.mp4")
    run("export", tmp_path / "long.mp4", "--out", tmp_path / "o", "--format", "gif")
    assert len(decoded(tmp_path / "o/long.gif")[0]) == 1000
