"""Resizing by the conventions of libraries, and of windows; sizes that are drawn.

Judges are Pillow, OpenCV, and of TensorFlow 1 what its own tests say, and its formula.
"""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from seqpipe import fn
from seqpipe.errors import ParameterError
from seqpipe.ops import (
    Chain,
    Crop,
    Flip,
    RandomResizedCrop,
    Resize,
    ResizeCropMirror,
    apply,
    per_frame,
)
from tests.support.operators import compare
from tests.support.together import together

SHAPE = (67, 93)
SIZES = ((31, 40), (100, 151), (33, 150), SHAPE, (134, 31))
OPENCV = {
    "nearest": cv2.INTER_NEAREST,
    "linear": cv2.INTER_LINEAR,
    "cubic": cv2.INTER_CUBIC,
    "area": cv2.INTER_AREA,
}


def picture(dtype="uint8", shape=SHAPE):
    """Noise, and a step at which filters swing over."""
    x = np.random.default_rng(1).integers(0, 256, (*shape, 3))
    x[20:40, 10:50] = 255
    return x.astype(dtype)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", OPENCV)
def test_opencv(anywhere, kind, size):
    if anywhere.name == "emulated" and np.prod(size) > 2000:
        pytest.skip("slow there")
    if kind == "area" and (size[0] > SHAPE[0]) != (size[1] > SHAPE[1]):
        pytest.skip("OpenCV's is the mean of what a pixel covers only if both sides grow, or both shrink")
    op = Resize(size=size, interp_type=kind, compat="opencv")
    found = anywhere(op, picture("float32"))
    wanted = cv2.resize(picture("float32"), size[::-1], interpolation=OPENCV[kind])
    np.testing.assert_allclose(found, wanted, atol=1e-3)
    theirs = cv2.resize(picture(), size[::-1], interpolation=OPENCV[kind])
    assert np.abs(anywhere(op, picture()).astype(int) - theirs).max() <= (kind != "nearest")


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_the_nearest_pixel_of_opencv_and_tensorflow(size, length):
    """The number of a pixel times the step, rounded down: by exact fractions, where floats may fall short."""
    x = np.arange(length, dtype=np.float32)[None, :, None]
    wanted = np.arange(size) * length // size
    for compat in ("opencv", "tf1"):
        found = fn.resize(x, size=(1, size), interp_type="nearest", compat=compat)
        assert (found.ravel() == wanted).all()
    theirs = cv2.resize(x[..., 0], (size, 1), interpolation=cv2.INTER_NEAREST).ravel()
    whole = np.arange(size) * length % size == 0
    assert (theirs == wanted)[~whole].all()


@pytest.mark.parametrize("kind", ["nearest", "linear", "triangular", "cubic", "lanczos3"])
def test_pillow(anywhere, kind):
    x = picture()
    for size in SIZES[:1]:
        found = anywhere(Resize(size=size, interp_type=kind, compat="pillow"), x)
        codes = {"triangular": "BILINEAR", "linear": "BILINEAR", "cubic": "BICUBIC", "lanczos3": "LANCZOS"}
        code = Image.Resampling[codes.get(kind, "NEAREST")]
        theirs = np.asarray(Image.fromarray(x).resize(size[::-1], code)).astype(int)
        # what swings over white it cuts off between rows and columns, too: then a few are further off
        limit = 0.02 if kind in ("cubic", "lanczos3") else 0
        assert (np.abs(found - theirs) > 1).mean() <= limit
        compare(found, anywhere(Resize(size=size, interp_type=kind), x))


# what the tests of TensorFlow's operators say, of images that count from 1 in the order of reading
TENSORFLOW = [
    ("linear", 3, (2, 2), [1, 2.5, 5.5, 7]),
    ("linear", 2, (4, 4), [1, 1.5, 2, 2, 2, 2.5, 3, 3, 3, 3.5, 4, 4, 3, 3.5, 4, 4]),
    (
        "linear",
        3,
        (4, 4),
        [1, 1.75, 2.5, 3, 3.25, 4, 4.75, 5.25, 5.5, 6.25, 7, 7.5, 7, 7.75, 8.5, 9],
    ),
    ("linear", 4, (3, 3), [1, 7 / 3, 11 / 3, 19 / 3, 23 / 3, 9, 35 / 3, 13, 43 / 3]),
    ("nearest", 3, (2, 2), [1, 2, 4, 5]),
    ("nearest", 2, (2, 5), [1, 1, 1, 2, 2, 3, 3, 3, 4, 4]),
    ("nearest", 2, (5, 2), [1, 2, 1, 2, 1, 2, 3, 4, 3, 4]),
    ("nearest", 4, (3, 3), [1, 2, 3, 5, 6, 7, 9, 10, 11]),
]


