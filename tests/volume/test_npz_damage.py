"""NPY and NPZ files that declare more than they hold, or whose checksum is wrong; whole ones are held once."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import seqpipe
from seqpipe import flow
from seqpipe.dali import fn, pipeline_def
from seqpipe.errors import SeqpipeError, UnreadableSourceError

VALUES = np.random.default_rng(0).integers(0, 99, (6, 40, 50)).astype(np.int16)


def header(shape, dtype="<i2"):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue()


def archive_of(content, packing=zipfile.ZIP_DEFLATED, name="image.npy"):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def declaring(data, size):
    """An archive whose directory declares another size of its only member."""
    at = data.rindex(b"PK\x01\x02")
    return data[: at + 24] + struct.pack("<I", size) + data[at + 28 :]


def taken(code, path):
    """MiB of memory that reading a file takes beyond what was taken before."""
    lines = (
        "import sys, resource, numpy, seqpipe; from seqpipe import flow; from seqpipe.volume import VolumeReader",
        "numpy.savez_compressed('small.npz', image=numpy.zeros((2, 3, 4))); seqpipe.open('small.npz').sequence()",
        "taken = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10",
        "before = taken()",
        "try:",
        f"    {code}",
        "    print('read')",
        "except seqpipe.SeqpipeError as error: print('refused')",
        "print(taken() - before)",
    )
    command = [sys.executable, "-c", "\n".join(lines), str(path)]
    found = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=path.parent
    ).stdout.split()
    return found[0], int(found[1])


@pytest.mark.parametrize("code", ["seqpipe.open(sys.argv[1]).sequence()", "flow.read(sys.argv[1])"])
def test_two_gib_of_a_small_archive(code, tmp_path):
    """Twice the array was taken."""
    small = archive_of(header((1 << 9, 1 << 10, 1 << 11)) + bytes(1000))
    for data in (small, declaring(small, (1 << 31) - 1)):
        (tmp_path / "a.npz").write_bytes(data)
        kind, mib = taken(code, tmp_path / "a.npz")
        assert kind == "refused"
        assert mib < 60


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_an_array_is_held_once(packing, tmp_path):
    values = np.zeros((100, 1000, 1000), np.uint8)
    (tmp_path / "a.npz").write_bytes(archive_of(header(values.shape, "|u1") + values.tobytes(), packing))
    kind, mib = taken("seqpipe.open(sys.argv[1]).sequence().numpy()", tmp_path / "a.npz")
    assert kind == "read"
    assert mib < 150  # the array has 95


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_the_checksum_of_a_member(packing):
    whole = archive_of(header(VALUES.shape) + VALUES.tobytes(), packing)
    np.testing.assert_array_equal(seqpipe.open(whole).sequence().numpy()[..., 0], VALUES)
    at = whole.rindex(b"PK\x01\x02") + 16
    bad = whole[:at] + struct.pack("<I", struct.unpack_from("<I", whole, at)[0] ^ 1) + whole[at + 4 :]
    with (
        pytest.raises(UnreadableSourceError, match="the archive is damaged \\(Bad CRC-32"),
        seqpipe.open(bad) as volume,
    ):
        volume.sequence()


def test_members_that_cannot_be_read(tmp_path):
    whole = bytearray(archive_of(header((3, 4, 5, 2), "<f4") + bytes(480), name="flow.npy"))
    changes = {"packing": (10, 77), "version": (6, 250), "encrypted": (8, 1), "size": (24, 7)}
    for offset, value in changes.values():
        bad = bytearray(whole)
        bad[bad.rindex(b"PK\x01\x02") + offset] = value
        (tmp_path / "a.npz").write_bytes(bad)
        with pytest.raises(UnreadableSourceError, match=r"a\.npz"):
            flow.read(tmp_path / "a.npz")
    (tmp_path / "a.npz").write_bytes(whole)
    assert flow.read(tmp_path / "a.npz").shape == (3, 4, 5, 2)


@pytest.mark.parametrize(
    "content",
    [
        header((1 << 40, 1 << 20)) + bytes(100),
        header((5, 5)) + bytes(49),
        header((-1, 5)) + bytes(100),
        header((5, 5), "|O") + bytes(100),
        b"\x93NUMPY\1\0\x76\0" + b"{'descr': '<i2', 'shape': (" + bytes(90),
        b"\x93NUMPY\1\0\xff\xff{",
        b"",
    ],
    ids=["huge", "short", "negative", "objects", "no literal", "long", "empty"],
)
def test_arrays_that_declare_what_is_not_there(content, tmp_path):
    path = tmp_path / "a.npy"
    path.write_bytes(content)
    raw = np.frombuffer(content or b"\0", np.uint8)

    def run(build):
        pipe = pipeline_def(build, batch_size=1, num_threads=1, device_id=None)()
        return pipe.run()

    for way in (
        lambda: seqpipe.open(path).sequence(),
        lambda: run(lambda: fn.readers.numpy(files=[str(path)])),
        lambda: run(lambda: fn.decoders.numpy(fn.external_source(source=lambda _: [raw]))),
    ):
        with pytest.raises(SeqpipeError):
            way()


@pytest.mark.parametrize(
    "values", [VALUES, np.asfortranarray(VALUES), VALUES.astype(">f8"), np.float32(3), VALUES > 5]
)
def test_whole_arrays_are_those_of_numpy(values, tmp_path):
    np.save(tmp_path / "a.npy", values)
    raw = np.fromfile(tmp_path / "a.npy", np.uint8)
    for build in (
        lambda: fn.readers.numpy(files=[str(tmp_path / "a.npy")]),
        lambda: fn.decoders.numpy(fn.external_source(source=lambda _: [raw])),
    ):
        (found,) = pipeline_def(build, batch_size=1, num_threads=1, device_id=None)().run()
        np.testing.assert_array_equal(np.asarray(found.at(0)), values)
