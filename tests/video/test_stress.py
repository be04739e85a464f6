"""Requests of every kind over many files at once: no wrong frame, no error that need not be, nothing that grows."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

import seqpipe
from seqpipe.video.convert.output import OutputSpec
from seqpipe.video.engine.engine import Engine
from tests.support.memory import growth, usage
from tests.support.stress import Stress
from tests.support.truth import PLAIN, known_file, known_files, unlike

_PARTS = 12


@pytest.mark.parametrize(
    ("device", "decode", "count", "requests"),
    [
        ("cpu", "auto", 4, 24),
        pytest.param("cpu", "auto", 8, 600, marks=pytest.mark.deep),
        pytest.param("cuda", "auto", 60, 3000, marks=pytest.mark.gpu),
        pytest.param("cuda", "mixed", 60, 3000, marks=pytest.mark.gpu),
        pytest.param("cuda", "nvdec", 60, 3000, marks=pytest.mark.gpu),
        pytest.param("cuda", "cpu", 12, 600, marks=pytest.mark.gpu),
    ],
)
@pytest.mark.deep
def test_nothing_is_wrong_and_nothing_grows(device, decode, count, requests):
    samples = []
    with Stress(known_files(count), device=device, decode=decode, threads=2, askers=range(2)) as stress:
        stress.run(requests // 2)
        for _ in range(_PARTS):
            stress.run(requests // 2 // _PARTS)
            samples.append(usage(device))
        frames = stress.stats()["frames"]
    assert stress.faults == []
    assert stress.requests >= requests
    assert growth(samples) == []
    assert sum(frames.values()) > requests / 2
    if device == "cuda" and decode != "cpu":
        assert frames["nvdec"] > 0
    if decode == "nvdec":
        assert stress.refused
        assert "cpu" not in frames


@pytest.mark.parametrize(
    "output",
    [PLAIN, OutputSpec(mirror=True), OutputSpec(dtype="float16", layout="FCHW"), OutputSpec(size=(72, 120))],
)
@pytest.mark.parametrize("name", ["h264", "rotated_90_mirrored", "odd_vp9"])
def test_the_judge_knows_a_wrong_frame(name, output):
    truth, asked = known_file(name), np.array([5, 30, 5])
    with seqpipe.open(truth.path, output=output) as reader:
        right = reader.frames(asked)
        swapped = replace(right, data=reader.frames([5, 31, 5]).data)
    assert unlike(right, asked, output, truth, 0) == ""
    assert unlike(swapped, asked, output, truth, 0.5).startswith("frame 30 should show 30")
    assert "came" in unlike(right, asked[::-1] - 1, output, truth, 0)


def test_the_judge_knows_damage_below_the_number():
    truth, asked = known_file("h264"), np.array([5])
    pixels = truth.pictures[asked].copy()
    pixels[:, 60:80] ^= 16
    found = seqpipe.Sequence(pixels, "FHWC", truth.path, asked, asked / 25)
    assert "levels from it: it shows 5" in unlike(found, asked, PLAIN, truth, 0.5)


def test_a_stress_tells_of_errors_and_of_wrong_frames(monkeypatch):
    read = Engine.submit

    def off_by_one(self, requests):
        return read(self, [replace(r, frames=np.maximum(r.frames - 1, 0)) for r in requests])

    monkeypatch.setattr(Engine, "submit", off_by_one)
    with Stress([known_file("h264"), known_file("vp9")], threads=1) as stress:
        stress.run(10_000, until=time.monotonic() + 20)
    assert 20 <= len(stress.faults) < 40
    assert any("h264.mp4" in fault and " came" in fault for fault in stress.faults)
