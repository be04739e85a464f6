"""Operators of tone against Pillow, the formulas in fractions and in double precision."""

from __future__ import annotations

import math
from fractions import Fraction

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from seqpipe import fn
from seqpipe.errors import ParameterError
from seqpipe.ops import (
    AutoContrast,
    Brightness,
    Contrast,
    Equalize,
    Gamma,
    Invert,
    Posterize,
    Solarize,
    apply,
)
from tests.support.operators import compare, images

RANGES = {"uint8": 255, "uint16": 65535, "int16": 32767}


def pillow(levels, function, *arguments):
    """What Pillow makes of every level of eight bits."""
    return np.asarray(function(Image.fromarray(levels[..., 0]), *arguments))[..., None]


def rounded(values, dtype):
    """Fractions or floats as whole numbers, halves to even."""
    info = np.iinfo(dtype)
    return np.array([min(max(round(v), info.min), info.max) for v in values], dtype)


# ------------------------------------------------------------------------------------------ brightness, contrast


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16"])
def test_brightness_is_the_formula(anywhere, dtype):
    x = images(Brightness, dtype)
    for factor, shift in ((1.5, 0.0), (0.25, 0.5), (1.75, -0.125), (0.0, 0.25)):
        found = anywhere(Brightness(brightness=factor, brightness_shift=shift), x)
        wanted = [Fraction(factor) * int(v) + Fraction(shift) * RANGES[dtype] for v in x.flat]
        compare(found, rounded(wanted, dtype).reshape(x.shape))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16"])
def test_contrast_is_the_formula(anywhere, dtype):
    x = images(Contrast, dtype)
    middle = {"uint8": 128, "uint16": 32768, "int16": 16384}[dtype]
    for factor, center in ((1.5, None), (0.25, None), (0.0, None), (2.25, 100.5), (0.5, -7.0)):
        found = anywhere(Contrast(contrast=factor, contrast_center=center), x)
        around = Fraction(middle if center is None else center)
        wanted = [around + Fraction(factor) * (int(v) - around) for v in x.flat]
        compare(found, rounded(wanted, dtype).reshape(x.shape))


def test_opencv_has_both(levels):
    compare(
        fn.brightness(levels, brightness=1.375, brightness_shift=0.2),
        cv2.convertScaleAbs(levels[..., 0], None, 1.375, 51)[..., None],
    )
    compare(
        fn.contrast(levels, contrast=0.625),
        cv2.convertScaleAbs(levels[..., 0], None, 0.625, 48)[..., None],
    )


def test_brightness_and_contrast_of_floats(anywhere):
    x = np.array([[-1.0, 0.0, 0.5, 1.0, 3.0]], np.float32)
    compare(anywhere(Brightness(brightness=2.0, brightness_shift=0.25), x), x * 2 + np.float32(0.25))
    compare(anywhere(Contrast(contrast=3.0), x), (x - np.float32(0.5)) * 3 + np.float32(0.5))


def test_the_type_of_the_result_can_be_asked_for(levels):
    found = fn.brightness(levels, brightness=1 / 255, brightness_shift=0.5, dtype="float32")
    np.testing.assert_allclose(found, levels / 255 + 0.5, rtol=1e-6)
    found = fn.contrast(levels, contrast=0.5, dtype="float16")
    compare(found, (64 + levels.astype(np.float32) / 2).astype(np.float16))


# ------------------------------------------------------------------------------------------ gamma


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.5, 1 / 2.2, 1.0, 2.0, 2.2, 7.0])
@pytest.mark.parametrize("gain", [1.0, 0.8])
def test_gamma_is_the_power_in_double_precision(anywhere, levels, gamma, gain):
    wanted = [255 * gain * math.pow(v / 255, gamma) for v in range(256)]
    compare(anywhere(Gamma(gamma=gamma, gain=gain), levels), rounded(wanted, "uint8").reshape(levels.shape))


def test_gamma_of_sixteen_bits(anywhere):
    """Of all levels a few fall to the other side of a half, for powers are taken in float32."""
    x = np.arange(65536, dtype=np.uint16).reshape(256, 256, 1)
    wanted = rounded([65535 * math.pow(v / 65535, 2.2) for v in range(65536)], "uint16")
    compare(anywhere(Gamma(gamma=2.2), x), wanted.reshape(x.shape), (1, 0.01))
    signed = np.array([[-32767, -16000, -1, 0, 1, 16000, 32767]], np.int16)
    wanted = [math.copysign(32767 * math.pow(abs(int(v)) / 32767, 0.5), v) for v in signed.flat]
    compare(anywhere(Gamma(gamma=0.5), signed), rounded(wanted, "int16").reshape(signed.shape))


