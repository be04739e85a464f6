"""Files with several video streams: ffmpeg's choice, or the one that is asked for."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import seqpipe
from seqpipe.cli.app import main
from seqpipe.errors import ParameterError
from seqpipe.video.probe.info import ContainerStream
from seqpipe.video.probe.probe import probe
from tests.support import ffmpeg
from tests.support.datasets import clips
from tests.support.media import made

_LAVFI = "-f lavfi -i testsrc2=size={}:rate=25:duration=0.4"


def encoded(path: Path, *sizes: str, options: str = "") -> Path:
    inputs = " ".join(_LAVFI.format(size) for size in sizes)
    maps = " ".join(f"-map {i}:v" for i in range(len(sizes)))
    ffmpeg.write(path, *shlex.split(f"{inputs} {maps} -c:v mpeg4 -g 5 {options}"))
    return path


def chosen_by_ffmpeg(path: Path) -> int:
    """The number of the stream that the program takes when nothing is said."""
    _, said = ffmpeg.said("-i", str(path), "-frames:v", "1", "-f", "null", "-")
    found = re.search(r"Stream #0:(\d+) -> #0:0", said)
    assert found, said
    return int(found[1])


CASES = {
    "largest": (("64x48", "128x96", "96x64"), "", 1),
    "default beats larger": (("64x48", "128x96"), "-disposition:v:0 default -disposition:v:1 0", 0),
    "no default": (("64x48", "128x96"), "-disposition:v:0 0 -disposition:v:1 0", 1),
    "both default": (("64x48", "128x96"), "-disposition:v:0 default -disposition:v:1 default", 1),
    "equal": (("64x48", "64x48"), "-disposition:v:0 0 -disposition:v:1 0", 0),
}


@pytest.mark.parametrize("ending", ["mkv", "mp4", "nut"])
@pytest.mark.parametrize("case", CASES)
def test_the_best_stream_is_the_one_that_ffmpeg_takes(case, ending, tmp_path):
    """The first one was taken, whatever the others are."""
    sizes, options, _ = CASES[case]
    path = encoded(tmp_path / f"several.{ending}", *sizes, options=options)
    chosen = chosen_by_ffmpeg(path)
    info = probe(path)
    assert info.stream == chosen
    assert f"{info.width}x{info.height}" == sizes[chosen]
    with seqpipe.open(path, threads=1) as video:
        assert video.info.stream == chosen
        assert video[3].shape[:2] == (info.height, info.width)


def test_the_rule_is_what_it_is_said_to_be(tmp_path):
    sizes, options, expected = CASES["default beats larger"]
    assert probe(encoded(tmp_path / "a.mkv", *sizes, options=options)).stream == expected


def test_a_cover_picture_is_never_taken():
    info = probe(made("cover"))
    covers = [entry.number for entry in info.streams if entry.cover]
    assert covers
    assert info.stream not in covers
    with pytest.raises(
        ParameterError, match=f"stream={covers[0]} is no video stream; allowed: {info.stream}"
    ):
        probe(made("cover"), stream=covers[0])


@pytest.mark.parametrize("ending", ["mkv", "avi"])
def test_a_stream_that_is_asked_for_is_delivered_everywhere(ending, tmp_path):
    """By readers of packets at offsets and through the demuxer; each stream has an index of its own in the cache."""
    path = encoded(tmp_path / f"several.{ending}", "64x48", "128x96")
    for _ in range(2):
        for number, shape in ((0, (48, 64)), (1, (96, 128)), (None, None)):
            shape = shape or {0: (48, 64), 1: (96, 128)}[chosen_by_ffmpeg(path)]
            with seqpipe.open(path, stream=number, cache_dir=tmp_path, threads=1) as video:
                alone = video.frames([7, 2]).numpy()
                assert alone.shape == (2, *shape, 3)
                assert [frame.shape[:2] for frame in video] == [shape] * len(video)
            given = {"length": 4, "stream": number, "cache_dir": tmp_path, "threads": 1}
            with clips(path, **given) as dataset:
                (batch,) = dataset.batch(9)
                assert batch["image"].shape[2:4] == shape
                assert (batch["image"].data[0, 2] == alone[1]).all()
            with clips(path, **given, fps=12.5) as dataset:
                assert dataset.sample(0)["image"].shape[1:3] == shape


@pytest.mark.parametrize("stream", [2, 7])
def test_a_stream_that_is_not_there_is_named(stream, tmp_path):
    path = encoded(tmp_path / "several.mkv", "64x48", "128x96")
    said = f"stream={stream} is no video stream; allowed: 0, 1"
    for ask in (lambda: seqpipe.open(path, stream=stream), lambda: probe(path, stream=stream)):
        with pytest.raises(ParameterError, match=said):
            ask()
    with pytest.raises(ParameterError, match="stream=-1 is not valid"):
        seqpipe.open(path, stream=-1)


def test_streams_are_listed():
    info = probe(made("two_videos"))
    assert [(entry.number, entry.kind, entry.codec, entry.default) for entry in info.streams] == [
        (0, "video", "h264", True),
        (1, "video", "mpeg4", False),
    ]
    assert str(info.streams[1]) == "1: video mpeg4 64x64"
    assert type(info).from_json(json.loads(json.dumps(info.to_json()))) == info
    cover = ContainerStream(number=3, kind="video", codec=None, width=8, height=6, default=True, cover=True)
    assert str(cover) == "3: video unknown 8x6 (default,cover picture)"


def test_the_command_line_lists_and_takes_streams(tmp_path):
    path, run = encoded(tmp_path / "several.mkv", "64x48", "128x96"), CliRunner().invoke
    cache = ["--cache-dir", str(tmp_path)]
    listed = json.loads(run(main, ["probe", str(path), "--json", *cache]).output)
    assert [entry["number"] for entry in listed["streams"]] == [0, 1]
    assert "1: video mpeg4 128x96" in run(main, ["probe", str(path), *cache]).output
    assert json.loads(run(main, ["probe", str(path), "--json", "--stream", "0"]).output)["width"] == 64
    for stream, size in (("0", "64x48"), ("1", "128x96")):
        out = tmp_path / f"out{stream}"
        done = run(
            main, ["export", str(path), "--out", str(out), "--stream", stream, "--format", "png", *cache]
        )
        assert done.exit_code == 0, done.output
        first = probe(next(out.rglob("*.png")))
        assert f"{first.width}x{first.height}" == size
    assert run(main, ["index", str(path), "--stream", "5", *cache]).exit_code == 1
