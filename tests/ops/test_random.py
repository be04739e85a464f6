"""Random numbers as nodes: those of NumPy's generators at the streams that operators draw from."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe import fn, ops
from seqpipe.errors import ParameterError
from seqpipe.ops import DataNode
from seqpipe.random import stream

INDICES = [3, 0, 2**40]


@pytest.mark.parametrize("frames", [None, 5])
@pytest.mark.parametrize(
    ("op", "drawn"),
    [
        (ops.random.Uniform(range=(-3.0, 9.0), seed=4), lambda rng, shape: rng.uniform(-3, 9, shape)),
        (ops.random.Normal(mean=2.0, stddev=0.5, seed=4), lambda rng, shape: rng.normal(2, 0.5, shape)),
        (
            ops.random.Choice(of=(3, 5, 7), seed=4),
            lambda rng, shape: np.array([3, 5, 7])[rng.integers(0, 3, shape)],
        ),
        (
            ops.random.Choice(of=(1.5, 2.5), weights=(3, 1), seed=4),
            lambda rng, shape: np.where(rng.random(shape) < 0.75, 1.5, 2.5),
        ),
        (ops.random.CoinFlip(probability=0.25, seed=4), lambda rng, shape: rng.random(shape) >= 0.75),
    ],
    ids=lambda value: value.name if isinstance(value, ops.Declaration) else "",
)
def test_they_are_those_of_numpy(op, drawn, frames):
    op = type(op)(**{**op.settings(), "per_frame": frames is not None})
    found = op.drawn(epoch=6, index=INDICES, frames=frames)
    assert found.dtype == np.float64
    assert found.shape == ((3,) if frames is None else (3, frames))
    for index, row in zip(INDICES, found, strict=True):
        np.testing.assert_array_equal(row, drawn(stream(4, op.name, 6, index), frames))
        np.testing.assert_array_equal(row, op.drawn(epoch=6, index=index, frames=frames))


@pytest.mark.parametrize(
    ("op", "mean", "deviation"),
    [
        (ops.random.Uniform(range=(0.0, 6.0)), 3.0, 3**0.5),
        (ops.random.Normal(mean=-1.0, stddev=2.0), -1.0, 2.0),
        (ops.random.Choice(of=(0, 4), weights=(1, 3)), 3.0, 3**0.5),
        (ops.random.CoinFlip(probability=0.2), 0.2, 0.4),
    ],
    ids=lambda value: value.name if isinstance(value, ops.Declaration) else "",
)
def test_they_are_spread_as_is_asked_for(op, mean, deviation):
    found = op.drawn(index=range(4000))
    assert abs(found.mean() - mean) < 4 * deviation / 4000**0.5
    assert abs(found.std() / deviation - 1) < 0.05


def test_a_function_gives_a_node_and_takes_nothing():
    node = fn.random.uniform(range=(0.0, 2.0), seed=3)
    assert isinstance(node, DataNode)
    assert isinstance(ops.random.Uniform(range=(0.0, 2.0), seed=3)(), DataNode)
    assert repr(node) == "<DataNode random.uniform(range=(0.0, 2.0), seed=3)>"
    with pytest.raises(TypeError, match="positional argument"):
        fn.random.uniform(np.zeros(3))


def test_numbers_of_frames_need_their_number():
    with pytest.raises(
        ParameterError, match=r"random.normal: per_frame=True, and the number of frames is not"
    ):
        ops.random.Normal(per_frame=True).drawn(index=[1, 2])
