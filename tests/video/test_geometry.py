from __future__ import annotations

import contextlib
from fractions import Fraction
from typing import Any

import av
import numpy as np
import pytest
from av import VideoFrame
from hypothesis import example, given
from hypothesis import strategies as st

from seqpipe.errors import ParameterError
from seqpipe.video.convert.geometry import Placement, fitted_size, make_placement

sides = st.integers(1, 40)


@st.composite
def placements(draw: st.DrawFn) -> dict[str, Any]:
    size = draw(st.tuples(sides, sides))
    rotation = draw(st.sampled_from([0, 90, 180, 270]))
    upright = size if rotation % 180 == 0 else size[::-1]
    x, y = draw(st.integers(0, upright[0] - 1)), draw(st.integers(0, upright[1] - 1))
    crop = (x, y, draw(st.integers(1, upright[0] - x)), draw(st.integers(1, upright[1] - y)))
    flips = {"flipped": draw(st.booleans()), "mirror": draw(st.booleans())}
    return {"surface": size, "rotation_degrees": rotation, "crop": crop, **flips}


@given(placements())
def test_cutting_before_the_turn_is_cropping_after_it(given_: dict[str, Any]) -> None:
    size = given_.pop("surface")
    pixels = np.arange(size[0] * size[1]).reshape(size[1], size[0])
    upright = np.rot90(np.fliplr(pixels) if given_["flipped"] else pixels, given_["rotation_degrees"] // 90)
    x, y, width, height = given_["crop"]

    made = make_placement(size, **given_)

    left, top, columns, rows = made.box
    cut = pixels[top : top + rows, left : left + columns]
    shown = np.rot90(np.fliplr(cut) if made.flipped else cut, made.quarter_turns)
    wanted = upright[y : y + height, x : x + width]
    np.testing.assert_array_equal(shown, np.fliplr(wanted) if given_["mirror"] else wanted)
    assert made.shape == shown.shape
    assert made.size == (columns, rows)


@given(sides, sides, st.sampled_from([0, 90, 180, 270]), st.tuples(sides, sides))
def test_a_size_is_that_of_the_upright_picture(
    width: int, height: int, turn: int, size: tuple[int, int]
) -> None:
    assert make_placement((width, height), rotation_degrees=turn, size=size).shape == size[::-1]


@pytest.mark.parametrize(
    ("given_size", "wanted", "expected"),
    [
        ((1920, 1080), {"short_side": 256}, (455, 256)),
        ((1080, 1920), {"short_side": 256}, (256, 455)),
        ((340, 256), {"short_side": 512}, (680, 512)),
        ((1920, 1080), {"max_side": 640}, (640, 360)),
        ((640, 360), {"max_side": 1280}, (640, 360)),
        ((1000, 1), {"max_side": 10}, (10, 1)),
        ((4, 10), {"max_side": 5}, (2, 5)),
        ((5, 10), {"max_side": 5}, (3, 5)),  # 2.5: halves up
        ((1920, 1080), {"size": (3, 7)}, (3, 7)),
        ((1920, 1080), {}, (1920, 1080)),
    ],
)
def test_fitted_size(given_size: tuple[int, int], wanted: dict[str, Any], expected: tuple[int, int]) -> None:
    assert fitted_size(given_size, **wanted) == expected


@given(st.tuples(sides, sides), st.integers(1, 100))
@example((24, 27), 52)  # 58.5, which 27 * (52 / 24) is not quite
def test_the_aspect_ratio_is_kept_to_half_a_pixel(size: tuple[int, int], side: int) -> None:
    for name, reference in (("short_side", min(size)), ("max_side", max(size))):
        made = fitted_size(size, **{name: side})
        factor = Fraction(side, reference) if name == "short_side" else min(1, Fraction(side, reference))
        apart = [abs(new - old * factor) for new, old in zip(made, size, strict=True)]
        assert all(one <= Fraction(1, 2) or new == 1 for one, new in zip(apart, made, strict=True))
    assert min(fitted_size(size, short_side=side)) == side
    assert max(fitted_size(size, max_side=side)) == min(side, max(size))


@given(placements(), st.tuples(sides, sides))
def test_a_frame_of_another_size_gives_the_same_picture(
    given_: dict[str, Any], other: tuple[int, int]
) -> None:
    size = given_.pop("surface")
    made = make_placement(size, **given_)
    assert made.on(size, size) == made
    moved = made.on(size, other)
    x, y, width, height = moved.box
    assert moved.shape == made.shape
    assert 0 <= x < x + width <= other[0]
    assert 0 <= y < y + height <= other[1]


def test_a_whole_frame_of_another_size_is_shown_whole() -> None:
    assert make_placement((1280, 720), rotation_degrees=90).on((1280, 720), (641, 361)) == Placement(
        (0, 0, 641, 361), (1280, 720), False, 1
    )


@pytest.mark.parametrize("crop", [(0, 0, 1081, 10), (1, 0, 1080, 10), (0, 1900, 10, 21), (1080, 0, 1, 1)])
def test_a_crop_that_leaves_the_picture_names_its_upright_size(crop: tuple[int, int, int, int]) -> None:
    with pytest.raises(ParameterError, match=r"exceeds the frame of 1080x1920 pixels.*after rotation"):
        make_placement((1920, 1080), rotation_degrees=270, crop=crop)


@pytest.mark.parametrize(
    ("size", "possible"), [((16255, 16256), True), ((16256, 16256), False), ((32768, 8031), True)]
)
def test_a_size_is_refused_where_ffmpeg_has_no_such_pictures(size: tuple[int, int], possible: bool) -> None:
    try:
        VideoFrame(*size, "gray")  # type: ignore[arg-type]  # PyAV's stub
    except av.error.ArgumentError:
        assert not possible
    with contextlib.nullcontext() if possible else pytest.raises(ParameterError, match="too large; allowed"):
        make_placement((128, 96), size=size, part=(0, 0, 1, 1))