@pytest.mark.parametrize(("kind", "side", "size", "wanted"), TENSORFLOW)
def test_tensorflow_says_so(anywhere, kind, side, size, wanted):
    x = np.arange(1, side * side + 1, dtype=np.float32).reshape(side, side, 1)
    found = anywhere(Resize(size=size, interp_type=kind, compat="tf1"), x)
    np.testing.assert_allclose(found.ravel(), wanted, rtol=1e-6)


def tensorflow(x, size, kind):
    """The published formula, an axis after the other; weights of a cubic from a table of 1024."""
    for axis, side in enumerate(size):
        length = x.shape[axis]
        place = np.arange(side) * (length / side)
        first = np.floor(place).astype(int)
        part = (place - first).reshape(-1, *[1] * (2 - axis))
        if kind == "linear":
            weights, steps = (1 - part, part), (0, 1)
        else:
            part, a, steps = np.rint(part * 1024) / 1024, -0.75, (-1, 0, 1, 2)
            near = [((a + 2) * u - (a + 3)) * u * u + 1 for u in (part, 1 - part)]
            far = [((a * u - 5 * a) * u + 8 * a) * u - 4 * a for u in (1 + part, 2 - part)]
            weights = (far[0], near[0], near[1], far[1])
        x = sum(
            weight * x.take(np.clip(first + step, 0, length - 1), axis)
            for weight, step in zip(weights, steps, strict=True)
        )
    return x


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("kind", "near"), [("linear", 2e-3), ("cubic", 0.25)])
def test_tensorflow_by_its_formula(size, kind, near):
    found = fn.resize(picture("float32"), size=size, interp_type=kind, compat="tf1")
    np.testing.assert_allclose(found, tensorflow(picture("float64"), size, kind), atol=near)


def test_area_of_tensorflow_is_that_of_ours():
    x = picture("float32")
    found = fn.resize(x, size=(31, 150), interp_type="area", compat="tf1")
    compare(found, fn.resize(x, size=(31, 150), interp_type="area"))


@pytest.mark.parametrize("compat", ["opencv", "tf1", "pillow"])
@pytest.mark.parametrize("kind", ["nearest", "linear", "cubic"])
def test_a_convention_holds_in_a_window_and_mirrored(emulated, compat, kind):
    arguments = {"size": (41, 37), "interp_type": kind, "compat": compat}
    op = ResizeCropMirror(**arguments, crop=(20, 30), crop_pos_x=0.3, mirror=True)
    x = picture("float32")
    wanted = fn.flip(fn.crop(fn.resize(x, **arguments), crop=(20, 30), crop_pos_x=0.3))
    np.testing.assert_allclose(apply(op, x, backend="reference"), wanted, atol=2e-3)
    compare(apply(op, x, backend="cuda", device=emulated), apply(op, x, backend="reference"))


@pytest.mark.parametrize("kind", ["nearest", "linear", "cubic"])
def test_a_convention_holds_in_a_chain(emulated, kind):
    """Where resampling, flipping and cutting out are one kernel."""
    window = {"roi_start": (0.5, 1.25), "roi_end": (20.0, 30.0)}
    steps = (
        Resize(size=(13, 17), interp_type=kind, compat="tf1", **window),
        Flip(),
        Crop(crop=(9, 11), crop_pos_x=0.2),
    )
    x = picture(shape=(41, 33))[None]
    wanted = x
    for step in steps:
        wanted = apply(step, wanted, backend="reference")
    before = emulated.launches
    compare(Chain(*steps)(x, backend="cuda", device=emulated), wanted)
    assert emulated.launches == before + 1


