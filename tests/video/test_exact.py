"""Decoded surfaces are ffmpeg's, bit by bit: every frame, by every way to it, under the right number and time.

The judge is another build (FFmpeg 9, imageio-ffmpeg's) than the libraries inside PyAV (FFmpeg 8.1); no codec of the set
decodes differently in the two, so no file is exempt.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqpipe
from seqpipe.video.convert.surface import Surface
from seqpipe.video.decode import run
from seqpipe.video.engine.engine import Engine
from seqpipe.video.packet_index import PacketTable
from seqpipe.video.plan import DecodePlan, Request, make_plan
from tests.support import access, ffmpeg, media
from tests.support.access import WAYS, Frame
from tests.support.deep import deep, deep_but

# test_clock proves the times of these: the container has none, repeats them, or begins again, and ffmpeg guesses.
_NO_CLOCK = {"mpeg4_avi", "h264_avi", "mpeg4_one_b", "mpeg4_packed", "duplicate_pts_mp4", "joined"}


@pytest.fixture(autouse=True)
def surfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    access.tap_surfaces(monkeypatch)


MADE = [*media.names("sound"), *media.names("mixed")]


@pytest.mark.parametrize("name", deep_but(MADE[::7], MADE))
def test_a_made_video_is_exact_by_every_way(name):
    _check(media.made(name), times=name not in _NO_CLOCK)
    assert len(access.indexed(media.made(name))) == media.entry(name).frames


REAL = [name for name in access.shared_names() if "/corrupt/" not in str(name)]


# six clips of one camera and one encoder: one of them stands for all
ALIKE = [name for name in REAL if "/asl_" in str(name)][1:]


@pytest.mark.parametrize(
    "name", [deep(name) if access.is_long(name) or name in ALIKE else name for name in REAL]
)
def test_a_real_video_is_exact_by_every_way(name):
    _check(media.shared_media() / name)


def _check(path: Path, *, times: bool = True) -> None:
    judged, index = ffmpeg.judge(path, planar=True), access.indexed(path)
    assert judged.complaints == ()
    assert len(index) == len(judged.frames)
    if times:
        assert index.timestamps.tolist() == [frame.time_s for frame in judged.frames]
    differing = {way: _wrong(path, go(path)) for way, go in WAYS.items()}
    assert {way: frames for way, frames in differing.items() if frames} == {}


def _wrong(path: Path, found: Iterable[Frame]) -> list[int]:
    """The numbers of the frames whose surface is not the judge's."""
    expected = [frame.md5 for frame in ffmpeg.judge(path, planar=True).frames]
    delivered = list(found)
    assert delivered
    return [number for number, digest in delivered if digest != expected[number]]


def test_one_batch_across_files_is_exact():
    paths = [media.made(name) for name in media.names("sound")[::4]]
    requests = [(path, frames) for path in paths for frames in _two_of_one_gop(path)]
    random.Random(0).shuffle(requests)
    with Engine(threads=2) as engine:
        results = engine.read([Request(path, frames) for path, frames in requests])
    assert len(results) == 2 * len(paths)
    for (path, frames), result in zip(requests, results, strict=True):
        assert isinstance(result, seqpipe.Sequence), result
        found = access.digests(result)
        assert [number for number, _ in found] == frames.tolist()
        assert _wrong(path, found) == [], path


def _two_of_one_gop(path: Path) -> list[np.ndarray]:
    """Frames around the middle, backwards, and others that the same decode passes by."""
    middle = len(access.indexed(path)) // 2
    return [np.arange(middle + 4, middle - 4, -2), np.arange(middle - 3, middle + 5, 3)]


@pytest.mark.parametrize(
    "name", ["h264", "h264_open_gop", "hevc", "vp9_altref", "av1", "mpeg4_mp4", "mpeg2_ts"]
)
def test_a_plan_without_one_of_its_references_would_be_noticed(name, monkeypatch):
    path = media.made(name)
    index = access.indexed(path)
    table = index.packets
    candidates = np.flatnonzero(table.reference & ~table.key)
    missing = int(candidates[len(candidates) // 2])

    def plan_without(table: PacketTable, wanted: np.ndarray, **options: Any) -> DecodePlan:
        plan = make_plan(table, wanted, **options)
        return DecodePlan(
            tuple(replace(part, packets=part.packets[part.packets != missing]) for part in plan.segments)
        )

    wanted = table.packet_frame[(table.gop == table.gop[missing]) & table.shown]
    monkeypatch.setattr(run, "make_plan", plan_without)
    found = access.decode(path, index, wanted)
    assert found.lost or _wrong(path, found.frames.items())


def test_frames_under_the_number_of_their_neighbor_would_be_noticed(monkeypatch):
    def next_number(frame: object, number: int) -> Surface:
        return of(frame, number ^ 1)  # type: ignore[arg-type]  # a frame of PyAV

    of = Surface.of
    monkeypatch.setattr(Surface, "of", next_number)
    assert [way for way, go in WAYS.items() if not _noticed(media.made("h264"), go)] == []


def _noticed(path: Path, go: access.Way) -> bool:
    try:
        return bool(_wrong(path, go(path)))
    except (AssertionError, KeyError):
        return True
