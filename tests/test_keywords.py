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


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        (seqpipe.Clip, "sequence_lenght", r"Clip has no argument sequence_lenght. Write Clip\(length=…\)"),
        (seqpipe.Clip, "clips_per_video", r"Write Clip\(per_video=…\)"),
        (seqpipe.Patch, "patchsize", r"Write Patch\(size=…\)"),
        (seqpipe.OutputSpec, "colour", "Perhaps 'color' is meant"),
        (seqpipe.Decode, "backends", "Perhaps 'backend' is meant"),
    ],
)
def test_descriptions(kind, name, said):
    with pytest.raises(ParameterError, match=said):
        kind(**{name: 3})


def test_every_description_refuses_unknown_names():
    """What is written by its fields' names: takes, patches, decoding, output, buckets."""
    kinds = ["AudioSpec", "Bucket", "Cache", "Clip", "Decode", "Every", "Grid", "OutputSpec", "Patch"]
    for kind in (getattr(seqpipe, name) for name in (*kinds, "Prepare", "Segments", "Spread", "Whole")):
        with pytest.raises(ParameterError, match=f"{kind.__name__} has no argument zzz"):
            kind(zzz=3)
        assert "zzz" not in inspect.signature(kind).parameters


def test_functions_in_chains_name_what_takes_them():
    with pytest.raises(ParameterError, match=r"a chain with a function.*@seqpipe.operator.*dataset.apply"):
        seqpipe.items([0]).map(lambda frames: frames)


def test_readers_that_are_gone_name_what_replaces_them():
    for name, instead in (("Video", "seqpipe.videos"), ("FrameFolders", "seqpipe.folders")):
        with pytest.raises(
            AttributeError, match=rf"has no attribute '{name}'; use {instead}\(…, seqpipe.Clip"
        ):
            getattr(readers, name)


def test_signatures_stay():
    assert "threads" in inspect.signature(seqpipe.open).parameters
