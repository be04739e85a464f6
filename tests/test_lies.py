"""States and JSON that are not what the library wrote: each is refused by the name of the field, and nothing moves."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping

import numpy as np
import pytest

import seqpipe
from seqpipe import Clip, Patch, fn, ops
from seqpipe.dali import fn as dali_fn
from seqpipe.dali import pipeline_def
from seqpipe.dali.plugin.base_iterator import DALIIterator
from seqpipe.errors import ParameterError, SeqpipeError, StateError
from seqpipe.pipeline import Graph, Input
from tests.support.datasets import files

DEEP: list[object] = []
for _ in range(5000):
    DEEP = [DEEP]
NO_COUNTS = [-1, 1.5, 4.0, True, "4", None, [4], {}, float("nan"), float("inf"), 10**400, DEEP]


def clips():
    output = seqpipe.OutputSpec(size=(8, 8))
    return seqpipe.videos(files("h264"), Clip(4, step=8), output=output, shuffle=True)


class Counting:
    """The user's own iterable with a state."""

    def __init__(self):
        self.at = 0

    def __iter__(self):
        while self.at < 20:
            self.at += 1
            yield np.full((2, 2), self.at)

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


class OfPipeline(DALIIterator):
    """The batches of a DALI pipeline as they are."""

    def converted(self, value, name, title):  # noqa: ARG002  the base class'
        return value


def dali_pipeline(source=lambda n: [np.full(2, n, np.int32)] * 2):
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def made_of_calls():
        return dali_fn.external_source(source=source)

    pipe = made_of_calls()
    pipe.build()
    return pipe


def volumes(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((6, 8, 8), np.uint8))
    return seqpipe.volumes(tmp_path / "a.npy", Patch((2, 4, 4), per_volume=8))


class Resumed:
    """The epoch of a data set, which a state replaces."""

    def __init__(self, dataset):
        self.dataset, self.epoch = dataset, iter(dataset)

    def __next__(self):
        return next(self.epoch)

    def state_dict(self):
        return self.epoch.state_dict()

    def load_state_dict(self, state):
        self.epoch = self.dataset.resume(state)


LOADERS = {
    "data set": lambda _: Resumed(clips().batch(2).map(ops.GaussianBlur(sigma=1.0))),
    "samples of a data set": lambda _: Resumed(clips()),
    "volumes": lambda path: Resumed(volumes(path).batch(2)),
    "torch dataset": lambda _: clips().batch(2).torch(),
    "DALI pipeline": lambda _: dali_pipeline(),
    "DALI pipeline of an iterable": lambda _: dali_pipeline(Counting()),
}


def loader(name, tmp_path):
    if name.startswith("torch"):
        pytest.importorskip("torch")
    return LOADERS[name](tmp_path)


def advanced(name, tmp_path):
    """A loader, and its state after a batch."""
    one = loader(name, tmp_path)
    if name.startswith("DALI pipeline"):
        one.run()
    elif name == "torch dataset":
        batches = iter(one)
        next(batches)
    else:
        next(one)
    return one, one.state_dict()


def assert_refused(one, state, match):
    before = json.dumps(one.state_dict())
    with pytest.raises(StateError, match=match):
        one.load_state_dict(state)
    assert json.dumps(one.state_dict()) == before


@pytest.mark.parametrize("field", ["version", "epoch", "position", "history", "fingerprint"])
@pytest.mark.parametrize("name", LOADERS)
def test_every_field_of_every_state(name, field, tmp_path):
    one, state = advanced(name, tmp_path)
    if field not in state:
        pytest.skip("states of this loader have no such field")
    for value in NO_COUNTS:
        if field == "fingerprint" and isinstance(value, str):
            continue
        assert_refused(one, {**state, field: value}, rf"{field}(\[0\])?=")
    assert_refused(one, {key: value for key, value in state.items() if key != field}, f"no {field}")
    for other in (None, [], "state", 3, DEEP, [("epoch", 0)]):
        assert_refused(one, other, "is not a state|is not JSON")


