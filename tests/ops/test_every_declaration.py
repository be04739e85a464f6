"""What follows for every operator from its declaration: draws, refusals, functions, JSON, documentation."""

from __future__ import annotations

import inspect
import itertools
import pickle
import re
from operator import attrgetter

import numpy as np
import pytest

import seqpipe
from seqpipe import fn
from seqpipe.errors import ParameterError
from seqpipe.ops import REGISTRY, Op, PerFrame, Spec, Uniform, apply, per_frame
from seqpipe.ops.core.blocks import resolve
from seqpipe.ops.core.parameters import ANY, MATRIX, Parameter
from tests.support.marks import ALL, CASES, NAMES, TAKES, some
from tests.support.operators import (
    built,
    case_of,
    cases,
    compare,
    images,
    may_stay,
    names,
    some_values,
)

SPEC = Spec(3, 5, 7, 3, "uint8")


# ------------------------------------------------------------------------------------------ draws


def rows(op, indices, epoch=0, spec=SPEC):
    block = resolve(op, [spec] * len(indices), epoch, indices)
    return [[row.tobytes() for row in block.of(n, spec.frames)] for n in range(len(indices))]


def test_randomness_is_among_the_examples():
    for name in names():
        if REGISTRY[name].drawable:
            assert any(built((name, n)).is_random for n in range(len(REGISTRY[name].traits.examples))), name


@some([case for case in cases() if built(case).is_random or REGISTRY[case[0]].traits.by_frame])
@pytest.mark.parametrize("frames", [False, True])
def test_draws_depend_on_seed_name_epoch_and_index_alone(case, frames):
    if frames and not REGISTRY[case[0]].traits.by_frame:
        pytest.skip("it draws for whole sequences")
    op = built(case, per_frame=frames)
    if not op.is_random:
        pytest.skip("it draws nothing")
    whole = rows(op, range(16))
    assert rows(op, list(range(15, -1, -1)))[::-1] == whole
    assert [rows(op, [index])[0] for index in range(16)] == whole
    assert rows(pickle.loads(pickle.dumps(op)), range(16)) == whole
    assert rows(op, range(16), spec=SPEC._replace(height=9)) == whole or not op.traits.keeps_size
    for other in (
        rows(op, range(16), epoch=1),
        rows(built(case, per_frame=frames, seed=op.seed + 1), range(16)),
        rows(op, range(16, 32)),
    ):
        assert other != whole
    named = type("Other", (type(op),), {"__module__": __name__}, register=False)
    assert rows(named(**op.settings()), range(16)) != whole
    if frames:
        assert any(len(set(sample)) > 1 for sample in whole)
    else:
        assert all(len(sample) == 1 for sample in whole) == op.traits.frames_alike


@ALL
def test_draws_fill_their_range_and_stay_in_it(name):
    for q in REGISTRY[name].drawable:
        if q.param.kind is bool:
            op, lo, hi = built(case_of(name, q), **{q.name: seqpipe.ops.Choice([False, True])}), 0, 1
        else:
            values = some_values(q, 64)
            lo, hi = values.min(axis=0), values.max(axis=0)
            op = built(
                case_of(name, q),
                **{q.name: Uniform(tuple(lo), tuple(hi)) if q.size else (float(lo), float(hi))},
            )
        block = resolve(op, [SPEC] * 400, 0, range(400))
        drawn = block.rows[q.name]
        assert (drawn >= np.float32(lo)).all()
        assert (drawn <= np.float32(hi)).all()
        near = 0 if q.param.kind is not float else 0.02 * (np.asarray(hi) - lo)
        assert (drawn.min(axis=0) <= lo + near).all()
        assert (drawn.max(axis=0) >= hi - near).all()


@NAMES
def test_it_acts_with_its_probability(name):
    if not may_stay(name):
        pytest.skip("it always does")
    op = built((name, 0), p=0.3, per_frame=False)
    x = images(op, "uint8", samples=400)
    block = resolve(op, [SPEC] * 400, 0, range(400))
    which = [bool(block.of(n, SPEC.frames)["acts"][0]) for n in range(400)]
    assert 0.22 < np.mean(which) < 0.38
    if not op.traits.keeps_size:
        with pytest.raises(
            ParameterError, match=rf"{name}: results of different sizes.*Give the samples as a list"
        ):
            apply(op, x)
    if not (op.traits.keeps_size and op.traits.keeps_frames):
        x = list(x)
    found, sure = apply(op, x), apply(built((name, 0), per_frame=False), x)
    for acts, result, certain, given in zip(which, found, sure, x, strict=True):
        compare(result, certain if acts else given)


