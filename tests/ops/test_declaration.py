"""What a declaration gives to an operator of one's own: the class of the manual, functions, names, warnings."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import re
import subprocess
import sys
import textwrap
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import seqpipe
from seqpipe import fn, ops
from seqpipe.errors import ParameterError
from seqpipe.ops import (
    REGISTRY,
    Choice,
    Distribution,
    Flip,
    Normal,
    Number,
    Op,
    Spec,
    Uniform,
    param,
    per_frame,
)
from seqpipe.ops.core.blocks import resolve
from seqpipe.ops.core.declaration import Declaration
from seqpipe.ops.core.distributions import Table
from tests.support.operators import compare, images
from tests.support.own_operators import Shift

SPEC = Spec(4, 5, 7, 3, "uint8")
CLEAR = {"__module__": __name__}


# ------------------------------------------------------------------------------------------ the manual


def test_the_operator_of_the_manual(unregistered, anywhere):
    """The docstring of seqpipe.ops is true: its class is all that an operator needs."""
    code = textwrap.dedent(re.search(r"    class Gain.*?row\.factor;\"\)\n", ops.__doc__, re.DOTALL)[0])
    scope = {"__name__": __name__, "Array": Any, "Any": Any, **vars(ops)}
    exec(code, scope)
    gain = scope["Gain"]
    x = images(gain(factor=2), "uint8", size=(40, 60))
    wanted = np.rint(np.minimum(x * 1.5, 255)).astype(np.uint8)
    compare(anywhere(gain(factor=1.5), x), wanted)
    compare(fn.gain(x, factor=1.5), wanted)
    with pytest.raises(ParameterError, match="gain: factor=-1 is not valid; allowed: a number from 0 to 16"):
        gain(factor=-1)
    assert Op.from_json(gain(factor=(1, 2)).to_json()) == gain(factor=Uniform(1.0, 2.0))


def test_a_vector_and_a_body_of_pixels(anywhere):
    x = images(Shift(steps=1), "uint8")
    given = x.astype(int)
    for op, added in (
        (Shift(level=(1.0, 20.0, -30.0)), [1, 20, -30]),
        (Shift(level=[1, 2, 3], steps=-2), [-1, 0, 1]),
        (
            Shift(level=np.array([[1, 2, 3], [4, 5, 6]])),
            np.array([[1, 2, 3], [4, 5, 6]])[:, None, None, None],
        ),
        (Shift(level=per_frame(np.arange(9).reshape(3, 3))), np.arange(9).reshape(3, 1, 1, 3)),
        (Shift(steps=[3, -4]), np.array([3, -4]).reshape(2, 1, 1, 1, 1)),
    ):
        compare(anywhere(op, x), np.clip(given + added, 0, 255).astype(np.uint8))


def test_ranges_of_a_vector():
    op = Shift(level=(5.0, (0.0, 10.0), (-2.0, 2.0)), seed=2)
    rows = resolve(op, [SPEC] * 300, 0, range(300)).rows
    assert not rows.flags.writeable
    levels = rows["level"]
    assert (levels[:, 0] == 5).all()
    assert 0 <= levels[:, 1].min() < 0.3
    assert 9.7 < levels[:, 1].max() <= 10
    assert abs(np.corrcoef(levels[:, 1], levels[:, 2])[0, 1]) < 0.2
    with pytest.raises(ParameterError, match="allowed: an array, a range or a distribution within per_frame"):
        Shift(level=per_frame((1.0, 2.0, 3.0)))
    each = Shift(level=per_frame(((0.0, 1.0), 2.0, 3.0)))
    assert len(set(resolve(each, [SPEC], 0, [0]).rows["level"][:, 0])) == 4
    assert Op.__mro__[1].from_json is Declaration.from_json


@pytest.mark.parametrize(
    "value",
    [
        (1.0, 2.0),
        1.0,
        [1.0, 2.0],
        ((1, 2), (3, 4)),
        ((2, 1), 0, 0),
        np.zeros((2, 4)),
        Uniform((0, 0), (1, 1)),
    ],
)
def test_vectors_of_another_length_are_refused(value):
    with pytest.raises(ParameterError, match=r"^shift: level.*allowed: "):
        Shift(level=value)


def test_whole_numbers_reach_both_ends():
    drawn = resolve(Shift(steps=(-5, 5)), [SPEC] * 300, 0, range(300)).rows["steps"]
    assert sorted(set(drawn.tolist())) == list(range(-5, 6))
    for value in (0.5, [1, 0.5], (0, 6), (-6, 0), [6], True):
        with pytest.raises(ParameterError, match=r"^shift: steps.*allowed: a whole number from -5 to 5"):
            Shift(steps=value)


def test_texts_are_constants():
    x = images(Shift(steps=1), "uint8")
    compare(Shift(steps=3, mode="take")(x), Shift(steps=-3)(x))
    for value in ("put", ("add", "take"), ["add"]):
        with pytest.raises(ParameterError, match=r"shift: mode=.*allowed: 'add', 'take'"):
            Shift(mode=value)


# ------------------------------------------------------------------------------------------ distributions


def test_normal_stays_within_the_bounds():
    values = resolve(Shift(steps=Normal(4.0, 3.0)), [SPEC] * 500, 0, range(500)).rows["steps"]
    assert values.max() == 5
    assert values.min() >= -5
    assert 2.5 < values.mean() < 4
    levels = resolve(ops.BrightnessContrast(brightness=Normal(3, 0.5)), [SPEC] * 500, 0, range(500)).rows[
        "brightness"
    ]
    assert abs(levels.mean() - 3) < 0.1
    assert abs(levels.std() - 0.5) < 0.1


@pytest.mark.parametrize(
    ("op", "name", "least", "most"),
    [
        (ops.Subsample(stride=Normal(0, 1e30)), "stride", 1, 2**31 - 1),
        (ops.TemporalJitter(offset=per_frame(Normal(0, 1e20))), "offset", 1 - 2**31, 2**31 - 1),
        (ops.Rotate(angle=Normal(0, 1e40)), "angle", -np.finfo(np.float32).max, np.finfo(np.float32).max),
    ],
)
def test_normal_stays_within_what_a_block_holds(op, name, least, most):
    """NumPy cast what was beyond to the least whole number, or to infinity, and warned."""
    values = resolve(op, [SPEC] * 50, 0, range(50)).rows[name]
    assert (values.min(), values.max()) == (least, most)


def test_a_choice_keeps_to_its_weights():
    rows = resolve(Shift(steps=Choice([1, 2, 3], weights=[6, 3, 0])), [SPEC] * 600, 0, range(600)).rows
    counts = np.bincount(rows["steps"], minlength=4)[1:]
    assert abs(counts[0] - 400) < 60
    assert counts[2] == 0


def test_a_distribution_of_ones_own(monkeypatch):
    monkeypatch.setattr(Distribution, "kinds", dict(Distribution.kinds))

    @dataclass(frozen=True)
    class Edges(Distribution):
        """The least or the greatest of two values."""

        lo: float
        hi: float

        def draw(self, rng, shape, *, whole):  # noqa: ARG002  both are whole or not
            return np.where(rng.random(shape) < 0.5, self.lo, self.hi)

        def support(self):
            return self.lo, self.hi

    op = ops.BrightnessContrast(brightness=Edges(0.5, 2.0))
    assert set(resolve(op, [SPEC] * 60, 0, range(60)).rows["brightness"].tolist()) == {0.5, 2.0}
    assert Op.from_json(op.to_json()) == op
    with pytest.raises(ParameterError, match="saturation=-1 is not valid; allowed: a number of at least 0"):
        ops.Saturation(saturation=Edges(-1, 2))
    with pytest.raises(ParameterError, match="there is a distribution Edges already"):
        type("Edges", (Distribution,), CLEAR)
    with pytest.raises(
        ParameterError, match="there is no distribution 'Middle'; allowed: Choice, Edges, Normal"
    ):
        Op.from_json('{"op": "brightness_contrast", "brightness": {"Middle": {}}}')


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Uniform(2, 1), r"the range \(2, 1\) is reversed; allowed: \(least, greatest\)"),
        (lambda: Normal(0, -1), "stddev=-1 is not valid; allowed: a number of at least 0"),
        (lambda: Normal(0, np.inf), "stddev=inf is not valid; allowed: a number of at least 0"),
        (lambda: Normal(np.nan, 1), "mean=nan is not valid; allowed: a number"),
        (lambda: Choice([1, np.nan]), r"a choice of \(1, nan\); allowed: numbers"),
        (lambda: Choice([(1, 0), (0, 1)]), r"a choice of \[\(1, 0\), \(0, 1\)\]; allowed: numbers"),
        (lambda: Choice(3), "a choice of 3; allowed: numbers, one or more"),
        (lambda: Choice([1, 2], [np.inf, 1]), "do not fit 2 values"),
        (lambda: Choice([1, 2], "ab"), "weights=ab do not fit 2 values"),
        (lambda: Uniform(None, 1), "lo=None is not valid; allowed: a number"),
        (lambda: Uniform((1, 2), (3, 4, 5)), "has ends of different lengths; allowed: one length"),
        (lambda: Normal((1, 2), 1), r"mean=\(1, 2\) is not valid; allowed: a number"),
        (lambda: Normal(1, "wide"), "stddev='wide' is not valid; allowed: a number"),
        (lambda: Choice([]), "a choice of no values; allowed: one value or more"),
        (
            lambda: Choice([1, 2], [1]),
            r"weights=.* do not fit 2 values; allowed: a number of at least 0 for each",
        ),
        (lambda: Choice([1, 2], [0, 0]), "do not fit 2 values"),
        (lambda: Flip(horizontal=(0, 1)), "horizontal=.*allowed: True, False, or a Choice of both"),
        (lambda: Flip(horizontal=Choice([0, 2])), "flip: horizontal=2 is not valid; allowed: True or False"),
        (lambda: Op.from_json('{"op": "flop"}'), "there is no operator 'flop'; allowed: .*flip"),
        (lambda: Op.from_json('{"op": "fl'), "is no JSON .*; allowed: the result of to_json"),
        (lambda: Op.from_json('["flip"]'), "flip.* is no operator; allowed: the result of to_json"),
        (lambda: Op.from_json('{"op": "flip", "horizontal": {}}'), "{} is no distribution"),
        (
            lambda: Op.from_json('{"op": "brightness", "brightness": {"Uniform": [0, 1]}}'),
            r"\[0, 1\] are not arguments of Uniform",
        ),
        (
            lambda: Op.from_json('{"op": "brightness", "brightness": {"Uniform": {"a": 1}}}'),
            "are not arguments of Uniform",
        ),
        (
            lambda: Op.from_json('{"op": "brightness", "range": {"Percentiles": {"low": 1}}}'),
            "{'low': 1} are not arguments of Percentiles",
        ),
    ],
)
def test_what_is_no_distribution_is_refused(make, said):
    with pytest.raises(ParameterError, match=said):
        make()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: ops.Crop(crop=(3, None)),
            "crop: crop=None is not valid; allowed: a whole number of at least 1. ",
        ),
        (
            lambda: ops.Resize(size=(None, 4)),
            "resize: size=None is not valid; allowed: a whole number of at lea",
        ),
        (lambda: ops.Slice(start=((None, 1), 2)), "slice: start=None is not valid; allowed: a number"),
        (lambda: ops.Slice(start=per_frame((1, None))), "slice: start=None is not valid; allowed: a number"),
        (lambda: ops.Rotate(fill_value=(None, 1)), "rotate: fill_value=None is not valid; allowed: a number"),
        (
            lambda: ops.Pad(shape=[None]),
            "pad: shape=None is not valid; allowed: a whole number of at least -1",
        ),
        (lambda: ops.Crop(crop=(3, (4, 5))), r"crop=\(4, 5\) is not valid; allowed: a whole number"),
        (lambda: ops.Crop(crop=3), "allowed: 2 values, each a whole number of at least 1, or None"),
        (lambda: ops.Crop(crop=np.ones((2, 2))), r"crop=\[1.0, 1.0\] is not valid; allowed: a whole number"),
        (lambda: ops.Normalize(mean=()), "allowed: one value or more, each a number, or None"),
    ],
)
def test_none_stands_for_all_of_a_parameter_only(make, said):
    with pytest.raises(ParameterError, match=said):
        make()


@pytest.mark.parametrize(
    ("distribution", "plain"),
    [
        (Uniform(np.zeros(2), np.ones(2)), Uniform((0, 0), (1, 1))),
        (Uniform([0, 0], [np.float32(1), 1]), Uniform((0, 0), (1, 1))),
        (Normal(np.array(1.0), np.float32(0.5)), Normal(1, 0.5)),
        (Choice(np.array([0.5, 1]), np.array([1, 2])), Choice((0.5, 1), (1, 2))),
        (Choice(n for n in (0.5, 1)), Choice((0.5, 1))),
        (Choice(range(2)), Choice((0, 1))),
        (Choice(np.array([True, False])), Choice((True, False))),
    ],
)
def test_numbers_of_any_library_are_those_of_python(distribution, plain):
    assert distribution == plain
    assert hash(distribution) == hash(plain)
    assert repr(eval(repr(distribution))) == repr(distribution)


def test_numbers_of_torch_are_those_of_python():
    torch = pytest.importorskip("torch")
    op = ops.Brightness(brightness=Choice(torch.tensor([0.5, 1.5])))
    assert op == Op.from_json(op.to_json()) == ops.Brightness(brightness=Choice([0.5, 1.5]))


def test_the_ends_of_ranges_of_whole_numbers_may_be_floats():
    rows = [resolve(Shift(steps=Uniform(lo, 3)), [SPEC] * 40, 0, range(40)).rows for lo in (1.0, 1)]
    assert np.array_equal(*rows)
    assert set(rows[0]["steps"].tolist()) == {1, 2, 3}


@pytest.mark.parametrize("form", ["constant", "range", "table", "frames"])
@pytest.mark.parametrize(
    ("op", "name", "value", "most"),
    [(ops.Rotate, "angle", 1e39, "3.40282e"), (ops.Resize, "resize_x", 2**31, "2.14748e")],
)
def test_what_a_block_cannot_hold_is_refused(op, name, value, most, form):
    given = {"constant": value, "range": (1, value), "table": [1, value], "frames": per_frame([1, value])}
    if form != "frames" or op is ops.Rotate:
        with pytest.raises(ParameterError, match=rf"{name}=.* is not valid; allowed: .*, none beyond {most}"):
            op(**{name: given[form]})


# ------------------------------------------------------------------------------------------ draws that belong together


class Corners(Op, register=False):
    """Draws two numbers whose sum is 1."""

    first: Number = param(0.5, "one", lo=0, hi=1)
    second: Number = param(0.5, "the other", lo=0, hi=1)

    def sample(self, rng: np.random.Generator, spec: Spec) -> dict[str, Any]:
        value = rng.random(spec.frames if self.per_frame else None)
        return {"first": value, "second": 1 - value}

    def reference(self, x: Any, p: Any) -> Any:
        return x * (p.first + p.second)


def test_draws_that_belong_together():
    rows = resolve(Corners(), [SPEC] * 20, 0, range(20)).rows
    np.testing.assert_allclose(rows["first"] + rows["second"], 1, rtol=1e-6)
    assert len(set(rows["first"])) == 20
    assert len(resolve(Corners(per_frame=True), [SPEC] * 20, 0, range(20)).rows) == 80


# ------------------------------------------------------------------------------------------ functions


def test_a_function_becomes_an_operator(unregistered, anywhere):
    @seqpipe.operator(level=param(0.0, "the least level that is left", lo=0, hi=255, identity=0.0))
    def lift_blacks(x, level):
        """Raise what is darker than a level to it."""
        return np.maximum(x, level)

    assert lift_blacks is fn.lift_blacks
    assert REGISTRY["lift_blacks"] is lift_blacks.op
    assert (
        lift_blacks.op.__name__ == "lift_blacks"
    )  # as the user writes it: the repr is a call of the function
    assert [*inspect.signature(lift_blacks).parameters][:2] == ["x", "level"]
    assert "the least level that is left; a number from 0 to 255" in lift_blacks.__doc__
    x = images(lift_blacks.op(level=9), "uint8")
    compare(lift_blacks(x, level=100), np.maximum(x, 100))
    compare(
        lift_blacks(x, level=per_frame([0, 50, 255])),
        np.maximum(x, np.array([0, 50, 255], np.uint8).reshape(3, 1, 1, 1)),
    )
    found = lift_blacks(x, level=(0, 255), seed=1, index=4)
    assert (found[0] != lift_blacks(x, level=(0, 255), seed=1, index=5)[0]).any()
    assert lift_blacks.op.from_json(lift_blacks.op(level=3).to_json()) == lift_blacks.op(level=3)
    with pytest.raises(
        ParameterError, match="lift_blacks: level=300 is not valid; allowed: a number from 0 to 255"
    ):
        lift_blacks(x, level=300)

    @seqpipe.operator
    def upside_down(x):
        """Levels the other way round."""
        return 255 - x

    compare(upside_down(x, p=1.0), 255 - x)
    if anywhere.name in ("reference", "cpu"):
        compare(anywhere(lift_blacks.op(level=7), x), np.maximum(x, 7))


def test_functions_that_are_no_operators_are_refused(unregistered):
    with pytest.raises(ParameterError, match="cannot be an operator; allowed: a function with a docstring"):
        seqpipe.operator(lambda x: x)

    def undeclared(x, level):
        """Raise."""

    of_all, of_none = param(1.0, "of all"), param(1.0, "of none")
    for declared, names in (({}, "none"), ({"level": of_all, "other": of_none}, "level, other")):
        with pytest.raises(ParameterError, match=rf"undeclared takes level, but {names} is declared"):
            seqpipe.operator(**declared)(undeclared)
    with pytest.raises(
        ParameterError, match=r"undeclared\.level is not declared as a parameter; allowed: param"
    ):
        seqpipe.operator(level=1.0)(undeclared)
    with pytest.raises(AttributeError, match=r"module 'seqpipe\.fn' has no attribute 'flop'; it has .*flip"):
        _ = fn.flop
    assert set(fn.__dir__()) >= {"flip", "brightness_contrast"}


def test_names_are_taken_once(unregistered):
    with pytest.raises(
        ParameterError,
        match=r"there is an operator 'flip' already: seqpipe\.ops\.geometry\.crop_pad\.Flip\. Choose another name",
    ):
        type("Flip", (Flip,), CLEAR)
    assert type("GammaCurve", (Flip,), CLEAR).name == "gamma_curve"
    assert type("Other", (Flip,), CLEAR, function_name="mirror").name == "mirror"
    assert REGISTRY["flip"] is Flip


def test_the_same_definition_again_takes_the_place_of_the_first(unregistered):
    """As when a cell of a notebook is run twice."""
    x = np.full((2, 2), 10, np.uint8)
    for amount in (1, 2):

        def more(x):
            """Add a number."""
            return x + amount  # noqa: B023  it is called within the loop

        assert seqpipe.operator(more)(x)[0, 0] == 10 + amount
        assert fn.more(x)[0, 0] == 10 + amount


# ------------------------------------------------------------------------------------------ no-ops, values


def test_what_does_nothing_by_mistake_warns_once(unregistered):
    with pytest.warns(
        UserWarning, match=r"brightness_contrast without arguments does nothing; try BrightnessContrast\(c"
    ):
        ops.BrightnessContrast(seed=1)
    ops.BrightnessContrast()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Shift(steps=0)  # on purpose
        Flip(horizontal=False)
        pickle.loads(pickle.dumps(ops.BrightnessContrast(contrast=1)))
    with pytest.warns(UserWarning, match="shift without arguments does nothing") as caught:
        Shift()
    assert caught[0].filename == __file__


def test_an_operator_cannot_be_changed():
    op = ops.BrightnessContrast(brightness=[0.5, 2.0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        op.brightness = 1
    with pytest.raises(ValueError, match="read-only"):
        op.brightness.values[0] = 3
    mine = np.array([0.5, 2.0])
    op = ops.BrightnessContrast(brightness=mine)
    mine[:] = 9
    assert op == ops.BrightnessContrast(brightness=[0.5, 2.0])
    assert op != ops.BrightnessContrast(brightness=[0.5, 2.5])


def test_operators_are_light_and_know_no_framework():
    program = (
        "import sys; from seqpipe import fn, ops; ops.Flip();"
        "shown = lambda: print(sorted({n.partition('.')[0] for n in sys.modules} & {*sys.argv[1:]})); shown();"
        "import numpy as np; ops.Resize(size=(101, 117))(np.zeros((5, 220, 250, 3), np.uint8)); shown()"
    )
    known = ["torch", "cupy", "av", "cv2", "nibabel"]
    done = subprocess.run([sys.executable, "-c", program, *known], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "[]"], (
        "nor does resizing, which took torch where it was installed"
    )


def test_equal_tables_have_one_hash():
    assert Table([0.0, 1.0]) == Table([-0.0, 1.0])
    assert hash(Table([0.0, 1.0])) == hash(Table([-0.0, 1.0]))
