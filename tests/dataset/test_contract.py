"""What holds for a data set of every source: order, state, ranks, access by index, copies and forks."""

from __future__ import annotations

import json
import pickle
import threading

import numpy as np
import pytest

from seqpipe import Batch, StateError
from tests.dataset.sources import MAKERS, gist

every_source = pytest.mark.parametrize("name", MAKERS)


def _epoch(dataset, number=1):
    return [gist(batch) for batch in dataset.epoch(number)]


def _rows(batches):
    return [row for batch in batches for row in batch]


@every_source
def test_an_epoch_is_the_same_whatever_reads_ahead(name):
    dataset = MAKERS[name]().batch(4)
    whole = _epoch(dataset)
    assert sorted(row[0] for row in _rows(whole)) == list(range(dataset.size))
    assert len(dataset) == len(whole) == -(-dataset.size // 4)
    assert _epoch(dataset.prefetch(0)) == whole
    assert _epoch(MAKERS[name]().batch(4).prefetch(5)) == whole
    assert _rows(_epoch(MAKERS[name]().batch(3))) == _rows(whole)


@every_source
def test_a_state_of_every_step_continues_with_the_batches_that_would_have_come(name):
    dataset = MAKERS[name]().batch(4)
    epoch = dataset.epoch(1)
    states, batches = [epoch.state_dict()], []
    for batch in epoch:
        batches.append(gist(batch))
        states.append(json.loads(json.dumps(batch.state)))
    for step, state in enumerate(states):
        assert [gist(batch) for batch in MAKERS[name]().batch(4).resume(state)] == batches[step:]
        rest = MAKERS[name]().batch(3).resume(state)
        assert _rows(gist(batch) for batch in rest) == _rows(batches[step:])


@every_source
def test_ranks_that_come_and_go_give_each_sample_once_and_equal(name):
    truth = {row[0]: row for row in _rows(_epoch(MAKERS[name]().batch(4)))}
    seen, state = [], None
    for world, steps, size in ((4, 1, 2), (2, 2, 1), (3, 99, 2)):
        states: dict[int, list] = {}  # of ranks that have returned as many batches
        for rank in range(world):
            dataset = MAKERS[name]().batch(size).shard(rank, world)
            epoch = dataset.epoch(1) if state is None else dataset.resume(state)
            batches = [batch for _ in range(steps) if (batch := next(epoch, None)) is not None]
            seen += [row for batch in batches for row in gist(batch)]
            states.setdefault(len(batches), []).append(epoch.state_dict())
        assert all(one == same[0] for same in states.values() for one in same)
        state = states[max(states)][0]
    assert sorted(row[0] for row in seen) == sorted(truth)
    assert all(row == truth[row[0]] for row in seen)


@every_source
def test_samples_by_index_equal_those_of_batches(name):
    dataset = MAKERS[name]()
    truth = {row[0]: row for row in _rows(_epoch(dataset.batch(4)))}
    for index in (dataset.size - 1, 0):
        sample = dataset.sample(index, 1)
        for part, content in truth[index][1:]:
            assert np.asarray(sample[part].numpy()).tobytes() == content
    assert gist(dataset.read([2, 0, 1], 1)) == [truth[2], truth[0], truth[1]]


@every_source
def test_samples_without_batch_come_one_by_one_and_resume(name):
    dataset = MAKERS[name]()
    epoch = dataset.epoch(1)
    first = [next(epoch) for _ in range(3)]
    rest = [int(sample["index"]) for sample in epoch]
    assert [int(s["index"]) for s in dataset.resume(first[-1].state)] == rest
    assert [int(s["index"]) for s in first] + rest == [row[0] for row in _rows(_epoch(dataset.batch(4)))]
    assert len(epoch) == dataset.size


@every_source
def test_a_copy_in_the_middle_of_an_epoch_continues_there(name):
    epoch = MAKERS[name]().batch(4).epoch(1)
    next(epoch)
    copy = pickle.loads(pickle.dumps(epoch))
    assert [gist(batch) for batch in copy] == _epoch(MAKERS[name]().batch(4))[1:]


@every_source
def test_several_threads_share_an_epoch(name):
    epoch, seen = MAKERS[name]().batch(2).epoch(0), []

    def work():
        for batch in iter(lambda: next(epoch, None), None):
            seen.extend(batch["index"].tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(MAKERS[name]().size))


@every_source
def test_closing_keeps_the_position(name):
    with MAKERS[name]().batch(4) as dataset:
        whole = _epoch(dataset)
        epoch = dataset.epoch(1)
        first = gist(next(epoch))
        dataset.close()
        assert [first, *(gist(batch) for batch in epoch)] == whole
        assert [gist(batch) for batch in epoch] == whole  # ended: the next loop begins anew


@every_source
def test_a_state_of_another_data_set_names_what_differs(name):
    dataset = MAKERS[name]().batch(4)
    state = dataset.epoch(0).state_dict()
    other = MAKERS[name]().map(*MAKERS["lists"]().steps[0].chain.ops).batch(4)
    with pytest.raises(StateError, match="does not belong to this data set: chain differs"):
        other.resume(state)
    assert other.resume(state, allow={"chain"}).number == 0
    with pytest.raises(StateError, match=r"history\[0\]=\[1\] is not valid"):
        dataset.resume({**state, "history": [[1]]})
    with pytest.raises(StateError, match="epoch=-1 is not valid"):
        dataset.resume({**state, "epoch": -1})
    with pytest.raises(StateError, match="version 1"):
        dataset.resume({**state, "version": 1})
    with pytest.raises(StateError, match=r"99999 samples of a rank in epoch 0; allowed|99999"):
        dataset.resume({**state, "history": [[1, 99999]]})


@every_source
def test_labels_never_get_new_classes(name):
    for batch in MAKERS[name]().batch(4):
        for part, value in batch.items():
            if isinstance(value, Batch) and value.kind == "labels":
                allowed = {0, 2} if part == "label" else {0, 1}
                assert set(np.unique(value.numpy()).tolist()) <= allowed
