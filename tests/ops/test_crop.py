"""Crop against Pillow, DALI's rule of where a window lies, and what it does to boxes and volumes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from seqpipe import fn
from seqpipe.errors import ParameterError
from seqpipe.ops import Crop
from tests.support.operators import compare, images


@given(st.integers(1, 20), st.integers(1, 20), st.data())
def test_where_a_window_lies(height, width, data):
    """DALI: round(position * (size - window)), halves away from zero."""
    rows, columns = data.draw(st.integers(1, height)), data.draw(st.integers(1, width))
    x, y = (data.draw(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])) for _ in range(2))
    image = np.arange(height * width, dtype=np.int32).reshape(height, width)
    found = fn.crop(image, crop=(rows, columns), crop_pos_x=x, crop_pos_y=y)
    left, top = (int(place * room + 0.5) for place, room in ((x, width - columns), (y, height - rows)))
    wanted = np.asarray(Image.fromarray(image).crop((left, top, left + columns, top + rows)))
    compare(found, wanted)


def test_every_place_is_drawn(anywhere):
    x = np.arange(9, dtype=np.uint8).reshape(1, 9, 1)
    op = Crop(crop=(1, 3), crop_pos_x=(0.0, 1.0), seed=3)
    found = anywhere(op, [x] * 200)
    assert sorted({int(result[0, 0, 0]) for result in found}) == list(range(7))


def test_windows_that_do_not_fit_are_refused():
    x = images(Crop, "uint8", "FHWC")
    said = r"crop: crop=\(6, 3\) of images of 5×7 pixels; allowed: up to 5 rows and 7 columns\. Resize or pad"
    with pytest.raises(ParameterError, match=said):
        fn.crop(x, crop=(6, 3))


def test_frames_of_different_sizes_are_no_sequence():
    x = images(Crop, "uint8", "FHWC")
    with pytest.raises(
        ParameterError, match=r"crop: frames of different sizes, \[\(2, 3\), \(5, 7\)\], in one sequence"
    ):
        fn.crop(x, crop=(2, 3), p=0.5, per_frame=True, seed=1)


def test_without_a_size_it_takes_all():
    x = images(Crop, "uint8")
    found = Crop(crop=None)(x)  # on purpose
    compare(found, x)
    assert not np.shares_memory(found, x)
