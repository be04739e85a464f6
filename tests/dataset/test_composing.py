"""Composition of data sets: fusion, graphs, functions, batches and their errors."""

from __future__ import annotations

import importlib
import json
import os
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqpipe
from seqpipe import Clip, Grid, ParameterError, Patch, StateError, fn, ops
from seqpipe.parts import Labels
from tests.dataset.sources import MAKERS, cases, gist, listed, listed_pictures
from tests.support.in_processes import darker, dies


def _clips(**options):
    return seqpipe.videos(listed(), Clip(4, step=3), **options)


@pytest.mark.parametrize(
    "op",
    [
        ops.Crop(crop=(32, 40)),
        ops.Flip(p=0.5),
        ops.Resize(size=(24, 36)),
        ops.Normalize(mean=100.0, stddev=50.0),
    ],
)
def test_exact_fusion_equals_the_chain_on_the_batch(op):
    plain, chain = _clips(shuffle=True).batch(3), ops.Chain(op)
    fused = _clips(shuffle=True).map(op).fuse("exact").batch(3)
    for raw, batch in zip(plain.epoch(2), fused.epoch(2), strict=True):
        meant = chain(raw["image"], epoch=2)
        for expected, two in zip(meant, batch["image"], strict=True):  # frames of two sizes
            assert np.array_equal(expected.numpy(), two.numpy())


def test_surface_fusion_differs_by_one_step_at_most():
    chain = (ops.RandomResizedCrop(size=(24, 24)), ops.Flip(p=0.5))
    exact = _clips().map(*chain).fuse("none").batch(4)
    fused = _clips().map(*chain).batch(4)
    assert "by the reader's conversion" in fused.explain()
    for exactly, two in zip(exact, fused, strict=True):
        difference = np.abs(exactly["image"].numpy().astype(int) - two["image"].numpy().astype(int))
        assert difference.max() <= 1


def test_chains_in_several_maps_draw_as_one():
    once = MAKERS["lists"]().map(ops.Flip(p=0.5)).batch(4)
    two = seqpipe.items(MAKERS["lists"]().source.get, size=13, parts={"mask": Labels}, shuffle=True, seed=2)
    two = two.map(ops.Flip(p=0.5), ops.Flip(p=0.5)).batch(4)
    assert [gist(b) for b in once] == [gist(b) for b in two]


def test_labels_of_videos_become_shares_by_mixup():
    batch = next(iter(_clips().batch(4).map(ops.Mixup(num_classes=2))))
    assert batch["label"].shape == (4, 2)
    assert np.allclose(batch["label"].sum(1), 1)


@pytest.mark.parametrize("fuse", ["exact", "surface"])
@pytest.mark.parametrize("extra", [(), (ops.Brightness(brightness=(0.5, 1.5)),)])
def test_results_of_different_sizes_become_a_list(fuse, extra):
    rotate = ops.Chain(ops.Rotate(angle=(0.0, 45.0)), *extra)
    masks = [(picture[..., :1] > 90).astype(np.uint8) for picture in listed_pictures()]
    source = seqpipe.items({"image": listed_pictures(), "mask": masks}, parts={"mask": Labels}, shuffle=True)
    after, before = source.batch(4).map(rotate).fuse(fuse), source.map(rotate).fuse(fuse).batch(4)
    sizes = set()
    for batch, two, plain in zip(after, before, source.batch(4), strict=True):
        for number, index in enumerate(batch.index.tolist()):
            meant = rotate({name: plain[name][number] for name in ("image", "mask")}, index=index)
            for name in ("image", "mask"):
                assert np.array_equal(batch[name][number].numpy(), meant[name].numpy())
                assert np.array_equal(two[name][number].numpy(), meant[name].numpy())
            sizes.add(batch["image"][number].shape)
    assert len(sizes) > 1


def test_a_graph_computes_parameters_from_pixels():
    def build(nodes):
        mean = fn.reductions.mean(nodes["image"], axis_names="FHWC")
        return {"image": fn.brightness(nodes["image"], brightness=118 / (mean + 1)), "mean": mean}

    batch = next(iter(_clips().graph(build).batch(4)))
    assert abs(batch["image"].numpy().mean() - 118) < 12
    assert np.shape(batch["mean"]) == (4,)
    with pytest.raises(ParameterError, match="there is no part 'pixels'; allowed: image, label"):
        _clips().graph(lambda nodes: {"image": nodes["pixels"]})


