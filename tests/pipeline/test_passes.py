"""Operators on a data set: iteration, states, ways to a sample, and what goes wrong."""

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
from seqpipe import Dataset, fn, ops
from seqpipe.errors import ParameterError, StateError
from seqpipe.ops import Chain
from seqpipe.ops.motion import optical_flow
from tests.support.augmented import TRAIN, clips, images
from tests.support.datasets import gist

BRIGHT = Chain(*TRAIN.ops[:2], ops.Brightness(brightness=(0.5, 1.5)))


@pytest.mark.parametrize("fuse", ["surface", "exact"])
def test_a_state_goes_on_with_exactly_what_would_have_come(place: str, fuse: Any) -> None:
    def made() -> Dataset:
        return clips(place, "h264", "h264_many_b").map(BRIGHT).fuse(fuse)

    with made().batch(4) as ds:
        epoch = ds.epoch(1)
        states, given = [epoch.state_dict()], []
        for batch in epoch:
            given.append(gist(batch["image"]))
            states.append(batch.state)
        assert len(given) == len(epoch) > 2
    with made() as other:
        one_by_one = [sample["image"].numpy() for sample in other.epoch(1)]
        for step, state in enumerate(states):
            rest = other.batch(4).resume(json.dumps(state))
            assert rest.number == 1
            assert [gist(batch["image"]) for batch in rest] == given[step:]
        np.testing.assert_array_equal(next(other.resume(states[1]))["image"].numpy(), one_by_one[4])


def test_a_state_goes_with_the_operators_and_not_with_how_they_are_done() -> None:
    with clips("cpu", "h264").batch(2) as ds:
        state = next(iter(ds.map(TRAIN))).state
        again = ds.map(TRAIN).fuse("none").resume(state)
        assert again.state_dict() == state
        other = ds.map(*TRAIN.ops[:2])
        for one in (other, ds):
            with pytest.raises(StateError, match="does not belong to this data set: chain differs"):
                one.resume(state)
        with pytest.raises(StateError, match="chain differs"):
            ds.map(TRAIN).resume(next(iter(ds)).state)
        assert other.resume(state, allow={"chain"}).state_dict()["history"] == state["history"]


