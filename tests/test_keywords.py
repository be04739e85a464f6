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
        (seqpipe.open, "sequence_lenght", r"seqpipe\.videos\(source, Clip\(length, stride=…\)\)"),
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


def test_readers_that_are_gone_name_what_replaces_them():
    for name, instead in (("Video", "seqpipe.videos"), ("FrameFolders", "seqpipe.folders")):
        with pytest.raises(
            AttributeError, match=rf"has no attribute '{name}'; use {instead}\(…, seqpipe.Clip"
        ):
            getattr(readers, name)


def test_signatures_stay():
    assert "threads" in inspect.signature(seqpipe.open).parameters