# ------------------------------------------------------------------------------------------ refusals


@NAMES
def test_what_it_does_not_take_is_refused(name):
    op = built((name, 0))
    x = images(op, "uint8", "FHWC")
    for bad, options, said in (
        (x.astype(np.complex64), {}, r"values of type complex64; allowed: "),
        (x.astype(">u2"), {}, r"values of type >u2; allowed: "),
        (x, {"layout": "HWC"}, r"layout='HWC' names 3 axes, but the array has 4; allowed: FHWC"),
        (x, {"layout": "FHCW"}, r"layout='FHCW' is unknown; allowed: HW, HWC, CHW"),
        (x, {"layout": ["FHWC"]}, r"layout=\['FHWC'\] is unknown; allowed: HW, HWC, CHW"),
        (x[0, 0, 0], {}, r"an array with 1 axes; allowed: 2 to 5"),
        (x[:0], {}, r"shape \(0, 5, 7, \d\) holds no pixels"),
        (x[:, :0], {}, r"holds no pixels"),
        ([x, x.astype(op.traits.dtypes[-1])], {}, r"arrays of different types, .*uint8"),
        ([], {}, "a list of no arrays; allowed: one or more"),
        ("frame.png", {}, "an object of type str is not an array; allowed: NumPy, CuPy and torch"),
        (x, {"index": [[1], [1, 2]]}, r"index has the shape .*allowed: a whole number, or 1 of them"),
        (x, {"index": [1, 2]}, r"index has the shape \(2,\).*allowed: a whole number, or 1 of them"),
    ):
        with pytest.raises(ParameterError, match=f"^{name}: .*{said}"):
            op(bad, **options)
    if op.traits.channels:
        with pytest.raises(ParameterError, match=rf"{name}: .*pixels of 7( values)?; allowed: "):
            op(np.zeros((4, 4, 7), np.uint8))


@NAMES
def test_tables_of_the_wrong_length_are_refused(name):
    for q in REGISTRY[name].drawable:
        x = images(built((name, 0)), "uint8")
        for value, said in (
            (
                some_values(q, 3),
                rf"{name}: {q.name} has values for \(3,\); allowed: \(2,\), the samples given",
            ),
            (per_frame(some_values(q, 2)), r"has values for \(2,\); allowed: \(3,\), the frames given"),
            (
                per_frame(np.stack([some_values(q, 3)] * 3)),
                r"\(3, 3\); allowed: \(2, 3\), the samples and frames",
            ),
        ):
            if isinstance(value, PerFrame) and not (REGISTRY[name].traits.by_frame and q.by_frame):
                said = f"^{name}: {q.name} asks for a value for each frame; allowed: one for a sequence"
            with pytest.raises(ParameterError, match=said):
                built(case_of(name, q), **{q.name: value})(x)


@ALL
def test_values_that_no_parameter_has_are_refused(name):
    for q in REGISTRY[name].drawable:
        bad = [
            np.nan,
            "wide",
            [np.nan, 1.0],
            np.array(["a"]),
            per_frame(1),
            (0, 1, 2, 3, 4, 5, 6),
            [[[[1.0]]]],
        ]
        bad += (
            [q.param.lo - 1, [q.param.lo - 1] * max(1, q.size), (q.param.lo - 1, q.param.lo)]
            if q.param.lo is not None
            else []
        )
        bad += [q.param.hi + 1] if q.param.hi is not None else []
        ends = {float(value) for value in some_values(q, 9).flat}
        bad += [(max(ends), min(ends))] if not q.size and q.param.kind is not bool and len(ends) > 1 else []
        for value in bad:
            with pytest.raises(ParameterError, match=rf"^{name}: {q.name}.*; allowed: "):
                built(case_of(name, q), **{q.name: value})
    with pytest.raises(
        ParameterError, match=rf"{name}: there is no parameter 'color_of_money'; allowed: [a-zA-Z]"
    ):
        built((name, 0), color_of_money=1)
    known = {q.name for q in REGISTRY[name].parameters}  # of what is not random, or always acts, they are not
    for common, value in (("p", 1.5), ("p", -0.1), ("seed", 0.5), ("per_frame", 2)):
        if common in known:
            with pytest.raises(ParameterError, match=rf"^{name}: {common}="):
                built((name, 0), **{common: value})
    if "per_frame" in known and not REGISTRY[name].traits.by_frame:
        said = f"^{name}: per_frame asks for a value for each frame; allowed: one for a sequence"
        with pytest.raises(ParameterError, match=said):
            built((name, 0), per_frame=True)


