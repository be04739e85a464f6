"""Layouts, and flattening as a view."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe.errors import ParameterError
from seqpipe.layout import LAYOUTS, axis, check_layout, flatten, frame_axis, unflatten


@pytest.mark.parametrize("layout", LAYOUTS)
def test_known_layouts_fit_their_arrays(layout):
    assert check_layout(layout, len(layout)) == layout
    with pytest.raises(
        ParameterError, match=f"names {len(layout)} axes, but the array has {len(layout) + 1}"
    ):
        check_layout(layout, len(layout) + 1)


@pytest.mark.parametrize("layout", ["", "FHCW", "fhwc", "NN", "F H W C"])
def test_an_unknown_layout_is_refused_with_those_that_are_known(layout):
    with pytest.raises(ParameterError, match=r"is unknown; allowed: HW, HWC, .*NFHWC"):
        check_layout(layout, len(layout))


def test_a_layout_that_does_not_fit_names_those_that_do():
    with pytest.raises(ParameterError, match="allowed: FHWC, FCHW, DHWC"):
        check_layout("HWC", 4)


@pytest.mark.parametrize(
    ("layout", "letter", "position"),
    [("NFHWC", "N", 0), ("NFHWC", "C", 4), ("FCHW", "C", 1), ("HW", "C", None)],
)
def test_axis(layout, letter, position):
    assert axis(layout, letter) == position


@pytest.mark.parametrize(
    ("layout", "position"),
    [("FHWC", 0), ("NFCHW", 1), ("DHWC", 0), ("NDHWC", 1), ("HWC", None), ("HW", None)],
)
def test_the_frames_of_a_volume_are_its_slices(layout, position):
    assert frame_axis(layout) == position


shapes = st.tuples(*[st.integers(1, 4)] * 5)


@given(shapes, st.sampled_from(["NFHWC", "NFCHW", "NDHWC"]))
def test_flatten_is_a_view_that_unflatten_undoes(shape, layout):
    array = np.arange(np.prod(shape)).reshape(shape)
    images, flat = flatten(array, layout)
    assert flat == layout[1:]
    assert images.shape == (shape[0] * shape[1], *shape[2:])
    assert np.shares_memory(images, array)
    for sample in range(shape[0]):
        for frame in range(shape[1]):
            assert np.array_equal(images[sample * shape[1] + frame], array[sample, frame])
    images[0] = -1
    assert (array[0, 0] == -1).all(), "writing to the flat view must write to the batch"
    back = unflatten(images, shape[0])
    assert np.shares_memory(back, array)
    assert np.array_equal(back, array)


@given(shapes)
def test_a_batch_of_cropped_frames_is_flattened_without_a_copy(shape):
    whole = np.zeros((shape[0], shape[1], shape[2] + 3, shape[3] + 5, shape[4]), np.uint8)
    images, _ = flatten(whole[:, :, 1:-2, 2:-3], "NFHWC")
    assert np.shares_memory(images, whole)


def test_a_sequence_is_flat_already():
    array = np.zeros((2, 3, 4, 3))
    images, layout = flatten(array, "FHWC")
    assert images is array
    assert layout == "FHWC"


def test_flatten_wants_an_array_that_fits():
    with pytest.raises(ParameterError, match="names 5 axes, but the array has 4"):
        flatten(np.zeros((2, 3, 4, 3)), "NFHWC")


@pytest.mark.parametrize("samples", [0, -1, 4, 7])
def test_unflatten_wants_a_divisor(samples):
    with pytest.raises(ParameterError, match=f"6 images cannot be cut into {samples} sequences"):
        unflatten(np.zeros((6, 2, 2, 3)), samples)
