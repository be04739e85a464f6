"""Orders and batches: every sample exactly once per epoch over all ranks, for any world, in every mode."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe.errors import ParameterError
from seqpipe.sampling import EpochOrder
from seqpipe.sampling.params import check_shard

sizes = st.integers(0, 200)
worlds = st.integers(1, 9)
epochs = st.integers(0, 1000)
flags = st.booleans()


def ranks(size, world, **options):
    return [EpochOrder(size=size, shard=(rank, world), **options) for rank in range(world)]


@given(sizes, worlds, epochs, flags, flags, st.integers(-5, 2**65))
def test_the_ranks_together_give_every_sample_once(size, world, epoch, shuffle, stick, seed):
    parts = [
        o.samples(epoch).tolist()
        for o in ranks(size, world, shuffle=shuffle, stick_to_shard=stick, seed=seed)
    ]
    assert sorted(chain.from_iterable(parts)) == list(range(size))
    lengths = [len(part) for part in parts]
    assert max(lengths) - min(lengths) <= 1
    assert max(lengths) == EpochOrder(size=size, shard=(0, world)).longest


@given(sizes, worlds, epochs, flags, flags)
def test_one_position_is_one_of_many(size, world, epoch, shuffle, stick):
    for order in ranks(size, world, shuffle=shuffle, stick_to_shard=stick):
        samples = order.samples(epoch)
        assert len(samples) == order.length(epoch)
        for position in range(0, len(samples), 7):
            assert order.samples(epoch, np.array([position])).tolist() == [samples[position]]
        backwards = np.arange(len(samples))[::-1]
        assert order.samples(epoch, backwards).tolist() == samples[::-1].tolist()


@given(sizes, worlds, flags)
def test_a_rank_that_sticks_keeps_its_samples_and_they_are_neighbors(size, world, shuffle):
    for order in ranks(size, world, shuffle=shuffle, stick_to_shard=True):
        sets = [sorted(order.samples(epoch).tolist()) for epoch in range(4)]
        assert all(samples == sets[0] for samples in sets)
        assert np.diff(sets[0]).tolist() == [1] * max(0, len(sets[0]) - 1)


@given(st.integers(1, 200), worlds, st.integers(0, 50))
def test_parts_rotate_through_the_ranks(size, world, epoch):
    """As in DALI: a rank has another part in each epoch, and has had all after as many epochs as ranks."""
    orders = ranks(size, world)
    for rank, order in enumerate(orders):
        assert order.samples(epoch + 1).tolist() == orders[(rank + 1) % world].samples(epoch).tolist()
    rounds = [orders[0].samples(epoch + n).tolist() for n in range(world)]
    assert sorted(chain.from_iterable(rounds)) == list(range(size))


@given(st.integers(1, 200), worlds, epochs)
def test_the_shuffled_epoch_is_one_permutation_whatever_the_world(size, world, epoch):
    alone = EpochOrder(size=size, shuffle=True, seed=3).samples(epoch).tolist()
    parts = [order.samples(epoch).tolist() for order in ranks(size, world, shuffle=True, seed=3)]
    turned = [parts[(n - epoch) % world] for n in range(world)]
    assert list(chain.from_iterable(turned)) == alone


@pytest.mark.parametrize("stick", [False, True])
def test_epochs_seeds_and_ranks_have_orders_of_their_own(stick):
    orders = [
        EpochOrder(size=300, shuffle=True, seed=seed, stick_to_shard=stick, shard=(rank, 2))
        for seed in (0, 1)
        for rank in (0, 1)
    ]
    rows = [order.samples(epoch) - order.samples(epoch).min() * stick for order in orders for epoch in (0, 1)]
    for n, one in enumerate(rows):
        for other in rows[:n]:
            assert (one == other).mean() < 0.05


def test_without_shuffling_the_order_is_the_data_s():
    assert EpochOrder(size=7).samples(5).tolist() == list(range(7))
    assert [order.samples(0).tolist() for order in ranks(7, 3)] == [[0, 1], [2, 3], [4, 5, 6]]


def test_another_process_has_the_same_order():
    drawn = "EpochOrder(size=5000, shuffle=True, seed=8).samples(3)[:9].tolist()"
    code = f"from seqpipe.sampling import EpochOrder; print({drawn})"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == str(EpochOrder(size=5000, shuffle=True, seed=8).samples(3)[:9].tolist())


def test_a_billion_samples_cost_nothing_until_asked_for():
    order = EpochOrder(size=10**9, shuffle=True, shard=(3, 8))
    wanted = np.arange(10**8, 10**8 + 64)
    tracemalloc.start()
    try:
        samples = order.samples(7, wanted)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1 << 20
    assert len(set(samples.tolist())) == 64


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: EpochOrder(size=-1), r"size=-1 is not valid"),
        (
            lambda: EpochOrder(size=5, shard=(2, 2)),
            r"shard=\(2, 2\) is not valid; allowed: \(rank, world\).*from 0",
        ),
        (lambda: EpochOrder(size=5, shard=(-1, 2)), r"shard=\(-1, 2\) is not valid"),
        (lambda: EpochOrder(size=5, shard=(0, 0)), r"shard=\(0, 0\) is not valid"),
        (lambda: EpochOrder(size=5, shuffle=1), r"shuffle=1 is not valid; allowed: True or False"),
        (lambda: EpochOrder(size=5, seed="x"), r"seed='x' is not valid"),
        (
            lambda: EpochOrder(size=5).samples(0, np.array([5])),
            r"position=5 is not valid in epoch 0 of rank 0; allowed: 0 to 4",
        ),
        (lambda: EpochOrder(size=5).samples(0, np.array([-1])), r"position=-1 is not valid"),
        (lambda: EpochOrder(size=5).samples(-1, np.array([0])), r"epoch=-1 is not valid"),
        (
            lambda: EpochOrder(size=1, shard=(0, 2)).samples(0, np.array([0])),
            r"none, the rank has no samples",
        ),
        (lambda: check_shard((0.5, 2)), r"shard=\(0\.5, 2\) is not valid"),
        (lambda: check_shard(3), r"shard=3 is not valid"),
        (lambda: check_shard((0, 1, 2)), r"shard=\(0, 1, 2\) is not valid"),
    ],
)
def test_failures_are_named(call, message):
    with pytest.raises(ParameterError, match=message):
        call()


def test_numpy_integers_are_integers():
    assert check_shard((np.int64(1), np.int32(4))) == (1, 4)
