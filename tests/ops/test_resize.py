"""Resizing against Pillow, torch and OpenCV, DALI's sizes, and what it does to boxes, points, masks and volumes."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from seqpipe import Sequence, fn
from seqpipe.errors import ParameterError
from seqpipe.ops import Resize, Together, apply
from seqpipe.ops._resample import ONE, Axis, taps_of
from tests.support.operators import compare

PILLOW = {
    "nearest": Image.Resampling.NEAREST,
    "linear": Image.Resampling.BILINEAR,
    "triangular": Image.Resampling.BILINEAR,
    "cubic": Image.Resampling.BICUBIC,
    "lanczos3": Image.Resampling.LANCZOS,
}
SIZES = ((37, 53), (200, 211), (9, 250), (1, 1), (46, 71), (91, 35))
SHAPE = (91, 71)  # odd: no centre lies between two pixels, where Pillow's and OpenCV's nearest are up to rounding


def picture(dtype="uint8", channels=3, shape=SHAPE):
    """Noise, and a step at which filters swing over."""
    x = np.random.default_rng(1).integers(0, 256, (*shape, channels))
    x[20:40, 10:50] = 255
    x[40:60, 10:50] = 0
    return x.astype(dtype)


def pillow(x, size, kind):
    """Each channel as Pillow resamples floats, which it rounds nowhere."""
    planes = [
        Image.fromarray(np.float32(x[..., c])).resize(size[::-1], PILLOW[kind]) for c in range(x.shape[2])
    ]
    return np.stack([np.asarray(plane) for plane in planes], axis=-1)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", PILLOW)
def test_pillow_agrees(anywhere, kind, size):
    if anywhere.name == "emulated" and np.prod(size) > 2300:
        pytest.skip("slow there")
    x = picture("float32")
    found = anywhere(Resize(size=size, interp_type=kind), x)
    np.testing.assert_allclose(found, pillow(x, size, kind), atol=2e-3)
    rounded = anywhere(Resize(size=size, interp_type=kind), picture())
    exact = np.clip(pillow(x, size, kind), 0, 255)
    # to the nearest level, and rounded once: Pillow itself rounds between columns and rows, too
    assert (np.abs(rounded - exact) <= 0.502).all()
    if kind not in ("cubic", "lanczos3"):  # what swings over it cuts off between the two, too
        theirs = np.asarray(Image.fromarray(picture()).resize(size[::-1], PILLOW[kind]), np.float32)
        assert np.abs(rounded - theirs).max() <= 1


@pytest.mark.parametrize("size", SIZES[:3], ids=str)
@pytest.mark.parametrize(("kind", "mode"), [("linear", "bilinear"), ("cubic", "bicubic")])
def test_torch_agrees(kind, mode, size):
    torch = pytest.importorskip("torch")
    x = picture("float32")
    planes = torch.from_numpy(x).permute(2, 0, 1)[None]
    wanted = torch.nn.functional.interpolate(planes, size, mode=mode, antialias=True)[0].permute(1, 2, 0)
    np.testing.assert_allclose(fn.resize(x, size=size, interp_type=kind), wanted.numpy(), atol=1e-2)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(
    ("kind", "code"), [("linear", cv2.INTER_LINEAR), ("nearest", cv2.INTER_NEAREST_EXACT)]
)
def test_opencv_agrees_without_antialias(anywhere, kind, code, size):
    x = picture("float32")
    found = anywhere(Resize(size=size, interp_type=kind, antialias=False), x)
    np.testing.assert_allclose(found, cv2.resize(x, size[::-1], interpolation=code), atol=1e-3)
    bytes_ = anywhere(Resize(size=size, interp_type=kind, antialias=False), picture())
    theirs = cv2.resize(picture(), size[::-1], interpolation=code)
    assert np.abs(bytes_.astype(int) - theirs).max() <= 1


@pytest.mark.parametrize("size", [(37, 53), (23, 35), (91, 7), (1, 1)], ids=str)
def test_area_is_that_of_opencv(anywhere, size):
    x = picture("float32")
    found = anywhere(Resize(size=size, interp_type="area"), x)
    np.testing.assert_allclose(found, cv2.resize(x, size[::-1], interpolation=cv2.INTER_AREA), atol=1e-3)


def test_gaussian_is_that_of_dali(anywhere):
    """What its 2.4.0 makes of one bright pixel among 24, and among 6."""
    x = np.zeros((1, 24, 1), np.float32)
    x[0, 12] = 1
    found = anywhere(Resize(size=(1, 6), interp_type="gaussian"), x).ravel()
    np.testing.assert_allclose(found, [0, 0, 0.0594, 0.1614, 0, 0], atol=1e-4)
    x = np.zeros((1, 6, 1), np.float32)
    x[0, 3] = 1
    found = anywhere(Resize(size=(1, 24), interp_type="gaussian"), x).ravel()[10:18]
    np.testing.assert_allclose(
        found, [0.0474, 0.2689, 0.7311, 0.9526, 0.9526, 0.7311, 0.2689, 0.0474], atol=1e-4
    )


@pytest.mark.parametrize("kind", [*PILLOW, "area", "gaussian"])
def test_kernels_are_the_reference_to_the_last_bit(emulated, kind):
    x = picture("float32")[:50, :40]
    for size in ((31, 23), (50, 81)):
        for antialias in (True, False):
            op = Resize(size=size, interp_type=kind, antialias=antialias)
            compare(apply(op, x, backend="cuda", device=emulated), apply(op, x, backend="reference"))


@pytest.mark.parametrize("kind", [*PILLOW, "area", "gaussian"])
def test_the_fast_form_rounds_halves_otherwise_at_most(kind):
    x = picture(shape=(220, 250))
    for size in ((101, 117), (330, 260)):
        op = Resize(size=size, interp_type=kind)
        compare(apply(op, x), apply(op, x, backend="reference"), (1, 0.01))


@pytest.mark.parametrize("level", [0, 7, 255])
def test_one_level_stays_that_level(anywhere, level):
    x = np.full((9, 14, 1), level, np.uint8)
    for kind in (*PILLOW, "area", "gaussian"):
        for antialias in (True, False):
            op = Resize(size=(4, 31), interp_type=kind, antialias=antialias)
            compare(anywhere(op, x), np.full((4, 31, 1), level, np.uint8))


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_the_nearest_pixel_is_where_exact_fractions_say(size, length):
    found = taps_of(Axis.of(0, length / size, "nearest", antialias=True), size, length).places[0]
    wanted = (2 * np.arange(size, dtype=np.int64) + 1) * length // (2 * size)
    assert (found == wanted).all()


@given(
    st.integers(1, 3000), st.integers(1, 3000), st.sampled_from([*PILLOW, "area", "gaussian"]), st.booleans()
)
def test_no_tap_is_left_out(size, length, kind, antialias):
    """One more on either side would weigh nothing."""
    axis = Axis.of(0, length / size, kind, antialias=antialias)
    if kind == "nearest":
        return
    more = axis._replace(taps=axis.taps + 2, reach=axis.reach + ONE)
    few, many = taps_of(axis, size, length), taps_of(more, size, length)
    np.testing.assert_allclose(few.total, many.total, atol=1e-5 * axis.taps)


# sizes that DALI 2.4.0 gives for images of 375 rows and 500 columns
DALI = [
    ({"resize_shorter": 256}, (256, 341)),
    ({"resize_longer": 256}, (192, 256)),
    ({"resize_x": 200}, (150, 200)),
    ({"resize_y": 100}, (100, 133)),
    ({"size": (100, 300), "mode": "not_larger"}, (100, 133)),
    ({"size": (100, 300), "mode": "not_smaller"}, (225, 300)),
    ({"resize_x": 200, "mode": "stretch"}, (375, 200)),
    ({"size": (100, 0), "mode": "stretch"}, (100, 500)),
    ({"size": (0, 100)}, (75, 100)),
    ({"resize_shorter": 256, "max_size": 300}, (225, 300)),
    ({"size": (400, 400), "mode": "not_smaller", "max_size": 500}, (375, 500)),
    ({"resize_x": 200, "resize_y": 100, "mode": "not_larger"}, (100, 133)),
    ({"resize_x": 700, "max_size": 600}, (525, 600)),
    ({"size": (600, 600), "max_size": 400, "mode": "not_smaller"}, (300, 400)),
    ({"size": (600, 600), "max_size": 400, "mode": "not_larger"}, (300, 400)),
    ({"resize_x": 1}, (1, 1)),
]


@pytest.mark.parametrize(("arguments", "size"), DALI, ids=lambda value: str(value))
def test_sizes_are_those_of_dali(arguments, size):
    assert Resize(**arguments).size_of(375, 500) == size
    assert fn.resize(np.zeros((375, 500, 1), np.uint8), **arguments).shape == (*size, 1)


@given(st.integers(1, 4000), st.integers(1, 4000), st.integers(1, 4000))
def test_the_side_that_is_asked_for_is_met(height, width, side):
    assert min(Resize(resize_shorter=side).size_of(height, width)) == side
    assert max(Resize(resize_longer=side).size_of(height, width)) == side
    assert max(Resize(resize_shorter=side, max_size=100).size_of(height, width)) <= max(100, 1)


def test_what_belongs_to_images_moves_along():
    x = np.zeros((3, 20, 30, 1), np.uint8)
    x[:, 4:8, 10:20] = 200
    found = Together(Resize(size=(40, 45), interp_type="nearest"))(
        x,
        mask=x[..., 0] > 0,
        boxes=np.array([[10.0, 4.0, 20.0, 8.0]]),
        points=np.array([[30.0, 20.0], [0.5, 0.5]]),
    )
    assert found.boxes.tolist() == [[15, 8, 30, 16]]
    assert found.points.tolist() == [[45, 40], [0.75, 1]]
    rows, columns = np.nonzero(found.image[0, ..., 0])
    assert [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1] == [15, 8, 30, 16]
    compare(found.mask, found.image[..., 0] > 0)


def test_a_volume_stays_where_it_was():
    space = np.array([[0, 0, 2.0, -7], [0, 1.5, 0, 3], [3, 0, 0, 11], [0, 0, 0, 1]])
    volume = Sequence(np.zeros((4, 10, 12), np.int16), "DHW", affine=space)
    found = fn.resize(volume, size=(5, 24))
    # the corner of the first voxel, and that of the last
    np.testing.assert_allclose(found.affine @ [0, -0.5, -0.5, 1], space @ [0, -0.5, -0.5, 1])
    np.testing.assert_allclose(found.affine @ [0, 4.5, 23.5, 1], space @ [0, 9.5, 11.5, 1])


def test_types_of_results():
    x = picture()
    found = fn.resize(x, size=(30, 31), dtype="float32")
    assert found.dtype == np.float32
    assert (np.abs(found - np.rint(found)) > 0.1).any()
    compare(fn.resize(x, size=(30, 31)), np.clip(np.rint(found), 0, 255).astype(np.uint8))
    deep = fn.resize(x.astype(np.uint16) * 257, size=(30, 31), interp_type="cubic")
    assert deep.max() == 65535


def test_sizes_that_make_no_sense_are_refused():
    for arguments in ({"size": (0, 0)}, {}, {"max_size": 7}):
        with pytest.raises(ParameterError, match=r"resize: no size is given; allowed: one of size"):
            Resize(**arguments)
    for arguments in ({"size": (-1, 4)}, {"size": (4.5, 4)}, {"size": 4}, {"resize_longer": np.nan}):
        with pytest.raises(ParameterError, match=r"resize: (size|resize_longer)=.*allowed: .*a whole number"):
            Resize(**arguments)
