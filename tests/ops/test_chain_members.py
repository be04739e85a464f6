"""What a chain may consist of: chains, lists, choices, and operators on batches, arrays, sequences and volumes."""

from __future__ import annotations

import pickle
from collections import namedtuple

import numpy as np
import pytest

from seqpipe import ops, parts
from seqpipe.errors import ParameterError
from seqpipe.ops import Chain, OneOf, SomeOf
from seqpipe.pipeline import Graph, Input
from seqpipe.sequence import Batch, Sequence

INDICES = [3, 1, 40, 8, 9, 2, 17, 23]
FLIP, TURN = ops.Flip(p=0.5), ops.Rotate(angle=(-20.0, 20.0), keep_size=True)
BRIGHT, INVERT = ops.Brightness(brightness=(0.5, 1.5)), ops.Invert()


def images(count: int = 8, frames: int = 3) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 256, (count, frames, 20, 24, 3), dtype=np.uint8)


def batch(count: int = 8) -> Batch:
    return Batch.of(
        [Sequence(image) for image in images(count)], labels=range(count), indices=INDICES[:count]
    )


@pytest.mark.parametrize(
    "chain",
    [
        Chain(Chain(FLIP, TURN), FLIP, BRIGHT),
        Chain([FLIP, TURN, [FLIP]], BRIGHT),
        Chain([FLIP, Chain([TURN, Chain(FLIP)])], (BRIGHT,)),
    ],
    ids=["a chain", "lists", "both"],
)
def test_chains_and_lists_are_as_if_their_members_stood_there(chain):
    flat = Chain(FLIP, TURN, FLIP, BRIGHT)
    assert chain == flat
    assert [op.occurrence for op in chain.ops] == [0, 0, 1, 0]
    np.testing.assert_array_equal(chain(images(), epoch=2), flat(images(), epoch=2))


def test_a_chain_of_another_fuse_keeps_it():
    moves = (ops.Rotate(angle=5.0, keep_size=True), ops.Rotate(angle=-5.0, keep_size=True))
    chain = Chain(INVERT, Chain(*moves, fuse="compose"))
    composed = Chain(*moves, fuse="compose")(INVERT(images()))
    np.testing.assert_array_equal(chain(images()), composed)
    assert "fuse='compose'" in chain.explain()


# ---------------------------------------------------------------------- one of, some of


@pytest.mark.parametrize(
    "choice", [OneOf([FLIP, BRIGHT, None]), SomeOf((0, 2), [FLIP, BRIGHT, INVERT], seed=4)]
)
def test_each_sample_draws_by_its_own_index_whatever_the_batch_is(choice):
    chain = Chain(FLIP, choice)
    whole = chain(images(), epoch=3, index=INDICES)
    for place, index in enumerate(INDICES):
        alone = chain(images()[place], epoch=3, index=index)
        np.testing.assert_array_equal(whole[place], alone)
    halves = [chain(images()[part], epoch=3, index=INDICES[part]) for part in (slice(0, 3), slice(3, 8))]
    np.testing.assert_array_equal(whole, np.concatenate(halves))
    np.testing.assert_array_equal(whole, chain(batch(), epoch=3).numpy())
    as_list = chain(list(images()), epoch=3, index=INDICES)
    np.testing.assert_array_equal(whole, np.stack(as_list))


def test_a_sample_is_done_by_the_parts_that_it_draws():
    choice = SomeOf((0, 3), [INVERT, ops.Flip(), ops.Flip(vertical=1, horizontal=0)], seed=1)
    drawn = choice.drawn(2, INDICES)
    assert len(set(drawn)) > 2
    made = choice(images(), epoch=2, index=INDICES)
    for place, numbers in enumerate(drawn):
        wanted = images()[place]
        for number in numbers:
            wanted = choice.parts[number](wanted)
        np.testing.assert_array_equal(made[place], wanted)


