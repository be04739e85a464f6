"""Boxes against their images: pixels that are moved, formulas that are published, windows that SSD allows."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe import fn
from seqpipe.errors import ParameterError
from seqpipe.ops import BbFlip, BboxPaste, RandomBboxCrop
from seqpipe.ops.labels.box_windows import overlaps
from tests.support.operators import compare

BOXES = np.array([[0.1, 0.2, 0.4, 0.9], [0.0, 0.0, 1.0, 1.0], [0.5, 0.25, 0.75, 0.5]])


def sides(boxes):
    """Left, top, width and height."""
    return np.concatenate([boxes[..., :2], boxes[..., 2:] - boxes[..., :2]], axis=-1)


def iou(box, window):
    """By counting the points of a fine grid."""
    at = (np.arange(400) + 0.5) / 400
    (a, b) = (
        ((at >= one[0]) & (at < one[2]))[None] & ((at >= one[1]) & (at < one[3]))[:, None]
        for one in (box, window)
    )
    return (a & b).sum() / (a | b).sum()


@pytest.mark.parametrize(("horizontal", "vertical"), [(True, False), (False, True), (True, True)])
def test_flipped_boxes_are_those_of_flipped_pixels(horizontal, vertical):
    for left, top, right, bottom in [(1, 2, 4, 9), (0, 0, 10, 10), (5, 3, 6, 4)]:
        image = np.zeros((10, 10), np.uint8)
        image[top:bottom, left:right] = 1
        found = fn.bb_flip(
            np.array([[left, top, right, bottom]]) / 10, ltrb=True, horizontal=horizontal, vertical=vertical
        )
        y, x = np.nonzero(fn.flip(image, horizontal=horizontal, vertical=vertical))
        np.testing.assert_allclose(found * 10, [[x.min(), y.min(), x.max() + 1, y.max() + 1]])


def test_both_forms_of_boxes_agree():
    for op in (BbFlip, BboxPaste):
        arguments = {"ratio": 2.0, "paste_x": 0.25} if op is BboxPaste else {"vertical": True}
        wanted = sides(op(ltrb=True, **arguments)(BOXES))
        np.testing.assert_allclose(op(**arguments)(sides(BOXES)), wanted)


def test_flips_of_samples():
    found = fn.bb_flip([BOXES, BOXES[:0], BOXES[None]], horizontal=[1, 1, 0], ltrb=True)
    np.testing.assert_allclose(found[0][:, [0, 2]], 1 - BOXES[:, [2, 0]])
    assert found[1].shape == (0, 4)
    compare(found[2], BOXES[None])
    assert not np.shares_memory(found[2], BOXES)


def test_pasted_boxes_are_where_the_image_is():
    """An image of 10×10 pasted on 25×25, where DALI's formula puts it."""
    for x, y in ((0.0, 0.0), (1.0, 0.2), (0.4, 0.8)):
        found = fn.bbox_paste(BOXES, ratio=2.5, paste_x=x, paste_y=y, ltrb=True) * 25
        np.testing.assert_allclose(found, BOXES * 10 + np.array([x, y, x, y]) * 15)


def test_types_and_draws(torch):
    found = fn.bb_flip(torch.tensor(BOXES, dtype=torch.float32), ltrb=True)
    assert (type(found), found.dtype) == (torch.Tensor, torch.float32)
    op = BbFlip(ltrb=True, p=0.5, seed=1)
    acts = [bool((one != BOXES).any()) for one in op([BOXES] * 50)]
    assert 10 < sum(acts) < 40
    assert [bool((op(BOXES, index=n) != BOXES).any()) for n in range(50)] == acts


# ------------------------------------------------------------------------------------------ windows


