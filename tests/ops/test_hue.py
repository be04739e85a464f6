"""Hue, saturation and their like against complex numbers, colorsys, and what DALI 2.4.0 gave on a CPU."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest

from seqpipe import fn
from seqpipe.errors import ParameterError
from seqpipe.ops import ColorTwist, Hsv, Hue, Saturation, per_frame
from tests.support.operators import compare, images

COLORS = np.array(
    [
        [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]],
        [[10, 20, 30], [200, 100, 50], [17, 130, 255], [128, 128, 128]],
    ],
    np.uint8,
)
# nvidia.dali.fn of these colors: version 2.4.0, device_id=None
DALI = [
    (
        Hue(hue=30.0),
        [210, 52, 0, 0, 236, 153, 67, 0, 251, 255, 255, 255],
        [14, 17, 36, 169, 127, 0, 70, 91, 255, 128, 128, 128],
    ),
    (
        Hue(hue=120.0),
        [0, 187, 0, 152, 89, 255, 153, 0, 0, 255, 255, 255],
        [28, 12, 25, 50, 177, 45, 227, 37, 183, 128, 128, 128],
    ),
    (
        Hue(hue=-75.0),
        [164, 0, 255, 192, 186, 0, 0, 94, 38, 255, 255, 255],
        [10, 25, 7, 184, 72, 236, 8, 187, 0, 128, 128, 128],
    ),
    (
        Saturation(saturation=0.0),
        [76, 76, 76, 150, 150, 150, 29, 29, 29, 255, 255, 255],
        [18, 18, 18, 124, 124, 125, 110, 110, 111, 128, 128, 128],
    ),
    (
        Saturation(saturation=0.5),
        [166, 38, 38, 75, 202, 75, 15, 15, 142, 255, 255, 255],
        [14, 19, 24, 162, 112, 87, 64, 120, 183, 128, 128, 128],
    ),
    (
        Saturation(saturation=2.0),
        [255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 254],
        [2, 22, 42, 255, 76, 0, 0, 150, 255, 128, 128, 128],
    ),
    (
        Hsv(hue=40.0, saturation=1.5, value=0.8),
        [192, 56, 0, 0, 210, 188, 94, 0, 255, 204, 204, 204],
        [12, 11, 37, 137, 114, 0, 65, 50, 255, 102, 102, 102],
    ),
    (
        ColorTwist(hue=-20.0, saturation=0.7, brightness=1.2, contrast=1.4),
        [255, 0, 111, 58, 255, 0, 0, 0, 216, 255, 255, 255],
        [0, 0, 0, 248, 101, 120, 0, 175, 217, 154, 154, 154],
    ),
    (
        ColorTwist(hue=15.0, saturation=1.3, brightness=0.9, contrast=0.6),
        [201, 51, 0, 10, 197, 74, 65, 29, 224, 184, 184, 184],
        [52, 56, 67, 157, 105, 38, 57, 106, 234, 115, 115, 115],
    ),
]


@pytest.mark.parametrize(("op", "first", "second"), DALI, ids=lambda value: str(value)[:40])
def test_what_dali_gave(anywhere, op, first, second):
    compare(anywhere(op, COLORS), np.array([first, second], np.uint8).reshape(COLORS.shape))


def by_complex_numbers(x, hue=0.0, saturation=1.0, factor=1.0):
    """RGB to luma and a complex color, turned and multiplied, and back by solving three equations."""
    forward = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
    y, i, q = np.moveaxis(x.astype(np.float64) @ forward.T, -1, 0)
    color = (i + 1j * q) * saturation * np.exp(-1j * np.deg2rad(hue))
    back = np.linalg.solve(forward, np.stack([y, color.real, color.imag])[..., None].reshape(3, -1))
    return back.T.reshape(x.shape) * factor


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32"])
@pytest.mark.parametrize("size", [(5, 7), (300, 301)])
def test_the_matrix_is_that_of_complex_numbers(anywhere, dtype, size):
    """At both sides of the size from which the CPU works block by block."""
    x = images(Hue, dtype, "HWC", size=size)
    for op, arguments in (
        (Hue(hue=77.0), {"hue": 77.0}),
        (Saturation(saturation=1.75), {"saturation": 1.75}),
        (Hsv(hue=-150.0, saturation=0.4, value=1.3), {"hue": -150, "saturation": 0.4, "factor": 1.3}),
    ):
        wanted = by_complex_numbers(x, **arguments)
        if dtype == "float32":
            np.testing.assert_allclose(anywhere(op, x), wanted, rtol=0, atol=4e-6)
            continue
        bounds = np.iinfo(dtype)
        # where float32 and double lie on both sides of a half, of which there are more among more levels
        few = 0.001 if dtype == "uint8" else 0.01
        compare(anywhere(op, x), np.rint(np.clip(wanted, bounds.min, bounds.max)).astype(dtype), (1, few))


def test_contrast_and_brightness_come_after_the_color(anywhere):
    x = images(ColorTwist, "uint8", "HWC", size=(40, 40))
    wanted = (by_complex_numbers(x, 40.0, 0.5) - 128) * 0.75 + 128
    found = anywhere(ColorTwist(hue=40.0, saturation=0.5, contrast=0.75, brightness=1.25), x)
    compare(found, np.rint(np.clip(wanted * 1.25, 0, 255)).astype(np.uint8), (1, 0.002))
    half = np.full((1, 1, 3), 0.5, np.float32)
    np.testing.assert_allclose(anywhere(ColorTwist(contrast=3.0), half), half, atol=0.001)


def test_hue_turns_as_that_of_colorsys_roughly():
    """The angle is that of YIQ, by which colors turn the same way and, on average, as far."""
    rng = np.random.default_rng(0)
    x = (0.4 + 0.2 * rng.random((1, 500, 3))).astype(np.float32)
    for angle in (-90.0, -30.0, 30.0, 90.0):
        found = fn.hue(x, hue=angle)
        turns = [
            (colorsys.rgb_to_hsv(*after)[0] - colorsys.rgb_to_hsv(*before)[0]) * 360
            for before, after in zip(x[0].tolist(), found[0].tolist(), strict=True)
        ]
        mean = np.rad2deg(np.angle(np.exp(1j * np.deg2rad(turns)).mean()))
        assert abs(mean - angle) < 8


def test_luma_stays(anywhere):
    """Whatever happens to hue and saturation."""
    x = np.random.default_rng(0).random((4, 4, 3)).astype(np.float32)
    weights = np.array([0.299, 0.587, 0.114])
    for op in (Hue(hue=33.0), Saturation(saturation=0.0), Hsv(hue=200.0, saturation=3.0)):
        np.testing.assert_allclose(anywhere(op, x) @ weights, x @ weights, atol=2e-6)


def test_nan_in_one_value_stays_out_of_those_without_it(anywhere):
    x = np.full((1, 2, 3), 0.25, np.float32)
    x[0, 0] = np.nan
    found = anywhere(ColorTwist(brightness=0.0, contrast=0.5), x)
    np.testing.assert_array_equal(found, np.zeros_like(x))


def test_a_whole_turn_changes_no_level(levels):
    x = np.stack([levels[..., 0], levels[::-1, :, 0], levels[:, ::-1, 0]], axis=-1)
    compare(fn.hue(x, hue=360.0), x)


def test_color_leaves_a_sequence_frame_by_frame():
    x = np.broadcast_to(COLORS[:1, :1], (3, 4, 4, 3))
    found = fn.saturation(x, saturation=per_frame([1.0, 0.5, 0.0]))
    assert found[:, 0, 0].tolist() == [[255, 0, 0], [166, 38, 38], [76, 76, 76]]


def test_what_has_no_color_is_refused():
    for function in (fn.saturation, fn.hsv, fn.color_twist):
        with pytest.raises(ParameterError, match="pixels of 1 values; allowed: 3"):
            function(np.zeros((4, 4), np.uint8), saturation=0.5)
    with pytest.raises(ParameterError, match="hue: pixels of 4 values; allowed: 3"):
        fn.hue(np.zeros((4, 4, 4), np.uint8), hue=5.0)
