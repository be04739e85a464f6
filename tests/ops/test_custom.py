"""Operators that users make: what a function may take and give, and names and defaults of parameters."""

from __future__ import annotations

import functools
import json
import pickle
import re
import warnings
from typing import Any

import numpy as np
import pytest

import seqpipe
from seqpipe import fn
from seqpipe.errors import ParameterError
from seqpipe.ops import REGISTRY, Brightness, Chain, Op, Rotate, apply, param, per_frame
from seqpipe.ops.compose.fused import can_lead
from seqpipe.pipeline import Graph, Input
from tests.support.marks import NAMES
from tests.support.operators import compare, images

pytestmark = pytest.mark.usefixtures("unregistered")
X = np.random.default_rng(0).integers(0, 200, (2, 3, 6, 8, 3), dtype=np.uint8)


def scaled(x, by):
    """Multiply."""
    return x * np.asarray(by, np.float32)


def made(function, name="own", /, **declared):
    """An operator of a function that has no name of its own."""
    function.__name__, function.__doc__ = name, "Do what it does."
    return seqpipe.operator(**declared)(function)


# ------------------------------------------------------------------------------------------ what it takes


@pytest.mark.parametrize(
    ("declared", "given", "factors"),
    [
        (param("twice", "how often", choices=("once", "twice")), {}, [2, 2]),
        (param("twice", "how often", choices=("once", "twice")), {"by": "once"}, [1, 1]),
        (param(1.0, "factor", drawn=False), {"by": 0.5}, [0.5, 0.5]),
        (param((1.0,), "factors", size=-1), {"by": (0.0, 1.0, 2.0)}, [(0, 1, 2)] * 2),
        (param([1.0, 1.0, 1.0], "factors", size=3), {"by": (0.0, 1.0, 2.0)}, [(0, 1, 2)] * 2),
        (param(np.ones(3), "factors", size=3), {"by": [[0, 1, 2], [1, 0, 0]]}, [(0, 1, 2), (1, 0, 0)]),
        (param(np.float32(1), "factor"), {"by": [0.5, 0.25]}, [0.5, 0.25]),
        (param(1, "factor"), {"by": per_frame([0, 1, 0])}, [np.array([0, 1, 0]).reshape(3, 1, 1, 1)] * 2),
    ],
)
def test_functions_are_given_parameters_of_every_kind(declared, given, factors):
    op = made(
        lambda x, by: scaled(x, {"once": 1, "twice": 2}[by] if isinstance(by, str) else by), by=declared
    ).op(**given)
    wanted = np.stack(
        [
            np.rint(np.minimum(np.float32(x) * f, 255)).astype(np.uint8)
            for x, f in zip(X, factors, strict=True)
        ]
    )
    compare(op(X), wanted)
    compare(apply(op, X, backend="reference"), wanted)
    assert Op.from_json(op.to_json()) == op


@pytest.mark.parametrize("way", [3, functools.partial(scaled, by=2), int])
def test_what_is_no_function_is_refused(way):
    with pytest.raises(
        ParameterError, match="cannot be an operator; allowed: a function with a docstring and a"
    ):
        seqpipe.operator(way)


@pytest.mark.parametrize(
    "function",
    [lambda: X, lambda *, x: x, lambda x, by, /: x * by, lambda x, *by: x * by, lambda x, **by: x * by["by"]],
)
def test_functions_that_cannot_be_called_so_are_refused(function):
    with pytest.raises(
        ParameterError, match=r"^own\(.*\) cannot be an operator; allowed: a function that takes the"
    ):
        made(function, by=param(1.0, "factor"))


@pytest.mark.parametrize("name", ["p", "seed", "per_frame"])
def test_functions_cannot_take_what_all_operators_have(name):
    with pytest.raises(ParameterError, match=rf"own takes {name}; allowed: other names"):
        made(eval(f"lambda x, {name}: x"), **{name: param(1.0, "factor")})


