"""Only: some images of a sample are changed, all parts are moved together."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import seqpipe
from seqpipe import ops
from seqpipe.errors import ParameterError
from seqpipe.parts import Labels
from seqpipe.pipeline import Graph, Input

BLUR = ops.GaussianBlur(sigma=1.5)


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    t1, t2 = rng.integers(0, 256, (2, 5, 20, 24, 1), np.uint8)
    affine = np.diag([1.0, 1.0, 2.0, 1.0])
    parts = {name: seqpipe.Sequence(data, "DHWC", affine=affine) for name, data in (("t1", t1), ("t2", t2))}
    return {**parts, "label": Labels(seqpipe.Sequence(t1 // 64, "DHWC", affine=affine))}


def test_the_named_image_is_changed_and_the_rest_stays(sample):
    done = ops.Only("t2", BLUR)(sample)
    assert list(done) == ["t1", "t2", "label"]
    assert np.array_equal(done["t2"].data, BLUR(sample["t2"]).data)
    assert done["t1"] is sample["t1"]
    assert done["label"].array is sample["label"].array
    assert np.array_equal(done["t2"].affine, sample["t2"].affine)


def test_it_stands_in_a_chain_whose_geometry_moves_all_parts(sample):
    flip = ops.Flip(horizontal=1)
    done = ops.Chain(flip, ops.Only(["t1"], [BLUR, ops.Invert(range="dtype")]))(sample)
    flipped = flip(sample)
    assert np.array_equal(done["t1"].data, ops.Invert(range="dtype")(BLUR(flipped["t1"])).data)
    assert np.array_equal(done["t2"].data, flipped["t2"].data)
    assert np.array_equal(done["label"].array, flipped["label"].array)
    assert [entry["op"]["op"] for entry in done.history] == ["flip", "gaussian_blur", "invert"]


def test_draws_are_those_of_the_chain(sample):
    gamma = ops.Gamma(gamma=(0.5, 2.0), seed=3, range="dtype")
    both = ops.Chain(gamma, gamma)(sample, epoch=1, index=4)
    apart = ops.Chain(ops.Only("t1", gamma), ops.Only("t1", gamma))(sample, epoch=1, index=4)
    assert np.array_equal(both["t1"].data, apart["t1"].data)
    assert not np.array_equal(both["t2"].data, apart["t2"].data)
    assert apart.history[0]["drawn"] != apart.history[1]["drawn"]


def test_a_choice_in_it_is_drawn_for_each_sample(sample):
    chain = ops.Chain(ops.Only("t1", ops.OneOf([ops.Invert(range="dtype"), None], seed=1)))
    changed = [not np.array_equal(chain(sample, index=n)["t1"].data, sample["t1"].data) for n in range(20)]
    assert 0 < sum(changed) < 20


def test_what_does_not_fit_is_refused(sample):
    with pytest.raises(ParameterError, match="'t3' is no image of the sample; allowed: t1, t2"):
        ops.Only("t3", BLUR)(sample)
    with pytest.raises(ParameterError, match="'label' is no image"):
        ops.Only("label", BLUR)(sample)
    with pytest.raises(ParameterError, match="not on: Sequence; allowed: a sample of several parts"):
        ops.Only("t1", BLUR)(sample["t1"])
    with pytest.raises(
        ParameterError, match="rotate moves pixels, and all parts of a sample are moved together"
    ):
        ops.Only("t1", ops.Rotate(angle=3.0))
    with pytest.raises(ParameterError, match="resize moves pixels"):
        ops.Only("t1", ops.Resize(size=(4, 4)))
    with pytest.raises(ParameterError, match="flip3d moves pixels"):
        ops.Only("t1", ops.Flip3d(width=True))
    with pytest.raises(ParameterError, match="replace_label changes labels"):
        ops.Only("t1", ops.ReplaceLabel(label=1, by=2))
    with pytest.raises(ParameterError, match="gamma3d is for t2 already; allowed: no Only within another"):
        ops.Only("t1", ops.Only("t2", ops.Gamma3d(gamma=2.0)))
    with pytest.raises(ParameterError, match="'flair' is no image of the sample; allowed: t1, t2"):
        ops.Only(("t1", "flair"), ops.Gamma3d(gamma=2.0, range=(0.0, 255.0)))(sample)
    with pytest.raises(ParameterError, match="there is no parameter 'only'"):
        ops.Gamma3d(only="t1")
    with pytest.raises(ParameterError, match=r"images=\(\) is not valid"):
        ops.Only((), BLUR)


def test_it_is_written_and_read_with_a_graph(sample):
    chain = ops.Chain(ops.Flip(horizontal=1), ops.Only("t2", [BLUR]))
    assert repr(chain.ops[1]) == f"Only(('t2',), {BLUR!r})"
    arrays = {name: sample[name].data for name in ("t1", "t2")}
    made = chain({name: Input(name) for name in arrays}, layout="DHWC")
    graph = Graph(*made.values())
    wanted = chain(arrays, layout="DHWC")
    for one in (graph, Graph.from_json(graph.to_json())):
        found = one(**arrays)
        assert all(np.array_equal(part, wanted[name]) for name, part in zip(arrays, found, strict=True))


def test_operators_on_volumes_change_the_named_image_as_they_change_it_among_all(sample):
    gamma = ops.Gamma3d(gamma=(0.5, 2.0), range=(0.0, 255.0), seed=4)
    noise = ops.GaussianNoise3d(sigma=9.0, per_channel=True, seed=2)
    found = ops.Only("t2", [gamma, noise])(sample, index=3)
    every = ops.Chain(gamma, noise)(sample, index=3)
    assert np.array_equal(found["t2"].data, every["t2"].data)
    assert np.array_equal(found["t1"].data, sample["t1"].data)
    assert [entry["drawn"] for entry in found.history] == [entry["drawn"] for entry in every.history]
    assert [entry["images"] for entry in found.history] == [["t2"], ["t2"]]
    again = ops.replay(json.loads(json.dumps(found.history)), sample)
    assert all(np.array_equal(again[name].data, found[name].data) for name in ("t1", "t2"))


def test_volumes_of_some_images_are_changed_between_passes_over_all_of_them(sample):
    noise, turn = ops.GaussianNoise3d(sigma=9.0), ops.RandomAffine3d(rotate=10.0)
    chain = ops.Chain(turn, ops.Only("t1", noise), ops.Flip())
    assert len(chain.groups()) == 3
    assert np.array_equal(chain(sample)["t1"].data, ops.Flip()(noise(turn(sample)))["t1"].data)
    assert np.array_equal(chain(sample)["t2"].data, ops.Flip()(turn(sample))["t2"].data)
    assert np.array_equal(pickle.loads(pickle.dumps(chain))(sample)["t2"].data, chain(sample)["t2"].data)
    found = chain([sample, sample], index=[4, 5])
    assert np.array_equal(found[1]["t1"].data, chain(sample, index=5)["t1"].data)
    with pytest.raises(ParameterError, match="it acts on t1 of a sample, not on: Sequence"):
        chain(sample["t1"])


def test_a_choice_may_have_operators_on_images_and_on_volumes(sample):
    gamma = ops.Gamma3d(gamma=2.0, range=(0.0, 255.0))
    only = ops.Only("t1", ops.OneOf([BLUR, gamma], seed=1))
    wanted = [BLUR(sample["t1"]).data, gamma(sample["t1"]).data]
    found = [only(sample, index=n) for n in range(8)]
    chosen = [next(k for k, one in enumerate(wanted) if np.array_equal(f["t1"].data, one)) for f in found]
    assert set(chosen) == {0, 1}
    assert all(np.array_equal(f["t2"].data, sample["t2"].data) for f in found)


def test_operators_on_images_and_on_volumes_alternate(sample):
    gamma = ops.Gamma3d(gamma=2.0, range=(0.0, 255.0))
    only = ops.Only("t1", [BLUR, gamma, BLUR])
    found = only(sample)
    wanted = BLUR(gamma({"t1": BLUR(sample["t1"])})["t1"])
    assert np.array_equal(found["t1"].data, wanted.data)
    assert np.array_equal(found["t2"].data, sample["t2"].data)
    assert [entry["op"]["op"] for entry in found.history] == ["gaussian_blur", "gamma3d", "gaussian_blur"]
    again = ops.Chain.from_json(ops.Chain(only).to_json())
    assert again == ops.Chain(only)
    assert np.array_equal(again(sample)["t1"].data, wanted.data)
