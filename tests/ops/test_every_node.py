"""Every operator as a node gives what its eager call gives, to the last bit: derived from the registry, everywhere."""

from __future__ import annotations

import inspect
import itertools
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

from seqpipe import fn
from seqpipe.errors import ParameterError
from seqpipe.ops import REGISTRY, Chain, DataNode, Op, PerFrame, operator, param, per_frame
from seqpipe.ops.call.functions import call_of
from seqpipe.pipeline import Graph, Input
from tests.support.marks import ALL, CASES, NAMES, TAKES, some
from tests.support.operators import built, case_of, cases, cupy, images, names, some_values
from tests.support.outcomes import outcome, same
from tests.support.together import together

WHERE: dict[str, Any] = {"epoch": 2, "index": 5}
LABELS = np.array([2, 0])
BOXES = [
    np.array([[0.1, 0.2, 0.5, 0.6], [0.0, 0.0, 0.4, 0.3]]),
    np.array([[0.25, 0.5, 0.5, 0.5]], np.float32),
]
POINTS = [np.array([[1.0, 2.0], [3.5, 4.0]]), np.array([[0.5, 0.25]], np.float32)]


def how(place):
    """What a graph and a call are given for a place."""
    if place.name == "gpu":
        return {}
    return {
        "backend": {"emulated": "cuda", "cpu": None}.get(place.name, "reference"),
        "device": place.device,
    }


def there(place, value):
    """A value where a place works."""
    if isinstance(value, list):
        return [there(place, one) for one in value]
    return cupy().asarray(value) if place.name == "gpu" and isinstance(value, np.ndarray) else value


def eager(place, op, *given, **options):
    """What an operator gives by itself, by the backend of a place where it has several."""
    if type(op).__call__ is Op.__call__:
        return Chain(op)(*given, **WHERE, **how(place), **options)
    if REGISTRY[op.name].traits.takes == "batches":
        return op.mixed(*given, **WHERE, **how(place), **options)
    return op(*given, **(WHERE if REGISTRY[op.name].traits.takes != "arrays" else {}), **options)


def by_graph(place, node, **inputs):
    """What a node, or each of several, gives."""
    if isinstance(node, DataNode):
        (found,) = Graph(node)(**inputs, **WHERE, **how(place))
        return found
    found = Graph(*node)(**inputs, **WHERE, **how(place))
    return type(node)(*found) if hasattr(node, "_fields") else found


def inputs_of(name):
    """What an operator may be given, by place: arrays of several types and shapes for those on arrays as a whole."""
    cls = REGISTRY[name]
    if cls.traits.takes == "images":
        return [(images(cls, "uint8" if "uint8" in cls.traits.dtypes else cls.traits.dtypes[0]),)]
    if cls.traits.takes == "batches":
        return [(images(cls, "uint8"), LABELS), (images(cls, "uint8"),)]
    if cls.traits.takes in ("boxes", "points"):
        return [(BOXES if cls.traits.takes == "boxes" else POINTS,)]
    if cls.traits.takes == "nothing":
        return [()]
    frames = images(cls, "uint8", "FHWC")
    gray = images(cls, "uint8", "HWC", size=(4, 6))[..., :1]
    alone = [(frames,), (LABELS,), (frames[:1],), (frames.ravel(),), (gray,)]
    return (
        alone if call_of(cls)[0][0].kind is not inspect.Parameter.VAR_POSITIONAL else [(frames, frames[::-1])]
    )


# ------------------------------------------------------------------------------------------ the same everywhere


@CASES
def test_a_node_gives_what_the_call_gives(anywhere, case):
    op = built(case)
    if not anywhere.takes(op):
        pytest.skip("it has no kernel")
    (x,) = inputs_of(case[0])[0]
    node = getattr(fn, case[0])(Input("x"), **REGISTRY[case[0]].traits.examples[case[1]])
    same(by_graph(anywhere, node, x=there(anywhere, x)), eager(anywhere, op, there(anywhere, x)))


@NAMES
def test_a_parameter_that_is_a_node_is_one_that_is_an_array(anywhere, name):
    for q in REGISTRY[name].drawable:
        case = case_of(name, q)
        if not anywhere.takes(built(case)):
            pytest.skip("it has no kernel")
        x = there(anywhere, list(inputs_of(name)[0][0]))
        values = some_values(q, len(x))
        node = built(case, **{q.name: Input("value")})(Input("x"))
        same(by_graph(anywhere, node, x=x, value=values), eager(anywhere, built(case, **{q.name: values}), x))
        if q.by_frame and REGISTRY[name].traits.by_frame:
            table = per_frame(np.stack([some_values(q, 3), some_values(q, 3, seed=1)]))
            node = built(case, **{q.name: per_frame(Input("value"))})(Input("x"))
            same(
                by_graph(anywhere, node, x=x, value=table.values),
                eager(anywhere, built(case, **{q.name: table}), x),
            )


