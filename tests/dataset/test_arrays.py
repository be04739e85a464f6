"""Batches as plain arrays, on the device that was asked for."""

from __future__ import annotations

import json
import sys
import types

import numpy as np
import pytest

import seqpipe
from seqpipe import Clip, ParameterError, ops
from seqpipe.parts import Labels
from tests.dataset.sources import MAKERS, gist, listed

DEVICES = ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)]


def _pictures():
    rng = np.random.default_rng(0)
    return seqpipe.items(
        {"image": list(rng.integers(0, 256, (6, 8, 10, 3), np.uint8)), "name": list("abcdef")}, shuffle=True
    )


@pytest.mark.parametrize("layout", [None, "NFCHW", "NCFHW"])
def test_numpy_batches_are_those_of_the_data_set(layout):
    dataset = seqpipe.videos(listed(), Clip(4, step=3), output=seqpipe.OutputSpec(size=(12, 16))).batch(3)
    for batch, arrays in zip(dataset, dataset.numpy(layout), strict=True):
        order = [0, *("NFHWC".index(letter) for letter in (layout or "NFHWC")[1:])]
        assert np.array_equal(arrays["image"], batch["image"].numpy().transpose(order))
        assert arrays["image"].flags.c_contiguous
        assert np.array_equal(arrays["frames"], batch["frames"])
        assert json.loads(arrays["state"]) == batch.state


@pytest.mark.parametrize("layout", [None, "NFCHW", "NCFHW"])
def test_samples_of_different_sizes_have_the_layout_too(layout):
    dataset = seqpipe.videos(listed(), Clip(4, step=3)).batch(5)  # of two sizes
    ragged = 0
    for batch, arrays in zip(dataset, dataset.numpy(layout), strict=True):
        order = ["FHWC".index(letter) for letter in (layout or "NFHWC")[1:]]
        ragged += batch["image"].stacked is None
        for sequence, array in zip(batch["image"], arrays["image"], strict=True):
            assert np.array_equal(array, sequence.numpy().transpose(order))
    assert ragged


def test_numpy_batches_resume_from_their_state():
    batches = _pictures().batch(2).numpy()
    whole = [list(epoch) for epoch in batches.epochs(2)]
    assert len(batches) == len(whole[0]) == 3
    rest = [list(epoch) for epoch in batches.epochs(2, resume=whole[0][0]["state"])]
    assert [len(epoch) for epoch in rest] == [2, 3]
    for one, two in zip([*whole[0][1:], *whole[1]], [*rest[0], *rest[1]], strict=True):
        assert np.array_equal(one["image"], two["image"])
        assert one["name"] == two["name"]


def test_a_layout_that_is_none_is_refused():
    with pytest.raises(
        ParameterError, match=r"numpy: layout='NHWC' is not valid; allowed: 'NFHWC', 'NFCHW', 'NCFHW', None"
    ):
        _pictures().batch(2).numpy("NHWC")


def test_jax_takes_the_arrays_as_they_are(monkeypatch):
    """Where JAX is not installed, a stand-in receives what it would."""
    fake = types.ModuleType("jax.numpy")
    fake.asarray = lambda array: ("jax", array)
    monkeypatch.setitem(sys.modules, "jax", types.ModuleType("jax"))
    monkeypatch.setitem(sys.modules, "jax.numpy", fake)
    dataset = _pictures().batch(2)
    for batch, arrays in zip(dataset, dataset.jax(), strict=True):
        assert arrays["image"][0] == "jax"
        assert np.array_equal(arrays["image"][1], batch["image"].numpy())
        assert arrays["name"] == list(batch["name"])


def test_jax_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax.numpy", None)
    with pytest.raises(seqpipe.BackendError, match=r"jax is not installed\. Install it: pip install jax"):
        next(iter(_pictures().batch(2).jax()))


def test_torch_that_is_not_installed_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("seqpipe.torch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    dataset = _pictures().batch(2)
    for call in (dataset.torch, next(iter(dataset)).torch):
        with pytest.raises(
            seqpipe.BackendError, match=r"torch is not installed\. Install it: pip install 'seqpipe"
        ):
            call()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["items", "patches"])
def test_operators_behind_a_transfer_run_on_its_device_and_draw_alike(name, device):
    make, flip = MAKERS[name], ops.Flip(p=0.5)  # draws of its own beside those before
    plain, moved = make().batch(3).map(flip), make().batch(3).to(device).map(flip)
    assert moved.device == device
    assert plain.fingerprint == moved.fingerprint
    assert f"copy from cpu to {device}" in moved.explain()
    for one, two in zip(plain, moved, strict=True):
        assert all(sequence.device == device for sequence in two["image"])
        for here, there in zip(one["image"], two["image"], strict=True):
            assert np.array_equal(here.numpy(), there.numpy())


def test_operators_before_and_after_a_function_draw_apart():
    """Their occurrences are counted over the whole line: a second flip by the same numbers would undo the first."""

    def make():
        return seqpipe.items(
            MAKERS["lists"]().source.get, size=13, parts={"mask": Labels}, shuffle=True, seed=2
        )

    apart = make().map(ops.Flip(p=0.5)).apply(dict).map(ops.Flip(p=0.5)).batch(4)
    joined = make().map(ops.Flip(p=0.5), ops.Flip(p=0.5)).batch(4)
    assert [gist(b) for b in apart] == [gist(b) for b in joined]
