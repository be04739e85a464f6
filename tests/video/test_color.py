from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe.errors import SourceError
from seqpipe.video.convert.color import (
    LUMA_WEIGHTS,
    ColorSpec,
    chroma_offset,
    gray_matrix,
    luma_weights,
    resolve,
    rgb_matrix,
)
from tests.support.pictures import frame_info, surface_format

fractions = st.floats(0, 1, allow_subnormal=False)


def coded(rgb: tuple[float, float, float], matrix: int, bits: int, full: bool) -> list[float]:
    """Code values of a color, unrounded, by the forward equations as the recommendations print them."""
    red, green, blue = rgb
    kr, kb = {
        1: (0.2126, 0.0722),
        4: (0.30, 0.11),
        6: (0.299, 0.114),
        7: (0.212, 0.087),
        9: (0.2627, 0.0593),
    }[matrix]
    luma = kr * red + (1 - kr - kb) * green + kb * blue
    cb, cr = (blue - luma) / (2 * (1 - kb)), (red - luma) / (2 * (1 - kr))
    if full:
        peak = 2**bits - 1
        return [luma * peak, cb * peak + 2 ** (bits - 1), cr * peak + 2 ** (bits - 1)]
    unit = 2 ** (bits - 8)
    return [(219 * luma + 16) * unit, (224 * cb + 128) * unit, (224 * cr + 128) * unit]


@given(
    st.tuples(fractions, fractions, fractions),
    st.sampled_from([1, 4, 6, 7, 9]),
    st.integers(8, 16),
    st.booleans(),
    st.sampled_from([8, 16]),
)
def test_the_matrix_undoes_the_coding(
    rgb: tuple[float, float, float], matrix: int, bits: int, full: bool, out_bits: int
) -> None:
    form, spec = surface_format("4:2:0", bits), ColorSpec(matrix, full, 0.0, 0.5)
    codes = np.array([*coded(rgb, matrix, bits, full), 1.0])
    peak = 2**out_bits - 1
    np.testing.assert_allclose(
        rgb_matrix(spec, form, out_bits) @ codes, np.array(rgb) * peak, atol=1e-9 * peak
    )
    kr, kb = luma_weights(matrix)
    luma = kr * rgb[0] + (1 - kr - kb) * rgb[1] + kb * rgb[2]
    np.testing.assert_allclose(
        gray_matrix(spec, form, out_bits) @ codes[[0, 3]], luma * peak, atol=1e-9 * peak
    )


@given(st.tuples(fractions, fractions, fractions), st.integers(8, 16))
def test_ycgco(rgb: tuple[float, float, float], bits: int) -> None:
    red, green, blue = rgb
    luma, cg, co = 0.25 * (red + blue) + 0.5 * green, 0.5 * green - 0.25 * (red + blue), 0.5 * (red - blue)
    unit = 2 ** (bits - 8)
    codes = np.array([(219 * luma + 16) * unit, (224 * cg + 128) * unit, (224 * co + 128) * unit, 1.0])
    made = rgb_matrix(ColorSpec(8, False, 0.0, 0.5), surface_format("4:4:4", bits), 8) @ codes
    np.testing.assert_allclose(made, np.array(rgb) * 255, atol=1e-9)


def test_the_matrix_that_everyone_knows() -> None:
    made = rgb_matrix(ColorSpec(6, False, 0.0, 0.5), surface_format(), 8)
    np.testing.assert_allclose(
        made[:, :3],
        [[1.164384, 0, 1.596027], [1.164384, -0.391762, -0.812968], [1.164384, 2.017232, 0]],
        atol=1e-6,
    )
    np.testing.assert_allclose(made @ [235, 128, 128, 1], [255, 255, 255])
    np.testing.assert_allclose(made @ [16, 128, 128, 1], 0, atol=1e-9)


def test_rgb_surfaces_are_only_scaled() -> None:
    spec = ColorSpec(0, False, 0.0, 0.5)
    np.testing.assert_array_equal(rgb_matrix(spec, surface_format("rgb"), 8), np.eye(3, 4))
    np.testing.assert_allclose(
        rgb_matrix(spec, surface_format("rgb", 10), 16) @ [1023, 512, 0, 1], [65535, 512 / 1023 * 65535, 0]
    )


