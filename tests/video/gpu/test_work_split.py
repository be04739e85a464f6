"""Who takes a job where a GPU and cores work side by side: pure arithmetic on measured rates."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from seqpipe.video.convert.converter import HostPainter
from seqpipe.video.decode.cpu import DecoderPool
from seqpipe.video.engine.backend import DecodeBackend
from seqpipe.video.engine.gpu_backends import CpuShare, WorkSplit, mixed_cpu_workers


def job(cost, codec="h264", size=(1920, 1080)):
    info = SimpleNamespace(codec=codec, width=size[0], height=size[1])
    video = SimpleNamespace(index=SimpleNamespace(info=info))
    return SimpleNamespace(pixels=cost * size[0] * size[1], video=video)


@pytest.fixture
def split():
    made = WorkSplit(lambda info: "" if info.codec == "h264" else "not here", lambda _: 7)
    for _ in range(60):  # 700 frames a second
        made.gpu_done([job(700)], 1.0)
    return made


@pytest.fixture
def cores(split):
    return with_rate(CpuShare(split), 20)


def with_rate(cores, rate):
    for _ in range(60):
        cores.done([job(rate)], 1.0)
    return cores


def test_the_gpu_takes_the_foremost_job_that_it_can_decode(split):
    jobs = [job(10, "prores"), job(20), job(30)]
    gpu = DecodeBackend("gpu", DecoderPool(), HostPainter, fits=split.takes)
    assert gpu.pick(jobs) is jobs[1]
    assert gpu.pick(jobs[:1]) is None
    assert gpu.pick([]) is None


def test_cores_take_what_the_gpu_cannot_decode_first(split, cores):
    jobs = [job(10), job(20, "prores"), job(30)]
    assert cores.choose(jobs, jobs) is jobs[1]
    assert cores.choose([], jobs) is None
    others = DecodeBackend("cpu", DecoderPool(), HostPainter, fits=split.refuses)
    assert others.pick(jobs) is jobs[1]
    assert others.pick([job(10)]) is None


def test_a_core_helps_only_where_the_gpu_would_end_later(cores):
    # a core needs 5 s for 100 frames; the GPU does 4900 in a second
    assert cores.choose([job(100)] * 50, [job(100)] * 50) is None
    busy = [job(100) for _ in range(300)]
    assert cores.choose(busy, busy) is busy[-1]


def test_rates_are_learnt(split, cores):
    waiting = [job(100) for _ in range(300)]
    with_rate(cores, 2)
    assert cores.choose(waiting, waiting) is None
    for _ in range(60):
        split.gpu_done([job(7)], 1.0)
    assert cores.choose(waiting, waiting) is waiting[-1]


def test_each_kind_of_worker_takes_what_fits_it_and_learns_for_itself(split):
    fit = SimpleNamespace(fit=lambda video: video.index.info.width <= 1000, count=3, close=None)
    large, small = (
        replace(way, choose=with_rate(CpuShare(split), rate).choose)
        for way, rate in zip(
            DecodeBackend("cpu", DecoderPool(), HostPainter).with_helpers(fit), (20, 2), strict=True
        )
    )
    waiting = [job(100) for _ in range(300)]
    tiny = job(1, size=(320, 240))
    assert large.pick([*waiting, tiny]) is waiting[-1]
    assert small.pick([*waiting, *[tiny] * 200]) is tiny
    assert small.pick(waiting) is None
    assert large.pick([tiny]) is None
    refused = job(10, "prores", size=(320, 240))
    assert small.pick([refused, *waiting]) is refused
    assert large.pick([refused, *waiting]) is waiting[-1]


def test_what_several_threads_of_a_core_do_is_expected_of_them_from_the_beginning():
    waiting = [job(100) for _ in range(12)]
    split = WorkSplit(lambda _: "", lambda _: 14)
    assert CpuShare(split, threads=1).choose(waiting, waiting) is None
    assert CpuShare(split, threads=7).choose(waiting, waiting) is waiting[-1]


@pytest.mark.parametrize("cores", range(1, 40))
def test_what_helps_the_engines_leaves_two_cores_to_feed_them(cores):
    workers, threads = mixed_cpu_workers(cores)
    assert workers >= 1
    assert threads >= 1
    assert workers * threads <= max(1, cores - 2) < workers * threads + 7
