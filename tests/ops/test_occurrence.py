"""Operators of one name and one seed draw apart where they are used together, and the first one as it does alone."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from seqpipe import fn, ops
from seqpipe.errors import ParameterError
from seqpipe.ops import Chain, Op, apply, per_frame
from seqpipe.pipeline import Graph, Input
from seqpipe.random import stream

X = np.random.default_rng(3).integers(0, 256, (64, 2, 9, 8, 3), dtype=np.uint8)
WHERE = {"epoch": 2, "index": 5}

# of every way in which numbers are drawn: whether it acts, ranges, steps, choices for frames, a sample() of its own
ALIKE = {
    "p": ops.Flip(p=0.5),
    "ranges": ops.Brightness(brightness=(0.5, 1.5)),
    "frames": ops.Brightness(brightness=per_frame((0.5, 1.5)), p=0.5),
    "steps": ops.TrivialAugmentWide(),
    "sample": ops.RandomErasing(p=0.7),
    "noise": ops.GaussianNoise(stddev=20.0),
}


def flipped(op: Op) -> np.ndarray:
    """Which samples an operator flips."""
    return (op(X, **WHERE) != X).any((1, 2, 3, 4))


def test_two_flips_of_a_chain_are_independent() -> None:
    chain = Chain(ops.Flip(p=0.5), ops.Flip(p=0.5))
    one, other = map(flipped, chain.ops)
    assert 16 < (one == other).sum() < 48
    numbers = [stream(0, "flip#1", 2, 5 + n).random() for n in range(64)]
    assert other.tolist() == [number < 0.5 for number in numbers]
    assert one.tolist() == flipped(ops.Flip(p=0.5)).tolist()
    np.testing.assert_array_equal(
        chain(X, **WHERE), np.where((one ^ other)[:, None, None, None, None], X[:, :, :, ::-1], X)
    )


@pytest.mark.parametrize("name", ALIKE)
def test_every_way_of_drawing_knows_the_occurrence(name: str) -> None:
    op = ALIKE[name]
    first, second, third = Chain(op, op, op).ops
    assert first is op
    assert (second.stream_name, third.stream_name) == tuple(f"{op.stream_name}#{n}" for n in (1, 2))
    results = [one(X, **WHERE).tobytes() for one in (op, second, third)]
    assert len(set(results)) == 3
    alone = second(X[7:8], epoch=2, index=12)
    np.testing.assert_array_equal(alone, second(X, **WHERE)[7:8])
    again = pickle.loads(pickle.dumps(second))
    assert again.stream_name == second.stream_name
    assert again(X, **WHERE).tobytes() == Op.from_json(second.to_json())(X, **WHERE).tobytes() == results[1]


def test_the_count_is_of_equal_name_and_seed() -> None:
    chain = Chain(
        ops.Flip(p=0.5),
        ops.Brightness(brightness=(0.5, 1.5)),
        ops.Flip(p=0.5, seed=1),
        ops.Flip(p=0.9),
        ops.Flip(seed=1),
    )
    assert [op.stream_name for op in chain.ops] == ["flip", "brightness", "flip", "flip#1", "flip#1"]
    # what is taken out of a chain is counted anew where it is put
    assert [op.stream_name for op in Chain(*chain.ops[3:]).ops] == ["flip", "flip"]
    assert [op.stream_name for op in Chain(*chain.ops).ops] == [op.stream_name for op in chain.ops]
    assert [op.stream_name for op in pickle.loads(pickle.dumps(chain)).ops][3:] == ["flip#1", "flip#1"]


@pytest.mark.parametrize("fuse", ["exact", "compose"])
def test_a_chain_is_its_operators_one_by_one(fuse: str) -> None:
    turn = ops.Rotate(angle=(-20.0, 20.0), keep_size=True, fill_value=0)
    chain = Chain(turn, ops.Flip(p=0.5), ops.Flip(p=0.5), turn, fuse=fuse)
    wanted = X
    for op in chain.ops:
        wanted = op(wanted, **WHERE)
    found = chain(X, **WHERE)
    assert (found == wanted).all() == (fuse == "exact")
    assert (
        found
        != Chain(*chain.ops[:3], ops.Rotate(angle=(-20.0, 20.0), keep_size=True, fill_value=0, seed=1))(
            X, **WHERE
        )
    ).any()


def test_kernels_draw_as_the_cpu_does(emulated) -> None:
    chain = Chain(
        ops.Flip(p=0.5),
        ops.Flip(p=0.5),
        ops.Brightness(brightness=(0.5, 1.5)),
        ops.Brightness(brightness=(0.5, 1.5)),
    )
    found = chain(X, **WHERE, backend="cuda", device=emulated)
    np.testing.assert_array_equal(found, chain(X, **WHERE, backend="reference"))
    wanted = X
    for op in chain.ops:
        wanted = apply(op, wanted, **WHERE, backend="reference")
    np.testing.assert_array_equal(found, wanted)


def test_a_graph_counts_over_all_its_nodes_and_chains() -> None:
    flip, chain = ops.Flip(p=0.5), Chain(ops.Flip(p=0.5), ops.Flip(p=0.5))
    graph = Graph(chain(flip(Input("x"))))
    (found,) = graph(x=X, **WHERE)
    np.testing.assert_array_equal(found, Chain(flip, flip, flip)(X, **WHERE))
    node = fn.rotate(
        Input("x"), angle=fn.random.uniform(range=(-9.0, 9.0)), keep_size=True, fill_value=0, p=0.5
    )
    once, twice = (
        Graph(node),
        Graph(
            fn.rotate(node, angle=fn.random.uniform(range=(-9.0, 9.0)), keep_size=True, fill_value=0, p=0.5)
        ),
    )
    assert once.fingerprint != twice.fingerprint
    angle = ops.random.Uniform(range=(-9.0, 9.0)).drawn(epoch=2, index=range(5, 69))
    other = ops.random.Uniform(range=(-9.0, 9.0)).with_occurrence(1).drawn(epoch=2, index=range(5, 69))
    turn = ops.Rotate(angle=other, keep_size=True, fill_value=0, p=0.5).with_occurrence(1)
    wanted = turn(fn.rotate(X, angle=angle, keep_size=True, fill_value=0, p=0.5, **WHERE), **WHERE)
    np.testing.assert_array_equal(twice(x=X, **WHERE)[0], wanted)


def test_an_occurrence_of_json_is_checked() -> None:
    text = ops.Flip(p=0.5).to_json().replace('"op"', '"occurrence": -1, "op"')
    with pytest.raises(
        ParameterError, match="flip: occurrence=-1 is not valid; allowed: a whole number of at least 0"
    ):
        Op.from_json(text)


def test_operators_that_follow_from_their_inputs_know_the_occurrence() -> None:
    images = [X[0, 0], X[0, 0, :, :3]]  # of two widths: the second one is padded, somewhere
    pad = ops.Pad(pad_pos_x=(0.0, 1.0), seed=1)
    normalize = ops.Normalize(axis_names="HW", scale=(0.5, 2.0), seed=1)
    batch = ops.Normalize(axis_names="HW", scale=(0.5, 2.0), batch=True, seed=1)
    for op, x in ((pad, images), (normalize, X[:1]), (batch, X[:1])):
        first, second = Chain(op, op).ops
        pairs = [(first(x, index=n), second(x, index=n)) for n in range(8)]
        assert not all(np.array_equal(one[-1], other[-1]) for one, other in pairs), op
