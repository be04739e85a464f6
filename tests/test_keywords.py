"""Misspelled and misplaced keyword arguments are told what is meant, at every door."""

from __future__ import annotations

import inspect

import pytest

import seqpipe
from seqpipe import readers
from seqpipe.errors import ParameterError
from seqpipe.volume import VolumeReader


@pytest.mark.parametrize(
    ("door", "name", "said"),
    [
        (seqpipe.open, "treads", "seqpipe.open has no argument treads. Perhaps 'threads' is meant"),
        (seqpipe.open, "short_side", r"Write output=OutputSpec\(short_side=…\)"),
        (seqpipe.open, "sequence_lenght", r"readers\.Video\(files=\[…\], sequence_length=…\)"),
        (seqpipe.open, "zzz", "Its arguments: source, device"),
        (seqpipe.VideoReader, "dtype", r"Write output=OutputSpec\(dtype=…\)"),
        (seqpipe.stream, "sequence_lenght", "Perhaps 'sequence_length' is meant"),
        (seqpipe.stream, "size", r"Write output=OutputSpec\(size=…\)"),
        (VolumeReader, "devise", "Perhaps 'device' is meant"),
        (seqpipe.volumes, "shufle", "seqpipe.volumes has no argument shufle. Perhaps 'shuffle' is meant"),
        (seqpipe.cases, "lables", "seqpipe.cases has no argument lables. Perhaps 'labels' is meant"),
    ],
)
def test_doors_of_one_source(door, name, said):
    with pytest.raises(ParameterError, match=said):
        door("clip.mp4", **{name: 3})


@pytest.mark.parametrize("reader", [readers.Video, readers.FrameFolders])
def test_readers(reader):
    name = "sequence_lenght"
    with pytest.raises(
        ParameterError, match=f"readers.{reader.__name__} has no argument {name}. Perhaps '.*' is meant"
    ):
        reader(**{name: 3})


def test_signatures_stay():
    assert "threads" in inspect.signature(seqpipe.open).parameters
    assert "sequence_length" in inspect.signature(readers.Video).parameters