@some(cases("batches", "boxes", "points"))
def test_what_acts_on_others_does_too(anywhere, case):
    if anywhere.name != "cpu" and REGISTRY[case[0]].traits.takes != "batches":
        pytest.skip("it has one form")
    op = built(case, **({"num_classes": 4} if REGISTRY[case[0]].traits.takes == "batches" else {}))
    for given in inputs_of(case[0]):
        x = there(anywhere, [*given])
        nodes = [Input(f"x{n}") for n in range(len(x))]
        found = by_graph(anywhere, op(*nodes), **{f"x{n}": one for n, one in enumerate(x)})
        same(found, eager(anywhere, op, *x))


@some(cases("batches", "boxes", "points"))
def test_their_parameters_may_be_nodes(case):
    for q in REGISTRY[case[0]].drawable:
        case = case_of(case[0], q)
        given = inputs_of(case[0])[-1]
        values = some_values(q, 2)
        node = built(case, **{q.name: Input("value")})(Input("x"))
        nodes = node if isinstance(node, tuple) else (node,)
        wanted = outcome(lambda: built(case, **{q.name: values})(*given, **WHERE))  # noqa: B023  called at once
        found = outcome(lambda: Graph(*nodes)(x=given[0], value=values, **WHERE))  # noqa: B023  likewise
        same(found if isinstance(node, tuple) or isinstance(found, str) else found[0], wanted)


@some(cases("arrays"))
def test_what_acts_on_arrays_does_too_and_refuses_alike(case):
    op, done = built(case), 0
    layouts = [{}, {"layout": "FHWC"}] if any(q.name == "layout" for q in call_of(type(op))[1]) else [{}]
    for given, options in itertools.product(inputs_of(case[0]), layouts):
        nodes = [Input(f"x{n}") for n in range(len(given))]
        values = {f"x{n}": value for n, value in enumerate(given)}
        wanted = outcome(lambda: _several(op(*given, **options)))  # noqa: B023  called at once
        same(outcome(lambda: Graph(*_several(op(*nodes, **options)))(**values)), wanted)  # noqa: B023  likewise
        done += not isinstance(wanted, str)
    assert done, "one of the arrays is what it acts on"


def _several(found):
    """What an operator gives as a tuple, also where it is one value."""
    return tuple(found) if isinstance(found, tuple) else (found,)


@some(cases("nothing"))
def test_random_numbers_are_those_of_their_places(case):
    op = built(case)
    x = images(op, "uint8")
    node = attrgetter(case[0])(fn)(**REGISTRY[case[0]].traits.examples[case[1]])
    found, _ = Graph(node, fn.reverse(Input("x")))(x=x, epoch=2, index=[7, 3])
    for row, index in zip(found, (7, 3), strict=True):
        same(row, op.drawn(epoch=2, index=index, frames=3 if op.per_frame else None))


# ------------------------------------------------------------------------------------------ what may not be a node


@ALL
def test_what_is_one_value_for_all_samples_is_no_node(name):
    for q in REGISTRY[name].parameters:
        if not q.drawn:
            for value in (Input("value"), per_frame(Input("value"))):
                said = rf"^{name}: {q.name} is the node value; allowed: .*: it is one value for all samples"
                with pytest.raises(ParameterError, match=said):
                    built((name, 0), **{q.name: value})


@ALL
def test_one_for_all_frames_is_none_for_each(name):
    each = fn.random.uniform(per_frame=True)
    for q in REGISTRY[name].drawable:
        for value in (each, each * 2, per_frame(Input("value"))):
            if q.by_frame and REGISTRY[name].traits.by_frame:
                op = built(case_of(name, q), **{q.name: value})
                assert isinstance(getattr(op, q.name), PerFrame)
            else:
                with pytest.raises(
                    ParameterError, match=rf"^{name}: {q.name} asks for a value for each frame"
                ):
                    built(case_of(name, q), **{q.name: value})


