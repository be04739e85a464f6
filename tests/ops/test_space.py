"""Conversions of color against OpenCV, Pillow, the standard's formulas, and what DALI 2.4.0 gave on a CPU."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from PIL import Image

import seqpipe
from seqpipe import fn
from seqpipe.errors import ParameterError
from seqpipe.ops import Chain, ColorSpaceConversion, Flip, Grayscale
from tests.support.operators import compare, images


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16"])
def test_grayscale_is_the_luma(anywhere, dtype):
    x = images(Grayscale, dtype, "HWC", size=(20, 21))
    luma = np.rint(x.astype(np.float64) @ [0.299, 0.587, 0.114]).astype(dtype)
    compare(anywhere(Grayscale(), x), np.stack([luma] * 3, axis=-1), (1, 0.01))


def test_grayscale_is_opencvs_and_pillows(anywhere):
    """Which compute with whole numbers, and so fall to the other side of a half now and then."""
    x = images(Grayscale, "uint8", "HWC", size=(100, 100))
    found = anywhere(Grayscale(), x)
    compare(found, cv2.cvtColor(cv2.cvtColor(x, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB), (1, 0.002))
    compare(found, np.asarray(Image.fromarray(x).convert("L").convert("RGB")), (1, 0.002))


def test_what_is_gray_stays(levels):
    x = np.repeat(levels, 3, axis=-1)
    compare(fn.grayscale(x), x)
    compare(fn.grayscale(fn.grayscale(images(Grayscale, "uint8"))), fn.grayscale(images(Grayscale, "uint8")))


# ------------------------------------------------------------------------------------------ color_space_conversion

COLORS = np.array(
    [
        [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]],
        [[10, 20, 30], [200, 100, 50], [17, 130, 255], [128, 128, 128]],
    ],
    np.uint8,
)
# nvidia.dali.fn of these colors: version 2.4.0, device_id=None
DALI = {
    ("RGB", "BGR"): "0 0 255 0 255 0 255 0 0 255 255 255 30 20 10 50 100 200 255 130 17 128 128 128",
    ("RGB", "GRAY"): "76 150 29 255 18 124 110 128",
    (
        "RGB",
        "YCbCr",
    ): "81 90 240 145 54 34 41 240 110 235 128 128 32 134 123 123 91 175 111 200 69 126 128 128",
    ("BGR", "GRAY"): "29 150 76 255 22 96 154 128",
    (
        "BGR",
        "YCbCr",
    ): "41 240 110 145 54 34 81 90 240 235 128 128 35 122 133 99 179 99 149 60 191 126 128 128",
    ("YCbCr", "RGB"): "74 255 20 0 36 238 184 0 0 255 125 255 0 115 0 90 255 158 204 0 5 130 130 130",
    ("YCbCr", "BGR"): "20 255 74 238 36 0 0 0 184 255 125 255 0 115 0 158 255 90 5 0 204 130 130 130",
    ("YCbCr", "GRAY"): "255 0 0 255 0 214 1 130",
}


@pytest.mark.parametrize("spaces", DALI, ids="-".join)
def test_what_dali_gave(anywhere, spaces):
    wanted = np.array(DALI[spaces].split(), np.uint8).reshape(2, 4, -1)
    compare(anywhere(ColorSpaceConversion(image_type=spaces[0], output_type=spaces[1]), COLORS), wanted)


def test_ycbcr_is_that_of_the_published_constants(anywhere):
    """ITU-R BT.601 for R, G and B from 0 to 1, with three decimals; on the way back, a level each way."""
    matrix = [[65.481, 128.553, 24.966], [-37.797, -74.203, 112.0], [112.0, -93.786, -18.214]]
    x = images(Grayscale, "uint8", "HWC", size=(60, 60))
    wanted = np.rint(x / 255 @ np.transpose(matrix) + [16, 128, 128]).astype(np.uint8)
    found = anywhere(ColorSpaceConversion(image_type="RGB", output_type="YCbCr"), x)
    compare(found, wanted, (1, 0.001))
    back = anywhere(ColorSpaceConversion(image_type="YCbCr", output_type="RGB"), found)
    assert np.abs(back.astype(int) - x.astype(int)).max() <= 2


@pytest.mark.parametrize("dtype", ["uint16", "int16", "float32"])
def test_other_types_have_as_much_of_their_range(anywhere, dtype):
    most = np.iinfo(dtype).max if dtype != "float32" else 1.0
    x = np.array([[[0, 0, 0], [most, most, most], [most, 0, 0]]], dtype)
    wanted = np.array([[16, 128, 128], [235, 128, 128], [81.481, 90.203, 240]]) / 255 * most
    found = anywhere(ColorSpaceConversion(image_type="RGB", output_type="YCbCr"), x)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-6, atol=0.6 if dtype != "float32" else 1e-6)


def test_opencv_swaps_and_spreads(anywhere, levels):
    x = images(Grayscale, "float32", "HWC", size=(6, 7))
    compare(anywhere(ColorSpaceConversion(), x), cv2.cvtColor(x, cv2.COLOR_BGR2RGB))
    for to in ("RGB", "BGR"):
        found = anywhere(ColorSpaceConversion(image_type="GRAY", output_type=to), levels)
        compare(found, cv2.cvtColor(levels, cv2.COLOR_GRAY2RGB))
    gray = anywhere(ColorSpaceConversion(image_type="GRAY", output_type="YCbCr"), levels)
    compare(gray[..., 1:], np.full((16, 16, 2), 128, np.uint8))
    compare(anywhere(ColorSpaceConversion(image_type="YCbCr", output_type="GRAY"), gray), levels, (1, 0.5))


def test_swapping_keeps_nan_where_it_is(anywhere):
    x = np.array([[[np.nan, np.inf, 1.0]]], np.float32)
    np.testing.assert_array_equal(anywhere(ColorSpaceConversion(), x), x[..., ::-1])


@pytest.mark.parametrize(
    ("layout", "shape", "becomes"),
    [
        ("HWC", (5, 7, 3), (5, 7, 1)),
        ("FCHW", (2, 3, 5, 7), (2, 1, 5, 7)),
        ("NFCHW", (2, 2, 3, 5, 7), (2, 2, 1, 5, 7)),
    ],
)
def test_the_number_of_values_changes_in_every_layout(anywhere, layout, shape, becomes):
    x = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    gray = anywhere(ColorSpaceConversion(image_type="RGB", output_type="GRAY"), x, layout=layout)
    assert gray.shape == becomes
    back = anywhere(ColorSpaceConversion(image_type="GRAY", output_type="RGB"), gray, layout=layout)
    compare(back, np.broadcast_to(gray, shape))


def test_large_images_and_lists(anywhere):
    """At the other side of the size from which the CPU works block by block."""
    op = ColorSpaceConversion(image_type="RGB", output_type="GRAY")
    parts = [images(Grayscale, "uint8", "HWC", size=size) for size in ((300, 301), (5, 6))]
    for found, x in zip(anywhere(op, parts), parts, strict=True):
        compare(found, cv2.cvtColor(x, cv2.COLOR_RGB2GRAY)[..., None], (1, 0.002))


def test_sequences_batches_and_chains():
    x = np.random.default_rng(0).integers(0, 256, (3, 5, 7, 3), dtype=np.uint8)
    gray = fn.color_space_conversion(x, image_type="RGB", output_type="GRAY")
    one = seqpipe.Sequence(x, "FHWC", timestamps=np.arange(3.0))
    found = fn.color_space_conversion(one, image_type="RGB", output_type="GRAY")
    assert (found.layout, found.data.shape) == ("FHWC", (3, 5, 7, 1))
    compare(found.data, gray)
    batch = fn.color_space_conversion(seqpipe.Batch.of([one, one]), image_type="RGB", output_type="GRAY")
    compare(batch.stacked, np.stack([gray, gray]))
    chain = Chain(Flip(), ColorSpaceConversion(image_type="RGB", output_type="GRAY"), Flip(vertical=True))
    compare(chain(x), gray[:, ::-1])


def test_what_cannot_be_converted_is_refused():
    x = np.zeros((4, 4), np.uint8)
    for call, said in (
        (
            lambda: fn.color_space_conversion(x, image_type="GRAY", output_type="RGB"),
            "color_space_conversion: a result with 3 values a pixel, of layout HW; allowed: layouts with C",
        ),
        (
            lambda: fn.color_space_conversion(x, image_type="RGB", output_type="GRAY"),
            "color_space_conversion: pixels of 1 values; allowed: 3",
        ),
        (
            lambda: fn.color_space_conversion(x, image_type="RGB", output_type="GRAY", p=0.5),
            r"p=0.5 of a conversion from 3 values to 1; allowed: 1\. Use grayscale, which keeps three values",
        ),
    ):
        with pytest.raises(ParameterError, match=said):
            call()
