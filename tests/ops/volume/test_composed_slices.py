"""Operators on images beside geometry of volumes: one pass over the voxels, with the draws and the metadata of two."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from seqpipe import ops
from seqpipe.errors import ParameterError
from seqpipe.ops import Chain
from seqpipe.parts import Boxes, Labels, Points, as_part
from seqpipe.sequence import Sequence

AFFINE = np.array([[0, 0, 1.5, -20], [0, 1.0, 0, 5], [2.5, 0, 0, 7], [0, 0, 0, 1.0]])
TURN = ops.Rotate(angle=(-30.0, 30.0), fill_value=0.0, seed=3)
MOVE = ops.RandomAffine3d(rotate=(-20.0, 20.0), scale=(0.9, 1.2), seed=1)


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    image = ndimage.gaussian_filter(rng.random((9, 20, 26)), 1).astype(np.float32)[..., None]
    return {
        "image": Sequence(image, "DHWC", affine=AFFINE),
        "label": Labels(Sequence((image * 8).astype(np.uint8), "DHWC", affine=AFFINE)),
        "points": Points(rng.uniform(0, 9, (5, 3))),
        "boxes": Boxes(np.array([[1.0, 2, 3, 4, 9, 8]])),
    }


def one_by_one(chain, sample, **options):
    for op in chain.ops:
        sample = op(sample, **options)
    return sample


def voxels(sample):
    return [as_part(sample[name]).array for name in ("image", "label")]


def drawn(sample):
    return [(entry["op"], entry["drawn"]) for entry in sample.history]


@pytest.mark.parametrize("index", range(3))
@pytest.mark.parametrize(
    "members",
    [(ops.Flip(p=0.5), TURN, MOVE), (MOVE, ops.Flip(), TURN), (TURN, MOVE, ops.Crop(crop=(15, 17)))],
)
def test_one_interpolation_is_that_of_scipy_with_the_product(sample, members, index):
    chain = Chain(*members)
    assert len(chain.groups()) == 1
    found, apart = chain(sample, epoch=1, index=index), one_by_one(chain, sample, epoch=1, index=index)
    assert drawn(found) == drawn(apart)
    assert np.allclose(found["image"].affine, apart["image"].affine)
    assert found["image"].data.shape == apart["image"].data.shape
    assert np.allclose(found["points"].data, apart["points"].data)
    matrix = np.linalg.inv(AFFINE) @ apart["image"].affine
    shape = found["image"].data.shape[:3]
    source = sample["image"].data[..., 0].astype(np.float64)
    wanted = ndimage.affine_transform(
        source, matrix[:3, :3], matrix[:3, 3], shape, order=1, mode="grid-constant"
    )
    assert np.abs(found["image"].data[..., 0] - wanted).max() < 1e-5


@pytest.mark.parametrize(
    "members",
    [
        (ops.Flip(horizontal=False, vertical=True), ops.Rot90()),
        (ops.Crop3d(size=(8, 18, 20)), ops.Crop(crop=(15, 16), crop_pos_x=(0.0, 1.0)), ops.Flip(p=0.5)),
        (ops.Flip(), ops.Flip3d(depth=True)),
    ],
)
def test_whole_voxels_are_moved_as_one_by_one_to_the_last_bit(sample, members):
    chain = Chain(*members)
    assert len(chain.groups()) == 1
    for index in range(4):
        found, apart = chain(sample, index=index), one_by_one(chain, sample, index=index)
        assert drawn(found) == drawn(apart)
        assert all(map(np.array_equal, voxels(found), voxels(apart)))
        assert np.array_equal(found["boxes"].data, apart["boxes"].data)
        assert np.allclose(found["image"].affine, apart["image"].affine)


def test_the_history_of_a_pass_is_replayed_and_inverted(sample):
    done = Chain(ops.Flip(), TURN, MOVE)(sample, index=2)
    again = ops.replay(done.history, sample)
    assert all(map(np.array_equal, voxels(again), voxels(done)))
    back = ops.invert_volume(done.history, done["image"])
    assert np.allclose(back.affine, AFFINE)
    middle = (slice(3, 6), slice(8, 12), slice(10, 16))
    assert np.abs(back.data - sample["image"].data)[middle].max() < 0.05


@pytest.mark.parametrize(
    ("members", "passes"),
    [
        ((ops.Flip(), TURN), 2),  # nothing on volumes beside them
        ((ops.Rotate(angle=5.0), MOVE), 2),  # edges are repeated by one of them
        ((ops.Rotate(angle=5.0, fill_value=0.0, interp_type="cubic"), MOVE), 2),
        ((ops.Rotate(angle=5.0, fill_value=0.0, dtype="float32"), MOVE), 2),
        ((ops.Flip(p=0.5, per_frame=True), MOVE), 2),
        ((ops.WarpPerspective(fill_value=0.0), MOVE), 2),
        ((ops.Flip(), ops.Gamma3d(gamma=2.0), MOVE), 3),
        ((ops.Flip(), ops.Zoom3d(factor=0.5)), 2),  # smoothed in between
        ((ops.Zoom3d(factor=0.5), ops.Flip()), 1),
    ],
)
def test_what_does_not_agree_stays_a_pass_of_its_own(members, passes):
    assert len(Chain(*members).groups()) == passes


def test_arrays_without_a_layout_have_the_axes_of_volumes_throughout():
    x = np.random.default_rng(1).random((4, 5, 6), np.float32)
    found = Chain(ops.Flip(), ops.Flip3d(depth=True, width=False))(x)
    assert np.array_equal(found, x[::-1, :, ::-1])


def test_what_an_operator_on_images_refuses_names_it(sample):
    chain = Chain(ops.Crop(crop=(200, 10)), MOVE)
    with pytest.raises(ParameterError, match=r"crop: crop=\(200, 10\) of images of 20×26 pixels"):
        chain(sample)


def test_the_two_flips_have_the_same_default():
    x = np.random.default_rng(1).random((2, 3, 4, 1), np.float32)
    assert np.array_equal(ops.Flip()(x, layout="DHWC"), ops.Flip3d()(x, layout="DHWC"))
