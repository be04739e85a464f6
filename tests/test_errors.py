"""The error tree: what a handler catches, and how a message reads."""

from __future__ import annotations

import inspect
import pickle

import pytest

from seqpipe import errors
from seqpipe.errors import DamagedSourceError, SeqpipeError, SourceNotFoundError, printable

KINDS = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, Exception)]

BUILT_IN = {
    "SourceNotFoundError": FileNotFoundError,
    "FrameRangeError": IndexError,
    "ParameterError": ValueError,
    "ManifestError": ValueError,
    "StateError": ValueError,
    "OutputError": OSError,
    "BackendError": RuntimeError,
    "DeviceMemoryError": MemoryError,
}
OF_ONE_SOURCE = {"SourceNotFoundError", "UnreadableSourceError", "DamagedSourceError", "FrameRangeError"}

each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def raised(kind, **parts):
    with pytest.raises(SeqpipeError) as caught:
        raise kind("stride=0 is not valid", **parts)
    return caught.value


@each_kind
def test_one_handler_catches_all(kind):
    assert isinstance(raised(kind), SeqpipeError)
    assert kind.__doc__


@each_kind
def test_kinds_are_those_of_the_tree(kind):
    assert kind.__name__ in errors.__all__
    assert kind.__name__ in errors.__doc__
    assert issubclass(kind, errors.SourceError) == (kind.__name__ in OF_ONE_SOURCE | {"SourceError"})


@pytest.mark.parametrize(("name", "base"), BUILT_IN.items())
def test_code_that_expects_the_built_in_error_catches_ours(name, base):
    with pytest.raises(base, match="stride=0"):
        raise getattr(errors, name)("stride=0 is not valid", source="a.mp4")


@each_kind
def test_message_is_source_fact_allowed_advice(kind):
    error = raised(kind, source="a.mp4", allowed="at least 1", advice="Give a stride")
    assert str(error) == "a.mp4: stride=0 is not valid; allowed: at least 1. Give a stride."
    assert (error.fact, error.source, error.allowed, error.advice) == (
        "stride=0 is not valid",
        "a.mp4",
        "at least 1",
        "Give a stride",
    )


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "stride=0 is not valid."),
        ({"source": "a.mp4"}, "a.mp4: stride=0 is not valid."),
        ({"allowed": "1"}, "stride=0 is not valid; allowed: 1."),
        ({"advice": "Stop"}, "stride=0 is not valid. Stop."),
    ],
)
def test_parts_that_are_missing_leave_no_trace(parts, message):
    assert str(raised(SeqpipeError, **parts)) == message


@each_kind
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_keeps_everything(kind, protocol):
    error = raised(kind, source="a.mp4", allowed="at least 1", advice="Give a stride")
    copy = pickle.loads(pickle.dumps(error, protocol))
    assert type(copy) is kind
    assert (str(copy), copy.args, vars(copy)) == (str(error), error.args, vars(error))


def test_pickle_keeps_the_lost_frames():
    error = DamagedSourceError("2 frames cannot be decoded", source="a.mp4", lost=(3, 4))
    assert pickle.loads(pickle.dumps(error)).lost == (3, 4)
    assert DamagedSourceError("all is lost").lost == ()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain.mp4", "plain.mp4"),
        ("with space: 100%.mp4", "with space: 100%.mp4"),
        ("кино/映画.mp4", "кино/映画.mp4"),
        ("two\nlines é.mp4", r"two\nlines é.mp4"),
        ("tab\tand\x1b[31mred.mp4", r"tab\tand\x1b[31mred.mp4"),
        ("not utf-8 \udcff.mp4", r"not utf-8 \udcff.mp4"),
        ("separator\u2028.mp4", r"separator\u2028.mp4"),
    ],
)
def test_a_name_stays_on_its_line(name, shown):
    assert printable(name) == shown
    message = str(SourceNotFoundError("no such file", source=name))
    assert message == f"{shown}: no such file."
    assert len(message.splitlines()) == 1
    message.encode("utf-8")  # can be written to a terminal or a log