def beyond(one):
    """What is allowed of each element of a parameter, in words of its bounds, and values that are not."""
    if one.choices:
        return ", ".join(map(repr, one.choices)), [2, "", one.choices[0] + "?"]
    what = {int: "a whole number", float: "a number", str: "a string", bool: "True or False"}[one.kind]
    bad = [3] if one.kind is str else ["wide", *{int: [0.5], bool: [2]}.get(one.kind, [])]
    lo, hi = (f"{end:g}" if end is not None and abs(end) < 1e5 else r"-?[\d.]+" for end in (one.lo, one.hi))
    if one.lo is not None:
        what += f" of at least {lo}" if one.hi is None else f" from {lo} to {hi}"
        bad += [one.lo - 1, np.nextafter(one.lo, -np.inf)]
    return what, bad + ([] if one.hi is None else [one.hi + 1])


@ALL
def test_values_out_of_bounds_are_refused_in_words(name):
    """Of every parameter, also of those that are one value for all samples; by the function, too."""
    x = np.zeros((4, 4, 3), np.uint8)
    for q in REGISTRY[name].parameters:
        if type(q) is not Parameter:  # the range has forms of its own
            continue
        what, bad = beyond(q.one)
        for value in bad:
            given = {0: value, ANY: (value,), MATRIX: ((value,),)}.get(q.size, (value,) * q.size)
            with pytest.raises(
                ParameterError, match=rf"^{name}: {q.name}=.* is not valid; allowed: (.* each )?{what}"
            ):
                REGISTRY[name](**{q.name: given})
        with pytest.raises(ParameterError, match=rf"^{name}: {q.name}"):
            attrgetter(name)(fn)(x, **{q.name: given})
        if q.size:
            several = {ANY: "one value or more", MATRIX: "rows of values"}.get(q.size, f"{q.size} values")
            with pytest.raises(ParameterError, match=rf"^{name}: {q.name}.*; allowed: {several}, "):
                REGISTRY[name](**{q.name: ()})


@ALL
def test_ranges_that_are_reversed_and_parameters_that_exclude_one_another_are_refused(name):
    cls = REGISTRY[name]
    for q in (q for q in cls.parameters if q.ordered):
        lo, hi = q.one.lo, q.one.lo + 0.5
        said = rf"^{name}: {q.name}=\({hi:.5g}.*, {lo:.5g}.*\) is reversed; allowed: \(least, greatest\)"
        with pytest.raises(ParameterError, match=said):
            cls(**{q.name: (hi, lo)})
    for group in cls.traits.exclusive:
        for pair in itertools.combinations((q for q in cls.parameters if q.name in group), 2):
            values = {
                q.name: {str: "H", bool: True}.get(q.param.kind, (1,) * q.size if q.size > 0 else 1)
                for q in pair
            }
            both = " and ".join(op for op in group if op in values)
            said = rf"^{name}: {both} given; allowed: one of {', '.join(group)}"
            with pytest.raises(ParameterError, match=said):
                cls(**values)


@ALL
def test_its_own_examples_of_errors(name):
    for arguments, said in REGISTRY[name].traits.errors:
        with pytest.raises(ParameterError, match=said):
            REGISTRY[name](**arguments)
        with pytest.raises(ParameterError, match=said):
            attrgetter(name)(fn)(np.zeros((4, 4, 3), np.uint8), **arguments)


@some([case for case in cases(*TAKES) if REGISTRY[case[0]].traits.keeps_frames])
def test_kernels_get_a_row_for_each_drawn_one(case):
    op = built(case)
    rows = resolve(op, [SPEC] * 3, 0, range(3)).rows
    together = op.kernel_rows(rows, SPEC)
    alone = [op.kernel_rows(rows[number : number + 1], SPEC) for number in range(len(rows))]
    assert together.tobytes() == np.concatenate(alone).tobytes()


