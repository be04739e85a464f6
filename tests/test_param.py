"""Param: what it lets through, and the message for what it does not."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe.core.param import Param, choice
from seqpipe.errors import ParameterError

LENGTH = Param(name="sequence_length", doc="frames in a sequence", unit="frames", lo=1)
RATE = Param(name="fps", doc="Frames per second.", kind=float, unit="1/s", lo=0.5, hi=1000)
ANY_NUMBER = Param(name="gain", doc="A factor.", kind=float)
PAD = choice("pad_mode", "What stands beyond the end.", ["none", "edge"])


@pytest.mark.parametrize(
    ("param", "value", "kept"),
    [
        (LENGTH, 1, 1),
        (LENGTH, 3.0, 3),
        (LENGTH, np.int64(7), 7),
        (LENGTH, Fraction(4, 2), 2),
        (LENGTH, 2**70 + 1, 2**70 + 1),
        (RATE, 0.5, 0.5),
        (RATE, 1000, 1000.0),
        (RATE, np.float32(25), 25.0),
        (RATE, Fraction(30000, 1001), 30000 / 1001),
        (PAD, "edge", "edge"),
        (Param(name="shuffle", doc="Shuffle.", kind=bool), False, False),
        (Param(name="color", doc="Color.", kind=str), "RGB", "RGB"),
        (Param(name="step", doc="Step.", lo=1, optional=True), None, None),
        (choice("mode", "Mode.", ["a"], optional=True), None, None),
    ],
)
def test_what_fits_comes_back_as_its_kind(param, value, kept):
    checked = param.check(value)
    assert checked == kept
    assert type(checked) is type(kept)


@pytest.mark.parametrize(
    ("param", "value"),
    [
        (LENGTH, 0),
        (LENGTH, -1),
        (LENGTH, 1.5),
        (LENGTH, True),
        (LENGTH, np.True_),
        (LENGTH, None),
        (LENGTH, "3"),
        (LENGTH, float("nan")),
        (LENGTH, float("inf")),
        (LENGTH, np.array([3])),
        (LENGTH, [3]),
        (LENGTH, 3 + 0j),
        (RATE, 0.49),
        (RATE, 1000.1),
        (RATE, float("nan")),
        (RATE, float("-inf")),
        (RATE, 10**400),
        (RATE, Decimal(25)),
        (RATE, False),
        (PAD, "Edge"),
        (PAD, None),
        (PAD, 0),
        (Param(name="shuffle", doc="Shuffle.", kind=bool), 1),
        (Param(name="color", doc="Color.", kind=str), b"RGB"),
    ],
    ids=repr,
)
def test_what_does_not_fit_is_named(param, value):
    with pytest.raises(ParameterError) as caught:
        param.check(value)
    assert f"{param.name}={value!r} is not valid; allowed: {param.allowed}. " in str(caught.value)
    sentence = str(caught.value).removeprefix(
        f"{param.name}={value!r} is not valid; allowed: {param.allowed}. "
    )
    assert sentence.lower() == param.doc.lower().rstrip(".") + "."
    assert sentence[0].isupper()


@pytest.mark.parametrize(
    ("param", "words"),
    [
        (LENGTH, "a whole number of at least 1 frame"),
        (RATE, "a number from 0.5 to 1000 1/s"),
        (ANY_NUMBER, "a number"),
        (Param(name="level", doc="Level.", hi=255), "a whole number of at most 255"),
        (Param(name="step", doc="Step.", lo=1, optional=True), "a whole number of at least 1 or None"),
        (Param(name="shuffle", doc="Shuffle.", kind=bool), "True or False"),
        (Param(name="color", doc="Color.", kind=str), "a string"),
        (PAD, "'none', 'edge'"),
        (choice("mode", "Mode.", ["a", "b"], optional=True), "'a', 'b' or None"),
    ],
)
def test_bounds_are_put_into_words(param, words):
    assert param.allowed == words


@given(
    st.integers(-50, 50) | st.none(),
    st.integers(-50, 50) | st.none(),
    st.integers(-60, 60) | st.floats(-60, 60),
)
def test_exactly_the_closed_interval_fits(lo, hi, value):
    param = Param(name="x", doc="X.", kind=float, lo=lo, hi=hi)
    if (lo is None or lo <= value) and (hi is None or value <= hi):
        assert param.check(value) == value
    else:
        with pytest.raises(ParameterError):
            param.check(value)


@given(st.floats())
def test_a_whole_number_is_whole_and_finite(value):
    param = Param(name="n", doc="N.")
    if value.is_integer():
        assert param.check(value) == value
    else:
        with pytest.raises(ParameterError, match="a whole number"):
            param.check(value)
