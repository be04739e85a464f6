"""The folder of read volumes: what it knows a volume by, and that a file that has changed is read again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import seqpipe
from seqpipe import Cache, Prepare
from seqpipe.volume import VolumeReader
from seqpipe.volume.disk import DiskCache
from tests.support.volumes import phantom_path


def older(path):
    """Let a file be of another time than it was."""
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns - 10**9))


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("nii_gz", "phantom.nii.gz"),
        ("nii_pair", "phantom.img"),
        ("nii_pair", "phantom.hdr"),
        ("mhd", "phantom.mhd"),
        ("mhd", "phantom.raw"),
        ("dicom", "phantom/*"),
        ("png", "phantom/slice_7.png"),
    ],
)
def test_a_volume_is_known_by_all_its_files(name, changed, tmp_path):
    source = phantom_path(name)
    folder = shutil.copytree(source.parent, tmp_path / name)
    with VolumeReader(folder / source.name) as reader:
        first = reader.stamp()
        assert first == reader.stamp()
    older(sorted(folder.glob(changed))[0])
    with VolumeReader(folder / source.name) as reader:
        assert reader.stamp() != first


def test_what_has_no_files_of_its_own_is_not_known(tmp_path):
    pytest.importorskip("zarr", reason="zarr is not installed: it reads Zarr arrays")
    with VolumeReader(phantom_path("nii_gz").read_bytes()) as reader:
        assert reader.stamp() is None
    with VolumeReader(phantom_path("zarr")) as reader:
        assert reader.stamp() is None
    cache = DiskCache(tmp_path / "kept", 1 << 30)
    made = seqpipe.Sequence(np.zeros((2, 3, 4, 1)), "DHWC")
    assert cache.get(None, lambda: made) is made
    assert not (tmp_path / "kept").exists()


def test_arrays_of_one_file_are_told_apart(tmp_path):
    np.savez(tmp_path / "v.npz", a=np.zeros((3, 4, 5)), b=np.ones((3, 4, 5)))
    a, b = (VolumeReader(tmp_path / "v.npz", key=key) for key in "ab")
    assert a.stamp() != b.stamp()


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_a_series_is_inflated_once_and_scaled_when_it_is_cut(tmp_path, compression):
    if compression == "lz4":
        pytest.importorskip("blosc2", reason="blosc2 is not installed: it compresses volumes on disk")
    files, cache = [phantom_path("dicom")], Cache(dir=tmp_path, compression=compression)
    with seqpipe.volumes(files, cache=cache, prepare=Prepare(dtype="float32")) as dataset:
        first = dataset.sample(0)["image"]
    (entry,) = tmp_path.iterdir()
    before = entry.stat().st_mtime_ns
    with seqpipe.volumes(files, cache=cache) as dataset:
        again = dataset.sample(0)["image"]
    assert list(tmp_path.iterdir()) == [entry]  # whatever its patches are cast to
    assert entry.stat().st_mtime_ns > before
    assert first.data.dtype == np.float32
    assert again.data.dtype == np.int16
    assert np.array_equal(first.data, again.data)
    assert np.array_equal(first.affine, again.affine)
    assert again.data.flags.writeable


def test_the_least_recently_used_go_first_whoever_drops_them(tmp_path):
    cache = DiskCache(tmp_path, 3000)
    volume = seqpipe.Sequence(np.zeros((10, 10, 10, 1), np.uint8), "DHWC")
    (tmp_path / "gone.npy").symlink_to(tmp_path / "dropped")  # listed, and not there any more
    for number in range(2):
        cache.get([number], lambda: volume)
    first, second = sorted((p for p in tmp_path.iterdir() if p.exists()), key=lambda p: p.stat().st_mtime_ns)
    older(first)
    older(second)
    older(second)
    cache.get([0], lambda: pytest.fail("it is there"))  # used: now the newest
    cache.get([2], lambda: volume)
    assert first.exists()
    assert not second.exists()


def test_a_window_of_a_plain_entry_does_not_read_the_rest(tmp_path):
    cache = DiskCache(tmp_path, 1 << 30)
    values = np.arange(60, dtype=np.int16).reshape(3, 4, 5, 1)
    volume = seqpipe.Sequence(values, "DHWC", "v", affine=np.eye(4), scale=(2.0, 1.0))
    cache.get(["v"], lambda: volume)
    found = cache.get(["v"], lambda: pytest.fail("it is there"))
    assert np.array_equal(found.data, values)
    assert (found.scale, found.source) == ((2.0, 1.0), "v")
    base = found.data
    while base.base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert type(base).__name__ in ("memmap", "mmap")
    (entry,) = Path(tmp_path).iterdir()
    entry.unlink()  # who has it open keeps it
    assert np.array_equal(found.data, values)
