"""Pictures of flow: the wheel of the Middlebury benchmark, computed here a second time and pixel by pixel."""

from __future__ import annotations

import math

import numpy as np
import pytest

from seqpipe import flow
from seqpipe.errors import ParameterError
from seqpipe.sequence import Sequence


def wheel():
    """makeColorwheel() of colorcode.cpp (Scharstein, 2007), in its own arithmetic."""
    rows, (ry, yg, gc, cb, bm, mr) = [], (15, 6, 4, 11, 13, 6)
    rows += [(255, 255 * i / ry, 0) for i in range(ry)]
    rows += [(255 - 255 * i / yg, 255, 0) for i in range(yg)]
    rows += [(0, 255, 255 * i / gc) for i in range(gc)]
    rows += [(0, 255 - 255 * i / cb, 255) for i in range(cb)]
    rows += [(255 * i / bm, 0, 255) for i in range(bm)]
    rows += [(255, 0, 255 - 255 * i / mr) for i in range(mr)]
    return rows


def color(u, v):
    """computeColor() of the same."""
    colors = wheel()
    length, turn = math.hypot(u, v), math.atan2(-v, -u) / math.pi
    place = (turn + 1) / 2 * (len(colors) - 1)
    low = int(place)
    part, found = place - low, []
    for one, other in zip(colors[low], colors[(low + 1) % len(colors)], strict=True):
        level = (1 - part) * one / 255 + part * other / 255
        level = 1 - length * (1 - level) if length <= 1 else level * 0.75
        found.append(int(255 * level))
    return found


def test_colors_are_those_of_the_benchmark():
    rng = np.random.default_rng(0)
    field = rng.normal(0, 3, (12, 14, 2)).astype(np.float32)
    found = flow.to_rgb(field, max_motion=4)
    assert found.dtype == np.uint8
    wanted = np.array([[color(u / 4, v / 4) for u, v in row] for row in field.astype(float)])
    assert np.abs(found.astype(int) - wanted).max() <= 1
    assert (found != wanted).mean() < 0.02


def test_directions_have_the_colors_that_people_know():
    found = flow.to_rgb(np.array([[[1, 0], [0, 1], [-1, 0], [0, -1], [0, 0], [np.nan, 0]]], np.float32))[0]
    right, down, left, up, still, unknown = found.astype(int)
    assert right[0] > 200 > right[1]  # red
    assert down[0] > 150 < down[1]  # yellow
    assert down[2] < 60
    assert left[0] < 60  # cyan
    assert left[2] > 150
    assert up[2] > 200 > up[1]  # blue to violet
    assert still.tolist() == [255] * 3
    assert unknown.tolist() == [0] * 3


def test_a_sequence_has_one_scale_and_keeps_its_clock():
    field = np.zeros((2, 3, 4, 2), np.float32)
    field[0, ..., 0], field[1, ..., 0] = 1, 4
    found = flow.to_rgb(Sequence(field, frames=[3, 5]))
    assert found.frames.tolist() == [3, 5]
    assert found.shape == (2, 3, 4, 3)
    assert found.data[0, 0, 0, 2] > found.data[1, 0, 0, 2]
    fixed = (field * 32).astype(np.int16)
    assert (flow.to_rgb(fixed) == found.data).all()


def test_still_and_unknown_flow():
    assert (flow.to_rgb(np.zeros((3, 4, 2), np.float32)) == 255).all()
    assert (flow.to_rgb(np.full((3, 4, 2), np.nan, np.float32)) == 0).all()


@pytest.mark.parametrize("length", [0, -1, float("nan"), float("inf")])
def test_lengths_that_are_none(length):
    with pytest.raises(
        ParameterError, match=r"to_rgb: max_motion=.* is not valid; allowed: a number of pixels above 0"
    ):
        flow.to_rgb(np.zeros((3, 4, 2), np.float32), max_motion=length)


def test_what_is_no_flow():
    with pytest.raises(ParameterError, match=r"to_rgb: an array of shape \(3, 4, 3\) is not a flow"):
        flow.to_rgb(np.zeros((3, 4, 3), np.float32))
    with pytest.raises(ParameterError, match="to_rgb: a flow of type uint8; allowed: float16"):
        flow.to_rgb(np.zeros((3, 4, 2), np.uint8))
