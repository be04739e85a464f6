"""Warps against OpenCV, SciPy and Pillow, DALI's canvas, and what they do to boxes, points and masks."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy import ndimage

from seqpipe import fn
from seqpipe.errors import ParameterError
from seqpipe.ops import Rotate, WarpAffine, WarpPerspective, apply
from seqpipe.ops.call.backends import run
from seqpipe.ops.call.op import BoundCall
from seqpipe.ops.cuda.kernel import Item
from seqpipe.ops.geometry import interpolate, warped
from seqpipe.ops.geometry.interpolate import KINDS, coordinates_of, interpolated, quickly_interpolated
from seqpipe.ops.geometry.mapping import Mapping
from tests.support.deep import combined
from tests.support.operators import compare
from tests.support.together import together

AFFINE = np.array([[0.9, 0.21, -1.7], [-0.13, 1.12, 2.2]])
PERSPECTIVE = np.array([[0.9, 0.21, -1.7], [-0.13, 1.12, 2.2], [0.002, -0.003, 1.0]])
TO_CORNER = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
BORDERS = {7.0: cv2.BORDER_CONSTANT, None: cv2.BORDER_REPLICATE}
CODES = {"linear": cv2.INTER_LINEAR, "nearest": cv2.INTER_NEAREST}


def picture(dtype="float32", shape=(91, 71), channels=3):
    return np.random.default_rng(1).uniform(0, 255, (*shape, channels)).astype(dtype)


def centered(matrix):
    """A matrix for corners as one for centers, which is OpenCV's way."""
    whole = np.vstack([matrix, [0, 0, 1]]) if len(matrix) == 2 else matrix
    return np.linalg.inv(TO_CORNER) @ whole @ TO_CORNER


def linear(x, matrix, size, fill):
    """SciPy's interpolation of degree 1 in float64; beyond the border it knows no other way than ours."""
    rows, columns = np.mgrid[: size[0], : size[1]]
    places = np.stack([columns, rows, np.ones_like(rows)], axis=-1) @ centered(matrix).T
    at = places[..., 1] / places[..., 2], places[..., 0] / places[..., 2]
    mode = "nearest" if fill is None else "grid-constant"
    planes = [
        ndimage.map_coordinates(x[..., c].astype(np.float64), at, order=1, mode=mode, cval=fill or 0)
        for c in range(x.shape[2])
    ]
    return np.stack(planes, axis=-1)


@pytest.mark.parametrize("fill", BORDERS, ids=str)
def test_scipy_agrees(anywhere, fill):
    x = picture()
    found = anywhere(WarpAffine(matrix=AFFINE.ravel(), size=(40, 100), fill_value=fill), x)
    np.testing.assert_allclose(found, linear(x, AFFINE, (40, 100), fill), atol=5e-3)
    found = anywhere(WarpPerspective(matrix=PERSPECTIVE.ravel(), size=(50, 60), fill_value=fill), x)
    np.testing.assert_allclose(found, linear(x, PERSPECTIVE, (50, 60), fill), atol=5e-3)
    found = anywhere(Rotate(angle=33, keep_size=True, fill_value=fill), x[:60])
    turn = np.vstack([cv2.getRotationMatrix2D((35.5, 30), 33, 1), [0, 0, 1]])
    np.testing.assert_allclose(found, linear(x[:60], np.linalg.inv(turn), (60, 71), fill), atol=5e-3)


@pytest.mark.parametrize("fill", BORDERS, ids=str)
@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("inverse", [False, True])
def test_opencv_agrees(anywhere, kind, fill, inverse):
    x = picture("uint8")
    flags = CODES[kind] | (cv2.WARP_INVERSE_MAP if inverse else 0)
    options = {"flags": flags, "borderMode": BORDERS[fill], "borderValue": (7, 7, 7)}
    op = WarpAffine(
        matrix=AFFINE.ravel(), size=(80, 100), interp_type=kind, fill_value=fill, inverse_map=inverse
    )
    assert_close(anywhere(op, x), cv2.warpAffine(x, centered(AFFINE)[:2], (100, 80), **options), kind)
    op = WarpPerspective(
        matrix=PERSPECTIVE.ravel(),
        size=(80, 60),
        interp_type=kind,
        fill_value=fill,
        inverse_map=inverse,
        pixel_origin="center",
    )
    assert_close(anywhere(op, x), cv2.warpPerspective(x, PERSPECTIVE, (60, 80), **options), kind)


