"""Connected regions of masks, judged by SciPy, and random objects of label maps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import ndimage

from seqpipe.dali import fn
from seqpipe.errors import ParameterError
from seqpipe.ops.labels.objects import object_boxes
from tests.dali.conftest import run


@given(hnp.arrays(bool, hnp.array_shapes(min_dims=1, max_dims=4, max_side=7)))
def test_boxes_are_those_of_scipy(mask):
    labels, count = ndimage.label(mask)
    wanted = [[[s.start for s in box], [s.stop for s in box]] for box in ndimage.find_objects(labels)]
    found = object_boxes(mask).tolist()
    assert len(found) == count
    assert sorted(found) == sorted(wanted)


@given(st.integers(0, 5))
def test_a_spiral_is_one_region(turns):
    mask = np.zeros((4 * turns + 1, 4 * turns + 1), bool)
    for n in range(turns + 1):
        mask[2 * n : len(mask) - 2 * n, 2 * n : len(mask) - 2 * n] = n % 2 == 0
    assert len(object_boxes(mask)) == ndimage.label(mask)[1]


def test_every_object_is_picked_and_the_same_ones_again():
    labels = np.zeros((4, 40), np.uint8)
    labels[0, ::4], labels[2, 1::8] = 1, 2

    def picked():
        source = fn.external_source(lambda: [labels] * 64)
        start, end, kind = fn.segmentation.random_object_bbox(
            source, format="start_end", output_class=True, seed=3
        )
        return start, end, kind

    start, end, kind = (one.as_array() for one in run(picked, batch_size=64)[0])
    assert set(kind.tolist()) == {1, 2}
    assert ((end - start) == 1).all()
    assert (labels[start[:, 0], start[:, 1]] == kind).all()
    assert len({tuple(one) for one in start.tolist()}) > 10
    again = [one.as_array() for one in run(picked, batch_size=64)[0]]
    assert np.array_equal(start, again[0])


def test_arguments_that_exclude_each_other():
    labels = lambda: fn.external_source(lambda: [np.zeros((2, 2), np.uint8)])  # noqa: E731
    for given_, said in (
        ({"format": "corners"}, "format='corners'; allowed: 'anchor_shape', 'start_end', 'box'"),
        ({"ignore_class": True, "classes": [1]}, "ignore_class with classes, class_weights or output_class"),
    ):
        with pytest.raises(ParameterError, match=said):
            run(lambda given_=given_: fn.segmentation.random_object_bbox(labels(), **given_))
    with pytest.raises(ParameterError, match="threshold and value are given; allowed: one of both"):
        run(lambda: fn.segmentation.random_mask_pixel(labels(), threshold=1.0, value=1))