def test_a_function_of_ones_own_sees_a_sample_and_its_label():
    dataset = (
        _clips().apply(lambda parts: {**parts, "twice": 2 * parts["label"]}).map(ops.Flip(p=1.0)).batch(5)
    )
    for batch in dataset:
        assert (batch["twice"] == 2 * batch["label"]).all()


def test_a_function_may_run_in_processes_with_equal_results():
    dataset = seqpipe.items(listed_pictures(), shuffle=True)
    with dataset.apply(darker, workers=2).batch(4) as in_processes:
        for local, two in zip(dataset.apply(darker).batch(4), in_processes, strict=True):
            assert np.array_equal(np.asarray(local["image"]), np.asarray(two["image"]))
            assert os.getpid() in local["process"]
            assert os.getpid() not in two["process"]


def test_a_process_that_dies_is_named_and_others_follow():
    with seqpipe.items(listed_pictures()).apply(dies, workers=1).batch(2) as dataset:
        for _ in range(2):
            with pytest.raises(seqpipe.BackendError, match=r"a process of apply\(\) has died"):
                next(dataset.epoch(0))


def test_a_function_that_fails_is_raised_at_its_batch_and_the_next_follows():
    def fail(parts):
        if int(parts["index"]) == 0:
            raise ZeroDivisionError("mine")
        return parts

    epoch = _clips().apply(fail).batch(4).epoch(0)
    with pytest.raises(ZeroDivisionError, match="mine"):
        next(epoch)
    assert next(epoch)["index"].tolist() == [4, 5, 6, 7]


def test_what_is_printed_and_explained():
    dataset = _clips(shuffle=True).map(ops.Flip(p=0.5)).batch(4).shard(0, 2)
    assert repr(dataset).startswith("videos(3 videos, ")
    assert ".map(Flip(p=0.5))\n    .batch(4)\n    .shard(0, 2)" in repr(dataset)
    assert dataset.types["image"].layout == "FHWC"
    assert dataset.types["image"].shape == (4, None, None, 3)
    assert dataset.classes == ("0", "1")


@pytest.mark.parametrize(
    ("compose", "message"),
    [
        (lambda d: d.batch(2).batch(3), r"a second batch\(\) after batch\(2\)"),
        (lambda d: d.map(ops.Mixup(num_classes=2)), r"mixup mixes the samples of a batch.*\.batch\(8\)\.map"),
        (
            lambda d: d.map(ops.RandomAffine3d(rotate=(-5.0, 5.0))),
            "transforms volumes, and the samples are frames",
        ),
        (lambda d: d.map(), r"map\(\) of no operators"),
        (lambda d: d.batch(0), "size=0 is not valid"),
        (lambda d: d.batch(2, last="most"), "last='most' is not valid"),
        (lambda d: d.shard(2, 2), r"shard=\(2, 2\) is not valid"),
        (lambda d: d.shard(0, 0), r"shard=\(0, 0\) is not valid"),
        (lambda d: d.fuse("some"), "fuse='some' is not valid"),
        (lambda d: d.apply(3), r"apply\(\) of an int"),
        (lambda d: d.apply(lambda parts: parts, workers=2), "a function that processes cannot get"),
        (lambda d: d.batch(2).apply(dict), r"apply\(\) after batch\(\)"),
        (lambda d: d.sample(10**6), "index=1000000 is not valid"),
        (lambda d: d.read([]), r"read\(\) of no indices"),
        (lambda d: d.torch(), r"a data set without batch\(\)"),
    ],
)
def test_wrong_compositions_name_the_way_out(compose, message):
    pytest.importorskip("torch") if "without batch" in message else None
    with pytest.raises(ParameterError, match=message):
        compose(_clips())


