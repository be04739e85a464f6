"""Kinds of memory that pictures are written to: channels first, floats, mirrored; and pictures made in bands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from seqpipe.errors import ParameterError
from seqpipe.video.convert import converter
from seqpipe.video.convert.color import resolve
from seqpipe.video.convert.converter import Converter
from seqpipe.video.convert.surface import Surface
from seqpipe.video.probe.info import StreamInfo
from tests.support.pictures import exact_rgb, frame_info, made, picture, surface_format, xy_output

SIZE = (97, 63)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
FORMATS = [("4:2:0", 8), ("4:2:0", 10), ("4:2:2", 8), ("4:4:4", 16), ("4:1:0", 8), ("gray", 8), ("rgb", 8)]


def given(chroma: str = "4:2:0", bits: int = 8, **changes: Any) -> tuple[Surface, StreamInfo]:
    """A picture and the headers of its stream."""
    form = surface_format(chroma, bits)
    if chroma == "rgb":
        changes["matrix"] = 0
    info = frame_info(SIZE[0], SIZE[1], form, **changes)
    return picture(*SIZE, form, resolve(info)), info


def exact(surface: Surface, info: StreamInfo, color: str) -> NDArray[np.float64]:
    """0…1 in float64, channels last, no rounding anywhere."""
    rgb = exact_rgb(surface, resolve(info), 16) / 65535
    if color == "RGB":
        return rgb
    if color == "BGR":
        return rgb[..., ::-1]
    if surface.format.chroma == "rgb":
        luma: NDArray[np.float64] = rgb @ np.array([[0.2126], [0.7152], [0.0722]])
        return luma
    low, span = 16 << (surface.format.bits - 8), 219 << (surface.format.bits - 8)
    return np.clip((surface.planes[0].astype(float) - low) / span, 0, 1)[..., None]


def assert_as_good_as_equal(left: NDArray[Any], right: NDArray[Any]) -> None:
    """OpenCV's 16-bit sums may round otherwise where a row ends: one value in thousands, by the last bit."""
    unit = 1.6e-5 if left.dtype.kind == "f" else left.dtype.itemsize - 1
    np.testing.assert_allclose(left.astype(float), right.astype(float), rtol=0, atol=unit)
    assert (left != right).mean() < 1e-3


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float16", "float32"])
@pytest.mark.parametrize("color", ["RGB", "BGR", "GRAY", "YCbCr"])
@pytest.mark.parametrize(("chroma", "bits"), FORMATS)
def test_channels_first_are_the_same_values(chroma: str, bits: int, color: str, dtype: str) -> None:
    if color == "YCbCr" and (chroma == "rgb" or dtype.startswith("float")):
        pytest.skip("refused")
    surface, info = given(chroma, bits)
    last = made(surface, info, color=color, dtype=dtype)
    first = made(surface, info, color=color, dtype=dtype, layout="FCHW")
    assert first.shape == (1 if color == "GRAY" else 3, SIZE[1], SIZE[0])
    np.testing.assert_array_equal(first, last.transpose(2, 0, 1))


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("color", ["RGB", "BGR", "GRAY"])
@pytest.mark.parametrize("layout", ["FHWC", "FCHW"])
@pytest.mark.parametrize(("chroma", "bits"), FORMATS)
def test_floats_are_not_rounded_to_levels(
    chroma: str, bits: int, layout: str, color: str, normalized: bool
) -> None:
    surface, info = given(chroma, bits)
    channels = 1 if color == "GRAY" else 3
    mean, std = (MEAN[:channels], STD[:channels]) if normalized else (None, None)
    options: dict[str, Any] = {"color": color, "layout": layout, "mean": mean, "std": std}
    single = made(surface, info, dtype="float32", **options)
    half = made(surface, info, dtype="float16", **options)
    assert (single.dtype.name, half.dtype.name) == ("float32", "float16")
    if layout == "FCHW":
        single, half = single.transpose(1, 2, 0), half.transpose(1, 2, 0)

    judge = exact(surface, info, color)
    wanted = (judge - (mean or 0)) / (std or 1)
    # of the 16 bits that all is mixed in; one more rounding of chroma where the source fills them
    level = (0.6 if bits < 16 else 2.8) / 65535 / np.array(std or 1)
    assert (np.abs(single - wanted) / level).max() <= 1
    assert (np.abs(half - wanted) / (level + np.abs(wanted) * 2**-11 + 2**-25)).max() <= 1
    assert np.abs(single - (np.rint(judge * 255) / 255 - (mean or 0)) / (std or 1)).max() > 0.1 / 255 or (
        chroma == "rgb" and color != "GRAY"
    ), "values rounded to 8 bits would have passed too"


