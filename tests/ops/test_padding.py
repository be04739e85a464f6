"""Pad, paste and slice against NumPy's own padding and slices, and what DALI 2.4.0 gave on a CPU."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqpipe import Batch, Sequence, fn
from seqpipe.core.padding import FILL_MODES
from seqpipe.errors import ParameterError
from seqpipe.ops import Crop, Pad, Paste, Slice
from seqpipe.ops.core.spec import MOVED_DTYPES
from tests.support.operators import compare, images

X = np.arange(1, 13, dtype=np.uint8).reshape(3, 4, 1)
Y = np.arange(1, 11, dtype=np.uint8).reshape(5, 2, 1)


def padded(x, top, bottom, left, right, mode="constant"):
    return np.pad(x, ((top, bottom), (left, right), (0, 0)), mode)


# ------------------------------------------------------------------------------------------ pad


@pytest.mark.parametrize("mode", FILL_MODES)
def test_what_lies_beyond_is_what_numpy_pads_with(anywhere, mode):
    x = images(Pad, "uint16", "HWC", size=(4, 6))
    for rows, columns, place in ((5, 6, 0.0), (9, 9, 1.0), (23, 31, 0.5)):
        top, left = (int((n - old) * place + 0.5) for n, old in ((rows, 4), (columns, 6)))
        op = Pad(shape=(rows, columns), pad_mode=mode, pad_pos_x=place, pad_pos_y=place)
        wanted = padded(x, top, rows - 4 - top, left, columns - 6 - left, mode)
        compare(anywhere(op, x), wanted)


@pytest.mark.parametrize("mode", FILL_MODES)
def test_a_border_of_one_pixel_has_something_beyond_it(anywhere, mode):
    x = np.array([[[5], [6]]], np.uint8)
    op = Pad(shape=(4, 2), pad_mode=mode, pad_pos_y=0.5)
    compare(anywhere(op, x), padded(x, 2, 1, 0, 0, mode))


# arguments, and the sizes that DALI 2.4 gave to X and Y
SIZES = [
    ({"axis_names": "HW"}, (5, 4), (5, 4)),
    ({"align": (4, 4)}, (8, 4), (8, 4)),
    ({"align": 4, "shape": (1, -1)}, (4, 4), (8, 4)),
    ({"axis_names": "WH", "shape": (-1, 6)}, (6, 4), (6, 4)),
    ({"shape": (2, 5)}, (3, 5), (5, 5)),
    ({"axis_names": "W"}, (3, 4), (5, 4)),
]


@pytest.mark.parametrize(("arguments", "first", "second"), SIZES, ids=str)
def test_images_that_are_given_together_become_as_large_as_dali_makes_them(
    anywhere, arguments, first, second
):
    found = anywhere(Pad(fill_value=9, **arguments), [X, Y])
    for x, size, one in ((X, first, found[0]), (Y, second, found[1])):
        wanted = np.full((*size, 1), 9, np.uint8)
        wanted[: x.shape[0], : x.shape[1]] = x
        compare(one, wanted)


def test_a_batch_of_different_sizes_is_stacked_when_padded():
    parts = [
        Sequence(np.full((2, h, w, 3), n, np.uint8)) for n, (h, w) in enumerate([(4, 7), (6, 5), (2, 2)])
    ]
    batch = Batch.of(parts, labels=[5, 6, 7])
    assert batch.stacked is None
    found = fn.pad(batch, fill_value=99)
    assert found.shape == (3, 2, 6, 7, 3)
    assert found.labels.tolist() == [5, 6, 7]
    assert [(one == n).sum() for n, one in enumerate(found.numpy())] == [
        2 * h * w * 3 for h, w in [(4, 7), (6, 5), (2, 2)]
    ]


def test_a_crop_takes_padding_back(anywhere):
    x = images(Pad, "uint8", "FHWC")
    for place in (0.0, 0.3, 0.5, 1.0):
        large = anywhere(Pad(shape=(10, 16), pad_mode="wrap", pad_pos_x=place, pad_pos_y=place), x)
        compare(anywhere(Crop(crop=(5, 7), crop_pos_x=place, crop_pos_y=place), large), x)


@pytest.mark.parametrize("dtype", MOVED_DTYPES)
def test_levels_of_every_type_saturate(anywhere, dtype):
    x = np.zeros((1, 2, 3), dtype)
    found = anywhere(Pad(shape=(2, 2), fill_value=(-70000.5, 2.5, 1e6)), x)[1, 0]
    exact = {"u": (0, 2), "i": (max(-70000, np.iinfo(dtype).min if np.dtype(dtype).kind == "i" else 0), 2)}
    kind = np.dtype(dtype).kind
    if kind in "iu":
        assert found.tolist() == [*exact[kind], min(10**6, int(np.iinfo(dtype).max))]
    else:
        with np.errstate(over="ignore"):
            compare(found, np.array([-70000.5, 2.5, 1e6]).astype(dtype))


def test_a_level_for_each_of_sixteen_channels_or_one_for_more(anywhere):
    levels = tuple(float(n) for n in range(16))
    found = anywhere(Pad(shape=(1, 2), fill_value=levels), np.full((1, 1, 16), 99, np.uint8))
    assert found[0, 1].tolist() == list(range(16))
    found = anywhere(Pad(shape=(1, 2), fill_value=7), np.full((1, 1, 31), 99, np.uint8))
    assert (found[0, 1] == 7).all()


# ------------------------------------------------------------------------------------------ paste

# ratio, place and least side, and rows, columns, top and left that DALI 2.4 gave to 3×4 pixels
PASTED = [
    (1.0, 0.3, 0, (3, 4, 0, 0)),
    (1.3, 0.0, 0, (3, 5, 0, 0)),
    (1.3, 0.5, 0, (3, 5, 0, 0)),
    (1.3, 1.0, 0, (3, 5, 0, 1)),
    (1.5, 0.5, 0, (4, 6, 0, 1)),
    (1.5, 1.0, 0, (4, 6, 1, 2)),
    (2.0, 0.3, 0, (6, 8, 0, 1)),
    (1.7, 0.5, 0, (5, 6, 1, 1)),
    (1.0, 0.5, 6.0, (6, 6, 1, 1)),
    (1.0, 0.5, 6.7, (6, 6, 1, 1)),
    (1.5, 0.5, 5.0, (5, 6, 1, 1)),
]


@pytest.mark.parametrize(("ratio", "place", "least", "wanted"), PASTED)
def test_the_canvas_is_that_of_dali(anywhere, ratio, place, least, wanted):
    rows, columns, top, left = wanted
    op = Paste(ratio=ratio, paste_x=place, paste_y=place, min_canvas_size=least)
    compare(anywhere(op, X), padded(X, top, rows - 3 - top, left, columns - 4 - left))


def test_the_side_of_a_canvas_is_rounded_as_dali_rounds_it():
    sides = {1.1: 11, 1.3: 13, 1.7: 17, 1.15: 11, 2.3: 23, 1.9: 19}
    assert {ratio: len(fn.paste(np.zeros((10, 10, 3), np.uint8), ratio=ratio)) for ratio in sides} == sides


def test_levels_of_a_canvas_are_those_of_channels(anywhere):
    found = anywhere(Paste(ratio=2, fill_value=(7, 8, 9)), np.arange(12, dtype=np.uint8).reshape(2, 2, 3))
    assert found[0].tolist() == [[7, 8, 9]] * 4
    assert found[1].tolist() == [[7, 8, 9], [0, 1, 2], [3, 4, 5], [7, 8, 9]]


def test_a_canvas_beyond_all_numbers_is_refused_by_its_ratio(anywhere):
    with pytest.raises(
        ParameterError, match=r"paste: ratio=1e\+38 for images of 3×4 pixels; allowed: a canvas of"
    ):
        anywhere(Paste(ratio=1e38), X)


# ------------------------------------------------------------------------------------------ slice

# arguments, and the columns and the rows of a 3×4 image that DALI 2.4 gave
SLICED = [
    ({"start": (1, 1)}, (1, 4), (1, 3)),
    ({"start": (1, 0), "end": (3, 2)}, (1, 3), (0, 2)),
    ({"start": (1, 0), "shape": (3, 2)}, (1, 4), (0, 2)),
    ({"end": (2, 2)}, (0, 2), (0, 2)),
    ({"rel_shape": (0.5, 0.5)}, (0, 2), (0, 2)),
    ({"rel_start": (0.3, 0.3), "rel_end": (0.7, 0.7)}, (1, 3), (1, 2)),
    ({"rel_start": (0.3, 0.3), "rel_shape": (0.4, 0.4)}, (1, 3), (1, 2)),
    ({"rel_start": (0.12, 0.16), "rel_end": (0.9, 0.9)}, (0, 4), (0, 3)),
    ({"rel_start": (0.375, 0.5), "rel_shape": (0.25, 0.5)}, (2, 3), (2, 3)),
    ({"rel_start": (0.375, 0.5), "rel_shape": (0.375, 0.5)}, (2, 3), (2, 3)),
    ({"start": (1, 0), "rel_end": (0.65, 0.8)}, (1, 3), (0, 2)),
    ({"start": (1, 1), "rel_shape": (0.375, 0.5)}, (1, 3), (1, 3)),
    ({"start": (-3, 1), "end": (9, 8), "trim": True}, (0, 4), (1, 3)),
]


@pytest.mark.parametrize(("arguments", "columns", "rows"), SLICED, ids=str)
def test_a_window_is_that_of_dali(anywhere, arguments, columns, rows):
    compare(anywhere(Slice(**arguments), X), X[slice(*rows), slice(*columns)])
    turned = {name: value[::-1] if isinstance(value, tuple) else value for name, value in arguments.items()}
    compare(anywhere(Slice(**turned, axis_names="HW"), X), X[slice(*rows), slice(*columns)])


# of n columns: from, to; and where DALI 2.4 began and ended for an end, a shape, and a begin in parts; and for a shape
# in parts from column 1 on
ROUNDED = [
    (5, 0.1, 0.7, (1, 4), (1, 4), (1, 3), (1, 2)),
    (5, 0.3, 0.5, (2, 3), (2, 3), (2, 4), (1, 3)),
    (5, 0.15, 0.95, (1, 5), (1, 5), (1, 3), (1, 2)),
    (10, 0.15, 0.95, (2, 10), (2, 10), (2, 4), (1, 3)),
    (10, 0.25, 0.65, (3, 7), (3, 7), (3, 5), (1, 4)),
    (10, 0.05, 0.35, (1, 4), (1, 4), (1, 3), (1, 2)),
    (7, 0.25, 0.65, (2, 5), (2, 5), (2, 4), (1, 3)),
    (100, 0.07, 0.93, (7, 93), (7, 93), (7, 9), (1, 8)),
]


@pytest.mark.parametrize(("n", "first", "last", "by_end", "by_shape", "pixels", "from_one"), ROUNDED)
def test_places_between_pixels_are_rounded_as_dali_does(n, first, last, by_end, by_shape, pixels, from_one):
    x = np.arange(n, dtype=np.uint8)[None, :, None]
    start = (first, 0)
    for arguments, wanted in (
        ({"rel_start": start, "rel_end": (last, 1)}, by_end),
        ({"rel_start": start, "rel_shape": (round(last - first, 3), 1)}, by_shape),
        ({"rel_start": start, "shape": (2, 1)}, pixels),
        ({"start": (1, 0), "rel_shape": (first, 1)}, from_one),
    ):
        compare(fn.slice(x, **arguments), x[:, slice(*wanted)])


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(FILL_MODES),
    st.tuples(*[st.integers(-9, 9)] * 2),
    st.tuples(*[st.integers(1, 12)] * 2),
)
def test_windows_beyond_the_border_are_slices_of_what_numpy_pads(mode, start, shape):
    x = np.arange(1, 31, dtype=np.int16).reshape(5, 6, 1)
    around = np.pad(x, ((30, 30), (30, 30), (0, 0)), mode)
    left, top = start[0] + 30, start[1] + 30
    found = fn.slice(x, start=start, shape=shape, pad_mode=mode)
    compare(found, around[top : top + shape[1], left : left + shape[0]])


def test_windows_far_beyond_the_border(anywhere):
    """As DALI 2.4 gave them: the first row and the first column."""
    for mode, row, column in (
        ("reflect", [8, 7, 6, 5, 6, 7, 8, 7, 6, 5, 6, 7], [8, 12, 8, 4, 8, 12, 8, 4, 8, 12, 8]),
        ("symmetric", [11, 10, 9, 9, 10, 11, 12, 12, 11, 10, 9, 9], [11, 7, 3, 3, 7, 11, 11, 7, 3, 3, 7]),
        ("wrap", [2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1], [2, 6, 10, 2, 6, 10, 2, 6, 10, 2, 6]),
        ("edge", [1, 1, 1, 1, 2, 3, 4, 4, 4, 4, 4, 4], [1, 1, 1, 1, 5, 9, 9, 9, 9, 9, 9]),
    ):
        found = anywhere(Slice(start=(-3, -3), end=(9, 8), pad_mode=mode), X)
        assert found[0, :, 0].tolist() == row
        assert found[:, 0, 0].tolist() == column


def test_windows_that_random_bbox_crop_draws():
    x = [images(Slice, "uint8", "HWC", size=(40, 60), seed=n) for n in range(4)]
    boxes = [np.array([[0.2, 0.3, 0.6, 0.8]])] * 4
    crop = fn.random_bbox_crop(boxes, scaling=(0.4, 0.9), aspect_ratio=(0.5, 2.0), allow_no_crop=False)
    found = fn.slice(x, rel_start=crop.anchor, rel_shape=crop.shape)
    for image, result, anchor, shape in zip(x, found, crop.anchor, crop.shape, strict=True):
        (left, top), (right, bottom) = (
            np.rint(part * [60, 40]).astype(int) for part in (anchor, anchor + shape)
        )
        compare(result, image[top:bottom, left:right])


# ------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: fn.slice(X, start=(1, 0), shape=(4, 2)),
            r"slice: a window from \(1, 0\) to \(5, 2\) of images of 3×4 pixels; allowed: from \(0, 0\) to \(4, 3\),"
            r" in the order WH\. Choose a pad_mode",
        ),
        (lambda: fn.slice(X, start=(-1, 0)), r"a window from \(-1, 0\) to \(4, 3\)"),
        (
            lambda: fn.slice(X, start=(2, 1), end=(1, 2)),
            "slice: a window of 1×-1 pixels from row 1 and column 2",
        ),
        (
            lambda: fn.slice(X, start=(9, 9), trim=True),
            "slice: a window of 0×0 pixels",
        ),
        (
            lambda: fn.slice(X, start=(3e9, 0), shape=(1, 1), pad_mode="constant"),
            "slice: a window .* allowed: windows of one",
        ),
        (
            lambda: fn.slice(X, start=(0, -3e9), shape=(1, 1), pad_mode="constant"),
            "slice: a window .* allowed: windows of one",
        ),
        (
            lambda: fn.slice(X, fill_value=(1, 2)),
            "slice: fill_value has 2 values, for pixels of 1; allowed: 1 value",
        ),
        (
            lambda: fn.pad(X, shape=(4, 4), fill_value=(1, 2, 3)),
            "pad: fill_value has 3 values, for pixels of 1; allowed: 1 value",
        ),
        (lambda: fn.pad(X, shape=(1 << 30, 4)), "pad: a window of 1073741824×4 pixels"),
    ],
)
def test_what_cannot_be_shown_is_refused(call, said):
    with pytest.raises(ParameterError, match=said):
        call()


def test_levels_of_other_channels_are_refused_whatever_is_drawn(anywhere):
    """Not in the middle of an epoch, by the first sample that is pasted."""
    op = Paste(ratio=2.0, fill_value=(1.0, 2.0), p=0.5)
    for index in range(6):
        with pytest.raises(
            ParameterError, match="paste: fill_value has 2 values, for pixels of 3; allowed: 1 value, or 3"
        ):
            anywhere(op, np.zeros((4, 5, 3), np.uint8), index=index)


@pytest.mark.parametrize(
    "op", [Pad(shape=9000), Slice(shape=(9000.0, 9000.0), pad_mode="edge"), Paste(ratio=2250.0)]
)
def test_a_result_larger_than_the_memory_is_refused_before_it_is_allocated(monkeypatch, op):
    monkeypatch.setattr("seqpipe.ops.call.inputs.main_memory_bytes", lambda: 1 << 27)
    said = (
        rf"^{op.name}: 2 × 1 results of \d+×9000 pixels \(0\.15\d* GiB\); allowed: up to 0\.125 GiB, the memory of the"
        " machine. Choose a smaller size, or fewer frames in a call"
    )
    with pytest.raises(ParameterError, match=said):
        op(np.zeros((2, 4, 4, 1), np.uint8), layout="NHWC")
    assert op(np.zeros((4, 4, 1), np.uint8)).shape[1] == 9000