@pytest.mark.parametrize("fuse", ["surface", "none"])
def test_every_way_to_a_sample_gives_the_same(fuse: Any) -> None:
    with clips("cpu", "h264", "wide_h264").map(BRIGHT).fuse(fuse) as ds:
        in_batches = [
            (index, sequence)
            for batch in ds.batch(4).epoch(3)
            for index, sequence in zip(batch.index.tolist(), batch["image"], strict=True)
        ]
        for (index, one), sample in zip(in_batches, ds.epoch(3), strict=True):
            assert index == sample.index
            np.testing.assert_array_equal(one.numpy(), sample["image"].numpy())
            np.testing.assert_array_equal(one.numpy(), ds.sample(index, 3)["image"].numpy())
        order = [index for index, _ in in_batches]
        for one, other in zip(ds.read(order, 3)["image"], in_batches, strict=True):
            np.testing.assert_array_equal(one.numpy(), other[1].numpy())
        assert len(ds) == ds.size == len(order)
        assert len(ds.batch(4)) == -(-len(order) // 4)
        assert (ds.sample(order[0], 4)["image"].numpy() != in_batches[0][1].numpy()).any()


def test_padded_batches_are_not_fused() -> None:
    """Their windows are drawn in pictures that are filled up."""
    with clips("cpu", "h264", "wide_h264").batch(30, ragged="pad") as ds:
        (plain,), (found,) = list(ds), list(ds.map(TRAIN))
        wanted = TRAIN(plain["image"])
        np.testing.assert_array_equal(found["image"].numpy(), wanted.numpy())
        np.testing.assert_array_equal(found["mask"], wanted.mask)


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("fuse", ["surface", "none"])
def test_what_does_not_fit_is_raised_in_its_turn(fuse: Any, on_error: Any) -> None:
    """As the operators would raise it: whatever becomes of samples that cannot be read, and once for a batch."""
    ds = clips("cpu", "wide_h264", "h264", "wide_h264", shuffle=False, on_error=on_error, length=8)
    each = ds.size // 3
    with ds.map(ops.Crop(crop=(98, 100)), ops.Flip()).batch(each).fuse(fuse) as ds:
        batches, found = iter(ds), []
        for number in range(3):
            if number == 1:
                with pytest.raises(ParameterError, match=r"crop=\(98, 100\) of images of 96×128 pixels"):
                    next(batches)
            else:
                found.append(next(batches)["image"].shape)
        with pytest.raises(StopIteration):
            next(batches)
        assert found == [(each, 8, 98, 100, 3)] * 2
        assert not ds.report().losses


def test_what_is_no_operator_or_no_way_to_fuse() -> None:
    with clips("cpu", "h264") as ds:
        with pytest.raises(ParameterError, match=r"Chain: .*str"):
            ds.map("flip")
        with pytest.raises(
            ParameterError, match=r"fuse='all' is not valid; allowed: 'exact', 'surface', 'none'"
        ):
            ds.fuse("all")  # type: ignore[arg-type]


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
    whole = Chain(*members) if isinstance(members, list) else Chain(members)
    ds = clips("cpu", "h264", "hevc").batch(3)
    for image, batch in zip(images(ds.map(members).fuse("exact")), images(ds), strict=True):
        np.testing.assert_array_equal(image.numpy(), whole(batch, epoch=2).numpy())


def test_operators_run_on_a_thread_of_their_own_a_few_batches_ahead() -> None:
    seen: list[tuple[str, int]] = []
    given = 0

    @seqpipe.operator
    def tells_its_thread(images: Any) -> Any:
        """Note the thread, and how many batches were given out."""
        seen.append((threading.current_thread().name, given))
        return images

    with clips("cpu", "h264", "hevc").map(tells_its_thread.op()).batch(1) as ds:
        batches = iter(ds)
        for number, _ in enumerate(batches, 1):
            given = number
            time.sleep(0.01)
        assert batches.stats()["stages"]["compute"]["batches"] >= given
    assert {name for name, _ in seen} == {"seqpipe-compute_0"}
    assert max(place - then for place, (_, then) in enumerate(seen)) <= 3


def test_a_break_an_end_and_another_epoch() -> None:
    def indices(batches: Any) -> list[list[int]]:
        return [batch.index.tolist() for batch in batches]

    with clips("cpu", "h264", "hevc").map(TRAIN).batch(3) as ds:
        whole = indices(ds)
        batches = iter(ds)
        first = [next(batches).index.tolist() for _ in range(2)]
        assert batches.state_dict()["history"] == [[1, 6]]
        ds.close()
        assert first + indices(batches) == whole, "it goes on after it was closed"
        assert indices(batches) == whole, "it begins anew after its end"
        other = indices(ds.epoch(1))
        assert sorted(chain(*other)) == sorted(chain(*whole))
        assert other != whole
        next(iter(batches))
        copied = pickle.loads(pickle.dumps(batches))
        assert copied.state_dict() == batches.state_dict()
        assert indices(copied) == whole[1:]


def test_closing_waits_for_the_work_of_an_iterator_that_was_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would go on with a source that is closed, and start its threads again."""
    before = {thread for thread in threading.enumerate() if thread.name.startswith("seqpipe")}
    working, whole = threading.Event(), optical_flow.flow_on_cpu

    def slow(*given: Any) -> Any:
        working.set()
        time.sleep(0.3)
        return whole(*given)

    monkeypatch.setattr(optical_flow, "flow_on_cpu", slow)
    ds = clips("cpu", "h264").map(ops.OpticalFlow(preset="fast"))
    next(iter(ds.batch(1)))
    working.clear()
    assert working.wait(60), "it works ahead, though nobody asks for more"
    again = pickle.loads(pickle.dumps(ds.batch(3)))
    ds.close()
    working.clear()
    ours = {t for t in threading.enumerate() if t.name.startswith("seqpipe")} - before
    assert not [t.name for t in ours if "ops" not in t.name]
    assert not working.wait(0.5)
    assert len(list(again)) == len(again)
    again.close()


def test_graphs_and_functions_see_labels_and_clocks_and_may_change_labels() -> None:
    def lit(parts: Any) -> dict[str, Any]:
        return {
            "image": fn.brightness(parts["image"], brightness=1.0 + parts["index"]),
            "label": parts["label"] + 10,
        }

    def labeled(parts: dict[str, Any]) -> dict[str, Any]:
        assert parts["frames"].shape == (4,)
        return {**parts, "label": parts["label"] + 10}

    with clips("cpu", "h264", "hevc", size=(8, 8)) as ds:
        plain = ds.read(range(4))
        wanted = fn.brightness(plain["image"], brightness=[1.0, 2.0, 3.0, 4.0])
        for changed in (ds.graph(lit), ds.apply(labeled)):
            whole = changed.batch(4).read(range(4))
            one = changed.sample(3)
            assert whole["label"].tolist() == (plain["label"] + 10).tolist()
            assert one["label"] == plain["label"][3] + 10
            np.testing.assert_array_equal(one["image"].numpy(), whole["image"][3].numpy())
        np.testing.assert_array_equal(ds.graph(lit).read(range(4))["image"].numpy(), wanted.numpy())
        with pytest.raises(ParameterError, match="there is no part 'mask'; allowed: image, label"):
            ds.graph(lambda parts: {"image": parts["mask"]})
        mixed = ds.apply(labeled).batch(4).map(ops.Mixup(num_classes=12, p=1.0)).read(range(4))
        assert mixed["label"][:, :10].max() == 0, "of the new labels"
