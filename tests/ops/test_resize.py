"""Resizing against Pillow, torch and OpenCV, DALI's sizes, and what it does to boxes, points, masks and volumes."""

from __future__ import annotations

import ctypes
import itertools
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps
from scipy import stats

from seqpipe import fn
from seqpipe.core import native as native_module
from seqpipe.errors import ParameterError
from seqpipe.ops import RandomResizedCrop, Resize, ResizeCropMirror, Spec, apply
from seqpipe.ops.core.blocks import constant_of, resolve
from seqpipe.ops.geometry.resampling import ONE, SampledAxis, taps_of
from seqpipe.ops.resize import base
from seqpipe.ops.resize.resize import _CropWindows
from seqpipe.random import BatchGenerator
from tests.support.deep import combined
from tests.support.operators import compare
from tests.support.together import together

PILLOW = {
    "nearest": Image.Resampling.NEAREST,
    "linear": Image.Resampling.BILINEAR,
    "triangular": Image.Resampling.BILINEAR,
    "cubic": Image.Resampling.BICUBIC,
    "lanczos3": Image.Resampling.LANCZOS,
}
LIMITS = {
    "uint8": (0, 255),
    "uint16": (0, 65535),
    "int16": (-32768, 32767),
    "float16": (-9e4, 6e4),
    "float32": (-9e4, 9e4),
}
SIZES = ((37, 53), (200, 211), (9, 250), (1, 1), (46, 71), (91, 35))
SHAPE = (
    91,
    71,
)  # odd: no center lies between two pixels, where Pillow's and OpenCV's nearest are up to rounding


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
    if anywhere.name == "emulated" and np.prod(size) > 2000:
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
def test_torch_agrees(kind, mode, size, torch):
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


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The resampler compiled without wide registers, as for any processor."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_module, "_FLAGS", (*native_module._FLAGS, "-DPLAIN"))
        folder = tmp_path_factory.mktemp("plain")
        library = ctypes.CDLL(str(native_module.compile_library("seqpipe.ops.resize", "resample.c", folder)))
    function = library.seqpipe_resample
    function.restype, function.argtypes = None, (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    return SimpleNamespace(seqpipe_resample=function)


@pytest.fixture(params=["as it is", "no wide registers", "no compiler"])
def native(request, monkeypatch):
    """What resamples on the CPU: compiled for this machine, for any, or not at all."""
    if request.param == "no compiler":
        monkeypatch.setattr(base, "_native", lambda: None)
    elif request.param == "no wide registers":
        library = request.getfixturevalue("plain")
        monkeypatch.setattr(base, "_native", lambda: library)


@pytest.mark.parametrize(("kind", "channels"), combined([*PILLOW, "area", "gaussian"], [3, 1, 4, 5]))
def test_the_fast_form_is_the_reference_to_the_last_bit(native, kind, channels):
    """Of all types, of results of another type, of windows, and of views."""
    random = np.random.default_rng(channels)
    ops_of = [
        Resize(size=(17, 41), interp_type=kind),
        Resize(size=(60, 50), interp_type=kind, antialias=False),
        RandomResizedCrop(size=(20, 30), interp_type=kind, seed=2),
        Resize(size=(9, 12), interp_type=kind, roi_start=(30.5, -8.0), roi_end=(3.0, 70.25)),
    ]
    for dtype in ("uint8", "uint16", "int16", "float16", "float32"):
        x = (
            (random.random((2 if dtype == "uint8" else 1, 37, 53, channels)) * 70000 - 100)
            .clip(*LIMITS[dtype])
            .astype(dtype)
        )
        for op, view in itertools.product(ops_of, (x, x[:, ::-1, 3:], x.transpose(0, 2, 1, 3))):
            compare(apply(op, view), apply(op, view, backend="reference"))
        for made in ("uint8", "int16", "float16", "float32"):
            op = Resize(size=(17, 41), interp_type=kind, dtype=made)
            compare(apply(op, x), apply(op, x, backend="reference"))


def test_what_is_no_number_spoils_what_it_spoils_by_the_reference(native):
    x = np.random.default_rng(0).random((60, 70, 3), np.float32)
    x[0, 0, 1], x[30, 69, 2], x[59, 20, 0] = np.nan, np.inf, -np.inf
    for antialias in (True, False):
        op = Resize(size=(23, 31), antialias=antialias)
        with np.errstate(invalid="ignore"):
            found, wanted = apply(op, x), apply(op, x, backend="reference")
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("level", [0, 7, 255])
def test_one_level_stays_that_level(anywhere, level):
    x = np.full((9, 14, 1), level, np.uint8)
    for kind in (*PILLOW, "area", "gaussian"):
        for antialias in (True, False):
            op = Resize(size=(4, 31), interp_type=kind, antialias=antialias)
            compare(anywhere(op, x), np.full((4, 31, 1), level, np.uint8))


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_the_nearest_pixel_is_where_exact_fractions_say(size, length):
    found = taps_of(SampledAxis.of(0, length / size, "nearest", antialias=True), size, length).indices[0]
    wanted = (2 * np.arange(size, dtype=np.int64) + 1) * length // (2 * size)
    assert (found == wanted).all()


@given(
    st.integers(1, 3000), st.integers(1, 3000), st.sampled_from([*PILLOW, "area", "gaussian"]), st.booleans()
)
def test_no_tap_is_left_out(size, length, kind, antialias):
    """One more on either side would weigh nothing."""
    axis = SampledAxis.of(0, length / size, kind, antialias=antialias)
    if kind == "nearest":
        return
    more = axis._replace(taps=axis.taps + 2, reach=axis.reach + ONE)
    few, many = taps_of(axis, size, length), taps_of(more, size, length)
    # but where a gaussian is cut off, at exp(-4), a place may be on either side of that by its last bit
    np.testing.assert_allclose(few.total, many.total, atol=0.04 if kind == "gaussian" else 1e-5 * axis.taps)


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
    assert fn.resize(np.zeros((375, 500, 1), np.uint8), **arguments).shape == (*size, 1)


@given(st.integers(1, 4000), st.integers(1, 4000), st.integers(1, 4000))
def test_the_side_that_is_asked_for_is_met(height, width, side):
    def sides(**arguments):
        return constant_of(Resize(**arguments), Spec(1, height, width, 1, "uint8")).extent[1:]

    assert min(sides(resize_shorter=side)) == side
    assert max(sides(resize_longer=side)) == side
    assert max(sides(resize_shorter=side, max_size=100)) <= 100


@pytest.mark.parametrize(("length", "side"), [(92, 37), (70, 53), (4, 6), (1365, 1003)])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int32", "int64"])
def test_labels_right_between_two_pixels_are_the_same_everywhere(place, length, side, dtype):
    """By exact fractions; float32 and float64 round to different sides there."""
    x = np.arange(length).astype(dtype).reshape(1, length, 1)
    wanted = x[:, (2 * np.arange(side) + 1) * length // (2 * side)]
    labels = Resize(size=(1, side)).nearest()
    compare(place(labels, x), wanted)
    moved = together(Resize(size=(1, side), interp_type="nearest"))(
        np.zeros((1, length, 3), np.uint8), mask=x[..., 0]
    )
    compare(moved.mask, wanted[..., 0])


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


# ------------------------------------------------------------------------------------------ windows


@pytest.mark.parametrize("kind", ["linear", "cubic"])
def test_resized_cut_out_and_mirrored_as_pillow_does(anywhere, kind):
    x = picture("float32")
    op = ResizeCropMirror(
        resize_shorter=33, crop=(20, 30), crop_pos_x=1.0, crop_pos_y=0.25, mirror=True, interp_type=kind
    )
    whole = pillow(x, (42, 33), kind)  # 91 / 71 * 33 = 42.3
    window = whole[6:26, 3:33]  # (42 - 20) / 4 = 5.5, halves up
    planes = [np.asarray(ImageOps.mirror(Image.fromarray(window[..., c].copy()))) for c in range(3)]
    np.testing.assert_allclose(anywhere(op, x), np.stack(planes, axis=-1), atol=2e-3)


def test_it_is_three_operators_in_one():
    x = picture("float32")
    found = fn.resize_crop_mirror(x, size=(60, 40), crop=(31, 20), crop_pos_y=0.1, mirror=True)
    wanted = fn.flip(fn.crop(fn.resize(x, size=(60, 40)), crop=(31, 20), crop_pos_y=0.1))
    np.testing.assert_allclose(found, wanted, atol=2e-3)
    boxes = np.array([[10.0, 20.0, 40.0, 50.0]])
    moved = together(ResizeCropMirror(size=(60, 40), crop=(31, 20), crop_pos_y=0.1, mirror=True))(
        x, boxes=boxes
    )
    left, top, right, bottom = boxes[0] * np.array([40 / 71, 60 / 91] * 2) - [10, 3, 10, 3]
    np.testing.assert_allclose(moved.boxes, [[20 - right, top, 20 - left, bottom]])


def test_a_window_larger_than_what_is_resized_is_refused():
    with pytest.raises(
        ParameterError, match=r"resize_crop_mirror: crop=\(5, 9\) of images of 8×8 pixels; allowed"
    ):
        fn.resize_crop_mirror(picture(), size=(8, 8), crop=(5, 9))


def windows(op, spec, count):
    block = resolve(op, [spec] * count, 0, range(count))
    return block.rows["window"].astype(int)


@pytest.mark.parametrize("kind", ["linear", "lanczos3"])
def test_windows_are_resampled_as_pillow_does(anywhere, kind):
    x = picture("float32", channels=1)
    op = RandomResizedCrop(size=(24, 32), interp_type=kind, seed=3)
    found = anywhere(op, [x] * 3)
    for result, (left, top, columns, rows) in zip(
        found, windows(op, Spec(1, *x.shape, "float32"), 3), strict=True
    ):
        box = (left, top, left + columns, top + rows)
        wanted = np.asarray(
            Image.fromarray(x[..., 0]).resize((32, 24), PILLOW[kind], box=tuple(map(float, box)))
        )
        np.testing.assert_allclose(result[..., 0], wanted, atol=2e-3)


def published(rng, height, width, area, ratio, attempts=10):
    """Inception's crop, as torchvision documents it: the size of a window, and where it lies."""
    for _ in range(attempts):
        target = rng.uniform(*area) * height * width
        aspect = np.exp(rng.uniform(*np.log(ratio)))
        w, h = round(np.sqrt(target * aspect)), round(np.sqrt(target / aspect))
        if 0 < w <= width and 0 < h <= height:
            return rng.integers(0, width - w + 1), rng.integers(0, height - h + 1), w, h
    return None


@pytest.mark.parametrize("size", [(256, 340), (300, 120)])
def test_windows_have_the_published_distribution(size):
    area, ratio = (0.08, 1.0), (3 / 4, 4 / 3)
    found = windows(RandomResizedCrop(size=(8, 8), seed=1), Spec(1, *size, 3, "uint8"), 2000)
    rng = np.random.default_rng(7)
    drawn = [one for one in (published(rng, *size, area, ratio) for _ in range(4000)) if one is not None]
    theirs = np.array(drawn)
    whole = np.array([result for result in found if result[2] != size[1] and result[3] != size[0]])
    theirs = theirs[(theirs[:, 2] != size[1]) & (theirs[:, 3] != size[0])]
    for ours, wanted in (
        (whole[:, 2] * whole[:, 3], theirs[:, 2] * theirs[:, 3]),
        (whole[:, 2] / whole[:, 3], theirs[:, 2] / theirs[:, 3]),
        (whole[:, 0] / (size[1] - whole[:, 2]), theirs[:, 0] / (size[1] - theirs[:, 2])),
        (whole[:, 1] / (size[0] - whole[:, 3]), theirs[:, 1] / (size[0] - theirs[:, 3])),
    ):
        assert stats.ks_2samp(ours, wanted).pvalue > 1e-3
    assert (found >= 0).all()
    assert (found[:, 0] + found[:, 2] <= size[1]).all()
    assert (found[:, 1] + found[:, 3] <= size[0]).all()


@pytest.mark.parametrize(
    ("size", "window"),
    [((10, 100), (43, 0, 13, 10)), ((100, 10), (0, 43, 10, 13)), ((10, 12), (0, 0, 12, 10))],
)
def test_what_never_fits_is_taken_from_the_middle(size, window):
    """torchvision's and DALI's rule, for ratios of 3 / 4 to 4 / 3: here the window must be as large as the images."""
    op = RandomResizedCrop(size=(4, 4), random_area=(1.0, 1.0), num_attempts=1)
    found = windows(op, Spec(1, *size, 3, "uint8"), 20)
    assert (found == window).all(axis=1).sum() >= 18


def test_windows_of_several_samples_are_those_of_each():
    crops = _CropWindows((0.08, 1.0), (3 / 4, 4 / 3), 10)
    wanted = [crops._one(numbers, 256, 340) for numbers in BatchGenerator(0, "a", 3, range(40)).each(9)]
    np.testing.assert_array_equal(crops.draw(BatchGenerator(0, "a", 3, range(40)), 256, 340, None), wanted)


@pytest.mark.parametrize("dtype", [None, "uint8", "int16", "float32"])
@pytest.mark.parametrize("kind", ["uint8", "uint16", "int16"])
@pytest.mark.parametrize("more", [{}, {"compat": "tf1"}, {"roi_start": (70.5, 3.0), "roi_end": (2.0, 80.0)}])
def test_the_nearest_pixels_of_large_images_are_those_of_the_reference(kind, dtype, more):
    bounds = np.iinfo(kind)
    x = np.random.default_rng(0).integers(bounds.min, bounds.max, (2, 75, 90, 3), kind, endpoint=True)
    for size in ((31, 40), (75, 90), (160, 7)):
        op = Resize(size=size, interp_type="nearest", dtype=dtype, **more)
        compare(apply(op, x), apply(op, x, backend="reference"))


def test_nearest_pixels_take_no_sums(monkeypatch):
    monkeypatch.setattr(base, "resample_cpu", None)  # which made floats of all of the image
    found = fn.resize(picture(shape=(400, 300)), size=(31, 40), interp_type="nearest")
    compare(found, cv2.resize(picture(shape=(400, 300)), (40, 31), interpolation=cv2.INTER_NEAREST_EXACT))


@pytest.mark.parametrize("channels", [1, 3, 4, 5])
@pytest.mark.parametrize(
    "more", [{}, {"roi_start": (20, 12), "roi_end": (260, 304)}, {"compat": "opencv"}], ids=str
)
def test_the_means_of_large_images_are_those_of_the_reference(channels, more):
    x = np.random.default_rng(0).integers(0, 256, (2, 288, 316, channels), np.uint8)
    x[1] = 255 - x[1] // 128
    for size in ((144, 158), (96, 79), (31, 40), (201, 250), (288, 100), (300, 100), (288, 316)):
        op = Resize(size=size, interp_type="area", **more)
        compare(apply(op, x), apply(op, x, backend="reference"))


def test_the_means_of_images_that_shrink_are_those_of_opencv():
    x = picture(shape=(400, 300))
    for size in ((200, 150), (31, 40), (320, 240)):
        found = fn.resize(x, size=size, interp_type="area")
        theirs = cv2.resize(x.astype(np.float32), size[::-1], interpolation=cv2.INTER_AREA)
        compare(found, np.rint(theirs).astype(np.uint8), (1, 0.02))


@pytest.mark.parametrize("kind", ["nearest", "linear", "cubic", "area"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16"])
@pytest.mark.parametrize("result", [None, "uint8", "int16"])
def test_images_that_keep_their_size_are_only_taken_over(monkeypatch, kind, dtype, result):
    monkeypatch.setattr(base, "resample_cpu", None)
    bounds = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(bounds.min, bounds.max, (200, 90, 3), dtype, endpoint=True)
    for op in (
        Resize(size=x.shape[:2], interp_type=kind, dtype=result),
        Resize(size=x.shape[:2], interp_type=kind, dtype=result, antialias=False),
        ResizeCropMirror(size=x.shape[:2], crop=(150, 80), mirror=1, interp_type=kind, dtype=result),
    ):
        compare(apply(op, x), apply(op, x, backend="reference"))
