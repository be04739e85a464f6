"""Iterators: exact epochs under each policy, sizes, names, resets; the table of the design page as cases."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from seqpipe.dali import fn, pipeline_def
from seqpipe.dali.pipeline import NotBuiltError
from seqpipe.dali.plugin.pytorch import (
    DALIClassificationIterator,
    DALIGenericIterator,
    DALIRaggedIterator,
    LastBatchPolicy,
)
from seqpipe.errors import ParameterError, StateError
from tests.dali.conftest import ON_CPU

FILL, DROP, PARTIAL = LastBatchPolicy.FILL, LastBatchPolicy.DROP, LastBatchPolicy.PARTIAL


def labels(files, batch_size=2, count=7, **options):
    @pipeline_def(batch_size=batch_size, **ON_CPU)
    def pipe():
        return fn.readers.file(files=files[:count], labels=list(range(count)), name="R", **options)[1]

    return pipe()


def epochs(iterator, count=3):
    return [[batch[0]["l"].flatten().tolist() for batch in iterator] for _ in range(count)]


def over(pipe, **options):
    return DALIGenericIterator([pipe], ["l"], auto_reset=True, **options)


@pytest.mark.parametrize(
    ("policy", "pads", "wanted"),
    [
        (FILL, False, [[0, 1], [2, 3], [4, 5], [6, 0]]),
        (FILL, True, [[0, 1], [2, 3], [4, 5], [6, 6]]),
        (DROP, False, [[0, 1], [2, 3], [4, 5]]),
        (DROP, True, [[0, 1], [2, 3], [4, 5]]),
        (PARTIAL, False, [[0, 1], [2, 3], [4, 5], [6]]),
        (PARTIAL, True, [[0, 1], [2, 3], [4, 5], [6]]),
    ],
)
def test_every_epoch_is_exact(numbered, policy, pads, wanted):
    iterator = over(labels(numbered, pad_last_batch=pads), reader_name="R", last_batch_policy=policy)
    assert epochs(iterator) == [wanted] * 3
    assert len(iterator) == len(wanted)


@pytest.mark.parametrize("policy", [FILL, DROP, PARTIAL])
@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("pads", [False, True])
def test_shards_keep_in_step_and_lose_nothing(numbered, policy, stays, pads):
    ranks = [
        over(
            labels(numbered, 4, 9, shard_id=n, num_shards=2, stick_to_shard=stays, pad_last_batch=pads),
            reader_name="R",
            last_batch_policy=policy,
        )
        for n in range(2)
    ]
    assert len({len(rank) for rank in ranks}) == 1
    for both in zip(*(epochs(rank) for rank in ranks), strict=True):
        assert [len(one) for one in both] == [len(ranks[0])] * 2
        seen = [number for one in both for batch in one for number in batch]
        if policy is not DROP:
            assert set(seen) == set(range(9))
        if policy is PARTIAL:
            assert sorted(seen) == list(range(9))


def test_a_rank_without_samples_left_gives_an_empty_batch(numbered):
    rank = over(
        labels(numbered, 4, 9, num_shards=2, stick_to_shard=True), reader_name="R", last_batch_policy=PARTIAL
    )
    assert epochs(rank, 2) == [[[0, 1, 2, 3], []]] * 2
    rank = over(
        labels(numbered, 4, 9, num_shards=2, pad_last_batch=True), reader_name="R", last_batch_policy=DROP
    )
    assert epochs(rank, 2) == [[[0, 1, 2, 3]], [[4, 5, 6, 7]]]


def test_sizes_without_a_reader(numbered):
    assert epochs(over(labels(numbered), size=5)) == [
        [[0, 1], [2, 3], [4, 5]],
        [[6, 0], [0, 1], [2, 3]],
        [[4, 5], [6, 0], [0, 1]],
    ]
    assert epochs(over(labels(numbered), size=5, last_batch_policy=PARTIAL), 1) == [[[0, 1], [2, 3], [4]]]
    assert [len(over(labels(numbered), size=7, last_batch_policy=one)) for one in (FILL, DROP, PARTIAL)] == [
        4,
        3,
        4,
    ]


def source(count=3, **options):
    def generate():
        for number in range(count):
            yield np.full((2, 1), number, np.int32)

    return pipeline_def(lambda: fn.external_source(generate, **options), batch_size=2, **ON_CPU)()


def test_sources_that_end():
    whole = [[0, 0], [1, 1], [2, 2]]
    assert epochs(over(source())) == [whole, [], []]
    assert epochs(over(source(cycle="raise"))) == [whole] * 3
    assert epochs(over(source(cycle="quiet"), size=4)) == [
        [[0, 0], [1, 1]],
        [[2, 2], [0, 0]],
        [[1, 1], [2, 2]],
    ]
    assert epochs(over(source(1), size=4), 2) == [[[0, 0]], []]
    with pytest.raises(TypeError, match="give size= or reader_name="):
        len(over(source()))


def test_without_auto_reset_iter_begins_the_next_epoch(numbered):
    iterator = DALIGenericIterator([labels(numbered)], ["l"], reader_name="R", last_batch_policy=PARTIAL)
    whole = epochs(iterator, 1)[0]
    with pytest.raises(StopIteration):
        next(iterator)
    iterator.reset()
    assert next(iterator)[0]["l"].flatten().tolist() == [0, 1]
    assert [batch[0]["l"].flatten().tolist() for batch in iterator] == whole[1:], "iter() goes on"
    assert epochs(iterator, 2) == [whole] * 2


def test_a_break_and_a_reset_in_the_middle(numbered):
    iterator = over(labels(numbered, random_shuffle=True), reader_name="R", last_batch_policy=PARTIAL)
    first = []
    for batch in iterator:
        first += batch[0]["l"].flatten().tolist()
        break
    first += [number for batch in iterator for number in batch[0]["l"].flatten().tolist()]
    assert sorted(first) == list(range(7))
    next(iterator)
    iterator.reset()
    assert sorted(number for batch in iterator for number in batch[0]["l"].flatten().tolist()) == list(
        range(7)
    )


def test_states(numbered):
    def made():
        pipe = labels(numbered, random_shuffle=True, seed=0)
        return over(pipe, reader_name="R", last_batch_policy=PARTIAL)

    iterator = made()
    epochs(iterator, 1)
    next(iterator)
    state = iterator.state_dict()
    wanted = [batch[0]["l"].flatten().tolist() for batch in iterator], epochs(iterator, 1)
    other = made()
    other.load_state_dict(state)
    assert ([batch[0]["l"].flatten().tolist() for batch in other], epochs(other, 1)) == wanted


def test_several_pipelines(numbered):
    pipes = [labels(numbered, shard_id=n, num_shards=2) for n in range(2)]
    iterator = DALIGenericIterator(pipes, ["l"], reader_name="R", last_batch_policy=PARTIAL, auto_reset=True)
    found = [[[one["l"].flatten().tolist() for one in batch] for batch in iterator] for _ in range(2)]
    assert found == [[[[0, 1], [3, 4]], [[2], [5, 6]]], [[[3, 4], [0, 1]], [[5, 6], [2]]]]


@pytest.mark.parametrize(
    ("names", "options", "kind", "said"),
    [
        (
            [],
            {"size": 4},
            ParameterError,
            r"output_map=\[\] for 1 outputs; allowed: a distinct name .*0: readers.file",
        ),
        (["l", "m"], {"size": 4}, ParameterError, r"output_map=\['l', 'm'\] for 1 outputs"),
        (["l"], {"reader_name": "Q"}, KeyError, "there is no reader 'Q'; allowed: 'R'"),
        (
            ["l"],
            {"reader_name": "R", "size": 3},
            ParameterError,
            "size=3 and reader_name='R' exclude one another",
        ),
        (["l"], {"size": 3, "auto_reset": "maybe"}, ParameterError, "auto_reset='maybe' is not valid"),
    ],
)
def test_what_is_refused(numbered, names, options, kind, said):
    with pytest.raises(kind, match=said):
        DALIGenericIterator([labels(numbered)], names, **options)


def test_run_and_an_iterator_do_not_mix(numbered):
    pipe = labels(numbered)
    over(pipe, size=8)
    with pytest.raises(NotBuiltError, match=r"is run by an iterator, and cannot be run by run\(\) as well"):
        pipe.run()


def test_classification_and_shapes_of_labels(numbered):
    @pipeline_def(batch_size=2, **ON_CPU)
    def pipe():
        data, label = fn.readers.file(files=numbered[:7], labels=list(range(7)), name="R")
        return fn.cast(data, dtype=np.float32), label

    batch = next(DALIClassificationIterator(pipe(), reader_name="R"))[0]
    assert {name: (one.dtype, tuple(one.shape)) for name, one in batch.items()} == {
        "data": (torch.float32, (2, 1)),
        "label": (torch.int32, (2, 1)),
    }

    @pipeline_def(batch_size=2, **ON_CPU)
    def scalars():
        return fn.external_source(lambda: [np.zeros(3, np.float32)] * 2), fn.external_source(
            lambda: [np.int32(3)] * 2
        )

    batch = next(DALIClassificationIterator(scalars(), size=2))[0]
    assert tuple(batch["label"].shape) == (2,)


def test_unequal_shapes():
    def pipe():
        node = fn.external_source(lambda: [np.zeros(n + 1, np.float32) for n in range(2)])
        return pipeline_def(lambda: (fn.copy(node), node), batch_size=2, **ON_CPU)

    @pipeline_def(batch_size=2, **ON_CPU)
    def ragged():
        return (
            fn.external_source(lambda: [np.zeros(n + 1, np.float32) for n in range(2)]),
            fn.external_source(lambda: [np.int32(3)] * 2),
        )

    with pytest.raises(
        ParameterError, match=r"the output x \(.*\) has samples of different shapes, \(1,\), \(2,\)"
    ) as e:
        next(DALIGenericIterator(ragged(), ["x", "l"], size=2))
    assert "DALIRaggedIterator returns lists of tensors" in str(e.value)
    batch = next(
        DALIRaggedIterator(
            ragged(),
            ["x", "l"],
            size=2,
            output_types=[DALIRaggedIterator.SPARSE_LIST_TAG, DALIRaggedIterator.DENSE_TAG],
        )
    )[0]
    assert [tuple(one.shape) for one in batch["x"]] == [(1,), (2,)]
    assert batch["l"].tolist() == [3, 3]


def test_names_of_ragged_outputs_may_have_blanks():
    """The tag was looked up by the first word of the name."""

    @pipeline_def(batch_size=2, **ON_CPU)
    def ragged():
        return fn.external_source(lambda: [np.zeros(n + 1, np.float32) for n in range(2)])

    tags = [DALIRaggedIterator.SPARSE_LIST_TAG]
    batch = next(DALIRaggedIterator(ragged(), ["my image"], size=2, output_types=tags))[0]
    assert [len(one) for one in batch["my image"]] == [1, 2]


def test_a_state_of_other_pipelines_is_refused(numbered):
    """It ended in a KeyError, or in a ValueError of zip()."""
    iterator = DALIGenericIterator([labels(numbered)], ["l"], reader_name="R")
    state = iterator.state_dict()
    for other in ({}, {**state, "pipelines": state["pipelines"] * 2}):
        with pytest.raises(StateError, match="the state is not that of 1 pipelines"):
            iterator.load_state_dict(other)


def test_an_error_of_a_source_comes_in_its_turn_and_iteration_goes_on():
    calls = []

    def fails():
        calls.append(1)
        if len(calls) == 3:
            raise ValueError("boom")
        return np.full((2, 1), len(calls), np.int32)

    pipe = pipeline_def(lambda: fn.external_source(fails), batch_size=2, **ON_CPU)()
    iterator = DALIGenericIterator(pipe, ["l"], size=12)
    found = []
    for _ in range(6):
        try:
            found.append(next(iterator)[0]["l"].flatten().tolist())
        except ValueError as error:
            found.append(str(error))
        except StopIteration:
            break
    assert found == [[1, 1], [2, 2], "boom", [4, 4], [5, 5], [6, 6]]


def test_reading_ahead_begins_at_once_unless_it_is_not_wanted():
    calls = []

    def source(number):
        calls.append(number)
        return np.full((2, 1), number, np.int32)

    def made(**options):
        pipe = pipeline_def(lambda: fn.external_source(source), batch_size=2, **ON_CPU)()
        return pipe, DALIGenericIterator(pipe, ["l"], size=8, **options)

    pipe, _ = made(prepare_first_batch=False)
    assert (pipe.empty(), calls) == (True, [])
    pipe, iterator = made()
    assert not pipe.empty()
    assert epochs(iterator, 1) == [[[n, n] for n in range(4)]]


def test_jax(numbered):
    pytest.importorskip("jax")
    from seqpipe.dali.plugin.jax import DALIGenericIterator as JaxIterator
    from seqpipe.dali.plugin.jax import data_iterator

    iterator = JaxIterator(
        labels(numbered), ["l"], reader_name="R", last_batch_policy=PARTIAL, auto_reset=True
    )
    for _ in range(2):
        assert [batch["l"].ravel().tolist() for batch in iterator] == [[0, 1], [2, 3], [4, 5], [6]]

    @data_iterator(output_map=["l"], reader_name="R", last_batch_policy=DROP)
    def loader(files):
        return fn.readers.file(files=files, labels=list(range(len(files))), name="R")[1]

    found = [batch["l"].ravel().tolist() for batch in loader(numbered[:5], batch_size=2, **ON_CPU)]
    assert found == [[0, 1], [2, 3]]


def test_what_there_is_not_says_what_to_do():
    from seqpipe.dali.plugin import mxnet
    from seqpipe.errors import BackendError

    with pytest.raises(BackendError, match=r"there is no DALIDataset for .*pipe\.run\(\)"):
        _ = mxnet.DALIDataset