def test_a_convention_moves_pixels_alone():
    x, boxes = picture()[None], np.array([[10.0, 20.0, 40.0, 50.0]])
    plain, other = (
        together(Resize(size=(31, 40), compat=compat))(x, boxes=boxes, mask=x[..., 0] > 99)
        for compat in (None, "tf1")
    )
    assert (plain.boxes == other.boxes).all()
    compare(plain.mask, other.mask)
    assert (plain.image != other.image).any()


def test_conventions_that_a_library_has_not_are_refused():
    for op in (Resize, RandomResizedCrop):
        with pytest.raises(
            ParameterError, match=r"interp_type='area' with compat='pillow'; allowed: 'nearest'"
        ):
            op(size=(4, 4), interp_type="area", compat="pillow")
        with pytest.raises(ParameterError, match=r"antialias=False with compat='pillow'; allowed: True"):
            op(size=(4, 4), antialias=False, compat="pillow")


# ------------------------------------------------------------------------------------------ windows


def pillow(x, size, box, kind=Image.Resampling.BILINEAR):
    planes = [np.asarray(Image.fromarray(x[..., c]).resize(size[::-1], kind, box=box)) for c in range(3)]
    return np.stack(planes, axis=-1)


@pytest.mark.parametrize("relative", [False, True])
def test_a_window_is_resized_as_pillow_does(anywhere, relative):
    x = picture("float32")
    start, end = np.array([3.25, 10.5]), np.array([50.75, 80.0])
    unit = np.array(SHAPE) if relative else 1
    op = Resize(
        size=(23, 40), roi_start=tuple(start / unit), roi_end=tuple(end / unit), roi_relative=relative
    )
    wanted = pillow(x, (23, 40), (10.5, 3.25, 80.0, 50.75))
    np.testing.assert_allclose(anywhere(op, x), wanted, atol=4e-3)


@pytest.mark.parametrize("kind", ["linear", "cubic", "lanczos3", "area"])
@pytest.mark.parametrize(
    ("start", "end"),
    [
        ((-300.0, 20.0), (-200.0, 60.0)),
        ((-90.0, 30.0), (40.0, 65.0)),
        ((10.0, 50.0), (40.0, 250.0)),
        ((300.0, -100.0), (-100.0, 300.0)),
    ],
)
def test_a_window_that_goes_far_beyond_the_images_repeats_their_border(anywhere, kind, start, end):
    """Of pixels beside the images nothing was left, and they were no numbers. Such an axis is as DALI's."""
    x, beside = picture("float32"), 400
    wide = np.pad(x, ((beside, beside), (beside, beside), (0, 0)), mode="edge")
    window = {"size": (12, 9), "interp_type": kind}
    inside = {"roi_start": np.add(start, beside), "roi_end": np.add(end, beside)}
    wanted = fn.resize(wide, **window, **inside)
    np.testing.assert_allclose(anywhere(Resize(**window, roi_start=start, roi_end=end), x), wanted, atol=2e-3)


def test_a_window_upside_down_is_mirrored():
    x = picture("float32")
    plain = fn.resize(x, size=(23, 40), roi_start=(3, 10), roi_end=(50, 80))
    found = fn.resize(x, size=(23, 40), roi_start=(50, 10), roi_end=(3, 80))
    np.testing.assert_allclose(found, plain[::-1], atol=2e-3)
    found = fn.resize(x, size=(23, 40), roi_start=(50, 80), roi_end=(3, 10))
    np.testing.assert_allclose(found, plain[::-1, ::-1], atol=2e-3)


def test_sides_are_in_proportion_to_the_window():
    x = np.zeros((200, 300, 1), np.uint8)
    window = {"roi_start": (20, 30), "roi_end": (120, 230)}
    for arguments, size in (
        ({"resize_shorter": 50}, (50, 100)),
        ({"resize_longer": 50}, (25, 50)),
        ({"resize_x": 50}, (25, 50)),
        ({"resize_x": 50, "mode": "stretch"}, (100, 50)),
        ({"size": (60, 60), "mode": "not_larger"}, (30, 60)),
    ):
        assert fn.resize(x, **arguments, **window).shape[:2] == size