@pytest.mark.parametrize("threshold", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("every", [True, False])
def test_windows_overlap_enough(threshold, every):
    boxes = np.array([[0.2, 0.2, 0.7, 0.8], [0.3, 0.4, 0.8, 0.9]])
    op = RandomBboxCrop(
        scaling=(0.3, 1.0),
        aspect_ratio=(0.5, 2.0),
        thresholds=(threshold,),
        allow_no_crop=False,
        all_boxes_above_threshold=every,
        seed=2,
    )
    for anchor, size, kept, labels in zip(*op([boxes] * 20, [np.array([7, 8])] * 20), strict=True):
        window = np.concatenate([anchor, anchor + size])
        assert (window >= 0).all()
        assert (window <= 1 + 1e-6).all()
        assert 0.5 - 1e-6 <= size[0] / size[1] <= 2 + 1e-6
        assert (size >= 0.3 - 1e-6).all()
        assert (min if every else max)(iou(box, window) for box in boxes) >= threshold - 0.02
        inside = [(box[:2] + box[2:]) / 2 for box in boxes]
        wanted = [n for n, at in enumerate(inside) if (at >= anchor).all() and (at <= anchor + size).all()]
        assert labels.tolist() == [7 + n for n in wanted]
        back = kept * np.tile(size, 2) + np.tile(anchor, 2)
        np.testing.assert_allclose(
            back,
            [np.clip(boxes[n], np.tile(window[:2], 2), np.tile(window[2:], 2)) for n in wanted],
            atol=1e-6,
        )


def test_overlaps_are_areas():
    windows = np.array([[0.0, 0.0, 0.5, 0.5], [0.2, 0.5, 1.0, 0.75]])
    of_both = overlaps(BOXES, windows, of_both=True)
    np.testing.assert_allclose(of_both, [[iou(box, window) for box in BOXES] for window in windows])
    np.testing.assert_allclose(
        overlaps(BOXES, windows, of_both=False),
        [[0.3 * 0.3 / 0.21, 0.25, 0.0], [0.2 * 0.25 / 0.21, 0.2, 0.0]],
    )


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.6])
def test_windows_of_one_ratio(ratio):
    op = RandomBboxCrop(
        scaling=(0.3, 0.9), aspect_ratio=(ratio, ratio), thresholds=(0.0,), allow_no_crop=False
    )
    size = op([BOXES] * 50).shape
    np.testing.assert_allclose(size[:, 0] / size[:, 1], ratio, rtol=1e-6)
    assert ((size >= 0.3 - 1e-6) & (size <= 0.9 + 1e-6)).all()
    assert len(np.unique(size[:, 0])) == 50


def test_windows_are_functions_of_seed_epoch_and_index():
    op = RandomBboxCrop(scaling=(0.3, 0.9), aspect_ratio=(0.5, 2.0), allow_no_crop=False, seed=5)
    found = op([BOXES] * 8, epoch=3, index=10)
    for n in range(8):
        compare(op(BOXES, epoch=3, index=10 + n).anchor, found.anchor[n])
    assert len({tuple(one) for one in found.anchor.tolist()}) == 8
    assert (op([BOXES] * 8, epoch=4, index=10).anchor != found.anchor).any()
    assert found.labels is None


def test_the_whole_image_where_nothing_suits_or_it_is_chosen():
    small = np.array([[0.0, 0.0, 0.05, 0.05], [0.9, 0.9, 1.0, 1.0]])
    never = RandomBboxCrop(
        scaling=(0.3, 0.5), aspect_ratio=(0.5, 2.0), thresholds=(0.9,), allow_no_crop=False
    )
    found = never(small, np.array([1, 2]))
    assert (found.anchor.tolist(), found.shape.tolist(), found.labels.tolist()) == ([0, 0], [1, 1], [1, 2])
    np.testing.assert_allclose(found.boxes, small)
    half = RandomBboxCrop(scaling=(0.5, 0.5), thresholds=(0.0,), seed=1)([np.zeros((0, 4))] * 200)
    assert 60 < (half.shape[:, 0] == 1).sum() < 140
    np.testing.assert_allclose(half.shape[half.shape[:, 0] < 1], 0.5)


def test_what_are_no_boxes_is_refused():
    for boxes, said in (
        (BOXES * 100, r"the box .* is not within the image; allowed: 0 to 1.*Divide pixels"),
        (BOXES[:, [2, 1, 0, 3]], "the box .* ends before it begins"),
        (BOXES[:, :3], r"boxes of float64 of shape \(3, 3\) on cpu; allowed: float32 or float64 \(…, 4\)"),
        (BOXES.astype(int), "boxes of int64"),
        (BOXES[None][[0, 0]][..., [2, 1, 0, 3]], "the box .* ends before it begins"),
        (BOXES * np.nan, "the box .* is not within the image"),
    ):
        with pytest.raises(ParameterError, match=rf"bb_flip: {said}"):
            fn.bb_flip(boxes, ltrb=True)
    with pytest.raises(ParameterError, match=r"boxes of shape \(3, 4\) with 2 labels; allowed: \(K, 4\)"):
        fn.random_bbox_crop(BOXES, np.zeros(2))
    for labels, said in (
        ([1, 2, 3], "an object of type list is not an array"),
        (np.array(3), "with unnumbered labels"),
    ):
        with pytest.raises(ParameterError, match=rf"^random_bbox_crop: .*{said}.*; allowed"):
            fn.random_bbox_crop(BOXES, labels)
    with pytest.raises(ParameterError, match="labels of no samples; allowed: 1, as many as boxes"):
        fn.random_bbox_crop([BOXES], 3)
    for function in (fn.bb_flip, fn.random_bbox_crop):
        with pytest.raises(
            ParameterError, match=f"^{function.__name__}: a list of no arrays; allowed: one or more"
        ):
            function([])
    with pytest.raises(ParameterError, match="labels of 1 samples; allowed: 2, as many as boxes"):
        fn.random_bbox_crop([BOXES] * 2, [np.zeros(3)])