def test_weights_and_p_are_the_frequencies():
    weighted = OneOf([INVERT, FLIP, None], weights=[1, 3, 0], p=0.8, seed=2)
    drawn = weighted.drawn(0, range(4000))
    counts = [sum(one == numbers for one in drawn) / len(drawn) for numbers in ((), (0,), (1,), (2,))]
    np.testing.assert_allclose(counts, [0.2, 0.2, 0.6, 0], atol=0.03)
    lengths = np.bincount([len(one) for one in SomeOf((1, 3), [None] * 4).drawn(0, range(3000))], minlength=4)
    np.testing.assert_allclose(lengths / 3000, [0, 1 / 3, 1 / 3, 1 / 3], atol=0.04)


def test_choices_of_one_seed_draw_apart_in_a_chain():
    chain = Chain(OneOf([INVERT, None]), OneOf([INVERT, None]))
    first, second = chain.ops
    assert (first.occurrence, second.occurrence) == (0, 1)
    assert first.drawn(0, range(64)) != second.drawn(0, range(64))
    assert [op.occurrence for op in chain.operators if op.name == "invert"] == [0, 1]


def test_one_draw_is_for_all_parts_of_a_sample():
    chain = Chain(OneOf([ops.Flip(), ops.Flip(vertical=1, horizontal=0)]))
    image = images(1)[0]
    marks = np.zeros(image.shape[:3], np.uint8)
    marks[:, 2, 3] = 1
    for index in range(4):
        moved = chain({"image": image, "labels": parts.Labels(marks)}, index=index)
        row, column = np.argwhere(moved["labels"].data[0])[0]
        np.testing.assert_array_equal(moved["image"][:, row, column], image[:, 2, 3])
    several = {"image": images(), "boxes": parts.Boxes([np.array([[1.0, 2, 5, 9]])] * 8)}
    made = chain(several, index=INDICES)
    for place, index in enumerate(INDICES):
        alone = chain(
            {"image": images()[place], "boxes": parts.Boxes(np.array([[1.0, 2, 5, 9]]))}, index=index
        )
        np.testing.assert_array_equal(made["boxes"].data[place], alone["boxes"].data)


def test_samples_of_different_size_stay_a_batch():
    chain = Chain(OneOf([ops.Crop(crop=(10, 12)), None]))
    made = chain(batch())
    assert {one.shape for one in made} == {(3, 10, 12, 3), (3, 20, 24, 3)}
    assert made.labels.tolist() == list(range(8))
    with pytest.raises(
        ParameterError, match="one_of: parts return samples of one array with different shapes"
    ):
        chain(images())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: OneOf([]), "one_of: one_of of \\[\\]; allowed: a list of operators and chains"),
        (lambda: OneOf([FLIP], weights=[0]), "one_of: weights=\\[0.0\\] for 1 parts"),
        (lambda: OneOf([FLIP], weights=[-1]), "one_of: weights=-1 is not valid"),
        (lambda: OneOf([FLIP], p=2), "one_of: p=2 is not valid; allowed: a number from 0 to 1"),
        (lambda: SomeOf(3, [FLIP, INVERT]), "some_of: n=3 of 2 parts; allowed: numbers from 0 to 2"),
        (lambda: SomeOf((2, 1), [FLIP, INVERT]), "some_of: n=\\(2, 1\\) of 2 parts"),
        (lambda: SomeOf((0, 1, 2), [FLIP, INVERT]), "some_of: n=\\(0, 1, 2\\) is not valid"),
        (lambda: OneOf([FLIP], weights=3), "one_of: weights=3 is not valid; allowed: 1 numbers"),
        (lambda: OneOf([ops.Mixup()]), "one_of: mixup mixes the samples of a batch"),
        (lambda: OneOf([3]), "Chain: a chain with an int"),
        (
            lambda: OneOf([ops.ElementExtract(element_map=(0, 1)), None]),
            "one_of: element_extract may change the axes of samples.*; allowed: operators on images and volumes",
        ),
        (
            lambda: SomeOf(1, [[FLIP, ops.Transpose(perm=(2, 0, 1))]]),
            "some_of: transpose may change the axes",
        ),
        (
            lambda: Chain(ops.ElementExtract(element_map=(0, 1)), FLIP),
            "Chain: element_extract returns several values, and",
        ),
        (lambda: Chain(ops.BbFlip()), "Chain: a chain with bb_flip, which acts on boxes"),
        (lambda: Chain(ops.Stack()), "Chain: a chain with stack, which acts on arrays"),
    ],
)
def test_what_cannot_stand_in_a_chain(make, said):
    with pytest.raises(ParameterError, match=said):
        make()


