"""Traits of operators and parameters of users, which never meet."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from seqpipe import ops
from seqpipe.errors import ParameterError
from seqpipe.ops.core.traits import Traits
from seqpipe.ops.geometry.base import Geometry, GeometryTraits
from seqpipe.ops.geometry.mapping import Mapping

TRAITS = [field.name for field in dataclasses.fields(GeometryTraits)]


class Level(ops.Op, register=False):
    """Add a level."""

    level: float = ops.param(0.0, "what is added")

    def reference(self, x, p):
        return x + np.float32(p.level)


def _added(name):
    """A class that adds the parameter of some name."""

    def reference(_self, x, p):
        return x + np.float32(getattr(p, name))

    declared = ops.param(1.0, "what is added")
    return {"__annotations__": {name: "float"}, name: declared, "reference": reference}


@pytest.mark.parametrize("name", TRAITS)
def test_a_parameter_may_have_the_name_of_any_trait(name):
    """It is drawn, written and read as any other, and the trait stays what it is."""
    kind = type("Added", (ops.Op,), _added(name), register=False)
    x = np.full((2, 3, 4, 3), 10, np.uint8)
    assert (kind(**{name: 5.0})(x) == 15).all()
    assert {*kind(**{name: (3.0, 9.0)}, seed=1)(x).ravel()} <= set(range(13, 20))
    assert repr(kind(**{name: 5.0})) == f"Added({name}=5.0)"
    assert kind.traits == Level.traits


@pytest.mark.parametrize("name", ["whole_pixels", "maps_rows", "body", "values"])
def test_so_may_one_of_an_operator_that_moves_pixels(name):
    def mapping(_self, _p, height, width):
        return Mapping.identity(height, width)

    made = type("Turned", (Geometry,), {**_added(name), "mapping": mapping}, register=False)
    plain = type("Turned", (Geometry,), {**_added("angle"), "mapping": mapping}, register=False)
    assert made.traits == plain.traits
    assert getattr(made(**{name: 3.0}), name) == 3.0


def test_no_operator_keeps_a_trait_among_its_attributes():
    for name, op in ops.REGISTRY.items():
        declared = {parameter.name for parameter in op.parameters}
        traits = {field.name for field in dataclasses.fields(op.traits)}
        assert {one for one in traits - declared if hasattr(op, one)} == set(), name


def test_traits_are_inherited_over_all_bases_and_stated_anew_with_methods():
    class Base(Level, register=False):
        """More."""

        dtypes = ("uint8",)
        pointwise = True
        samples_together = True
        converted = ("values",)

    class Mixed(Base, register=False):
        """Still more."""

        tolerance = (1.0, 0.5)

    class Other(Base, register=False):
        """Another reference, and draws of its own."""

        def reference(self, x, p):  # noqa: ARG002
            return x

        def sample(self, rng, spec):  # noqa: ARG002
            return {"level": rng.random()}

    assert (Mixed.traits.dtypes, Mixed.traits.pointwise, Mixed.traits.tolerance) == (
        ("uint8",),
        True,
        (1.0, 0.5),
    )
    assert Base.traits.converted == ("values",)
    assert Mixed.traits.converted == ()
    assert (Other.traits.dtypes, Other.traits.pointwise, Other.traits.samples_together) == (
        ("uint8",),
        False,
        False,
    )
    assert not Base.traits.is_builtin
    assert ops.Flip.traits.is_builtin


def test_what_an_operator_does_with_its_parameters_is_stated_by_that_one():
    normal = ops.Normalize(mean=(1.0, 2.0, 3.0), stddev=2.0)
    assert normal.traits.channels == (3,)
    assert ops.Normalize.traits.channels == ()
    with pytest.raises(ParameterError, match="mean"):
        normal(np.zeros((4, 5, 6, 2), np.uint8))


def test_traits_say_what_they_are():
    documented = Traits.__doc__ + GeometryTraits.__doc__
    assert [name for name in TRAITS if f"        {name}: " not in documented] == []
