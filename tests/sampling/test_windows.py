"""Windows and random clips against models that enumerate instead of calculating, and published rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe.core.padding import FILL_MODES
from seqpipe.errors import ParameterError
from seqpipe.random import stream
from seqpipe.sampling import EvenClips, MovingClips, RandomClips, Sampler, Span, Windows

spans = st.builds(lambda first, size: Span(first, first + size), st.integers(0, 30), st.integers(0, 60))
lengths = st.integers(1, 12)
strides = st.integers(1, 6)
steps = st.none() | st.integers(1, 25)
modes = st.sampled_from(("none", *FILL_MODES))


def model_windows(span, length, stride, step, mode):
    """Every start in turn, every frame of it in turn."""
    windows = []
    start = span.first
    while start < span.end:
        wanted = [start + n * stride for n in range(length)]
        if mode != "none" or all(frame < span.end for frame in wanted):
            windows.append([frame for frame in wanted if frame < span.end])
        start += step or length * stride
    return windows


def filled(real, length, mode):
    """What numpy.pad makes of an array of frame numbers."""
    missing = (0, length - len(real))
    if mode == "constant":
        return np.pad(real, missing, constant_values=-1)
    return np.pad(real, missing, mode=mode) if mode != "none" else np.array(real)


@given(spans, lengths, strides, steps, modes)
def test_windows_are_those_of_the_model(span, length, stride, step, mode):
    sampler = Windows(sequence_length=length, stride=stride, step=step, pad_mode=mode)
    model = model_windows(span, length, stride, step, mode)
    assert sampler.count(span) == len(model)
    for k, real in enumerate(model):
        clip = sampler.clip(span, k)
        assert clip.frames.tolist() == filled(real, length, mode).tolist()
        assert clip.padding.tolist() == [n >= len(real) for n in range(length)]
        assert clip.labeled().tolist() == real + [-1] * (length - len(real))
        assert clip.frames.dtype == np.int64


@given(spans, lengths, strides, steps)
def test_a_window_fits_by_the_published_rule_of_dali(span, length, stride, step):
    sampler = Windows(sequence_length=length, stride=stride, step=step)
    starts = range(span.first, span.end, step or length * stride)
    fit = [start for start in starts if start + 1 + (length - 1) * stride <= span.end]
    assert [int(sampler.clip(span, k).frames[0]) for k in range(sampler.count(span))] == fit


@pytest.mark.parametrize(
    ("frames", "length", "stride", "step", "mode", "starts"),
    [
        (7, 3, 3, None, "none", [0]),  # DALI 2.4's new reader finds none here
        (6, 3, 3, None, "none", []),
        (10, 4, 1, 1, "none", list(range(7))),
        (10, 4, 1, 1, "edge", list(range(10))),  # DALI 2.4's new reader stops at 7
        (10, 4, 1, None, "edge", [0, 4, 8]),
        (3, 8, 1, None, "edge", [0]),  # a clip shorter than a sequence is not lost
        (24, 4, 3, None, "none", [0, 12]),
    ],
)
def test_windows_in_figures(frames, length, stride, step, mode, starts):
    sampler = Windows(sequence_length=length, stride=stride, step=step, pad_mode=mode)
    span = Span(0, frames)
    assert [int(sampler.clip(span, k).frames[0]) for k in range(sampler.count(span))] == starts


@given(st.integers(0, 9), lengths, lengths, st.sampled_from(FILL_MODES))
def test_padding_is_numpys(first, frames, length, mode):
    span = Span(first, first + frames)
    clip = Windows(sequence_length=max(length, frames), pad_mode=mode).clip(span, 0)
    options = {"constant_values": -1} if mode == "constant" else {}
    wanted = np.pad(np.arange(first, first + frames), (0, max(length, frames) - frames), mode, **options)
    assert clip.frames.tolist() == wanted.tolist()


def test_padding_reflects_inside_of_the_range():
    clip = Windows(sequence_length=12, pad_mode="reflect").clip(
        Span(2, 6), 0
    )  # DALI 2.4 gives frames 1 and 0
    assert clip.frames.tolist() == [2, 3, 4, 5, 4, 3, 2, 3, 4, 5, 4, 3]
    assert clip.labeled().tolist() == [2, 3, 4, 5] + [-1] * 8


@given(spans, lengths, strides, st.integers(1, 4), modes, st.integers(0, 2**32))
def test_random_clips_stay_inside_and_are_marked(span, length, stride, clips, mode, seed):
    sampler = RandomClips(sequence_length=length, stride=stride, clips_per_video=clips, pad_mode=mode)
    fits = span.first + (length - 1) * stride < span.end
    assert sampler.count(span) == (clips if fits or (len(span) and mode != "none") else 0)
    for k in range(sampler.count(span)):
        clip = sampler.clip(span, k, stream(seed, "clips", 0, k))
        used = clip.frames[~clip.padding]
        assert len(clip) == length
        assert span.first <= used[0]
        assert used[-1] < span.end
        assert np.diff(used).tolist() == [stride] * (len(used) - 1)
        assert clip.padding.any() == (not fits)
        if not fits:
            wanted = np.arange(span.first, span.end, stride)
            assert clip.frames.tolist() == filled(wanted, length, mode).tolist()


@pytest.mark.parametrize(
    ("first", "end", "length", "stride"), [(0, 20, 4, 3), (5, 12, 2, 1), (3, 11, 8, 1), (0, 6, 1, 9)]
)
def test_every_start_is_reached_and_none_more_often_than_others(first, end, length, stride):
    sampler = RandomClips(sequence_length=length, stride=stride)
    fitting = [start for start in range(first, end) if start + (length - 1) * stride < end]
    draws = 300 * len(fitting)
    starts = [sampler.clip(Span(first, end), 0, stream(1, "clips", 0, n)).frames[0] for n in range(draws)]
    counts = np.bincount(starts, minlength=end)
    assert np.flatnonzero(counts).tolist() == fitting
    assert abs(counts[fitting] - 300).max() < 5 * np.sqrt(300)


@given(st.integers(1, 60), lengths, strides, st.sampled_from(["edge", "wrap"]))
def test_short_videos_are_filled_as_torchcodec_documents(frames, length, stride, mode):
    """Starts in [0, max(n - span + 1, 1)); repeat_last and wrap go on with the clip's own frames."""
    clip_span = stride * (length - 1) + 1
    allowed = range(max(frames - clip_span + 1, 1))
    sampler = RandomClips(sequence_length=length, stride=stride, pad_mode=mode)
    got = sampler.clip(Span(0, frames), 0, stream(0, "clips")).frames.tolist()
    assert got[0] in allowed
    have = [frame for frame in range(got[0], got[0] + clip_span, stride) if frame < frames]
    while len(have) < length:
        have.append(have[-1] if mode == "edge" else have[len(have) % len(range(got[0], frames, stride))])
    assert got == have


