"""Streams that depend on their place only, and orders that are bijections, uniform, and O(1) in memory."""

from __future__ import annotations

import copy
import itertools
import pickle
import subprocess
import sys
import tracemalloc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from seqpipe.errors import ParameterError
from seqpipe.random import Permutation, key_of, stream, streams

PLACES = [
    (seed, name, epoch, index)
    for seed in (0, 7)
    for name in ("a", "b")
    for epoch in (0, 1)
    for index in (0, 1)
]


def first(place):
    return stream(*place).integers(0, 1 << 62, size=8).tolist()


def whole(size, seed=0, name="shuffle", epoch=0):
    return Permutation(size, seed, name, epoch)[np.arange(size)]


def test_a_stream_does_not_depend_on_the_order_of_calls_nor_on_threads():
    forwards = [first(place) for place in PLACES]
    backwards = [first(place) for place in reversed(PLACES)][::-1]
    with ThreadPoolExecutor(4) as pool:
        threaded = list(pool.map(first, PLACES))
    assert forwards == backwards == threaded


@pytest.mark.parametrize("place", PLACES)
def test_a_stream_is_that_of_numpy_for_its_key_and_counter(place):
    seed, name, epoch, index = place
    counter = np.array([0, 0, index, epoch], np.uint64)
    expected = np.random.Generator(np.random.Philox(counter=counter, key=key_of(seed, name)))
    assert first(place) == expected.integers(0, 1 << 62, size=8).tolist()


def test_a_stream_takes_no_entropy_of_the_system(monkeypatch):
    """It would not use it, and the system call releases the GIL."""
    taken = []
    monkeypatch.setattr("random._urandom", lambda count: taken.append(count) or bytes(count))
    np.random.Philox(key=1)
    assert taken, "this is how NumPy takes it"
    taken.clear()
    stream(1, "a", 2, 3)
    assert not taken


def test_a_stream_can_be_copied_and_sent_to_another_process():
    rng = stream(1, "a", 2, 3)
    rng.random(3)
    copies = copy.deepcopy(rng), pickle.loads(pickle.dumps(rng))
    assert len({generator.random() for generator in (rng, *copies)}) == 1


def test_streams_of_different_places_share_no_number():
    numbers = Counter(itertools.chain.from_iterable(first(place) for place in PLACES))
    assert len(numbers) == 8 * len(PLACES)


def test_neighboring_streams_are_not_correlated():
    rows = np.array([stream(3, "clips", 0, index).random(400) for index in range(60)])
    correlation = np.corrcoef(rows)[~np.eye(60, dtype=bool)]
    assert abs(correlation).max() < 0.25  # 5 standard deviations of independent rows of 400
    assert stats.kstest(rows[:, 0], "uniform").pvalue > 1e-3


def test_a_long_stream_does_not_run_into_the_next_index():
    long = stream(0, "noise", 0, 0).integers(0, 1 << 62, size=200_000)
    assert not set(long.tolist()) & set(stream(0, "noise", 0, 1).integers(0, 1 << 62, size=1000).tolist())


@pytest.mark.parametrize("seed", [-1, 2**70, 2**63])
def test_any_integer_is_a_seed(seed):
    assert first((seed, "a", 0, 0)) != first((seed + 1, "a", 0, 0))


def test_another_process_draws_the_same():
    drawn = "stream(5, 'x', 2, 9).integers(1 << 60), Permutation(5000, 5, 'x', 2)[17]"
    code = f"from seqpipe.random import *; print({drawn})"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert [int(word) for word in out] == [
        stream(5, "x", 2, 9).integers(1 << 60),
        Permutation(5000, 5, "x", 2)[17],
    ]


@settings(max_examples=150, deadline=None)
@given(size=st.integers(0, 5000), seed=st.integers(-(2**70), 2**70), epoch=st.integers(0, 10**6))
def test_every_position_holds_another_value(size, seed, epoch):
    assert sorted(whole(size, seed, "shuffle", epoch).tolist()) == list(range(size))


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 16, 17, 1023, 1024, 1025, 4095, 4096, 4097])
def test_sizes_at_the_seams_are_bijections(size):
    assert sorted(whole(size).tolist()) == list(range(size))
    assert len(Permutation(size, 0)) == size


@pytest.mark.parametrize("size", [1, 9, 1024, 1025, 3000])
def test_scalar_access_is_vector_access(size):
    order = Permutation(size, 4, epoch=2)
    places = np.random.default_rng(0).integers(0, size, 40)
    scalars = [order[int(place)] for place in places]
    assert scalars == order[places].tolist()
    assert all(type(value) is int for value in scalars)