def assert_close(found, wanted, kind):
    """Within a level; the nearest of two pixels may be either where a place is right between them."""
    off = np.abs(found.astype(int) - wanted)
    assert ((off > 1).mean() < 0.002) if kind == "nearest" else (off <= 1).all()


def test_cubic_keeps_parabolas(anywhere):
    """Keys 1981: with a = -1/2, polynomials of degree 2 are reproduced; a line between samples is not."""
    y, x = np.mgrid[:30, :40] + 0.5
    image = (0.5 * x * x - 0.3 * x * y + 0.2 * y * y + 2 * x - y)[..., None].astype(np.float32)
    matrix = (0.45, 0.1, 8.0, -0.05, 0.4, 9.0)
    found = anywhere(WarpAffine(matrix=matrix, interp_type="cubic"), image)
    u, v = matrix[0] * x + matrix[1] * y + matrix[2], matrix[3] * x + matrix[4] * y + matrix[5]
    wanted = 0.5 * u * u - 0.3 * u * v + 0.2 * v * v + 2 * u - v
    np.testing.assert_allclose(found[..., 0], wanted, rtol=2e-4, atol=2e-3)


def test_kernels_are_the_reference_to_the_last_bit(emulated):
    x = picture()[:40, :50]
    for kind in ("nearest", "linear", "cubic"):
        for fill in BORDERS:
            for op in (
                WarpPerspective(matrix=PERSPECTIVE.ravel(), interp_type=kind, fill_value=fill),
                Rotate(angle=17.3, interp_type=kind, fill_value=fill),
            ):
                compare(apply(op, x, backend="cuda", device=emulated), apply(op, x, backend="reference"))


def any_warp(rng: np.random.Generator, **given: Any) -> WarpAffine | WarpPerspective | Rotate:
    """Turns, maps that enlarge and shrink, and some with a perspective, of which a horizon may be seen."""
    way = rng.integers(3)
    if way == 0:
        return Rotate(angle=rng.uniform(-180, 180), keep_size=bool(rng.integers(2)), **given)
    if way == 1:
        matrix = rng.normal(size=6) * 10 ** rng.uniform(-1, 0.6) * (1, 1, 30, 1, 1, 30)
        return WarpAffine(matrix=tuple(matrix), **given)
    spread = [[0.2, 0.2, 3], [0.2, 0.2, 3], [0.002, 0.002, 0.02]]
    matrix = np.eye(3) + rng.normal(size=(3, 3)) * spread * 10 ** rng.uniform(-2, 0.7)
    return WarpPerspective(matrix=tuple(matrix.ravel()), **given)


@pytest.mark.parametrize(
    ("kind", "channels", "result"), combined([*CODES, "cubic"], [1, 2, 3, 4], [None, "float32"])
)
def test_tiles_of_bytes_are_the_reference(place, kind, channels, result):
    """To the last bit in kernels: in tiles that have room for their sources or not, on borders and beyond them."""
    rng = np.random.default_rng([channels, result is None, *kind.encode()])
    for fill in (None, 0.0, 37.0, 255.0, 0.5, 300.0) * (3 if result is None else 1):
        height, width = rng.integers(1, 150), int(rng.choice([rng.integers(1, 200), 4 * rng.integers(1, 50)]))
        x = rng.integers(0, 256, (height + 5, width + 7, channels), np.uint8)
        x = x[3:-2, 2:-5] if rng.integers(4) == 0 else x[:height, :width].copy()
        op = any_warp(rng, interp_type=kind, fill_value=fill, dtype=result)
        compare(place(op, x), apply(op, x, backend="reference"), place.tolerance(op))


