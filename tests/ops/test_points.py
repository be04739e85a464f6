"""coord_transform against OpenCV, and what DALI 2.4.0 gave on a CPU."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from seqpipe import fn
from seqpipe.errors import ParameterError
from seqpipe.ops import CoordTransform, WarpAffine, per_frame
from seqpipe.ops.core.blocks import resolve
from seqpipe.ops.core.spec import Spec

POINTS = np.array([[1.0, 2.0], [3.0, 5.0], [-1.0, 4.0]], np.float32)
# arguments, and what DALI 2.4 made of POINTS
SEEN = [
    ({"M": (1.0, 2, 3, 4)}, [5, 11, 13, 29, 7, 13]),
    ({"M": 2.0}, [2, 4, 6, 10, -2, 8]),
    ({"T": (1.0, -1)}, [2, 1, 4, 4, 0, 3]),
    ({"T": 3.0}, [4, 5, 6, 8, 2, 7]),
    ({"MT": (1.0, 2, 10, 3, 4, 20)}, [15, 31, 23, 49, 17, 33]),
    ({"MT": 2.0}, [2, 4, 6, 10, -2, 8]),
    ({"M": (0.0, 1, 1, 0), "T": (5.0, 6)}, [7, 7, 10, 9, 9, 5]),
    ({}, [1, 2, 3, 5, -1, 4]),
]


@pytest.mark.parametrize(("arguments", "wanted"), SEEN, ids=str)
def test_points_move_as_in_dali(arguments, wanted):
    found = fn.coord_transform(POINTS, **arguments)
    assert found.dtype == np.float32
    assert found.ravel().tolist() == wanted
    assert not np.shares_memory(found, POINTS)


def test_rows_may_stand_in_arrays():
    wanted = fn.coord_transform(POINTS, M=(1, 2, 3, 4), T=(5, 6))
    for matrix in (((1, 2), (3, 4)), [[1, 2], [3, 4]], np.array([[1.0, 2], [3, 4]])):
        np.testing.assert_array_equal(fn.coord_transform(POINTS, M=matrix, T=(5, 6)), wanted)
    np.testing.assert_array_equal(fn.coord_transform(POINTS, MT=[[1, 2, 5], [3, 4, 6]]), wanted)


def test_opencv_agrees():
    rng = np.random.default_rng(0)
    points, both = rng.normal(0, 100, (40, 2)), rng.normal(0, 1, (2, 3))
    found = fn.coord_transform(points, MT=both, dtype="float64")
    np.testing.assert_allclose(found, cv2.transform(points[:, None], both)[:, 0], rtol=1e-5, atol=1e-4)


def test_axes_before_the_last_may_be_any():
    for shape in ((2,), (4, 2), (3, 4, 2), (2, 3, 4, 2)):
        x = np.random.default_rng(1).normal(size=shape)
        found = fn.coord_transform(x, M=((0, -1), (1, 0)), dtype=None)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, np.stack([-x[..., 1], x[..., 0]], axis=-1))


def test_a_map_for_each_sample_and_for_each_frame():
    matrices = np.random.default_rng(2).normal(size=(3, 2, 2))
    found = fn.coord_transform([POINTS, POINTS + 1, POINTS[:0]], M=matrices)
    for x, matrix, result in zip([POINTS, POINTS + 1, POINTS[:0]], matrices, found, strict=True):
        np.testing.assert_allclose(result, x @ matrix.T, rtol=1e-5)
    clip = np.stack([POINTS, POINTS * 2, POINTS * 3])
    found = fn.coord_transform(clip, M=per_frame(matrices), T=per_frame([[1, 0], [0, 1], [2, 2]]))
    np.testing.assert_allclose(
        found,
        np.einsum("fij,fkj->fki", matrices, clip) + np.array([[1, 0], [0, 1], [2, 2]])[:, None],
        rtol=1e-5,
    )


def test_what_is_drawn_depends_on_the_sample_alone():
    op = CoordTransform(T=((-5, 5), (-5, 5)), p=0.7, seed=4)
    found = op([POINTS] * 40)
    shifts = np.stack([(result - POINTS) for result in found])
    assert np.ptp(shifts, axis=1).max() < 1e-5
    assert 15 < (np.abs(shifts).max(axis=(1, 2)) > 0).sum() < 38
    for n in (0, 17, 39):
        np.testing.assert_array_equal(op(POINTS, index=n), found[n])
    frames = CoordTransform(T=((-5, 5), (-5, 5)), per_frame=True)(np.stack([POINTS] * 9))
    assert len({frame.tobytes() for frame in frames}) == 9


def test_points_go_where_warp_affine_moves_pixels():
    """The matrix of warp_affine leads from the result to the source, unless it is told otherwise."""
    op = WarpAffine(matrix=(0.9, 0.2, -1.0, -0.1, 1.1, 0.5), inverse_map=False)
    spec = Spec(1, 40, 50, 3, "uint8")
    (mapping,) = op.mappings(resolve(op, [spec], 0, [0]).rows, spec).each()
    wanted = mapping.points(POINTS)
    np.testing.assert_allclose(fn.coord_transform(POINTS, MT=op.matrix), wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "least", "most"), [("int64", -(2**63), 2**63 - 1024), ("uint64", 0, 2**64 - 2048)]
)
def test_64_bits_saturate_at_the_last_number_that_doubles_hold(dtype, least, most):
    far = np.array([[2**62, 2**62]]).astype(dtype)
    assert fn.coord_transform(far, M=(8.0, 0, 0, -8.0), dtype=dtype).tolist() == [[most, least]]


def test_whole_numbers_and_tensors(torch):
    given = fn.coord_transform(POINTS, M=torch.tensor([[1, 2], [3, 4]]))
    np.testing.assert_array_equal(given, fn.coord_transform(POINTS, M=(1, 2, 3, 4)))
    x = torch.tensor([[1, 2], [3, 5]])
    found = fn.coord_transform(x, M=0.5, dtype=None)
    assert torch.equal(found, torch.tensor([[0, 1], [2, 2]]))  # halves to even
    assert fn.coord_transform(x, T=300.0, dtype="uint8").tolist() == [[255, 255], [255, 255]]
    assert fn.coord_transform(x, M=2.0).dtype == torch.float32


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: fn.coord_transform(np.zeros((3, 3)), T=1.0),
            r"coord_transform: points of float64 of shape \(3, 3\); allowed",
        ),
        (lambda: fn.coord_transform(np.zeros((3, 2), bool), T=1.0), "points of bool of shape"),
        (
            lambda: fn.coord_transform(POINTS, M=((1, 2), (3,))),
            "coord_transform: M=.* is not valid; allowed: an",
        ),
        (
            lambda: fn.coord_transform(POINTS, M=np.float32),
            "coord_transform: M is an array of object .* allowed: 4",
        ),
        (lambda: fn.coord_transform(POINTS, MT=np.eye(2)), "coord_transform: MT.* allowed: 6 values"),
        (
            lambda: fn.coord_transform(POINTS, T=per_frame([[1, 2]])),
            r"T has values for \(1,\); allowed: \(3,\), the frames",
        ),
        (
            lambda: fn.coord_transform([POINTS], M=np.ones((2, 4))),
            r"M has values for \(2,\); allowed: \(1,\), the samples",
        ),
        (lambda: fn.coord_transform([], T=1.0), "coord_transform: a list of no arrays; allowed: one or more"),
        (
            lambda: fn.coord_transform(POINTS, M=10**400),
            r"coord_transform: M=10{400} is not valid; allowed: .*none beyond 3.40282e\+38",
        ),
        (lambda: fn.coord_transform("here", T=1.0), "coord_transform: an object of type str is not an array"),
    ],
)
def test_what_are_no_points_is_refused(call, said):
    with pytest.raises(ParameterError, match=said):
        call()
