"""One draw for images, masks, boxes and points of pictures; see test_parts for the rest."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe import Batch, Sequence
from seqpipe.errors import ParameterError
from seqpipe.ops import BrightnessContrast, Crop, Flip, Pad, WarpAffine, per_frame
from tests.support.operators import compare, images
from tests.support.together import together

FLIP = Flip(p=0.5, seed=1)
BOX = np.array([[1.0, 2.0, 4.0, 5.0]])


@pytest.mark.parametrize("layout", ["FHWC", "FCHW", "NFHWC", "NFCHW", "DHWC"])
def test_masks_follow_their_images(layout):
    op = FLIP if layout[0] == "N" else Flip()
    x = images(op, "uint8", layout, samples=8)
    channel = layout.index("C")
    labels = (x.take(0, channel) // 50).astype(np.int64)
    image, mask, *_ = together(op)(x, mask=labels, layout=layout)
    assert (image != x).any()
    compare(mask, (image.take(0, channel) // 50).astype(np.int64))
    compare(together(op)(x, mask=x > 128, layout=layout).mask, image > 128)


def test_boxes_of_a_batch():
    x = images(FLIP, "uint8", samples=8)
    found = together(FLIP)(x, boxes=np.tile(BOX, (8, 1, 1)), points=[np.full((n, 2), 0.5) for n in range(8)])
    flipped = [bool((one != given).any()) for one, given in zip(found.image, x, strict=True)]
    assert 0 < sum(flipped) < 8
    assert found.boxes[:, 0, 0].tolist() == [3 if flag else 1 for flag in flipped]
    assert [points.tolist() for points in found.points] == [
        [[6.5 if flag else 0.5, 0.5]] * n for n, flag in enumerate(flipped)
    ]
    assert found.mask is None


def test_boxes_of_frames_that_are_flipped_by_themselves():
    x = images(FLIP, "uint8", "FHWC")
    each = together(Flip(horizontal=per_frame([0, 1, 0])))
    found = each(x, boxes=np.tile(BOX, (3, 1, 1)))
    assert found.boxes[:, 0, 0].tolist() == [1, 3, 1]
    with pytest.raises(
        ParameterError, match=r"each frame is moved independently, but boxes, boxes, have the shape \(1, 4\)"
    ):
        each(x, boxes=BOX)


def test_types_of_boxes(torch):
    x = images(FLIP, "uint8", "HWC")
    for dtype in (np.int32, np.float32, np.float64):
        found = together(Flip())(x, boxes=BOX.astype(dtype)).boxes
        compare(found, np.array([[3, 2, 6, 5]], dtype))
    found = together(Flip())(torch.from_numpy(x.copy()), boxes=torch.tensor(BOX), mask=torch.zeros(5, 7))
    assert [type(part) for part in found[:3]] == [torch.Tensor] * 3


def test_whole_numbers_that_their_type_cannot_hold_are_its_bounds():
    x = images(FLIP, "uint8", "HWC")
    found = together(Crop(crop=(1, 1)))(x, boxes=np.array([[0, 1, 9, 2]], np.uint8)).boxes
    compare(found, np.array([[0, 0, 6, 0]], np.uint8))
    found = together(Pad(shape=(5, 300), pad_pos_x=1.0))(
        x, points=np.array([[6, 2], [-128, 3]], np.int8)
    ).points
    compare(found, np.array([[127, 2], [127, 3]], np.int8))


def test_places_of_maps_without_an_inverse_are_refused():
    x = images(FLIP, "uint8", "HWC")
    flat = WarpAffine(matrix=(1, 0, 0, 0, 0, 2))
    compare(together(flat)(x, mask=x).image, flat(x))
    for places in ({"boxes": BOX}, {"points": BOX[:, :2]}):
        with pytest.raises(
            ParameterError, match="warp_affine: boxes or points with a map that has no inverse"
        ):
            together(flat)(x, **places)


def test_sequences_and_batches():
    sequences = [Sequence(images(FLIP, "uint8", "FHWC", seed=n)) for n in range(6)]
    batch = Batch.of(sequences, indices=[9, 1, 4, 30, 31, 32])
    found = together(FLIP)(batch, boxes=np.tile(BOX, (6, 1, 1)))
    assert isinstance(found.image, Batch)
    compare(found.image.data, FLIP(batch).data)
    for index, sequence, boxes in zip(batch.indices, sequences, found.boxes, strict=True):
        alone = together(FLIP)(sequence, boxes=BOX, index=int(index))
        assert isinstance(alone.image, Sequence)
        compare(alone.boxes, boxes)
    assert 0 < sum(found.boxes[:, 0, 0] == 3) < 6


def test_colors_leave_places_alone():
    x = images(FLIP, "uint8", "FHWC")
    op = BrightnessContrast(brightness=2.0)
    found = together(op)(x, mask=x[..., 0], boxes=BOX, points=np.array([[1.0, 2.0]]))
    compare(found.image, op(x))
    compare(found.mask, x[..., 0])
    compare(found.boxes, BOX)
    assert not np.shares_memory(found.mask, x)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"mask": np.zeros((3, 5, 6), np.uint8)},
            r"flip: mask, labels of uint8 of shape \(3, 5, 6\).*\(3, 5, 7, 3\)",
        ),
        ({"mask": np.zeros((3, 5, 7), np.complex64)}, "mask, labels of complex64"),
        (
            {"boxes": np.zeros((2, 5))},
            r"Boxes: numbers of float64 of shape \(2, 5\); allowed: \(K, 6\) for volumes, \(K, 4\)",
        ),
        ({"points": np.zeros((4, 2, 2))}, r"points of float64 of shape \(4, 2, 2\)"),
        ({"points": np.zeros(2)}, r"Points: numbers of float64 of shape \(2,\)"),
    ],
)
def test_what_does_not_fit_is_refused(given, said):
    with pytest.raises(ParameterError, match=said):
        together(FLIP)(images(FLIP, "uint8", "FHWC"), **given)


def test_batches_need_boxes_for_each_sample_and_one_shape():
    x = images(FLIP, "uint8")
    with pytest.raises(ParameterError, match="flip: boxes, boxes for 3 samples; allowed: 2"):
        together(FLIP)(x, boxes=[BOX] * 3)
    with pytest.raises(
        ParameterError, match="flip: a list of images; allowed: an array, a Sequence, or a Batch"
    ):
        together(FLIP)([x, x])
