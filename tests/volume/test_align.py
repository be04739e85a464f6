"""align: parts of a sample on different grids come to one, and to the same places."""

from __future__ import annotations

import numpy as np
import pytest

import seqpipe
from seqpipe import ops
from seqpipe.errors import ParameterError
from seqpipe.parts import Labels, Points
from seqpipe.volume import align, resample


def field(shape, affine):
    """A volume whose values follow from their places in mm alone."""
    places = np.einsum("ij,jdhw->idhw", affine[:3, :3], np.indices(shape)) + affine[:3, 3, None, None, None]
    values = (places * np.reshape([1.0, 0.5, -0.25], (3, 1, 1, 1))).sum(axis=0).astype(np.float32)
    return seqpipe.Sequence(values[..., None], "DHWC", affine=affine)


CT = np.array([[0, 0, 1.0, -10], [0, 1.0, 0, -8], [2.0, 0, 0, -6], [0, 0, 0, 1]])
PET = np.array([[0, 0.2, -3.0, 22], [0, 3.0, 0.2, -16], [2.5, 0, 0, -9], [0, 0, 0, 1]])


@pytest.fixture
def sample():
    label = np.zeros((12, 12, 14), np.uint8)
    label[4:8, 3:8, 4:9] = 3
    return {
        "ct": field((8, 16, 20), CT),
        "pet": field((12, 12, 14), PET),
        "mask": Labels(seqpipe.Sequence(label[..., None], "DHWC", affine=PET), classes=4),
        "tips": Points(np.array([[1.0, 2.0, 3.0]]), unit="mm"),
    }


def test_parts_come_to_the_grid_of_the_first_image(sample):
    done = align(sample)
    assert done["ct"] is sample["ct"]
    assert done["tips"] is sample["tips"]
    assert np.array_equal(done["pet"].affine, CT)
    np.testing.assert_allclose(done["pet"].data, sample["ct"].data, atol=1e-4)
    assert isinstance(done["mask"], Labels)
    assert done["mask"].classes == 4
    assert set(np.unique(done["mask"].array)) == {0, 3}
    wanted = resample(sample["mask"].data, like=sample["ct"], interp="vote", fill_value=0)
    assert np.array_equal(done["mask"].array, wanted.data)


def test_another_part_and_interpolation_can_be_chosen(sample):
    done = align(sample, "pet", interp="nearest", fill_value=-500.0)
    assert done["pet"] is sample["pet"]
    assert done["mask"] is sample["mask"]
    assert done["ct"].shape == sample["pet"].shape
    assert done["ct"].data.min() == -500.0


def test_labels_are_background_outside_of_their_grid(sample):
    full = Labels(seqpipe.Sequence(np.full((8, 16, 20, 1), 3, np.uint8), "DHWC", affine=CT), classes=4)
    done = align({"pet": sample["pet"], "mask": full}, fill_value=-500.0)
    assert set(np.unique(done["mask"].array)) == {0, 3}


def test_operators_name_it_where_grids_differ_and_take_what_it_gives(sample):
    for op in (ops.RandomAffine3d(rotate=(10, 10, 10)), ops.Flip(horizontal=1)):
        with pytest.raises(ParameterError, match=r"seqpipe\.volume\.align\(sample\) resamples"):
            op(sample if op.name == "random_affine3d" else {n: sample[n] for n in ("mask", "ct")})
        done = op(align(sample))
        assert done["ct"].shape == done["pet"].shape


def test_stored_integers_are_scaled_first(sample):
    stored = seqpipe.Sequence(np.full((12, 12, 14, 1), 5, np.int16), "DHWC", affine=PET, scale=(2.0, 0.5))
    done = align({"ct": sample["ct"], "pet": stored})
    assert (done["pet"].data == 10.5).all()
    assert done["pet"].scale is None


def test_what_has_no_place_is_refused(sample):
    with pytest.raises(ParameterError, match="bare has no affine; allowed: sequences DHWC"):
        align({**sample, "bare": np.zeros((3, 4, 5))})
    with pytest.raises(ParameterError, match="no image or labels 'mr'; allowed: ct, pet, mask"):
        align(sample, "mr")
    with pytest.raises(ParameterError, match="the sample has no images"):
        align({"tips": sample["tips"]})
