"""Times as they are typed."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe.cli.options import MARK, Mark


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("12", Mark(12.0)),
        ("12.5", Mark(12.5)),
        (".5", Mark(0.5)),
        ("5.", Mark(5.0)),
        ("90", Mark(90.0)),
        ("01:30", Mark(90.0)),
        ("90:00", Mark(5400.0)),
        ("1:02:03.250", Mark(3723.25)),
        ("00:00:00.001", Mark(0.001)),
        ("123f", Mark(123, in_frames=True)),
        ("0f", Mark(0, in_frames=True)),
        (" 7f ", Mark(7, in_frames=True)),
    ],
)
def test_forms(text, mark):
    assert MARK.convert(text, None, None) == mark


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-1",
        "1:60",
        "1:60:00",
        "1:2:3:4",
        "nan",
        "inf",
        "1e3",
        "1.5f",
        "f",
        "12 s",
        "1:-2",
        "²",
        "١f",
        "1:2:",
    ],
)
def test_what_is_no_time_is_refused_with_the_forms(text):
    with pytest.raises(click.BadParameter, match=r"is not a time; allowed: seconds \(12.5\), \[hh:\]mm:ss"):
        MARK.convert(text, None, None)


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_a_clock_adds_up(hours, minutes, seconds, milliseconds):
    mark = MARK.convert(f"{hours}:{minutes:02d}:{seconds:02d}.{milliseconds:03d}", None, None)
    assert mark.value == pytest.approx(hours * 3600 + minutes * 60 + seconds + milliseconds / 1000, abs=1e-9)


def test_a_mark_reads_as_it_was_typed():
    assert (str(Mark(12, in_frames=True)), str(Mark(1.5))) == ("12f", "1.5 s")