def test_boxes_and_places_follow_the_window():
    x = np.zeros((1, 20, 30, 1), np.uint8)
    moved = together(Resize(size=(10, 40), roi_start=(5, 10), roi_end=(15, 20)))(
        x, boxes=np.array([[10.0, 5.0, 15.0, 10.0]]), points=np.array([[20.0, 15.0]])
    )
    assert moved.boxes.tolist() == [[0, 0, 20, 5]]
    assert moved.points.tolist() == [[40, 10]]


def test_a_window_for_each_frame_and_one_that_is_drawn():
    x = np.stack([picture("float32")] * 3)
    starts, size = np.array([[0.0, 0.0], [5.0, 10.0], [10.0, 20.0]]), np.array([40, 60])
    panned = fn.resize(x, size=(30, 40), roi_start=per_frame(starts), roi_end=per_frame(starts + size))
    for frame, (top, left) in zip(panned, starts, strict=True):
        box = (left, top, left + 60, top + 40)
        np.testing.assert_allclose(frame, pillow(x[0], (30, 40), box), atol=4e-3)
    drawn = Resize(size=(9, 9), roi_start=((0.0, 0.4), (0.0, 0.4)), roi_end=(1.0, 1.0), roi_relative=True)
    assert len({one.tobytes() for one in drawn([x] * 20)}) == 20


def test_a_window_of_nothing_is_refused():
    with pytest.raises(
        ParameterError,
        match=r"resize: a window of rows 5 to 5 and columns 1 to 9; allowed: windows with sides",
    ):
        fn.resize(picture(), size=(4, 4), roi_start=(5, 1), roi_end=(5, 9))
    with pytest.raises(ParameterError, match=r"allowed: windows .* up to 16777216 pixels away"):
        fn.resize(picture(), size=(4, 4), roi_start=(0, 0), roi_end=(1e6, 1e6), roi_relative=True)


def test_the_scale_is_kept_where_a_side_is_rounded(anywhere):
    """Both axes by 40 / 67, around the middle: what lies beyond the border is left out, as by Pillow."""
    x = picture("float32")
    found = anywhere(Resize(resize_y=40, subpixel_scale=True), x)
    assert found.shape == (40, 56, 3)
    beyond = (56 * 67 / 40 - 93) / 2
    wide = np.pad(x, ((0, 0), (5, 5), (0, 0)), mode="edge")
    wanted = pillow(wide, (40, 56), (5 - beyond, 0, 98 + beyond, 67))
    np.testing.assert_allclose(found[:, 4:-4], wanted[:, 4:-4], atol=4e-3)
    compare(anywhere(Resize(size=(40, 56), subpixel_scale=True), x), anywhere(Resize(size=(40, 56)), x))


# ------------------------------------------------------------------------------------------ drawn sizes


def test_a_side_is_drawn_once_for_a_sequence():
    x = np.zeros((3, 20, 30, 1), np.uint8)
    found = fn.resize([x] * 200, resize_shorter=(8, 12), seed=1)
    assert {result.shape for result in found} == {
        (3, 8, 12, 1),
        (3, 9, 14, 1),
        (3, 10, 15, 1),
        (3, 11, 17, 1),
        (3, 12, 18, 1),
    }
    again = fn.resize(x, resize_shorter=(8, 12), seed=1, index=7)
    assert again.shape == found[7].shape
    both = fn.resize([x] * 50, resize_x=(4, 6), resize_y=(7, 9))
    assert {value.shape[1:3] for value in both} == {
        (rows, columns) for rows in (7, 8, 9) for columns in (4, 5, 6)
    }


def test_sides_that_differ_ask_for_a_list():
    x = np.zeros((4, 3, 20, 30, 1), np.uint8)
    with pytest.raises(ParameterError, match=r"results of different sizes, .*Give the samples as a list"):
        fn.resize(x, resize_shorter=np.array([8, 9, 8, 10]))
    found = fn.resize(list(x), resize_shorter=np.array([8, 9, 8, 10]))
    assert [result.shape[1] for result in found] == [8, 9, 8, 10]
    with pytest.raises(
        ParameterError, match=r"resize_shorter asks for a value for each frame; allowed: one for"
    ):
        fn.resize(x, resize_shorter=per_frame((8, 12)))
