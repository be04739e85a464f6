"""``types.Constant`` in arithmetic and as an argument, with the values and types of DALI 2.4."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe.dali import fn, math, types
from seqpipe.errors import ParameterError
from tests.dali.conftest import array, one, run

IMAGE = np.arange(240, dtype=np.uint8).reshape(8, 10, 3)


def image():
    return array(IMAGE, np.uint8, "HWC")


@pytest.mark.parametrize(
    ("constant", "dtype", "number"),
    [
        (types.Constant(4).uint8(), "UINT8", 4),
        (types.Constant(4), "INT32", 4),
        (types.Constant(4.5), "FLOAT", 4.5),
        (types.Constant(4).int64(), "INT64", 4),
        (types.Constant(7, dtype=types.INT16), "INT16", 7),
        (types.Constant(2).float16(), "FLOAT16", 2),
        (types.Constant(np.uint8(3)), "UINT8", 3),
        (types.ScalarConstant(3, types.UINT8), "UINT8", 3),
    ],
)
def test_arithmetic_with_numbers_of_a_type(constant, dtype, number):
    ((kind, values, _),) = one(lambda: constant + image())
    assert kind == dtype
    assert (np.array(values) == (IMAGE + number if dtype != "UINT8" else IMAGE + np.uint8(number))).all()


@pytest.mark.parametrize("values", [[1, 2, 3], np.array([1, 2, 3], np.int16)])
def test_arithmetic_with_arrays(values):
    added, halved, equal = one(
        lambda: (
            types.Constant(values) + image(),
            types.Constant(values) / types.Constant([2, 2, 2]),
            types.Constant(values) == 2,
        )
    )
    assert (np.array(added[1]) == IMAGE.astype(int) + [1, 2, 3]).all()
    assert halved[:2] == ("FLOAT", [0.5, 1.0, 1.5])
    assert equal[:2] == ("BOOL", [False, True, False])


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda: types.Constant(2.5, dtype=types.INT32), ("INT32", 2)),
        (lambda: types.Constant([1.7, 2.5], dtype=types.INT32), ("INT32", [2, 3])),
        (lambda: types.Constant(2**40), ("INT32", 2**31 - 1)),
        (lambda: types.Constant(np.int64([1, 2])), ("INT32", [1, 2])),
        (lambda: types.Constant(np.float64([1, 2])), ("FLOAT", [1.0, 2.0])),
        (lambda: types.Constant([True, False]), ("BOOL", [True, False])),
        (lambda: types.Constant([4, 5, 6])[1], ("INT32", 5)),
        (lambda: fn.cast(types.Constant(2.5), dtype=types.INT32), ("INT32", 3)),
        (lambda: fn.stack(types.Constant(3), types.Constant(4)), ("INT32", [3, 4])),
        (lambda: math.max(types.Constant([4.0]), array([3, 7], np.uint8)), ("FLOAT", [4.0, 7.0])),
    ],
)
def test_as_values(make, wanted):
    assert one(make)[0][:2] == wanted


@pytest.mark.parametrize(
    ("call", "plain"),
    [
        (lambda c: fn.slice(image(), c(2), c(5), axes=[1]), lambda: IMAGE[:, 2:7]),
        (lambda c: fn.slice(image(), start=c([2, 1]), end=c([5, 4]), axes=[1, 0]), lambda: IMAGE[1:4, 2:5]),
        (lambda c: fn.crop(image(), crop=(4, 4), crop_pos_x=c(0.0), crop_pos_y=c(1)), lambda: IMAGE[4:, :4]),
        (lambda c: fn.flip(image(), horizontal=c(1), vertical=c(1)), lambda: IMAGE[::-1, ::-1]),
        (lambda c: fn.rotate(image(), angle=c(180.0), fill_value=c(0)), lambda: IMAGE[::-1, ::-1]),
        (lambda c: fn.resize(image(), size=c(np.float32([8, 10]))), lambda: IMAGE),
        (lambda c: fn.resize(image(), resize_x=c(10), resize_y=c(8.0)), lambda: IMAGE),
        (lambda c: fn.reshape(array(IMAGE, np.uint8), shape=c([80, 3])), lambda: IMAGE.reshape(80, 3)),
        (lambda c: image()[c(2)], lambda: IMAGE[2]),
        (lambda c: image()[c(2) : 5, : c(4).int32()], lambda: IMAGE[2:5, :4]),
        (lambda c: fn.zeros(shape=c([2, 3])), lambda: np.zeros((2, 3))),
        (lambda c: fn.full(c(7), shape=(2, 2)), lambda: np.full((2, 2), 7)),
        (lambda c: fn.random.uniform(range=c([3.0, 3.0])), lambda: 3.0),
        (lambda c: fn.random.normal(mean=c(1.0), stddev=c(0.0)), lambda: 1.0),
        (lambda c: fn.random.coin_flip(probability=c(1.0)), lambda: 1),
        (lambda c: fn.random.choice(c([4, 4, 4])), lambda: 4),
        (lambda c: fn.random.choice([4.0, 5.0], p=c([1.0, 0.0])), lambda: 4),
        (lambda c: fn.transforms.translation(offset=c([1.0, 2.0])), lambda: [[1, 0, 1], [0, 1, 2]]),
        (lambda c: fn.normalize(image(), mean=c(3.0), stddev=c(2.0)), lambda: (IMAGE.astype(float) - 3) / 2),
        (lambda c: fn.pad(image(), shape=c([9, 10, 3]), fill_value=c(5))[8], lambda: np.full((10, 3), 5)),
        (
            lambda c: fn.erase(
                image(), anchor=c([0.0]), shape=c([1.0]), axis_names="H", normalized=True, fill_value=c(7)
            ),
            lambda: np.full((8, 10, 3), 7),
        ),
        (
            lambda c: fn.crop_mirror_normalize(image(), mirror=c(1), mean=c([0.0, 1, 2]), std=c(2.0)),
            lambda: ((IMAGE[:, ::-1].astype(float) - [0, 1, 2]) / 2).transpose(2, 0, 1),
        ),
        (
            lambda c: fn.coord_transform(array([[1, 2]], np.float32), T=c([1.0, 2.0])),
            lambda: [[2, 4]],
        ),
    ],
)
def test_as_arguments(call, plain):
    assert np.allclose(run(lambda: call(types.Constant))[0][0].at(0), plain())


def test_properties_and_refusals():
    number = types.Constant(3).uint8()
    assert (number.value, str(number.dtype), int(number), bool(number)) == (3, "DALIDataType.UINT8", 3, True)
    assert types.Constant(3) == types.Constant(3)
    assert types.Constant(3) != types.Constant(3).uint8()
    with pytest.raises(ParameterError, match="a str as a constant; allowed: a number"):
        types.Constant("three")
