"""A reader and a chain as one dataset: its passes, their states, and what goes wrong."""

from __future__ import annotations

import json
import pickle
import threading
import time
from itertools import chain
from typing import Any

import numpy as np
import pytest

import seqpipe
from seqpipe import ops
from seqpipe.errors import ParameterError, StateError
from seqpipe.ops import Chain
from seqpipe.ops.motion import optical_flow
from seqpipe.pipeline import Augmented
from tests.support.augmented import TRAIN, reader
from tests.support.datasets import gist


@pytest.mark.parametrize("fuse", ["surface", "exact"])
def test_a_state_goes_on_with_exactly_what_would_have_come(place: str, fuse: Any) -> None:
    chain = Chain(*TRAIN.ops[:2], ops.Brightness(brightness=(0.5, 1.5)))

    def made() -> Augmented:
        return Augmented(reader(place, "h264", "h264_many_b"), chain, fuse=fuse)

    with made() as dataset:
        dataset.set_epoch(1)
        batches = dataset.batches(4)
        states, given = [batches.state_dict()], []
        for batch in batches:
            given.append(gist(batch))
            states.append(batches.state_dict())
        assert len(given) == len(batches) > 2
        one_by_one = [sequence.numpy() for sequence in dataset]
    with made() as other:
        rest, sequences = other.batches(4), other.sequences()
        for step, state in enumerate(states):
            rest.load_state_dict(json.loads(json.dumps(state)))
            assert other.epoch == 1
            assert [gist(batch) for batch in rest] == given[step:]
        sequences.load_state_dict(states[1])
        np.testing.assert_array_equal(next(sequences).numpy(), one_by_one[4])


def test_a_state_goes_with_the_chain_and_not_with_how_it_is_done() -> None:
    with Augmented(reader("cpu", "h264"), TRAIN) as dataset:
        batches = dataset.batches(2)
        next(batches)
        state = batches.state_dict()
        again = Augmented(dataset.reader, TRAIN, fuse="none").batches(2)
        again.load_state_dict(state)
        assert again.position == 2
        other = Augmented(dataset.reader, Chain(*TRAIN.ops[:2]))
        with pytest.raises(StateError, match="does not belong to this dataset: chain differs"):
            other.batches(2).load_state_dict(state)
        with pytest.raises(StateError, match="does not belong to this dataset: chain differs"):
            dataset.reader.batches(2).load_state_dict(state)
        with pytest.raises(StateError, match="chain differs"):
            batches.load_state_dict(dataset.reader.batches(2).state_dict())