@pytest.mark.parametrize(
    "name", ["x", "layout", "epoch", "index", "acts", "op", "name", "traits", "sample", "reference", "self"]
)
def test_names_of_parameters_that_mean_something_else_are_refused(name):
    with pytest.raises(
        ParameterError, match=rf"^own\.{name} has the name of another attribute of the operator"
    ):
        made(eval(f"lambda images, {name}: images"), **{name: param(1.0, "factor")})


def test_parameters_and_what_is_derived_have_different_names():
    with pytest.raises(ParameterError, match=r"Derived\.level has the name of another attribute"):
        type("Derived", (Level,), {"__module__": __name__, "derived": ("level",)})


class Level(Op, register=False):
    """Raise levels."""

    level: Any = param(0.0, "that is added")

    def reference(self, x: Any, p: Any) -> Any:
        return x + p.level


@pytest.mark.parametrize(
    ("default", "more", "said"),
    [
        (5j, {}, "a parameter of the kind complex; allowed: float, int, bool and str. Give kind="),
        ({}, {}, "a parameter of the kind dict"),
        (None, {}, "a parameter of the kind NoneType"),
        (1.0, {"lo": 2, "hi": 1}, "a parameter from lo=2 to hi=1; allowed: lo up to hi"),
    ],
)
def test_parameters_that_cannot_be_are_refused(default, more, said):
    with pytest.raises(ParameterError, match=said):
        param(default, "which", **more)


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        (
            {"dtypes": "uint8"},
            r"Stated\.dtypes='uint8' is not valid; allowed: a tuple of uint8, uint16, int16, ",
        ),
        (
            {"dtypes": ("uint8", "floaty")},
            r"Stated\.dtypes=.*floaty.* is not valid; allowed: a tuple of uint8",
        ),
        (
            {"dtypes": ("int64",)},
            r"Stated\.dtypes=\('int64',\) .* Operators that only move values, .* accept others",
        ),
        (
            {"channels": 3},
            r"Stated\.channels=3 is not valid; allowed: a tuple of whole numbers of at least 1",
        ),
        ({"channels": (0,)}, r"Stated\.channels=\(0,\) is not valid"),
    ],
)
def test_what_is_stated_in_the_wrong_form_is_refused(stated, said):
    with pytest.raises(ParameterError, match=said):
        type("Stated", (Level,), {"__module__": __name__, **stated}, register=False)
    assert type(
        "Moved", (Level,), {"values": "moved", "dtypes": ("int64",)}, register=False
    ).traits.dtypes == ("int64",)
    with pytest.raises(
        ParameterError, match="an operator with the name 'to the left'; allowed: Python identifiers"
    ):
        type("Stated", (Level,), {"__module__": __name__}, function_name="to the left")


def test_results_of_types_that_nothing_is_rounded_to_are_refused():
    """They were cut off, as NumPy casts."""
    cls = type("Typed", (Level,), {"result_dtype": lambda *_: "int64"}, register=False)
    with pytest.raises(
        ParameterError, match="typed: results of the type 'int64'; allowed: uint8, uint16, int16, f"
    ):
        cls(level=0.7)(X)


# ------------------------------------------------------------------------------------------ other operators' classes


def emptied(base):
    """An operator that makes all of what another one does 0."""

    def reference(self, x, p):
        return super(cls, self).reference(x, p) * 0

    space = {"__module__": __name__, "__doc__": "Make it all 0.", "reference": reference}
    cls = type("Emptied", (base,), space, register=False)
    return cls


@NAMES
def test_a_reference_of_ones_own_is_what_all_forms_do(name):
    """A kernel and a form for CPUs of another operator did what that one does; so did chains."""
    base = REGISTRY[name]
    op = emptied(base)(**base.traits.examples[0])
    x = images(op, "uint8", size=(40, 60))
    chains = [Chain(op)] if isinstance(op, Op) else []
    for found in (apply(op, x), apply(op, x, backend="reference"), *(chain(x) for chain in chains)):
        assert not np.any(found)
    assert op.traits.body is None
    with pytest.raises(
        ParameterError, match="emptied has no kernel; allowed: the backends reference and cpu"
    ):
        apply(op, x, backend="cuda", device=object())


