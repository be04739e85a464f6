"""Buckets: every sample in one batch of its shape, in an order that a plain loop gives as well."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqpipe import ParameterError
from seqpipe.sampling.buckets import Bucket, bucketed

SIDES = st.sampled_from([(4, 8, 8), (4, 8, 16), (8, 8, 8), (16, 24, 8)])


def _by_a_loop(order, numbers, capacities, drop):
    """Batches as a loop over the samples makes them."""
    open_, complete = {}, []
    for sample in order:
        members = open_.setdefault(numbers[sample], [])
        members.append(sample)
        if len(members) == capacities[numbers[sample]]:
            complete.append(open_.pop(numbers[sample]))
    rest = sorted(open_.values(), key=lambda members: order.index(members[0]))
    return complete, [] if drop else rest


@given(
    sizes=st.lists(SIDES, min_size=1, max_size=40),
    size=st.integers(1, 6),
    budget=st.none() | st.integers(48, 200),
    drop=st.booleans(),
    seed=st.integers(0, 9),
)
def test_batches_are_those_of_a_loop_over_the_samples(sizes, size, budget, drop, seed):
    sizes = np.array(sizes)
    buckets = Bucket(token_budget=budget, token=(1, 8, 8)).assigned(sizes, size)
    order = np.random.default_rng(seed).permutation(len(sizes))
    plan = bucketed(order, buckets, drop=drop)
    batches = [plan.batch(number).tolist() for number in range(len(plan))]
    complete, rest = _by_a_loop(order.tolist(), buckets.numbers, buckets.capacities, drop)
    assert batches[: len(complete)] == complete
    assert sorted(batches[len(complete) :]) == sorted(rest)
    for batch in batches:
        assert len({tuple(sizes[sample]) for sample in batch}) == 1
        if budget is not None:
            assert len(batch) * np.prod(sizes[batch[0]] // (1, 8, 8)) <= budget
    if not drop:
        assert sorted(sample for batch in batches for sample in batch) == list(range(len(sizes)))


@given(
    height=st.integers(8, 2000),
    width=st.integers(8, 2000),
    shapes=st.lists(st.tuples(*[st.integers(1, 9)] * 2), min_size=1),
)
def test_a_sample_goes_to_the_nearest_aspect_ratio(height, width, shapes):
    shapes = [(16 * h, 16 * w) for h, w in shapes]
    buckets = Bucket(shapes=shapes).assigned(np.array([[8, height, width]]), 4)
    chosen = buckets.shapes[int(buckets.numbers[0]), 1:]
    distance = [abs(np.log(height / width) - np.log(h / w)) for h, w in shapes]
    assert abs(np.log(height / width) - np.log(chosen[0] / chosen[1])) == pytest.approx(
        min(distance), abs=1e-8
    )


def test_the_report_says_how_full_batches_are():
    buckets = Bucket(token_budget=10, token=(1, 8, 8)).assigned(np.array([[4, 8, 8]] * 5 + [[8, 8, 8]]), 8)
    assert buckets.report() == [
        {
            "shape": (4, 8, 8),
            "samples": 5,
            "batches": 3,
            "batch_size": 2,
            "fill": 0.6667,
            "padding": 0,
            "cropped": 0,
        },
        {
            "shape": (8, 8, 8),
            "samples": 1,
            "batches": 1,
            "batch_size": 1,
            "fill": 0.8,
            "padding": 0,
            "cropped": 0,
        },
    ]


def test_the_report_says_what_is_padded_and_cropped():
    sizes = np.array([[8, 16, 16], [4, 16, 16]])
    (row,) = Bucket(by=("height", "width")).assigned(sizes, 2).report()
    assert (row["shape"], row["padding"], row["cropped"]) == ((8, 16, 16), 0.25, 0)
    (row,) = Bucket(shapes=[(16, 16)], frames=[4]).assigned(np.array([[8, 16, 32], [4, 32, 32]]), 2).report()
    assert (row["shape"], row["padding"], row["cropped"]) == (
        (4, 16, 16),
        0,
        0.375,
    )  # three quarters, and nothing


def test_samples_keep_the_frames_of_the_largest_bucket_that_they_fill():
    sizes = np.array([[n, 8, 8] for n in (17, 32, 33, 64, 65, 300)])
    bucket = Bucket(frames=(65, 17, 33))
    assert bucket.assigned(sizes, 4).kept.tolist() == [17, 17, 33, 33, 65, 65]
    assert bucket.unused(bucket.assigned(sizes[:2], 4)) == ["33 frames", "65 frames"]


@settings(max_examples=40)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=80),
    size=st.integers(1, 6),
    seed=st.integers(0, 9),
)
def test_packed_batches_hold_every_sample_once_within_budget_and_size(lengths, size, seed):
    buckets = Bucket(token_budget=40, token=(1, 8, 8), pack=True).assigned(
        np.array([[n, 8, 8] for n in lengths]), size
    )
    plan = bucketed(np.random.default_rng(seed).permutation(len(lengths)), buckets)
    batches = [plan.batch(number).tolist() for number in range(len(plan))]
    assert sorted(sample for batch in batches for sample in batch) == list(range(len(lengths)))
    assert all(len(batch) <= size and sum(lengths[n] for n in batch) <= 40 for batch in batches)


def test_packing_fills_the_budget():
    lengths = np.random.default_rng(0).integers(64, 4096, 4000)
    sizes = np.column_stack([lengths, np.full((4000, 2), 16)])
    (row,) = Bucket(token_budget=8192, pack=True).assigned(sizes, 64).report()
    assert row["samples"] == 4000
    assert row["fill"] > 0.97


def test_ranks_have_equal_work_in_a_step():
    rng = np.random.default_rng(1)
    sides = np.array([[16, 16], [32, 32], [64, 64]])[rng.integers(0, 3, 6000)]
    sizes = np.column_stack([np.full(6000, 8), sides])
    buckets = Bucket().assigned(sizes, 8)
    plan = bucketed(rng.permutation(6000), buckets)
    places = rng.permutation(len(plan))

    def work(plan):
        """Tokens of the batches in order of the places, of eight ranks: those of all, of the slowest ones' steps."""
        order = [plan.batch(number) for number in places.tolist()]
        tokens = np.array([buckets.tokens[buckets.numbers[one]].sum() for one in order])
        steps = tokens[: len(tokens) // 8 * 8].reshape(-1, 8)
        return steps.sum() / (8 * steps.max(axis=1).sum())

    assert work(plan) < 0.5
    assert work(plan.in_runs(places, buckets)) > 0.97
    batches = lambda plan: sorted(tuple(plan.batch(n)) for n in range(len(plan)))  # noqa: E731
    assert batches(plan) == batches(plan.in_runs(places, buckets))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: Bucket(by=("depth",)),
            r"by=\('depth',\) is not valid; allowed: names of frames, height, width",
        ),
        (lambda: Bucket(shapes=[]), "shapes is a list"),
        (
            lambda: Bucket(shapes=[(8,)]),
            r"shapes has \(8,\); allowed: \(height, width\)",
        ),
        (lambda: Bucket(token_budget=0), "token_budget=0 is not valid"),
        (lambda: Bucket(token=(1, 16)), r"token=\(1, 16\) is not valid"),
        (lambda: Bucket(frames=()), r"frames=\(\) is not valid; allowed: numbers of frames"),
        (lambda: Bucket(pack=True), "pack=True; allowed: with token_budget and without shapes"),
        (
            lambda: Bucket(frames=(17, 33)).assigned(np.array([[5, 8, 8], [40, 8, 8]]), 2),
            "1 samples have fewer frames than the smallest bucket of 17; the shortest has 5; .*min_frames=…",
        ),
        (
            lambda: Bucket(token_budget=7, token=(1, 8, 8)).assigned(np.array([[8, 8, 8]]), 2),
            "token_budget=7 is smaller than one sample of 8×8×8; allowed: at least 8",
        ),
    ],
)
def test_buckets_that_nothing_fits_are_named(make, said):
    with pytest.raises(ParameterError, match=said):
        make()
