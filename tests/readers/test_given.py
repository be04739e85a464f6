"""Values of the wrong type, for every argument: refused in a sentence of ours, never by a bare error of a library."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

import seqpipe
from seqpipe.errors import ParameterError, SeqpipeError
from seqpipe.readers import Range
from seqpipe.video.convert.output import OutputSpec
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


def dataset(call, name, value):
    """A data set made with a value for one argument of what makes it."""
    path = str(made("h264"))
    if call is seqpipe.listing:
        given = {} if name in ("source", "file_root", "manifest") else {"files": [path]}
        made_of_it = seqpipe.videos(seqpipe.listing(**{**given, name: value}), seqpipe.Clip(4))
    elif call is seqpipe.videos:
        made_of_it = seqpipe.videos(**{"source": [path], "take": seqpipe.Clip(4), name: value})
    elif call is seqpipe.Decode:
        made_of_it = seqpipe.videos([path], seqpipe.Clip(4), decode=seqpipe.Decode(**{name: value}))
    else:
        needed = {
            seqpipe.Clip: {"length": 4},
            seqpipe.Segments: {"count": 2},
            seqpipe.Every: {"frames": 9},
        }
        first = needed.get(call, {})
        made_of_it = seqpipe.videos([path], call(**{**first, name: value}))
    with made_of_it:
        repr(made_of_it)


CALLS = (
    seqpipe.videos,
    seqpipe.listing,
    seqpipe.Clip,
    seqpipe.Segments,
    seqpipe.Every,
    seqpipe.Spread,
    seqpipe.Decode,
)


@pytest.mark.parametrize(("call", "name"), [(call, name) for call in CALLS for name in names(call)])
def test_a_data_set_takes_a_value_or_refuses_it_in_a_sentence(call, name):
    for value in WRONG:
        assert refusal(dataset, call, name, value)[-1:] in ("", ".")


DATASETS = {
    "batch": lambda found, value: found.batch(value),
    "batch, last": lambda found, value: found.batch(2, last=value),
    "batch, ragged": lambda found, value: found.batch(2, ragged=value),
    "shard, rank": lambda found, value: found.shard(value, 4),
    "shard, world": lambda found, value: found.shard(0, value),
    "shard, even": lambda found, value: found.shard(0, 2, even=value),
    "shard, stick": lambda found, value: found.shard(0, 2, stick=value),
    "prefetch": lambda found, value: found.prefetch(value),
    "prefetch, gib": lambda found, value: found.prefetch(2, value),
    "fuse": lambda found, value: found.fuse(value),
    "map": lambda found, value: found.map(value),
    "apply": lambda found, value: found.apply(value),
    "graph": lambda found, value: found.graph(5 if callable(value) else value),
    "views": lambda found, value: found.views(value),
    "views, count": lambda found, value: found.views((8, 8), count=value),
    "epoch": lambda found, value: found.epoch(value),
    "epochs": lambda found, value: found.epochs(value),
    "resume": lambda found, value: found.resume(value),
    "sample": lambda found, value: found.sample(value),
    "sample, epoch": lambda found, value: found.sample(0, value),
    "read": lambda found, value: found.read(value),
    "read, epoch": lambda found, value: found.read([0], value),
}


@pytest.mark.parametrize("method", DATASETS)
def test_a_method_of_a_data_set_takes_a_value_or_refuses_it_in_a_sentence(method):
    with seqpipe.videos([str(made("h264"))], seqpipe.Clip(4), output=OutputSpec(size=(16, 16))) as found:
        for value in WRONG:
            assert refusal(DATASETS[method], found, value)[-1:] in ("", ".")


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
    ],
)
def test_a_wrong_type_is_named_with_what_is_allowed(given, said):
    with pytest.raises(ParameterError, match=said):
        seqpipe.listing(**given)


def test_a_cache_that_is_no_path_is_named():
    with pytest.raises(
        ParameterError, match=r"^cache_dir=5 is not valid; allowed: a path, as str or pathlib"
    ):
        seqpipe.videos(["a.mp4"], seqpipe.Clip(2), decode=seqpipe.Decode(cache_dir=5))


def test_whole_floats_are_the_lengths_that_they_are():
    """They were checked, and then kept as they came: NumPy makes no array of 48.0 columns."""
    plain = OutputSpec(short_side=48)
    assert OutputSpec(short_side=np.float32(48)) == plain
    with seqpipe.open(str(made("h264")), output=OutputSpec(short_side=48.0)) as reader:
        assert reader[0].shape == (48, 64, 3)