@pytest.mark.parametrize("fuse", ["exact", "compose"])
@pytest.mark.parametrize("name", ["flip", "crop", "resize", "rotate", "brightness"])
def test_a_reference_of_ones_own_joins_no_others(name, fuse):
    base, more = REGISTRY[name], {"antialias": False} if name == "resize" else {}
    op = emptied(base)(**base.traits.examples[0], **more)
    others = Rotate(angle=30.0, keep_size=True), Brightness(brightness=0.5)
    chain = Chain(others[0], op, *others, fuse=fuse)
    assert not can_lead(op)
    assert len(chain.explain().splitlines()) >= 3
    assert not np.any(chain(images(op, "uint8", size=(20, 30))))


# ------------------------------------------------------------------------------------------ what it gives


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: x[..., :1], r"float32 of shape \(3, 6, 8, 1\)"),
        (lambda x: x[:, 1:], r"float32 of shape \(3, 5, 8, 3\)"),
        (lambda x: x[0], r"float32 of shape \(6, 8, 3\)"),
        (lambda x: x > 100, r"bool of shape \(3, 6, 8, 3\)"),
        (lambda x: x.astype(np.int64), "int64 of shape"),
        (lambda x: x.mean(), r"a numpy\.float32"),
        (lambda x: x.sort(), r"a builtins\.NoneType"),
        (lambda x: np.ma.masked_array(x, x > 3), r"a numpy\.MaskedArray"),
    ],
)
def test_results_that_do_not_fit_are_refused_by_name(function, said):
    """Too few channels or frames were repeated, without a word."""
    op = made(function).op()
    for x, form in ((X[0], r"\(3, 6, 8, 3\)"), (X[0, :1], "")):
        if form or x.shape != X[0].shape:
            with pytest.raises(
                ParameterError, match=rf"^own: it returns .*; allowed: a numpy\.ndarray of shape {form}"
            ):
                op(x)
    with pytest.raises(ParameterError, match=f"^own: it returns {said}"):
        op(X[0])


class Tint(Op, register=False):
    """Raise levels, by channel; so it is not pointwise."""

    level: Any = param((0.0, 0.0, 0.0), "that is added", size=3)
    pointwise = True

    def reference(self, x: Any, p: Any) -> Any:
        return x + p.level


def test_results_that_do_not_fit_are_refused_where_tables_are_made_too():
    with pytest.raises(ParameterError, match=r"tint: it returns float32 of shape \(1, 256, 1, 3\)"):
        Tint(level=(0.0, 1.0, 2.0))(np.zeros((64, 64, 3), np.uint8))


