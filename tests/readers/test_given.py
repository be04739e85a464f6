"""Values of the wrong type, for every argument: refused in a sentence of ours, never by a bare error of a library."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

import seqpipe
from seqpipe import Clip, videos
from seqpipe.errors import ParameterError, SeqpipeError
from seqpipe.readers import Range
from seqpipe.video.convert.output import OutputSpec
from tests.support.datasets import clips, planned
from tests.support.media import made

WRONG = (
    *(
        5,
        2.5,
        "x",
        "",
        "\0",
        b"x",
        None,
        True,
        1 + 2j,
        float("nan"),
        object(),
        object,
        Path("/nowhere"),
        lambda: 0,
    ),
    *([], [1], ["a"], [None], [[1]], (), (1, "a"), (1.5, 2), {}, {"a": 1}, {1, 2}, range(3)),
    *(np.float32(3), np.array(5), np.array([1, 2, 3]), np.array(["a"]), np.str_("edge")),
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Some values are taken for a folder's name, and the folder is made."""
    monkeypatch.chdir(tmp_path)


def names(call):
    return [name for name in inspect.signature(call).parameters if name != "self"]


def refusal(call, *given):
    """What is said of a value; "" where it is taken."""
    try:
        call(*given)
    except SeqpipeError as error:
        return str(error)
    return ""


def dataset(name, value):
    given = {"files": [str(made("h264"))], "length": 4, name: value}
    if name in ("file_root", "manifest"):
        del given["files"]
    if name == "count":
        del given["sequence_length"]
    if name in ("mean", "std"):
        given["dtype"] = "float32"
    with clips(**given) as made_of_it:
        repr(made_of_it)


@pytest.mark.parametrize("name", names(Video.__init__))
def test_a_dataset_takes_a_value_or_refuses_it_in_a_sentence(name):
    for value in WRONG:
        assert refusal(dataset, name, value)[-1:] in ("", ".")


@pytest.mark.parametrize("name", names(OutputSpec))
def test_an_output_takes_a_value_or_names_it(name):
    for value in WRONG:
        said = refusal(lambda: hash(OutputSpec(**{"dtype": "float32", name: value})))  # noqa: B023  called here
        assert not said or name in said


@pytest.mark.parametrize("name", names(seqpipe.open))
def test_a_reader_takes_a_value_or_refuses_it_in_a_sentence(name):
    for value in WRONG:
        said = refusal(lambda: seqpipe.open(**{"source": str(made("h264")), name: value}).close())  # noqa: B023  same
        assert said[-1:] in ("", ".")


METHODS = {
    "[]": lambda reader, value: reader[value],
    "[0:…]": lambda reader, value: reader[0:value],
    "[::…]": lambda reader, value: reader[0:4:value],
    "frames": lambda reader, value: reader.frames(value),
    "at": lambda reader, value: reader.at(value),
    "at […]": lambda reader, value: reader.at([value]),
    "frame_at": lambda reader, value: reader.frame_at(value),
    "time_of": lambda reader, value: reader.time_of(value),
    "sequence, start": lambda reader, value: reader.sequence(value, 2),
    "sequence, length": lambda reader, value: reader.sequence(0, value),
    "sequence, stride": lambda reader, value: reader.sequence(0, 2, value),
    "stream": lambda reader, value: list(reader.stream(value)),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_readers_method_takes_a_value_or_refuses_it_in_a_sentence(method):
    with seqpipe.open(str(made("h264"))) as reader:
        for value in WRONG:
            assert refusal(METHODS[method], reader, value)[-1:] in ("", ".")


@pytest.mark.parametrize("name", names(Range))
def test_a_range_takes_a_value_or_names_it(name):
    for value in WRONG:
        said = refusal(lambda: Range(**{name: value}))  # noqa: B023  same
        assert not said or name in said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"files": 5}, r"^files=5 is not valid; allowed: a list of paths and URLs\.$"),
        (
            {"files": ["a.mp4"], "labels": 5},
            r"^labels=5 is not valid; allowed: a list with one for each file\.$",
        ),
        (
            {"files": ["a.mp4"], "ranges": 5},
            r"^ranges=5 is not valid; allowed: a list with one for each file\.$",
        ),
        ({"files": ["a.mp4"], "classes": 5}, r"^classes=5 is not valid; allowed: a list of class names\.$"),
        ({"file_root": 5}, r"^file_root=5 is not valid; allowed: a path, as str or pathlib\.Path\.$"),
        (
            {"manifest": b"m.csv"},
            r"^manifest=b'm\.csv' is not valid; allowed: a path, as str or pathlib\.Path\.$",
        ),
        (
            {"files": ["a.mp4"], "cache_dir": 5},
            r"^cache_dir=5 is not valid; allowed: a path, as str or pathlib",
        ),
    ],
)
def test_a_wrong_type_is_named_with_what_is_allowed(given, said):
    with pytest.raises(ParameterError, match=said):
        clips(length=2, **given)


def test_positions_and_outputs_are_named():
    with videos([str(made("h264"))], Clip(4)) as found:
        with pytest.raises(
            ParameterError, match=r"positions=5 is not valid; allowed: a list of whole numbers"
        ):
            planned(found, 0, 5)
        for outputs, said in (
            (5, r"outputs=5 is not valid; allowed: a function"),
            (lambda *_: 5, "outputs returned an int"),
        ):
            with pytest.raises(ParameterError, match=said):
                found.sample(0, outputs=outputs)


def test_whole_floats_are_the_lengths_that_they_are():
    """They were checked, and then kept as they came: NumPy makes no array of 48.0 columns."""
    plain = OutputSpec(short_side=48)
    assert OutputSpec(short_side=np.float32(48)) == plain
    with seqpipe.open(str(made("h264")), output=OutputSpec(short_side=48.0)) as reader:
        assert reader[0].shape == (48, 64, 3)
