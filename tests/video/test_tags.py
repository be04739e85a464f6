"""Color tags in words, against the names that PyAV's FFmpeg knows them by."""

from __future__ import annotations

import pytest
from av.video.reformatter import ColorPrimaries, ColorTrc

from seqpipe.video.probe.info import describe


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("matrix", 9, "9 (BT.2020)"),
        ("matrix", 3, "3 (reserved)"),
        ("full_range", None, "unknown"),
        ("flipped", True, "yes"),
        ("width", 1920, "1920"),
        ("codec", "h264", "h264"),
    ],
)
def test_values_read_as_people_say_them(field, value, words):
    assert describe(field, value) == words


@pytest.mark.parametrize(
    ("field", "judge"), [("primaries", ColorPrimaries), ("transfer", ColorTrc)], ids=["primaries", "transfer"]
)
def test_no_tag_of_ffmpeg_is_without_a_name(field, judge):
    values = [
        int(tag) for tag in judge if 0 < int(tag) < 255 and tag.name not in ("RESERVED0", "RESERVED", "NB")
    ]
    assert values
    unnamed = [value for value in values if describe(field, value).endswith("(reserved)")]
    assert not [v for v in unnamed if judge(v).name not in ("LOG", "LOG_SQRT")], unnamed
