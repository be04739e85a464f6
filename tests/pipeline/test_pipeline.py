"""Pipelines: sources through a graph, read ahead; errors in their turn, states, epochs, resources."""

from __future__ import annotations

import gc
import json
import os
import signal
import threading

import numpy as np
import pytest

from seqpipe import fn
from seqpipe.errors import ParameterError, StateError
from seqpipe.ops import DataNode, Flip
from seqpipe.pipeline import Input, Pipeline, external_source


def drawn(batch_size=3, *, prefetch=2, name="pictures"):
    """Nine pictures an epoch with drawn parameters, and their numbers."""

    def picture(info):
        if info.idx_in_epoch >= 9:
            raise StopIteration
        number = info.idx_in_epoch + 100 * info.epoch_idx
        return np.random.default_rng(number).integers(0, 256, (12, 16, 3), np.uint8), np.int64(number)

    pictures, number = external_source(
        picture, batch_size=batch_size, num_outputs=2, batch=False, layout=("HWC", ""), name=name
    )
    turned = fn.flip(pictures, horizontal=fn.random.coin_flip(seed=3))
    return Pipeline(fn.brightness(turned, brightness=(0.5, 1.5)), number, prefetch=prefetch)


def pixels(batch):
    return batch.numpy().tobytes()


def numbers(source, batch_size=2, **options):
    node = external_source(source, batch_size=batch_size, **options)
    return Pipeline(*(node if isinstance(node, tuple) else (node,)))


def rows(pipe, count=100):
    return [values[0].tolist() for _, values in zip(range(count), pipe, strict=False)]


@pytest.mark.parametrize("prefetch", [0, 1, 2, 5])
def test_it_gives_what_eager_calls_give(prefetch):
    with drawn(prefetch=prefetch) as pipe:
        pipe.set_epoch(1)
        found = [(pixels(batch), number.tolist()) for batch, number in pipe]
    for batch, (made, numbers) in enumerate(found):
        assert numbers == [100 + 3 * batch + one for one in range(3)]
        given = [np.random.default_rng(one).integers(0, 256, (12, 16, 3), np.uint8) for one in numbers]
        options = {"epoch": 1, "index": [3 * batch + one for one in range(3)]}
        flags = fn.random.coin_flip(seed=3).op.drawn(**options)
        turned = fn.flip(np.stack(given), horizontal=flags.astype(bool), layout="NHWC", **options)
        wanted = fn.brightness(turned, brightness=(0.5, 1.5), layout="NHWC", **options)
        assert made == wanted.tobytes()
    assert len(found) == 3


def test_a_state_goes_on_exactly_whatever_was_read_ahead():
    with drawn() as pipe:
        pipe.set_epoch(2)
        batches = iter(pipe)
        states, given = [pipe.state_dict()], []
        for batch, number in batches:
            given.append((pixels(batch), number.tolist()))
            states.append(pipe.state_dict())
    for step, state in enumerate(states):
        with drawn(prefetch=0) as other:
            other.load_state_dict(json.loads(json.dumps(state)))
            assert [(pixels(batch), number.tolist()) for batch, number in other] == given[step:]


def test_a_state_of_another_pipeline_is_refused():
    pipe, other = drawn(), drawn(name="others")
    with pytest.raises(StateError, match="does not belong to this pipeline: graph, sources differ"):
        other.load_state_dict(pipe.state_dict())
    for sources in (None, []):
        with pytest.raises(StateError, match="the state has no position for each source"):
            pipe.load_state_dict({**pipe.state_dict(), "sources": sources})
    pipe.close()
    other.close()


def test_a_break_is_gone_on_from_and_an_end_begins_anew():
    with drawn() as pipe:
        (first, *_) = (number.tolist() for _, number in pipe)
        seen = []
        for _, number in pipe:
            seen.append(number.tolist())
            break
        seen += [number.tolist() for _, number in pipe]
        assert seen == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
        assert first == seen[0]
        with pytest.raises(TypeError, match=r"the number of batches of .* is unknown"):
            len(pipe)


def test_an_error_of_a_source_comes_in_its_turn_and_the_next_batch_follows():
    def source(number):
        if number == 2:
            raise KeyError("lost")
        return np.full((2, 1), number)

    pipe = numbers(source)
    assert [int(next(pipe)[0][0, 0]) for _ in range(2)] == [0, 1]
    with pytest.raises(KeyError, match="lost") as caught:
        next(pipe)
    assert "source external_source, epoch 0, samples from 4 on" in " ".join(caught.value.__notes__)
    assert "source" in [entry.name for entry in caught.traceback]
    assert [int(next(pipe)[0][0, 0]) for _ in range(2)] == [3, 4]
    pipe.close()