@pytest.mark.parametrize("name", ["DALI pipeline", "DALI pipeline of an iterable"])
def test_sources_that_lie(name, tmp_path):
    one, state = advanced(name, tmp_path)
    ((epoch, position, own),) = state["sources"]
    for entries in (None, 0, "x", {}, [], [*state["sources"]] * 2, DEEP):
        assert_refused(one, {**state, "sources": entries}, "no position for each source|sources\\[0\\]=")
    for entry in (0, None, "abc", [epoch], [epoch, position], [epoch, position, own, 1], {}, DEEP):
        assert_refused(
            one, {**state, "sources": [entry]}, r"sources\[0\]=.* allowed: \[epoch, position, state\]"
        )
    for value in NO_COUNTS:
        assert_refused(one, {**state, "sources": [[value, position, own]]}, r"sources\[0\]\[0\], the epoch,=")
        assert_refused(one, {**state, "sources": [[epoch, value, own]]}, r"sources\[0\]\[1\], the position,=")
    for value in (0, "x", [], {"kind": "others"}, {"kind": []}, {"state": 1}, {"kind": "own"}, DEEP):
        assert_refused(
            one, {**state, "sources": [[epoch, position, value]]}, r"sources\[0\]\[2\], the state of the"
        )
    assert_refused(one, {**state, "sources": [[epoch + 1, position, own]]}, "contradict sources")
    assert_refused(one, {**state, "sources": [[epoch, 0, own]]}, "contradict sources")
    assert_refused(one, {**state, "epoch": epoch + 1}, "contradict sources")


def test_sources_of_different_epochs():
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def made_of_two():
        return [dali_fn.external_source(source=lambda n: np.full((2, 2), n)) for _ in range(2)]

    pipe = made_of_two()
    pipe.run()
    state = pipe.state_dict()
    assert_refused(pipe, {**state, "sources": [state["sources"][0], [1, 2, None]]}, "contradict sources")


@pytest.mark.parametrize("name", ["data set", "samples of a data set", "volumes"])
def test_histories_that_lie(name, tmp_path):
    one, state = advanced(name, tmp_path)
    ((world, count),) = state["history"]
    for pair in (0, None, "abc", [world], [world, count, 1], {}, DEEP):
        assert_refused(one, {**state, "history": [pair]}, r"history\[0\]=.* is not valid in a state")
    for value in NO_COUNTS:
        assert_refused(one, {**state, "history": [[value, count]]}, r"history\[0\]\[0\]=")
        assert_refused(one, {**state, "history": [[world, value]]}, r"history\[0\]\[1\]=")
    assert_refused(one, {**state, "history": [[0, count]]}, r"history\[0\]\[0\]=0 .*allowed: 1 to ")
    for past in ([[world, 10**6]], [[world + 1, 10**6], [world, count]]):
        assert_refused(
            one, {**state, "history": past}, "history has [0-9]+ samples of a rank in epoch 0.*allowed: 0 to "
        )


def test_a_torch_data_sets_own_state_that_lies(tmp_path):
    one, state = advanced("torch dataset" if pytest.importorskip("torch") else "", tmp_path)
    for name in ("workers", "batch_size"):
        for value in NO_COUNTS:
            assert_refused(one, {**state, name: value}, f"{name}=")
        assert_refused(one, {**state, name: 3}, f"the state is of {name}=3, and here {name} is")
    assert_refused(one, {**state, "position": 10**6}, "history has 1000000 samples of a rank in epoch 0")


def test_states_of_dali_iterators_and_checkpoints():
    iterator = OfPipeline(dali_pipeline(), ["x"], size=20)
    next(iterator)
    state = iterator.state_dict()
    for value in NO_COUNTS:
        assert_refused(iterator, {**state, "given": value}, "given=")
    assert_refused(
        iterator, {**state, "given": 11}, "given=11 is not valid in a state; allowed: an integer from 0 to 10"
    )
    for value in (0, 1, None, "yes", DEEP):
        assert_refused(iterator, {**state, "ended": value}, "ended=")
    for value in ([None], [0], ["x"], [{}], [DEEP]):
        assert_refused(iterator, {**state, "pipelines": value}, "is not a state|the state has no")
    iterator.load_state_dict(json.loads(json.dumps(state)))
    for text in ("[" * 100_000, "nul", '{"epoch": NaN}', "[]", "0", '"x"', b"\xff"):
        with pytest.raises(StateError, match=r"checkpoint is not JSON|is not a state|the state has no"):
            _with_checkpoint(text).build()


def _with_checkpoint(text):
    @pipeline_def(batch_size=2, num_threads=1, device_id=None, checkpoint=text)
    def made_of_calls():
        return dali_fn.external_source(source=lambda n: [np.full(2, n, np.int32)] * 2)

    return made_of_calls()


