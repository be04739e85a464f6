"""``fn.warp_affine`` in three dimensions, judged by SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from seqpipe.dali import fn, types
from seqpipe.errors import ParameterError
from tests.dali.conftest import array, run

VOLUME = np.random.default_rng(0).normal(size=(8, 9, 10, 2)).astype(np.float32)
MATRIX = np.float32([[0.9, 0.1, 0.05, 1], [-0.1, 1.1, 0.02, 0.5], [0.03, 0.07, 0.95, -0.5]])


def warped(volume=VOLUME, layout="DHWC", **options):
    """The result for a volume; nodes among the options are made by functions."""

    def program():
        made = {name: value() if callable(value) else value for name, value in options.items()}
        return fn.warp_affine(array(volume, volume.dtype, layout), **made)

    return run(program)[0][0].at(0)


def by_scipy(matrix, size=VOLUME.shape[:3], order=1, mode="constant", fill=0.0):
    """DALI's matrix maps x, y and z of corners; SciPy's z, y and x of centers."""
    linear, offset = np.float64(matrix)[::-1, 2::-1], np.float64(matrix)[::-1, 3]
    options = {"output_shape": size, "order": order, "mode": mode, "cval": fill}
    offset = offset + linear @ np.full(3, 0.5) - 0.5
    parts = [ndimage.affine_transform(VOLUME[..., c], linear, offset, **options) for c in range(2)]
    return np.stack(parts, axis=-1)


def inside(result, size=VOLUME.shape[:3], fill=0.0):
    """Where SciPy interpolates between voxels: at borders DALI fades to the fill value, and SciPy does not."""
    return np.abs(by_scipy(MATRIX, size, mode="nearest") - by_scipy(MATRIX, size, fill=1e6)) < 1


@pytest.mark.parametrize(
    "matrix",
    [
        MATRIX,
        MATRIX.ravel().tolist(),
        lambda: array(MATRIX, np.float32),
        lambda: types.Constant(MATRIX),
        lambda: fn.transforms.combine(
            fn.transforms.translation(offset=[0.0, 0.0, 0.0]), array(MATRIX, np.float32)
        ),
    ],
)
def test_matrices(matrix):
    found = warped(matrix=matrix, fill_value=0.0)
    same = inside(found)
    assert same.mean() > 0.4
    assert np.allclose(found[same], by_scipy(MATRIX)[same], atol=1e-4)


def test_the_border_is_repeated_without_a_fill_value():
    found = warped(matrix=MATRIX)
    assert np.allclose(found, by_scipy(MATRIX, mode="nearest"), atol=1e-4)


@pytest.mark.parametrize("size", [(5, 6, 12), (5.4, 6.5, 12.2), lambda: array([5, 6, 12], np.float32)])
def test_sizes(size):
    """Slices, rows and columns, rounded half up."""
    found = warped(matrix=MATRIX, size=size)
    assert found.shape == ((5, 7, 12, 2) if isinstance(size, tuple) and size[1] == 6.5 else (5, 6, 12, 2))
    assert np.allclose(found, by_scipy(MATRIX, found.shape[:3], mode="nearest"), atol=1e-4)


def test_a_matrix_from_the_source_to_the_result():
    whole = np.vstack([MATRIX, [0, 0, 0, 1]])
    wanted = warped(matrix=np.linalg.inv(whole)[:3], fill_value=0.0)
    assert np.allclose(warped(matrix=MATRIX, inverse_map=False, fill_value=0.0), wanted, atol=1e-4)


def test_layouts_types_and_frames():
    whole = VOLUME * 50 + 100
    wanted = warped(whole, matrix=MATRIX, fill_value=0.0)
    first = np.ascontiguousarray(whole.transpose(3, 0, 1, 2))
    assert np.allclose(warped(first, "CDHW", matrix=MATRIX, fill_value=0.0), wanted.transpose(3, 0, 1, 2))
    two = np.stack([whole, whole])
    assert np.allclose(warped(two, "FDHWC", matrix=MATRIX, fill_value=0.0), [wanted, wanted])
    numbers = whole.clip(0, 255).astype(np.uint8)
    exact = warped(numbers, matrix=MATRIX, fill_value=7.0, dtype=types.FLOAT)
    assert np.allclose(warped(numbers, matrix=MATRIX, fill_value=7.0), exact, atol=0.501)


def test_nearest_voxels():
    moved = [1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0]
    found = warped(matrix=moved, interp_type=types.INTERP_NN, fill_value=-1.0)
    assert (found[:, :, :-1] == VOLUME[:, :, 1:]).all()
    assert (found[:, :, -1] == -1).all()


def test_refusals():
    with pytest.raises(
        ParameterError, match=r"matrix has 12 values; allowed: values: 6 for samples of 2 axes"
    ):
        warped(VOLUME[0], "HWC", matrix=MATRIX)
    with pytest.raises(ParameterError, match="matrix is missing; allowed: 6 values, 12 for volumes"):
        warped()
    with pytest.raises(ParameterError, match="interp_type='cubic'; allowed: types"):
        warped(matrix=MATRIX, interp_type=types.INTERP_CUBIC)