# ------------------------------------------------------------------------------------------ what follows from it


@some(cases(*TAKES))
def test_it_is_a_value(case):
    op = built(case)
    for other in (
        built(case),
        pickle.loads(pickle.dumps(op)),
        Op.from_json(op.to_json()),
        type(op)(**op.settings()),
    ):
        assert other == op
        assert hash(other) == hash(op)
        assert repr(other) == repr(op)
    assert eval(repr(op), {**vars(seqpipe.ops), type(op).__name__: type(op)}) == op
    name = op.parameters[-1].name  # the seed, if anything can be drawn
    if name == "seed":
        assert built(case, seed=op.seed + 1) != op
    with pytest.raises(AttributeError, match="cannot assign"):
        setattr(op, name, 5)


@ALL
def test_values_of_every_kind_go_there_and_back(name):
    for q in REGISTRY[name].drawable:
        values = some_values(q, 3)
        for value in (
            values,
            per_frame(values),
            per_frame(np.stack([values] * 2)),
            seqpipe.ops.Normal(values.flat[0], 0.0),
        ):
            if isinstance(value, seqpipe.ops.Normal) and q.param.kind is bool:
                continue
            if isinstance(value, PerFrame) and not (REGISTRY[name].traits.by_frame and q.by_frame):
                continue
            op = built(case_of(name, q), **{q.name: value})
            assert Op.from_json(op.to_json()) == op
            assert pickle.loads(pickle.dumps(op)) == op


@CASES
def test_the_function_is_the_operator(case):
    name, number = case
    op = built(case)
    x = images(op, "uint8")
    compare(getattr(fn, name)(x, **REGISTRY[name].traits.examples[number], index=3), op(x, index=3))


@NAMES
def test_the_function_looks_at_types(name):
    """True, 1 and 1.0 are equal and hash alike; an operator kept for one of them is not used for another."""
    for q in REGISTRY[name].drawable:
        if q.param.kind is not bool and not q.size and q.param.check(1) == 1:
            arguments = {**REGISTRY[name].traits.examples[case_of(name, q)[1]], q.name: 1}
            x = images(REGISTRY[name], "uint8")
            getattr(fn, name)(x, **arguments)
            getattr(fn, name)(x, **{**arguments, q.name: (1, 1)})
            for value in (True, (True, True)):
                with pytest.raises(ParameterError, match=f"^{name}: {q.name}=.*; allowed: "):
                    getattr(fn, name)(x, **{**arguments, q.name: value})


@ALL
def test_it_is_documented(name):
    cls = REGISTRY[name]
    function = attrgetter(name)(fn)
    assert cls.__doc__
    assert cls.traits.examples
    assert inspect.getdoc(function).startswith(inspect.getdoc(cls).partition("\n")[0])
    signature = inspect.signature(function)
    if cls.traits.takes == "images":
        assert [*signature.parameters] == ["x", *(q.name for q in cls.parameters), "layout", "epoch", "index"]
    for q in cls.parameters:
        assert f"{q.name}: {q.param.doc.rstrip('.')}" in function.__doc__
        assert signature.parameters[q.name].default == q.default
        (line,) = (line for line in function.__doc__.splitlines() if line.strip().startswith(f"{q.name}: "))
        assert ("per_frame)" in line) == (q.drawn and q.by_frame and cls.traits.by_frame)
        said = line.partition(": ")[2]  # names of parameters have units, too
        assert not q.param.unit or said.count(q.param.unit) == 1 + q.param.doc.count(q.param.unit)
        if q.identity is not None:
            assert q.normal(q.identity) == q.identity
    if cls.__module__.startswith("seqpipe."):
        (row,) = (
            line for line in seqpipe.ops.table(markdown=True).splitlines() if line.startswith(f"| `{name}` |")
        )
        assert row.count(" | ") == 5
        assert all(f"`{q.name}={q.default!r}`" in row for q in cls.parameters[:-3])
    assert re.fullmatch(r"([a-z]+\.)?[a-z][a-z0-9_]*", name)
    if cls.__module__.startswith("seqpipe."):
        assert attrgetter(name.rpartition(".")[0] + "." * ("." in name) + cls.__name__)(seqpipe.ops) is cls
