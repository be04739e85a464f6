"""How graphs do it: each node once, values let go after their last use, lines of operators as one chain."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from seqpipe import fn, ops
from seqpipe.ops import Chain
from seqpipe.pipeline import Graph, Input
from seqpipe.pipeline.steps import GraphStep
from tests.support.outcomes import same

X = np.random.default_rng(1).integers(0, 256, (4, 3, 14, 18, 3), dtype=np.uint8)
WHERE = {"epoch": 2, "index": [9, 4, 6, 5]}
TURN = {"fill_value": 0, "keep_size": True}


def numbers(op):
    """What random numbers are for the samples of these tests."""
    return op.drawn(**WHERE)


@pytest.fixture
def steps(monkeypatch):
    """What steps gave, as references that keep nothing alive; and how many of these lived when each began."""
    made, living = [], []
    plain = GraphStep.value

    def value(self, given, run):
        gc.collect()
        living.append(sum(one() is not None for one in made))
        result = plain(self, given, run)
        made.append(weakref.ref(result))
        return result

    monkeypatch.setattr(GraphStep, "value", value)
    return made, living


def test_a_node_is_evaluated_once_and_let_go_after_its_last_use(steps):
    made, living = steps
    first = fn.flip(Input("x"))
    mean = fn.reductions.mean(first, axes=(1, 2, 3, 4))  # the second use of first
    second = fn.brightness(first, brightness=100 / mean)  # its last
    third = fn.reverse(fn.rotate(second, angle=30.0, **TURN))  # one step, for nobody else uses second
    graph = Graph(fn.reductions.max(third, axes=(1, 2, 3, 4)))
    (found,) = graph(x=X)
    assert len(made) == 5
    # nothing; flip; flip, mean; flip, 100 / mean; the chain
    assert living == [0, 1, 2, 2, 1]
    assert made[-1]() is found
    assert [one() is None for one in made] == [True] * 4 + [False]


def test_outputs_stay_and_are_given_as_often_as_they_are_asked_for(steps):
    made, _ = steps
    node = fn.flip(Input("x"))
    later = fn.reverse(node)
    found = Graph(node, later, node)(x=X)
    assert len(made) == 2
    assert found[0] is found[2] is made[0]()
    same(found[1], fn.reverse(fn.flip(X)))


def lined_up(x, layout=None):
    small = fn.random_resized_crop(x, size=(9, 8), seed=1, layout=layout)
    flipped = fn.flip(small, horizontal=fn.random.coin_flip(seed=5), layout=layout)
    return small, fn.crop_mirror_normalize(flipped, mean=100.0, std=50.0, layout=layout)


def test_a_line_of_operators_is_one_chain_and_one_kernel(emulated):
    _, last = lined_up(Input("x"))
    graph = Graph(last)
    flags = numbers(ops.random.CoinFlip(seed=5))
    chain = Chain(
        ops.RandomResizedCrop(size=(9, 8), seed=1),
        ops.Flip(horizontal=flags),
        ops.CropMirrorNormalize(mean=100.0, std=50.0),
    )
    before = emulated.launches
    same(
        graph(x=X, backend="cuda", device=emulated, **WHERE),
        (chain(X, backend="cuda", device=emulated, **WHERE),),
    )
    assert emulated.launches - before == 2
    same(graph(x=X, backend="reference", **WHERE), (chain(X, backend="reference", **WHERE),))
    assert graph.explain() == (
        "1. random.coin_flip(seed=5): numbers in main memory → numbers float64 on cpu\n"
        "2. random_resized_crop → flip → crop_mirror_normalize: one kernel; parameters from %2"
    )


def test_what_others_need_ends_a_line():
    small, last = lined_up(Input("x"))
    assert "2. random_resized_crop: one kernel\n3. flip → crop_mirror_normalize" in "".join(
        "\n" + line for line in _renumbered(Graph(last, small))
    )
    mean = fn.reductions.mean(small, axes=(1, 2, 3, 4))
    lines = Graph(fn.brightness(last, brightness=mean)).explain()
    assert "random_resized_crop: one kernel\n" in lines
    assert "flip → crop_mirror_normalize → brightness: one kernel; parameters from" in lines


def _renumbered(graph):
    """The lines of an explanation with kernels, from 2 on."""
    lines = [line.partition(". ")[2] for line in graph.explain().splitlines() if "kernel" in line]
    return [f"{number}. {line}" for number, line in enumerate(lines, 2)]


@pytest.mark.parametrize("layout", ["NFCHW", "NFHWC"])
def test_a_line_has_one_layout_and_follows_it(layout):
    x = np.ascontiguousarray(np.moveaxis(X, -1, 2)) if layout == "NFCHW" else X
    _, last = lined_up(Input("x"), layout)
    graph = Graph(fn.flip(last, vertical=True, layout=layout))
    assert "→ flip → crop_mirror_normalize → flip: one kernel" in graph.explain()
    small = fn.random_resized_crop(x, size=(9, 8), seed=1, layout=layout, **WHERE)
    flipped = fn.flip(small, horizontal=numbers(ops.random.CoinFlip(seed=5)), layout=layout)
    done = fn.crop_mirror_normalize(flipped, mean=100.0, std=50.0, layout=layout)
    same(graph(x=x, **WHERE), (fn.flip(done, vertical=True, layout=layout),))


def test_another_layout_than_that_which_comes_ends_a_line():
    arranged = fn.crop_mirror_normalize(Input("x"), output_layout="CHW", dtype="uint8")
    for layout, joined in (("NFCHW", False), (None, False)):
        graph = Graph(fn.flip(arranged, layout=layout))
        assert ("crop_mirror_normalize → flip" in graph.explain()) == joined
        by_hand = fn.flip(fn.crop_mirror_normalize(X, output_layout="CHW", dtype="uint8"), layout=layout)
        same(graph(x=X), (by_hand,))
    known = fn.crop_mirror_normalize(Input("x"), output_layout="CHW", dtype="uint8", layout="NFHWC")
    graph = Graph(fn.flip(known, layout="NFCHW"))
    assert "crop_mirror_normalize → flip: one kernel" in graph.explain()
    by_hand = fn.flip(fn.crop_mirror_normalize(X, output_layout="CHW", dtype="uint8"), layout="NFCHW")
    same(graph(x=X), (by_hand,))


@pytest.mark.parametrize("fuse", ["exact", "compose"])
def test_a_chain_of_nodes_is_that_chain(fuse):
    angle = fn.random.uniform(range=(-30.0, 30.0), seed=3)
    steps = (ops.Rotate(angle=angle, **TURN), ops.WarpAffine(matrix=(1.1, 0.1, 0, 0, 0.9, 1), fill_value=0))
    graph = Graph(fn.flip(Chain(*steps, fuse=fuse)(Input("x"))))
    drawn = numbers(ops.random.Uniform(range=(-30.0, 30.0), seed=3))
    by_hand = Chain(ops.Rotate(angle=drawn, **TURN), steps[1], fuse=fuse)(X, **WHERE)
    same(graph(x=X, **WHERE), (fn.flip(by_hand),))
    assert ("one mapping, interpolated once" in graph.explain()) == (fuse == "compose")
    same(Graph.from_json(graph.to_json())(x=X, **WHERE), graph(x=X, **WHERE))


def test_thousands_of_nodes_one_after_the_other_need_no_deep_stack():
    node, number = Input("x"), fn.random.uniform(seed=1)
    for _ in range(3000):
        number = number + 0.25
    for _ in range(400):
        node = fn.flip(node)
    graph = Graph(node, number)
    image, found = Graph.from_json(graph.to_json())(x=X)
    same(image, X)
    wanted = ops.random.Uniform(seed=1).drawn(index=range(4))
    for _ in range(3000):
        wanted = wanted + 0.25
    same(found, wanted)
    assert len(repr(graph)) < 200_000


def test_threads_may_call_one_graph_at_once():
    _, last = lined_up(Input("images"))
    graph = Graph(fn.rotate(last, angle=fn.random.uniform(range=(-9.0, 9.0)), **TURN))
    wanted = [graph(images=X, epoch=n, index=0) for n in range(8)]
    with ThreadPoolExecutor(4) as pool:
        for found, other in zip(
            pool.map(lambda n: graph(images=X, epoch=n, index=0), range(8)), wanted, strict=True
        ):
            same(found, other)


def test_operators_that_await_nothing_stay_the_same_with_what_they_keep():
    waits, rests = ops.Brightness(brightness=Input("b")), ops.Flip(horizontal=True)
    chain = Chain(waits, rests)
    settled = chain.bound([np.array([2.0])])
    assert settled == Chain(ops.Brightness(brightness=np.array([2.0])), rests)
    assert settled.ops[1] is rests
    assert settled.bound([]) is settled