@pytest.mark.parametrize("fill", [None, 0.0, 128.0, 300.0, -4.0, 77.5])
@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("shape", [(70, 132, 3), (33, 65, 3), (40, 68, 1), (20, 71, 4)])
def test_shifts_by_whole_pixels_are_as_other_maps(place, fill, kind, shape):
    x = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    for right, down in ((0, 0), (3, -2), (-5, 7), (200, 0), (0, -90), (64, 32), (-131, -69)):
        for size in (None, (41, 100)):
            matrix = (1, 0, right, 0, 1, down)
            op = WarpAffine(matrix=matrix, fill_value=fill, interp_type=kind, size=size)
            compare(place(op, x), apply(op, x, backend="reference"))


@pytest.mark.parametrize("dtype", ["uint16", "int16", "float32"])
def test_other_values_are_shifted_as_they_are_summed_up(place, dtype):
    """What is not a number spoils the sums beside it, although its weight is 0."""
    x = np.random.default_rng(0).integers(0, 9000, (30, 41, 3)).astype(dtype)
    if dtype == "float32":
        x[7, 9, 1] = np.nan
    for fill, result in ((None, None), (-40.0, None), (70000.0, "uint8"), (12.5, "float32")):
        op = WarpAffine(matrix=(1, 0, 3, 0, 1, -5), fill_value=fill, dtype=result)
        compare(place(op, x), apply(op, x, backend="reference"))


def test_maps_whose_divisor_is_nowhere_near_one(emulated):
    x = picture("uint8", (19, 23))
    for scale in (1e-30, 1e-13, 1e-6, 3.0, -2.0, 1e13, 1e30):
        straight = np.array([0.9, 0.2, -1.0, -0.1, 1.1, 0.5, 0.04, -0.05, 0.3]) * scale
        op = WarpPerspective(matrix=tuple(straight), size=(30, 40), fill_value=9.0)
        compare(apply(op, x, backend="cuda", device=emulated), apply(op, x, backend="reference"))


def test_places_that_are_nowhere_are_outside(anywhere):
    """Where the divisor is 0, where it changes its sign, and where a matrix is full of zeros."""
    x = picture("uint8", (6, 8))
    horizon = (1, 0, 0, 0, 1, 0, 0, 1, -2.5)
    found = anywhere(WarpPerspective(matrix=horizon, fill_value=9), x)
    assert (found[2] == 9).all()
    found = anywhere(WarpPerspective(matrix=(0,) * 9, fill_value=9), x)
    assert (found == 9).all()
    far = anywhere(WarpAffine(matrix=(1e30, 0, 0, 0, 1, 0), fill_value=9, interp_type="cubic"), x)
    assert (far == 9).all()


# rows and columns that DALI 2.4.0 gives for images of 100 × 100, 101 × 100, 101 × 101 and 37 × 60 pixels
CANVAS = {
    0: ((100, 100), (101, 100), (101, 101), (37, 60)),
    10: ((116, 116), (117, 118), (117, 117), (47, 66)),
    30: ((138, 138), (139, 138), (139, 139), (63, 72)),
    45: ((142, 142), (144, 143), (143, 143), (70, 69)),
    90: ((100, 100), (100, 101), (101, 101), (60, 37)),
    135: ((142, 142), (143, 144), (143, 143), (69, 70)),
    179: ((102, 102), (103, 102), (103, 103), (39, 62)),
}


@pytest.mark.parametrize("angle", CANVAS)
def test_the_canvas_is_that_of_dali(angle):
    for size, wanted in zip(((100, 100), (101, 100), (101, 101), (37, 60)), CANVAS[angle], strict=True):
        for sign in (1, -1):
            assert fn.rotate(np.zeros((*size, 1), np.uint8), angle=sign * angle).shape == (*wanted, 1)


