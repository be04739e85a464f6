"""Graphs that are built outside of pipelines, and conditions in whatever a definition calls."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from seqpipe.dali import Pipeline, fn, ops, pipeline_def, types
from tests.dali.conftest import ON_CPU

IMAGE = np.arange(240, dtype=np.uint8).reshape(8, 10, 3) // 2


def source(_):
    return [IMAGE, IMAGE + 1]


def results(*outputs):
    """The samples of a pipeline of nodes that were made before it."""
    pipe = Pipeline(batch_size=2, **ON_CPU)
    pipe.set_outputs(*outputs)
    return [[np.asarray(part) for part in output] for output in pipe.run()]


def images():
    return fn.external_source(source=source, layout="HWC")


def test_functions_and_arithmetic_outside_of_pipelines():
    x = images()
    flipped, more, cut = results(fn.flip(x, horizontal=1), x * 2 + types.Constant([1, 2, 3]), x[1:3])
    for n in range(2):
        assert (flipped[n] == (IMAGE + n)[:, ::-1]).all()
        assert (more[n] == (IMAGE.astype(int) + n) * 2 + [1, 2, 3]).all()
        assert (cut[n] == (IMAGE + n)[1:3]).all()


def test_objects_outside_of_pipelines():
    read, flip = ops.ExternalSource(source=source, layout="HWC"), ops.Flip(horizontal=1)
    x = read()
    flipped, same = results(flip(x), x)
    assert (flipped[1][:, ::-1] == same[1]).all()


def test_several_outputs_outside_of_pipelines():
    one, other = fn.external_source(source=lambda _: ([1, 2], [3, 4]), num_outputs=2)
    summed, second = results(one + other, other)
    assert [int(value) for value in summed] == [4, 6]
    assert [int(value) for value in second] == [3, 4]


def test_one_graph_in_two_pipelines():
    x = images()
    flipped = fn.flip(x, horizontal=1)
    assert (results(flipped)[0][0] == IMAGE[:, ::-1]).all()
    assert (results(x + 1)[0][0] == IMAGE + 1).all()


def test_nodes_from_outside_within_a_pipeline():
    x, angles = images(), fn.external_source(source=lambda _: np.float32([180, 180]))
    pipe = Pipeline(batch_size=2, **ON_CPU)
    with pipe:
        pipe.set_outputs(fn.rotate(x, angle=angles, keep_size=True))
    assert (pipe.run()[0].at(0) == IMAGE[::-1, ::-1]).all()


@pytest.mark.parametrize("by_name", [True, False])
def test_feeding_a_source_from_outside(by_name):
    x = fn.external_source(name="x")
    pipe = Pipeline(batch_size=2, **ON_CPU)
    pipe.set_outputs(x + 1)
    pipe.build()
    pipe.feed_input("x" if by_name else x, [IMAGE, IMAGE])
    assert (pipe.run()[0].at(1) == IMAGE + 1).all()


def test_draws_from_outside_have_the_seed_of_their_pipeline():
    def drawn(seed):
        pipe = Pipeline(batch_size=2, seed=seed, **ON_CPU)
        pipe.set_outputs(fn.random.uniform())
        return pipe.run()[0].as_array().tolist()

    assert drawn(1) == drawn(1) != drawn(2)


class Adds:
    amount = 2

    def __call__(self, x, condition):
        if condition > 0:
            y = x + self.amount
        else:
            y = x - self.amount
        return y

    def method(self, x, condition):
        return x + self.amount if condition else x - self.amount

    @staticmethod
    def static(x, condition):
        if condition:
            x = x + 2
        else:
            x = x - 2
        return x


class AddsBySuper(Adds):
    def __call__(self, x, condition):
        if condition:
            y = super().__call__(x, condition)
        else:
            y = x - 2
        return y


def wrapped(function):
    @functools.wraps(function)
    def call(*arguments):
        return function(*arguments)

    return call


@wrapped
def decorated(x, condition):
    return Adds.static(x, condition)


def sums(x, condition):
    for amount in (2, 3):
        y = x + amount if condition else x - amount
        yield y


@pytest.mark.parametrize(
    "function",
    [
        Adds(),
        Adds().method,
        Adds.static,
        AddsBySuper(),
        functools.partial(Adds.static),
        decorated,
        lambda x, condition: x + 2 if condition else x - 2,
        lambda x, condition: next(iter(sums(x, condition))),
        lambda x, condition: next(y for y in [Adds()(x, condition)]),
    ],
)
def test_conditions_in_what_a_definition_calls(function):
    @pipeline_def(batch_size=2, enable_conditionals=True, **ON_CPU)
    def pipe():
        return function(
            fn.external_source(source=lambda _: np.int32([5, 6])),
            fn.external_source(source=lambda _: np.int32([1, 0])),
        )

    assert pipe().run()[0].as_array().tolist() == [7, 4]
