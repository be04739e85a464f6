"""The executor under a data set of the user's own code: order, errors in their turn, threads, processes."""

from __future__ import annotations

import gc
import os
import queue
import signal
import threading
import time

import numpy as np
import pytest

import seqpipe
from seqpipe import fn
from seqpipe.errors import ParameterError
from seqpipe.ops import DataNode, Flip
from seqpipe.pipeline import Graph, Input


def picture(number):
    return np.random.default_rng(number).integers(0, 256, (12, 16, 3), np.uint8)


def drawn(prefetch=2):
    """Nine pictures with drawn parameters, and their numbers."""

    def build(parts):
        turned = fn.flip(parts["image"], horizontal=fn.random.coin_flip(seed=3))
        return {"image": fn.brightness(turned, brightness=(0.5, 1.5))}

    ds = seqpipe.items(lambda number: (picture(number), number), size=9, parts={"image": "HWC"})
    return ds.graph(build).batch(3).prefetch(prefetch)


def numbers(source, prefetch=2):
    """Batches of one item each of what a generator function yields."""
    return seqpipe.feed(source, parts={"number": seqpipe.parts.Metadata}).batch(1).prefetch(prefetch)


def first(batch):
    return int(batch["number"][0])


@pytest.mark.parametrize("prefetch", [0, 1, 2, 5])
def test_it_gives_what_eager_calls_give(prefetch):
    with drawn(prefetch) as ds:
        found = [(batch["image"].numpy(), batch["label"].tolist()) for batch in ds.epoch(1)]
    assert [label for _, label in found] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    for made, label in found:
        options = {"epoch": 1, "index": label}
        flags = fn.random.coin_flip(seed=3).op.drawn(**options)
        given = np.stack([picture(number) for number in label])
        turned = fn.flip(given, horizontal=flags.astype(bool), layout="NHWC", **options)
        np.testing.assert_array_equal(
            made, fn.brightness(turned, brightness=(0.5, 1.5), layout="NHWC", **options)
        )


@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_error_of_a_source_comes_in_its_turn_with_its_place(prefetch):
    class Source:
        """An iterator that goes on behind an error."""

        def __init__(self):
            self.at = -1

        def __iter__(self):
            return self

        def __next__(self):
            self.at += 1
            if self.at == 2:
                raise KeyError("lost")
            if self.at == 5:
                raise StopIteration
            return {"number": self.at}

    with numbers(Source, prefetch) as ds:
        batches = iter(ds)
        assert [first(next(batches)) for _ in range(2)] == [0, 1]
        with pytest.raises(KeyError, match="lost") as caught:
            next(batches)
        assert "source feed, epoch 0, samples from 2 on" in " ".join(caught.value.__notes__)
        assert [first(batch) for batch in batches] == [3, 4]


def test_an_error_of_an_operator_names_the_node_and_the_samples():
    sizes = [40, 40, 8, 8, 40, 40]
    ds = seqpipe.items([np.zeros((size, 40, 3), np.uint8) for size in sizes], parts={"image": "HWC"}).batch(2)
    with ds.graph(lambda parts: {"image": fn.crop(parts["image"], crop=(20, 20))}) as ds:
        batches = iter(ds)
        assert next(batches)["image"].shape == (2, 20, 20, 3)
        with pytest.raises(ParameterError, match="crop") as caught:
            next(batches)
        notes = " ".join(caught.value.__notes__)
        assert "node crop" in notes
        assert "epoch 0, samples 2, 3" in notes
        assert next(batches)["image"].shape == (2, 20, 20, 3)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_batches_are_fed_by_hand_through_a_queue(prefetch):
    fed = queue.Queue()
    with seqpipe.feed(lambda: iter(fed.get, None)).batch(2).prefetch(prefetch) as ds:
        batches = iter(ds)
        for step in range(3):
            for _ in range(2):
                fed.put({"image": np.full((4, 5, 3), step, np.uint8)})
            assert next(batches)["image"].numpy().mean() == step
        fed.put(None)
        assert list(batches) == []


def test_several_iterables_are_one_feed():
    left, right = ([np.full((4, 5, 3), n, np.uint8) for n in range(k, k + 4)] for k in (0, 10))

    def pairs():
        return ({"left": a, "right": b} for a, b in zip(left, right, strict=True))

    with seqpipe.feed(pairs).batch(2) as ds:
        found = [(one["left"].numpy().max(), one["right"].numpy().max()) for one in ds]
    assert found == [(1, 11), (3, 13)]


def test_statistics_tell_what_is_slow():
    def slow():
        for number in range(8):
            time.sleep(0.02)
            yield {"number": number}

    with numbers(slow) as ds:
        epoch = ds.epoch(0)
        assert len(list(epoch)) == 8
        found = epoch.stats()
    assert found["bottleneck"] == "source"
    assert found["stages"]["source"]["busy_s"] >= 0.15
    assert found["waited_s"] > 0.05


def test_threads_end_and_epochs_do_not_grow():
    before = threading.active_count()
    with drawn() as ds:
        running = 0
        for number in range(20):
            assert sum(1 for _ in ds.epoch(number)) == 3
            gc.collect()
            if number == 9:
                running = threading.active_count()  # they serve all later epochs
        assert threading.active_count() <= running
    gc.collect()
    assert threading.active_count() <= before + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_goes_on_by_itself():
    parent, asked = os.getpid(), threading.Event()

    def get(number):
        if number == 1 and os.getpid() == parent:
            asked.wait(60)  # item 1 is being made when the process is forked
        return {"number": number}

    with seqpipe.items(get, size=5).batch(1) as ds:
        batches = iter(ds)
        assert first(next(batches)) == 0
        back, out = os.pipe()
        child = os.fork()
        if not child:
            signal.alarm(60)  # a child that waits for its parent's threads ends
            os.write(out, bytes([first(next(batches)), first(next(batches))]))
            os._exit(0)
        os.waitpid(child, 0)
        os.close(out)
        assert os.read(back, 2) == b"\x01\x02"
        os.close(back)
        asked.set()
        assert first(next(batches)) == 1


def test_an_operator_with_a_call_of_its_own_is_called_by_it():
    class Brighter(Flip, register=False):
        """Mirror, and double the values."""

        def __call__(self, x, **options):
            result = super().__call__(x, **options)
            return result if isinstance(result, DataNode) else fn.brightness(result, brightness=2.0)

    image, node = np.arange(24, dtype=np.uint8).reshape(1, 2, 4, 3), Input("x")
    for graph in (
        Graph(fn.flip(Brighter()(node, layout="NHWC"), layout="NHWC")),
        Graph(Brighter()(fn.flip(node, layout="NHWC"), layout="NHWC")),
    ):
        np.testing.assert_array_equal(graph(x=image)[0], 2 * image)
