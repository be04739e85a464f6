"""Resampling by cubic B-splines, judged by scipy.ndimage of order 3."""

from __future__ import annotations

import numpy as np
import pytest

import seqpipe
from seqpipe.resampling.gather import gather
from seqpipe.resampling.mapping import Mapping3
from seqpipe.volume import VolumeReader, resample, save

AFFINE = np.eye(4)[:, [2, 1, 0, 3]]


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize(
    ("fill", "mode"), [(0.0, "grid-constant"), (7.0, "grid-constant"), (None, "nearest")]
)
def test_it_is_scipy_s_order_three(fill, mode, parallel):
    ndimage = pytest.importorskip("scipy.ndimage")
    rng = np.random.default_rng(0)
    array = rng.random((9, 11, 13), np.float32)
    matrix = np.eye(4)
    matrix[:3, :3] += rng.normal(0, 0.15, (3, 3)) * (np.eye(3) if parallel else 1)
    matrix[:3, 3] = -1.2, 0.4, 0.7
    expected = ndimage.affine_transform(
        array.astype(float), matrix, order=3, mode=mode, cval=fill or 0, output_shape=(8, 12, 10)
    )
    made = gather(array[..., None], Mapping3((8, 12, 10), matrix), "bspline", fill, double=True)
    places = (
        np.einsum("ij,jdhw->idhw", matrix[:3, :3], np.indices((8, 12, 10))) + matrix[:3, 3, None, None, None]
    )
    inside = ((places >= 0) & (places <= np.reshape(array.shape, (3, 1, 1, 1)) - 1)).all(axis=0)
    assert np.abs(made[..., 0] - expected)[inside].max() < 1e-5
    if fill is not None:
        assert np.abs(made[..., 0] - expected).max() < 1e-3


@pytest.mark.parametrize("parallel", [True, False])
def test_far_outside_is_the_fill_value(parallel):
    matrix = np.eye(4)
    matrix[0, 1] = 0.0 if parallel else 0.1
    matrix[2, 3] = 40.0  # beyond the last column by more than any spline reaches
    made = gather(
        np.ones((5, 6, 7, 1), np.float32), Mapping3((5, 6, 7), matrix), "bspline", -3.0, double=True
    )
    assert (made == -3.0).all()


def test_windows_are_those_of_the_whole_and_integers_are_rounded(tmp_path):
    values = np.random.default_rng(1).normal(0, 300, (30, 32, 34, 1)).astype(np.int16)
    volume = seqpipe.Sequence(values, "DHWC", affine=AFFINE)
    save(volume, tmp_path / "v.nii")
    whole = resample(volume, 0.8, interp="bspline")
    assert whole.dtype == np.int16
    with VolumeReader(tmp_path / "v.nii") as reader:
        fine = reader.resample(0.8, interp="bspline")
        window = fine[12:20, 15:22, 10:30]
    assert np.abs(window.data.astype(int) - whole.data[12:20, 15:22, 10:30]).max() <= 1
    same = resample(volume, like=volume, interp="bspline")
    assert np.array_equal(same.data, values)
