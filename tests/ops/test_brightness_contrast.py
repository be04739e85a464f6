"""BrightnessContrast against the formula of DALI's documentation in fractions, and against OpenCV."""

from __future__ import annotations

from fractions import Fraction

import cv2
import numpy as np
import pytest

from seqpipe import fn
from seqpipe.ops import BrightnessContrast, per_frame
from tests.support.operators import compare, images

CENTERS = {"uint8": 128, "uint16": 32768, "int16": 16384}


def exact(x, dtype, brightness=1.0, brightness_shift=0.0, contrast=1.0, contrast_center=None):
    """The formula without any rounding but the last, halves to even."""
    center = Fraction(CENTERS[x.dtype.name] if contrast_center is None else contrast_center)
    info = np.iinfo(dtype)
    shift = Fraction(brightness_shift) * info.max
    found = [shift + Fraction(brightness) * (center + Fraction(contrast) * (int(v) - center)) for v in x.flat]
    return np.array([min(max(round(v), info.min), info.max) for v in found], dtype).reshape(x.shape)


# fractions that float32 holds, so that only the last rounding is one
SETTINGS = [
    {"brightness": 0.5},
    {"brightness": 1.5},
    {"contrast": 2.25},
    {"contrast": 0.0},
    {"contrast": 0.75, "contrast_center": 100.5},
    {"brightness": 0.25, "brightness_shift": 0.5},
    {"brightness": 1.25, "brightness_shift": -0.125, "contrast": 1.5, "contrast_center": -3.0},
]


@pytest.mark.parametrize("arguments", SETTINGS, ids=str)
def test_every_level_is_rounded_once_half_to_even(anywhere, levels, arguments):
    found = anywhere(BrightnessContrast(**arguments), levels)
    compare(found, exact(levels, "uint8", **arguments))


@pytest.mark.parametrize("dtype", ["uint16", "int16"])
@pytest.mark.parametrize(
    "arguments", [{"brightness": 1.5}, {"contrast": 0.5}, {"brightness_shift": 0.25}], ids=str
)
def test_sixteen_bits(anywhere, dtype, arguments):
    x = images(BrightnessContrast(**arguments), dtype)
    compare(anywhere(BrightnessContrast(**arguments), x), exact(x, dtype, **arguments))


def test_opencv_agrees(levels):
    for factor in (0.375, 1.75, 2.5):
        wanted = cv2.multiply(levels[..., 0], factor)[..., None]
        compare(fn.brightness_contrast(levels, brightness=factor), wanted)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_floats_are_neither_rounded_nor_limited(anywhere, dtype):
    x = np.array([[-3.0, 0.0, 0.1, 0.5, 1.0, 7.0]], dtype)
    found = anywhere(BrightnessContrast(contrast=4.0, brightness_shift=-0.25), x)
    compare(found, ((x.astype(np.float32) - np.float32(0.5)) * 4 + np.float32(0.25)).astype(dtype))
    assert found.min() < -10


def test_float16_overflows_to_infinity(anywhere):
    x = np.array([[60000.0, -60000.0]], np.float16)
    assert anywhere(BrightnessContrast(brightness=2.0), x).tolist() == [[np.inf, -np.inf]]


def test_nan_is_no_level_of_floats_and_the_least_of_whole_numbers(anywhere):
    x = np.array([[np.nan, 0.5]], np.float32)
    assert np.isnan(anywhere(BrightnessContrast(brightness=2.0), x)[0, 0])
    assert anywhere(BrightnessContrast(brightness=200.0, dtype="int16"), x).tolist() == [[-32768, 100]]


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float16", "float32"])
def test_the_type_of_the_result_can_be_asked_for(anywhere, dtype):
    """Its range, not that of what is given, is what brightness_shift counts in."""
    x = images(BrightnessContrast(brightness=0.5), "uint8")
    found = anywhere(BrightnessContrast(brightness=0.5, brightness_shift=0.125, dtype=dtype), x)
    if dtype.startswith("float"):
        compare(found, (x * 0.5 + 0.125).astype(dtype))
    else:
        compare(found, exact(x, dtype, brightness=0.5, brightness_shift=0.125))
    still = anywhere(BrightnessContrast(brightness=0.5, p=0.0, dtype=dtype), x)
    compare(
        still,
        x.astype(np.float32)
        .clip(*(-np.inf, np.inf) if "float" in dtype else (0, np.iinfo(dtype).max))
        .astype(dtype),
    )


def test_a_fade():
    x = np.full((2, 5, 4, 4, 3), 200, np.uint8)
    found = fn.brightness_contrast(x, brightness=per_frame(np.linspace(0, 1, 5)))
    assert found[:, :, 0, 0, 0].tolist() == [[0, 50, 100, 150, 200]] * 2
