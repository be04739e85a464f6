"""Ctrl-C at any place of reading arrives: also where things are given up that no one refers to any more."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import time
from collections import deque
from functools import partial

import numpy as np
import pytest

import seqpipe
from seqpipe.core.finalizers import Finalizer
from seqpipe.video.device import parse_device
from seqpipe.video.engine.engine import engine_for
from seqpipe.video.plan import Request
from seqpipe.video.reader import VideoReader
from tests.support.datasets import clips
from tests.support.deep import deep, deep_but
from tests.support.interrupts import lost_interrupts
from tests.support.media import made

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=[3, deep(1)])
def every(request, device):
    """Of how many places one is tried; a new session of the GPU takes its time."""
    return 7 if device == "cuda" else request.param


@pytest.fixture(autouse=True)
def unraisable(monkeypatch):
    """What Python could only print."""
    found = []
    monkeypatch.setattr(sys, "unraisablehook", found.append)
    return found


def slices(reader):
    for start in (0, 9):
        reader[start : start + 8 : 2]


def one_by_one(reader):
    for number in (0, 1, 2, 7, 8, 3):
        reader[number]


def streamed(reader):
    for _ in reader.stream(range(0, 20, 2)):
        pass


def abandoned(reader):
    next(reader.stream(range(0, 40, 2)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("name", "way"),
    deep_but(
        [("h264", streamed), ("h264_ts", one_by_one)],
        itertools.product(["h264", "h264_ts"], [slices, one_by_one, streamed, abandoned]),
    ),
)
def test_an_interrupt_of_a_reader_arrives_wherever_it_comes(device, name, way, every):
    with seqpipe.open(made(name), device=device) as reader:
        for _ in range(2):
            way(reader)
        assert lost_interrupts(partial(way, reader), every=every) == []
        way(reader)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("end", [deep(VideoReader.close), lambda _: None], ids=["closed", "forgotten"])
def test_an_interrupt_arrives_while_a_reader_is_opened_and_given_up(device, end, every):
    def run():
        reader = seqpipe.open(made("h264"), device=device)
        reader[3]
        end(reader)

    for _ in range(2):
        run()
    assert lost_interrupts(run, every=every) == []


@pytest.mark.parametrize("device", DEVICES)
def test_an_interrupt_arrives_while_batches_are_read(device, every):
    frames = np.array([3, 9, 40])
    asked = [Request(str(made(name)), frames) for name in ("h264", "hevc", "h264_long_gop")]
    with engine_for(parse_device(device), decode="auto", threads=2, cache_dir=None) as engine:

        def run():
            assert [found.frames.tolist() for found in engine.read(asked)] == [[3, 9, 40]] * 3

        for _ in range(2):
            run()
        assert lost_interrupts(run, every=every) == []
        run()


@pytest.mark.parametrize("device", DEVICES)
def test_an_interrupt_arrives_while_a_function_is_mapped(device, every):
    with engine_for(parse_device(device), decode="auto", threads=2, cache_dir=None) as engine:

        def run():
            assert list(engine.map(lambda number: time.sleep(0.001) or number, range(6))) == list(range(6))

        for _ in range(2):
            run()
        assert lost_interrupts(run, every=every) == []
        run()


@pytest.mark.parametrize("way", ["batches", deep("samples"), "by index"])
def test_an_interrupt_arrives_while_a_data_set_is_read(way):
    """Without operators: their thread is started in every epoch, where Python itself loses interrupts."""
    dataset = clips([made("h264"), made("hevc")], length=3, step=24, size=(16, 16), threads=2, ahead=1)

    def run():
        if way == "by index":
            dataset.sample(3)
            found = [dataset.read([0, 1, 2, 3])["index"]]
        else:
            found = [
                np.atleast_1d(one["index"]) for one in (dataset if way == "samples" else dataset.batch(2))
            ]
        assert np.concatenate(found).tolist() == [0, 1, 2, 3]

    with dataset:
        for _ in range(2):
            run()
        assert lost_interrupts(run, every=5) == []
        run()


class Left:
    """Notes in Python that it goes."""

    def __init__(self, noted):
        self.noted = noted

    def __del__(self):
        self.noted.append(1)


def test_what_python_does_at_the_end_of_an_object_loses_an_interrupt(unraisable):
    """Else nothing was tested above."""
    noted = []
    lost = lost_interrupts(lambda: Left(noted) and None)
    assert [(place.function, place.after) for place in lost] == [("__del__", ""), ("__del__", "list.append")]
    assert KeyboardInterrupt in {error.exc_type for error in unraisable}


def test_what_c_does_afterwards_loses_none(unraisable):
    noted = deque(maxlen=1)
    assert lost_interrupts(lambda: Finalizer(noted.append, 1) and None) == []
    assert noted == deque([1])
    assert unraisable == []


def test_it_is_done_once_by_whoever_lets_go_last_or_collects_garbage():
    done, count = deque(), itertools.count()
    kept = [Finalizer(done.append, next(count))]
    assert not done
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    assert list(done) == [0]
    kept.append(Finalizer(done.append, kept))
    del kept
    gc.collect()
    assert len(done) == 2
