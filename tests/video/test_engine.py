"""Many sequences at once: the right frames, shared decoding, order, bounds, and errors that stay where they belong."""

from __future__ import annotations

import atexit
import gc
import subprocess
import sys
import threading
import time

import cv2
import numpy as np
import pytest

from data_scripts.frame_code import read
from seqpipe.errors import (
    BackendError,
    DamagedSourceError,
    FrameRangeError,
    SeqpipeError,
    SourceError,
    SourceNotFoundError,
)
from seqpipe.sequence import Sequence
from seqpipe.video.convert.output import OutputSpec
from seqpipe.video.decode.cpu import CpuDecoder, DecoderPool
from seqpipe.video.engine.engine import Engine, available_cores
from seqpipe.video.plan import Request, cut_jobs
from tests.support.decoders import count_packets
from tests.support.media import ROOT, entry, made


def request(name, frames, **options):
    return Request(str(made(name)), np.array(frames, dtype=np.int64), **options)


def numbers(sequence):
    assert isinstance(sequence, Sequence), sequence
    return [read(frame) for frame in sequence.numpy()]


@pytest.fixture(params=[1, 2, 4])
def engine(request):
    with Engine(request.param) as made_engine:
        yield made_engine


def test_codecs_and_sizes_in_one_read(engine):
    wanted = {
        "h264": [3, 3, 40, 7],
        "hevc_open_gop": [30, 2],
        "vp9_altref": [47, 0],
        "av1": [11, 12, 13],
        "mpeg2_ts": [20],
        "odd_vp9": [9],
        "h264_ts": [1, 45],
    }
    found = engine.read([request(name, frames) for name, frames in wanted.items()])
    for sequence, (name, frames) in zip(found, wanted.items(), strict=True):
        assert numbers(sequence) == [entry(name).numbers[i] for i in frames]
        assert sequence.frames.tolist() == frames
        assert sequence.source == str(made(name))


def test_requests_that_share_a_gop_share_its_decode(monkeypatch):
    fed = count_packets(monkeypatch)
    with Engine(2) as engine:
        alone = engine.read([request("h264_long_gop", range(10, 30, 2))])
        once = len(fed)
        fed.clear()
        both = engine.read(
            [request("h264_long_gop", range(10, 30, 2)), request("h264_long_gop", range(11, 30, 2))]
        )
    assert len(fed) == len(set(fed)), "a packet was decoded twice"
    assert len(fed) < 2 * once
    assert numbers(both[0]) == numbers(alone[0])
    assert numbers(both[1]) == [entry("h264_long_gop").numbers[i] for i in range(11, 30, 2)]


def test_far_apart_requests_of_one_file_run_in_parallel():
    with Engine(2) as engine:
        video = engine._library.video(str(made("h264_short_gops")))
        jobs = list(
            cut_jobs(
                video, list(enumerate([request("h264_short_gops", [0]), request("h264_short_gops", [40])]))
            )
        )
        assert [[place for place, _ in job.requests] for job in jobs] == [[0], [1]]


def test_two_outputs_of_one_frame(engine):
    plain, gray, again = engine.read(
        [
            request("h264", [5, 6]),
            request("h264", [6, 5], output=OutputSpec(color="GRAY")),
            request("h264", [5, 6]),
        ]
    )
    assert plain.shape[-1] == 3
    assert gray.shape[-1] == 1
    assert numbers(plain) == numbers(gray)[::-1]
    assert (plain.numpy() == again.numpy()).all()


def test_padding_is_filled_and_marked(engine):
    padding = np.array([False, False, True, True])
    (found,) = engine.read([request("h264", [46, 47, 47, -1], padding=padding, fill=9)])
    assert found.frames.tolist() == [46, 47, -1, -1]
    assert np.isnan(found.timestamps).tolist() == [False, False, True, True]
    assert numbers(Sequence(found.data[:3])) == [entry("h264").numbers[i] for i in (46, 47, 47)]
    assert (found.data[3] == 9).all()


def test_pixels_go_straight_into_given_memory(engine):
    info = engine._library.video(str(made("h264"))).index.info
    batch = np.zeros((2, 2, info.height, info.width, 3), dtype=np.uint8)
    found = engine.read([request("h264", [1, 2], out=batch[0]), request("h264", [30, 31], out=batch[1])])
    assert all(np.shares_memory(sequence.data, batch) for sequence in found)
    assert [read(frame) for frame in batch.reshape(4, *batch.shape[2:])] == [
        entry("h264").numbers[i] for i in (1, 2, 30, 31)
    ]


def test_memory_of_the_wrong_shape_is_an_error_of_that_request(engine):
    wrong = np.zeros((1, 10, 10, 3), dtype=np.uint8)
    found = engine.read([request("h264", [1], out=wrong), request("h264", [1])])
    assert isinstance(found[0], SourceError)
    assert "(1, 10, 10, 3) uint8 was expected" in str(found[0])
    assert numbers(found[1]) == [entry("h264").numbers[1]]


def test_errors_stay_with_their_request(engine):
    damaged = entry("h264_flip_reference")
    found = engine.read(
        [
            request("h264", [1]),
            Request("/no/such.mp4", np.array([0])),
            request("h264", [999]),
            request("h264_flip_reference", [damaged.lost[0]] if damaged.lost else [30]),
            request("h264_flip_reference", [0]),
        ]
    )
    assert numbers(found[0]) == [entry("h264").numbers[1]]
    assert isinstance(found[1], SourceNotFoundError)
    assert isinstance(found[2], FrameRangeError)
    assert "0 to 47" in str(found[2])
    assert isinstance(found[3], DamagedSourceError)
    assert numbers(found[4]) == [damaged.numbers[0]]
    assert numbers(engine.read([request("h264", [2])])[0]) == [entry("h264").numbers[2]], "it stays usable"


