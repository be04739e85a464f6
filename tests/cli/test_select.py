"""Which frames are chosen, against rules written out frame by frame."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe.cli.options import Mark
from seqpipe.cli.selection import FrameSelection, TimeRange
from seqpipe.errors import FrameRangeError, ParameterError
from seqpipe.video.index.open import open_index
from tests.support.media import made


@pytest.fixture(scope="module")
def template():
    return open_index(made("h264_intra"))


def clocked(template, ticks, keys=None):
    """An index of key frames only, with the given pts in milliseconds."""
    table, count = template.packets, len(ticks)
    columns = {name: getattr(table, name)[:1].repeat(count) for name in ("size", "offset", "damaged")}
    flags = {name: np.zeros(count, dtype=bool) for name in ("undecodable", "self_contained")}
    key = np.ones(count, dtype=bool) if keys is None else np.isin(np.arange(count), keys)
    shown = np.ones(count, dtype=bool)
    pts = np.array(ticks, dtype=np.int64)
    packets = replace(table, pts=pts, key=key, reference=key, shown=shown, **columns, **flags)
    end_s = (ticks[-1] + 40) / 1000 if ticks else 0.0
    info = replace(template.info, time_base=Fraction(1, 1000))
    return replace(template, info=info, packets=packets, end_s=end_s, dropped_at_start=0, cut="")


def seconds(value):
    return Mark(value)


def frames(value):
    return Mark(value, in_frames=True)


UNEVEN = [10_000, 10_040, 10_080, 10_380, 10_400, 10_500, 10_520, 10_560, 11_000, 11_040]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (FrameSelection(), range(10)),
        (FrameSelection(every=3), [0, 3, 6, 9]),
        (FrameSelection(frames=(7, 0, -1, 7)), [0, 7, 9]),
        (FrameSelection(at=(1.0799, 0.0, 0.3, 0.3799995, 0.38, 0.39)), [0, 2, 3, 9]),
        (FrameSelection(num=2), [2, 7]),
        (FrameSelection(num=1), [5]),
        (FrameSelection(fps=10), [0, 2, 2, 2, 4, 5, 7, 7, 7, 7, 8]),
        (FrameSelection(keyframes=True), [0, 4, 8]),
        (FrameSelection(within=TimeRange(seconds(0.4))), [4, 5, 6, 7, 8, 9]),
        (FrameSelection(within=TimeRange(seconds(0.39))), [4, 5, 6, 7, 8, 9]),
        (FrameSelection(within=TimeRange(end=seconds(0.4))), [0, 1, 2, 3]),
        (FrameSelection(within=TimeRange(end=seconds(99))), range(10)),
        (FrameSelection(within=TimeRange(frames(2), frames(5))), [2, 3, 4]),
        (FrameSelection(within=TimeRange(frames(2), duration=frames(2))), [2, 3]),
        (FrameSelection(within=TimeRange(frames(2), duration=seconds(0.3))), [2]),
        (FrameSelection(within=TimeRange(frames(2), duration=seconds(0.301))), [2, 3]),
        (FrameSelection(within=TimeRange(seconds(0.04), duration=frames(99))), range(1, 10)),
        (FrameSelection(within=TimeRange(frames(1), seconds(0.41))), [1, 2, 3, 4]),
        (FrameSelection(every=2, within=TimeRange(frames(1), frames(6))), [1, 3, 5]),
        (FrameSelection(num=2, within=TimeRange(frames(4), frames(8))), [5, 7]),
        (FrameSelection(fps=10, within=TimeRange(seconds(0.4), seconds(0.6))), [4, 5]),
        (FrameSelection(keyframes=True, within=TimeRange(frames(1), frames(8))), [4]),
    ],
)
def test_frames(template, selection, expected):
    chosen = selection.of(clocked(template, UNEVEN, keys=[0, 4, 8]))
    assert chosen.shape == (len(expected), 1)
    assert chosen[:, 0].tolist() == list(expected)


@given(
    gaps=st.lists(st.integers(1, 400), min_size=1, max_size=30),
    start_ms=st.integers(0, 3000),
    length_ms=st.integers(1, 3000),
)
def test_a_range_of_time_takes_the_frames_that_begin_in_it(template, gaps, start_ms, length_ms):
    ticks = np.cumsum([5000, *gaps]).tolist()
    begin = [tick - 5000 for tick in ticks]
    expected = [i for i, t in enumerate(begin) if start_ms <= t < start_ms + length_ms]
    selection = FrameSelection(within=TimeRange(seconds(start_ms / 1000), duration=seconds(length_ms / 1000)))
    index = clocked(template, ticks)
    if expected:
        assert selection.of(index)[:, 0].tolist() == expected
    else:
        with pytest.raises(FrameRangeError, match="no frame begins in the range from"):
            selection.of(index)


@given(
    count=st.integers(1, 40),
    first=st.integers(0, 20),
    length=st.integers(1, 6),
    stride=st.integers(1, 4),
    step=st.one_of(st.none(), st.integers(1, 9)),
)
def test_sequences_are_those_that_fit(template, count, first, length, stride, step):
    index = clocked(template, list(range(0, 40 * count, 40)))
    starts = range(first, count, step or length * stride)
    expected = [[s + i * stride for i in range(length)] for s in starts if s + (length - 1) * stride < count]
    within = TimeRange(frames(first))
    selection = FrameSelection(sequence_length=length, stride=stride, step=step, within=within)
    if expected:
        assert selection.of(index).tolist() == expected
    else:
        with pytest.raises(FrameRangeError, match=r"no sequence of|no frame begins"):
            selection.of(index)


def test_a_sequence_longer_than_the_video_says_what_fits(template):
    with pytest.raises(FrameRangeError) as caught:
        FrameSelection(sequence_length=8, stride=2).of(clocked(template, UNEVEN))
    assert "no sequence of 8 frames with a stride of 2 fits into 10 frames; allowed: " in str(caught.value)
    assert "that span at most 10 frames. Use a smaller --sequence-length or --stride." in str(caught.value)


@pytest.mark.parametrize("number", [10, -11, 10**12])
def test_a_frame_outside_says_which_there_are(template, number):
    with pytest.raises(
        FrameRangeError, match=f"frame {number} is not in the video; allowed: 0 to 9, or -10 to -1"
    ):
        FrameSelection(frames=(0, number)).of(clocked(template, UNEVEN))


def test_a_time_behind_the_end_says_where_the_end_is(template):
    with pytest.raises(
        FrameRangeError, match=r"no frame is shown at 1\.08 s; allowed: 0 to before 1\.080 s from the first"
    ):
        FrameSelection(at=(0.0, 1.08)).of(clocked(template, UNEVEN))
    assert FrameSelection(at=(0.0,)).of(replace(clocked(template, [40]), end_s=0.04)).tolist() == [[0]]


@pytest.mark.parametrize("start", [seconds(1.05), frames(10)])
def test_a_start_behind_the_end_says_where_the_end_is(template, start):
    with pytest.raises(
        FrameRangeError, match=r"allowed: 0 to 1\.080 s from the first frame on, or 0f to 10f"
    ):
        FrameSelection(within=TimeRange(start)).of(clocked(template, UNEVEN))


def test_a_range_without_key_frames_is_an_error(template):
    with pytest.raises(FrameRangeError, match="no key frame lies in the range from 1f up to 4f"):
        FrameSelection(keyframes=True, within=TimeRange(frames(1), frames(4))).of(
            clocked(template, UNEVEN, keys=[0, 4])
        )


def test_a_video_without_frames_is_an_error(template):
    with pytest.raises(FrameRangeError, match="the video has no frame that can be decoded"):
        FrameSelection().of(clocked(template, []))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"fps": 1.0, "every": 2}, "--fps and --every exclude one another"),
        (
            {"num": 1, "keyframes": True, "frames": (0,)},
            "--frames and --num and --keyframes exclude one another",
        ),
        ({"stride": 2}, "--stride, --step and --min-motion belong to --sequence-length"),
        ({"min_motion": 2.0}, "--stride, --step and --min-motion belong to --sequence-length"),
        ({"step": 2, "num": 3}, "--stride, --step and --min-motion belong to --sequence-length"),
        ({"frames": (1,), "at": (1.0,)}, "--frames and --at exclude one another"),
        ({"at": (1.0,), "within": TimeRange(frames(1))}, "--at and a range exclude one another"),
        ({"frames": (1,), "within": TimeRange(frames(1))}, "--frames and a range exclude one another"),
    ],
)
def test_rules_exclude_each_other(given, said):
    with pytest.raises(ParameterError, match=said):
        FrameSelection(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"end": seconds(1), "duration": seconds(1)}, "end=1 s and duration=1 s exclude one another"),
        ({"duration": seconds(0)}, "duration=0 s is nothing"),
        ({"duration": frames(0)}, "duration=0f is nothing"),
        ({"start": seconds(2), "end": seconds(2)}, "end=2 s is not after start=2 s"),
        ({"start": frames(5), "end": frames(3)}, "end=3f is not after start=5f"),
        ({"end": seconds(0)}, "end=0 s is not after start=0f"),
    ],
)
def test_ranges_that_are_empty_for_any_video_are_refused(given, said):
    with pytest.raises(ParameterError, match=said):
        TimeRange(**given)
