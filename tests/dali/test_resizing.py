"""``fn.resize``: fractional sizes, filters by axis, windows and limits of volumes."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe.dali import fn, types
from tests.dali.conftest import array, run


def test_filters_of_sizes_that_shrink_and_grow():
    def resized(**options):
        return lambda: fn.resize(
            fn.external_source(lambda: np.zeros((1, 8, 8, 3), np.uint8), layout="HWC"), **options
        )

    nearest = {"min_filter": types.INTERP_NN}
    assert run(resized(size=[4, 8], **nearest))[0][0].shape() == [(4, 8, 3)]
    assert run(resized(size=[4, 9], **nearest))[0][0].shape() == [(4, 9, 3)]


def test_each_axis_has_the_filter_of_its_direction():
    """DALI 2.4 chooses by axis: rows shrink by the nearest pixel, columns grow linearly."""
    image = np.random.default_rng(4).random((8, 6, 1)).astype(np.float32)
    found = run(
        lambda: fn.resize(
            array(image, np.float32, "HWC"),
            size=[4, 12],
            min_filter=types.INTERP_NN,
            mag_filter=types.INTERP_LINEAR,
        )
    )[0][0].at(0)
    columns = (np.arange(12) + 0.5) / 2 - 0.5
    wanted = [np.interp(columns, np.arange(6), row) for row in image[1::2, :, 0]]
    assert np.allclose(found[..., 0], wanted, atol=1e-5)


def along(row, count, start, end):
    """A row resampled linearly, without antialiasing, to a number of pixels that show a window of it."""
    places = start + (np.arange(count) + 0.5) * (end - start) / count - 0.5
    return np.interp(places, np.arange(len(row)), row)


@pytest.mark.parametrize(("side", "whole"), [(30.6, 31), (30.4, 30), (30.5, 31), (45.5, 46), (0.4, 1)])
@pytest.mark.parametrize("subpixel", [True, False])
@pytest.mark.parametrize("as_node", [True, False])
def test_fractional_sizes(side, whole, subpixel, as_node):
    """Sizes are rounded half up; the scale stays that of the fraction, as in DALI 2.4."""
    image = np.random.default_rng(4).random((1, 60, 1)).astype(np.float32)

    def program():
        width = array(side, np.float32) if as_node else side
        options = {"resize_y": 1, "antialias": False, "subpixel_scale": subpixel}
        return fn.resize(array(image, np.float32, "HWC"), resize_x=width, **options)

    found = run(program)[0][0].at(0)
    assert found.shape == (1, whole, 1)
    reach = 30 * whole / side if subpixel else 30
    assert np.allclose(found[0, :, 0], along(image[0, :, 0], whole, 30 - reach, 30 + reach), atol=1e-4)


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"size": [20.5, 31.4]}, (21, 31, 3)),
        ({"size": 20.5}, (21, 21, 3)),
        ({"size": [0, 20.5]}, (14, 21, 3)),
        ({"resize_shorter": 25.3}, (25, 38, 3)),
        ({"resize_longer": 25.5}, (17, 26, 3)),
        ({"resize_shorter": 30.5, "max_size": 40.5}, (27, 41, 3)),
        ({"size": [100, 30], "max_size": [50, 20]}, (50, 20, 3)),
        ({"size": [20.5, 50], "mode": "not_larger"}, (21, 31, 3)),
        ({"size": [20.5, 50.2], "mode": "not_smaller"}, (33, 50, 3)),
        ({"resize_x": 33.3, "mode": "stretch"}, (40, 33, 3)),
        ({"resize_x": np.int64(30), "resize_y": np.float32(20.4)}, (20, 30, 3)),
        (
            {"resize_x": 22.2, "roi_start": [0.1, 0.2], "roi_end": [0.8, 0.7], "roi_relative": True},
            (21, 22, 3),
        ),
        ({"resize_shorter": 13.3, "roi_start": [3.5, 2], "roi_end": [30, 50.5]}, (13, 24, 3)),
    ],
)
def test_shapes_of_fractional_sizes(options, shape):
    """The shapes that DALI 2.4 gives."""
    image = np.zeros((40, 60, 3))
    assert run(lambda: fn.resize(array(image, np.uint8, "HWC"), **options))[0][0].shape() == [shape]


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"size": [6.5, 10.2, 15.4], "roi_start": [1, 2, 3.5], "roi_end": [10, 18, 25]}, (7, 10, 15, 1)),
        ({"resize_shorter": 20, "max_size": 25}, (10, 17, 25, 1)),
        ({"resize_shorter": 20, "max_size": [30, 20, 25]}, (10, 17, 25, 1)),
        ({"resize_longer": 16.5}, (7, 11, 17, 1)),
        ({"resize_x": 15.5}, (6, 10, 16, 1)),
    ],
)
def test_sizes_of_volumes(options, shape):
    volume = np.zeros((12, 20, 30, 1))
    assert run(lambda: fn.resize(array(volume, np.float32, "DHWC"), **options))[0][0].shape() == [shape]


def test_a_window_of_a_volume_at_its_own_size():
    volume = np.random.default_rng(1).random((5, 6, 7, 1)).astype(np.float32)
    window = {"size": [3, 4, 5], "roi_start": [1, 1, 2], "roi_end": [4, 5, 7]}
    found = run(lambda: fn.resize(array(volume, np.float32, "DHWC"), **window))[0][0].at(0)
    assert np.allclose(found, volume[1:4, 1:5, 2:7], atol=1e-5)