def test_gamma_of_floats(anywhere):
    x = np.array([[-2.0, -0.25, 0.0, 0.25, 1.0, 4.0]], np.float32)
    np.testing.assert_allclose(anywhere(Gamma(gamma=0.5), x)[0], [-(2**0.5), -0.5, 0, 0.5, 1, 2], rtol=1e-6)
    np.testing.assert_allclose(anywhere(Gamma(gamma=3.0), x)[0], [-8, -1 / 64, 0, 1 / 64, 1, 64], rtol=1e-6)


# ------------------------------------------------------------------------------------------ invert, solarize


def test_invert_is_pillows(anywhere, levels):
    compare(anywhere(Invert(), levels), pillow(levels, ImageOps.invert))


def test_invert_of_other_types(anywhere):
    for dtype, x, wanted in (
        ("uint16", [0, 1, 40000, 65535], [65535, 65534, 25535, 0]),
        ("int16", [0, 32767, 5, -32768], [32767, 0, 32762, 32767]),
        ("float32", [0.0, 0.25, 1.0, 3.0], [1.0, 0.75, 0.0, -2.0]),
    ):
        found = anywhere(Invert(), np.array([x], dtype))
        compare(found, np.array([wanted], dtype))


@pytest.mark.parametrize("threshold", [None, 0.0, 1.0, 77.0, 128.0, 255.0, 256.0])
def test_solarize_is_pillows(anywhere, levels, threshold):
    wanted = pillow(levels, ImageOps.solarize, *([] if threshold is None else [threshold]))
    compare(anywhere(Solarize(threshold=threshold), levels), wanted)


def test_solarize_of_floats_and_of_nan(anywhere):
    x = np.array([[0.0, 0.4, 0.5, 0.75, np.nan]], np.float32)
    found = anywhere(Solarize(), x)
    np.testing.assert_array_equal(found, np.array([[0.0, 0.4, 0.5, 0.25, np.nan]], np.float32))


# ------------------------------------------------------------------------------------------ posterize


@pytest.mark.parametrize("bits", range(9))
def test_posterize_is_pillows(anywhere, levels, bits):
    # Pillow 12 refuses 0 bits, of which nothing is left
    wanted = pillow(levels, ImageOps.posterize, bits) if bits else np.zeros_like(levels)
    compare(anywhere(Posterize(bits=bits), levels), wanted)


@pytest.mark.parametrize(("dtype", "width"), [("uint16", 16), ("int16", 15)])
@pytest.mark.parametrize("bits", [0, 1, 5, 11, 15, 16])
def test_posterize_is_a_mask_of_bits(anywhere, dtype, width, bits):
    x = images(Posterize, dtype)
    mask = -1 << max(width - bits, 0)
    compare(anywhere(Posterize(bits=bits), x), (x.astype(np.int64) & mask).astype(dtype))


def test_posterize_of_floats_has_as_many_levels(anywhere):
    x = np.linspace(-0.25, 1.25, 301, dtype=np.float32)[None]
    found = anywhere(Posterize(bits=2), x)
    assert np.unique(found).tolist() == [0, 0.25, 0.5, 0.75]
    compare(found, (np.clip(np.floor(x * 4), 0, 3) / 4).astype(np.float32))


def test_random_numbers_of_bits_are_whole():
    x = np.full((64, 1, 4, 4, 1), 255, np.uint8)
    found = fn.posterize(x, bits=(1, 3))
    assert np.unique(found).tolist() == [0x80, 0xC0, 0xE0]


# ------------------------------------------------------------------------------------------ equalize


@pytest.mark.parametrize("channels", [1, 3, 5])
@pytest.mark.parametrize("spread", [1, 12, 120])
def test_equalize_is_opencvs(anywhere, channels, spread):
    if not anywhere.takes(Equalize()):
        pytest.skip("it has no kernel")
    x = np.random.default_rng(0).normal(100, spread, (3, 40, 50, channels)).clip(0, 255).astype(np.uint8)
    found = anywhere(Equalize(), x)
    for frame, one in zip(found, x, strict=True):
        for channel in range(channels):
            compare(
                np.ascontiguousarray(frame[..., channel]),
                cv2.equalizeHist(np.ascontiguousarray(one[..., channel])),
            )


def test_equalize_is_dalis():
    """nvidia.dali.fn.equalize of these levels: version 2.4.0, device_id=None."""
    x = np.arange(0, 60, 5, dtype=np.uint8).reshape(3, 4, 1)
    assert fn.equalize(x).ravel().tolist() == [0, 23, 46, 70, 93, 116, 139, 162, 185, 209, 232, 255]