@NAMES
def test_values_that_no_parameter_has_are_refused_as_by_a_call_and_the_node_is_named(name):
    """Of the wrong length, type, shape, NaN, out of bounds: each with the message of the eager call."""
    for q in REGISTRY[name].drawable:
        x, good = [*images(REGISTRY[name], "uint8")], some_values(q, 2)
        bad = [some_values(q, 3), good.astype(str), good[..., None, None], np.full(good.shape, np.nan)]
        bad += [np.full(good.shape, q.param.lo - 1)] if q.param.lo is not None else []
        bad += [np.full(good.shape, q.param.hi + 1)] if q.param.hi is not None else []
        graph = Graph(built(case_of(name, q), **{q.name: Input("value")})(Input("x")))
        for value in bad:
            wanted = outcome(lambda: built(case_of(name, q), **{q.name: value})(x))  # noqa: B023  called at once
            assert wanted.startswith(f"{name}: ")
            found = outcome(lambda: graph(x=x, value=value))  # noqa: B023  likewise
            assert found == f"{wanted.removesuffix('.')}. Here {q.name} is the value of value."


# ------------------------------------------------------------------------------------------ what follows from it


@some(cases(*TAKES))
def test_json_and_text_of_every_operator(case):
    op = built(case)
    given = [Input(f"x{n}") for n in range({"nothing": 0}.get(op.traits.takes, 1))]
    awaiting = [built(case_of(case[0], q), **{q.name: Input("value")}) for q in op.drawable]
    by_frame = [q for q in op.drawable if q.by_frame and op.traits.by_frame]
    awaiting += [built(case_of(case[0], q), **{q.name: per_frame(Input("value"))}) for q in by_frame]
    for one in (op, *awaiting):
        node = one(*given)
        graph = Graph(*node) if isinstance(node, tuple) else Graph(node)
        again = Graph.from_json(graph.to_json())
        assert again.to_json() == graph.to_json()
        assert again.fingerprint == graph.fingerprint
        assert repr(again) == repr(graph)
        assert f"{op.name}(" in repr(graph)
        assert ("value" in graph.inputs) == (one is not op)


@NAMES
def test_it_is_one_with_the_operator_before_it(emulated, name):
    """A graph takes what a chain takes for one kernel for one kernel, and gives its result."""
    op, after = built((name, 0)), built(("brightness_contrast", 0), contrast=1.7)
    if type(op).__call__ is not Op.__call__ or not (op.traits.body or op.traits.composed):
        pytest.skip("it stands alone, or has no kernel")
    chain = Chain(op, after)
    x = images(op, "uint8" if "uint8" in op.traits.dtypes else op.traits.dtypes[0])
    graph = Graph(after(op(Input("x"))))
    before = emulated.launches
    wanted = chain(x, backend="cuda", device=emulated, **WHERE)
    launches = emulated.launches - before
    same(graph(x=x, backend="cuda", device=emulated, **WHERE), (wanted,))
    assert emulated.launches - before == 2 * launches
    assert graph.explain() == chain.explain()


@NAMES
def test_together_moves_what_belongs_to_an_image(name):
    cls = REGISTRY[name]
    if name == "element_extract":
        with pytest.raises(
            ParameterError, match="element_extract: a sample of several parts, image; allowed: one"
        ):
            together(built((name, 0)))(images(cls, "uint8", "FHWC"))
        return
    op = built((name, 0), **({"per_frame": False} if cls.traits.by_frame else {}))
    x = images(cls, "uint8", "FHWC")
    mask, boxes = x[..., 0] > 90, np.array([[1.0, 1.0, 4.0, 3.0]])
    given = {"image": x, "mask": mask, "boxes": boxes, "points": boxes[:, :2]}
    nodes = together(op)(Input("image"), **{key: Input(key) for key in ("mask", "boxes", "points")})
    wanted = outcome(lambda: together(op)(x, mask=mask, boxes=boxes, points=boxes[:, :2], **WHERE))
    known = [node for node in nodes if node is not None]
    found = outcome(lambda: type(nodes)(*Graph(*known)(**given, **WHERE)))
    same(found, wanted)


@pytest.mark.usefixtures("unregistered")
def test_functions_made_operators_take_nodes():
    @operator(amount=param(0.0, "what is added", lo=-9, hi=9, identity=0.0))
    def lifted(x, amount):
        "Add the same to all."
        return x + amount

    x, amount = images(REGISTRY["lifted"], "uint8"), np.array([4.0, -5.0])
    graph = Graph(lifted(Input("x"), amount=Input("amount")))
    same(graph(x=x, amount=amount), (lifted(x, amount=amount),))
    with pytest.raises(
        ParameterError, match=r"lifted: amount=10.0 is not valid; .*Here amount is the value of amount"
    ):
        graph(x=x, amount=amount + 6)


def test_these_are_all_kinds_of_operators():
    assert {*TAKES} == {"images", "batches", "boxes", "points", "arrays", "volumes", "nothing"}
    assert all(names(kind) for kind in TAKES)
