from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_scripts.frame_code import MAX_NUMBER, draw, find, read

numbers = st.integers(0, MAX_NUMBER)


@given(numbers, st.integers(96, 180), st.integers(64, 150), st.booleans(), st.booleans())
def test_a_picture_of_any_size_and_depth_tells_its_number(number, width, height, deep, interlaced):
    picture = draw(number, (width, height), deep=deep, interlaced=interlaced)
    assert picture.shape == (height, width, 3)
    assert picture.dtype == (np.uint16 if deep else np.uint8)
    assert read(picture) == number


@given(numbers, st.integers(0, 3), st.booleans())
def test_a_turned_and_mirrored_picture_tells_its_number_and_its_orientation(number, turns, mirrored):
    picture = draw(number)
    turned = np.rot90(picture[:, ::-1] if mirrored else picture, -turns)
    assert read(turned, turns=turns, mirrored=mirrored) == number
    assert find(turned) == (number, turns, mirrored)


@given(numbers, st.integers(0, 2**32 - 1))
def test_the_number_outlives_scaling_limited_range_quantization_and_noise(number, seed):
    picture = draw(number, (176, 144))
    small = cv2.resize(picture, (96, 64), interpolation=cv2.INTER_AREA)
    luma = 16 + cv2.cvtColor(small, cv2.COLOR_RGB2GRAY) * (219 / 255)
    noise = np.random.Generator(np.random.Philox(seed)).normal(0, 20, luma.shape)
    assert read((np.clip(luma + noise, 16, 235) // 32 * 32).astype(np.uint8)) == number


@given(numbers, st.integers(0, 15))
def test_one_wrong_bit_of_the_number_is_noticed(number, bit):
    first, second = draw(number), draw(number ^ (1 << (15 - bit)))
    cell = 8 + bit
    rows, columns = (
        slice(cell // 12 * 12, (cell // 12 + 1) * 12),
        slice(cell % 12 * 128 // 12, -(-(cell % 12 + 1) * 128 // 12)),
    )
    first[rows, columns] = second[rows, columns]
    with pytest.raises(ValueError, match="damaged frame code"):
        read(first)


@pytest.mark.parametrize("picture", [np.zeros((96, 128, 3), np.uint8), np.full((96, 128), 200, np.uint8)])
def test_a_picture_without_a_code_is_refused(picture):
    with pytest.raises(ValueError, match="no frame code"):
        read(picture)
    with pytest.raises(ValueError, match="in any orientation"):
        find(picture)


def test_numbers_and_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="0…65535"):
        draw(65536)
    with pytest.raises(ValueError, match="96×64 and more"):
        draw(0, (95, 64))


def test_pictures_move_smoothly_so_that_prediction_is_worth_it():
    pictures = [draw(number)[36:].astype(int) for number in (10, 11, 40)]
    near, far = (np.abs(pictures[0] - other).mean() for other in pictures[1:])
    assert 0.5 < near < far / 3


def test_interlaced_rows_show_two_moments():
    picture, now = draw(5, interlaced=True), draw(5)
    assert (picture[36::2] == now[36::2]).all()
    assert (picture[37::2] != now[37::2]).any()


def test_deep_pictures_have_detail_below_the_eighth_bit():
    assert len(np.unique(draw(3, deep=True) & 255)) > 200