@pytest.mark.parametrize("size", [200, 5000])
def test_each_epoch_seed_and_name_has_its_own_order(size):
    orders = [whole(size, seed, name, epoch) for seed in (0, 1) for name in ("a", "b") for epoch in (0, 1)]
    for one, other in itertools.combinations(orders, 2):
        assert (one == other).mean() < 0.05  # one fixed point is expected, whatever the size


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_all_orders_of_a_few_are_equally_likely(size):
    counts = Counter(tuple(whole(size, 11, "orders", epoch).tolist()) for epoch in range(60 * 120))
    observed = [counts[order] for order in itertools.permutations(range(size))]
    assert stats.chisquare(observed).pvalue > 1e-3


@pytest.mark.parametrize(("size", "epochs"), [(12, 4000), (1500, 400)])
def test_every_value_comes_equally_often_at_every_place(size, epochs):
    table = np.array([whole(size, 2, "places", epoch) for epoch in range(epochs)])
    cells = np.minimum(table * 12 // size, 11)
    for place in (0, 1, size // 2, size - 1):
        assert stats.chisquare(np.bincount(cells[:, place], minlength=12)).pvalue > 1e-4


def test_neighbors_in_a_large_order_are_not_neighbors_in_the_data():
    order = whole(50_000, 9)
    assert abs(stats.spearmanr(order[:-1], order[1:]).statistic) < 0.02
    assert (np.abs(np.diff(order)) == 1).mean() < 1e-3


def test_a_billion_needs_no_memory():
    tracemalloc.start()
    order = Permutation(10**9, 0)
    values = order[np.arange(1000)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
    assert len(set(values.tolist())) == 1000
    assert 0 <= values.min() < values.max() < 10**9


@pytest.mark.parametrize("position", [-1, 7, np.array([0, 9])])
def test_a_position_outside_is_refused(position):
    with pytest.raises(ParameterError, match=r"position=(-1|7|9) is not valid; allowed: 0 to 6"):
        Permutation(7, 0)[position]


def test_nothing_has_no_position():
    with pytest.raises(ParameterError, match="the permutation is empty"):
        Permutation(0, 0)[0]
    with pytest.raises(ParameterError, match=r"size=-1 is not valid; allowed: a whole number of at least 0"):
        Permutation(-1, 0)


@pytest.mark.parametrize("value", ["x", 1.5, None, -1, 2**64, True, np.array([1]), np.float32(2)], ids=repr)
@pytest.mark.parametrize("what", ["epoch", "index"])
def test_what_is_no_place_is_refused(what, value):
    with pytest.raises(ParameterError) as caught:
        stream(0, "flip", **{what: value})
    allowed = "an integer from 0 to 2**64 - 1"
    assert str(caught.value) == f"flip: {what}={value!r} is not valid; allowed: {allowed}."


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.array])
def test_a_place_may_be_any_kind_of_integer(kind):
    assert first((0, "a", kind(3), kind(5))) == first((0, "a", 3, 5))


def test_streams_are_those_of_each_sample():
    """Also where one was used up to the middle of what it keeps."""
    indices = [5, 0, 5, 2**64 - 1, 3, 7]
    for draw in (
        lambda rng: rng.random(3),
        lambda rng: rng.integers(0, 100, 5, dtype=np.uint32),
        lambda rng: rng.normal(size=2),
    ):
        found = [draw(rng) for rng in streams(3, "flip", 2, indices)]
        for index, numbers in zip(indices, found, strict=True):
            np.testing.assert_array_equal(numbers, draw(stream(3, "flip", 2, index)))


def test_streams_that_are_used_in_turn_do_not_disturb_each_other():
    pairs = zip(streams(3, "flip", 0, range(5)), streams(3, "crop", 0, range(5)), strict=True)
    found = [(one.random(), other.random()) for one, other in pairs]
    assert found == [(stream(3, "flip", 0, n).random(), stream(3, "crop", 0, n).random()) for n in range(5)]


def test_streams_of_many_threads_that_are_given_up_in_the_middle():
    def draw(seed):
        rng = next(used := streams(seed, "flip", 1, range(9)))
        found = [rng.random(dtype=np.float32), *rng.integers(1 << 62, size=3).tolist()]
        used.close()
        return found

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(draw, range(400)))
    for seed, numbers in enumerate(found):
        rng = stream(seed, "flip", 1, 0)
        assert numbers == [rng.random(dtype=np.float32), *rng.integers(1 << 62, size=3).tolist()]
