"""What holds for every operator, derived from the registry: its examples on every backend, type and layout."""

from __future__ import annotations

import inspect
import pickle
import re
from operator import attrgetter
from typing import get_args

import numpy as np
import pytest

import seqpipe
from seqpipe import fn
from seqpipe.errors import ParameterError
from seqpipe.ops import REGISTRY, Op, PerFrame, Spec, Uniform, apply, per_frame
from seqpipe.ops._body import WORK, Work
from seqpipe.ops._declaration import Takes
from seqpipe.ops._draw import resolve
from tests.support.operators import (
    LAYOUTS,
    built,
    case_of,
    cases,
    compare,
    five,
    images,
    may_stay,
    names,
    some_values,
    unfive,
)


def some(chosen):
    """Marks a test that is run for some cases."""
    return pytest.mark.parametrize("case", chosen, ids=lambda case: f"{case[0]}-{case[1]}")


def structural(name):
    """An operator's first example and its first random one: enough for what follows from how operators are built."""
    randoms = [n for n in range(len(REGISTRY[name].examples)) if built((name, n)).is_random]
    return [(name, n) for n in sorted({0, *randoms[:1]})]


NAMES = pytest.mark.parametrize("name", names())
TAKES = get_args(Takes)
ALL = pytest.mark.parametrize("name", names(*TAKES))
CASES = some(cases())
STRUCTURAL = some([case for name in names() for case in structural(name)])
FIRST = some([(name, 0) for name in names()])
# every type with the first example of an operator, those that matter most with all
TYPES = [
    (case, dtype)
    for case in cases()
    for dtype in REGISTRY[case[0]].dtypes
    if case[1] == 0 or dtype in ("uint8", "float32")
]
SPEC = Spec(3, 5, 7, 3, "uint8")


def reference(op, x, **options):
    return apply(op, x, backend="reference", **options)


def result(op, x, **options):
    """The reference of one sample after the other, with the view of layouts that the tests have."""
    layout = options.pop("layout", "NFHWC")
    index = options.pop("index", 0)
    found = [
        reference(op, part[None], layout="NFHWC", index=index + n, **options)
        for n, part in enumerate(five(x, layout))
    ]
    return unfive(np.concatenate(found), layout)


# ------------------------------------------------------------------------------------------ the same everywhere


@pytest.mark.parametrize(
    ("case", "dtype"),
    TYPES,
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else value,
)
def test_backends_agree_with_the_reference(place, case, dtype):
    op = built(case)
    if not place.takes(op):
        pytest.skip("it has no kernel")
    x = images(op, dtype)
    compare(place(op, x, epoch=2, index=5), reference(op, x, epoch=2, index=5), place.tolerance(op))


@STRUCTURAL
def test_large_images_agree_too(place, case):
    """Tables and whole blocks of threads are used for these only."""
    op = built(case)
    if not place.takes(op):
        pytest.skip("it has no kernel")
    x = images(op, op.dtypes[0] if "uint8" not in op.dtypes else "uint8", size=(151, 149))
    compare(place(op, x), reference(op, x), place.tolerance(op))


@FIRST
def test_every_layout(anywhere, case):
    op = built(case)
    if not anywhere.takes(op):
        pytest.skip("it has no kernel")
    for layout in LAYOUTS:
        if op.channels and 1 not in op.channels and "C" not in layout:
            continue
        x = images(op, "uint8", layout)
        if not (op.keeps_frames or set(layout) & {"F", "D"}):
            with pytest.raises(
                ParameterError, match=rf"{op.name}: images of layout {layout}, which has no frames"
            ):
                anywhere(op, x, layout=layout)
            continue
        found = anywhere(op, x, layout=layout, index=4)
        compare(found, result(op, x, layout=layout, index=4), anywhere.tolerance(op))
        assert found.flags.c_contiguous, layout


@STRUCTURAL
def test_a_batch_is_its_samples_one_by_one(anywhere, case):
    op = built(case)
    if not anywhere.takes(op):
        pytest.skip("it has no kernel")
    x = images(op, "uint8", samples=5)
    found = anywhere(op, x, index=2, epoch=1)
    for n, one in enumerate(x):
        compare(anywhere(op, one, index=2 + n, epoch=1), found[n])


@STRUCTURAL
def test_lists_of_different_shapes_are_their_samples_one_by_one(anywhere, case):
    if not anywhere.takes(built(case)):
        pytest.skip("it has no kernel")
    for frames in (False, True)[: 1 + REGISTRY[case[0]].by_frame]:
        check_lists(anywhere, built(case, per_frame=frames))