# --- JSON ---


def graph():
    images = Input("images")
    turned = fn.rotate(images, angle=fn.random.uniform(range=(-10.0, 10.0)))
    chain = ops.Chain(ops.OneOf([ops.Flip(p=0.5), ops.GaussianBlur(sigma=1.0)]), ops.Hue(hue=(0.0, 9.0)))
    return Graph(chain(turned), fn.flip(images, horizontal=fn.random.coin_flip()))


def chain():
    parts = [ops.Flip(p=0.5), None, ops.Chain(ops.Hue(hue=(-5.0, 5.0)), ops.Resize(size=(8, 8)))]
    return ops.Chain(ops.SomeOf((1, 2), parts), ops.Only(["image"], ops.GaussianBlur(sigma=(1.0, 2.0))))


def policy():
    return ops.TrivialAugmentWide()


READERS = {
    "graph": (graph, Graph.from_json),
    "chain": (chain, ops.Chain.from_json),
    "policy": (policy, ops.Op.from_json),
    "operator": (lambda: ops.RandomResizedCrop(size=(4, 4)), ops.Op.from_json),
}
OTHERS = [
    None,
    True,
    -1,
    1.5,
    float("nan"),
    10**400,
    "x",
    [],
    {},
    [[]],
    {"op": 5},
    {"node": 0},
    {"node": True},
]


def places(value, path=()):
    """The paths of all values within a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def replaced(value, path, other):
    if not path:
        return other
    copy = dict(value) if isinstance(value, Mapping) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], other)
    return copy


def without(value, path):
    copy = dict(value) if isinstance(value, Mapping) else list(value)
    if len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = without(value[path[0]], path[1:])
    return copy


@pytest.mark.parametrize("name", READERS)
def test_json_with_any_value_in_any_place(name):
    make, from_json = READERS[name]
    text = make().to_json()
    assert from_json(text).to_json() == text
    whole = json.loads(text)
    changed = [replaced(whole, path, other) for path in places(whole) for other in OTHERS]
    changed += [without(whole, path) for path in places(whole) if path]
    for one in random.Random(0).sample(changed, min(len(changed), 1500)):
        try:
            from_json(json.dumps(one)).to_json()
        except SeqpipeError as error:
            assert len(str(error)) < 5000  # noqa: PT017  any other exception fails


@pytest.mark.parametrize("name", READERS)
def test_what_is_no_json(name):
    _, from_json = READERS[name]
    for text in (
        "",
        "[" * 100_000,
        "[" * 900 + "]" * 900,
        '{"op":' * 5000,
        "nul",
        "[]",
        "5",
        "1" * 5000,
        None,
        7,
        b"\xff",
    ):
        with pytest.raises(ParameterError):
            from_json(text)
    nested = '{"op": "chain", "fuse": "", "ops": [' * 150 + "]}" * 150
    with pytest.raises(ParameterError, match=r"nested more than 200 levels deep|is no operator"):
        from_json(nested)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (
            '{"format": 2, "nodes": [{"input": "images"}, {"call": {"maker": {"op": 5}}, "of": [], "with": {}}]}',
            r"nodes\[1\]\.call\.maker\.op=5",
        ),
        ('{"format": 2, "nodes": [{"input": 5}]}', r"nodes\[0\]\.input=5"),
        ('{"format": 2, "nodes": 5}', "nodes=5"),
        ('{"format": true, "nodes": []}', "format=True"),
        ('{"format": 2, "nodes": [7]}', r"nodes\[0\]=7"),
        ('{"format": 2, "nodes": [{"input": "a"}], "outputs": [3]}', r"outputs\[0\]=3"),
        ('{"format": 2, "nodes": [{"input": "a"}]}', "outputs is missing"),
        ('{"format": 2, "nodes": [{"input": "a"}, {"sign": "+", "of": [{"node": 5}, 1]}]}', "no node 5"),
        (
            '{"format": 2, "nodes": [{"input": "a"}, {"sign": 4, "of": [{"node": 0}, 1]}]}',
            r"nodes\[1\]\.sign=4",
        ),
    ],
)
def test_the_field_of_a_graph_is_named(text, field):
    with pytest.raises(ParameterError, match=field):
        Graph.from_json(text)
