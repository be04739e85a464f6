"""Numbers drawn for many samples at once are those of NumPy's generator of each, with and without a C compiler."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqpipe import random as draws
from seqpipe.core.native import compiler
from seqpipe.random import (
    BatchGenerator,
    DivergedStreamsError,
    ScalarGenerator,
    draw_steps,
    random_words,
    stream,
)

INDICES = [5, 0, 2**64 - 1, 7, 5]
SIZES = st.sampled_from([None, 0, 1, 3, (2, 3), (4,)])
STEPS = st.one_of(
    st.tuples(st.just("random"), st.tuples(), SIZES),
    st.tuples(st.just("random"), st.just("float32"), SIZES),
    st.tuples(st.just("uniform"), st.sampled_from([(-2.0, 3.5), (0.25, 0.25)]), SIZES),
    st.tuples(
        st.just("integers"), st.sampled_from([(1,), (2,), (9,), (-4, 3), (-(2**31), 2**31), (7, 8)]), SIZES
    ),
)


@pytest.fixture(
    params=[pytest.param(True, marks=pytest.mark.skipif(compiler() is None, reason="no C compiler")), False],
    ids=["C", "Python"],
)
def native(request, monkeypatch):
    """Random words from C and from Python."""
    if request.param:
        assert draws._native() is not None
    else:
        monkeypatch.setattr(draws, "_native", lambda: None)


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("count", [1, 4, 5, 33])
def test_words_and_numbers_are_those_of_each_stream(count):
    words = random_words(3, "flip", 2**64 - 1, INDICES, count)
    numbers = draw_steps(3, "flip", 2**64 - 1, INDICES, (0,) * count)
    assert len(numbers) == count
    for place, index in enumerate(INDICES):
        assert (
            BatchGenerator(3, "flip", 2**64 - 1, INDICES).bit_generator.random_raw()[place] == words[place, 0]
        )
        raw = stream(3, "flip", 2**64 - 1, index).bit_generator.random_raw(count)
        np.testing.assert_array_equal(words[place, :count], raw)
        wanted = stream(3, "flip", 2**64 - 1, index).random(count).tolist()
        assert [column[place] for column in numbers] == wanted


@pytest.mark.usefixtures("native")
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEPS, min_size=1, max_size=8), seed=st.integers(0, 99))
def test_every_order_of_draws_gives_what_the_generators_give(steps, seed):
    """Halves of words that whole numbers leave over are used by the next ones, whatever comes between."""
    together = BatchGenerator(seed, "steps", 4, INDICES)
    alone = [stream(seed, "steps", 4, index) for index in INDICES]
    for name, arguments, size in steps:
        options = {"size": size}
        if arguments == "float32":
            arguments, options = (), {"size": size, "dtype": np.float32}
        try:
            found = getattr(together, name)(*arguments, **options)
        except DivergedStreamsError:
            return
        for numbers, rng in zip(found, alone, strict=True):
            wanted = np.asarray(getattr(rng, name)(*arguments, **options))
            np.testing.assert_array_equal(numbers, wanted)
            assert size is None or numbers.dtype == wanted.dtype


def test_vectors_of_ranges_and_both_ends():
    together, alone = BatchGenerator(1, "a", 0, INDICES), [stream(1, "a", 0, index) for index in INDICES]
    low, high = (0.0, 10.0, -1.0), (1.0, 10.0, 1.0)
    for numbers, rng in zip(together.uniform(low, high, (3,)), alone, strict=True):
        np.testing.assert_array_equal(numbers, rng.uniform(low, high, (3,)))
    for numbers, rng in zip(together.integers(2, 5, 7, endpoint=True), alone, strict=True):
        np.testing.assert_array_equal(numbers, rng.integers(2, 5, 7, endpoint=True))


def test_numbers_that_need_other_steps_are_not_guessed():
    """Of 3 · 10⁹ numbers, NumPy draws a half of a word anew in three of ten cases."""
    with pytest.raises(DivergedStreamsError):
        BatchGenerator(0, "a", 0, range(50)).integers(3 * 10**9)
    for arguments in ((2**32 + 1,), (0,), ((1, 2), (3, 4)), (5, 5)):
        with pytest.raises(DivergedStreamsError):
            BatchGenerator(0, "a", 0, [1]).integers(*arguments)


def test_samples_that_went_on_by_themselves_are_not_together_any_more():
    together = BatchGenerator(0, "a", 0, [1, 2])
    together.each(4)
    with pytest.raises(DivergedStreamsError):
        together.random()


@given(counts=st.lists(st.sampled_from([1, 2, 9, 2**31 + 1, 3 * 10**9, 2**32]), max_size=20))
@settings(max_examples=60, deadline=None)
def test_numbers_one_by_one_are_those_of_the_generator(counts):
    """Also where some have to be drawn anew, other numbers are between them, and more are drawn than are at hand."""
    wanted = stream(6, "b", 1, 7)
    own = ScalarGenerator.of(stream(6, "b", 1, 7)), BatchGenerator(6, "b", 1, [3, 7]).each(5)[1]
    for count in counts:
        assert [numbers.below(count) for numbers in own] == [wanted.integers(count)] * 2
        assert [numbers.random() for numbers in own] == [wanted.random()] * 2


@pytest.mark.usefixtures("native")
@given(steps=st.lists(st.sampled_from([0, 1, 2, 9, 2**31 + 1, 3 * 10**9, 2**32, -1, -3, -14]), max_size=20))
@settings(max_examples=60, deadline=None)
def test_what_is_drawn_in_steps_is_what_the_generators_give(steps):
    """Floats in [0, 1), integers below a count, some of which are rejected and drawn again, and skipped words."""

    def wanted(index):
        rng = stream(6, "b", 1, index)
        for step in steps:
            if step < 0:
                rng.bit_generator.random_raw(-step)
            else:
                yield rng.integers(step) if step else rng.random()

    everyone = [list(wanted(index)) for index in INDICES]
    columns = [list(column) for column in draw_steps(6, "b", 1, INDICES, tuple(steps))]
    assert columns == [list(column) for column in zip(*everyone, strict=True)]
    assert ScalarGenerator.of(stream(6, "b", 1, 7)).draw(tuple(steps)) == everyone[INDICES.index(7)]
    try:
        assert BatchGenerator(6, "b", 1, INDICES).draw(tuple(steps)) == everyone
    except DivergedStreamsError:
        assert max(steps) > 2**31, "hardly any number below a small count is drawn anew"