@pytest.mark.parametrize(("full", "black", "white"), [(True, 0, 255), (False, 16, 235)])
def test_444_tagged_as_rgb_holds_green_blue_red(full: bool, black: int, white: int) -> None:
    spec = ColorSpec(0, full, 0.0, 0.5)
    made = rgb_matrix(spec, surface_format("4:4:4"), 8) @ [white, black, (black + white) / 2, 1]
    np.testing.assert_allclose(made, [127.5, 255, 0], atol=1e-9)
    luma = gray_matrix(spec, surface_format("4:4:4"), 8) @ [white, black, black, 1]
    np.testing.assert_allclose(luma, 0.7152 * 255)


def test_gray_is_luma_in_all_channels() -> None:
    spec, form = ColorSpec(1, False, 0.0, 0.5), surface_format("gray")
    np.testing.assert_allclose(rgb_matrix(spec, form, 8) @ [235, 1], [255, 255, 255])
    np.testing.assert_allclose(gray_matrix(spec, surface_format("rgb"), 8) @ [255, 0, 0, 1], 0.2126 * 255)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"matrix": 9}, 9),
        ({"matrix": 2, "height": 576}, 6),
        ({"matrix": 2, "height": 577}, 1),
        ({"matrix": 3, "height": 577}, 1),
        ({"matrix": 0, "height": 480}, 6),  # RGB cannot be subsampled: the tag says nothing
        ({"matrix": 0, "chroma": "4:4:4"}, 0),
        ({"matrix": 14}, 14),
    ],
)
def test_the_matrix_of_a_stream(changes: dict[str, Any], expected: int) -> None:
    assert resolve(frame_info(64, changes.pop("height", 48), **changes)).matrix == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"full_range": True}, True),
        ({"full_range": False, "codec": "mjpeg", "pixel_format": "yuvj420p"}, False),
        ({"full_range": None}, False),
        ({"full_range": None, "pixel_format": "yuvj422p"}, True),
        ({"full_range": None, "codec": "mjpeg"}, True),
        ({"full_range": None, "codec": "png", "pixel_format": "gray", "chroma": "gray"}, True),
    ],
)
def test_the_range_of_a_stream(changes: dict[str, Any], expected: bool) -> None:
    assert resolve(frame_info(64, 48, **changes)).full_range is expected


@pytest.mark.parametrize(
    ("location", "codec", "chroma", "expected"),
    [
        (1, "h264", "4:2:0", (0, 0.5)),
        (2, "h264", "4:2:0", (0.5, 0.5)),
        (3, "hevc", "4:2:0", (0, 0)),
        (4, "hevc", "4:2:0", (0.5, 0)),
        (5, "hevc", "4:2:0", (0, 1)),
        (6, "hevc", "4:2:0", (0.5, 1)),
        (0, "vp9", "4:2:0", (0, 0.5)),
        (0, "mjpeg", "4:2:0", (0.5, 0.5)),
        (0, "mpeg1video", "4:2:0", (0.5, 0.5)),
        (0, "mpeg2video", "4:2:2", (0, 0)),
        (1, "h264", "4:2:2", (0, 0)),
        (2, "mjpeg", "4:1:1", (1.5, 0)),
        (1, "h264", "4:4:4", (0, 0)),
    ],
)
def test_where_the_first_chroma_sample_lies(
    location: int, codec: str, chroma: str, expected: tuple[float, float]
) -> None:
    form = surface_format(chroma)
    spec = resolve(frame_info(64, 48, form, chroma_location=location, codec=codec))
    assert chroma_offset(spec, form) == expected


def test_a_matrix_without_luma_weights_is_refused() -> None:
    spec = resolve(frame_info(64, 48, matrix=14))
    with pytest.raises(SourceError, match=r"matrix coefficients 14 .*allowed: 0, 1, 2, 4.*color='YCbCr'"):
        rgb_matrix(spec, surface_format(), 8)
    assert luma_weights(5) == luma_weights(6) == LUMA_WEIGHTS[6]