def check_lists(anywhere, op):
    parts = [
        np.concatenate([images(op, "uint8", "FHWC", size=(9, 7), seed=n) for n in (2, 3)])[:5],
        images(op, "uint8", "FHWC", size=(5, 8)),
        images(op, "uint8", "FHWC", size=(23, 31), seed=1)[::-1],
    ]
    before = getattr(anywhere.device, "launches", 0)
    found = anywhere(op, parts, index=3)
    if anywhere.device is not None and not op.composed:
        assert anywhere.device.launches - before == len(WORK.get(op.body.kind, Work()).passes)
    assert isinstance(found, list)
    for n, part in enumerate(parts):
        compare(found[n], anywhere(op, part, index=3 + n))


@STRUCTURAL
def test_a_sequence_is_its_frames(anywhere, case):
    """With one draw for all of them."""
    op = built(case)
    if not (anywhere.takes(op) and op.keeps_frames):
        pytest.skip("it has no kernel, or needs a whole sequence")
    x = images(op, "uint8", "FHWC")
    whole = anywhere(op, x, index=6)
    for frame, one in enumerate(x):
        if op.frames_alike:
            compare(anywhere(op, one, index=6), whole[frame])
        else:
            compare(anywhere(op, x[: frame + 1], index=6), whole[: frame + 1])


@STRUCTURAL
def test_equal_frames_have_equal_results_or_never(anywhere, case):
    op = built(case, p=1.0, per_frame=False)
    if not (anywhere.takes(op) and op.keeps_frames):
        pytest.skip("it has no kernel, or needs a whole sequence")
    one = images(op, "uint8", "HWC", size=(16, 16))
    first, second = anywhere(op, np.stack([one, one]))
    assert (first == second).all() == op.frames_alike


@NAMES
def test_arguments_for_each_frame_are_frames_with_an_argument_each(anywhere, name):
    cls = REGISTRY[name]
    if not cls.by_frame:
        pytest.skip("it has none")
    for q in (q for q in cls.drawable if q.by_frame):
        values = some_values(q, 3)
        op = built(case_of(name, q), **{q.name: per_frame(values)})
        if not anywhere.takes(op):
            pytest.skip("it has no kernel")
        x = images(op, "uint8")
        found = anywhere(op, x)
        for frame, value in enumerate(values if cls.keeps_frames and cls.frames_alike else ()):
            compare(
                found[:, frame],
                anywhere(built(case_of(name, q), **{q.name: value}), x[:, frame], layout="FHWC"),
            )
        both = np.stack([values, values[::-1]])
        found = anywhere(built(case_of(name, q), **{q.name: per_frame(both)}), x)
        for sample, one in enumerate(both):
            one_op = built(case_of(name, q), **{q.name: per_frame(one)})
            compare(found[sample], anywhere(one_op, x[sample], index=sample))


@NAMES
def test_arguments_for_each_sample_are_samples_with_an_argument_each(anywhere, name):
    for q in REGISTRY[name].drawable:
        values = some_values(q, 4)
        op = built(case_of(name, q), **{q.name: values})
        if not anywhere.takes(op):
            pytest.skip("it has no kernel")
        x = images(op, "uint8", samples=4)
        found = anywhere(op, list(x))
        for sample, value in enumerate(values):
            one_op = built(case_of(name, q), **{q.name: value})
            compare(found[sample], anywhere(one_op, x[sample], index=sample))
        if len({one.shape for one in found}) == 1:
            compare(anywhere(op, x), np.stack(found))


@STRUCTURAL
def test_one_object_serves_whatever_comes(anywhere, case):
    """What it keeps for one type, size or length is not used for another."""
    op = built(case)
    if not anywhere.takes(op):
        pytest.skip("it has no kernel")
    for dtype, layout, size in (
        ("uint8", "FHWC", (5, 7)),
        ("float32", "FHWC", (5, 7)),
        ("uint16", "HWC", (9, 8)),
        ("uint8", "DHWC", (9, 8)),
    ):
        if dtype not in op.dtypes or not (op.keeps_frames or "F" in layout):
            continue
        x = images(op, dtype, layout, size=size)
        compare(anywhere(op, x, layout=layout), anywhere(built(case), x, layout=layout))


# ------------------------------------------------------------------------------------------ memory