def test_one_mean_and_one_deviation_stand_for_all_channels() -> None:
    surface, info = given()
    one = made(surface, info, dtype="float32", mean=0.5, std=0.25)
    np.testing.assert_array_equal(one, made(surface, info, dtype="float32", mean=(0.5,) * 3, std=(0.25,) * 3))


def test_black_and_white_are_the_ends_of_the_floats() -> None:
    _, info = given()
    codes: list[tuple[tuple[int, int, int], float]] = [
        ((16, 128, 128), 0),
        ((235, 128, 128), 1),
        ((0, 128, 128), 0),
        ((255, 128, 128), 1),
    ]
    for (luma, cb, cr), value in codes:
        planes = (
            np.full(SIZE[::-1], luma, np.uint8),
            *(np.full((32, 49), c, np.uint8) for c in (cb, cr)),
        )
        surface = Surface(0, planes, surface_format())
        np.testing.assert_allclose(made(surface, info, dtype="float32"), value, atol=1e-6)
        np.testing.assert_array_equal(made(surface, info, dtype="float16"), np.float16(value))


def test_half_precision_beyond_its_range_is_infinite() -> None:
    surface, info = given()
    huge = made(surface, info, dtype="float16", std=1e-6)
    wanted = made(surface, info, dtype="float32", std=1e-6)
    np.testing.assert_array_equal(np.isinf(huge), wanted >= 65520)
    assert np.isinf(huge).any()


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("layout", ["FHWC", "FCHW"])
@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("size", [None, (40, 30)])
def test_the_upright_picture_is_mirrored(
    turns: int, layout: str, dtype: str, size: tuple[int, int] | None
) -> None:
    surface, info = given(rotation_degrees=90 * turns)
    options: dict[str, Any] = {"layout": layout, "dtype": dtype, "size": size}
    plain = made(surface, info, **options)
    columns = 2 if layout == "FCHW" else 1
    assert_as_good_as_equal(made(surface, info, mirror=True, **options), np.flip(plain, columns))


@pytest.mark.parametrize(("chroma", "bits"), FORMATS)
@pytest.mark.parametrize(
    "output",
    [
        {},
        {"layout": "FCHW"},
        {"mirror": True, "crop": (5, 3, 81, 50)},
        {"color": "GRAY", "dtype": "float32", "layout": "FCHW"},
        {"dtype": "uint16", "crop": (1, 1, 90, 47)},
    ],
)
def test_bands_leave_no_trace(
    chroma: str, bits: int, output: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    surface, info = given(chroma, bits)
    whole = made(surface, info, **output)
    for pixels in (1, 1000):
        monkeypatch.setattr(converter, "_BAND_PIXELS", pixels)
        assert_as_good_as_equal(made(surface, info, **output), whole)


def test_memory_in_the_other_order_is_refused() -> None:
    surface, info = given()
    converter = Converter(info, xy_output(layout="FCHW", dtype="float32"))
    for out in (np.zeros((63, 97, 3), np.float32), np.zeros((3, 63, 97), np.float16)):
        with pytest.raises(ParameterError, match=r"memory of shape \(3, 63, 97\) and dtype float32"):
            converter(surface, out)