def test_map_keeps_order_and_its_bound(engine):
    running, most, lock = 0, 0, threading.Lock()

    def items():
        nonlocal running, most
        for item in range(60):
            with lock:
                running += 1
                most = max(most, running)
            yield item

    def slow(item):
        time.sleep(0.001 * (item % 3))
        return item

    results = []
    for result in engine.map(slow, items(), ahead=5):
        with lock:
            running -= 1
        results.append(result)
    assert results == list(range(60))
    assert most <= 6, "it took items further ahead than it may"


def test_map_raises_at_the_place_and_stays_usable(engine):
    def odd(item):
        if item == 7:
            raise SeqpipeError("seven")
        return item

    seen = []
    with pytest.raises(SeqpipeError, match="seven"):
        seen.extend(engine.map(odd, range(20)))
    assert seen == list(range(7))
    assert list(engine.map(odd, range(3))) == [0, 1, 2]


def test_closing_leaves_no_thread():
    before = threading.active_count()
    engine = Engine(3)
    list(engine.map(abs, range(50)))
    engine.close()
    assert threading.active_count() == before


def test_a_pool_keeps_decoders_apart_and_within_its_limit():
    with Engine(1) as engine:
        h264 = engine._library.video(str(made("h264"))).index
        hevc = engine._library.video(str(made("hevc"))).index
    made_decoders: list[tuple[str, int]] = []

    def make(index, threads):
        made_decoders.append((index.info.codec, threads))
        return CpuDecoder(index, threads)

    pool = DecoderPool(idle=2, make=make)
    first = pool.take(h264, 1)
    second = pool.take(h264, 1)
    assert first is not second
    pool.give_back(h264, 1, first)
    assert pool.take(h264, 2) is not first, "another number of threads is another decoder"
    assert pool.take(h264, 1) is first
    for decoder in (first, second):
        pool.give_back(h264, 1, decoder)
    pool.give_back(hevc, 1, pool.take(hevc, 1))
    assert made_decoders == [("h264", 1), ("h264", 1), ("h264", 2), ("hevc", 1)]
    pool.take(hevc, 1)
    assert made_decoders[-1] == ("hevc", 1)
    assert len(made_decoders) == 4
    pool.clear()
    pool.take(h264, 1)
    assert len(made_decoders) == 5


def test_opencv_has_one_thread_only_while_ours_work():
    """An open reader took OpenCV's threads from the whole process, also while it did nothing."""
    before = cv2.getNumThreads()
    try:
        cv2.setNumThreads(3)
        with Engine(2) as engine, Engine(1) as other:
            assert cv2.getNumThreads() == 3
            assert list(engine.map(lambda _: cv2.getNumThreads(), range(4))) == [1] * 4
            assert cv2.getNumThreads() == 3
            assert list(other.map(lambda n: cv2.setNumThreads(n), [2])) == [None]
            assert cv2.getNumThreads() == 2, "what the user sets meanwhile stays"
    finally:
        cv2.setNumThreads(before)


def test_cores_are_those_of_this_process():
    assert 1 <= available_cores() <= 4096


def test_who_waits_while_another_thread_closes_is_told_so():
    engine, going, enough = Engine(1), threading.Event(), threading.Event()

    def hold_the_thread(_):
        going.set()
        enough.wait()

    held = threading.Thread(target=lambda: next(engine.map(hold_the_thread, [0])))
    held.start()
    going.wait()
    pending = engine.submit([request("h264", [3])])
    closing = threading.Thread(target=engine.close)
    closing.start()
    while not pending._planning.cancelled():
        time.sleep(0.01)
    with pytest.raises(BackendError, match="the reader was closed during a read"):
        pending.result()
    enough.set()
    held.join()
    closing.join()
    with pytest.raises(BackendError, match="no work can be started: the reader was closed"):
        engine.submit([request("h264", [3])])


DROPPED = """
import threading
import cv2, numpy
from seqpipe.video.engine.engine import Engine

first, second = numpy.random.default_rng(0).integers(0, 255, (2, 240, 320), dtype=numpy.uint8)
begun = threading.Event()

def compute(number):
    if number:
        begun.set()
    for _ in range(50 * number):
        cv2.DISOpticalFlow_create(0).calc(first, second, None)

engine = Engine(2)
results = engine.map(compute, range(3))
next(results)
begun.wait(60)
results.close()
del engine, results
"""


def test_a_program_ends_while_a_thread_of_a_dropped_engine_computes():
    """Python ends a daemon thread where it next takes the GIL: within OpenCV's C++ code, that aborted the program."""
    done = subprocess.run(
        [sys.executable, "-c", DROPPED], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_engine_that_is_dropped_leaves_nothing_for_the_programs_end(monkeypatch):
    registered = []
    monkeypatch.setattr(atexit, "register", lambda call: registered.append(call) or call)
    monkeypatch.setattr(atexit, "unregister", registered.remove)
    engine = Engine(2)
    assert list(engine.map(abs, range(4))) == [0, 1, 2, 3]
    threads = [thread for end in registered for thread in end.__self__.threads]
    assert threads
    del engine
    gc.collect()
    for thread in threads:
        thread.join(60)
    assert registered == []
