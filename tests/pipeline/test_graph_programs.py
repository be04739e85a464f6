"""Random programs: written once, run with nodes by a graph and with arrays by eager calls, to the same bits."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from seqpipe import fn, ops
from seqpipe.ops import Chain, per_frame
from seqpipe.ops.core import arithmetic
from seqpipe.pipeline import Graph, Input
from tests.support.outcomes import same

X = np.random.default_rng(3).integers(0, 256, (3, 2, 9, 8, 3), dtype=np.uint8)
WHERE = {"epoch": 4, "index": 11}
INDICES = (11, 12, 13)
OUTSIDE = {"fill_value": 9, "keep_size": True}


class Values(NamedTuple):
    """What a program has made so far, as nodes or as arrays.

    Attributes:
        pixels: images.
        numbers: one for each sample.
        rows: one for each frame.
    """

    pixels: list[Any]
    numbers: list[Any]
    rows: list[Any]


class Eager:
    """What a program is made of, done at once."""

    def __init__(self, backend: str | None) -> None:
        self.where = {**WHERE, "backend": backend}

    def run(self, op: Any, x: Any) -> Any:
        return Chain(op)(x, **self.where)

    def draw(self, op: Any) -> Any:
        return op.drawn(epoch=WHERE["epoch"], index=INDICES, frames=2)

    def computed(self, sign: str, before: Any, behind: Any) -> Any:
        return arithmetic.computed(sign, before, behind)  # test_inference.py tests its types

    def wide(self, value: Any) -> Any:
        return value[:, None]


class Nodes:
    """What a program is made of, as nodes."""

    def run(self, op: Any, x: Any) -> Any:
        return op(x)

    def draw(self, op: Any) -> Any:
        return op()

    def computed(self, sign: str, before: Any, behind: Any) -> Any:
        return SIGNS[sign](before, behind)

    def wide(self, value: Any) -> Any:
        return value


Line = Callable[[Any, Values], None]


def pick(values: list[Any], place: int) -> Any:
    """One of some values, however many there are."""
    return values[place % len(values)]


SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "<": operator.lt, "==": operator.eq}


def drawn(kind: str, *, frames: bool) -> Line:
    of = {"uniform": ops.random.Uniform, "normal": ops.random.Normal, "coin_flip": ops.random.CoinFlip}[kind]
    return lambda by, v: (v.rows if frames else v.numbers).append(
        by.draw(of(seed=own_seed(v), per_frame=frames))
    )


def own_seed(values: Values) -> int:
    """A seed that no other line has: an eager call does not know what else is in a graph."""
    return sum(map(len, values))


def computed(sign: str, one: int, other: int | float, *, swapped: bool) -> Line:
    def line(by: Any, v: Values) -> None:
        a = pick(v.numbers, one)
        b = other if isinstance(other, float) else pick(v.numbers, other)
        a, b = (b, a) if swapped else (a, b)
        v.numbers.append(by.computed("*", by.computed(sign, a, b), 1))  # truth values are numbers then

    return line


def scaled(row: int, number: int) -> Line:
    return lambda by, v: v.rows.append(by.computed("*", pick(v.rows, row), by.wide(pick(v.numbers, number))))


def mean(place: int) -> Line:
    def line(by: Any, v: Values) -> None:
        del by
        v.numbers.append(fn.reductions.mean(pick(v.pixels, place), axis_names="FHWC", layout="NFHWC"))

    return line


def step(name: str, place: int, value: int) -> Line:
    def line(by: Any, v: Values) -> None:
        seed = own_seed(v)
        number, row = pick(v.numbers, value), per_frame(pick(v.rows, value))
        op = {
            "rotate": lambda: ops.Rotate(angle=number, **OUTSIDE),
            "rotate by frame": lambda: ops.Rotate(angle=row, **OUTSIDE),
            "shift": lambda: ops.Brightness(brightness_shift=number),
            "shift by frame": lambda: ops.Brightness(brightness_shift=row, brightness=(0.5, 1.5), seed=seed),
            "flip": lambda: ops.Flip(horizontal=[True, False, True], p=0.5, seed=seed),
            "crop": lambda: ops.Crop(crop=(4, 4), crop_pos_x=(0.0, 1.0), seed=seed),
            "resize": lambda: ops.Resize(size=(9, 8)),
        }[name]()
        v.pixels.append(by.run(op, pick(v.pixels, place)))

    return line


STEPS = ("rotate", "rotate by frame", "shift", "shift by frame", "flip", "crop", "resize")
some = st.integers(0, 9)
lines = st.one_of(
    st.builds(drawn, st.sampled_from(("uniform", "normal", "coin_flip")), frames=st.booleans()),
    st.builds(
        computed,
        st.sampled_from(sorted(SIGNS)),
        some,
        some | st.sampled_from((0.5, -2.0, 0.0)),
        swapped=st.booleans(),
    ),
    st.builds(scaled, some, some),
    st.builds(mean, some),
    st.builds(step, st.sampled_from(STEPS), some, some),
    st.builds(step, st.sampled_from(STEPS), st.just(-1), some),
)


def run(program: list[Line], by: Any, x: Any) -> list[Any]:
    values = Values([x], [], [])
    for line in (drawn("uniform", frames=False), drawn("uniform", frames=True), *program):
        line(by, values)
    return [*values.pixels[1:], *values.numbers, *values.rows]


@pytest.mark.parametrize("backend", [None, "reference"])
@hypothesis.given(
    program=st.lists(lines, max_size=14), wanted=st.lists(st.integers(0, 99), min_size=1, max_size=4)
)
def test_a_program_of_nodes_is_the_program(backend, program, wanted):
    eager, nodes = run(program, Eager(backend), X), run(program, Nodes(), Input("x"))
    # the last output says how many samples and frames there are, also where no other is made of the images
    graph = Graph(*(pick(nodes, place) for place in wanted), ops.Flip()(Input("x")))
    for one in (graph, Graph.from_json(graph.to_json())):
        *found, _ = one(x=X, **WHERE, backend=backend)
        same(found, [pick(eager, place) for place in wanted])


def test_kernels_make_what_the_reference_makes(emulated):
    program = [
        step("crop", 0, 0),
        drawn("uniform", frames=False),
        step("flip", -1, 0),
        step("shift by frame", -1, 0),
        mean(-1),
        computed("*", -1, 0.001, swapped=True),
        step("shift", -1, -1),
        step("rotate", -1, 1),
    ]
    graph = Graph(run(program, Nodes(), Input("x"))[4])
    before = emulated.launches
    (found,) = graph(x=X, **WHERE, backend="cuda", device=emulated)
    assert emulated.launches - before == 3, (
        "crop to shift by frame, of which the mean is taken; shift; rotate"
    )
    same(found, run(program, Eager("reference"), X)[4])
