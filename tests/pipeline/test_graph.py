"""Graphs give what the same eager calls give, evaluate each node once, let go of what is used up, and fuse lines."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

from seqpipe import fn, ops
from seqpipe.ops import Chain, per_frame
from seqpipe.pipeline import Graph, Input
from seqpipe.sequence import Batch, Sequence
from tests.support.outcomes import same
from tests.support.together import together

X = np.random.default_rng(1).integers(0, 256, (4, 3, 14, 18, 3), dtype=np.uint8)
WHERE = {"epoch": 2, "index": [9, 4, 6, 5]}
TURN = {"fill_value": 0, "keep_size": True}


def numbers(op, **more):
    """What random numbers are for the samples of these tests."""
    return op.drawn(**WHERE, **more)


# ------------------------------------------------------------------------------------------ what comes of it


def evened():
    """Images turned at random and evened out, the angles, and the means that decide about it."""
    images = Input("images")
    angle = fn.random.uniform(range=(-10.0, 10.0), seed=1)
    turned = fn.rotate(images, angle=angle * 2 + 1, **TURN)
    mean = fn.reductions.mean(turned, axes=(0, 1, 2, 3), layout="NFHWC")
    even = fn.brightness(turned, brightness=118 / (mean + 1))
    return Graph(fn.flip(even, horizontal=fn.random.coin_flip(seed=2)), angle, mean)


def evened_by_hand(x, where=WHERE):
    angle = ops.random.Uniform(range=(-10.0, 10.0), seed=1).drawn(**where)
    turned = fn.rotate(x, angle=angle * 2 + 1, **TURN, **where)
    mean = fn.reductions.mean(turned, axes=(0, 1, 2, 3), layout="NFHWC")
    pixels = np.stack(mean) if isinstance(mean, list) else np.asarray(mean)
    even = fn.brightness(turned, brightness=118 / (pixels.astype(np.float64) + 1), **where)
    return fn.flip(even, horizontal=ops.random.CoinFlip(seed=2).drawn(**where), **where), angle, mean


def sequences():
    return [
        Sequence(one, source=f"{n}", frames=np.arange(3) + n, timestamps=np.arange(3) / 25)
        for n, one in enumerate(X)
    ]


@pytest.mark.parametrize("kind", ["array", "batch", "torch"])
def test_it_gives_what_the_same_calls_give(request, kind):
    x = X
    if kind == "batch":
        x = Batch.of(sequences(), indices=[9, 4, 6, 5], labels=[0, 1, 0, 1])
    if kind == "torch":
        x = request.getfixturevalue("torch").from_numpy(X)
    found = evened()(images=x, **WHERE)
    wanted = evened_by_hand(x)
    assert [type(one) for one in found] == [type(one) for one in wanted]
    for result, other in zip(found, wanted, strict=True):
        same(np.asarray(result), np.asarray(other))
    for one, other in zip(
        evened()(images=x.data if kind == "batch" else x),
        evened_by_hand(X, {"epoch": 0, "index": range(4)}),
        strict=True,
    ):
        same(np.asarray(one), np.asarray(other))
    if kind == "batch":
        same(found[0], wanted[0])
        same(evened()(images=x, epoch=2), found)


def test_lists_of_different_sizes():
    x = [X[0], X[1, :, 2:], X[2, :, :, 3:], X[3, :2]]
    images, shift = Input("images"), fn.random.normal(stddev=0.2, seed=1)
    mean = fn.reductions.mean(images, axes=(0, 1, 2, 3))
    changed = fn.brightness(images, brightness_shift=shift, brightness=100 / mean)
    (found,) = Graph(changed)(images=x, **WHERE)
    wanted = 100 / np.stack(fn.reductions.mean(x, axes=(0, 1, 2, 3))).astype(np.float64)
    drawn = numbers(ops.random.Normal(stddev=0.2, seed=1))
    same(found, fn.brightness(x, brightness_shift=drawn, brightness=wanted))


def test_one_image_and_one_sequence():
    image, angle = X[0, 0], fn.random.uniform(range=(-90.0, 90.0))
    graph = Graph(fn.rotate(Input("image"), angle=angle, **TURN))
    drawn = ops.random.Uniform(range=(-90.0, 90.0)).drawn(epoch=3, index=7)
    for x in (image, sequences()[1]):
        same(graph(image=x, epoch=3, index=7), (fn.rotate(x, angle=drawn, **TURN),))
        same(graph(image=x, epoch=3, index=[7]), (fn.rotate(x, angle=drawn, **TURN),))


def test_numbers_of_each_frame():
    images = Input("images")
    turn = fn.random.uniform(range=(-5.0, 5.0), per_frame=True, seed=4)
    scale = fn.random.uniform(range=(0.5, 1.0), seed=5)
    by_mean = fn.reductions.mean(images, axis_names="HWC", layout="NFHWC") / 1000
    graph = Graph(
        fn.rotate(images, angle=turn * scale, **TURN),
        fn.brightness(images, brightness_shift=per_frame(by_mean)),
        turn,
    )
    turned, brighter, angles = graph(images=X, **WHERE)
    drawn = numbers(ops.random.Uniform(range=(-5.0, 5.0), per_frame=True, seed=4), frames=3)
    same(angles, drawn)
    assert drawn.shape == (4, 3)
    product = drawn * numbers(ops.random.Uniform(range=(0.5, 1.0), seed=5))[:, None]
    same(turned, fn.rotate(X, angle=per_frame(product), **TURN))
    means = fn.reductions.mean(X, axis_names="HWC", layout="NFHWC").astype(np.float64) / 1000
    same(brighter, fn.brightness(X, brightness_shift=per_frame(means)))


@pytest.mark.parametrize("backend", [None, "reference", "cuda"])
def test_image_mask_and_boxes_share_one_angle(request, backend):
    how = {"backend": backend, "device": request.getfixturevalue("emulated") if backend == "cuda" else None}
    images, masks, boxes = Input("images"), Input("masks"), Input("boxes")
    angle = fn.random.uniform(range=(-45.0, 45.0), seed=8)
    moving = together(ops.Rotate(angle=angle, **TURN))(images, mask=masks, boxes=boxes)
    nearest = fn.rotate(masks, angle=angle, layout="NFHWC", interp_type="nearest", **TURN)
    graph = Graph(moving.image, moving.mask, moving.boxes, nearest)
    mask = (X[..., :1] > 120).astype(np.uint8)
    corners = np.array([[[2.0, 3.0, 9.0, 8.0]]] * 4)
    image, moved, box, by_itself = graph(images=X, masks=mask, boxes=corners, **WHERE, **how)
    drawn = numbers(ops.random.Uniform(range=(-45.0, 45.0), seed=8))
    wanted = together(ops.Rotate(angle=drawn, **TURN))(X, mask=mask, boxes=corners, **how)
    same((image, moved, box), tuple(wanted[:3]))
    same(by_itself, moved)
    assert moving.points is None
    assert not np.array_equal(box, corners)


def test_what_sequences_know_moves_along():
    affine = np.diag([3.0, 2.0, 1.0, 1.0])
    volume = Sequence(X[0], "DHWC", "scan", affine=affine)
    images = Input("images")
    (found,) = Graph(fn.crop(fn.flip(images, horizontal=fn.random.coin_flip(probability=1)), crop=(9, 9)))(
        images=volume
    )
    same(found, fn.crop(fn.flip(volume), crop=(9, 9)))
    assert not np.allclose(found.affine, affine)
    batch = Batch.of(sequences(), indices=[3, 1, 2, 8])
    (found,) = Graph(fn.subsample(fn.flip(images, p=0.5), stride=2))(images=batch)
    same(found, fn.subsample(fn.flip(batch, p=0.5), stride=2))
    assert found.indices.tolist() == [3, 1, 2, 8]


def test_batches_know_the_indices_of_what_comes_with_them():
    """Random numbers, and operators on arrays beside the batch, draw for the same samples."""
    batch = Batch.of(sequences(), indices=[3, 1, 2, 8])
    graph = Graph(fn.flip(Input("images"), p=0.5), fn.flip(Input("others"), p=0.5), fn.random.normal())
    images, others, drawn = graph(images=batch, others=X, epoch=1)
    flip = ops.Flip(p=0.5)
    here = {"epoch": 1, "index": [3, 1, 2, 8]}
    first, second = Chain(flip, flip).ops
    same((images.data, others), (first(X, **here), second(X, **here)))
    same(drawn, ops.random.Normal().drawn(epoch=1, index=[3, 1, 2, 8]))


def test_several_results_are_nodes_each():
    labels = np.array([0, 2, 1, 1])
    mixed = ops.Mixup(num_classes=3, seed=2)(Input("images"), Input("labels"))
    first, last = fn.element_extract(mixed.data, element_map=(0, -1))
    found = Graph(first, last, mixed.labels)(images=X, labels=labels, **WHERE)
    wanted = ops.Mixup(num_classes=3, seed=2)(X, labels, **WHERE)
    same(found, (*fn.element_extract(wanted.data, element_map=(0, -1)), wanted.labels))
    boxes = [np.array([[0.1, 0.2, 0.5, 0.6]])] * 4
    window = fn.random_bbox_crop(Input("boxes"), seed=1, ltrb=True)
    assert [*window._fields] == ["anchor", "shape", "boxes", "labels"]
    found = Graph(window.anchor, window.boxes)(boxes=boxes, **WHERE)
    wanted = fn.random_bbox_crop(boxes, seed=1, ltrb=True, **WHERE)
    same(found, (wanted.anchor, wanted.boxes))


def test_numbers_are_put_together_by_operators_on_arrays():
    x, y = (fn.random.uniform(range=(0.0, 5.0), seed=seed) for seed in (1, 2))
    graph = Graph(fn.erase(Input("images"), anchor=fn.stack(y, x, axis=1), shape=(3.0, 4.0)))
    drawn = [numbers(ops.random.Uniform(range=(0.0, 5.0), seed=seed)) for seed in (2, 1)]
    same(graph(images=X, **WHERE), (fn.erase(X, anchor=np.stack(drawn, axis=1), shape=(3.0, 4.0)),))


ARITHMETIC = "a + b|3 - a|a / b|1 / a|-a|np.float32(0.1) * a|a * np.int64(7) - True|a < b|a <= a|0.25 > a|a >= b|a == b"


@pytest.mark.parametrize("text", [*ARITHMETIC.split("|"), "a != 0.5"])
def test_arithmetic_with_doubles_is_that_of_double_precision(text):
    a, b = np.array([0.1, 0.5, -3.0]), np.array([1, 2**60, 0], np.uint64)
    graph = Graph(eval(text, {"np": np, "a": Input("a"), "b": Input("b")}))
    (found,) = graph(**{name: {"a": a, "b": b}[name] for name in graph.inputs})
    with np.errstate(all="ignore"):
        same(found, eval(text, {"np": np, "a": a, "b": b.astype(np.float64)}))
    assert found.dtype in (np.float64, np.bool_)


def test_a_constant_image_may_be_acted_on_by_a_node():
    graph = Graph(fn.rotate(X[0, 0], angle=Input("angle"), **TURN))
    same(graph(angle=np.array([30.0])), (fn.rotate(X[0, 0], angle=30.0, **TURN),))


# ------------------------------------------------------------------------------------------ draws


def test_operators_of_one_class_draw_as_those_of_a_chain():
    for seeds in ((0, 0), (0, 1)):
        steps = [ops.Flip(p=0.5, seed=seed) for seed in seeds]
        (found,) = Graph(steps[1](steps[0](Input("x"))))(x=X, **WHERE)
        same(found, Chain(*steps)(X, **WHERE))
        assert not np.array_equal(found, X)


def test_the_order_in_which_nodes_were_made_decides_nothing():
    makers = {
        "a": lambda: fn.random.uniform(range=(-9.0, 9.0), seed=1),
        "b": lambda: fn.random.uniform(range=(0.5, 1.5), seed=2),
        "x": lambda: Input("x"),
        "c": lambda: fn.random.coin_flip(seed=3),
    }
    made = set()
    for order in itertools.permutations(makers):
        known = {}
        for name in order:
            known[name] = makers[name]()
        turned = fn.rotate(known["x"], angle=known["a"], **TURN)
        graph = Graph(fn.brightness(fn.flip(turned, horizontal=known["c"]), brightness=known["b"]))
        (found,) = graph(x=X, **WHERE)
        made.add((graph.to_json(), graph.fingerprint, repr(graph), found.tobytes()))
    assert len(made) == 1


def test_draws_depend_on_seed_name_epoch_and_index_alone():
    drawn = Graph(fn.random.normal(seed=1), fn.random.uniform(seed=1))
    whole = drawn(epoch=1, index=range(40))
    for n in range(40):
        same(tuple(part[n : n + 1] for part in whole), drawn(epoch=1, index=[n]))
    for other in (drawn(epoch=2, index=range(40)), drawn(epoch=1, index=range(40, 80))):
        assert not any(np.array_equal(sample, two) for sample, two in zip(whole, other, strict=True))
    assert not np.array_equal(*whole)


def test_nodes_of_one_name_and_one_seed_are_different_numbers():
    x = Input("x")
    a, b = fn.random.uniform(range=(0.0, 1.0), seed=3), fn.random.uniform(range=(0.0, 1.0), seed=3)
    graph = Graph(a, b, fn.brightness(x, brightness=a, brightness_shift=a))
    for one in (graph, Graph.from_json(graph.to_json()), Graph(*graph.outputs)):
        first, second, found = one(x=X)
        same(first, ops.random.Uniform(range=(0.0, 1.0), seed=3).drawn(index=range(4)))
        assert abs(first - second).min() > 1e-6
        same(found, fn.brightness(X, brightness=first, brightness_shift=first))  # one node is used twice
    alone = Graph(a, fn.random.uniform(range=(0.0, 1.0), seed=4))
    assert '"occurrence": 1' in graph.to_json()
    assert "occurrence" not in alone.to_json()


# ------------------------------------------------------------------------------------------ as a value


def test_json_repr_fingerprint_and_pickle():
    graph = evened()
    for again in (Graph.from_json(graph.to_json()), pickle.loads(pickle.dumps(graph))):
        assert again.to_json() == graph.to_json()
        assert repr(again) == repr(graph)
        assert again.explain() == graph.explain()
        assert again.fingerprint == graph.fingerprint
        assert again.inputs == graph.inputs == ("images",)
        same(again(images=X, **WHERE), graph(images=X, **WHERE))
    assert Graph(*graph.outputs[:2]).fingerprint != graph.fingerprint
    assert repr(graph) == (
        "Graph(images):\n"
        "    %1 = random.uniform(range=(-10.0, 10.0), seed=1)\n"
        "    %2 = %1 * 2\n"
        "    %3 = %2 + 1\n"
        "    %4 = rotate(images, angle=%3, keep_size=True, fill_value=0.0)\n"
        "    %5 = reductions.mean(%4, layout='NFHWC', axes=(0, 1, 2, 3))\n"
        "    %6 = %5 + 1\n"
        "    %7 = 118 / %6\n"
        "    %8 = brightness(%4, brightness=%7)\n"
        "    %9 = random.coin_flip(seed=2)\n"
        "    %10 = flip(%8, horizontal=%9)\n"
        "    → %10, %1, %5"
    )


def test_inputs_of_one_name_are_one_input():
    graph = Graph(fn.flip(Input("x")), fn.reverse(Input("x")))
    assert graph.inputs == ("x",)
    same(graph(x=X), (fn.flip(X), fn.reverse(X)))


def test_an_output_may_be_an_input():
    assert Graph(Input("x"))(x=X)[0] is X


# ------------------------------------------------------------------------------------------ on a GPU


@pytest.mark.gpu
def test_parameters_made_of_pixels_come_to_the_host_by_the_current_stream(torch):
    import cupy

    wanted = evened()(images=X, **WHERE)
    with cupy.cuda.Stream(non_blocking=True):
        found = evened()(images=cupy.asarray(X), **WHERE)
    assert isinstance(found[0], cupy.ndarray)
    assert isinstance(found[1], np.ndarray)
    same(found[2].get(), wanted[2])
    same(found[0].get(), Graph(evened().outputs[0])(images=X, backend="reference", **WHERE)[0])
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        there = torch.from_numpy(X).cuda(non_blocking=True)
        tensor = evened()(images=there, **WHERE)[0]
    stream.synchronize()
    assert tensor.is_cuda
    same(tensor.cpu().numpy(), found[0].get())
