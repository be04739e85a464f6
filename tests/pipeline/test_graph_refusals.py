"""What a graph and its nodes refuse: by name, with what is allowed and what to do."""

from __future__ import annotations

import json

import numpy as np
import pytest

from seqpipe import fn, ops
from seqpipe.errors import ParameterError
from seqpipe.ops import Chain, apply, per_frame
from seqpipe.ops.core.nodes import Computed
from seqpipe.pipeline import Graph, Input
from seqpipe.sequence import Batch, Sequence

X = np.zeros((2, 3, 6, 7, 3), np.uint8)
IMAGES, MASKS, NUMBER = Input("images"), Input("masks"), fn.random.uniform(seed=1)
GRAPH = Graph(fn.flip(IMAGES), fn.reverse(MASKS))
TURNED = fn.rotate(IMAGES, angle=NUMBER)
PART = ops.Mixup()(IMAGES).data
TEXT = json.loads(Graph(fn.rotate(IMAGES, angle=NUMBER * 2)).to_json())


def refused(call, said):
    with pytest.raises(ParameterError, match=said):
        call()


WRITTEN = {
    "truth": (
        lambda: bool(NUMBER),
        r"random.uniform\(seed=1\) has no truth value yet.*Pass it as a parameter: fn.flip\(x",
    ),
    "a chain of comparisons": (lambda: 0 < NUMBER < 1, "random.uniform > 0 has no truth value yet"),
    "membership": (lambda: NUMBER in [1, 2], "has no truth value yet"),
    "length": (lambda: len(TURNED), r"rotate\(images, angle=random.uniform\) has no length yet"),
    "iteration": (lambda: list(IMAGES), "images has no elements yet.*Pass the node itself"),
    "unpacking": (lambda: fn.stack(*IMAGES), "images has no elements yet"),
    "an array of it": (lambda: np.asarray(IMAGES), "images has no values yet.*Call the graph"),
    "arithmetic of pixels": (
        lambda: TURNED * 2,
        r"rotate\(.*\) holds pixels, which have no '\*'; allowed: nodes of numbers. Change pixels by operators",
    ),
    "arithmetic with text": (
        lambda: NUMBER + "1",
        r"'1' and a node as operands of '\+'; allowed: a number, or a",
    ),
    "arithmetic with an array": (
        lambda: np.ones(3) - NUMBER,
        "and a node as operands of '-'; allowed: a number, or a",
    ),
    "a sign that is none": (
        lambda: Computed("**", (NUMBER, 2)),
        r"'\*\*' is not an arithmetic operator; allowed: \+",
    ),
    "a size": (
        lambda: fn.resize(IMAGES, size=NUMBER),
        r"resize: size is the node random.uniform\(seed=1\); allowed: 2 values.*it is one value for all samples",
    ),
    "an interpolation": (
        lambda: fn.resize(IMAGES, size=(3, 3), interp_type=NUMBER),
        "resize: interp_type is the node .*; allowed: 'nearest', 'linear'.*it is one value for all samples",
    ),
    "a probability": (
        lambda: ops.Flip(p=IMAGES),
        "flip: p is the node images; allowed: a number from 0 to",
    ),
    "a layout": (lambda: fn.flip(IMAGES, layout=NUMBER), "flip: layout is a node; allowed: a string"),
    "a node within a vector": (
        lambda: fn.erase(IMAGES, anchor=(NUMBER, NUMBER)),
        r"erase: anchor=.*in main memory \(DataNode: random.uniform\(seed=1\) has no values yet",
    ),
    "an end of a range": (
        lambda: fn.rotate(IMAGES, angle=(NUMBER, 9.0)),
        "rotate: angle=<DataNode .*allowed: a",
    ),
    "nodes in a list": (
        lambda: fn.stack([IMAGES, MASKS]),
        r"stack: the node images among arrays; allowed: arrays. Pass nodes .*fn.stack\(a, b\): each",
    ),
    "images in a list": (
        lambda: fn.flip([IMAGES]),
        "flip: the node images among arrays.*each stands for all samples",
    ),
    "each frame of what is whole": (
        lambda: fn.paste(IMAGES, ratio=fn.random.uniform(range=(1.0, 2.0), per_frame=True)),
        "paste: ratio asks for a value for each frame; allowed: one for a sequence",
    ),
    "an epoch": (lambda: fn.flip(IMAGES, epoch=3), r"flip: epoch is an argument of .*graph\(…, epoch=3\)"),
    "indices": (
        lambda: ops.Rotate(angle=NUMBER)(X, index=[1, 2]),
        r"rotate: index is an argument of a call that returns a node. Pass it to the graph: graph\(…, index=\[1, 2\]\)",
    ),
    "a backend": (
        lambda: Chain(ops.Flip())(IMAGES, backend="cpu"),
        "flip: backend is an argument of a call that returns",
    ),
    "a device": (
        lambda: Chain(ops.Flip())({"image": IMAGES}, device=1),
        "flip: device is an argument of a call that returns a",
    ),
    "to act at once": (
        lambda: apply(ops.Rotate(angle=NUMBER), X),
        r"rotate: angle is the node random.uniform\(seed=1\), whose value is not known yet. Call the",
    ),
    "JSON of an operator": (
        lambda: ops.Rotate(angle=NUMBER).to_json(),
        r"rotate: random.uniform\(seed=1\) is a node among the parameters. Serialize the graph instead",
    ),
    "no name": (lambda: Input(""), "Input: name='' is not valid; allowed: a name that an argument can have"),
    "a word of Python": (lambda: Input("class"), "Input: name='class' is not valid"),
    "an option": (
        lambda: Input("epoch"),
        "name='epoch' is not valid; allowed: .*other than epoch, index, backend",
    ),
    "a number": (lambda: Input(3), "Input: name=3 is not valid"),
    "no outputs": (lambda: Graph(), "Graph: a graph of no outputs; allowed: one node or more"),
    "an array as output": (
        lambda: Graph(fn.flip(X)),
        r"Graph: a ndarray among the outputs; allowed: nodes. Make them of Input\('images'\)",
    ),
    "several nodes in one": (
        lambda: Graph(ops.Mixup()(IMAGES)),
        "Graph: a Mixed among the outputs; allowed: nodes. Give its parts one by one",
    ),
    "JSON of an array": (
        lambda: Graph(fn.rotate(X, angle=NUMBER)).to_json(),
        "Graph: a ndarray is part of the graph; allowed: nodes, numbers and texts in JSON. Make it an Input",
    ),
}


