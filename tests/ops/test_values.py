"""Cast, lookup_table and normalize against torch, SciPy, OpenCV, and what DALI 2.4.0 gave on a CPU."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from scipy import stats

from seqpipe import fn
from seqpipe.errors import ParameterError
from seqpipe.ops import Cast, LookupTable, Normalize, apply, per_frame
from tests.support.operators import compare, images

TYPES = ("uint8", "uint16", "int16", "float16", "float32")

# ------------------------------------------------------------------------------------------ cast


@pytest.mark.parametrize("given", TYPES)
@pytest.mark.parametrize("asked", TYPES)
def test_cast_rounds_and_saturates_as_torch_can(given, asked, torch):
    x = images(Cast, given, "HWC", size=(9, 11))
    wanted = torch.from_numpy(x.astype(np.float64))
    if not asked.startswith("float"):
        bounds = np.iinfo(asked)
        wanted = wanted.round().clamp(bounds.min, bounds.max)  # halves to even
    with np.errstate(over="ignore"):
        compare(fn.cast(x, dtype=asked), wanted.numpy().astype(asked))


def test_cast_of_halves_and_of_what_is_out_of_range(anywhere):
    x = np.array([[-3.5, 0.5, 1.5, 2.5, 254.5, 300.2, np.inf, -np.inf, np.nan]], np.float32)
    assert anywhere(Cast(dtype="uint8"), x).tolist() == [[0, 0, 2, 2, 254, 255, 255, 0, 0]]


def test_cast_there_and_back(levels):
    for dtype in TYPES:
        compare(fn.cast(fn.cast(levels, dtype=dtype), dtype="uint8"), levels)


# ------------------------------------------------------------------------------------------ lookup_table


def test_lookup_table_is_opencvs(anywhere):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (90, 80, 3), dtype=np.uint8)
    for dtype in ("uint8", "uint16", "float32"):
        table = rng.integers(0, 256, 256).astype(dtype)
        compare(anywhere(LookupTable(values=table, dtype=dtype), x), cv2.LUT(x, table))


def test_lookup_table_is_dalis(anywhere):
    """nvidia.dali.fn.lookup_table of these levels: version 2.4.0, device_id=None."""
    x = np.array([[0, 255, 10, 11]], np.uint8)
    table = {"keys": [0, 255, 10], "values": [1.5, 2.5, 7.0], "default_value": 9.0}
    assert anywhere(LookupTable(**table), x).tolist() == [[1.5, 2.5, 7.0, 9.0]]
    assert anywhere(LookupTable(**table), x).dtype == np.float32
    # DALI rounds halves away from 0 and has 3 for 2.5
    assert anywhere(LookupTable(**table, dtype="uint8"), x).tolist() == [[2, 2, 7, 9]]


@pytest.mark.parametrize("dtype", ["uint16", "int16", "float16", "float32"])
def test_what_no_key_is_becomes_the_default(anywhere, dtype):
    x = np.array([[0, 1, 2, 255, 256, 300]], dtype)
    op = LookupTable(keys=(0, 2, 255), values=(10.0, 20.0, 30.0), default_value=-5.0)
    assert anywhere(op, x).tolist() == [[10, -5, 20, 30, -5, -5]]
    if dtype.startswith("float"):
        x = np.array([[0.5, -1.0, 254.5, np.nan, np.inf, -np.inf, 2.0, -0.0]], dtype)
        assert anywhere(op, x).tolist() == [[-5, -5, -5, -5, -5, -5, 20, 10]]
    if dtype == "int16":
        assert anywhere(op, np.array([[-1, -32768]], dtype)).tolist() == [[-5, -5]]


def test_labels_of_a_sequence_get_a_default_for_each_frame():
    x = np.broadcast_to(np.array([[0, 1, 9]], np.uint8), (2, 1, 3))
    found = fn.lookup_table(x, layout="FHW", values=(5.0, 6.0), default_value=per_frame([1.0, 2.0]))
    assert found.tolist() == [[[5, 6, 1]], [[5, 6, 2]]]


# ------------------------------------------------------------------------------------------ normalize

X = np.array([[[10, 20, 30], [200, 100, 50], [17, 130, 255], [128, 128, 128]]], np.uint8)
# nvidia.dali.fn.normalize of X: version 2.4.0, device_id=None; axis_names "HW" is axes=[0, 1]
DALI = [
    (
        Normalize(axis_names="HW"),
        "-0.990845263 -1.6697365 -0.970666945 1.39976561 0.123269133 -0.744272351"
        " -0.902770162 0.79564625 1.57627261 0.493849874 0.750821114 0.138666704",
    ),
    (
        Normalize(axis_names="HWC"),
        "-1.20847321 -1.07369936 -0.938925326 1.35223198 0.00449239695 -0.669377387"
        " -1.11413145 0.40881428 2.09348869 0.381859481 0.381859481 0.381859481",
    ),
    (
        Normalize(axis_names="HW", ddof=1, epsilon=3.0, scale=2.0, shift=1.0),
        "-0.715888858 -1.89043522 -0.681002259 3.42403340 1.21338785 -0.288931727"
        " -0.563365340 2.37732148 3.72979069 1.85522079 2.29972601 1.24014318",
    ),
    (
        Normalize(mean=100.0, stddev=50.0),
        "-1.8 -1.6 -1.4 2.0 0.0 -1.0 -1.66 0.6 3.1 0.56 0.56 0.56",
    ),
    (
        Normalize(mean=100.0, axis_names="HW"),
        "-1.12121785 -1.77953613 -0.780080438 1.24579763 0.0 -0.557200313"
        " -1.03401196 0.667326033 1.72732103 0.348823339 0.622837663 0.312032193",
    ),
    (
        Normalize(mean=(100.0, 50.0, 20.0), stddev=(10.0, 50.0, 20.0)),
        "-9.0 -0.6 0.5 10.0 1.0 1.5 -8.3 1.6 11.75 2.8 1.56 5.4",
    ),
    (
        Normalize(stddev=50.0, axis_names="HW"),
        "-1.575 -1.49 -1.715 2.225 0.11 -1.315 -1.435 0.71 2.785 0.785 0.67 0.245",
    ),
]


@pytest.mark.parametrize(("op", "wanted"), DALI, ids=lambda value: str(value)[:50])
def test_normalize_is_dalis(anywhere, op, wanted):
    if anywhere.takes(op):
        found = anywhere(op, X)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found.ravel(), [float(v) for v in wanted.split()], rtol=2e-6, atol=2e-6)


def test_normalize_to_whole_numbers_is_dalis(anywhere):
    found = anywhere(Normalize(mean=100.0, stddev=50.0, shift=128.0, scale=64.0, dtype="uint8"), X)
    assert found.ravel().tolist() == [13, 26, 38, 255, 128, 64, 22, 166, 255, 164, 164, 164]
    # DALI: epsilon is added to the square of a standard deviation that is given, too
    x = np.array([[10.0, 20.0, 40.0]], np.float32)
    assert anywhere(Normalize(mean=10.0, stddev=3.0, epsilon=16.0), x).tolist() == [[0.0, 2.0, 6.0]]


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32"])
def test_torch_and_scipy_agree(dtype, torch):
    x = images(Normalize, dtype, "FHWC", size=(40, 50))
    as_torch = torch.from_numpy(x.astype(np.float64)).permute(0, 3, 1, 2)
    by_channel = torch.nn.functional.instance_norm(as_torch, eps=1e-3).permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(fn.normalize(x, axis_names="HW", epsilon=1e-3), by_channel, atol=3e-6)
    by_frame = torch.nn.functional.layer_norm(as_torch, as_torch.shape[1:], eps=0.0).permute(0, 2, 3, 1)
    np.testing.assert_allclose(fn.normalize(x, axis_names="HWC"), by_frame.numpy(), atol=3e-6)
    scores = stats.zscore(x.astype(np.float64), axis=(1, 2), ddof=2)
    np.testing.assert_allclose(fn.normalize(x, axis_names="HW", ddof=2), scores, atol=3e-6)


def test_what_is_all_the_same_becomes_the_shift(anywhere):
    op = Normalize(axis_names="HW", shift=0.25)
    if anywhere.takes(op):
        compare(anywhere(op, np.full((4, 4, 3), 77, np.uint8)), np.full((4, 4, 3), 0.25, np.float32))


@pytest.mark.parametrize("channels", [1, 2, 4, 16, 31])
def test_one_mean_for_any_number_of_channels(anywhere, channels):
    x = np.random.default_rng(0).integers(0, 256, (6, 5, channels), dtype=np.uint8)
    found = anywhere(Normalize(mean=64.0, stddev=32.0), x)
    compare(found, (x.astype(np.float32) - 64) / 32)


def test_a_mean_for_each_of_sixteen_channels(anywhere):
    x = np.random.default_rng(0).integers(0, 256, (6, 5, 16), dtype=np.uint8)
    found = anywhere(Normalize(mean=np.arange(16.0), stddev=2.0 ** np.arange(-8, 8)), x)
    compare(found, ((x - np.arange(16.0)) / 2.0 ** np.arange(-8, 8)).astype(np.float32))


def test_channels_that_do_not_fit_are_refused():
    x = np.zeros((4, 4, 3), np.uint8)
    for call, said in (
        (
            lambda: fn.normalize(x, mean=(1.0, 2.0), stddev=3.0),
            "normalize: mean has 2 values, for pixels of 3; allowed: 1 value, or 3",
        ),
        (
            lambda: fn.normalize(x[..., 0], mean=(1.0,) * 3),
            "normalize: mean has 3 values, for pixels of 1; allowed: 1 value",
        ),
        (lambda: fn.lookup_table(x, values=np.zeros(257)), r"257 values are given; allowed: from 1 to 256"),
    ):
        with pytest.raises(ParameterError, match=said):
            call()
    with pytest.raises(
        ParameterError, match="normalize has no kernel; allowed: the backends reference and cpu"
    ):
        apply(Normalize(axis_names="W"), x, backend="cuda")