@STRUCTURAL
def test_memory_of_any_kind_is_read_and_none_is_written(anywhere, case):
    op = built(case)
    if not anywhere.takes(op):
        pytest.skip("it has no kernel")
    base = images(op, "uint8", size=(10, 14))
    for x in (
        base[:, :, ::2, 1::2],
        base[:, ::-1, ::-1, ::-1],
        np.broadcast_to(base[:1, :1], base.shape),
        base.transpose(0, 1, 3, 2, 4),
        np.moveaxis(np.ascontiguousarray(np.moveaxis(base, -1, 2)), 2, -1),
    ):
        kept = x.copy()
        x.flags.writeable = False
        found = anywhere(op, x)
        compare(found, anywhere(op, kept))
        compare(x, kept)
        assert not np.shares_memory(found, base)
        assert found.flags.writeable


# ------------------------------------------------------------------------------------------ identity, inverse


@NAMES
def test_parameters_that_change_nothing_change_no_bit(anywhere, name):
    cls = REGISTRY[name]
    still = {q.name: q.identity for q in cls.parameters if q.identity is not None}
    ways = [{"p": 0.0}] * may_stay(name) + [still] * bool(still)
    for way in ways:
        for dtype in cls.dtypes:
            op = built((name, 0), **way)
            x = images(op, dtype)
            if anywhere.takes(op) and op.result_dtype(dtype) == dtype:
                compare(anywhere(op, x), x)


@some([case for case in cases() if hasattr(REGISTRY[case[0]], "inverse")])
def test_the_inverse_takes_it_back(anywhere, case):
    op = built(case)
    if not anywhere.takes(op):
        pytest.skip("it has no kernel")
    x = images(op, "uint8")
    compare(anywhere(op.inverse(), anywhere(op, x)), x)


# ------------------------------------------------------------------------------------------ draws


def rows(op, indices, epoch=0, spec=SPEC):
    block = resolve(op, [spec] * len(indices), epoch, indices)
    return [list(map(str, block.of(n, spec.frames).tolist())) for n in range(len(indices))]


def test_randomness_is_among_the_examples():
    for name in names():
        if REGISTRY[name].drawable:
            assert any(built((name, n)).is_random for n in range(len(REGISTRY[name].examples))), name


@some([case for case in cases() if built(case).is_random or REGISTRY[case[0]].by_frame])
@pytest.mark.parametrize("frames", [False, True])
def test_draws_depend_on_seed_name_epoch_and_index_alone(case, frames):
    if frames and not REGISTRY[case[0]].by_frame:
        pytest.skip("it draws for whole sequences")
    op = built(case, per_frame=frames)
    if not op.is_random:
        pytest.skip("it draws nothing")
    whole = rows(op, range(40))
    assert rows(op, list(range(39, -1, -1)))[::-1] == whole
    assert [rows(op, [index])[0] for index in range(40)] == whole
    assert rows(pickle.loads(pickle.dumps(op)), range(40)) == whole
    assert rows(op, range(40), spec=SPEC._replace(height=9)) == whole or not op.keeps_size
    for other in (
        rows(op, range(40), epoch=1),
        rows(built(case, per_frame=frames, seed=op.seed + 1), range(40)),
        rows(op, range(40, 80)),
    ):
        assert other != whole
    named = type("Other", (type(op),), {"__module__": __name__}, register=False)
    assert rows(named(**op.settings()), range(40)) != whole
    if frames:
        assert any(len(set(one)) > 1 for one in whole)
    else:
        assert all(len(one) == 1 for one in whole) == op.frames_alike


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
    if not op.keeps_size:
        with pytest.raises(
            ParameterError, match=rf"{name}: results of different sizes.*Give the samples as a list"
        ):
            apply(op, x)
    if not (op.keeps_size and op.keeps_frames):
        x = list(x)
    found, sure = apply(op, x), apply(built((name, 0), per_frame=False), x)
    for acts, one, certain, given in zip(which, found, sure, x, strict=True):
        compare(one, certain if acts else given)


# ------------------------------------------------------------------------------------------ refusals


