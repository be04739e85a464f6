"""Operators that move frames, against NumPy, OpenCV and torch; and what goes along with frames."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe import Batch, Sequence, fn
from seqpipe.errors import ParameterError
from seqpipe.ops import (
    ElementExtract,
    Flip,
    FrameDifference,
    FrameSlice,
    Reverse,
    SequenceRearrange,
    Subsample,
    TemporalJitter,
    apply,
)
from tests.support.operators import compare, cupy, images
from tests.support.together import together


def numbers(frames, dtype=np.uint8):
    """A sequence whose frames hold their numbers."""
    return np.broadcast_to(np.arange(frames, dtype=dtype)[:, None, None, None], (frames, 2, 3, 1))


def taken(x):
    return np.asarray(x)[:, 0, 0, 0].tolist()


def clip(frames=6, *, first=0, layout="FHWC", seed=0):
    shape = (frames, 4, 5, 3) if layout == "FHWC" else (frames, 3, 4, 5)
    data = np.random.default_rng(seed).integers(0, 255, shape, dtype=np.uint8)
    return Sequence(
        data,
        layout,
        source=f"{seed}.mp4",
        frames=first + 2 * np.arange(frames),
        timestamps=np.arange(frames) / 25,
    )


def belongs(found, given):
    """Raise unless every frame of a result is the one of what was given that has its number, and has its time."""
    for n, number in enumerate(found.frames):
        (at,) = np.flatnonzero(given.frames == number)
        compare(found.data[n], given.data[at])
        assert found.timestamps[n] == given.timestamps[at]
    assert found.source == given.source


# ------------------------------------------------------------------------------------------ which frames


PLACES = st.none() | st.integers(-25, 25)


@given(st.integers(1, 20), PLACES, PLACES, st.integers(-6, 6).filter(bool))
def test_slices_are_those_of_python(frames, start, stop, step):
    wanted = list(range(frames))[start:stop:step]
    if not wanted:
        with pytest.raises(ParameterError, match=rf"frame_slice: the slice .* holds none of {frames} frames"):
            fn.frame_slice(numbers(frames), start=start, stop=stop, step=step)
        return
    assert taken(fn.frame_slice(numbers(frames), start=start, stop=stop, step=step)) == wanted


@given(st.integers(1, 20), st.data())
def test_orders_are_those_of_numpy(frames, data):
    x = np.random.default_rng(0).integers(0, 255, (frames, 2, 3, 1), dtype=np.uint8)
    order = data.draw(st.lists(st.integers(-frames, frames - 1), min_size=1, max_size=25))
    stride, offset = data.draw(st.integers(1, 25)), data.draw(st.integers(0, frames - 1))
    compare(fn.sequence_rearrange(x, new_order=order), x[order])
    compare(fn.subsample(x, stride=stride, offset=offset), x[offset::stride])
    compare(fn.reverse(x), np.flip(x, 0))
    for found, at in zip(fn.element_extract(x, element_map=order), order, strict=True):
        compare(found, x[at])


@pytest.mark.parametrize("layout", ["FHWC", "FCHW", "NFHWC", "NFCHW", "DHWC"])
def test_elements_have_no_axis_of_frames(layout):
    op = ElementExtract(element_map=(1, -1, 1))
    x = images(op, "uint8", layout)
    axis = layout.replace("D", "F").index("F")
    for found, at in zip(op(x, layout=layout), (1, 2, 1), strict=True):
        compare(found, x.take(at, axis))


def test_every_sample_has_an_order_of_its_own(anywhere):
    x = np.stack([numbers(7), numbers(7) + 10])
    found = anywhere(Subsample(stride=3, offset=[0, 0]), x)
    assert [taken(result) for result in found] == [[0, 3, 6], [10, 13, 16]]
    found = anywhere(Subsample(stride=[2, 5], offset=[1, 0]), list(x))
    assert [taken(result) for result in found] == [[1, 3, 5], [10, 15]]
    with pytest.raises(
        ParameterError,
        match=r"subsample: results of different lengths, \[2, 3\] frames, .*Give the samples as a list",
    ):
        anywhere(Subsample(stride=[2, 5], offset=[1, 0]), x)


def test_one_frame_of_each_group_is_drawn():
    x = numbers(8)
    found = apply(Subsample(stride=4, offset=(0, 3), seed=1), [x] * 100)
    assert sorted({tuple(taken(result)) for result in found}) == [(0, 4), (1, 5), (2, 6), (3, 7)]


# ------------------------------------------------------------------------------------------ jitter


def test_jitter_reaches_every_frame_near_and_no_other(anywhere):
    op = TemporalJitter(offset=(-2, 1), keep_order=False, seed=3)
    found = np.array([taken(one) for one in anywhere(op, [numbers(8)] * 200)])
    for frame in range(8):
        near = {min(max(frame + by, 0), 7) for by in (-2, -1, 0, 1)}
        assert set(found[:, frame]) == near
    assert (np.diff(found, axis=1) < 0).any()


def test_jitter_keeps_the_order_of_time():
    loose = apply(TemporalJitter(offset=(-3, 3), keep_order=False, seed=3), [numbers(9)] * 50)
    kept = apply(TemporalJitter(offset=(-3, 3), seed=3), [numbers(9)] * 50)
    for one, other in zip(loose, kept, strict=True):
        assert sorted(taken(one)) == taken(other)


def test_jitter_of_all_frames_alike():
    found = apply(TemporalJitter(offset=(-2, 2), per_frame=False, seed=1), [numbers(5)] * 60)
    wanted = {tuple(min(max(n + by, 0), 4) for n in range(5)) for by in range(-2, 3)}
    assert {tuple(taken(result)) for result in found} == wanted


# ------------------------------------------------------------------------------------------ differences


@pytest.mark.parametrize("lag", [1, 2])
def test_differences_are_those_of_opencv(anywhere, lag):
    x = images(FrameDifference(), "uint8", "FHWC")
    pairs = list(zip(x[lag:], x[:-lag], strict=True))
    signed = np.stack([cv2.subtract(after, before, dtype=cv2.CV_16S) for after, before in pairs])
    compare(anywhere(FrameDifference(lag=lag), x), signed.reshape(-1, *x.shape[1:]))
    absolute = np.stack([cv2.absdiff(after, before) for after, before in pairs])
    compare(anywhere(FrameDifference(lag=lag, absolute=True), x), absolute.reshape(-1, *x.shape[1:]))


@pytest.mark.parametrize(
    ("dtype", "signed", "absolute"),
    [
        ("uint8", "int16", "uint8"),
        ("uint16", "float32", "uint16"),
        ("int16", "float32", "uint16"),
        ("float16", "float16", "float16"),
        ("float32", "float32", "float32"),
    ],
)
def test_the_type_holds_every_difference(anywhere, dtype, signed, absolute):
    ends = [0.0, 1.0] if dtype.startswith("f") else [np.iinfo(dtype).min, np.iinfo(dtype).max]
    x = np.array(ends + ends[:1], dtype).reshape(3, 1, 1, 1)
    exact = np.diff(x.astype(np.float64), axis=0)
    for op, kind, wanted in (
        (FrameDifference(), signed, exact),
        (FrameDifference(absolute=True), absolute, abs(exact)),
    ):
        compare(anywhere(op, x), wanted.astype(kind))


def test_differences_saturate_where_a_type_is_asked_for(anywhere):
    x = np.array([[9], [4], [250]], np.uint8).reshape(3, 1, 1, 1)
    assert anywhere(FrameDifference(dtype="uint8"), x).ravel().tolist() == [0, 246]


# ------------------------------------------------------------------------------------------ what goes along


@pytest.mark.parametrize("layout", ["FHWC", "FCHW"])
@pytest.mark.parametrize(
    "op",
    [
        Reverse(p=0.5, seed=1),
        FrameSlice(start=-1, stop=1, step=-2),
        Subsample(stride=2, offset=1),
        SequenceRearrange(new_order=(5, 5, -6, 2)),
        TemporalJitter(offset=(-2, 2), seed=2),
    ],
    ids=repr,
)
def test_frames_keep_their_numbers_and_times(op, layout):
    sequences = [clip(first=100 * n, layout=layout, seed=n) for n in range(4)]
    batch = Batch.of(sequences, labels=[1, 2, 3, 4], indices=[5, 0, 9, 2])
    found = op(batch)
    assert found.labels.tolist() == [1, 2, 3, 4]
    assert np.shares_memory(found[1].data, found.stacked)
    for index, result, whole in zip(batch.indices, found, sequences, strict=True):
        belongs(result, whole)
        compare(op(whole, index=int(index)).data, result.data)
    ragged = Batch.of([clip(6), clip(7, seed=1)])
    for one, whole in zip(op(ragged), ragged, strict=True):
        belongs(one, whole)


def test_padding_stays_padding():
    padded = Sequence(numbers(4), frames=[7, 8, -1, -1], timestamps=[0.1, 0.2, np.nan, np.nan])
    found = fn.reverse(padded)
    assert found.frames.tolist() == [-1, -1, 8, 7]
    np.testing.assert_array_equal(found.timestamps, [np.nan, np.nan, 0.2, 0.1])


def test_differences_have_the_clock_of_the_later_frame():
    found = fn.frame_difference(clip(), lag=2)
    assert found.frames.tolist() == [4, 6, 8, 10]
    assert found.timestamps.tolist() == [0.08, 0.12, 0.16, 0.2]


def test_elements_have_their_clock():
    whole = clip()
    found = fn.element_extract(whole, element_map=(3, -1))
    assert [(result.layout, result.frames.tolist(), result.timestamps.tolist()) for result in found] == [
        ("HWC", [6], [0.12]),
        ("HWC", [10], [0.2]),
    ]
    batch = Batch.of([clip(seed=0), clip(seed=1)], labels=[4, 5])
    last, first = fn.element_extract(batch, element_map=(-1, 0))
    assert (last.layout, last.shape, last.labels.tolist()) == ("NHWC", (2, 4, 5, 3), [4, 5])
    compare(first.data, batch.data[:, 0])
    assert last.frames.tolist() == [[10], [10]]
    compare(fn.flip(last).data, batch.data[:, -1, :, ::-1])
    ragged = Batch.of([clip(6), clip(7)])
    for one, whole in zip(fn.element_extract(ragged, element_map=(-1,))[0], ragged, strict=True):
        assert one.frames[0] == whole.frames[-1]
        compare(one.data, whole.data[-1])
    several = fn.element_extract([clip(6), clip(7)], element_map=(1, 2))
    assert [[type(one) for one in element] for element in several] == [[Sequence] * 2] * 2


def test_slices_of_a_volume_stay_where_they_are():
    space = np.array([[0, 0, 2.0, -7], [0, 1.5, 0, 3], [3, 0, 0, 11], [0, 0, 0, 1]])
    volume = Sequence(images(Flip(), "int16", "DHWC"), "DHWC", affine=space)
    for op, order in ((Reverse(), [2, 1, 0]), (Subsample(stride=2), [0, 2]), (FrameDifference(), [1, 2])):
        found = op(volume).affine
        for n, at in enumerate(order):
            np.testing.assert_allclose(found @ [n, 2, 3, 1], space @ [at, 2, 3, 1])
    for found, at in zip(fn.element_extract(volume, element_map=(2, 0, 1)), (2, 0, 1), strict=True):
        np.testing.assert_allclose(found.affine @ [0, 2, 3, 1], space @ [at, 2, 3, 1])
    for order in ([0, 0, 1], [0, 2, 1]):
        with pytest.raises(ParameterError, match=r"slices \[0, .* with an affine are not evenly spaced"):
            fn.sequence_rearrange(volume, new_order=order)


def test_masks_and_boxes_of_frames_go_along():
    x = clip(6).data
    boxes = np.arange(24, dtype=np.float64).reshape(6, 1, 4)
    fixed = np.array([[1.0, 2.0, 3.0, 4.0]])
    found = together(Subsample(stride=2, offset=1))(x, mask=x[..., 0], boxes=boxes)
    compare(found.image, x[1::2])
    compare(found.mask, x[1::2, :, :, 0])
    compare(found.boxes, boxes[1::2])
    compare(together(Reverse())(x, boxes=fixed).boxes, fixed)
    mask = np.random.default_rng(0).random((2, 6, 4, 5)) < 0.5
    batch = Batch.of([clip(), clip(seed=1)], mask=mask)
    compare(SequenceRearrange(new_order=(3, 0, 0))(batch).mask, mask[:, [3, 0, 0]])
    last, first = fn.element_extract(batch, element_map=(-1, 0))
    compare(last.mask, mask[:, -1:])
    compare(fn.flip(first).mask, mask[:, :1, :, ::-1])


def test_torch_tensors(torch):
    x = images(Reverse(), "uint8")
    given = torch.from_numpy(x.copy())
    compare(fn.reverse(given).numpy(), torch.flip(given, (1,)).numpy())
    order = torch.tensor([2, 0, 0])
    found = fn.sequence_rearrange(given, new_order=order.tolist())
    compare(found.numpy(), torch.index_select(given, 1, order).numpy())
    assert [type(one) for one in fn.element_extract(given, element_map=(0, 1))] == [torch.Tensor] * 2


# ------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("op", "said"),
    [
        (
            SequenceRearrange(new_order=(0, 3)),
            "sequence_rearrange: new_order has 3, but there are 3 frames; allowed: -3 to 2",
        ),
        (SequenceRearrange(new_order=(-4,)), "new_order has -4, but there are 3 frames"),
        (ElementExtract(element_map=(0, 7)), "element_extract: element_map has 7, but there are 3 frames"),
        (Subsample(offset=3), "subsample: offset=3 in a sequence of 3 frames; allowed: up to 2"),
        (FrameDifference(lag=3), "frame_difference: lag=3 in a sequence of 3; allowed: up to 2"),
    ],
    ids=repr,
)
def test_frames_that_are_not_there_are_refused(anywhere, op, said):
    with pytest.raises(ParameterError, match=said):
        anywhere(op, images(op, "uint8", "FHWC"))


def test_images_without_frames_are_refused():
    for op in (Reverse(), ElementExtract(), FrameDifference()):
        with pytest.raises(
            ParameterError,
            match="images of layout HWC, which has no frames; allowed: layouts with F, or with D for slices",
        ):
            op(np.zeros((4, 5, 3), np.uint8))
    with pytest.raises(ParameterError, match="lag=1 in a sequence of 1; allowed: sequences of two frames"):
        fn.frame_difference(np.zeros((1, 4, 5, 3), np.uint8))


@pytest.mark.gpu
def test_frames_move_on_a_gpu_in_one_launch():
    batch = Batch.of([Sequence(cupy().asarray(clip(seed=n).data)) for n in range(3)])
    found = Subsample(stride=2, offset=[0, 1, 0])(batch)
    assert isinstance(found.data, cupy().ndarray)
    for result, whole, offset in zip(found, batch, (0, 1, 0), strict=True):
        compare(result.data.get(), whole.data.get()[offset::2])
    compare(fn.element_extract(batch, element_map=(-1,))[0].data.get(), batch.data.get()[:, -1])
