"""Draws are those of NumPy's generator for a place, however few steps they take."""

from __future__ import annotations

import re

import numpy as np
import pytest

from seqpipe.errors import ParameterError
from seqpipe.ops import (
    BoxBlur,
    Brightness,
    Chain,
    Choice,
    CoordTransform,
    Elastic3d,
    Flip,
    Gamma3d,
    GaussianBlur3d,
    Ghosting,
    Mixup,
    Normal,
    RandAugment,
    RandomBboxCrop,
    RandomResizedCrop,
    Reciprocal,
    Rot90,
    Rotate,
    TemporalJitter,
    TwoSided,
    Uniform,
    Zoom3d,
    apply,
    param,
    per_frame,
)
from seqpipe.ops.core.blocks import resolve, values_of, values_of_all, values_of_each
from seqpipe.ops.core.spec import Spec
from seqpipe.random import stream
from tests.support.operators import built, cases

SPEC = Spec(3, 20, 30, 3, "uint8")
SAMPLES = 40


def drawn(op, name, epoch=2):
    return resolve(op, [SPEC] * SAMPLES, epoch, range(5, 5 + SAMPLES)).rows[name]


def numpys(op, draw, epoch=2):
    return [draw(stream(op.seed, op.name, epoch, index)) for index in range(5, 5 + SAMPLES)]


@pytest.mark.parametrize(
    ("op", "name", "draw"),
    [
        (Rotate(angle=(-20.0, 20.0)), "angle", lambda rng: rng.uniform(-20, 20, ())),
        (Rotate(angle=Normal(0, 9)), "angle", lambda rng: rng.normal(0, 9, ())),
        (Rotate(angle=Choice([0, 90, 45.5])), "angle", lambda rng: rng.choice([0, 90, 45.5], ())),
        (
            Rotate(angle=Choice([0, 90, 45.5], [1, 0, 5])),
            "angle",
            lambda rng: rng.choice([0, 90, 45.5], (), p=np.array([1, 0, 5]) / 6),
        ),
        (BoxBlur(window_size=(2, 30)), "window_size", lambda rng: rng.integers(2, 30, (), endpoint=True)),
        (Rotate(angle=per_frame(Choice([1, 2]))), "angle", lambda rng: rng.choice([1.0, 2.0], 3)),
        (Flip(vertical=Choice([True, False])), "vertical", lambda rng: rng.choice([1, 0], ())),
    ],
    ids=["uniform", "normal", "choice", "weighted", "whole", "per_frame", "flags"],
)
def test_values_are_those_of_numpys_generator(op, name, draw):
    wanted = np.concatenate([np.atleast_1d(value) for value in numpys(op, draw)])
    np.testing.assert_array_equal(drawn(op, name), wanted.astype(drawn(op, name).dtype))


def numpys_two_sided(lo, middle, hi, shape):
    def draw(rng):
        low = rng.random(shape) < 0.5
        return rng.uniform(np.where(low, lo, middle), np.where(low, middle, hi))

    return draw


@pytest.mark.parametrize(
    ("op", "name", "draw"),
    [
        (Gamma3d(gamma=TwoSided(0.7, 1.5), range="minmax"), "gamma", numpys_two_sided(0.7, 1, 1.5, ())),
        (GaussianBlur3d(sigma=TwoSided(0.5, 3.0, 2.0)), "sigma", numpys_two_sided(0.5, 2, 3, 3)),
        (Rot90(turns=TwoSided(-3, 2, 0)), "turns", lambda rng: np.rint(numpys_two_sided(-3, 0, 2, ())(rng))),
        (Gamma3d(gamma=Reciprocal(0.5, 2.0)), "gamma", lambda rng: 1 / rng.uniform(0.5, 2.0)),
        (Zoom3d(factor=Reciprocal(0.5, 2.0)), "factor", lambda rng: 1 / rng.uniform(0.5, 2.0, 3)),
    ],
    ids=["two_sided", "two_sided vector", "two_sided whole", "reciprocal", "reciprocal vector"],
)
def test_values_of_distributions_for_volumes_are_those_of_numpys_generator(op, name, draw):
    wanted = np.array(numpys(op, draw))
    np.testing.assert_array_equal(drawn(op, name), wanted.astype(drawn(op, name).dtype))


