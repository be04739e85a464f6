"""Several threads on one iterator: each item comes once, whatever gives it out."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import threading
import time

import numpy as np
import pytest

import seqpipe
from seqpipe import Clip, Grid, Patch, ops
from seqpipe.core.turns import InTurn, TakesTurns
from seqpipe.dali import fn as dali_fn
from seqpipe.dali import pipeline_def
from seqpipe.dali.plugin.base_iterator import LastBatchPolicy
from tests.support.datasets import files
from tests.support.media import made

THREADS = 4


def from_threads(iterator, key):
    """What some threads get together of one iterator, sorted by a key; errors are raised."""
    given, errors, start = [], [], threading.Barrier(THREADS)

    def work():
        start.wait()
        try:
            while True:
                given.append(key(next(iterator)))
        except StopIteration:
            return
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(before)
    assert not errors, errors[0]
    return sorted(given)


def clips(**options):
    output = seqpipe.OutputSpec(size=(16, 16))
    return seqpipe.videos(files("h264", "hevc"), Clip(4, step=2), output=output, **options)


def numbered(count=40):
    """Batches of the user's code, one number each."""
    return seqpipe.feed(lambda: ({"number": n} for n in range(count))).batch(1)


def dali_pipeline(**options):
    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def made_of_files():
        return dali_fn.external_source(source=lambda info: [np.full(2, info, np.int32)], **options)

    return made_of_files()


class OfPipeline(seqpipe.dali.plugin.base_iterator.DALIIterator):
    """The batches of a DALI pipeline as they are."""

    def converted(self, value, name, title):  # noqa: ARG002  the base class'
        return value


def volumes(tmp_path, take):
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.full((6, 8, 8), number, np.uint8))
    return seqpipe.volumes([tmp_path / f"{n}.npy" for n in range(3)], take)


WAYS = {
    "data set": lambda _: (iter(clips().batch(1).map(ops.Flip(p=0.5))), lambda b: int(b.index[0])),
    "data set with a rest": lambda _: (
        iter(clips().batch(1).map(ops.GaussianBlur(sigma=1.0)).fuse("none")),
        lambda b: int(b.index[0]),
    ),
    "samples of a data set": lambda _: (iter(clips(shuffle=True)), lambda sample: int(sample.index)),
    "user's iterable": lambda _: (iter(numbered()), lambda batch: int(batch["number"][0])),
    "batches of patches": lambda path: (
        iter(volumes(path, Patch((2, 4, 4), per_volume=8)).batch(1)),
        lambda b: int(b.index[0]),
    ),
    "patches of a grid": lambda path: (iter(volumes(path, Grid((2, 4, 4)))), lambda s: int(s.index)),
    "video": lambda _: (iter(seqpipe.open(made("h264"))), lambda frame: int(frame.frames[0])),
    "stream": lambda _: (seqpipe.stream(str(made("h264_ts"))), lambda sequence: int(sequence.frames[0])),
    "stream with operators": lambda _: (
        seqpipe.stream(str(made("h264_ts")), operators=ops.Flip(p=0.5)),
        lambda sequence: int(sequence.frames[0]),
    ),
    "frames of a sequence": lambda _: (
        iter(seqpipe.open(made("h264"))[:]),
        lambda frame: int(frame.frames[0]),
    ),
    "torch dataset": lambda _: (iter(clips().batch(1).torch()), lambda batch: int(batch["index"][0])),
    "DALI iterator": lambda _: (
        OfPipeline(dali_pipeline(), ["x"], size=40, last_batch_policy=LastBatchPolicy.PARTIAL),
        lambda batch: int(batch[0]["x"][0][0]),
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_item_comes_once(way, tmp_path):
    if way.startswith("torch"):
        pytest.importorskip("torch")
    iterator, key = WAYS[way](tmp_path)
    wanted = sorted(map(key, iterator))
    assert len(wanted) >= 10
    iterator, key = WAYS[way](tmp_path)
    assert from_threads(iterator, key) == wanted


def test_runs_of_a_dali_pipeline():
    pipe, given, start = dali_pipeline(), [], threading.Barrier(THREADS)

    def work():
        start.wait()
        for _ in range(10):
            given.append(int(np.asarray(pipe.run()[0].at(0))[0]))

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(given) == list(range(40))


class _Counting(TakesTurns):
    def __init__(self):
        self.at = 0

    def __next__(self):
        at = self.at
        time.sleep(1e-4)
        self.at = at + 1
        return at


class _Overriding(_Counting):
    def __next__(self):
        return -super().__next__()


def test_a_class_of_a_class_takes_turns_and_deep_copies_are_free():
    one = _Overriding()
    with one._turns.lock:
        for other in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            thread = threading.Thread(target=other.__next__, daemon=True)
            thread.start()
            thread.join(10)
            assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_while_another_thread_has_its_turn():
    one, held, release = _Counting(), threading.Event(), threading.Event()

    def hold():
        with one._turns.lock:
            held.set()
            release.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    pid = os.fork()
    if not pid:
        next(one)
        os._exit(0)
    deadline = time.monotonic() + 20
    while (done := os.waitpid(pid, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    release.set()
    thread.join()
    assert done == (pid, 0)


def test_a_closed_generator_releases_what_it_holds():
    closed = []

    def items():
        try:
            yield from range(3)
        finally:
            closed.append(1)

    iterator = InTurn(items())
    assert next(iterator) == 0
    iterator.close()
    assert closed == [1]
    assert list(iterator) == []
    assert list(InTurn(iter([1, 2]))) == [1, 2]
    InTurn(iter([1])).close()
