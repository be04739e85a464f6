"""The kernel that resamples: every way in which it cuts its work, and every arrangement of what it reads."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe import ops
from seqpipe.array import to_numpy
from seqpipe.ops import apply
from tests.support.deep import combined

SIZES = {
    "shrunk": ((37, 61), (9, 13)),
    "shrunk to one": ((23, 40), (1, 1)),
    "of one": ((1, 1), (5, 7)),
    "enlarged": ((5, 6), (21, 19)),
    "several tiles": ((12, 90), (19, 300)),
    "a warp that has few columns": ((9, 120), (5, 148)),
    "a tile of one column": ((9, 300), (5, 257)),
    "a tile of three columns": ((9, 400), (5, 259)),
    "a column that is all there is": ((9, 90), (3, 1)),
    "several parts of a tile": ((3, 5000), (2, 260)),
    "more weights than there is room for": ((2, 4300), (2, 2)),
    "more columns than there is room for": ((2, 9000), (2, 1)),
    "more rows than there is room for": ((1300, 2), (2, 3)),
}


@pytest.fixture(params=["emulated", pytest.param("gpu", marks=pytest.mark.gpu)])
def resized(request):
    """Runs an operator on a device, on arrays of main memory."""

    def run(op, x, **options):
        if request.param == "emulated":
            device = request.getfixturevalue("emulated")
            return apply(op, x, backend="cuda", device=device, **options)
        return to_numpy(apply(op, on_a_gpu(x), **options))

    return run


def on_a_gpu(x):
    """The same memory there, not only the same values."""
    import cupy

    whole = x if x.base is None else x.base
    there = cupy.asarray(whole)
    begin = there.data + (x.ctypes.data - whole.ctypes.data)
    return cupy.ndarray(x.shape, x.dtype, begin, strides=x.strides)


def values(shape, dtype="uint8"):
    random = np.random.default_rng(1)
    if np.dtype(dtype).kind == "f":
        return random.normal(0.5, 1, shape).astype(dtype)
    return random.integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("channels", [1, 3, 4, 5])
def test_however_its_work_is_cut_the_result_is_that_of_the_reference(resized, name, channels):
    before, after = SIZES[name]
    if channels > 3 and name not in ("shrunk", "several parts of a tile"):
        pytest.skip("two sizes are enough for many channels")
    x, op = values((*before, channels)), ops.Resize(size=after)
    np.testing.assert_array_equal(resized(op, x), apply(op, x, backend="reference"))


@pytest.mark.parametrize("interp_type", ["nearest", "linear", "cubic", "lanczos3", "gaussian", "area"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float16", "float32"])
def test_every_filter_and_type(resized, interp_type, dtype):
    x, op = values((31, 29, 3), dtype), ops.Resize(size=(8, 40), interp_type=interp_type)
    np.testing.assert_array_equal(resized(op, x), apply(op, x, backend="reference"))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # infinity times 0
@pytest.mark.parametrize(
    ("interp_type", "dtype", "after"),
    combined(
        ["linear", "cubic", "lanczos3", "gaussian", "area"],
        ["float16", "float32"],
        [(8, 40), (21, 20), (60, 70), (3, 4)],
    ),
)
def test_what_is_no_number_spoils_the_same_pixels(resized, interp_type, dtype, after):
    """Also near each border, where taps are cut off, and where the weight is 0."""
    for place in ((0, 0), (0, 14), (15, 0), (15, 28), (30, 14), (30, 28), (15, 14), (1, 1), (29, 27)):
        x, op = values((31, 29, 3), dtype), ops.Resize(size=after, interp_type=interp_type)
        x[place] = np.nan, np.inf, -np.inf
        wanted = apply(op, x, backend="reference")
        assert np.isnan(wanted).any()
        np.testing.assert_array_equal(resized(op, x), wanted)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # what is far outside has no weight at all
@pytest.mark.parametrize(
    ("after", "interp_type", "antialias"),
    combined(
        [(24, 32), (40, 64), (70, 96), (9, 24), (8, 12)],
        ["linear", "cubic", "nearest", "area"],
        [True, False],
    ),
)
def test_few_taps_that_are_known_beforehand(resized, antialias, interp_type, after):
    """Widths that are whole words, and others; windows that begin anywhere, so that taps lie beyond each border."""
    x = values((26, 36, 3))
    for size in (after, (after[0] - 1, after[1] - 3)):
        for window in ((0.5, 1.25, 25.0, 30.5), (20.0, 36.25, -0.25, 1.0), (-3.0, 20.0, 9.0, 45.0)):
            op = ops.Resize(
                size=size,
                interp_type=interp_type,
                antialias=antialias,
                roi_start=window[:2],
                roi_end=window[2:],
            )
            np.testing.assert_array_equal(resized(op, x), apply(op, x, backend="reference"))


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_images_that_are_smaller_than_a_filter(resized, channels):
    for before, after in (((2, 3), (1, 1)), ((1, 2), (4, 8)), ((3, 2), (2, 4)), ((4, 9), (3, 2))):
        for interp_type in ("linear", "cubic", "lanczos3"):
            x, op = values((*before, channels)), ops.Resize(size=after, interp_type=interp_type)
            np.testing.assert_array_equal(resized(op, x), apply(op, x, backend="reference"))


def windows():
    """Memory whose rows begin anywhere, and lie in any order."""
    wide = values((24, 44, 3))
    yield "rows of odd length", np.ascontiguousarray(wide[:, :43])
    for left in range(4):
        yield f"a window {left} pixels from the left", wide[3:20, left : left + 31]
    yield "upside down", wide[::-1]
    yield "mirrored", wide[:, ::-1]
    yield "every other column", wide[:, ::2]
    yield "channels the other way", wide[..., ::-1]
    yield "some channels", wide[..., :2]


@pytest.mark.parametrize("x", [pytest.param(x, id=name) for name, x in windows()])
@pytest.mark.parametrize("mirror", [False, True])
def test_memory_of_every_arrangement(resized, x, mirror):
    op = ops.ResizeCropMirror(size=(9, 14), crop=(7, 12), mirror=mirror)
    np.testing.assert_array_equal(resized(op, x), apply(op, x, backend="reference"))


@pytest.mark.parametrize("layout", ["CHW", "FCHW", "NFCHW", "FHW"])
def test_channels_that_lie_apart(resized, layout):
    lengths = dict(zip("NFHWC", (2, 3, 21, 34, 3), strict=True))
    x = values(tuple(lengths[letter] for letter in layout))
    op = ops.Resize(size=(6, 9))
    wanted = apply(op, x, layout=layout, backend="reference")
    np.testing.assert_array_equal(resized(op, x, layout=layout), wanted)
