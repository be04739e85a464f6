"""Buckets: every sample in one batch of its shape, in an order that a plain loop gives as well."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
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
        {"shape": (4, 8, 8), "samples": 5, "batches": 3, "batch_size": 2, "fill": 0.6667},
        {"shape": (8, 8, 8), "samples": 1, "batches": 1, "batch_size": 1, "fill": 0.8},
    ]


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
        (
            lambda: Bucket(token_budget=7, token=(1, 8, 8)).assigned(np.array([[8, 8, 8]]), 2),
            "token_budget=7 is smaller than one sample of 8×8×8; allowed: at least 8",
        ),
    ],
)
def test_buckets_that_nothing_fits_are_named(make, said):
    with pytest.raises(ParameterError, match=said):
        make()