def test_an_error_of_an_operator_names_the_node_and_the_samples():
    sizes = [40, 8, 40]
    node = external_source(lambda number: np.zeros((2, sizes[number], 40, 3), np.uint8), batch_size=2)
    pipe = Pipeline(fn.crop(node, crop=(20, 20), layout="NHWC"))
    assert next(pipe)[0].shape == (2, 20, 20, 3)
    with pytest.raises(ParameterError, match="crop") as caught:
        next(pipe)
    notes = " ".join(caught.value.__notes__)
    assert "node crop" in notes
    assert "epoch 0, samples 2, 3" in notes
    assert next(pipe)[0].shape == (2, 20, 20, 3)
    pipe.close()


def test_sources_of_different_sizes_are_refused_by_name():
    one = external_source(lambda: np.zeros((2, 1)), batch_size=2, name="left")
    other = external_source(lambda: np.zeros((1, 1)), batch_size=2, name="right")
    with pytest.raises(ParameterError, match="different sizes: left gave 2, right gave 1"):
        next(Pipeline(one, other))


def test_it_needs_sources():
    with pytest.raises(ParameterError, match=r"the input 'images' belongs to no source"):
        Pipeline(fn.flip(Input("images"), horizontal=True))
    with pytest.raises(ParameterError, match="outputs that depend on no source"):
        Pipeline(fn.random.uniform())


def test_what_is_fed_by_hand():
    node = external_source(None, batch_size=3, name="images")
    pipe = Pipeline(node)
    with pytest.raises(
        IndexError,
        match=r"images: the source has no batch for this run. .*pipe.feed\('images', batch\)",
    ):
        next(pipe)
    for number in range(3):
        pipe.feed("images", np.full((2, 1), number))
    assert rows(pipe, 3) == [[[0], [0]], [[1], [1]], [[2], [2]]]
    with pytest.raises(ParameterError, match=r"there is no source 'picture'.*allowed: 'images'"):
        pipe.feed("picture", np.zeros((1, 1)))
    with pytest.raises(ParameterError, match=r"a batch of 4 samples; allowed: up to batch_size=3"):
        pipe.feed("images", np.zeros((4, 1)))


def test_names_make_dictionaries():
    node = external_source(lambda: np.zeros((2, 1)), batch_size=2)
    with Pipeline(node, node, names=("a", "b")) as pipe:
        assert set(next(pipe)) == {"a", "b"}
    with pytest.raises(ParameterError, match=r"names=\['a', 'a'\] for 2 outputs; allowed: 2 different names"):
        Pipeline(node, node, names=("a", "a"))


def test_statistics_tell_what_is_slow():
    import time

    def slow(number):
        time.sleep(0.02)
        return np.full((1, 1), number)

    with numbers(slow, 1) as pipe:
        rows(pipe, 8)
        found = pipe.stats()
    assert found["bottleneck"] == "source"
    assert found["stages"]["source"]["busy_s"] >= 0.15
    assert found["waited_s"] > 0.05


def test_threads_end_and_epochs_do_not_grow():
    before, running = threading.active_count(), 0
    with drawn() as pipe:
        for epoch in range(20):
            pipe.set_epoch(epoch)
            assert sum(1 for _ in pipe) == 3
            running = running or threading.active_count()  # those of the first epoch serve all others
        assert threading.active_count() <= running
    gc.collect()
    assert threading.active_count() <= before + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_goes_on_by_itself():
    parent, asked = os.getpid(), threading.Event()

    def source(number):
        if number == 1 and os.getpid() == parent:
            asked.wait(60)  # batch 1 is being made when the process is forked
        return np.full((1, 1), number)

    with numbers(source, 1) as pipe:
        assert next(pipe)[0].tolist() == [[0]]
        back, out = os.pipe()
        child = os.fork()
        if not child:
            signal.alarm(60)  # a child that waits for its parent's threads ends
            os.write(out, bytes([int(next(pipe)[0][0, 0]), int(next(pipe)[0][0, 0])]))
            os._exit(0)
        os.waitpid(child, 0)
        os.close(out)
        assert os.read(back, 2) == b"\x01\x02"
        os.close(back)
        asked.set()
        assert next(pipe)[0].tolist() == [[1]]


def test_an_operator_with_a_call_of_its_own_is_called_by_it():
    class Brighter(Flip, register=False):
        """Mirror, and double the values."""

        def __call__(self, x, **options):
            result = super().__call__(x, **options)
            return result if isinstance(result, DataNode) else fn.brightness(result, brightness=2.0)

    image = np.arange(24, dtype=np.uint8).reshape(1, 2, 4, 3)
    node = external_source(lambda: image, batch_size=1, layout="HWC")
    for pipe in (Pipeline(fn.flip(Brighter()(node))), Pipeline(Brighter()(fn.flip(node)))):
        np.testing.assert_array_equal(next(pipe)[0], 2 * image)
