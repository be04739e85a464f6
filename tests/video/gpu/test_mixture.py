"""Who takes a job where a card and cores work side by side: pure arithmetic on measured rates."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from seqpipe.video.gpu.mixture import Mixture
from seqpipe.video.gpu.ways import beside_engines


def job(cost, codec="h264", size=(1920, 1080)):
    info = SimpleNamespace(codec=codec, width=size[0], height=size[1])
    return SimpleNamespace(cost=cost, video=SimpleNamespace(index=SimpleNamespace(info=info)))


@pytest.fixture
def mixture():
    made = Mixture(lambda info: "" if info.codec == "h264" else "not here", 7)
    for _ in range(60):  # 700 and 20 frames a second
        made.card_done([job(700)], 1.0)
        made.core_done([job(20)], 1.0)
    return made


def test_the_card_takes_the_foremost_job_that_it_can_decode(mixture):
    jobs = [job(10, "prores"), job(20), job(30)]
    assert mixture.for_card(jobs) is jobs[1]
    assert mixture.for_card(jobs[:1]) is None


def test_cores_take_what_the_card_cannot_decode_first(mixture):
    jobs = [job(10), job(20, "prores"), job(30)]
    assert mixture.for_core(jobs) is jobs[1]
    assert mixture.for_refused(jobs) is jobs[1]
    assert mixture.for_refused([job(10)]) is None


def test_a_core_helps_only_where_the_card_would_end_later(mixture):
    # a core needs 5 s for 100 frames; the card does 4900 in a second
    assert mixture.for_core([job(100)] * 50) is None
    busy = [job(100) for _ in range(300)]
    assert mixture.for_core(busy) is busy[-1]


def test_rates_are_learnt(mixture):
    waiting = [job(100) for _ in range(300)]
    for _ in range(60):
        mixture.core_done([job(2)], 1.0)
    assert mixture.for_core(waiting) is None
    for _ in range(60):
        mixture.card_done([job(7)], 1.0)
    assert mixture.for_core(waiting) is waiting[-1]


def test_what_several_threads_of_a_core_do_is_expected_of_them_from_the_beginning():
    waiting = [job(100) for _ in range(12)]
    assert Mixture(lambda _: "", 14, core_threads=1).for_core(waiting) is None
    assert Mixture(lambda _: "", 14, core_threads=7).for_core(waiting) is waiting[-1]


@pytest.mark.parametrize("cores", range(1, 40))
def test_what_helps_the_engines_leaves_two_cores_to_feed_them(cores):
    workers, threads = beside_engines(cores)
    assert workers >= 1
    assert threads >= 1
    assert workers * threads <= max(1, cores - 2) < workers * threads + 7
