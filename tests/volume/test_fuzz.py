"""Damaged files of every format: an error of seqpipe that names the source, or a volume; nothing else, and no crash."""

from __future__ import annotations

import numpy as np
import pytest

import seqpipe
from seqpipe.errors import SeqpipeError
from seqpipe.volume import VolumeReader
from tests.support.volumes import phantom_path

NAMES = ["nii", "nii_gz", "nii2", "nrrd", "nrrd_raw", "mha", "npy", "npz", "tiff", "dicom_multi_frame"]
HEAD = 700


def attempt(data):
    said = look(data)
    assert said is None or f"<{len(data)} bytes>" in said


def look(data):
    """What is said of a file; None where it is a volume."""
    try:
        with VolumeReader(data) as volume:
            found = volume.sequence()
            assert found.shape == volume.shape
            volume.to_canonical()[0]
            assert np.isfinite(volume.affine).all()
            repr(volume)
            volume.info.to_json()
    except SeqpipeError as error:
        return str(error)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.deep), pytest.param(2, marks=pytest.mark.deep)]
)
def test_changed_bytes(name, seed):
    data = phantom_path(name).read_bytes()
    rng = np.random.default_rng([seed, NAMES.index(name)])
    for round_number in range(60):
        changed = bytearray(data)
        reach = min(HEAD, len(changed)) if round_number % 3 else len(changed)
        for place in rng.integers(0, reach, 1 + round_number % 4):
            changed[place] = rng.integers(0, 256)
        attempt(bytes(changed))


@pytest.mark.parametrize("name", NAMES)
def test_files_cut_short(name):
    data = phantom_path(name).read_bytes()
    for length in (
        *range(1, min(len(data), 400), 13),
        *(len(data) * n // 17 for n in range(1, 17)),
        len(data) - 1,
    ):
        attempt(data[:length])


def test_words_of_text_headers_that_are_no_numbers():
    for name in ("nrrd_raw", "mha"):
        data = phantom_path(name).read_bytes()
        end = data.index(b"\n\n") if name == "nrrd_raw" else data.index(b"LOCAL")
        lines = data[:end].split(b"\n")
        for number, line in enumerate(lines):
            for word in (b"x", b"", b"-1", b"99999999999999999999", b"nan nan nan", b"()"):
                mark = b":" if name == "nrrd_raw" else b"="
                head, found, _ = line.partition(mark)
                if found:
                    attempt(
                        b"\n".join([*lines[:number], head + mark + b" " + word, *lines[number + 1 :]])
                        + data[end:]
                    )


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("nrrd_raw", b"line skip: x", "'line skip' is 'x'"),
        ("nrrd_raw", b"byte skip: 1.5", "'byte skip' is '1.5'"),
        ("nrrd_raw", b"line skip: 1000000000", "fewer than the 1000000000 lines"),
        ("mha", b"HeaderSize = x", "'HeaderSize' is 'x'"),
        ("mha", b"ElementNumberOfChannels = many", "'ElementNumberOfChannels' is 'many'"),
    ],
)
def test_fields_of_text_headers_that_must_be_whole_numbers(name, line, said):
    first, rest = phantom_path(name).read_bytes().split(b"\n", 1)
    assert said in (look(b"\n".join([first, line, rest])) or "")


def test_a_file_that_is_replaced_by_a_shorter_one(tmp_path):
    path = tmp_path / "a.nii"
    path.write_bytes(phantom_path("nii").read_bytes())
    with seqpipe.open(path) as volume:
        path.write_bytes(path.read_bytes()[:2000])
        with pytest.raises(SeqpipeError, match="too short"):
            volume.sequence()