def test_equalize_is_nearly_pillows():
    """Which counts half a step otherwise, and rounds down."""
    x = np.random.default_rng(0).normal(100, 20, (200, 200, 1)).clip(0, 255).astype(np.uint8)
    wanted = pillow(x, ImageOps.equalize)
    assert np.abs(fn.equalize(x).astype(int) - wanted.astype(int)).mean() < 3


@pytest.mark.parametrize("dtype", ["uint16", "int16"])
def test_equalize_of_sixteen_bits(dtype):
    """As many pixels of each level as of the next: the ranks, spread over the range."""
    info = np.iinfo(dtype)
    ranks = np.random.default_rng(0).permutation(64).reshape(8, 8, 1)
    found = fn.equalize((ranks * 100 - (3000 if dtype == "int16" else 0)).astype(dtype))
    compare(found, np.array([info.min + round(65535 * r / 63) for r in ranks.flat], dtype).reshape(8, 8, 1))


@pytest.mark.parametrize(("dtype", "channels"), [("uint8", 3), ("uint8", 5), ("int16", 2)])
def test_equalize_by_several_blocks_for_an_image(anywhere, dtype, channels):
    """On a GPU, a block takes 32 rows of 256 pixels, and the last one to be done makes the table."""
    if not anywhere.takes(Equalize()):
        pytest.skip("it has no kernel")
    x = images(Equalize(), dtype, "NHWC", samples=3, size=(70, 260))[..., :1]
    x = np.concatenate([x // (n + 1) + x[::-1] // 2 for n in range(channels)], axis=-1)
    compare(anywhere(Equalize(), x, layout="FHWC"), apply(Equalize(), x, backend="reference", layout="FHWC"))


def test_equalize_of_one_level_and_of_floats(anywhere):
    x = np.full((2, 4, 4, 3), 77, np.uint8)
    if anywhere.takes(Equalize()):
        compare(anywhere(Equalize(), x), x)
        with pytest.raises(ParameterError, match="values of type float32; allowed: uint8, uint16, int16"):
            anywhere(Equalize(), x.astype(np.float32))


# ------------------------------------------------------------------------------------------ auto_contrast


@pytest.mark.parametrize("channels", [1, 3, 5])
@pytest.mark.parametrize("spread", [1, 4, 12, 120])
def test_auto_contrast_is_pillows_but_for_rounding(anywhere, channels, spread):
    """Which cuts results off, where the formula in fractions is rounded here."""
    if not anywhere.takes(AutoContrast()):
        pytest.skip("it has no kernel")
    x = np.random.default_rng(0).normal(100, spread, (3, 20, 31, channels)).clip(0, 255).astype(np.uint8)
    found = anywhere(AutoContrast(), x)
    for frame, one in zip(found, x, strict=True):
        for channel in range(channels):
            plane = one[..., channel]
            cut = pillow(plane[..., None], ImageOps.autocontrast)[..., 0].astype(int)
            assert set(np.unique(frame[..., channel] - cut)) <= {0, 1}
            lowest, highest = int(plane.min()), int(plane.max())
            wanted = [Fraction(255 * (int(v) - lowest), highest - lowest) for v in plane.flat]
            compare(frame[..., channel], rounded(wanted, "uint8").reshape(plane.shape))


@pytest.mark.parametrize("dtype", ["uint16", "int16", "float16", "float32"])
def test_auto_contrast_of_other_types(anywhere, dtype):
    if not anywhere.takes(AutoContrast()):
        pytest.skip("it has no kernel")
    x = np.array([-3, 0, 1, 5] if dtype != "uint16" else [7, 10, 11, 15]).astype(dtype).reshape(2, 2, 1)
    lo, hi = {"uint16": (0, 65535), "int16": (-32768, 32767)}.get(dtype, (0, 1))
    wanted = [lo, lo + (hi - lo) * 3 / 8, lo + (hi - lo) / 2, hi]
    wanted = np.array(wanted if "float" in dtype else np.rint(wanted), dtype).reshape(2, 2, 1)
    compare(anywhere(AutoContrast(), x), wanted)
    flat = np.full((2, 3, 4, 2), 9, dtype)
    compare(anywhere(AutoContrast(), flat), flat)


def test_auto_contrast_leaves_nan_out(anywhere):
    if not anywhere.takes(AutoContrast()):
        pytest.skip("it has no kernel")
    x = np.array([[2.0, np.nan, 4.0, 6.0], [np.nan] * 4], np.float32)
    compare(anywhere(AutoContrast(), x[:1]), np.array([[0, np.nan, 0.5, 1]], np.float32))
    compare(anywhere(AutoContrast(), x[1:]), x[1:])
