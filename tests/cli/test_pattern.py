"""Names of files."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe.errors import OutputError, ParameterError
from seqpipe.writers.pattern import FIELDS, Pattern, default_pattern

VALUES = {
    "name": "clip.mp4",
    "stem": "clip",
    "parent": "day/one",
    "index": 3,
    "frame": 90,
    "volume": 2,
    "pts_ms": 3003,
    "sequence": 2,
    "position": 1,
    "ext": "png",
}


def test_values_cover_all_fields():
    assert set(VALUES) == set(FIELDS)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("{stem}/{index:06d}.{ext}", "clip/000003.png"),
        ("{parent}/{stem}_{frame}_{pts_ms:08d}.{ext}", "day/one/clip_90_00003003.png"),
        ("{name}/{index}.{ext}", "clip.mp4/3.png"),
        ("{sequence:02d}/{position}.{ext}", "02/1.png"),
        ("./x//{index}.y", "x/3.y"),
        ("{{{index}}}.png", "{3}.png"),
        ("{index:0{position}d}", "3"),
        ("{index:0120d}", f"{3:0120d}"),
    ],
)
def test_a_pattern_is_filled_in(text, name):
    assert Pattern(text, sequences=True).name(VALUES, "clip.mp4") == name


def test_an_unknown_field_lists_the_fields():
    with pytest.raises(
        ParameterError, match=r"unknown field \{number\}; allowed: the fields \{name\}, .*\{ext\}"
    ):
        Pattern("{number}.jpg", sequences=False)


@pytest.mark.parametrize("text", ["{stem.__class__}", "{stem[0]}", "{}", "{0}", "{index:{what}}"])
def test_only_whole_fields_are_fields(text):
    with pytest.raises(ParameterError, match="unknown field"):
        Pattern(text, sequences=False)


@pytest.mark.parametrize("text", ["{stem", "}", "{stem!x}", "{stem:06d}", "{index:q}"])
def test_a_broken_format_string_is_refused(text):
    with pytest.raises(ParameterError, match=r"is not a format string|cannot be formatted"):
        Pattern(text, sequences=False)


@pytest.mark.parametrize(
    "text", ["", ".", "..", "/etc/{index}", "../{index}.jpg", "a/../../{index}", "a/", "a\0b"]
)
def test_a_pattern_stays_below_the_folder(text):
    with pytest.raises(ParameterError, match="does not name a file below the output folder"):
        Pattern(text, sequences=False)


@pytest.mark.parametrize("stem", ["..", "/root"])
def test_a_source_cannot_lead_out_of_the_folder(stem):
    with pytest.raises(OutputError, match=r"evil\.mp4: the pattern '\{stem\}/\{index\}' gives the name"):
        Pattern("{stem}/{index}", sequences=False).name({**VALUES, "stem": stem}, "evil.mp4")


@pytest.mark.parametrize("field", ["sequence", "position"])
def test_fields_of_sequences_need_sequences(field):
    with pytest.raises(ParameterError, match="export sequences with --sequence-length"):
        Pattern(f"{{{field}}}.jpg", sequences=False)


@pytest.mark.parametrize("sequences", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_default_patterns_tell_files_apart(sequences, packed):
    pattern = Pattern(default_pattern(sequences=sequences, packed=packed), sequences=sequences)
    changing = ["index"] if not sequences else ["sequence"] if packed else ["sequence", "position"]
    for field in changing:
        assert pattern.name({**VALUES, field: 77}, "") != pattern.name(VALUES, "")


@given(st.text("ab./\0 ", max_size=8))
def test_names_are_normalized_as_paths_are(stem):
    """Most names skip the path object, which would take a third of an export of small frames from a pipe."""
    pattern, path = Pattern("x/{stem}", sequences=False), PurePosixPath(f"x/{stem}")
    if ".." in path.parts or "\0" in stem:
        with pytest.raises(OutputError, match="is not below the output folder"):
            pattern.name({"stem": stem}, "s.mp4")
    else:
        assert pattern.name({"stem": stem}, "s.mp4") == str(path)