def test_what_lies_beyond_the_bounds_is_moved_to_them():
    op = BoxBlur(window_size=Normal(64, 60))
    wanted = numpys(op, lambda rng: np.clip(np.rint(rng.normal(64, 60)), 1, 127))
    assert {1, 127} < set(wanted)
    np.testing.assert_array_equal(drawn(op, "window_size"), wanted)


def test_one_number_of_a_distribution_is_the_first_of_several():
    for one in (Uniform(0.5, 2.0), Normal(1, 2), Choice([3, 4, 9]), Choice([3, 4, 9], [1, 2, 0])):
        number = one.draw(stream(1, "a"), (), whole=False)
        assert type(number) is float
        assert number == one.draw(stream(1, "a"), (4,), whole=False)[0]


@pytest.mark.parametrize(
    "op", [RandomResizedCrop(size=(4, 4)), Rotate(angle=(0.0, 9.0)), Flip(p=0.5)], ids=repr
)
def test_rows_as_attributes_have_the_types_of_their_fields(op):
    rows = resolve(op, [SPEC] * 3, 0, range(3)).rows
    for p, row in zip(values_of_each(rows), rows, strict=True):
        for other in (values_of(row), values_of_all(row.reshape(1))):
            assert list(map(type, vars(p).values())) == list(map(type, vars(other).values()))
            np.testing.assert_equal(vars(p), vars(other))


def test_whether_an_operator_acts_is_drawn_last():
    op = Brightness(brightness=(0.5, 2.0), brightness_shift=(-0.1, 0.1), p=0.4, seed=2)
    wanted = numpys(op, lambda rng: (rng.uniform(0.5, 2), rng.uniform(-0.1, 0.1), rng.random() < 0.4))
    for name, column in zip(
        ("brightness", "brightness_shift", "acts"), zip(*wanted, strict=True), strict=True
    ):
        np.testing.assert_array_equal(drawn(op, name), np.array(column).astype(drawn(op, name).dtype))
    assert 0 < drawn(op, "acts").sum() < SAMPLES


@pytest.mark.parametrize("op", [Elastic3d(p=0.4), Elastic3d(amplitude=(0.1, 0.3)), Ghosting(p=0.4)], ids=repr)
def test_a_key_is_drawn_after_the_parameters_and_before_whether_an_operator_acts(op):
    """Whether its other numbers are drawn in C (none, or a range) or not (whole numbers)."""

    def numbers(rng):
        before = op.distributions
        values = [value.draw(rng, (), whole=q.param.kind is int) for q, value, _ in before]
        return (*values, rng.integers(1 << 24), rng.integers(1 << 24), op.p == 1 or rng.random() < op.p)

    wanted = np.array(numpys(op, numbers), np.float32)
    found = drawn(op, "key")
    np.testing.assert_array_equal(found, wanted[:, -3:-1])
    np.testing.assert_array_equal(drawn(op, "acts"), wanted[:, -1])
    for column, (q, _, _) in enumerate(op.distributions):
        np.testing.assert_array_equal(drawn(op, q.name), wanted[:, column])
    assert len(np.unique(found)) == found.size
    assert found.max() > 1 << 23


def test_a_parameter_of_an_operator_with_a_key_may_not_have_its_name():
    with pytest.raises(ParameterError, match=re.escape("Locked.key has the name of another attribute")):

        class Locked(Ghosting, register=False):
            """With a parameter for the key."""

            key: int = param(0, "a key")


DERIVED = [
    case for case in cases() if built(case).traits.derived_from is not None and built(case).traits.derived
]


@pytest.mark.parametrize("case", DERIVED, ids=str)
def test_what_is_derived_follows_from_the_parameters_that_are_named(case):
    """Whatever else is in the rows: it is derived once for all samples where these are constant."""
    op = built(case)
    spec = SPEC._replace(channels=(op.traits.channels or (3,))[0], dtype=op.traits.dtypes[0])
    rows, others = op.template.repeat(2), op.template.repeat(2)
    for name in set(rows.dtype.names) - set(op.traits.derived_from):
        others[name] = 7
    for (name, found), other in zip(
        op.derive(rows, spec).items(), op.derive(others, spec).values(), strict=True
    ):
        np.testing.assert_array_equal(found, other, err_msg=name)


