"""Graphs whose first operators are part of the color conversion: what is absorbed; no draw or value differs."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import seqpipe
from seqpipe import Clip, OutputSpec, fn, ops
from tests.dataset.sources import listed
from tests.support.augmented import levels_apart

SHIFT = ops.RandomResizedCrop(size=(20, 28), seed=4)


def branches(parts):
    """Several uses of the images, with parameters that are drawn, computed, and of pixels."""
    image = parts["image"]
    mirrored = fn.flip(image, horizontal=fn.random.coin_flip(seed=3))
    at = fn.random.uniform(range=(0.0, 0.5), seed=5)
    part = fn.crop(mirrored, crop=(24, 32), crop_pos_x=at * 2, crop_pos_y=0.5)
    mean = fn.reductions.mean(part, axis_names="FHWC")
    return {
        "image": fn.brightness(part, brightness=118 / (mean + 1)),
        "whole": fn.flip(fn.brightness(image, brightness=1.5), horizontal=True),
        "turned": fn.flip(fn.flip(image, horizontal=True)),
        "small": ops.Chain(SHIFT, ops.Flip(p=0.5), ops.GaussianBlur(sigma=1.0))(image),
        "at": at,
    }


def alike(left, right):
    """The values of two batches, part by part."""
    assert left.keys() == right.keys()
    for name, value in left.items():
        if isinstance(value, seqpipe.Batch):
            assert (value.layout, value.sources) == (right[name].layout, right[name].sources)
            np.testing.assert_array_equal(value.frames, right[name].frames)
            yield name, value, right[name]
        else:
            np.testing.assert_array_equal(np.asarray(value), np.asarray(right[name]), err_msg=name)


def clips(**options):
    return seqpipe.videos(listed(), Clip(4, step=5), shuffle=True, **options)


@pytest.mark.parametrize("output", [None, OutputSpec(layout="FCHW", crop=(2, 4, 40, 60))])
def test_exact_equals_operators_after_the_conversion(output):
    ds = clips(output=output).graph(branches).batch(3)
    found, wanted = ds.fuse("exact"), ds.fuse("none")
    assert list(found.absorbed.heads) == ["image", "image_0_", "image_2_"]
    assert wanted.absorbed.heads == {"image": None}
    for batch, other in zip(found.epoch(1), wanted.epoch(1), strict=True):
        for name, value, expected in alike(batch, other):
            for left, right in zip(value, expected, strict=True):
                np.testing.assert_array_equal(left.numpy(), right.numpy(), err_msg=name)
    sample, index = found.sample(4, 1), found.read([4], 1)
    np.testing.assert_array_equal(sample["image"].numpy(), index["image"][0].numpy())


def test_the_surface_differs_by_one_level_and_no_draw():
    ds = clips().graph(branches).batch(3)
    assert list(ds.absorbed.heads) == ["image", "image_0_", "image_2_", "image_3_"]
    for batch, other in zip(ds, ds.fuse("none"), strict=True):
        for name, value, expected in alike(batch, other):
            assert levels_apart([value], [expected], 1).max() <= 1.001, name


def test_a_single_line_is_absorbed_as_by_map_and_equals_the_eager_chain():
    chain = ops.Crop(crop=(24, 32), crop_pos_x=(0.0, 1.0)), ops.Flip(p=0.5)
    by_graph = (
        clips().graph(lambda parts: {"image": ops.Chain(*chain)(parts["image"])}).batch(3).fuse("exact")
    )
    by_map, plain = clips().map(*chain).batch(3).fuse("exact"), clips().batch(3)
    assert list(by_graph.absorbed.heads) == ["image_0_"], "images that nothing needs are not made"
    for batch, other, whole in zip(by_graph.epoch(1), by_map.epoch(1), plain.epoch(1), strict=True):
        eager = ops.Chain(*chain)(whole["image"], epoch=1)
        np.testing.assert_array_equal(batch["image"].numpy(), eager.numpy())
        np.testing.assert_array_equal(other["image"].numpy(), eager.numpy())
        assert batch["label"].tolist() == whole["label"].tolist()
    assert next(iter(pickle.loads(pickle.dumps(by_graph)))).keys() == batch.keys()


def test_it_tells_what_is_absorbed_and_why_not():
    text = clips().graph(branches).batch(3).fuse("exact").explain().splitlines()
    assert text[0] == "1. flip → crop: by the reader's conversion, straight from the decoded surface"
    assert "brightness is not part of the conversion: the conversion has no such step." in text
    assert any(
        line.startswith("random_resized_crop is not part of the conversion: it resamples") for line in text
    )
    assert text[-1].startswith("Operators change image")


def test_a_window_that_depends_on_pixels_is_cut_later():
    def build(parts):
        mean = fn.reductions.mean(parts["image"], axis_names="FHWC")
        return {"image": fn.crop(parts["image"], crop=(24, 32), crop_pos_x=mean / 255)}

    ds = clips().graph(build).batch(3)
    assert (
        "crop is not part of the conversion: its crop_pos_x is computed from values that are not known before frames"
        in ds.explain()
    )
    assert ds.absorbed.heads == {"image": None}


def test_a_graph_behind_a_chain_continues_its_conversion():
    def build(parts):
        part = fn.crop(parts["image"], crop=(24, 32), crop_pos_x=fn.random.uniform(range=(0.0, 1.0), seed=1))
        return {"image": parts["image"], "part": part, "grown": fn.resize(parts["image"], size=(50, 60))}

    ds = clips().map(ops.Flip(p=0.5), ops.Crop(crop=(40, 48))).graph(build).batch(3)
    text = ds.fuse("exact").explain()
    assert text.startswith("1. flip → crop: by the reader's conversion")
    assert "2. flip → crop → crop: by the reader's conversion" in text
    assert "resize is not part of the conversion: it resamples" in text
    for batch, other in zip(ds.fuse("exact").epoch(1), ds.fuse("none").epoch(1), strict=True):
        for name, value, expected in alike(batch, other):
            np.testing.assert_array_equal(value.numpy(), expected.numpy(), err_msg=name)
