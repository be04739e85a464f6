"""Conditions on nodes: each form of the design's table, draws in branches, and what is refused with its line."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import numpy as np
import pytest

from seqpipe.dali import fn, pipeline_def, types
from seqpipe.dali.pipeline import do_not_convert
from seqpipe.errors import ParameterError
from tests.dali.conftest import ON_CPU


def number():
    return fn.external_source(lambda info: np.int32(info.idx_in_epoch), batch=False, dtype=types.INT32)


def values(function, **options):
    settings = {"batch_size": 4, "enable_conditionals": True, **ON_CPU, **options}
    pipe = pipeline_def(**settings)(function)()
    return [output.as_array().tolist() for output in pipe.run()]


def if_else():
    x = number()
    if x > 1:
        y = x * 10
    else:
        y = -x
    return y


def if_alone():
    x = number()
    y = x
    if x > 1:
        y = x + 100
    return y


def elif_():
    x = number()
    if x == 0:
        y = x + 1
    elif x == 1:
        y = x + 2
    else:
        y = x + 3
    return y


def nested():
    x = number()
    if x > 0:
        if x > 2:
            y = x * 100
        else:
            y = x * 10
    else:
        y = x - 5
    return y


def early_return():
    x = number()
    if x > 1:
        return x
    x = x - 1
    return -x


def two_early_returns():
    x = number()
    if x == 0:
        return x + 10
    if x == 1:
        return x + 20
    return x + 30


def in_a_loop():
    x = number()
    for q in range(3):
        if x > q:
            x = x + q
    return x


def continue_():
    x = number()
    for _ in range(3):
        if x > 1:
            continue
        x = x + 1
    return x


def python_break():
    x = number()
    for q in range(3):
        if q == 1:
            break
        x = x + 1
    return x


def in_with():
    x = number()
    if x > 1:
        with contextlib.nullcontext():
            y = x * 2
    else:
        y = x
    return y


def in_try():
    x = number()
    try:
        if x > 1:
            y = x * 2
        else:
            y = x
    except ValueError:
        y = x
    return y


def _helper(z):
    if z > 1:
        return z * 10
    return z * 100


def in_called_functions():
    def inner(z):
        if z > 2:
            return z
        return _helper(z)

    return inner(number())


def numbers_in_both():
    if number() > 1:
        y = 5
    else:
        y = 6
    return y


def number_and_node():
    x = number()
    if x > 1:
        y = 5
    else:
        y = x
    return y


def tuples():
    x = number()
    if x > 1:
        y, z = x, x * 2
    else:
        y, z = x * 3, x
    return y + 100 * z


def dictionaries():
    x = number()
    if x > 1:
        y = {"a": x * 2}
    else:
        y = {"a": x}
    return y["a"]


def added_in_place():
    x = number()
    if x > 1:
        x += 10
    return x


def entries_and_attributes():
    class Box:
        pass

    x, box = number(), Box()
    box.v, y = x, [x]
    if x > 1:
        box.v = x * 3
        y[0] = x * 5
    return box.v + 100 * y[0]


def conditional_expression():
    x = number()
    return x if x > 1 else -x


def plain_condition():
    x, flag = number(), True
    if flag:
        y = x + 1
    else:
        y = undefined  # noqa: F821  never gone through
    return y


def returns_in_both_inner_branches():
    x = number()
    if x > 1:
        if x > 2:
            return x * 100
        else:  # noqa: RET505  the form that is tried
            return x * 10
    y = x - 1
    return y


def return_in_one_inner_branch():
    x = number()
    if x > 0:
        y = x * 2
        if x > 2:
            return y * 100
        elif x > 1:  # noqa: RET505  the form that is tried
            y += 5
    else:
        y = x - 7
    return y


def nested_function_with_names_of_its_own():
    x = number()
    if x > 1:

        def more(y):
            z = y + 1
            return z

        x = more(x)
    return x


def chain_of_three():
    x = number()
    y = x + 1
    return (0 < x < y < 4) * 1


FORMS = [
    (returns_in_both_inner_branches, [-1, 0, 20, 300]),
    (return_in_one_inner_branch, [-7, 2, 9, 600]),
    (nested_function_with_names_of_its_own, [0, 1, 3, 4]),
    (chain_of_three, [0, 1, 1, 0]),
    (if_else, [0, -1, 20, 30]),
    (if_alone, [0, 1, 102, 103]),
    (elif_, [1, 3, 5, 6]),
    (nested, [-5, 10, 20, 300]),
    (early_return, [1, 0, 2, 3]),
    (two_early_returns, [10, 21, 32, 33]),
    (in_a_loop, [0, 1, 5, 6]),
    (continue_, [2, 2, 2, 3]),
    (python_break, [1, 2, 3, 4]),
    (in_with, [0, 1, 4, 6]),
    (in_try, [0, 1, 4, 6]),
    (in_called_functions, [0, 100, 20, 3]),
    (numbers_in_both, [6, 6, 5, 5]),
    (number_and_node, [0, 1, 5, 5]),
    (tuples, [0, 103, 402, 603]),
    (dictionaries, [0, 1, 4, 6]),
    (added_in_place, [0, 1, 12, 13]),
    (entries_and_attributes, [0, 101, 1006, 1509]),
    (conditional_expression, [0, -1, 2, 3]),
    (plain_condition, [1, 2, 3, 4]),
]


@pytest.mark.parametrize(("function", "wanted"), FORMS, ids=lambda one: getattr(one, "__name__", ""))
def test_forms(function, wanted):
    assert values(function) == [wanted]


def test_and_or_not_and_chains():
    def function():
        x = number()
        between = 0 < x < 3
        return (x > 1) and (x < 3), (x > 1) or (x == 0), not x > 1, between

    assert values(function) == [
        [False, False, True, False],
        [True, False, True, True],
        [True, True, False, False],
        [False, True, True, False],
    ]


def test_a_condition_is_true_of_numbers_other_than_0():
    def function():
        x = number()
        if x:
            y = x * 2
        else:
            y = x - 7
        return y

    assert values(function) == [[-7, 2, 4, 6]]


def test_a_sample_draws_the_same_in_any_branch():
    def function():
        x = number()
        whole = fn.random.uniform(range=[0.0, 1.0], seed=1)
        if x > 1:
            part = fn.random.uniform(range=[0.0, 1.0], seed=1)
        else:
            part = whole * 0
        return whole, part

    whole, part = values(function)
    assert part == [0, 0, *whole[2:]]


def test_operators_within_a_branch_and_a_batch_that_goes_one_way():
    def function():
        image = fn.external_source(
            lambda info: np.full((8, 8, 3), 10 * info.idx_in_epoch, np.uint8), batch=False, layout="HWC"
        )
        if fn.external_source(lambda: [np.bool_(True)] * 4):
            image = fn.brightness(fn.flip(image, horizontal=fn.random.coin_flip()), brightness=2.0)
        else:
            image = fn.invert(image)
        return image, fn.shapes(image)

    image, shape = values(function)
    assert [row[0][0][0] for row in image] == [0, 20, 40, 60]
    assert shape == [[8, 8, 3]] * 4


def break_():
    x = number()
    for _ in range(3):
        if x > 1:
            break
        x = x + 1
    return x


def while_():
    x = number()
    while x > 3:
        x = x - 1
    return x


def assert_():
    x = number()
    assert x > 1
    return x


def bool_():
    return bool(number())


@pytest.mark.parametrize("function", [break_, while_, assert_, bool_])
def test_forms_that_do_not_work_say_which_do(function):
    with pytest.raises(
        ParameterError, match=r"test_conditions.py:\d+ .*conditional context.*choose by arithmetic"
    ):
        values(function)


def test_without_conditionals_the_advice_says_how():
    with pytest.raises(
        ParameterError, match=r"specify `enable_conditionals=True` in `@seqpipe.dali.pipeline_def`"
    ):
        values(if_else, enable_conditionals=False)


def test_a_name_that_one_branch_sets():
    def function():
        x = number()
        if x > 1:
            y = x
        return y

    with pytest.raises(
        ParameterError, match=r"test_conditions.py:\d+ \(function\): y is set in one branch alone"
    ):
        values(function)


def test_branches_of_different_types():
    def function():
        x = number()
        y = fn.cast(x, dtype=types.FLOAT) if x > 1 else x
        return y

    with pytest.raises(
        ParameterError, match=r"the branches give float32 of 0 axes and int32 of 0 axes.*fn\.cast"
    ):
        values(function)


def test_a_condition_with_axes():
    def function():
        x = fn.external_source(lambda info: np.array([info.idx_in_epoch, 1], np.int32), batch=False)
        return x if x else x + 1

    with pytest.raises(
        ParameterError, match=r"a condition of the shape \(2,\); allowed: one number for each sample"
    ):
        values(function)


def test_a_function_that_is_not_converted_keeps_its_own_conditions():
    @do_not_convert
    def chosen(x, flag):
        return x + 1 if flag else x

    @do_not_convert
    def asks_a_node(x):
        return x + 1 if x > 1 else x

    def plain():
        return chosen(number(), True)

    def refused():
        return asks_a_node(number())

    assert values(plain) == [[1, 2, 3, 4]]
    with pytest.raises(ParameterError, match="truth value for each sample of a batch"):
        values(refused)


def test_tracebacks_show_the_lines_of_the_user():
    def function():
        x = number()
        if x > 1:
            x = x / "wrong"
        return x

    with pytest.raises(ParameterError) as caught:
        values(function)
    line = function.__code__.co_firstlineno + 3
    assert any(str(entry.path) == __file__ and entry.lineno + 1 == line for entry in caught.traceback)


class Pair(NamedTuple):
    first: Any
    second: Any


def test_named_tuples_of_both_branches_are_merged_field_by_field():
    def function():
        x = number()
        pair = Pair(x + 100, -x) if x > 1 else Pair(x, x * 2)
        return pair.first, pair.second

    def statement():
        x = number()
        if x > 1:
            pair = Pair(x + 100, -x)
        else:
            pair = Pair(x, x * 2)
        return pair.first, pair.second

    assert values(function) == values(statement) == [[0, 1, 102, 103], [0, 2, -2, -3]]