def test_a_class_that_derives_otherwise_does_not_keep_what_its_base_names():
    class Other(Brightness, register=False):
        def derive(self, rows, spec):  # noqa: ARG002  the same for all types
            return {"shift": rows["brightness"]}

    assert Brightness.traits.derived_from == ("brightness_shift",)
    assert Other.traits.derived_from is None
    rows = resolve(Other(brightness=(0.5, 2.0)), [SPEC] * 3, 0, range(3)).rows
    np.testing.assert_array_equal(rows["shift"], rows["brightness"])


def test_a_class_that_orders_otherwise_is_asked_for_each_sample():
    class Other(TemporalJitter, register=False):
        def order(self, p, frames):
            assert np.ndim(p.offset) == 1
            return super().order(p, frames)

    x = np.arange(3 * 5 * 2 * 2 * 1, dtype=np.uint8).reshape(3, 5, 2, 2, 1)
    assert TemporalJitter.traits.rows_together
    specs = [Spec(5, 2, 2, 1, "uint8")] * 3
    for op in (TemporalJitter(offset=(-2, 2)), Other(offset=(-2, 2))):
        rows = resolve(op, specs, 0, range(3)).rows
        parts = [op.kernel_rows(part, specs[0]) for part in rows.reshape(3, -1)]
        device = Kept()
        apply(op, x, backend="cuda", device=device)
        assert np.concatenate(parts).tobytes() in device.job.tobytes()


class Kept:
    """A device that keeps what a kernel is given."""

    argument_bytes = 4096

    def launch(self, _source, _function, _defines, _grid, _block, job, _stream):
        self.job = job


def test_a_class_that_draws_otherwise_is_given_generators():
    class Other(RandAugment, register=False):
        def sample(self, rng, spec):
            assert isinstance(rng, np.random.Generator)
            return {**super().sample(rng, spec), "m": rng.poisson(3)}

    assert RandAugment.traits.samples_together
    drawn = resolve(Other(), [SPEC] * 3, 0, range(3)).rows
    assert len(set(drawn["m"].tolist())) > 1


def test_what_changes_nothing_does_not_act():
    op = Brightness(brightness=Choice([1.0, 2.0]))
    np.testing.assert_array_equal(drawn(op, "acts"), drawn(op, "brightness") != 1)
    assert 0 < drawn(op, "acts").sum() < SAMPLES


X = np.arange(2 * 4 * 5 * 6 * 3, dtype=np.uint8).reshape(2, 4, 5, 6, 3)
BOX = np.array([[0.1, 0.2, 0.6, 0.9]])
CALLS = {
    "operator": lambda **place: Flip(p=0.5)(X, **place),
    "constant": lambda **place: Flip()(X, **place),
    "list": lambda **place: Flip(p=0.5)([X], **place),
    "on boxes": lambda **place: RandomBboxCrop()(BOX, **place),
    "on points": lambda **place: CoordTransform(T=(1.0, 2.0))(BOX[:, :2], **place),
    "on batches": lambda **place: Mixup()(X, **place),
    "policy": lambda **place: RandAugment()(X, **place),
    "drawn": lambda **place: RandAugment().drawn(**place),
    "chain": lambda **place: Chain(Flip(p=0.5))(X, **place),
}


@pytest.mark.parametrize("value", ["x", 1.5, -1], ids=repr)
@pytest.mark.parametrize("what", ["epoch", "index"])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_names_the_operator_and_what_is_wrong_about_its_place(call, what, value):
    allowed = re.escape("an integer from 0 to 2**64 - 1")
    with pytest.raises(ParameterError, match=rf"^\w+: {what}={value!r} is not valid; allowed: {allowed}\.$"):
        CALLS[call](**{what: value})


def test_indices_of_samples_are_integers_too():
    with pytest.raises(ParameterError, match=r"^flip: index=-1 is not valid"):
        Flip(p=0.5)(X, index=[0, -1])
    with pytest.raises(ParameterError, match=rf"^flip: index={2**64} is not valid"):
        Flip(p=0.5)(X, index=2**64 - 1)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.array])
def test_a_place_of_a_call_may_be_any_kind_of_integer(kind):
    op = Brightness(brightness=(0.5, 2.0))
    np.testing.assert_array_equal(op(X, epoch=kind(3), index=kind(5)), op(X, epoch=3, index=5))
