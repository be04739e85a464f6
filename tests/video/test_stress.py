"""Requests of every kind over many files at once: no wrong frame, no error that need not be, nothing that grows."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from multiprocessing import active_children

import numpy as np
import pytest

import seqpipe
from seqpipe.video.convert.output import OutputSpec
from seqpipe.video.engine.engine import Engine
from seqpipe.video.plan.request import Request
from seqpipe.video.reader import VideoReader
from tests.support.crowd import Crowd
from tests.support.judge import Judge
from tests.support.media import made
from tests.support.memory import LIMITS, Usage, growth, usage
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


@pytest.mark.deep
@pytest.mark.parametrize(("way", "of"), [("frames", "h264"), ("_stream", "vp9")])
def test_a_wrong_frame_of_one_reader_is_found_among_many_askers(monkeypatch, way, of):
    """By its pixels alone: it is said to be the one that was asked for."""
    right, known = getattr(VideoReader, way), [known_file("h264"), known_file("vp9")]

    def shown_wrong(reader, numbers, **options):
        found = right(reader, numbers, **options)
        if of not in reader.info.source:
            return found
        return rolled(found) if isinstance(found, seqpipe.Sequence) else (rolled(one) for one in found)

    def rolled(found):
        return replace(found, data=np.roll(found.data, 40, axis=1))

    monkeypatch.setattr(VideoReader, way, shown_wrong)
    with Stress(known, threads=1, askers=range(4)) as stress:
        stress.run(600)
    assert stress.faults
    assert all(f"{of}." in fault and " should show " in fault for fault in stress.faults)


@pytest.mark.deep
def test_an_error_of_one_asker_ends_all(monkeypatch):
    calls = itertools.count()

    def broken(self, asked, found):
        if next(calls) == 40:
            raise RuntimeError("no judge")
        return ""

    monkeypatch.setattr(Judge, "wrong", broken)
    with Stress([known_file("h264")], threads=1, askers=range(3)) as stress:
        with pytest.raises(RuntimeError, match="no judge"):
            stress.run(1_000_000)
        assert stress.requests < 1000


@pytest.mark.deep
def test_what_is_asked_depends_on_seed_and_number_alone():
    """However many processes share the askers."""
    asked = []
    with Stress(known_files(2), threads=1, askers=range(4)) as stress:
        stress.run(80)
        asked.append((stress.requests, stress.frames))
    with Crowd(2, 4, 2, device="cpu", threads=1) as crowd:
        held = crowd.run(80, until=float("inf"))
        asked.append((crowd.requests, crowd.frames))
        assert crowd.faults == []
        assert crowd.decoded["cpu"] > 0
    assert asked[0] == asked[1]
    assert held.threads >= 2
    assert held.host_mib > 50, "what holds NumPy and PyAV holds more"


def test_a_crowd_tells_of_growth_in_one_process_and_on_the_device():
    crowd = Crowd.__new__(Crowd)
    crowd._processes, crowd._samples = [None, None], []
    assert "warm-up" in crowd.growth()[0]
    flat = Usage(host_mib=100, device_mib=1000, pool_mib=5, sessions=3, threads=4, files=9)
    for step in range(9):
        crowd._samples.append(
            [replace(flat, device_mib=1000 + 20 * step), replace(flat, host_mib=100 + 6 * step)]
        )
    assert crowd.growth() == [
        "process 1: host_mib has grown from 106 to 142",
    ]


@pytest.mark.deep
def test_a_process_that_fails_ends_a_crowd(capfd):
    with pytest.raises(ChildProcessError, match="process 0 has ended"):
        Crowd(2, 2, 1, device="nonsense")
    assert active_children() == []
    assert "nonsense" in capfd.readouterr().err


@pytest.mark.deep
def test_growth_is_seen_where_it_is():
    kept = []
    with Engine(1) as engine:
        request = Request(str(made("h264")), np.arange(48))
        samples = []
        for _ in range(9):
            kept += [engine.read([request])[0] for _ in range(6)]
            samples.append(usage("cpu"))
    assert [line.split()[0] for line in growth(samples)] == ["host_mib"]
    flat = Usage(host_mib=100, device_mib=1000, pool_mib=5, sessions=3, threads=4, files=9)
    assert growth([flat] * 9) == []
    for name in ("device_mib", "pool_mib", "sessions", "threads", "files"):
        more = replace(flat, **{name: getattr(flat, name) + getattr(LIMITS, name) + 1})
        assert growth([flat] * 5 + [more] * 4) == [
            f"{name} has grown from {getattr(flat, name)} to {getattr(more, name)}"
        ]


@pytest.mark.parametrize(("host_mib", "found"), [(160, []), (166, ["host_mib has grown from 100 to 166"])])
def test_sessions_that_wait_may_hold_what_is_theirs(host_mib, found):
    flat = Usage(host_mib=100, device_mib=1000, pool_mib=5, sessions=3, threads=4, files=9)
    assert growth([flat] * 5 + [replace(flat, sessions=7, host_mib=host_mib)] * 4) == found