def test_wrong_sources_name_what_is_allowed():
    with pytest.raises(ParameterError, match=r"take is an object of type str|take is a str"):
        seqpipe.videos(listed(), "all")
    with pytest.raises(ParameterError, match=r"feed.*for what is read from front to back"):
        seqpipe.items(iter([1]))
    with pytest.raises(ParameterError, match="which can be read once"):
        seqpipe.feed(iter([1]))
    with pytest.raises(ParameterError, match="different lengths: a 1, b 2"):
        seqpipe.items({"a": [1], "b": [1, 2]})
    with pytest.raises(ParameterError, match=r"shuffle=True and Grid exclude"):
        seqpipe.volumes(cases(), Grid(4), shuffle=True)
    with pytest.raises(ParameterError, match="different sizes: one 13, two 2"):
        seqpipe.zip(one=MAKERS["lists"]().source and seqpipe.items([0] * 13), two=seqpipe.items([0, 1]))


@given(
    count=st.integers(1, 60),
    before=st.integers(1, 9),
    after=st.integers(1, 9),
    world=st.integers(1, 3),
    data=st.data(),
)
@settings(max_examples=30, deadline=None)
def test_batches_that_must_be_full_are_full_behind_a_resume_with_another_size(
    count, before, after, world, data
):
    """The last one was short if the position was no multiple of the new size."""
    items = seqpipe.items({"x": np.arange(count)[:, None]})
    parts = [items.shard(rank, world) for rank in range(world)]
    epoch = parts[0].batch(before, last="drop").epoch(0)
    read = data.draw(st.integers(0, len(epoch)))
    for _ in range(read):
        next(epoch)
    state = epoch.state_dict()
    rests = [
        [batch.index.tolist() for batch in next(iter(part.batch(after, last="drop").epochs(1, resume=state)))]
        for part in parts
    ]
    # without shuffle neighbors stay together, so that a rank of 34 samples may have 16
    least = min(len(part.batch(1).epoch(0)) for part in parts)
    assert {len(rest) for rest in rests} == {max(0, least - read * before) // after}
    assert all(len(batch) == after for rest in rests for batch in rest)


@pytest.mark.parametrize(
    "value", [np.int64(3), np.uint8(3), np.float32(0.5), np.bool_(True), np.str_("walk")]
)
def test_single_values_of_numpy_are_values(value):
    """As an array or a table gives them, one by one."""
    picture = np.zeros((4, 4, 3), np.uint8)
    dataset = seqpipe.items([{"image": picture, "value": value}] * 3)
    (batch,) = dataset.batch(3)
    assert list(batch["value"]) == [value] * 3
    if not isinstance(value, str):
        assert batch["value"].dtype == value.dtype
    assert list(dataset.map(ops.Flip()).batch(3).read([0])["value"]) == [value]


def test_labels_to_an_operator_on_images_alone_are_refused():
    masks = [np.zeros((8, 8, 1), np.uint8)] * 3
    with pytest.raises(ParameterError, match="image"):
        next(
            iter(seqpipe.items({"mask": masks}, parts={"mask": Labels}).map(ops.Normalize(mean=1.0)).batch(2))
        )


@pytest.mark.parametrize(("weights", "overlap"), [("gaussian", 0.5), ("constant", 0.0), ("hann", 0.25)])
def test_a_grid_of_patches_is_merged_to_the_volumes_exactly(weights, overlap):
    grid = seqpipe.volumes(cases(), Grid((6, 8, 8), overlap=overlap)).batch(5)
    whole = seqpipe.Aggregate(grid, weights=weights, dtype=np.int16)
    seen = []
    for batch in grid:
        for case, output in whole.add(batch, batch["image"].data):
            with seqpipe.open(case.parts["image"]) as volume:
                meant = volume.sequence()
            assert np.array_equal(output.numpy(), meant.numpy())
            assert np.allclose(output.affine, meant.affine)
            seen.append(case.key)
    assert seen == [case["image"] for case in cases()]
    assert whole.pending == ()


def test_folds_of_cases_share_no_subject():
    listed = seqpipe.cases(cases())
    train, held = listed.fold(1, 3), listed.fold(1, 3, validation=True)
    assert {c.subject for c in train}.isdisjoint(c.subject for c in held)
    assert len(train) + len(held) == 5
    assert seqpipe.volumes(train, Patch(4)).size == len(train)


def test_a_feed_without_a_state_refuses_or_skips():
    pictures = [np.full((4, 4, 1), n, np.uint8) for n in range(9)]
    dataset = seqpipe.feed(lambda: iter(pictures)).batch(2)
    epoch = dataset.epoch(0)
    state = next(epoch).state
    assert [b["image"].numpy()[:, 0, 0, 0].tolist() for b in epoch] == [[2, 3], [4, 5], [6, 7], [8]]
    with pytest.raises(StateError, match="the iterable has no state of its own"):
        dataset.resume(state)
    again = seqpipe.feed(lambda: iter(pictures), on_resume="skip").batch(2).resume(state)
    assert [b["image"].numpy()[:, 0, 0, 0].tolist() for b in again] == [[2, 3], [4, 5], [6, 7], [8]]


def test_what_was_read_is_freed_while_operators_run():
    read, alive = [], []

    def get(number):
        image = np.full((64, 64, 3), number, np.uint8)
        read.append(weakref.ref(image))
        return {"image": image}

    def counted(parts):
        alive.append(sum(reference() is not None for reference in read))
        return parts

    ds = seqpipe.items(get, size=8).apply(lambda parts: {"mean": parts["image"].numpy().mean()})
    with ds.apply(counted).prefetch(1) as ds:
        assert [batch["mean"] for batch in ds] == list(range(8))
    assert alive == [0] * 8


class Counting:
    """An iterable with a state."""

    def __init__(self):
        self.at = 0

    def __iter__(self):
        while self.at < 9:
            self.at += 1
            yield {"number": self.at - 1}

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


@pytest.mark.parametrize("parts", [("image",), ("image", "label")])
def test_samples_of_volumes_have_the_history_that_leads_back(parts):
    values = np.random.default_rng(0).integers(1, 9, (4, 6, 8, 1), np.uint8)
    case = {name: seqpipe.Sequence(values, "DHWC", affine=np.eye(4)) for name in parts}
    turned = seqpipe.items([case]).map(ops.Rot90(turns=1, plane="hw")).map(ops.Flip3d())
    sample = turned.sample(0)
    assert [entry["op"]["op"] for entry in sample.history] == ["rot90", "flip3d"]
    assert not np.array_equal(sample["image"].data, values)
    assert np.array_equal(ops.invert_volume(sample.history, sample["image"]).data, values)
    assert sample.replaced({"image": sample["image"]}).history == sample.history


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_feed_with_a_state_of_its_own_continues_exactly(prefetch):
    def numbers(batches):
        return [batch["number"].tolist() for batch in batches]

    epoch = seqpipe.feed(Counting()).batch(2).prefetch(prefetch).epoch(0)
    states = [epoch.state_dict(), *(batch.state for batch in epoch)]
    assert states[1]["sources"] == {"at": 2}
    whole = [[0, 1], [2, 3], [4, 5], [6, 7], [8]]
    for step, state in enumerate(states):
        again = seqpipe.feed(Counting()).batch(2).prefetch(prefetch)
        assert numbers(again.resume(json.loads(json.dumps(state)))) == whole[step:]
    epoch = seqpipe.feed(Counting()).batch(2).prefetch(prefetch).epoch(0)
    next(epoch)
    epoch.close()
    assert numbers(epoch) == whole[1:], "closed in between"


@pytest.mark.parametrize(
    ("module", "name", "instead"),
    [
        ("pipeline", "Augmented", "seqpipe.videos"),
        ("pipeline", "crop_views", "ds.views"),
        ("pipeline", "Pipeline", r"seqpipe.items\(…\) or seqpipe.feed"),
        ("pipeline", "external_source", r"seqpipe.items\(data\)"),
        ("torch", "Dataset", r"ds.torch\(\)"),
        ("torch", "Iterator", r"ds.torch\(\)"),
    ],
)
def test_a_name_that_is_gone_tells_what_replaces_it(module, name, instead):
    if module == "torch":
        pytest.importorskip("torch")
    package = importlib.import_module(f"seqpipe.{module}")
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'; use {instead}"):
        getattr(package, name)
