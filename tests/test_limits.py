"""Limits on what input from outside may cost."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest

import seqpipe
from seqpipe.core.limits import DOWNLOAD_GIB, IMAGE_PIXELS, REQUESTS, check_image_size
from seqpipe.errors import ParameterError, UnreadableSourceError
from tests.support.datasets import clips
from tests.support.media import ROOT, made


def png(width: int, height: int) -> bytes:
    """A black picture, nearly all of it compressed away."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer, row = zlib.compressobj(9), bytes(1 + 4 * width)
    data = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.mark.parametrize("limit", [IMAGE_PIXELS, DOWNLOAD_GIB, REQUESTS], ids=lambda limit: limit.variable)
def test_a_limit_is_set_by_its_variable(limit, monkeypatch):
    monkeypatch.delenv(limit.variable, raising=False)
    assert limit.value() == limit.default
    monkeypatch.setenv(limit.variable, "1e3")
    assert limit.value() == 1000
    for text in ("0", "-1", "nan", "many"):
        monkeypatch.setenv(limit.variable, text)
        with pytest.raises(ParameterError, match=f"{limit.variable}='{text}' is not valid"):
            limit.value()


def test_a_declared_size_beyond_the_limit_is_named():
    with pytest.raises(
        UnreadableSourceError,
        match=r"^f.mp4: it declares frames of 20000×20000 pixels; allowed: up to 134217728 pixels. "
        r"If the file can be trusted, set the environment variable SEQPIPE_MAX_PIXELS.$",
    ):
        check_image_size(20000, 20000, "f.mp4")
    check_image_size(16384, 8192, "f.mp4")


def test_a_small_file_that_declares_a_huge_picture_takes_no_memory(tmp_path):
    """0.7 MB of PNG took 3.7 GB."""
    path = tmp_path / "huge.png"
    path.write_bytes(png(12000, 12000))
    program = """
import sys, av, seqpipe
from tests.support.memory import peak_kib
before = peak_kib()
try:
    seqpipe.open(sys.argv[1])
except seqpipe.UnreadableSourceError as error:
    print(error)
print(peak_kib() - before)
"""
    given = [sys.executable, "-c", program, str(path)]
    said, grown_kb = subprocess.run(
        given, capture_output=True, encoding="utf-8", check=True, cwd=ROOT
    ).stdout.splitlines()
    assert "134217728 pixels" in said
    assert "SEQPIPE_MAX_PIXELS" in said
    assert int(grown_kb) < 200_000


@pytest.mark.parametrize("name", ["h264", "vp9", "png"])
def test_the_limit_holds_for_files_that_were_indexed_before(name, monkeypatch, tmp_path):
    path = made(name)
    with seqpipe.open(path, cache_dir=tmp_path) as video:
        pixels = video.info.width * video.info.height
        assert len(video.frames([0, 1])) == 2
    monkeypatch.setenv(IMAGE_PIXELS.variable, str(pixels))
    with seqpipe.open(path, cache_dir=tmp_path) as video:
        assert len(video.frames([0, 1])) == 2
    monkeypatch.setenv(IMAGE_PIXELS.variable, str(pixels - 1))
    for folder in (tmp_path, tmp_path / "new"):
        with pytest.raises(UnreadableSourceError, match="pixels"):
            seqpipe.open(path, cache_dir=folder)


def _dataset(**given: object) -> None:
    clips([made("h264")], **{"threads": 1, **({} if "count" in given else {"length": 4}), **given}).close()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"count": 2, "where": "nonsense"},
            r"where='nonsense' is not valid; allowed: 'random', 'center', 'linspace'",
        ),
        ({"starts": "even"}, "starts='even' has no meaning without per_video"),
        ({"labels": [-5]}, r"labels\[0\]: the label -5 is negative; allowed: whole numbers, -1 for no label"),
        (
            {"threads": 2**63},
            "threads=9223372036854775808 is not valid; allowed: a whole number from 1 to 4096",
        ),
        ({"ahead": 10**9}, "batches=1000000000 is not valid"),
    ],
)
def test_extreme_parameters_of_a_dataset_are_refused(given, said):
    with pytest.raises(ParameterError, match=said):
        _dataset(**given)


def test_extreme_places_in_a_video_are_refused():
    with seqpipe.open(made("h264"), threads=1) as video:
        for ask in (lambda: video[True], lambda: video.frames([np.True_]), lambda: video.sequence(False, 2)):
            with pytest.raises(ParameterError, match=r"is not a frame number.*flatnonzero"):
                ask()
        for seconds in (10**400, -(10**400), float("inf"), float("nan"), 1e300):
            with pytest.raises(seqpipe.FrameRangeError):
                video.at([seconds])
        with pytest.raises(ParameterError, match="True is not a time"):
            video.at([True])


@pytest.mark.parametrize("dtype", ["O", "U3", "S3", "M8[s]", "m8[s]", [("a", "u1")]])
def test_arrays_of_no_numbers_are_refused(dtype):
    with pytest.raises(ParameterError, match=r"an array of dtype .*; allowed: arrays of numbers"):
        seqpipe.Sequence(np.zeros((1, 2, 2, 3), dtype))
