"""The order of an epoch over ranks that come and go: each sample once, whatever the history."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seqpipe import ParameterError
from seqpipe.sampling.dealing import SampleOrder

histories = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 40)), max_size=4)
orders = st.builds(
    lambda units, unit, mix, mixes, shuffle, seed: SampleOrder(
        size=units * unit, unit=unit, mix=mix, mixes=mixes, shuffle=shuffle, seed=seed
    ),
    st.integers(1, 60),
    st.integers(1, 12),
    st.integers(1, 5),
    st.booleans(),
    st.booleans(),
    st.integers(0, 3),
)


def _read(order: SampleOrder, epoch: int, world: int, done, count: int) -> list[int]:
    shares = [order.share(epoch, rank, world, done=done) for rank in range(world)]
    return [i for share in shares for i in share.indices(np.arange(min(count, len(share)))).tolist()]


@settings(max_examples=300, deadline=None)
@given(orders, histories, st.integers(0, 3), st.integers(1, 8))
@example(SampleOrder(size=1000, unit=1, shuffle=True, seed=1), [(8, 37)], 2, 6)  # eight ranks become six
def test_each_sample_comes_once_over_any_history_of_ranks(order, history, epoch, last):
    seen, done = [], ()
    for world, count in history:
        longest = order.share(epoch, 0, world, done=done).longest
        seen += _read(order, epoch, world, done, min(count, longest))
        done += ((world, min(count, longest)),)
    seen += _read(order, epoch, last, done, order.size)
    assert sorted(seen) == list(range(order.size))


@settings(max_examples=100, deadline=None)
@given(orders, st.integers(1, 8), st.integers(0, 30))
def test_a_pair_that_grows_is_an_uninterrupted_run(order, world, count):
    for rank in range(world):
        whole = order.share(1, rank, world)
        again = order.share(1, rank, world, done=((world, 0),))
        assert whole.indices(np.arange(len(whole))).tolist() == again.indices(np.arange(len(again))).tolist()
    assert order.share(1, 0, world).longest - order.share(1, 0, world).shortest <= max(
        order.unit * (order.mix if order.mixes else 1), order.unit * max(1, 32 // order.unit)
    )


@pytest.mark.parametrize("shuffle", [True, False])
def test_equal_global_batches_hold_the_same_samples_on_any_number_of_ranks(shuffle):
    order = SampleOrder(size=96, shuffle=True, seed=4)
    for world in (1, 2, 4, 8):
        shares = [order.share(2, rank, world) for rank in range(world)]
        per_rank = 8 // world
        steps = [
            sorted(i for s in shares for i in s.indices(np.arange(k, k + per_rank)).tolist())
            for k in range(0, 96 // world, per_rank)
        ]
        one = order.share(2).indices(np.arange(96)).reshape(-1, 8)
        assert steps == [sorted(row) for row in one.tolist()]


def test_even_ranks_repeat_their_first_sample():
    order = SampleOrder(size=7)
    shares = [order.share(0, rank, 3, even=True) for rank in range(3)]
    assert {len(share) for share in shares} == {3}
    for share in shares:
        numbers = share.indices(np.arange(3)).tolist()
        assert numbers[share.own :] == numbers[: 3 - share.own]


def test_a_rank_that_sticks_reads_the_same_samples_in_every_epoch():
    order = SampleOrder(size=23, shuffle=True)
    parts = [
        [
            sorted(
                order.share(epoch, rank, 3, stick=True).indices(
                    np.arange(len(order.share(epoch, rank, 3, stick=True)))
                )
            )
            for epoch in range(3)
        ]
        for rank in range(3)
    ]
    assert all(a == b == c for a, b, c in parts)
    assert sorted(i for part in parts for i in part[0]) == list(range(23))


def test_wrong_shares_are_refused():
    with pytest.raises(ParameterError, match=r"shard=\(3, 3\) is not valid.*Ranks are counted from 0"):
        SampleOrder(size=9).share(0, 3, 3)
    with pytest.raises(ParameterError, match="2 samples cannot be shared evenly by 4 ranks"):
        SampleOrder(size=2).share(0, 0, 4, even=True)
    with pytest.raises(ParameterError, match="7 samples are not whole units of 2"):
        SampleOrder(size=7, unit=2)
    with pytest.raises(ParameterError, match="position=9 is not valid; allowed: 0 to 8"):
        SampleOrder(size=9).share(0).indices(np.array([9]))
