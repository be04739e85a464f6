"""Jobs: cut where decoding does not overlap, taken in turn, and together with what waits for the same packets."""

from __future__ import annotations

import itertools
import threading
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_scripts.frame_code import read
from seqpipe.video.convert.converter import HostPainter
from seqpipe.video.decode.cpu import DecoderPool
from seqpipe.video.engine.backend import DecodeBackend
from seqpipe.video.engine.engine import Engine
from seqpipe.video.index.open import open_index
from seqpipe.video.plan import Job, JobQueue, PlannedVideo, Request, cut_jobs
from seqpipe.video.source.source import open_source
from tests.support.decoders import count_packets
from tests.support.media import entry, made


def video(name="h264_short_gops"):
    return PlannedVideo(open_source(str(made(name))), open_index(made(name)))


def request(frames, name="h264_short_gops"):
    return Request(str(made(name)), np.array(frames, dtype=np.int64))


def job(of, first, last, cost=1):
    return Job(of, ((0, request([0])),), first, last, cost)


@given(st.lists(st.lists(st.integers(0, 47), min_size=1, max_size=4), min_size=1, max_size=12))
def test_jobs_cover_all_requests_once_and_do_not_overlap(wanted):
    jobs = list(cut_jobs(video(), list(enumerate(map(request, wanted)))))
    assert sorted(place for job in jobs for place, _ in job.requests) == list(range(len(wanted)))
    spans = sorted((job.first, job.last) for job in jobs)
    assert all(one[1] < other[0] for one, other in itertools.pairwise(spans))
    assert all(job.cost > 0 for job in jobs)


def test_what_was_submitted_first_goes_first_and_then_the_costliest():
    one, other, queue = video(), video(), JobQueue()
    cheap, dear, later = job(one, 0, 5, 2), job(one, 10, 20, 9), job(other, 0, 5, 99)
    queue.put([cheap, dear])
    queue.put([later])
    assert [queue.take() for _ in range(4)] == [[dear], [cheap], [later], []]


def test_a_job_takes_along_what_overlaps_it_even_by_way_of_another():
    of, queue = video(), JobQueue()
    first, far, middle, other = job(of, 0, 10), job(of, 30, 40), job(of, 9, 31), job(video(), 0, 99)
    for single in (first, far, middle, other):
        queue.put([single])
    assert queue.take() == [first, middle, far]
    assert queue.take() == [other]


def test_cancelled_jobs_are_passed_over_and_the_rest_can_be_cancelled_at_once():
    of, queue = video(), JobQueue()
    jobs = [job(of, begin, begin + 1) for begin in (0, 10, 20)]
    queue.put(jobs)
    jobs[0].future.cancel()
    assert queue.take() == [jobs[1]]
    queue.clear()
    assert jobs[2].future.cancelled()
    assert queue.take() == []


def test_a_worker_may_leave_jobs_to_others():
    of, queue = video(), JobQueue()
    jobs = [job(of, 0, 1), job(of, 10, 11)]
    queue.put(jobs)
    assert queue.take(lambda _: None) == []
    assert queue.take(lambda waiting: waiting[-1]) == [jobs[1]]


def test_a_worker_that_cannot_choose_ends_what_waits_with_its_error():
    def broken(_jobs, _waiting):
        raise RuntimeError("the GPU does not answer")

    backend = DecodeBackend("gpu", DecoderPool(), HostPainter, threads=2, choose=broken)
    with Engine(1, backends=[backend]) as engine:
        pending = engine.submit([request([0]), request([40])])
        with pytest.raises(RuntimeError, match="the GPU does not answer"):
            pending.result()


def test_submissions_that_wait_for_the_same_packets_are_decoded_once(monkeypatch):
    gate = threading.Event()
    fed = count_packets(monkeypatch, before=partial(gate.wait, 30))
    with Engine(1) as engine:
        # the first keeps the only thread until the others are in the queue
        holding = engine.submit([request([0], "vp9")])
        others = [engine.submit([request(range(k, 40, 7), "h264_long_gop")]) for k in range(3)]
        gate.set()
        assert len(holding.result()) == 1
        fed.clear()
        for k, other in enumerate(others):
            (found,) = other.result()
            numbers = [entry("h264_long_gop").numbers[i] for i in range(k, 40, 7)]
            assert [read(frame) for frame in found.numpy()] == numbers
    assert len(fed) == len(set(fed)), "a packet was decoded twice"


@pytest.mark.parametrize("threads", [1, 3])
def test_closing_an_engine_cancels_what_waits(threads, monkeypatch):
    gate = threading.Event()
    count_packets(monkeypatch, before=partial(gate.wait, 30))
    engine = Engine(threads)
    reads = [engine.submit([request([k], "h264_short_gops")]) for k in range(0, 48, 4)]
    closing = threading.Thread(target=engine.close)
    closing.start()
    gate.set()
    closing.join(30)
    assert not closing.is_alive()
    for pending in reads:
        pending.cancel()
