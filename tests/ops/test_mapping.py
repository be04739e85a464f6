"""Mapping: points, boxes, pixels and affines go where one matrix says."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe import Sequence, ops
from seqpipe.errors import ParameterError
from seqpipe.ops import Mapping
from seqpipe.ops.core.blocks import constant_of
from seqpipe.ops.core.spec import Spec
from seqpipe.ops.geometry.mapping import _shown_box

SHIFTS = st.integers(-9, 9)
AFFINES = st.builds(
    lambda angle, scale, x, y: np.array(
        [[scale * np.cos(angle), -np.sin(angle), x], [np.sin(angle), scale * np.cos(angle), y], [0, 0, 1]]
    ),
    st.floats(-1, 1),
    st.floats(0.5, 2),
    st.floats(-5, 5),
    st.floats(-5, 5),
)
PLACES = st.lists(st.tuples(st.floats(-50, 50), st.floats(-50, 50)), min_size=1, max_size=5).map(np.array)


@given(AFFINES, PLACES)
def test_points_go_there_and_come_from_here(matrix, places):
    mapping = Mapping(matrix, 10, 20)
    np.testing.assert_allclose(mapping.source(mapping.points(places)), places, atol=1e-8)
    homogeneous = cv2.transform(mapping.points(places)[:, None], matrix[:2])[:, 0]
    np.testing.assert_allclose(homogeneous, places, atol=1e-8)


@given(AFFINES, AFFINES, PLACES)
def test_two_are_one_after_the_other(first, second, places):
    one, two = Mapping(first, 10, 20), Mapping(second, 7, 9)
    both = one.then(two)
    assert (both.height, both.width) == (7, 9)
    np.testing.assert_allclose(both.points(places), two.points(one.points(places)), atol=1e-7)


@given(AFFINES, st.floats(-20, 20), st.floats(-20, 20), st.floats(0, 9), st.floats(0, 9))
def test_boxes_hold_all_points_that_they_held(matrix, left, top, width, height):
    mapping = Mapping(matrix, 10, 20)
    box = mapping.boxes([left, top, left + width, top + height])
    inside = np.array([[left + a * width, top + b * height] for a in (0, 0.3, 1) for b in (0, 0.6, 1)])
    places = mapping.points(inside)
    assert (places >= box[:2] - 1e-7).all()
    assert (places <= box[2:] + 1e-7).all()
    np.testing.assert_allclose(places.min(axis=0), box[:2], atol=1e-7)


@given(SHIFTS, SHIFTS)
def test_pixels_are_where_points_are(x, y):
    image = np.random.default_rng(0).integers(1, 255, (2, 6, 8, 3), dtype=np.uint8)
    moved = Mapping(np.array([[1.0, 0, x], [0, 1, y], [0, 0, 1]]), 5, 9).nearest(image)
    wanted = np.zeros((2, 5, 9, 3), np.uint8)
    for row in range(5):
        for column in range(9):
            if 0 <= row + y < 6 and 0 <= column + x < 8:
                wanted[:, row, column] = image[:, row + y, column + x]
    np.testing.assert_array_equal(moved, wanted)


@given(AFFINES)
def test_the_nearest_pixel_is_that_of_opencv(matrix):
    """Whose matrix is between pixel centers at whole numbers; ties and borders are left out."""
    image = np.random.default_rng(0).integers(1, 255, (12, 15), dtype=np.uint8)
    mapping = Mapping(matrix, 12, 15)
    half = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
    whole = (np.linalg.inv(half) @ matrix @ half)[:2]
    columns, rows = np.meshgrid(np.arange(15), np.arange(12))
    places = np.stack([columns, rows, np.ones_like(rows)], -1) @ whole.T
    clear = (np.abs(places - np.rint(places)) < 0.4).all(-1)
    x, y = np.rint(places).astype(int).transpose(2, 0, 1)
    inside = (x >= 0) & (x < 15) & (y >= 0) & (y < 12)
    wanted = np.where(inside, image[np.clip(y, 0, 11), np.clip(x, 0, 14)], 0)
    found = mapping.nearest(image[..., None])[..., 0]
    np.testing.assert_array_equal(found[clear], wanted[clear])


@given(AFFINES)
def test_an_affine_follows(matrix):
    mapping = Mapping(matrix * 3, 10, 20)  # a factor of all of it changes nothing
    space = np.array([[0.0, 0.3, 2, -7], [0.1, 1.5, 0, 3], [3, 0, 0.2, 11], [0, 0, 0, 1]])
    found = mapping.affine(space)
    for slice_, row, column in ((0, 0, 0), (1, 2, 3), (4, 9, 1)):
        x, y = mapping.source([column + 0.5, row + 0.5]) - 0.5
        np.testing.assert_allclose(found @ [slice_, row, column, 1], space @ [slice_, y, x, 1], atol=1e-8)


@pytest.mark.parametrize("last", [(0.01, 0, 1), (0, -0.01, 1), (0, 0, 0)])
def test_a_map_with_perspective_leaves_no_grid(last):
    volume = Sequence(np.zeros((2, 4, 6), np.uint8), "DHW", affine=np.eye(4))
    op = ops.WarpPerspective(matrix=(1, 0, 0, 0, 1, 0, *last))
    with pytest.raises(
        ParameterError,
        match=r"^warp_perspective: a volume with an affine by a map with perspective, .*; allowed: ",
    ):
        op(volume)
    assert op(volume.data, layout="DHW").shape == (2, 4, 6)


def test_the_one_that_changes_nothing():
    image = np.arange(24).reshape(1, 4, 6, 1)
    still = Mapping.identity(4, 6)
    np.testing.assert_array_equal(still.nearest(image), image)
    np.testing.assert_array_equal(still.affine(np.diag([1.0, 2, 3, 1])), np.diag([1, 2, 3, 1]))


def test_a_subclass_with_a_mapping_of_its_own_is_asked_row_by_row():
    class HalfFlip(ops.Flip, register=False):
        """Mirror, and leave every other sample as it is."""

        def mapping(self, p, height, width):
            return super().mapping(p, height, width) if p.horizontal else Mapping.identity(height, width)

    assert ops.Flip.traits.maps_rows
    assert not HalfFlip.traits.maps_rows
    x = np.arange(2 * 12, dtype=np.uint8).reshape(2, 1, 3, 4, 1)
    found = HalfFlip(horizontal=[1, 0])(x)
    np.testing.assert_array_equal(found, [x[0, :, :, ::-1], x[1]])


def test_a_factor_of_the_whole_matrix_leaves_the_spacing():
    spec = Spec(2, 4, 6, 1, "uint8", volume=True, spacing=(3.0, 2.0, 1.0))
    for factor in (1, 4):
        op = ops.WarpPerspective(matrix=tuple(factor * n for n in (2, 0, 0, 0, 3, 0, 0, 0, 1)))
        assert op.moved_spacing(constant_of(op, spec).rows, spec) == pytest.approx((3.0, 6.0, 2.0))


def test_a_box_on_the_borders_is_shown_whole():
    """No corner within the result, or on its border, is lost where a box is clipped."""
    corners = np.array([[0.0, 0, 1], [6, 0, 1], [6, 4, 1], [0, 4, 1]])
    for turned in range(4):
        np.testing.assert_array_equal(_shown_box(np.roll(corners, turned, axis=0), 4, 6), [0, 0, 6, 4])
        np.testing.assert_array_equal(_shown_box(np.roll(corners, turned, axis=0), 2, 6), [0, 0, 6, 2])