# ---------------------------------------------------------------------- batches, arrays, sequences, volumes


@pytest.mark.parametrize("mix", [ops.Mixup(num_classes=8), ops.CutMix(num_classes=8)])
def test_a_mixed_batch_keeps_its_labels(mix):
    chain = Chain(FLIP, mix, INVERT)
    made = chain(batch(), epoch=1)
    flipped = FLIP(batch(), epoch=1)
    wanted = mix(flipped, epoch=1)
    np.testing.assert_array_equal(made.numpy(), INVERT(wanted.data).numpy())
    np.testing.assert_allclose(made.labels, wanted.labels)
    assert made.labels.dtype == np.float32
    assert made.labels.shape == (8, 8)
    arrays = chain(images(), np.arange(8), epoch=1, index=INDICES)
    np.testing.assert_array_equal(arrays.data, made.numpy())
    np.testing.assert_allclose(arrays.labels, made.labels)


def test_elements_and_transposed_axes_within_a_chain():
    chain = Chain(FLIP, ops.ElementExtract(element_map=(1,)), ops.Transpose(perm=(2, 0, 1)))
    made = chain(images())
    np.testing.assert_array_equal(made, FLIP(images())[:, 1].transpose(0, 3, 1, 2))
    of_batch = chain(Batch.of([Sequence(image) for image in images()]))
    np.testing.assert_array_equal(of_batch.numpy(), made)
    assert of_batch.layout == "NCHW"


def test_several_elements_end_a_chain():
    first, last = Chain(INVERT, ops.ElementExtract(element_map=(0, -1)))(images())
    np.testing.assert_array_equal(first, 255 - images()[:, 0])
    np.testing.assert_array_equal(last, 255 - images()[:, 2])


def test_operators_on_volumes_stand_in_a_chain():
    volume = np.random.default_rng(1).normal(size=(6, 8, 10)).astype(np.float32)
    flip, gamma = ops.Flip3d(depth=1, width=False), ops.Gamma3d(gamma=(0.8, 1.2), range=(-4, 4))
    wanted = gamma(flip(volume, index=4), index=4)
    np.testing.assert_array_equal(Chain(flip, gamma)(volume, index=4), wanted)
    np.testing.assert_array_equal(Chain(Chain(flip), [gamma])(volume, index=4), wanted)


def test_operators_on_slices_stand_between_those_on_volumes_and_all_are_in_the_history():
    volume = np.random.default_rng(1).normal(size=(6, 8, 10, 1)).astype(np.float32)
    turn, blur = ops.RandomAffine3d(rotate=(-20, 20)), ops.GaussianBlur(sigma=0.7)
    noise = ops.GaussianNoise3d(sigma=(0.1, 0.2))
    chain = Chain(turn, blur, noise)
    done = chain({"image": volume}, layout="DHWC", epoch=1, index=4)
    one_by_one = turn(volume, epoch=1, index=4)
    one_by_one = blur(one_by_one, layout="DHWC", epoch=1, index=4)
    np.testing.assert_array_equal(done["image"], noise(one_by_one, epoch=1, index=4))
    assert [entry["op"]["op"] for entry in done.history] == [
        "random_affine3d",
        "gaussian_blur",
        "gaussian_noise3d",
    ]
    assert [line.split(":")[0] for line in chain.explain().splitlines()] == [
        "1. random_affine3d", "2. gaussian_blur", "3. gaussian_noise3d",
    ]  # fmt: skip
    with pytest.raises(ParameterError, match="only operators on volumes can be explained"):
        chain.explain(volume)