@pytest.mark.parametrize("fuse", ["surface", "none"])
def test_every_way_to_a_sample_gives_the_same(fuse: Any) -> None:
    chain = Chain(*TRAIN.ops[:2], ops.Brightness(brightness=(0.5, 1.5)))
    with Augmented(reader("cpu", "h264", "wide_h264"), chain, fuse=fuse) as dataset:
        dataset.set_epoch(3)
        in_batches = [
            (index, sequence)
            for batch in dataset.batches(4)
            for index, sequence in zip(batch.indices, batch, strict=True)
        ]
        order = [sample.index for sample in dataset.requests()]
        assert [int(index) for index, _ in in_batches] == order
        for (index, one), other in zip(in_batches, dataset.sequences(), strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
            np.testing.assert_array_equal(one.numpy(), dataset.sample(int(index)).numpy())
        assert len(dataset) == dataset.epoch_length(3) == len(order) == dataset.total
        assert len(dataset.batches(4)) == -(-len(order) // 4)
        assert dataset.epoch == 3
        assert (np.array(dataset.sample(order[0], 4).numpy()) != in_batches[0][1].numpy()).any()


def test_it_has_what_its_reader_has() -> None:
    with reader("cpu", "h264", "vp9") as plain, Augmented(plain, TRAIN) as dataset:
        assert dataset.reader is plain
        assert dataset.chain is TRAIN
        assert dataset.classes == plain.classes
        assert dataset.report() == plain.report()
        next(dataset.batches(2))
        assert dataset.stats()["frames"]["cpu"] > 0
        assert repr(dataset) == f"Augmented({plain!r}, {TRAIN!r}, fuse='surface')"
        assert repr(dataset.batches(2)).startswith("AugmentedBatches(Batches(batch_size=2")
        assert Augmented(plain, ops.Flip()).chain == Chain(ops.Flip())


def test_padded_batches_are_not_fused() -> None:
    """Their windows are drawn in pictures that are filled up."""
    with reader("cpu", "h264", "wide_h264") as plain, Augmented(plain, TRAIN) as dataset:
        (wanted,) = [TRAIN(batch) for batch in plain.batches(30, ragged="pad")]
        (found,) = dataset.batches(30, ragged="pad")
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())
        np.testing.assert_array_equal(found.mask, wanted.mask)


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("fuse", ["surface", "none"])
def test_what_does_not_fit_is_raised_in_its_turn(fuse: Any, on_error: Any) -> None:
    """As the chain would raise it: whatever becomes of samples that cannot be read, and once for a batch."""
    chain = Chain(ops.Crop(crop=(98, 100)), ops.Flip())
    given = reader(
        "cpu", "wide_h264", "h264", "wide_h264", shuffle=False, on_error=on_error, sequence_length=8
    )
    with Augmented(given, chain, fuse=fuse) as dataset:
        each = len(dataset) // 3
        batches, found = dataset.batches(each), []
        for number in range(3):
            if number == 1:
                with pytest.raises(ParameterError, match=r"crop=\(98, 100\) of images of 96×128 pixels"):
                    next(batches)
            else:
                found.append(next(batches).shape)
        with pytest.raises(StopIteration):
            next(batches)
        assert found == [(each, 8, 98, 100, 3)] * 2
        assert not dataset.report().losses


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((None, TRAIN), "Augmented: reader is a NoneType; allowed: a seqpipe.readers.Video"),
        ((None, "flip"), "Augmented: reader is a NoneType"),
    ],
)
def test_what_is_no_dataset(given: tuple[Any, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Augmented(*given)


def test_what_is_no_chain_or_no_way_to_fuse() -> None:
    with reader("cpu", "h264") as dataset:
        with pytest.raises(ParameterError, match=r"Chain: .*str"):
            Augmented(dataset, "flip")
        with pytest.raises(
            ParameterError, match="fuse='all' is not valid; allowed: 'exact', 'surface', 'planes', 'none'"
        ):
            Augmented(dataset, TRAIN, fuse="all")  # type: ignore[arg-type]
    assert seqpipe.pipeline.Augmented is Augmented


@pytest.mark.parametrize(
    "members",
    [
        [ops.RandomResizedCrop(size=(40, 48), seed=3), ops.Flip(p=0.5)],
        ops.OneOf([ops.Flip(), ops.Brightness(brightness=(0.5, 1.5))]),
        [ops.SomeOf(1, [ops.Flip(), ops.Brightness(brightness=(0.5, 1.5))]), ops.Resize(size=(24, 24))],
    ],
    ids=["list", "choice", "both"],
)
def test_lists_and_choices(members: Any) -> None:
    whole = ops.Chain(*members) if isinstance(members, list) else ops.Chain(members)
    with Augmented(reader("cpu", "h264", "hevc"), members, fuse="exact") as dataset:
        found = list(dataset.batches(3))
    with reader("cpu", "h264", "hevc") as plain:
        for one, batch in zip(found, plain.batches(3), strict=True):
            np.testing.assert_array_equal(one.numpy(), whole(batch, epoch=0).numpy())


def test_the_chain_runs_on_a_thread_of_its_own_a_few_batches_ahead() -> None:
    seen: list[tuple[str, int]] = []
    given = 0

    @seqpipe.operator
    def tells_its_thread(images: Any) -> Any:
        """Note the thread, and how many batches were given out."""
        seen.append((threading.current_thread().name, given))
        return images

    with Augmented(reader("cpu", "h264", "hevc"), tells_its_thread.op()) as dataset:
        batches = dataset.batches(1)
        for number, _ in enumerate(batches, 1):
            given = number
            time.sleep(0.01)
        assert batches.stats()["stages"]["compute"]["batches"] >= given
    assert {name for name, _ in seen} == {"seqpipe-compute_0"}
    assert max(place - then for place, (_, then) in enumerate(seen)) <= 3


def test_a_break_an_end_and_another_epoch() -> None:
    with Augmented(reader("cpu", "h264", "hevc"), TRAIN) as dataset:
        whole = [batch.indices.tolist() for batch in dataset.batches(3)]
        batches = dataset.batches(3)
        first = [next(batches).indices.tolist() for _ in range(2)]
        assert batches.position == 6
        dataset.close()
        assert first + [batch.indices.tolist() for batch in batches] == whole, (
            "it goes on after it was closed"
        )
        assert [batch.indices.tolist() for batch in batches] == whole, "it begins anew after its end"
        next(iter(batches))
        dataset.set_epoch(1)
        other = [batch.indices.tolist() for batch in batches]
        assert sorted(chain(*other)) == sorted(chain(*whole))
        assert other != whole
        copied = pickle.loads(pickle.dumps(batches))
        assert copied.state_dict() == batches.state_dict()


def test_closing_waits_for_the_work_of_an_iterator_that_was_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would go on with a reader that is closed, and start its threads again."""
    before = {thread for thread in threading.enumerate() if thread.name.startswith("seqpipe")}
    working, whole = threading.Event(), optical_flow.flow_on_cpu

    def slow(*given: Any) -> Any:
        working.set()
        time.sleep(0.3)
        return whole(*given)

    monkeypatch.setattr(optical_flow, "flow_on_cpu", slow)
    dataset = Augmented(reader("cpu", "h264"), ops.OpticalFlow(preset="fast"))
    next(iter(dataset.batches(1)))
    working.clear()
    assert working.wait(60), "it works ahead, though nobody asks for more"
    again = pickle.loads(pickle.dumps(dataset))
    dataset.close()
    working.clear()
    ours = {t for t in threading.enumerate() if t.name.startswith("seqpipe")} - before
    assert not [t.name for t in ours if "ops" not in t.name]
    assert not working.wait(0.5)
    assert len(list(again.batches(3))) == len(again.batches(3))
    again.close()
