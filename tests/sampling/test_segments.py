"""Uniform segments, and the command line's rules, against models in fractions and published formulas."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe.errors import ParameterError
from seqpipe.random import stream
from seqpipe.sampling import Sampler, Span, UniformSegments, every, uniform

spans = st.builds(lambda first, size: Span(first, first + size), st.integers(0, 30), st.integers(0, 80))
counts = st.integers(1, 25)


@given(spans, counts, st.integers(0, 2**32))
def test_one_frame_is_drawn_from_each_part(span, segments, seed):
    sampler = UniformSegments(segments=segments)
    assert sampler.count(span) == (1 if len(span) else 0)
    if not len(span):
        return
    clip = sampler.clip(span, 0, stream(seed, "clips"))
    assert len(clip) == segments == sampler.length
    assert not clip.padding.any()
    if len(span) >= segments:
        parts = np.array_split(np.arange(span.first, span.end), segments)
        # array_split puts the larger parts first, ours are spread; the sizes are the same
        bounds = [span.first + floor(Fraction(i * len(span), segments)) for i in range(segments + 1)]
        assert sorted(np.diff(bounds)) == sorted(len(part) for part in parts)
        assert all(lo <= f < hi for lo, f, hi in zip(bounds[:-1], clip.frames, bounds[1:], strict=True))


@given(spans, counts)
def test_short_videos_repeat_evenly_and_in_order_in_both_modes(span, segments):
    if not 0 < len(span) < segments:
        return
    drawn = UniformSegments(segments=segments).clip(span, 0, stream(0, "clips")).frames.tolist()
    centers = UniformSegments(segments=segments, mode="center").clip(span, 0).frames.tolist()
    assert drawn == centers == sorted(centers)
    times = Counter(centers)
    assert set(times) == set(range(span.first, span.end))
    assert max(times.values()) - min(times.values()) <= 1


@given(spans, counts)
def test_centers_are_the_frames_on_screen_in_the_middle_of_equal_stretches(span, count):
    model = [span.first + floor(Fraction(len(span), count) * (i + Fraction(1, 2))) for i in range(count)]
    assert uniform(span, count).tolist() == (model if len(span) else [])
    if len(span):
        assert UniformSegments(segments=count, mode="center").clip(span, 0).frames.tolist() == model
    if len(span) >= count:
        assert (np.diff(model) > 0).all()


@pytest.mark.parametrize(
    ("frames", "segments", "expected"),
    [
        (100, 4, [12, 37, 62, 87]),
        (30, 3, [5, 15, 25]),
        (3, 3, [0, 1, 2]),
        (2, 3, [0, 1, 1]),
        (1, 4, [0, 0, 0, 0]),
    ],
)
def test_centers_in_figures(frames, segments, expected):
    # int(tick / 2 + tick * i) with tick = frames / segments: the test scheme of temporal segment networks
    assert [int(frames / segments / 2 + frames / segments * i) for i in range(segments)] == expected
    assert uniform(Span(0, frames), segments).tolist() == expected


@given(spans.filter(len), st.integers(1, 30))
def test_linspace_goes_from_the_first_to_the_last_frame(span, count):
    clip = UniformSegments(segments=count, mode="linspace").clip(span, 0)
    places = [Fraction(i * (len(span) - 1), max(count - 1, 1)) + Fraction(1, 2) for i in range(count)]
    assert clip.frames.tolist() == [span.first + floor(place) for place in places]
    assert not clip.padding.any()
    assert not UniformSegments(segments=count, mode="linspace").is_random


def test_every_frame_of_every_part_is_reached_equally_often():
    sampler, span, draws = UniformSegments(segments=4), Span(3, 17), 4000
    table = np.array([sampler.clip(span, 0, stream(0, "clips", 0, n)).frames for n in range(draws)])
    sizes = []
    for column in table.T:
        values, times = np.unique(column, return_counts=True)
        sizes.append(len(values))
        assert abs(times - draws / len(values)).max() < 5 * np.sqrt(draws / len(values))
    assert sizes == [3, 4, 3, 4]
    assert set(np.unique(table)) == set(range(3, 17))


@given(spans, st.integers(1, 30))
def test_every_counts_from_the_first_frame(span, n):
    assert every(span, n).tolist() == [f for f in range(span.first, span.end) if (f - span.first) % n == 0]


def test_the_mode_says_whether_it_draws():
    assert UniformSegments(segments=3).is_random
    assert not UniformSegments(segments=3, mode="center").is_random
    assert isinstance(UniformSegments(segments=3), Sampler)
    with pytest.raises(ParameterError, match=r"rng=None is not valid"):
        UniformSegments(segments=3).clip(Span(0, 2), 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: UniformSegments(segments=0),
            r"segments=0 is not valid; allowed: a whole number from 1 to 10000000",
        ),
        (
            lambda: UniformSegments(segments=2, mode="middle"),
            r"segment_mode='middle' .* 'random', 'center', 'linspace'",
        ),
        (lambda: uniform(Span(0, 9), 0), r"num=0 is not valid"),
        (lambda: every(Span(0, 9), 0), r"every=0 is not valid"),
        (lambda: UniformSegments(segments=2).clip(Span(4, 4), 0), r"the range is too short"),
    ],
)
def test_failures_are_named(call, message):
    with pytest.raises(ParameterError, match=message):
        call()