@pytest.mark.parametrize("turns", [-1, 0, 1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["nearest", "linear", "cubic"])
def test_quarter_turns_move_whole_pixels(anywhere, turns, kind):
    x = picture("uint8", (7, 10))
    found = anywhere(Rotate(angle=90 * turns, interp_type=kind, fill_value=3), x)
    compare(found, np.rot90(x, turns))
    assert np.array_equal(found, np.asarray(Image.fromarray(x).rotate(90 * turns, expand=True)))


@given(st.floats(-360, 360), st.integers(1, 90), st.integers(1, 90))
def test_all_of_an_image_is_shown(angle, height, width):
    op = Rotate(angle=angle)
    corners = np.array([[0, 0], [width, 0], [0, height], [width, height]], np.float64)
    moved = together(op)(np.zeros((height, width), np.uint8), points=corners)
    assert (moved.points >= -0.03).all()
    assert (moved.points <= np.array(moved.image.shape[::-1]) + 0.03).all()


@pytest.mark.parametrize(
    "op",
    [
        Rotate(angle=45, keep_size=True, interp_type="nearest", fill_value=0),
        WarpAffine(matrix=(1.75, -0.75, -1, 0.25, 1, -4.75), interp_type="nearest", fill_value=0),
        WarpAffine(
            matrix=(1.75, -0.75, -1, 0.25, 1, -4.75), interp_type="nearest", fill_value=0, inverse_map=False
        ),
        WarpPerspective(matrix=PERSPECTIVE.ravel(), interp_type="nearest", fill_value=0),
        WarpPerspective(matrix=(1, 0, 0, 0, 1, 0, 0, 1, -2.5), interp_type="nearest", fill_value=0),
    ],
    ids=repr,
)
def test_masks_are_the_nearest_of_images_to_the_last_pixel(emulated, op):
    """Also where places are between two pixels, or nowhere."""
    for size in ((14, 4), (19, 31), (40, 50)):
        x = np.random.default_rng(2).integers(1, 255, (1, *size), dtype=np.uint8)
        moved = together(op)(x, mask=x, layout="FHW")
        compare(moved.mask, moved.image)
        call = BoundCall.of(op, (x,), "FHW", 0, None)
        out = np.empty((1, *moved.mask.shape, 1), np.uint8)
        run(op.nearest(), [Item(x[None, ..., None], out, 0)], call.specs, call.block, "cuda", emulated)
        compare(out[0, ..., 0], moved.mask)


def test_opencv_is_made_use_of_where_it_is_exact(monkeypatch):
    exact = int(cv2.__version__.partition(".")[0]) >= 5
    assert interpolate.remap_is_exact(3) == exact
    called = []
    monkeypatch.setattr(
        warped, "remapped", lambda *given: called.append(given) or interpolate.remapped(*given)
    )
    apply(Rotate(angle=20), picture("uint8", (120, 150)))
    apply(Rotate(angle=20), picture("float32", (120, 150)))
    apply(Rotate(angle=20, interp_type="cubic"), picture("uint8", (120, 150)))
    assert len(called) == exact


@pytest.mark.parametrize("channels", [1, 2, 4, 5])
def test_the_fast_form_rounds_seldom_otherwise(channels):
    x = picture("uint8", (120, 150), channels)
    for op in (WarpAffine(matrix=AFFINE.ravel(), fill_value=31), Rotate(angle=20)):
        compare(apply(op, x), apply(op, x, backend="reference"), (1, 0.001))
        planar = np.ascontiguousarray(np.moveaxis(x, -1, 0))
        compare(apply(op, planar, layout="CHW"), np.ascontiguousarray(np.moveaxis(apply(op, x), -1, 0)))


def test_matrices_without_an_inverse_are_refused():
    x = picture("uint8")
    for matrix in ((1, 2, 0, 2, 4, 0), (0,) * 6):
        with pytest.raises(
            ParameterError, match=r"warp_affine: matrix=.* has no inverse; allowed: an invertible matrix"
        ):
            fn.warp_affine(x, matrix=matrix, inverse_map=False)
        assert fn.warp_affine(x, matrix=matrix).shape == x.shape
    with pytest.raises(
        ParameterError, match=r"rotate: results of different sizes.*Give the samples as a list"
    ):
        fn.rotate(np.stack([np.stack([x])] * 2), angle=[0, 30])
    assert [one.shape for one in fn.rotate([x, x], angle=[0, 90])] == [(91, 71, 3), (71, 91, 3)]


def across_a_horizon(rng):
    """A map whose horizon goes through a box of the source, and that box."""
    while True:
        spread = np.array([[0.5, 0.5, 20], [0.5, 0.5, 20], [0.02, 0.02, 0.3]])
        matrix = (np.eye(3) + rng.normal(0, 1, (3, 3)) * spread) * rng.choice([-1, 1])
        box = np.sort(rng.integers(0, 60, (2, 2)), axis=0).ravel().astype(np.float64)
        corners = [(x, y, 1) for x in box[::2] for y in box[1::2]]
        signs = set(np.sign(corners @ np.linalg.inv(matrix)[2]))
        if (box[2:] - box[:2] > 2).all() and len(signs) > 1:
            return matrix, box


def test_boxes_across_the_horizon_are_around_what_is_shown_of_them():
    """Where their corners go, on both sides of infinity, are places in the middle of what they had become."""
    rng, seen = np.random.default_rng(0), 0
    for _ in range(80):
        matrix, box = across_a_horizon(rng)
        height, width = rng.integers(20, 80, 2).tolist()
        op = WarpPerspective(matrix=matrix.ravel().tolist(), size=(height, width))
        mask = np.zeros((60, 60), np.uint8)
        left, top, right, bottom = box.astype(int)
        mask[top:bottom, left:right] = 1
        inside = np.stack(
            np.meshgrid(*(np.linspace(*ends, 90) for ends in (box[::2], box[1::2]))), axis=-1
        ).reshape(-1, 2)
        moved = together(op)(np.zeros((60, 60, 1), np.uint8), mask=mask, boxes=box[None], points=inside)
        (found,) = moved.boxes
        within = (moved.points >= 0).all(1) & (moved.points <= (width, height)).all(1)
        shown = moved.points[within]
        rows, columns = np.nonzero(moved.mask)
        if not (len(shown) or len(rows)):
            continue
        seen += 1
        places = np.concatenate([shown, np.stack([columns, rows], -1) + 0.5])
        assert (places >= found[:2] - 1e-3).all()
        assert (places <= found[2:] + 1e-3).all()
        assert (found >= 0).all()
        assert (found[2:] <= (width, height)).all()
        if len(rows) > 200:  # not only slivers, narrower than a pixel
            assert (np.abs(found - [*places.min(0), *places.max(0)]) < 4).sum() >= 3
    assert seen > 20


def test_a_matrix_and_its_negative_move_boxes_alike():
    matrix, box = across_a_horizon(np.random.default_rng(1))
    boxes = np.stack([box, [1, 2, 3, 4], [50, 2, 55, 30]])
    one, other = (Mapping(sign * matrix, 40, 50).boxes(boxes) for sign in (1, -1))
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_a_box_of_which_nothing_is_shown_is_empty():
    horizon = Mapping(np.linalg.inv([[1, 0, 1000], [0, 1, 0], [1, 0, -10.0]]), 8, 8)
    found = horizon.boxes([[5, 20, 15, 30], [0, 0, 2, 2]])
    assert found[0].tolist() == [0, 0, 0, 0]
    assert (found[1] != 0).any()


@given(
    kind=st.sampled_from(KINDS),
    fill=st.sampled_from([None, 0.0, 7.25]),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9), st.integers(1, 5)),
    size=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    seed=st.integers(0, 1000),
    numbers=st.sampled_from(["plain", "strange", "uint8", "int16"]),
    projective=st.booleans(),
)
def test_the_c_form_gives_the_references_bits(kind, fill, shape, size, seed, numbers, projective):
    random = np.random.default_rng(seed)
    x = random.normal(0, 100, shape).astype(np.float32)
    if numbers == "strange":
        x[random.random(shape) < 0.2] = np.inf
        x[random.random(shape) < 0.2] = np.nan
        x[random.random(shape) < 0.2] = -0.0
    elif numbers != "plain":
        x = x.astype(np.int64).astype(numbers)
    matrix = (np.eye(3) + random.normal(0, 0.6, (3, 3))).astype(np.float32)
    matrix[:2, 2] *= 4
    if not projective:
        matrix[2] = 0, 0, 1
    for images in (x, x[:, ::-1, ::-1], np.asfortranarray(x)):
        found = quickly_interpolated(images, matrix, size, kind, fill)
        with np.errstate(invalid="ignore"):
            expected = interpolated(images.astype(np.float32), *coordinates_of(matrix, *size), kind, fill)
        assert found is not None, "there is a compiler where tests run"
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]))
