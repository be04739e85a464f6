"""Numbered images and animated images, beside Pillow; and segments of DASH, beside ffmpeg's frames."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
from PIL import Image

import seqpipe
from data_scripts.media_encode import run_ffmpeg
from seqpipe import OutputSpec
from seqpipe.errors import BackendError, ParameterError, SourceNotFoundError, UnreadableSourceError
from tests.support import ffmpeg, media

DURATIONS_MS = [100, 30, 250, 0, 70]


def image(number: int, mode: str = "RGBA") -> Image.Image:
    pixels = np.zeros((24, 32, 4), np.uint8)
    pixels[..., 0], pixels[..., 1], pixels[..., 3] = 40 * number, np.arange(32), 255
    pixels[8:16, 4 * number : 4 * number + 8] = 255, 255, 0, 128
    return Image.fromarray(pixels).convert(mode)


def numbered(folder, pattern, numbers, mode="RGB"):
    for number in numbers:
        image(number % 5, mode).save(folder / (pattern % number))
    return str(folder / pattern)


@pytest.mark.parametrize(
    ("pattern", "numbers"),
    [
        ("img%03d.png", range(7, 12)),
        ("i%d.bmp", range(8, 12)),
        ("a%02d.jpg", range(98, 102)),
        ("t%02d.tif", range(2)),
        ("%d.webp", range(3)),
    ],
)
def test_numbered_images_are_a_video(pattern, numbers, tmp_path):
    path = numbered(tmp_path, pattern, numbers)
    (tmp_path / "other.png").write_bytes(b"")
    reader = seqpipe.open(path)
    assert reader.timestamps.tolist() == [number / 25 for number in range(len(numbers))]
    assert (reader.info.container, reader.fps, reader.duration) == (
        "image2",
        25,
        pytest.approx(len(numbers) / 25),
    )
    for position, number in enumerate(numbers):
        file = tmp_path / (pattern % number)
        if pattern.endswith(("jpg", "webp")):  # lossy, and converted to RGB in other ways
            expected = seqpipe.open(file)[0].numpy()
        else:
            with Image.open(file) as judge:
                expected = np.array(judge.convert("RGB"))
        np.testing.assert_array_equal(reader[position].numpy(), expected)
    numbers_read = [sample["frames"].tolist() for sample in seqpipe.videos(path, 2)]
    assert sorted(numbers_read) == [[at, at + 1] for at in range(0, len(numbers) - 1, 2)]


def test_numbered_images_may_differ_in_format_and_change(tmp_path):
    path = numbered(tmp_path, "f%d.png", range(3))
    image(1, "RGBA").save(tmp_path / "f1.png")
    pixels = seqpipe.open(path, output=OutputSpec(color="RGBA"))[:].numpy()
    assert [len(np.unique(frame[..., 3])) for frame in pixels] == [1, 2, 1]
    image(4, "RGB").save(tmp_path / "f3.png")
    assert len(seqpipe.open(path)) == 4


def test_gaps_and_absent_images_are_named(tmp_path):
    path = numbered(tmp_path, "i%03d.png", (2, 3, 5, *range(12, 14)))
    with pytest.raises(UnreadableSourceError, match=r"7 of the images 2 to 13 are missing: 4, 6, 7, 8, 9, …"):
        seqpipe.open(path)
    with pytest.raises(SourceNotFoundError, match=r"no file has a name of this pattern.*%04d"):
        seqpipe.open(tmp_path / "i%04d.png")
    with pytest.raises(ParameterError, match="images are not streamed"):
        next(seqpipe.stream(numbered(tmp_path, "s%d.png", range(2))))
    (tmp_path / "v1.png").write_bytes(media.made("h264").read_bytes())
    with pytest.raises(UnreadableSourceError, match=r"the first file of the pattern is a video \(h264\)"):
        seqpipe.open(tmp_path / "v%d.png")
    image(0).save(tmp_path / "100%d.png")
    assert len(seqpipe.open(tmp_path / "100%d.png")) == 1, "a file of this name comes first"


@pytest.mark.parametrize("ending", ["webp", "apng", "gif", "avif"])
def test_animated_images(ending, tmp_path):
    """Frames without loss equal those of Pillow; durations are exact."""
    path, color = tmp_path / f"clip.{ending}", "RGB" if ending == "avif" else "RGBA"
    frames = [image(number, color) for number in range(5)]
    options = {"webp": {"lossless": True}, "gif": {"disposal": 2}, "apng": {"format": "PNG"}}.get(ending, {})
    durations = [duration or 10 for duration in DURATIONS_MS] if ending != "webp" else DURATIONS_MS
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=durations, **options)
    reader = seqpipe.open(path, output=OutputSpec(color=color))
    assert len(reader) == 5
    np.testing.assert_allclose(reader.timestamps, np.cumsum([0, *durations[:-1]]) / 1000, atol=1e-9)
    assert reader.duration == pytest.approx(sum(durations) / 1000)
    pixels = reader.frames([4, 0, 2, 1, 3]).numpy()[[1, 3, 2, 4, 0]]
    if ending != "avif":  # lossy, and converted to RGB in other ways
        with Image.open(path) as judge:
            for number, frame in enumerate(pixels):
                judge.seek(number)
                np.testing.assert_array_equal(frame, np.array(judge.convert(color)))
    np.testing.assert_array_equal(pixels[..., :3], seqpipe.open(path.read_bytes())[:].numpy())


def test_animated_webp_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    path, frames = tmp_path / "clip.webp", [image(number) for number in range(3)]
    frames[0].save(path, save_all=True, append_images=frames[1:], lossless=True)
    data = path.read_bytes()
    with pytest.raises(UnreadableSourceError, match="truncated: it has 2 whole frames"):
        seqpipe.open(data[:-20])
    path.rename(tmp_path / "clip.bin")
    with pytest.raises(UnreadableSourceError, match=r"name ends in \.webp"):
        seqpipe.open(tmp_path / "clip.bin")
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "PIL.Image", None)
        with pytest.raises(BackendError, match=r"pip install 'seqpipe\[webp\]'"):
            seqpipe.open(data)[0]


def test_alpha_of_avif_is_refused():
    file = io.BytesIO()
    image(0).save(file, "AVIF")
    with pytest.raises(ParameterError, match="alpha of AVIF"):
        seqpipe.open(file, output=OutputSpec(color="RGBA"))
    assert seqpipe.open(file)[0].shape == (24, 32, 3)


@pytest.mark.parametrize(
    "options",
    [
        ("-seg_duration", "1"),
        ("-seg_duration", "1", "-use_timeline", "0"),
        ("-single_file", "1"),
        ("-seg_duration", "1", "-use_template", "0"),
    ],
)
def test_a_dash_manifest_is_its_largest_video(options, tmp_path):
    source = tmp_path / "whole.mp4"
    ffmpeg.write(source, "-f", "lavfi", "-i", "testsrc2=s=64x48:r=10:d=3", "-c:v", "libx264", "-g", "10")
    arguments = ("-i", str(source), "-map", "0:v", "-map", "0:v", "-c", "copy", "-c:v:1", "libx264")
    run_ffmpeg(*arguments, "-s:v:1", "32x32", "-f", "dash", *options, str(tmp_path / "clip.mpd"))
    reader = seqpipe.open(tmp_path / "clip.mpd")
    expected = seqpipe.open(source)
    assert len(reader) == len(expected)
    np.testing.assert_allclose(np.diff(reader.timestamps), np.diff(expected.timestamps), atol=1e-6)
    wanted = [len(expected) - 1, 0, len(expected) // 2]
    np.testing.assert_array_equal(reader.frames(wanted).numpy(), expected.frames(wanted).numpy())
    segments = sorted(tmp_path.glob("*stream0*"))
    segments[-1].unlink()
    with pytest.raises(SourceNotFoundError, match=rf"{segments[-1].name} is missing"):
        seqpipe.open(tmp_path / "clip.mpd")


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("<MPD xmlns='urn:mpeg:dash:schema:mpd:2011' type='dynamic'/>", "it is dynamic, with 0 periods"),
        ("<MPD xmlns='urn:mpeg:dash:schema:mpd:2011'><Period/></MPD>", "it has no video"),
        (
            "<MPD xmlns='urn:mpeg:dash:schema:mpd:2011' mediaPresentationDuration='PT1S'><Period><AdaptationSet "
            "contentType='video'><SegmentTemplate duration='1'/><Representation/></AdaptationSet></Period></MPD>",
            "it cannot be read \\('media'\\)",
        ),
        ("<MPD", "it cannot be read"),
    ],
)
def test_dash_manifests_that_cannot_be_read_are_named(text, fact, tmp_path):
    (tmp_path / "clip.mpd").write_text(text)
    with pytest.raises(UnreadableSourceError, match=fact):
        seqpipe.open(tmp_path / "clip.mpd")