def test_a_draw_depends_on_its_stream_only():
    sampler, span = RandomClips(sequence_length=4, clips_per_video=3), Span(0, 1000)
    one = [sampler.clip(span, k, stream(0, "clips", 2, k)).frames[0] for k in range(3)]
    other = [sampler.clip(span, k, stream(0, "clips", 2, k)).frames[0] for k in (2, 1, 0)]
    assert one == other[::-1]
    assert len(set(one)) == 3


def test_a_clip_cannot_be_changed():
    clip = Windows(sequence_length=3).clip(Span(0, 9), 1)
    assert len(clip) == 3
    with pytest.raises(ValueError, match="read-only"):
        clip.frames[0] = 7
    with pytest.raises(ValueError, match="read-only"):
        clip.padding[0] = True


@pytest.mark.parametrize("sampler", [Windows(sequence_length=2), RandomClips(sequence_length=2)])
def test_samplers_keep_the_protocol_and_are_values(sampler):
    assert isinstance(sampler, Sampler)
    assert sampler == type(sampler)(sequence_length=2)
    assert hash(sampler) == hash(type(sampler)(sequence_length=2))
    assert sampler.length == 2


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"sequence_length": 0},
            r"sequence_length=0 is not valid; allowed: a whole number from 1 to 10000000 frames",
        ),
        ({"sequence_length": 2, "stride": 0}, r"stride=0 is not valid; allowed: .* at least 1 frame"),
        ({"sequence_length": 2, "stride": -3}, r"stride=-3 is not valid"),
        ({"sequence_length": 2.5}, r"sequence_length=2.5 is not valid"),
        ({"sequence_length": True}, r"sequence_length=True is not valid"),
        (
            {"sequence_length": 2, "pad_mode": "zero"},
            r"pad_mode='zero' is not valid; allowed: 'none', 'constant', 'edge'",
        ),
    ],
)
@pytest.mark.parametrize("kind", [Windows, RandomClips])
def test_bad_parameters_are_named(kind, parameters, message):
    with pytest.raises(ParameterError, match=message):
        kind(**parameters)


