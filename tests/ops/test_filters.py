"""Filters against SciPy and OpenCV in float64, at every border and from images smaller than the window on."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from scipy import ndimage

from seqpipe import fn
from seqpipe.errors import ParameterError
from seqpipe.ops import (
    BoxBlur,
    Choice,
    Filter,
    GaussianBlur,
    Laplacian,
    MedianBlur,
    Op,
    Sharpen,
    apply,
    per_frame,
)
from seqpipe.ops.core.blocks import constant_of
from seqpipe.ops.core.spec import Spec
from tests.support.deep import combined
from tests.support.operators import compare

SCIPY = {
    "reflect": "mirror",
    "symmetric": "reflect",
    "edge": "nearest",
    "wrap": "grid-wrap",
    "constant": "constant",
}
BORDERS = pytest.mark.parametrize("border", SCIPY)
SIZES = [(37, 41), (4, 70), (1, 5)]


@pytest.fixture(params=["reference", None], ids=["reference", "cpu"])
def host(request):
    """Both forms on the CPU; kernels are compared with the first of them, to the last bit."""
    return lambda op, x: apply(op, x, backend=request.param)


def image(size, dtype="uint8", seed=0):
    found = np.random.default_rng(seed).integers(0, 256, (*size, 3))
    return (found / 255 if dtype == "float32" else found).astype(dtype)


def each_channel(judge, x):
    return np.stack([judge(x[..., c].astype(np.float64)) for c in range(x.shape[-1])], axis=-1)


def assert_close(found, wanted, epsilon=2e-5):
    """Whole numbers are the rounded ones but where those lie at a half; floats differ by what float32 loses."""
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=0, atol=epsilon)
        return
    info = np.iinfo(found.dtype)
    wanted = wanted.clip(info.min, info.max)
    assert np.abs(found - wanted).max() <= 0.5 + epsilon * 255


@BORDERS
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_gaussian_blur_is_scipys(host, border, dtype):
    """Bytes of small windows as floats here, for bytes of them are in fixed point: test_gaussian.py."""
    for size in SIZES:
        x = image(size, dtype)
        for sigma, window in ((1.3, 0), (0.8, 5), (4.0, 0)):
            radius = window // 2 or int(np.ceil(3 * sigma))
            result = dtype if radius > 8 else "float32"
            op = GaussianBlur(sigma=sigma, window_size=window, pad_mode=border, fill_value=0.5, dtype=result)
            fill = np.rint(0.5) if dtype == "uint8" else 0.5
            wanted = each_channel(
                lambda c, s=sigma, r=radius, f=fill: ndimage.gaussian_filter(
                    c, s, mode=SCIPY[border], cval=f, radius=r
                ),
                x,
            )
            assert_close(
                host(op, x), wanted, epsilon=2e-5 * (255 if (dtype, result) == ("uint8", "float32") else 1)
            )


@pytest.mark.parametrize("window", [3, 5, 7, 31])
def test_gaussian_blur_follows_from_its_window_as_in_opencv(host, window):
    """OpenCV, too, has sigma = 0.3 ((window - 1) / 2 - 1) + 0.8, and has tables for the smallest windows."""
    x = image((37, 41), "float32")
    sigma = 0.3 * ((window - 1) * 0.5 - 1) + 0.8
    wanted = cv2.GaussianBlur(
        x.astype(np.float64), (window, window), sigma, borderType=cv2.BORDER_REFLECT_101
    )
    assert_close(host(GaussianBlur(window_size=window), x), wanted)


def test_a_gaussian_of_an_impulse_is_the_published_formula():
    x = np.zeros((31, 31), np.float32)
    x[15, 15] = 1
    found = fn.gaussian_blur(x, sigma=2.0)
    weights = np.exp(-(np.arange(-6, 7) ** 2) / 8)
    weights /= weights.sum()
    np.testing.assert_allclose(found[9:22, 9:22], np.outer(weights, weights), atol=1e-8)
    assert not found[:9].any()


@BORDERS
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_box_blur_is_scipys(host, border, dtype):
    for size in SIZES:
        x = image(size, dtype)
        for window in (2, 3, 4, 9):
            wanted = each_channel(
                lambda c, w=window: ndimage.uniform_filter(c, w, mode=SCIPY[border], cval=7.0), x
            )
            assert_close(host(BoxBlur(window_size=window, pad_mode=border, fill_value=7.0), x), wanted)


def test_means_of_eight_bits_are_rounded_once_half_to_even(host):
    x = image((40, 30))
    total = each_channel(
        lambda c: ndimage.correlate(c, np.ones((4, 4)), mode="mirror"), x
    )  # whole numbers, so that a sixteenth of them is exact
    compare(host(BoxBlur(window_size=4), x), np.rint(total / 16).astype(np.uint8))
    assert (total % 16 == 8).sum() > 50


@BORDERS
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32"])
def test_median_blur_is_scipys_to_the_last_bit(host, border, dtype):
    for size in SIZES:
        x = image(size, dtype) - (100 if dtype == "int16" else 0)
        for window in (2, 3, 4, 5, 7, 9):
            op = MedianBlur(window_size=window, pad_mode=border, fill_value=9.0)
            wanted = each_channel(
                lambda c, w=window: ndimage.median_filter(
                    c, w, mode=SCIPY[border].removeprefix("grid-"), cval=9.0
                ),
                x,
            )
            compare(host(op, x), wanted.astype(dtype))


@pytest.mark.parametrize(
    ("window", "smoothing", "aperture"), [(3, 1, 1), (3, None, 3), (5, 5, 5), (7, None, 7)]
)
def test_laplacian_is_opencvs(host, window, smoothing, aperture):
    x = image((37, 41), "float32")
    wanted = cv2.Laplacian(
        x.astype(np.float64), cv2.CV_64F, ksize=aperture, borderType=cv2.BORDER_REFLECT_101
    )
    op = Laplacian(window_size=window, smoothing_size=smoothing, scale=0.5)
    assert_close(host(op, x), wanted * 0.5, epsilon=2e-7 * 4.0 ** (window - 1))
    power = 2.0 ** (4 - window - (smoothing or window))
    op = Laplacian(window_size=window, smoothing_size=smoothing, normalized_kernel=True)
    assert_close(host(op, x), wanted * power, epsilon=1e-5)


@BORDERS
def test_the_smallest_laplacian_is_scipys_and_exact(host, border):
    x = image((20, 33))
    wanted = each_channel(lambda c: ndimage.laplace(c, mode=SCIPY[border], cval=3.0), x)
    op = Laplacian(smoothing_size=1, pad_mode=border, fill_value=3.0)
    compare(host(op, x), wanted.clip(0, 255).astype(np.uint8))
    compare(
        host(Laplacian(smoothing_size=1, pad_mode=border, fill_value=3.0, dtype="int16"), x),
        wanted.astype("i2"),
    )


@BORDERS
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_filter_is_scipys_correlation(host, border, dtype):
    rng = np.random.default_rng(3)
    for size in SIZES:
        x = image(size, dtype)
        for shape, anchor in (((3, 5), None), ((4, 2), None), ((3, 4), (0, 3)), ((13, 11), (12, 2))):
            kernel = rng.normal(size=shape).astype(np.float32) / 4
            origin = [0, 0] if anchor is None else [a - n // 2 for a, n in zip(anchor, shape, strict=True)]
            wanted = each_channel(
                lambda c, k=kernel, o=origin: ndimage.correlate(
                    c, k.astype(np.float64), mode=SCIPY[border].removeprefix("grid-"), cval=3.0, origin=o
                ),
                x,
            )
            op = Filter(kernel=kernel, anchor=anchor, pad_mode=border, fill_value=3.0)
            assert_close(host(op, x), wanted)


@pytest.mark.parametrize("kernel", [((1, 2),), [[1, 2]], np.array([[1, 2]]), np.array([[1, 2]], np.float32)])
def test_a_kernel_may_be_given_as_any_rows(kernel):
    assert Filter(kernel=kernel) == Filter(kernel=((1.0, 2.0),))
    assert Op.from_json(Filter(kernel=kernel).to_json()) == Filter(kernel=kernel)


@pytest.mark.parametrize(
    "kernel", [(), ((),), 1.0, "wide", None, [[1.0, np.nan]], [[1], [1, 2]], np.ones((1, 1, 1))]
)
def test_what_is_no_kernel_is_refused(kernel):
    with pytest.raises(ParameterError, match=r"filter: kernel=.* is not valid; allowed: "):
        Filter(kernel=kernel)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_sharpen_adds_what_a_gaussian_takes(host, dtype):
    x = image((37, 41), dtype)
    for amount, sigma in ((1.0, 1.0) if dtype == "float32" else (1.6, 1.0), (2.5, 0.6)):
        blurred = each_channel(
            lambda c, s=sigma: ndimage.gaussian_filter(c, s, mode="mirror", radius=int(np.ceil(3 * s))), x
        )
        assert_close(host(Sharpen(amount=amount, sigma=sigma), x), x + amount * (x - blurred))


def test_kernels_give_the_references_bits(emulated):
    """Where the widest windows reach from one tile over others and beyond the border."""
    x = image((70, 45))
    for op in (GaussianBlur(sigma=21.0, dtype="float32"), BoxBlur(window_size=126), Sharpen(pad_mode="wrap")):
        compare(apply(op, x, backend="cuda", device=emulated), apply(op, x, backend="reference"))


@pytest.mark.parametrize(("dtype", "channels"), combined(["uint8", "int16", "float32"], [1, 3, 4, 5]))
def test_windows_reach_from_tile_to_tile(place, channels, dtype):
    """Of 32 by 32 pixels on a GPU, and beyond the border; with windows that do and that do not fit into its memory."""
    rng = np.random.default_rng(channels)
    x = (rng.normal(0, 90, (35, 33, channels)) + 100 * (dtype == "uint8")).clip(-300, 255).astype(dtype)
    wide = tuple(rng.normal(0, 0.1, 30).tolist())
    small = tuple(map(tuple, rng.normal(0, 0.3, (4, 7)).tolist()))
    for op in (
        MedianBlur(window_size=3, pad_mode="wrap"),
        MedianBlur(window_size=4, pad_mode="symmetric"),
        Filter(kernel=(wide,), pad_mode="constant", fill_value=7.0),
        Filter(kernel=small, anchor=(3, 1), pad_mode="edge"),
    ):
        compare(place(op, x), apply(op, x, backend="reference"), place.tolerance(op))


@pytest.mark.parametrize("size", [4, (3, 5), Choice([3, 4]), [3, 4], per_frame([3, 4]), per_frame((1, 7))])
def test_windows_that_may_be_even_are_refused_before_one_is_drawn(size):
    with pytest.raises(
        ParameterError, match=r"gaussian_blur: window_size=[24] is not valid; allowed: odd numbers, or 0"
    ):
        GaussianBlur(window_size=size)
    for odd in (0, 7, (5, 5), Choice([0, 3]), [3, 5], per_frame([1, 9])):
        GaussianBlur(window_size=odd, sigma=1.0)


def test_windows_of_a_laplacian_are_odd():
    for name in ("window_size", "smoothing_size"):
        with pytest.raises(ParameterError, match=rf"laplacian: {name}=6 is not valid; allowed: odd numbers"):
            Laplacian(**{name: 6})


@pytest.mark.parametrize(
    "op",
    [
        *(GaussianBlur(sigma=sigma) for sigma in (0.4, 1.0, 1.7, 4.0)),
        GaussianBlur(sigma=9.3, window_size=127),
        GaussianBlur(window_size=7),
        BoxBlur(window_size=4),
        Sharpen(),
        Laplacian(),
        Laplacian(smoothing_size=1),
    ],
    ids=repr,
)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_weights_are_the_same_from_either_end(op, dtype):
    """Kernels make each product once for both."""
    for term in op.weights(constant_of(op, Spec(1, 8, 8, 3, dtype)).p):
        for one in term:
            assert one.tobytes() == one[::-1].tobytes()


def test_means_by_two_corrections_are_exact():
    """As mean.cuh makes them of bytes: a fused product and sum is one in float64 where that holds it."""
    for window in (2, 3, 4, 5, 7, 12, 31, 127):
        area = np.float32(window * window)
        share, total = 1 / area, np.arange(255 * window * window + 1, dtype=np.float32)
        about = (total * share).astype(np.float64)
        left = (total - about * area).astype(np.float32)
        np.testing.assert_array_equal(
            (left.astype(np.float64) * share + about).astype(np.float32), total / area
        )


@pytest.mark.parametrize(("border", "channels"), [*((border, 3) for border in SCIPY), ("wrap", 1)])
def test_strips_reach_over_one_another(emulated, border, channels):
    """Of 128 values and a few lines on a GPU, in whole words; what is beyond the border is put in value by value."""
    x = np.random.default_rng(channels).integers(0, 256, (70, 72, channels), dtype=np.uint8)
    small = tuple(map(tuple, np.random.default_rng(1).normal(0, 0.3, (3, 3)).tolist()))
    for op in (
        GaussianBlur(sigma=1.2, pad_mode=border, fill_value=9.0),
        BoxBlur(pad_mode=border, fill_value=200.0, dtype="float32"),
        Laplacian(smoothing_size=1, pad_mode=border, dtype="int16"),
        Filter(kernel=small, pad_mode=border, fill_value=77.0),
        MedianBlur(pad_mode=border, fill_value=100.0),
    ):
        compare(apply(op, x, backend="cuda", device=emulated), apply(op, x, backend="reference"))


@pytest.mark.parametrize("dtype", ["uint16", "int16", "float16"])
def test_strips_hold_every_type(emulated, dtype):
    x = (
        np.random.default_rng(2)
        .integers(-300, 900, (20, 44, 3))
        .clip(0 if dtype[0] == "u" else None)
        .astype(dtype)
    )
    for op in (
        GaussianBlur(sigma=0.9, pad_mode="constant", fill_value=0.3),
        Sharpen(),
        BoxBlur(window_size=5),
        MedianBlur(),
    ):
        compare(apply(op, x, backend="cuda", device=emulated), apply(op, x, backend="reference"))


def test_images_of_one_call_may_need_different_kernels(place):
    """With short ways, with a long one, and those that stay as they are."""
    x = np.stack([image((40, 44), seed=k) for k in range(6)])
    for op in (
        GaussianBlur(sigma=per_frame([0.2, 0.6, 0.9, 1.2, 1.6, 2.4])),
        BoxBlur(window_size=per_frame([1, 2, 3, 5, 7, 9])),
        MedianBlur(window_size=per_frame([1, 2, 3, 3, 4, 5])),
    ):
        compare(place(op, x), apply(op, x, backend="reference"), place.tolerance(op))


def test_weights_may_be_as_large_as_floats_are(place):
    x = image((8, 12))
    op = Filter(kernel=((0, 0, 0), (0, 1e35, -1e35), (0, 0, 0)))
    compare(place(op, x), apply(op, x, backend="reference"), place.tolerance(op))


@pytest.mark.parametrize(
    "op",
    [
        Sharpen(amount=100.0, sigma=0.4),
        Laplacian(window_size=23, dtype="uint8"),
        Laplacian(window_size=11, scale=1 / 256),
        Filter(kernel=((-300.3, 100.1, 200.4),)),
        Filter(kernel=((-1.0, 0.0, 1.0), (-2.0, 0.0, 2.0), (-1.0, 0.0, 1.0))),
        GaussianBlur(sigma=2.0),
    ],
    ids=repr,
)
def test_sums_of_levels_that_grow_are_as_near_as_others(op):
    """By the tolerance of the fast form, for 16 bits: the last bits of sums must not become levels."""
    x = np.random.default_rng(0).integers(20000, 20016, (2, 60, 70, 3), dtype=np.int16)
    found, wanted = (apply(op, x, layout="FHWC", backend=backend) for backend in ("cpu", "reference"))
    compare(found, wanted, op.traits.cpu_tolerance)