def test_what_does_nothing_by_mistake_says_what_to_give():
    dim = made(
        lambda x, by, more: x * by + more,
        "dim",
        by=param(1.0, "factor", identity=1.0),
        more=param(0, "more", identity=0),
    )
    with pytest.warns(UserWarning, match="dim without arguments does nothing; give by or more"):
        dim(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fn.dim(X)


def test_images_that_are_lent_are_not_to_be_written_to():
    """A moved operator is given them as they are, in the caller's memory."""

    class Drawing(Op, register=False):
        """Draw a line over images."""

        values = "moved"

        def reference(self, x: Any, p: Any) -> Any:
            x[:, 0] = 255 if p.acts else 0
            return x

    mine = X.copy()
    with pytest.raises(ValueError, match="read-only"):
        Drawing()(mine)
    np.testing.assert_array_equal(mine, X)


# ------------------------------------------------------------------------------------------ as an operator


@seqpipe.operator(
    strength=param(0.5, "how dark it becomes", lo=0, hi=1, identity=0.0),
    way=param("all", "what becomes darker", choices=("all", "left")),
)
def darken_for_tests(x, strength, way):
    """Darken the images."""
    result = x * (1 - strength)
    if way == "left":
        result[..., x.shape[2] // 2 :, :] = x[..., x.shape[2] // 2 :, :]
    return result


@pytest.fixture
def darken(monkeypatch):
    """An operator of a module, which stays registered after the test."""
    monkeypatch.setitem(REGISTRY, "darken_for_tests", darken_for_tests.op)
    return darken_for_tests


def test_a_function_without_images_is_its_operator(darken):
    op = darken(strength=0.25, p=1.0)
    assert isinstance(op, darken.op)
    assert repr(op) == "darken_for_tests(strength=0.25)"
    assert eval(repr(op), {"darken_for_tests": darken}) == op
    assert repr(darken()) == "darken_for_tests()"
    assert np.array_equal(op(X), darken(X, strength=0.25))
    with pytest.raises(ParameterError, match="darken_for_tests: strength=2 is not valid"):
        darken(strength=2)
    with pytest.raises(ParameterError, match=r"no parameter 'strenght'.*Perhaps 'strength' is meant"):
        darken(strenght=0.2)


@pytest.mark.parametrize(
    "made", [lambda f: f, lambda f: f(), lambda f: f.op()], ids=["bare", "called", "class"]
)
def test_a_function_is_a_member_of_a_chain(darken, made):
    chain = Chain(seqpipe.ops.Flip(), made(darken))
    assert repr(chain) == "Chain(Flip(), darken_for_tests())"
    assert Chain.from_json(chain.to_json()) == chain
    assert json.loads(chain.to_json())["ops"][1]["op"] == "darken_for_tests"
    assert np.array_equal(chain(X), darken(seqpipe.fn.flip(X)))
    assert pickle.loads(pickle.dumps(chain)) == chain


def test_a_function_stands_in_choices_policies_and_graphs(darken):
    dark = darken(X, strength=0.25)
    one = seqpipe.ops.OneOf([darken(strength=0.25), darken(strength=0.25)])
    assert np.array_equal(Chain(one)(X), dark)
    assert repr(seqpipe.ops.OneOf([darken, None])).startswith("OneOf([darken_for_tests(), None]")
    assert np.array_equal(Chain(seqpipe.ops.SomeOf(1, [darken(strength=0.25)]))(X), dark)
    sample = {"a": X, "b": X}
    only = Chain(seqpipe.ops.Only("a", darken))(sample)
    assert np.array_equal(only["a"], darken(X))
    assert np.array_equal(only["b"], X)

    x = Input("x")
    graph = Graph(darken(x, strength=0.25), darken(strength=0.25)(x), Chain(darken(strength=0.25))(x))
    for result in graph(x=X):
        assert np.array_equal(result, dark)
    for result in Graph.from_json(graph.to_json())(x=X):
        assert np.array_equal(result, dark)
    drawn = Chain(darken(strength=(0.0, 1.0), seed=3), darken(strength=(0.0, 1.0), seed=3))
    assert [op.occurrence for op in drawn.ops] == [0, 1]


def test_functions_of_the_package_say_what_a_chain_takes():
    for member, said in (
        (fn.flip, "the function flip.*Create the operator: Chain(ops.Flip(…))"),
        (seqpipe.ops.Flip, "the class Flip.*Create the operator: Chain(ops.Flip(…))"),
    ):
        with pytest.raises(ParameterError, match=re.escape(said).replace(r"\.\*", ".*")):
            Chain(member)
    with pytest.raises(
        ParameterError, match=re.escape("ops.Flip(vertical=True) creates the operator, for chains")
    ):
        fn.flip(vertical=True)
    with pytest.raises(
        ParameterError, match=re.escape("x is given by keyword. Pass it by position: fn.flip(x, …)")
    ):
        fn.flip(x=X)


def test_an_operator_that_is_not_imported_is_named():
    with pytest.raises(
        ParameterError, match=r"no operator 'theirs'.*Import the module that defines it first"
    ):
        Chain.from_json('{"op": "chain", "ops": [{"op": "theirs"}], "fuse": "exact"}')
