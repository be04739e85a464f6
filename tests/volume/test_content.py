"""What a file is told to be by its content: formats that are not read, damaged ones, and gzip around all of them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct

import numpy as np
import pytest

import seqpipe
from seqpipe.core.files.content import volume_kind
from seqpipe.errors import SeqpipeError
from tests.support import fuzz_volumes
from tests.support.fuzz import Verdict, mutant
from tests.support.media import made
from tests.support.volumes import needs, phantom_path

VOXELS = np.arange(60, dtype=np.int16).reshape(3, 4, 5)


def _bytes(name, data):
    def make(folder):
        (folder / name).write_bytes(data)
        return folder / name

    return make


OTHERS = {
    "mif": (_bytes("a.mif", b"mrtrix image\ndim: 3,4,5\n"), "MRtrix", "mrconvert"),
    "mat": (_bytes("a.mat", b"MATLAB 5.0 MAT-file, Platform"), "MATLAB", "loadmat"),
    "zst": (_bytes("a.nii.zst", b"\x28\xb5\x2f\xfd" + bytes(99)), "zstd", "Unpack"),
    "json.gz": (_bytes("a.json.gz", gzip.compress(b"{}")), "gzip", "Unpack"),
    "json.bz2": (_bytes("a.json.bz2", bz2.compress(b"{}")), "bzip2", "Unpack"),
    "json.xz": (_bytes("a.json.xz", lzma.compress(b"{}")), "xz", "Unpack"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_formats_that_are_not_read_are_named_with_what_to_do(tmp_path, name):
    make, what, remedy = OTHERS[name]
    path = make(tmp_path)
    for origin in (path, path.read_bytes()):
        with pytest.raises(SeqpipeError, match="which is not read") as caught:
            seqpipe.open(origin)
        assert what in str(caught.value)
        assert remedy in str(caught.value)
        assert "video" not in str(caught.value)
    with pytest.raises(SeqpipeError, match="not a video") as caught:
        seqpipe.videos(path, 1)
    assert remedy in str(caught.value)


def test_videos_and_images_are_none_of_them():
    for name in (
        "h264",
        "hevc_mkv",
        "vp9",
        "mjpeg",
        "gif",
        "png",
        "mpeg2_ps",
        "h264_ts",
        "h264_avi",
        "theora",
    ):
        assert volume_kind(made(name).read_bytes()[:4096]) is None


def test_a_video_with_the_name_of_a_volume_is_a_video(tmp_path):
    (tmp_path / "a.dcm").write_bytes(made("h264").read_bytes())
    assert len(seqpipe.open(tmp_path / "a.dcm")) > 0


@pytest.mark.parametrize(
    "name",
    [
        "nii",
        "nii_gz",
        "nii2",
        "nii_big_endian",
        "nrrd",
        "nrrd_raw",
        "mha",
        "npy",
        "npz",
        "tiff",
        "dicom_multi_frame",
    ],
)
def test_gzip_around_every_format(tmp_path, name):
    data = phantom_path(name).read_bytes()
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    with seqpipe.open(data) as volume:
        want, affine = volume.sequence().numpy(), volume.affine
    cuts = [0, 0, 1, 5, 11, 12, 200, 340, 347, 349, 352, 400, len(data) // 2, len(data), len(data)]
    parts = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    small = [data[n : n + 7] for n in range(0, 2000, 7)] + [data[2002:]]
    for number, members in enumerate(([data], parts, small)):
        path = tmp_path / f"{number}{phantom_path(name).suffix.replace('.gz', '')}.gz"
        path.write_bytes(b"".join(gzip.compress(part) for part in members))
        for origin in (path, path.read_bytes()):
            with seqpipe.open(origin) as volume:
                assert np.array_equal(volume.sequence().numpy(), want)
                assert np.array_equal(volume[3:5, 1:4].numpy(), want[3:5, 1:4])
                assert np.array_equal(volume.affine, affine)
                volume.close()
                assert np.array_equal(volume[3:5].numpy(), want[3:5])


@pytest.mark.parametrize(
    ("header", "voxels"), [(".hdr.gz", ".img"), (".hdr", ".img.gz"), (".hdr.gz", ".img.gz")]
)
def test_pairs_packed_in_part(tmp_path, header, voxels):
    nibabel = needs("nibabel")
    nibabel.save(nibabel.Nifti1Pair(VOXELS.transpose(2, 1, 0), np.eye(4)), tmp_path / "a.img")
    for old, new in ((".hdr", header), (".img", voxels)):
        data = (tmp_path / f"a{old}").read_bytes()
        (tmp_path / f"a{old}").unlink()
        packed = gzip.compress(data[:99]) + gzip.compress(b"") + gzip.compress(data[99:])
        (tmp_path / f"a{new}").write_bytes(packed if new.endswith(".gz") else data)
    for ending in (header, voxels):
        assert np.array_equal(seqpipe.open(tmp_path / f"a{ending}").sequence().numpy()[..., 0], VOXELS)


def _nrrd(**fields):
    usual = {"type": "short", "dimension": 3, "sizes": "5 4 3", "endian": "little"}
    lines = ["NRRD0004", *(f"{name.replace('_', ' ')}: {value}" for name, value in (usual | fields).items())]
    return "\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize("encoding", ["raw", "gzip", "bzip2"])
@pytest.mark.parametrize("skip", [0, 7, -1])
@pytest.mark.parametrize("detached", [False, True])
def test_nrrd_with_bytes_to_skip(tmp_path, encoding, skip, detached):
    packers = {
        "raw": bytes,
        "gzip": lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:]),
        "bzip2": bz2.compress,
    }
    data = packers[encoding](b"x" * (abs(skip) if skip >= 0 else 13) + VOXELS.tobytes())
    if detached:
        (tmp_path / "a.raw").write_bytes(data)
        path = tmp_path / "a.nhdr"
        path.write_bytes(_nrrd(encoding=encoding, byte_skip=skip, data_file="a.raw"))
    else:
        path = tmp_path / "a.nrrd"
        path.write_bytes(_nrrd(encoding=encoding, byte_skip=skip) + data)
    assert np.array_equal(seqpipe.open(path).sequence().numpy()[..., 0], VOXELS)


def test_detached_voxels_that_gzip_packs(tmp_path):
    (tmp_path / "a.raw.gz").write_bytes(gzip.compress(VOXELS.tobytes()))
    (tmp_path / "a.nhdr").write_bytes(_nrrd(encoding="raw", data_file="a.raw.gz"))
    meta = "ObjectType = Image\nNDims = 3\nDimSize = 5 4 3\nElementType = MET_SHORT\nElementDataFile = a.raw.gz\n"
    (tmp_path / "a.mhd").write_text(meta)
    (tmp_path / "b.nhdr.gz").write_bytes(gzip.compress((tmp_path / "a.nhdr").read_bytes()))
    for name in ("a.nhdr", "a.mhd", "b.nhdr.gz"):
        assert np.array_equal(seqpipe.open(tmp_path / name).sequence().numpy()[..., 0], VOXELS)


@pytest.mark.parametrize("kind", ["first bytes", "magic", "size"])
def test_a_damaged_header_keeps_the_word_of_its_format(tmp_path, kind):
    data = bytearray(phantom_path("nii").read_bytes())
    if kind != "size":
        struct.pack_into("4s", data, 344, b"\xff\1\2\3")
    if kind != "magic":
        data[:4] = b"\xff" * 4
    (tmp_path / "a.nii").write_bytes(data)
    with pytest.raises(SeqpipeError, match="NIfTI") as caught:
        seqpipe.open(tmp_path / "a.nii")
    assert "video" not in str(caught.value)


def test_no_damaged_volume_is_called_a_video(tmp_path):
    """As by ``python -m tests.deep.fuzz --kind volumes``, which tries as many as one likes."""
    needs("pydicom")
    needs("SimpleITK")
    needs("nibabel")
    files, verdict = fuzz_volumes.sources("made"), Verdict()
    for number in range(400):
        verdict.add(fuzz_volumes.tried(mutant(files, number, 5), tmp_path))
    assert verdict.faults == []
    assert verdict.counts["read"] > 50