def test_a_chain_is_a_value_with_members_by_number():
    chain = Chain(ops.Flip3d(depth=1, width=False), FLIP, FLIP)
    assert len(chain) == 3
    assert list(chain) == list(chain.ops)
    assert chain[1] == FLIP
    assert chain[:1] + chain[1:] == chain
    assert chain.without("flip3d") == Chain(FLIP, FLIP)
    assert len(chain + Chain(FLIP, fuse="compose")) == 4
    again = Chain.from_json(chain.to_json())
    assert again == chain
    assert [op.stream_name for op in again] == [op.stream_name for op in chain]
    assert Chain.from_json(Chain(chain, Chain(TURN, fuse="compose")).to_json())[-1].fuse == "compose"
    with pytest.raises(ParameterError, match="there is no 'blur' in the chain; allowed: flip, flip3d"):
        chain.without("blur")
    with pytest.raises(ParameterError, match=r"Chain: .*factor.* is a node among the parameters"):
        Chain(ops.Brightness(brightness=Input("factor"))).to_json()
    for text in (
        "{",
        '{"op": "chain"}',
        '{"op": "flip"}',
        '{"op": "chain", "ops": [], "fuse": "exact"}',
        "[]",
        Chain(FLIP).to_json().replace("exact", "all"),
    ):
        with pytest.raises(ParameterError, match="is no chain"):
            Chain.from_json(text)
    with pytest.raises(ParameterError, match=r"there is no operator 'flop'; allowed: .*flip"):
        Chain.from_json(Chain(FLIP).to_json().replace('"flip"', '"flop"'))
    with pytest.raises(TypeError, match="unsupported operand"):
        Chain(FLIP) + INVERT


def test_a_chain_is_its_members_one_after_the_other_also_where_they_choose():
    """Each with its occurrence in the chain: the second choice is not that of the first one again."""
    choice, many = OneOf([BRIGHT, [BRIGHT, INVERT], None], seed=3), images(64)
    chain = Chain(choice, BRIGHT, choice, SomeOf(1, [BRIGHT, INVERT]))
    result = many
    for member in chain:
        result = member(result, epoch=1)
    np.testing.assert_array_equal(result, chain(many, epoch=1))
    np.testing.assert_array_equal(choice(many, epoch=1), Chain(choice)(many, epoch=1))
    x = Input("x")
    graph = Graph(choice(choice(x)))
    np.testing.assert_array_equal(graph(x=many, epoch=1)[0], Chain(choice, choice)(many, epoch=1))
    only = Chain(ops.Only("a", BRIGHT), ops.Only("a", BRIGHT))
    sample = {"a": many[0], "b": many[0]}
    np.testing.assert_array_equal(only.ops[1](only.ops[0](sample))["a"], only(sample)["a"])


def test_volumes_with_labels_in_a_list_are_chosen_for_one_by_one():
    flip = ops.Flip3d(width=True)
    chain = Chain(OneOf([flip, ops.BrightnessAdditive(offset=9.0), None], seed=3), flip)
    volumes = np.random.default_rng(0).random((6, 4, 5, 6, 1)).astype(np.float32)
    samples = [
        {"image": Sequence(volume, "DHWC"), "mask": parts.Labels(Sequence(volume > 0.5, "DHWC"))}
        for volume in volumes
    ]
    for index, (found, sample) in enumerate(zip(chain(samples, epoch=1), samples, strict=True)):
        wanted = chain(sample, epoch=1, index=index)
        np.testing.assert_array_equal(found["image"].data, wanted["image"].data)
        np.testing.assert_array_equal(found["mask"].data.data, wanted["mask"].data.data)


def test_choices_and_members_for_some_images_are_json_too():
    """With their occurrences, so that they sample the same values."""
    chain = Chain(closed(), closed(), ops.Only(["t1"], [OneOf([INVERT, None], p=0.5), BRIGHT]))
    again = Chain.from_json(chain.to_json())
    assert again == chain
    assert again.to_json() == chain.to_json()
    first, second = (Chain(*one.ops[:-1])(images(), np.arange(8), index=INDICES) for one in (chain, again))
    np.testing.assert_array_equal(first.data, second.data)
    for wrong in ('"images": []', '"images": [7]'):
        with pytest.raises(ParameterError, match="only: images="):
            Chain.from_json(chain.to_json().replace('"images": ["t1"]', wrong))
    with pytest.raises(ParameterError, match=r"is no chain"):
        Chain.from_json(chain.to_json().replace('"n": [1, 1]', '"n": 1'))