@NAMES
def test_what_it_does_not_take_is_refused(name):
    op = built((name, 0))
    x = images(op, "uint8", "FHWC")
    for bad, options, said in (
        (x.astype(np.complex64), {}, r"values of type complex64; allowed: "),
        (x.astype(">u2"), {}, r"values of type >u2; allowed: "),
        (x, {"layout": "HWC"}, r"layout='HWC' names 3 axes, but the array has 4; allowed: FHWC"),
        (x, {"layout": "CFHW"}, r"layout='CFHW' is unknown; allowed: HW, HWC, CHW"),
        (x[0, 0, 0], {}, r"an array with 1 axes; allowed: 2 to 5"),
        (x[:0], {}, r"shape \(0, 5, 7, \d\) holds no pixels"),
        (x[:, :0], {}, r"holds no pixels"),
        ([x, x.astype(op.dtypes[-1])], {}, r"arrays of different types, .*uint8"),
        ([], {}, "a list of no arrays; allowed: one or more"),
        ("frame.png", {}, "a str is not an array; allowed: NumPy, CuPy and torch"),
        (x, {"index": [1, 2]}, r"index has the shape \(2,\).*allowed: a whole number, or 1 of them"),
    ):
        with pytest.raises(ParameterError, match=f"^{name}: .*{said}"):
            op(bad, **options)
    if op.channels:
        with pytest.raises(ParameterError, match=rf"{name}: pixels of 7 values; allowed: "):
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
            if isinstance(value, PerFrame) and not (REGISTRY[name].by_frame and q.by_frame):
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
        for value in bad:
            with pytest.raises(ParameterError, match=rf"^{name}: {q.name}.*; allowed: "):
                built(case_of(name, q), **{q.name: value})
    with pytest.raises(
        ParameterError, match=rf"{name}: there is no parameter 'colour_of_money'; allowed: [a-zA-Z]"
    ):
        built((name, 0), colour_of_money=1)
    if REGISTRY[name].takes == "arrays":
        return  # nothing of it is random
    for common in ({"p": 1.5}, {"p": -0.1}, {"seed": 0.5}, {"per_frame": 2}):
        with pytest.raises(ParameterError, match=rf"^{name}: {next(iter(common))}="):
            built((name, 0), **common)


@ALL
def test_its_own_examples_of_errors(name):
    assert REGISTRY[name].errors, "one at least"
    for arguments, said in REGISTRY[name].errors:
        with pytest.raises(ParameterError, match=said):
            REGISTRY[name](**arguments)
        with pytest.raises(ParameterError, match=said):
            attrgetter(name)(fn)(np.zeros((4, 4, 3), np.uint8), **arguments)


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
            if isinstance(value, PerFrame) and not (REGISTRY[name].by_frame and q.by_frame):
                continue
            op = built(case_of(name, q), **{q.name: value})
            assert Op.from_json(op.to_json()) == op
            assert pickle.loads(pickle.dumps(op)) == op


@CASES
def test_the_function_is_the_operator(case):
    name, number = case
    op = built(case)
    x = images(op, "uint8")
    compare(getattr(fn, name)(x, **REGISTRY[name].examples[number], index=3), op(x, index=3))


@NAMES
def test_the_function_looks_at_types(name):
    """True, 1 and 1.0 are equal and hash alike; an operator kept for one of them is not used for another."""
    for q in REGISTRY[name].drawable:
        if q.param.kind is not bool and not q.size and q.param.check(1) == 1:
            arguments = {**REGISTRY[name].examples[case_of(name, q)[1]], q.name: 1}
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
    assert cls.examples
    assert inspect.getdoc(function).startswith(inspect.getdoc(cls).partition("\n")[0])
    signature = inspect.signature(function)
    if cls.takes == "images":
        assert [*signature.parameters] == ["x", *(q.name for q in cls.parameters), "layout", "epoch", "index"]
    for q in cls.parameters:
        assert len(q.param.doc) > 3
        assert f"{q.name}: {q.param.doc.rstrip('.')}" in function.__doc__
        assert signature.parameters[q.name].default == q.default
        if q.identity is not None:
            assert q.normal(q.identity) == q.identity
    if cls.__module__.startswith("seqpipe."):
        (row,) = (line for line in seqpipe.ops.table().splitlines() if line.startswith(f"| `{name}` |"))
        assert row.count(" | ") == 5
        assert all(f"`{q.name}={q.default!r}`" in row for q in cls.parameters[:-3])
    assert re.fullmatch(r"([a-z]+\.)?[a-z][a-z0-9_]*", name)
    if cls.__module__.startswith("seqpipe."):
        assert attrgetter(name.rpartition(".")[0] + "." * ("." in name) + cls.__name__)(seqpipe.ops) is cls
