"""Expressions whose types and values DALI 2.4 gives: reflected signs, powers, maxima, casts; and kinds of errors."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from seqpipe.dali import fn, math, types
from seqpipe.errors import ParameterError, SourceNotFoundError
from tests.dali.conftest import array, one, run


def numbers(*values, dtype=np.int32):
    return array(values, dtype)


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda: 5 << numbers(1, 2, 3), ("INT32", [10, 20, 40])),
        (lambda: types.Constant(100).int16() >> numbers(1, 2, dtype=np.uint8), ("INT16", [50, 25])),
        (lambda: abs(numbers(-2, 3)), ("INT32", [2, 3])),
        (lambda: 2 ** numbers(-3, 0, 4), ("INT32", [0, 1, 16])),
        (lambda: math.pow(numbers(-1, 1, 3), -3), ("INT32", [-1, 1, 0])),
        (lambda: numbers(1, 0, dtype=bool) * numbers(1, 1, dtype=bool), ("BOOL", [True, False])),
        (lambda: math.max(numbers(1, 9, dtype=np.uint8), types.Constant(3).int16()), ("INT16", [3, 9])),
        (lambda: math.min(2.5, numbers(1, 9, dtype=np.uint8)), ("FLOAT", [1.0, 2.5])),
        (lambda: math.clamp(numbers(1, 9, dtype=np.uint8), 2, 5), ("INT32", [2, 5])),
        (lambda: math.atan2(numbers(0, 0), numbers(1, 2, dtype=np.float64)), ("FLOAT64", [0.0, 0.0])),
    ],
)
def test_types_and_values(make, wanted):
    assert one(make)[0][:2] == wanted


@pytest.mark.parametrize(
    ("values", "kind", "wanted"),
    [
        ([0.5, 1.5, 2.5, -0.5, 300, -3], types.UINT8, [1, 2, 3, 0, 255, 0]),
        (
            [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3e9, -3e9],
            types.INT32,
            [1, 2, 3, -1, -2, -3, 2**31 - 1, -(2**31)],
        ),
        ([0.5, 0.0, -0.1], types.BOOL, [True, False, False]),
        ([0.49999997], types.INT32, [0]),
    ],
)
def test_casts_round_halves_away_from_zero(values, kind, wanted):
    assert one(lambda: fn.cast(array(values, np.float32), dtype=kind))[0][1] == wanted


def test_errors_are_of_dalis_kinds(tmp_path):
    """DALI's users catch RuntimeError for runs; TypeError, ValueError or RuntimeError for arguments."""
    image = lambda: array(np.zeros((4, 4, 3)), np.uint8, "HWC")  # noqa: E731  a node of the pipeline that is defined
    for kind in (ParameterError, ValueError, TypeError, RuntimeError):
        with pytest.raises(kind, match="there is no argument 'nonsense'"):
            run(lambda: fn.crop(image(), crop=(2, 2), nonsense=3))
        with pytest.raises(kind, match=r"crop=\(9, 9\) of images of 4×4 pixels"):
            run(lambda: fn.crop(image(), crop=(9, 9)))
    for kind in (SourceNotFoundError, FileNotFoundError, RuntimeError):
        with pytest.raises(kind, match="there is no such file") as caught:
            run(lambda: fn.readers.file(files=[str(tmp_path / "none.jpg")]))
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (type(copied), str(copied)) == (SourceNotFoundError, str(caught.value))
    with pytest.raises(TypeError, match="truth value for each sample"):
        run(lambda: 1 if image() else 2)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("sum", [-2, 3]), ("mean", [-2, 3]), ("max", [-2, 3]), ("mean_square", [4, 9]), ("rms", [2, 3])],
)
def test_reductions_without_axes_keep_each_value(name, wanted):
    reduce = getattr(fn.reductions, name)
    assert one(lambda: reduce(numbers(-2, 3, dtype=np.float32), axes=()))[0][1] == wanted


def test_deviations_without_axes_are_zero():
    def program():
        x = numbers(-2, 3, dtype=np.float32)
        return fn.reductions.std_dev(x, fn.reductions.mean(x, axes=()), axes=())

    assert one(program)[0][1] == [0, 0]


def test_choices_among_elements_of_nodes():
    def program():
        rows, chances = numbers([4, 5], [6, 7], dtype=np.int64), array([0, 1, 0], np.float32)
        return (
            fn.random.choice(rows, shape=[3]),
            fn.random.choice(numbers(8, 8, dtype=np.uint8)),
            fn.random.choice(3, p=chances, shape=4),
            fn.random.choice(array(1, np.int32)),
        )

    rows, same, weighted, below = one(program)
    assert rows[0] == "INT64"
    assert all(row in ([4, 5], [6, 7]) for row in rows[1])
    assert same[:2] == ("UINT8", 8)
    assert weighted[:2] == ("INT32", [1, 1, 1, 1])
    assert below[:2] == ("INT32", 0)
    with pytest.raises(ParameterError, match=r"argument \"p\". Expected \{3\}, but got \{2\}"):
        run(lambda: fn.random.choice(3, p=array([1, 1], np.float32)))


def test_slices_of_no_axes():
    whole = np.arange(6).reshape(2, 3)
    assert one(lambda: fn.slice(array(whole, np.uint8), start=[], end=[], axes=[]))[0][1] == whole.tolist()