def test_named_tuples_stay_what_they_are_where_samples_choose():
    pair = namedtuple("pair", ["left", "right"])(*images(2))
    made = OneOf([INVERT, None], seed=3)(pair, index=INDICES[:2])
    assert type(made) is type(pair)
    for one, single, index in zip(made, pair, INDICES, strict=False):
        np.testing.assert_array_equal(one, OneOf([INVERT, None], seed=3)(single, index=index))


# ---------------------------------------------------------------------- nodes, texts


def closed() -> Chain:
    """A chain with a member of each kind."""
    choice = OneOf([INVERT, None, [FLIP, BRIGHT]], weights=[1, 1, 2], seed=3)
    return Chain(
        FLIP, choice, Chain(TURN, TURN, fuse="compose"), SomeOf(1, [FLIP, INVERT]), ops.Mixup(num_classes=8)
    )


def test_a_graph_does_what_the_chain_does():
    x, labels = Input("x"), Input("labels")
    graph = Graph(*closed()(x, labels))
    wanted = closed()(images(), np.arange(8), epoch=2, index=INDICES)
    for again in (graph, Graph.from_json(graph.to_json()), pickle.loads(pickle.dumps(graph))):
        data, mixed = again(x=images(), labels=np.arange(8), epoch=2, index=INDICES)
        np.testing.assert_array_equal(data, wanted.data)
        np.testing.assert_allclose(mixed, wanted.labels)


def test_a_parameter_within_a_choice_may_be_a_node():
    x, factor = Input("x"), Input("factor")
    chain = Chain(OneOf([ops.Brightness(brightness=factor), None]))
    graph = Graph(chain(x))
    values = np.linspace(0.5, 1.5, 8).astype(np.float32)
    made = graph(x=images(), factor=values)[0]
    wanted = Chain(OneOf([ops.Brightness(brightness=1.0), None])).ops[0].drawn(0, range(8))
    for place, numbers in enumerate(wanted):
        one = (
            ops.Brightness(brightness=float(values[place]))(images()[place])
            if numbers == (0,)
            else images()[place]
        )
        np.testing.assert_array_equal(made[place], one)


def test_it_is_told_by_its_members():
    chain = closed()
    assert eval(repr(chain), vars(ops) | {"Uniform": ops.Uniform}) == chain
    assert pickle.loads(pickle.dumps(chain)) == chain
    assert chain.title == "flip → one_of → rotate → rotate → some_of → mixup"
    assert len(chain.explain().splitlines()) == 5


@pytest.mark.parametrize("wrapped", [False, True], ids=["an array", "a sample"])
def test_operators_on_volumes_read_arrays_alike_before_and_after_a_choice(wrapped):
    """An array of 4 axes is NDHW for them by default; after a choice it was read as one of images, FHWC."""
    volumes = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    given = {"image": volumes} if wrapped else volumes
    flip, turn = ops.Flip3d(depth=1, width=False), ops.Flip3d(width=1)
    plain = Chain(flip, turn)(given)
    for chain in (
        Chain(OneOf([flip]), turn),
        Chain(flip, OneOf([turn])),
        Chain(Chain(flip, fuse="compose"), turn),
    ):
        found = chain(given)
        np.testing.assert_array_equal(
            found["image"] if wrapped else found, plain["image"] if wrapped else plain
        )


def test_one_call_serves_operators_on_images_and_on_volumes():
    volume = np.random.default_rng(1).normal(size=(6, 8, 10, 1)).astype(np.float32)
    for op in (ops.Flip(), ops.Flip3d(), ops.RandomAffine3d(rotate=9.0), Chain(ops.Flip3d())):
        wanted = op(volume, layout="DHWC")
        graph = Graph(*op({"a": Input("a")}, layout="DHWC").values())
        np.testing.assert_array_equal(graph(a=volume)[0], wanted)
        if not isinstance(op, Chain):
            found = ops.apply(op, volume, layout="DHWC", backend="reference")
            assert np.abs(found - wanted).max() < 1e-5
    mixed = Chain(ops.Flip3d())(volume[None], np.array([3]), layout="NDHWC")
    np.testing.assert_array_equal(mixed.data[0], ops.Flip3d()(volume))
    assert mixed.labels == [3]
    with pytest.raises(ParameterError, match="backend='gpu' is not valid"):
        ops.apply(ops.Flip3d(), volume, backend="gpu")