@pytest.mark.parametrize("what", WRITTEN)
def test_what_cannot_be_written(what):
    refused(*WRITTEN[what])


def sequences(count, side=6):
    return [Sequence(np.zeros((3, side, 7, 3), np.uint8)) for _ in range(count)]


def batches(*indices):
    return Batch.of(sequences(2), indices=indices)


CALLED = {
    "nothing": (
        lambda: GRAPH(),
        r"Graph: the input 'images' is missing; allowed: a value for each of images, masks. graph\(images=…, ma",
    ),
    "too little": (lambda: GRAPH(images=X), "Graph: the input 'masks' is missing"),
    "another name": (
        lambda: GRAPH(images=X, mask=X),
        "Graph: there is no input 'mask'; allowed: images, masks; epoch, index, backend, device",
    ),
    "a node": (
        lambda: GRAPH(images=X, masks=NUMBER),
        r"Graph: masks is a node, random.uniform\(seed=1\); allowed",
    ),
    "an epoch that is a node": (
        lambda: GRAPH(images=X, masks=X, epoch=NUMBER),
        r"Graph: epoch is a node, random.uniform\(seed=1\); allowed: values that",
    ),
    "a backend that is none": (lambda: GRAPH(images=X, masks=X, backend="gpu"), "backend='gpu' is not valid"),
    "what an operator does not take": (
        lambda: GRAPH(images=X.astype(np.complex64), masks=X),
        r"^flip: values of type complex64; allowed: [^.]*[.]\nnode flip\(images\), "
        r"made at test_graph_refusals.py:\d+ \(<module>\)$",
    ),
    "other numbers of samples": (
        lambda: Graph(TURNED, fn.flip(MASKS))(images=X, masks=X[:1]),
        "Graph: inputs of different numbers of samples: images has 2, masks has 1; allowed: as many in each",
    ),
    "other samples": (
        lambda: GRAPH(images=batches(1, 2), masks=batches(2, 1)),
        "Graph: images and masks are batches of different samples; allowed: .*indices for sampled values as index=",
    ),
    "indices of other samples": (
        lambda: Graph(TURNED)(images=X, index=[1, 2, 3]),
        r"random.uniform: index has the shape \(3,\) and the type int64; allowed: a whole number, or 2 of them",
    ),
    "no frames in common": (
        lambda: Graph(fn.rotate(IMAGES, angle=fn.random.uniform(per_frame=True)))(images=[X[0], X[1, :2]]),
        "random.uniform: per_frame=True, and the number of frames is not known; allowed: sequences of one length",
    ),
    "frames that are gone": (
        lambda: Graph(fn.rotate(fn.subsample(IMAGES, stride=2), angle=fn.random.uniform(per_frame=True)))(
            images=X
        ),
        r"rotate: angle has values for \(2, 3\); allowed: \(2, 2\), the samples and frames given. Here angle is the",
    ),
    "a batch for numbers": (
        lambda: Graph(fn.rotate(IMAGES, angle=MASKS))(images=X, masks=batches(0, 1)),
        "rotate: angle is a Batch where numbers are needed; allowed: arrays. fn.reductions .*value of masks",
    ),
    "a batch in arithmetic": (
        lambda: Graph(fn.rotate(IMAGES, angle=MASKS * 2))(images=X, masks=sequences(1)[0]),
        "DataNode: a Sequence where numbers are needed; allowed: arrays. fn.reductions compute",
    ),
    "texts in arithmetic": (
        lambda: Graph(fn.rotate(IMAGES, angle=MASKS * 2))(images=X, masks=np.array(["a", "b"])),
        r"DataNode: masks \* 2 cannot be computed: values of type <U1",
    ),
    "shapes in arithmetic": (
        lambda: Graph(MASKS + IMAGES)(images=np.ones(2), masks=np.ones(3)),
        r"DataNode: masks \+ images cannot be computed: operands could not be broadcast together",
    ),
    "numbers of different shapes": (
        lambda: Graph(fn.rotate(IMAGES, angle=MASKS))(images=X, masks=[np.ones(1), np.ones(2)]),
        r"rotate: angle is numbers of different shapes for the samples, \(1,\), \(2,\); allowed: one shape. Here",
    ),
    "what became no number": (
        lambda: Graph(fn.rotate(IMAGES, angle=NUMBER * 0 / (NUMBER * 0)))(images=X),
        r"^rotate: angle=nan is not valid; allowed: a number. .*Here angle is the value of \(random.uniform \* 0\) / ",
    ),
    "what is out of bounds": (
        lambda: Graph(fn.saturation(fn.reverse(IMAGES), saturation=fn.random.choice(of=(-1.0,))))(images=X),
        r"saturation: saturation=-1.0 is not valid; allowed: .*Here saturation is the value of random.choice\(of=",
    ),
    "images for an angle": (
        lambda: Graph(fn.rotate(IMAGES, angle=per_frame(fn.reductions.mean(IMAGES, axes=-1))))(images=X),
        r"rotate: angle is an array of float32 of shape \(2, 3, 6, 7\); .* the value of reductions.mean\(images, ",
    ),
}