def test_bad_steps_and_counts_are_named():
    with pytest.raises(ParameterError, match=r"step=0 is not valid; allowed: .* at least 1 frame or None"):
        Windows(sequence_length=2, step=0)
    with pytest.raises(ParameterError, match=r"clips_per_video=0 is not valid"):
        RandomClips(sequence_length=2, clips_per_video=0)


def test_missing_samples_and_streams_are_named():
    with pytest.raises(ParameterError, match=r"sample 3 does not exist in frames 0 to 6 .*allowed: 0 to 2"):
        Windows(sequence_length=2).clip(Span(0, 6), 3)
    with pytest.raises(ParameterError, match=r"sample 0 does not exist.*the range is too short"):
        Windows(sequence_length=7).clip(Span(0, 6), 0)
    with pytest.raises(ParameterError, match=r"sample -1 does not exist"):
        Windows(sequence_length=2).clip(Span(0, 6), -1)
    with pytest.raises(ParameterError, match=r"rng=None is not valid.*seqpipe\.random\.stream"):
        RandomClips(sequence_length=2).clip(Span(0, 6), 0)


def test_ranges_that_are_none_are_named():
    with pytest.raises(ParameterError, match=r"the frames 5 to 4 are no range; allowed: 0 <= first <= end"):
        Span(5, 4)
    with pytest.raises(ParameterError, match=r"the frames -1 to 4 are no range"):
        Span(-1, 4)
    with pytest.raises(ParameterError, match=r"ends at frame 4, but there are 3 timestamps"):
        Span(0, 4, np.arange(3.0))


def moving(sampler, span):
    """The starts whose sequences move enough, one after the other."""
    core = sampler.clips
    found = []
    for place in range(core.count_starts(span)):
        real = core.clip_at(span, place).labeled()
        real = real[real >= 0]
        pairs = span.motion[real[0] : max(real[-1], real[0] + 1)]
        pairs = pairs[np.isfinite(pairs)]
        if len(pairs) and pairs.sum() >= sampler.min_motion * len(pairs):
            found.append(int(real[0]))
    return found


@given(
    spans,
    lengths,
    strides,
    steps,
    modes,
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 4.0, np.nan]), min_size=90, max_size=90),
    st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    st.integers(1, 4),
)
def test_moving_clips_are_those_of_the_model(span, length, stride, step, mode, motion, least, number):
    span = replace(span, motion=np.array(motion))
    wanted = {"sequence_length": length, "stride": stride, "pad_mode": mode}
    windows = MovingClips(clips=Windows(**wanted, step=step), min_motion=least)
    starts = moving(windows, span)
    assert windows.count(span) == len(starts)
    assert [int(windows.clip(span, k).frames[0]) for k in range(len(starts))] == starts
    clips = MovingClips(clips=RandomClips(**wanted, clips_per_video=number), min_motion=least)
    starts = moving(clips, span)
    assert clips.count(span) == (number if starts else 0)
    drawn = {int(clips.clip(span, 0, stream(0, n)).frames[0]) for n in range(20 * bool(starts))}
    assert drawn <= set(starts)
    assert len(drawn) >= min(2, len(starts))
    even = MovingClips(clips=EvenClips(**wanted, clips_per_video=2), min_motion=least)
    if starts:
        assert [int(even.clip(span, k).frames[0]) for k in range(2)] == [starts[0], starts[-1]]


def test_motion_that_is_not_known():
    sampler = MovingClips(clips=Windows(sequence_length=2), min_motion=1)
    with pytest.raises(ParameterError, match=r"the motion of the frames is not known"):
        sampler.count(Span(0, 4))
    with pytest.raises(ParameterError, match=r"ends at frame 4, but there are 3 values of motion"):
        Span(0, 4, motion=np.zeros(3))
    with pytest.raises(ParameterError, match=r"min_motion=-1"):
        MovingClips(clips=Windows(sequence_length=2), min_motion=-1)
