"""Selection of frames that pass: what is selected of an index of the same frames, though less is known."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqpipe.cli.options import Mark
from seqpipe.cli.selection import FrameSelection, TimeRange
from seqpipe.cli.stream_selection import StreamSelector, check_streamable
from seqpipe.errors import FrameRangeError, ParameterError
from seqpipe.sampling.windows import RollingWindows, Span, Windows


class Index:
    """What a selection asks an index for."""

    cut, info = "", SimpleNamespace(source="film")

    def __init__(self, times):
        self.timestamps = np.array(times, np.float64)
        self.end_s = float(self.timestamps[-1]) + 0.04
        self.key_frames = np.arange(0, len(times), 7)

    def __len__(self):
        return len(self.timestamps)

    def check(self, frames):
        if max(frames) >= len(self):
            raise FrameRangeError(f"frame {max(frames)} is not in the video")
        return np.array(frames)

    def upcoming(self, seconds):
        return self.timestamps[self.timestamps > seconds]

    def frames(self):
        self.passed = 0
        for number, seconds in enumerate(self.timestamps.tolist()):
            self.passed += 1
            yield SimpleNamespace(number=number, seconds=seconds, key=not number % 7)


@st.composite
def clocks(draw):
    """Times at a constant rate, rounded to a clock's ticks, or with gaps."""
    count, begin = draw(st.integers(1, 330)), draw(st.sampled_from([0.0, 1.48, 95443.7]))
    rate, tick = (
        draw(st.sampled_from([23.976, 25.0, 29.97, 30.0, 60.0])),
        draw(st.sampled_from([1e-3, 1 / 90000])),
    )
    steps = np.full(count, 1 / rate)
    if draw(st.booleans()):
        steps[draw(st.lists(st.integers(0, count - 1), max_size=5))] *= draw(st.floats(1.5, 20))
    return np.round((begin + np.cumsum(steps)) / tick) * tick


MARKS = st.one_of(
    st.builds(Mark, st.integers(0, 40).map(float), st.just(True)),
    st.builds(Mark, st.sampled_from([0.0, 0.04, 0.2, 0.5, 1.0, 3.3])),
)
RULES = st.one_of(
    st.fixed_dictionaries({"fps": st.sampled_from([0.5, 1.0, 7.0, 10.0, 23.976, 29.97, 30.0, 60.0, 144.0])}),
    st.fixed_dictionaries({"every": st.integers(1, 9)}),
    st.just({"keyframes": True}),
    st.just({}),
)


@st.composite
def ranges(draw):
    end = draw(st.sampled_from(["none", "end", "duration"]))
    start = draw(st.one_of(st.just(TimeRange.start), MARKS))
    try:
        return TimeRange(start, **({} if end == "none" else {end: draw(MARKS)}))
    except ParameterError:
        return TimeRange(start)


def outcome(select):
    try:
        return [int(number) for number in select()]
    except FrameRangeError as error:
        return error.fact


@settings(max_examples=150, deadline=None)
@given(clocks(), RULES, ranges())
def test_the_selection_is_that_of_an_index(times, rule, within):
    selection, index = FrameSelection(**rule, within=within), Index(times)
    check_streamable(selection)
    passage = StreamSelector(selection, "film")
    got = outcome(lambda: (frame.number for frame in passage.selected(index.frames(), index)))
    assert got == outcome(lambda: selection.of(index)[:, 0])


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 60), st.integers(0, 30), st.integers(1, 60), st.booleans(), st.integers(61, 90))
def test_a_number_of_frames_is_that_of_an_index_if_the_range_is_in_frames(num, start, more, by_end, count):
    end = {"end": Mark(start + more, True)} if by_end else {"duration": Mark(more, True)}
    selection = FrameSelection(num=num, within=TimeRange(Mark(start, True), **end))
    check_streamable(selection)
    index = Index(np.arange(count) / 25)
    passage = StreamSelector(selection, "film")
    got = outcome(lambda: (frame.number for frame in passage.selected(index.frames(), index)))
    expected = outcome(lambda: selection.of(index)[:, 0])
    if start + more <= count:
        assert got == expected
    assert index.passed <= start + more


@settings(max_examples=200, deadline=None)
@given(clocks(), st.lists(st.integers(0, 400), min_size=1, max_size=6), st.sampled_from([-2e-6, 0.0, 0.01]))
def test_the_frames_at_times_are_those_of_an_index(times, frames, later_s):
    index = Index(times)
    at = [max(0.0, index.timestamps[min(n, len(times) - 1)] + later_s - index.timestamps[0]) for n in frames]
    at = [time_s for time_s in at if time_s + index.timestamps[0] <= index.timestamps[-1]]
    selection = FrameSelection(at=tuple(at) or (0.0,))
    passage = StreamSelector(selection, "film")
    got = outcome(lambda: (frame.number for frame in passage.selected(index.frames(), index)))
    assert got == outcome(lambda: selection.of(index)[:, 0])


def test_a_time_behind_the_end_of_a_stream_is_an_error_after_the_frames_before():
    index = Index(np.arange(25) / 25)
    found = StreamSelector(FrameSelection(at=(1.5, 0.2)), "film").selected(index.frames(), index)
    assert next(found).number == 5
    with pytest.raises(FrameRangeError, match=r"no frame is shown at 1\.5 s; allowed: 0 to before 1\.000 s"):
        next(found)


@pytest.mark.parametrize(
    ("selection", "read"),
    [
        (FrameSelection(at=(0.1, 0.12)), 5),
        (FrameSelection(frames=(3, 9)), 10),
        (FrameSelection(within=TimeRange(end=Mark(12, True))), 12),
        (FrameSelection(every=5, within=TimeRange(Mark(4, True), duration=Mark(8, True))), 12),
        (FrameSelection(within=TimeRange(end=Mark(0.4))), 11),
        (FrameSelection(fps=5, within=TimeRange(end=Mark(10, True))), 11),
    ],
)
def test_no_frame_is_waited_for_that_does_not_matter(selection, read):
    index = Index(np.arange(200) / 25)
    assert list(StreamSelector(selection, "film").selected(index.frames(), index))
    assert index.passed == read


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 7),
    st.integers(1, 4),
    st.none() | st.integers(1, 20),
    st.integers(0, 5),
    st.integers(0, 60),
    st.sampled_from(["none", "edge", "constant", "reflect"]),
)
def test_rolling_windows_are_those_of_the_whole_span(length, stride, step, first, count, pad_mode):
    windows = Windows(sequence_length=length, stride=stride, step=step, pad_mode=pad_mode)
    rolling, got = RollingWindows(windows, first), []

    def take(clips):
        for clip in clips:
            assert {n for n in clip.frames.tolist() if n >= 0} <= rolling.buffer.keys()
            got.append(clip.frames.tolist())

    for number in range(first, first + count):
        if rolling.needs(number):
            rolling.buffer[number] = number
        take(rolling.passed(number))
        assert len(rolling.buffer) <= (length - 1) * stride + 1
    take(rolling.rest())
    span = Span(first, first + count)
    assert got == [windows.clip(span, k).frames.tolist() for k in range(windows.count(span))]
