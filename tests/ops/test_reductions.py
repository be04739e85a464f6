"""Reductions against NumPy, and what DALI 2.4.0 gave on a CPU."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from seqpipe import Batch, Sequence, fn
from seqpipe.errors import ParameterError
from seqpipe.ops.statistics import reductions
from tests.support.deep import combined
from tests.support.operators import images, printed

X = np.array(
    [
        [[217, 163, 130, 69], [78, 10, 19, 4], [44, 208, 166, 233]],
        [[128, 155, 248, 186], [161, 139, 143, 239], [71, 208, 171, 0]],
    ],
    np.uint8,
)
# nvidia.dali.fn.reductions of X, FHW: arguments, and shape and values of the result
SEEN = [
    ("mean", {}, (), "132.916672"),
    ("mean", {"axis_names": "HW"}, (2,), "111.75 154.083344"),
    ("mean", {"axis_names": "WF"}, (3,), "162 99.125 137.625"),
    ("mean", {"axes": (-1,), "keep_dims": True}, (2, 3, 1), "144.75 27.75 162.75 179.25 170.5 112.5"),
    ("sum", {}, (), "3190"),
    ("sum", {"axes": (0,)}, (3, 4), "345 318 378 255 239 149 162 243 115 416 337 233"),
    ("sum", {"axis_names": "WF"}, (3,), "1296 793 1101"),
    ("min", {"axes": (0,)}, (3, 4), "128 155 130 69 78 10 19 4 44 208 166 0"),
    ("min", {"axis_names": "HW"}, (2,), "4 0"),
    ("max", {"axes": (-1,), "keep_dims": True}, (2, 3, 1), "217 78 233 248 239 208"),
    ("max", {}, (), "248"),
    ("mean_square", {}, (), "23574.668"),
    ("mean_square", {"axis_names": "HW"}, (2,), "19077.084 28072.25"),
    ("rms", {}, (), "153.540451"),
    ("rms", {"axis_names": "WF"}, (3,), "170.230728 127.167702 159.918335"),
]
# likewise, with the mean that DALI was given
SPREAD = [
    ("std_dev", 100.0, {}, (), "83.6141968"),
    ("std_dev", 100.0, {"ddof": 3}, (), "89.3873291"),
    ("std_dev", None, {"axes": (1, 2)}, (2,), "81.1727829 65.8071136"),
    ("std_dev", None, {"axes": (1, 2), "ddof": 1}, (2,), "84.7822113 68.7332916"),
    ("variance", 100.0, {}, (), "6991.3335"),
    ("variance", None, {"axis_names": "HW", "keep_dims": True}, (2, 1, 1), "6589.021 4330.57666"),
    ("variance", 100.0, {"ddof": 3}, (), "7990.09521"),
]
# the type that DALI gave for each type
SUMS = {"uint8": "uint64", "uint16": "uint64", "uint32": "uint64", "uint64": "uint64", "int8": "int64"}
SUMS |= {"int16": "int64", "int32": "int64", "int64": "int64", "float32": "float32"}


@pytest.mark.parametrize(("name", "arguments", "shape", "values"), SEEN)
def test_reductions_are_dalis(name, arguments, shape, values):
    found = getattr(fn.reductions, name)(X, layout="FHW", **arguments)
    assert found.shape == shape
    np.testing.assert_allclose(found.ravel(), printed(values), rtol=2e-7)


@pytest.mark.parametrize(("name", "mean", "arguments", "shape", "values"), SPREAD)
def test_distances_from_a_mean_are_dalis(name, mean, arguments, shape, values):
    function = getattr(fn.reductions, name)
    own = X.mean((1, 2))
    for given in (
        (None, own, own[:, None, None].astype(np.float32)) if mean is None else (mean, np.array([mean]))
    ):
        found = function(X, given, layout="FHW", **arguments)
        assert found.shape == shape
        np.testing.assert_allclose(found.ravel(), printed(values), rtol=1e-6)


@pytest.mark.parametrize("dtype", SUMS)
def test_types_are_dalis(dtype):
    x = np.ones((2, 3), dtype)
    assert fn.reductions.sum(x).dtype == SUMS[dtype]
    for name in ("min", "max"):
        assert getattr(fn.reductions, name)(x).dtype == dtype
    for name in ("mean", "mean_square", "rms", "std_dev", "variance"):
        assert getattr(fn.reductions, name)(x).dtype == np.float32


NUMPY = {
    "mean": np.mean,
    "sum": np.sum,
    "min": np.min,
    "max": np.max,
    "std_dev": np.std,
    "variance": np.var,
    "mean_square": lambda x, axes, **more: np.mean(x * x, axes, **more),
    "rms": lambda x, axes, **more: np.sqrt(np.mean(x * x, axes, **more)),
}


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize("layout", ["HW", "CHW", "FHWC", "NFHWC"])
def test_any_axes_of_any_layout_are_those_of_numpy(name, layout):
    op = reductions.Mean()
    x = images(op, "float64", layout)
    for count in range(1, len(layout) + 1):
        for axes in itertools.combinations(range(len(layout)), count):
            for keep in (False, True):
                found = getattr(fn.reductions, name)(x, axes=axes, keep_dims=keep)
                np.testing.assert_allclose(found, NUMPY[name](x, axes, keepdims=keep), rtol=1e-12, atol=1e-15)
                names = "".join(layout[axis] for axis in axes)
                by_name = getattr(fn.reductions, name)(x, axis_names=names, layout=layout, keep_dims=keep)
                np.testing.assert_array_equal(by_name, found)


def test_numbers_count_the_axes_of_a_sample():
    x = images(reductions.Mean(), "uint8")
    assert fn.reductions.mean(x).shape == ()
    assert fn.reductions.mean(x, layout="NFHWC").shape == (2,)
    batch = Batch.of([Sequence(one) for one in x])
    for axes, wanted in ((None, x.mean((1, 2, 3, 4))), ((0,), x.mean(1)), ((-1,), x.mean(-1))):
        for value, layout in ((x, "NFHWC"), (batch, None)):
            found = fn.reductions.mean(value, axes=axes, layout=layout)
            assert isinstance(found, np.ndarray)
            np.testing.assert_allclose(found, wanted, rtol=1e-6)
    np.testing.assert_allclose(fn.reductions.mean(batch, axis_names="HW"), x.mean((2, 3)), rtol=1e-6)
    np.testing.assert_allclose(fn.reductions.mean(batch[0], axes=0), x[0].mean(0), rtol=1e-6)


def test_samples_of_different_shapes_have_results_of_their_own():
    parts = [Sequence(X, "FHW"), Sequence(X[:, :2], "FHW")]
    for value in (Batch.of(parts), parts):
        found = fn.reductions.max(value, axis_names="F")
        assert [result.shape for result in found] == [(3, 4), (2, 4)]
    assert [int(one) for one in fn.reductions.sum([X, X[:1]])] == [3190, 1341]


def test_what_is_a_tensor_stays_one(torch):
    x = torch.arange(24, dtype=torch.uint8).reshape(2, 3, 4)
    found = fn.reductions.mean(x, axes=(0, 2))
    assert isinstance(found, torch.Tensor)
    assert torch.equal(found, x.double().mean((0, 2)).float())
    found = fn.reductions.variance(x, torch.tensor([3.0, 4.0, 5.0]), axes=(0, 2))
    assert torch.allclose(found, ((x - torch.tensor([3.0, 4.0, 5.0])[:, None]) ** 2).mean((0, 2)))


def test_volumes_are_named_by_slices_or_frames():
    x = images(reductions.Mean(), "int16", "DHWC")
    for names in ("D", "F"):
        np.testing.assert_array_equal(fn.reductions.sum(x, axis_names=names, layout="DHWC"), x.sum(0))


def test_many_values_are_added_up_exactly():
    """In float32 the sum would stop at 2^24."""
    x = np.ones((5000, 5000), np.uint8)
    assert fn.reductions.mean(x) == 1
    assert fn.reductions.sum(x) == 25_000_000
    assert fn.reductions.std_dev(x) == 0


@pytest.mark.parametrize(
    ("dtype", "from_mean"),
    combined(["bool", "uint8", "uint16", "int16", "float16", "float32"], [False, True]),
)
def test_a_kernel_takes_the_same_mean_squares(emulated, monkeypatch, dtype, from_mean):
    monkeypatch.setattr(reductions, "_MIN_ROW_VALUES", 1)
    rng, info = np.random.default_rng(0), np.iinfo(dtype) if dtype[0] in "ui" else None
    for shape, axes in (((3, 1031), (1,)), ((5, 1, 7), (0,)), ((1, 150_001), (0, 1))):
        high, low = (info.max, info.min) if info else (1, 0)
        nearly = np.full(shape, high, dtype)
        nearly.flat[nearly.size // 2] = low
        values = rng.uniform(low, high + (dtype != "bool"), shape) if info else rng.normal(100, 0.1, shape)
        for x in (values.astype(dtype), nearly, np.full(shape, low, dtype)):
            exact = x.astype(np.longdouble)
            distances = exact - exact.mean(axes, keepdims=True) if from_mean else exact
            for ddof in (0, 2):
                found = reductions.mean_square_by_kernel(
                    x, axes, from_mean=from_mean, ddof=ddof, device=emulated
                )
                wanted = (distances**2).sum(axes, keepdims=True) / (np.prod([shape[a] for a in axes]) - ddof)
                assert found.shape == wanted.shape
                np.testing.assert_allclose(found, wanted.astype(np.float64), rtol=1e-13, atol=1e-300)


def test_the_library_does_what_no_kernel_does():
    for x in (np.ones((3, 2000), np.float64), np.ones((3, 5), np.uint8)):
        assert reductions.mean_square_by_kernel(x, (1,), from_mean=True, device=object()) is None
    assert reductions.mean_square_by_kernel(np.ones((3, 2000), np.uint8), (1,), from_mean=True) is None


def test_they_are_functions_of_their_module():
    assert fn.reductions.std_dev.__name__ == "std_dev"
    assert set(dir(fn.reductions)) == {*NUMPY}
    assert "reductions" in dir(fn)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fn.reductions.mean(X, axes=3), "reductions.mean: axes has 3, of 3 axes; allowed: -3 to 2"),
        (
            lambda: fn.reductions.mean(X, axis_names="F", layout="HWC"),
            "axis_names='F' of an array of layout HWC",
        ),
        (
            lambda: fn.reductions.mean(X[0, 0], axis_names="W"),
            "axis_names='W' of an array of layout unknown; allowed: letters of the layout. Pass the layout of arrays",
        ),
        (
            lambda: fn.reductions.mean(X, layout="HW"),
            "^reductions.mean: layout='HW' names 2 axes, but the array has 3",
        ),
        (
            lambda: fn.reductions.mean(Sequence(X, "FHW"), layout="HWC"),
            "layout='HWC' of what has the layout FHW",
        ),
        (
            lambda: fn.reductions.max(X[:0]),
            r"reductions.max: an array of shape \(0, 3, 4\) holds no values",
        ),
        (
            lambda: fn.reductions.mean(np.zeros((3, 4, 0)), axes=0),
            r"reductions.mean: an array of shape \(3, 4, 0\) holds no values",
        ),
        (
            lambda: fn.reductions.mean(X, axes=(0, -3)),
            r"axes=\(0, -3\) has an axis twice; allowed: each once",
        ),
        (lambda: fn.reductions.mean(X, axis_names="HH"), "axis_names='HH' has an axis twice"),
        (lambda: fn.reductions.std_dev(X, "X"), "^reductions.std_dev: an object of type str is not an array"),
        (
            lambda: fn.reductions.max("X"),
            "reductions.max: an object of type str is not an array; allowed: NumPy",
        ),
        (lambda: fn.reductions.sum(X.astype(complex)), "values of type complex128; allowed: bool, int8"),
        (
            lambda: fn.reductions.std_dev(X, np.zeros(5), axes=0),
            r"std_dev: a mean of shape \(5,\); allowed: a number, or the shape \(3, 4\) or \(1, 3, 4\)",
        ),
    ],
)
def test_what_cannot_be_reduced_is_refused(call, said):
    with pytest.raises(ParameterError, match=said):
        call()


def test_a_name_that_is_none_is_told():
    with pytest.raises(
        AttributeError, match=r"'seqpipe.fn.reductions' has no attribute 'median'; it has max, mean"
    ):
        _ = fn.reductions.median
