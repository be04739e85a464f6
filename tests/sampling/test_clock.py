"""Times and rates against exact fractions, linear searches, and ffmpeg's trim and fps filters."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe.errors import FrameRangeError, ParameterError
from seqpipe.random import stream
from seqpipe.sampling import (
    RandomClips,
    RandomRateClips,
    RateWindows,
    Sampler,
    Span,
    Windows,
    at_rate,
    frame_range,
    frames_at,
    span_between,
)
from seqpipe.sampling.clock import end_of, rate_tolerance_s
from tests.support import ffmpeg


def frames_at_rate(timestamps, fps, *part):
    """The frames of a video, or of a part in seconds, at a rate."""
    return at_rate(span_between(timestamps, *part), fps)


# Clocks in ticks of 1/90000 s, so that a model can be exact: a start, and distances of 1 ms to 0.4 s.
TICK = Fraction(1, 90000)
clocks = st.builds(
    lambda start, gaps: np.cumsum([start, *gaps]),
    st.integers(-90_000, 900_000),
    st.lists(st.integers(91, 36_000), min_size=1, max_size=40),
)
rates = st.sampled_from([1, 5, 10, 12.5, 24, 25, 30, 50, 60, 240])


def seconds(ticks):
    return np.asarray(ticks, dtype=np.float64) / 90000


def on_screen(ticks, time):
    """The last frame with a timestamp at or before an exact time, searched one by one."""
    return max((n for n, tick in enumerate(ticks) if int(tick) * TICK <= time), default=None)


@given(clocks, st.data())
def test_the_frame_on_screen_is_the_last_one_begun(ticks, data):
    tick = data.draw(st.integers(int(ticks[0]), int(ticks[-1])))
    assert frames_at(seconds(ticks), tick / 90000) == on_screen(ticks, tick * TICK)


@given(clocks)
def test_each_timestamp_shows_its_own_frame_however_it_was_written(ticks):
    timestamps = seconds(ticks)
    own = list(range(len(ticks)))
    assert frames_at(timestamps, timestamps).tolist() == own
    assert frames_at(timestamps, np.array([float(f"{t:.6f}") for t in timestamps])).tolist() == own
    assert frames_at(timestamps, np.array([timestamps[0] - 1, timestamps[-1] + 1])).tolist() == [-1, own[-1]]


@given(clocks, st.data())
def test_a_range_holds_the_frames_that_begin_in_it(ticks, data):
    lo, hi = sorted(data.draw(st.tuples(*[st.integers(int(ticks[0]) - 50, int(ticks[-1]) + 50)] * 2)))
    model = [n for n, tick in enumerate(ticks) if lo <= tick < hi]
    if lo < hi and model:
        assert frame_range(seconds(ticks), lo / 90000, hi / 90000) == (model[0], model[-1] + 1)
    elif lo < hi:
        with pytest.raises(FrameRangeError, match="no frame begins"):
            frame_range(seconds(ticks), lo / 90000, hi / 90000)
    assert frame_range(seconds(ticks)) == (0, len(ticks))


@given(clocks, rates)
def test_a_rate_shows_the_frame_on_screen_at_each_position(ticks, fps):
    timestamps = seconds(ticks)
    frames = frames_at_rate(timestamps, fps)
    assert frames[0] == 0
    span = Span(0, len(ticks), timestamps)
    if rate_tolerance_s(span) < 1e-5:
        step = 1 / Fraction(fps)
        start = int(ticks[0]) * TICK
        assert frames.tolist() == [on_screen(ticks, start + k * step) for k in range(len(frames))]
        assert (len(frames) - 1) / fps < end_of(span) - timestamps[0] <= len(frames) / fps + 1.1e-6


@given(clocks, rates, st.data())
def test_a_rate_stays_inside_of_a_range(ticks, fps, data):
    first = data.draw(st.integers(0, len(ticks) - 1))
    end = data.draw(st.integers(first + 1, len(ticks)))
    frames = at_rate(Span(first, end, seconds(ticks)), fps)
    assert frames[0] == first
    assert frames.max() < end
    assert (np.diff(frames) >= 0).all()


@pytest.mark.parametrize(
    "rate", [Fraction(24000, 1001), Fraction(25), Fraction(30000, 1001), Fraction(30), Fraction(60)]
)
@pytest.mark.parametrize("clock", [Fraction(1, 1000), Fraction(1, 90000), None])
@pytest.mark.parametrize("start", [Fraction(0), Fraction(1, 3), Fraction(12345)])
def test_a_video_at_its_own_rate_is_itself_whatever_its_clock_rounds_to(rate, clock, start):
    exact = [start + n / rate for n in range(3000)]
    timestamps = np.array([float(t if clock is None else round(t / clock) * clock) for t in exact])
    assert frames_at_rate(timestamps, float(rate)).tolist() == list(range(3000))
    assert frames_at_rate(timestamps, float(rate / 2)).tolist() == list(range(0, 3000, 2))
    assert frames_at_rate(timestamps, float(rate * 2)).tolist() == [n // 2 for n in range(6000)]


@pytest.mark.parametrize(
    ("timestamps", "tolerance"),
    [
        ([0.0, 0.033, 0.067, 0.1], 1.001e-3),  # 30 Hz in milliseconds
        ([0.0, 0.04, 0.08, 0.12], 1e-6),  # 25 Hz, exact in milliseconds
        ([0.0, 0.04, 0.2, 0.21], 1e-6),  # a variable rate
        ([0.0, 1 / 30, 2 / 30, 3 / 30], 1e-6),
        ([0.0, 0.001, 0.003, 0.004], 5e-4),  # frames so near that a millisecond would jump over one
        ([0.0, 0.033], 1e-6),
        ([0.0, 3754 / 90000, 7508 / 90000, 11261 / 90000], 1 / 90000 + 1e-6),  # 23.976 Hz at 90 kHz
    ],
)
def test_a_clock_that_rounds_is_recognized(timestamps, tolerance):
    array = np.array(timestamps)
    found = rate_tolerance_s(Span(0, len(array), array))
    assert found == pytest.approx(tolerance)
    assert found <= np.diff(array).mean() / 2 + 1e-12 or found == 1e-6


def test_a_pause_before_the_end_does_not_prolong_the_last_frame():
    timestamps = np.array([0, 0.1, 0.2, 0.3, 5.3])
    assert end_of(Span(0, 5, timestamps)) == pytest.approx(5.4)
    assert end_of(Span(0, 4, timestamps)) == 5.3
    assert len(frames_at_rate(timestamps, 10)) == 54
    assert frames_at_rate(timestamps, 10, 0.1, 1.0).tolist() == [1, 2, 3, 3, 3, 3, 3, 3, 3]


def test_a_single_frame_is_shown_once():
    assert frames_at_rate(np.array([2.5]), 30).tolist() == [0]


# ffmpeg as the judge: an 8-bit gray picture of 16 × 16 whose level is its frame number

PICTURES = "nullsrc=size=16x16:rate={rate}:duration={duration},format=gray,geq=lum='N'"


def ffmpeg_frames(filters, rate, duration):
    graph = PICTURES.format(rate=rate, duration=duration) + "," + filters
    shown = ("-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "gray", "-")
    out, _ = ffmpeg.said("-f", "lavfi", "-i", graph, *shown)
    return np.frombuffer(out, np.uint8).reshape(-1, 256)[:, 0].tolist()


@pytest.mark.parametrize(("rate", "fps"), [(25, 10), (25, 24), (30, 8), (24, 60), (25, 25), (50, 7)])
def test_constant_rates_are_resampled_as_ffmpeg_does(rate, fps):
    # fps with round=up gives at output n the last frame with pts <= n / fps
    judged = ffmpeg_frames(f"fps=fps={fps}:round=up", rate, 3)
    assert frames_at_rate(np.arange(3 * rate) / rate, fps).tolist() == judged


@pytest.mark.parametrize("fps", [5, 12, 30, 90])
def test_variable_rates_are_resampled_as_ffmpeg_does(fps):
    kept = [n for n in range(100) if n % 7 in (0, 1, 4) and n not in range(30, 55)]
    chosen = "+".join(f"eq(n,{n})" for n in kept)
    judged = ffmpeg_frames(f"select='{chosen}',fps=fps={fps}:round=up", 50, 2)
    ours = [kept[frame] for frame in frames_at_rate(np.array(kept) / 50, fps)]
    sure = int(kept[-1] / 50 * fps) + 1  # how long the last frame of a variable rate lasts is anyone's guess
    assert ours[:sure] == judged[:sure]
    assert len(judged) >= sure


@pytest.mark.parametrize(
    ("start_s", "end_s"), [(0.2, 1.0), (0.21, 0.99), (0.0, 0.04), (1.96, 2.0), (0.5, 7.0)]
)
def test_ranges_are_cut_as_ffmpeg_does(start_s, end_s):
    judged = ffmpeg_frames(f"settb=1/90000,trim=start={start_s}:end={end_s}", 25, 2)
    assert list(range(*frame_range(np.arange(50) / 25, start_s, end_s))) == judged


@given(
    clocks,
    rates,
    st.integers(1, 6),
    st.integers(1, 3),
    st.none() | st.integers(1, 9),
    st.sampled_from(["none", "edge", "constant", "wrap"]),
)
def test_windows_at_a_rate_are_windows_of_the_resampled_video(ticks, fps, length, stride, step, mode):
    span = Span(0, len(ticks), seconds(ticks))
    windows = Windows(sequence_length=length, stride=stride, step=step, pad_mode=mode)
    sampler = RateWindows(fps, windows)
    shown = at_rate(span, fps)
    count = sampler.count(span)
    assert count == windows.count(Span(0, len(shown)))
    for k in range(0, count, max(1, count // 10)):
        grid, clip = windows.clip(Span(0, len(shown)), k), sampler.clip(span, k)
        assert clip.frames.tolist() == [shown[g] if g >= 0 else -1 for g in grid.frames]
        assert clip.padding.tolist() == grid.padding.tolist()


@given(
    clocks,
    rates,
    st.integers(1, 6),
    st.integers(1, 3),
    st.sampled_from(["none", "edge", "reflect"]),
    st.data(),
)
def test_random_clips_at_a_rate_follow_the_clock(ticks, fps, length, stride, mode, data):
    first = data.draw(st.integers(0, len(ticks) - 1))
    timestamps = seconds(ticks)
    span = Span(first, len(ticks), timestamps)
    sampler = RandomRateClips(fps, RandomClips(sequence_length=length, stride=stride, pad_mode=mode))
    last_s = (length - 1) * stride / fps
    fits = length == 1 or timestamps[first] + last_s < end_of(span) - 2e-3
    if fits or mode != "none":
        assert sampler.count(span) == 1
    if not sampler.count(span):
        return
    clip = sampler.clip(span, 0, stream(data.draw(st.integers(0, 99)), "clips"))
    start = int(clip.frames[0])
    assert len(clip) == length
    assert first <= clip.frames.min() <= clip.frames.max() < len(ticks)
    assert not (fits and clip.padding.any())
    for n, frame in enumerate(clip.frames[~clip.padding]):
        time_s = timestamps[start] + n * stride / fps
        assert timestamps[frame] <= time_s + 1.01e-3
        assert frame == len(ticks) - 1 or timestamps[frame + 1] > time_s


def test_every_source_frame_with_room_behind_it_is_a_start():
    span = Span(10, 60, np.arange(100) / 30)  # 50 frames; 4 at 10 Hz reach 9 frames further
    sampler = RandomRateClips(10, RandomClips(sequence_length=4))
    clips = [sampler.clip(span, 0, stream(0, "clips", 0, n)).frames for n in range(1500)]
    assert {int(clip[0]) for clip in clips} == set(range(10, 51))
    assert all(np.diff(clip).tolist() == [3, 3, 3] for clip in clips)


@pytest.mark.parametrize(
    "sampler",
    [RateWindows(5, Windows(sequence_length=8)), RandomRateClips(5, RandomClips(sequence_length=8))],
)
def test_a_span_that_is_too_short_gives_none(sampler):
    timestamps = np.arange(48) / 30  # 1.6 s: exactly 8 positions at 5 Hz
    assert isinstance(sampler, Sampler)
    assert sampler.length == 8
    assert sampler.count(Span(0, 48, timestamps)) == 1
    assert sampler.count(Span(0, 42, timestamps)) == 0
    assert sampler.count(Span(3, 3, timestamps)) == 0
    with pytest.raises(ParameterError, match="the range is too short"):
        sampler.clip(Span(0, 42, timestamps), 0, stream(0, "clips"))


def test_any_frame_is_a_sequence_of_one():
    for sampler in (
        RateWindows(5, Windows(sequence_length=1)),
        RandomRateClips(5, RandomClips(sequence_length=1)),
    ):
        single = Span(0, 1, np.array([2.5]))  # nothing tells how long it is shown
        assert sampler.count(single) == 1
        assert sampler.clip(single, 0, stream(0, "clips")).frames.tolist() == [0]
    span = Span(2, 6, np.arange(9) / 30)
    assert {int(sampler.clip(span, 0, stream(0, "clips", 0, n)).frames[0]) for n in range(99)} == {2, 3, 4, 5}


def test_a_short_video_at_a_rate_is_padded_and_marked():
    span = Span(0, 30, np.arange(30) / 30)
    for sampler in (
        RateWindows(5, Windows(sequence_length=8, pad_mode="edge")),
        RandomRateClips(5, RandomClips(sequence_length=8, pad_mode="edge")),
    ):
        clip = sampler.clip(span, 0, stream(0, "clips"))
        assert clip.frames.tolist() == [0, 6, 12, 18, 24, 24, 24, 24]
        assert clip.labeled().tolist() == [0, 6, 12, 18, 24, -1, -1, -1]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda t: frame_range(t, 0.5, 0.5),
            ParameterError,
            r"start_s=0\.5, end_s=0\.5 is no range; allowed: start_s <",
        ),
        (lambda t: frame_range(t, float("nan")), ParameterError, r"start_s=nan, end_s=None is no range"),
        (
            lambda t: frame_range(t, 3.0),
            FrameRangeError,
            r"no frame begins from start_s=3\.0 .*0\.000000 s to 0\.96",
        ),
        (lambda t: span_between(t[:0]), FrameRangeError, r"no frame begins .* no frames"),
        (
            lambda t: frames_at_rate(t, 0.0),
            ParameterError,
            r"fps=0\.0 is not valid; allowed: a number from 0.000001 to",
        ),
        (lambda _: at_rate(Span(0, 3), 5.0), ParameterError, r"frame 0 to 3 has no timestamps"),
        (lambda _: RateWindows(-1.0, Windows(sequence_length=1)), ParameterError, r"fps=-1\.0 is not valid"),
        (
            lambda _: RandomRateClips(1e9, RandomClips(sequence_length=1)),
            ParameterError,
            r"fps=1000000000\.0 is not valid; allowed: .* to 10000 Hz",
        ),
        (
            lambda _: RateWindows(5.0, Windows(sequence_length=1)).count(Span(0, 3)),
            ParameterError,
            r"has no timestamps, so it has no time",
        ),
    ],
)
def test_failures_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call(np.arange(25) / 25)