@pytest.mark.parametrize("what", CALLED)
def test_what_cannot_be_called(what):
    refused(*CALLED[what])


def test_a_graph_is_as_before_after_an_error():
    graph = Graph(TURNED)
    wanted = graph(images=X)[0]
    refused(lambda: graph(images=X.astype(np.complex64)), "rotate: ")
    assert (graph(images=X)[0] == wanted).all()


def changed(**entries):
    return json.dumps({**TEXT, **entries})


JSONS = {
    "no JSON": ("{", "this is no graph"),
    "no object": ("[]", "this is no graph"),
    "nothing in it": ("{}", "this is no graph"),
    "another format": (changed(format=99), "this is no graph .format 99."),
    "no nodes": (changed(nodes=3), "this is no graph"),
    "no outputs": (changed(outputs=[]), "a graph of no outputs"),
    "an output that is not there": (changed(outputs=[{"node": 9}]), "there is no node 9 so far"),
    "an output that is none": (changed(outputs=[3]), "an int among the outputs"),
    "a cycle": (
        changed(nodes=[{"sign": "*", "of": [{"node": 0}, 2]}, *TEXT["nodes"][1:]]),
        "there is no node 0 so far",
    ),
    "a later node": (
        changed(nodes=TEXT["nodes"][::-1]),
        "there is no node 2 so far|there is no node 0 so far",
    ),
    "a call of values": (
        changed(nodes=[{"call": {"maker": {"op": "reductions.mean"}}, "of": [[1, 2]], "with": {}}]),
        "an object of type int is not an array",
    ),
    "another operator": (
        changed(nodes=[{"call": {"maker": {"op": "turn"}}, "of": [], "with": {}}]),
        "there is no operator 'turn'; allowed: ",
    ),
    "a name that no input has": (changed(nodes=[{"input": "index"}]), "Input: name='index' is not valid"),
}


@pytest.mark.parametrize("what", JSONS)
def test_what_is_no_graph(what):
    text, said = JSONS[what]
    refused(lambda: Graph.from_json(text), said)


@pytest.mark.parametrize(
    ("node", "name"),
    [(IMAGES, "name"), (NUMBER, "op"), (TURNED, "args"), (NUMBER * 2, "parts"), (PART, "whole")],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_nodes_cannot_be_changed(node, name):
    """So a node is made of those that were there before it, and a cycle cannot be written."""
    with pytest.raises(AttributeError, match="cannot assign"):
        setattr(node, name, TURNED)
