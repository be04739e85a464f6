"""Frames that threads make side by side: the same results with any number, and errors as with one."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import threading
import time
import weakref
from functools import partial

import numpy as np
import pytest

import seqpipe
from seqpipe import ops
from seqpipe.core import threads
from seqpipe.core.threads import parallel_for
from seqpipe.errors import ParameterError
from seqpipe.ops import apply
from seqpipe.ops.call import backends
from tests.support.deep import deep
from tests.support.operators import compare

SHAPE = (3, 5, 211, 401, 3)  # beyond what one thread does by itself


@pytest.fixture(autouse=True)
def many():
    """Four threads, whatever the machine has."""
    ops.set_threads(4)
    yield
    ops.set_threads(None)


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, SHAPE, np.uint8)


@pytest.mark.parametrize(
    "op",
    [
        ops.GaussianBlur(sigma=1.5),
        ops.Rotate(angle=(-20.0, 20.0), keep_size=True, seed=1),
        ops.Hsv(hue=30.0, saturation=1.2),
        ops.Brightness(brightness=1.2),
        ops.Equalize(),
        ops.JpegCompressionDistortion(quality=30),
        ops.GaussianNoise(stddev=12.0, seed=2),
        ops.ShotNoise(seed=3),
        ops.MedianBlur(window_size=3),
        ops.Resize(size=(100, 120), interp_type="cubic"),
        ops.Brightness(brightness=(0.5, 1.5), per_frame=True, seed=4),
        ops.RandAugment(seed=5),
    ],
    ids=lambda op: op.name,
)
@pytest.mark.parametrize(("samples", "threads"), [deep(1, 4), (2, 4), deep(3, 2)])
def test_results_are_those_of_one_thread(images, op, samples, threads):
    """They share frames, or samples where there are as many."""
    ops.set_threads(threads)
    x = images[:samples]
    found = [apply(op, x) for _ in range(3)]
    ops.set_threads(1)
    for result in found:
        compare(result, apply(op, x))


def test_frames_are_made_by_several_threads(images, monkeypatch):
    seen, plain, another = set(), backends._compute, threading.Event()

    def made(*given, **options):
        seen.add(threading.current_thread())
        if len(seen) > 1:
            another.set()
        assert another.wait(60)  # the first waits for a second
        return plain(*given, **options)

    monkeypatch.setattr(backends, "_compute", made)
    apply(ops.GaussianBlur(sigma=1.5), images[:1])
    assert len(seen) > 1


def test_operators_of_ones_own_are_called_by_the_thread_that_calls(images):
    seen = set()

    @seqpipe.operator
    def own(x: np.ndarray) -> np.ndarray:
        """Make it one brighter."""
        seen.add(threading.current_thread())
        return x + 1.0

    class Turned(ops.Flip, register=False):
        def reference(self, x, p):
            seen.add(threading.current_thread())
            return super().reference(x, p)

    own(images[:1])
    apply(Turned(), images[:1])
    assert seen == {threading.current_thread()}


def test_little_work_is_done_by_the_thread_that_calls(images, monkeypatch):
    monkeypatch.setattr(backends, "parallel_for", lambda *_: pytest.fail("threads were asked"))
    apply(ops.GaussianBlur(sigma=1.5), images[:1, :4, :150, :150])


def nothing(number):
    """Of a number."""


def test_the_first_error_is_raised_when_nobody_works_any_more():
    done, both = [], threading.Barrier(2, timeout=60)

    def work(number):
        if number < 2:
            both.wait()
            raise ValueError(f"number {number}")
        time.sleep(0.001)
        done.append(number)

    with pytest.raises(ValueError, match="number 0"):
        parallel_for(work, 10_000)
    before = len(done)
    assert before < 9_998
    parallel_for(nothing, 4)
    assert len(done) == before


def test_a_ctrl_c_ends_all():
    def work(number):
        if threading.current_thread() is threading.main_thread():
            pressed.set()
            raise KeyboardInterrupt
        assert pressed.wait(60)
        done.append(number)

    pressed, done = threading.Event(), []
    with pytest.raises(KeyboardInterrupt):
        parallel_for(work, 1_000_000)
    assert len(done) < 999_999


def test_all_of_them_heed_what_the_caller_has_numpy_do():
    both = threading.Barrier(2, timeout=60)

    def work(_):
        both.wait()
        found.append(np.geterr()["invalid"])

    found: list[str] = []
    ops.set_threads(2)
    with np.errstate(invalid="raise"):
        parallel_for(work, 2)
    assert found == ["raise", "raise"]


def test_what_is_asked_for_within_is_done_by_the_same_thread():
    found = []

    def work(number):
        me = threading.current_thread()
        parallel_for(lambda _: found.append(threading.current_thread() is me), 5)

    parallel_for(work, 8)
    assert found == [True] * 40


def test_a_forked_process_has_threads_of_its_own():
    parallel_for(nothing, 4)
    child = multiprocessing.get_context("fork").Process(target=parallel_for, args=(nothing, 4))
    child.start()
    child.join(60)
    assert child.exitcode == 0


def test_several_callers_share_them():
    totals = [0] * 6

    def call(caller):
        lock = threading.Lock()

        def work(number):
            with lock:
                totals[caller] += number

        for _ in range(50):
            parallel_for(work, 20)

    callers = [threading.Thread(target=call, args=(number,)) for number in range(len(totals))]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert totals == [50 * 190] * len(totals)


def test_how_many_there_are(monkeypatch):
    assert ops.threads() == 4
    ops.set_threads(None)
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda _: {0, 1, 5})
    assert ops.threads() == 3
    monkeypatch.setattr(threads.multiprocessing, "parent_process", lambda: "a loader")
    assert ops.threads() == 1
    ops.set_threads(2)
    assert ops.threads() == 2


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "4"])
def test_how_many_there_cannot_be(count):
    with pytest.raises(
        ParameterError, match=r"set_threads: count=.* is not valid; allowed: 1 or more, or None"
    ):
        ops.set_threads(count)


def test_arrays_are_released_while_the_threads_are_busy_with_other_work():
    """Calls that no thread has taken stay in the pool's queue."""
    parallel_for(id, 4)  # starts the pool
    _, pool = threads._pool
    end = threading.Event()
    busy = [pool.submit(partial(end.wait, 60)) for _ in range(8)]

    def fill():
        array = np.zeros(1000)

        def work(number):
            array[number] = number

        parallel_for(work, 4)
        assert array[:4].tolist() == [0, 1, 2, 3]
        return weakref.ref(array)

    try:
        assert fill()() is None
    finally:
        end.set()
        concurrent.futures.wait(busy)
