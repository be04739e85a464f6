"""NRRD and MetaImage as pynrrd, ITK and people write them: axes, types, encodings, spaces and separate files."""

from __future__ import annotations

import gzip
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqpipe
from seqpipe.errors import DamagedSourceError, SourceNotFoundError, UnreadableSourceError
from seqpipe.volume.space import from_axes
from tests.support.volumes import needs

SPACES = {"right-anterior-superior": (1, 1), "LAS": (-1, 1), "left-posterior-superior": (-1, -1)}
KINDS = {**dict.fromkeys("WHD", "space"), "C": "vector", "F": "time"}
SIZES = {"W": 5, "H": 4, "D": 3, "C": 2, "F": 6}
TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
MET = dict(
    zip(TYPES, ("CHAR", "UCHAR", "SHORT", "USHORT", "INT", "UINT", "LONG_LONG", "ULONG_LONG"), strict=False)
)


def _array(letters, dtype):
    """Voxels with one axis a letter, the slowest first; and as the layout has them."""
    shape = [SIZES[letter] for letter in letters]
    array = np.random.default_rng(len(letters)).integers(0, 100, shape).astype(dtype)
    layout = "FDHWC" if "F" in letters else "DHWC"
    full = array.transpose([letters.index(letter) for letter in layout if letter in letters])
    return array, full if "C" in letters else full[..., None]


@settings(max_examples=40)
@given(st.data())
def test_nrrd_files_of_pynrrd(tmp_path_factory, data):
    nrrd = needs("nrrd")
    letters = data.draw(st.sampled_from(["DHW", "CDHW", "DHWC", "FDHW", "DHWF", "FDHWC", "CFDHW", "DFHW"]))
    array, full = _array(letters, data.draw(st.sampled_from(["<", ">"])) + data.draw(st.sampled_from(TYPES)))
    space, signs = data.draw(st.sampled_from(sorted(SPACES.items())))
    axes = (
        np.random.default_rng(data.draw(st.integers(0, 99))).normal(size=(3, 3)) + np.eye(3) * 4
    )  # a row an axis
    fastest = letters[::-1]
    rows = iter(axes)
    header = {
        "kinds": [KINDS[letter] for letter in fastest],
        "space": space,
        "space directions": [next(rows) if letter in "WHD" else [np.nan] * 3 for letter in fastest],
        "space origin": [1.0, -2.0, 3.0],
        "encoding": data.draw(st.sampled_from(["raw", "gzip", "bzip2", "ascii"])),
    }
    ending = data.draw(st.sampled_from(["nrrd", "nhdr"]))
    path = tmp_path_factory.mktemp("nrrd") / f"v.{ending}"
    nrrd.write(str(path), array.T, header)
    with seqpipe.open(path) as volume:
        found = volume.sequence()
        assert found.data.dtype == full.dtype.newbyteorder("=")
        assert np.array_equal(found.data, full)
        assert volume.info.space == "nrrd"
        assert volume.info.compressed is (header["encoding"] in ("gzip", "bzip2"))
    affine = from_axes(
        np.diag([*signs, 1]) @ axes.T, np.diag([*signs, 1]) @ header["space origin"], lps=False
    )
    np.testing.assert_allclose(found.affine, affine, atol=1e-6)


def _nrrd(fields, voxels=b""):
    usual = {"type": "short", "dimension": 3, "sizes": "5 4 3", "endian": "little", "encoding": "raw"}
    lines = [f"{name}: {value}" for name, value in {**usual, **fields}.items() if value is not None]
    return "\n".join(["NRRD0005", "# a comment", *lines, "", ""]).encode() + voxels


VOXELS = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
COLORS = {"dimension": 4, "type": "uchar", "sizes": "1 5 4 3", "kinds": "vector domain domain domain"}


@pytest.mark.parametrize(
    "fields",
    [
        {"spacings": "0.5 0.75 2"},
        {"spacings": "0.5 0.75 2", "kinds": "domain domain domain"},
        {},
        {**COLORS, "sizes": "2 5 2 3", "spacings": "1 0.5 0.75 2"},  # "the affine is singular"
        {**COLORS, "sizes": "2 5 2 3", "spacings": "nan 0.5 0.75 2"},
        {**COLORS, "sizes": "2 5 2 3"},
        {**COLORS, "sizes": "5 4 3 2", "spacings": "0.5 0.75 2 1", "kinds": "space space space list"},
    ],
)
def test_steps_without_directions_are_those_of_itk(tmp_path, fields):
    sitk = needs("SimpleITK")
    path = tmp_path / "v.nrrd"
    path.write_bytes(_nrrd(fields, VOXELS.tobytes()))
    image = sitk.ReadImage(str(path))
    with seqpipe.open(path) as volume:
        assert volume.info.space == "assumed"
        assert "the header states no space: left, posterior, superior is assumed" in volume.info.notes[0]
        axes = np.array(image.GetDirection()).reshape(3, 3) * image.GetSpacing()
        np.testing.assert_allclose(volume.affine, from_axes(axes, image.GetOrigin(), lps=True))
        judge = sitk.GetArrayFromImage(image)
        assert np.array_equal(volume.sequence().data, judge.reshape(*judge.shape[:3], -1))


def test_axes_without_a_step_are_series_only_where_no_number_says_so():
    data = _nrrd(
        {**COLORS, "sizes": "2 5 2 3", "kinds": None, "spacings": "nan 0.5 0.75 2"}, VOXELS.tobytes()
    )
    with seqpipe.open(data) as volume:
        assert volume.shape == (3, 2, 5, 2)
        assert volume.spacing_mm == (2, 0.75, 0.5)


@pytest.mark.parametrize(
    ("fields", "before"),
    [
        ({"line skip": 2}, b"one\ntwo\n"),
        ({"byte skip": 3}, b"abc"),
        ({"line skip": 1, "byte skip": 2}, b"a line\nab"),
        ({"byte skip": -1}, b"of any length"),
    ],
)
def test_what_lies_before_the_voxels_is_skipped(tmp_path, fields, before):
    _assert_skipped(tmp_path, {**fields, "encoding": "raw"}, before + VOXELS.tobytes())
    if fields.get("byte skip", 0) >= 0:  # lines of the file, and bytes of what is unpacked
        lines = b"".join(before.splitlines(keepends=True)[: fields.get("line skip", 0)])
        packed = gzip.compress(before[len(lines) :] + VOXELS.tobytes())
        _assert_skipped(tmp_path, {**fields, "encoding": "gzip"}, lines + packed)


def _assert_skipped(folder, fields, voxels):
    with seqpipe.open(_nrrd(fields, voxels)) as volume:
        assert np.array_equal(volume.sequence().data[..., 0], VOXELS)
    (folder / "voxels").write_bytes(voxels)
    (folder / "v.nhdr").write_bytes(_nrrd({**fields, "data file": "voxels"}))
    with seqpipe.open(folder / "v.nhdr") as volume:
        assert np.array_equal(volume.sequence().data[..., 0], VOXELS)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"type": "block"}, "the header's field 'type' is 'block'"),
        ({"encoding": "hex"}, "the header's field 'encoding' is 'hex'; allowed: raw, gzip, bzip2, ascii"),
        ({"sizes": "5 4"}, "the header's field 'sizes' is '5 4'; allowed: 3 numbers"),
        ({"sizes": None}, "the header has no field 'sizes'"),
        ({"data file": "LIST"}, "the header's field 'data file' is 'LIST'; allowed: one file"),
        ({"data file": "v%03d.raw 1 3 1"}, "allowed: one file"),
        (
            {"data file": "other.raw"},
            "the voxels are in the separate file 'other.raw'. Open the header by its path",
        ),
        ({"space directions": "(1,0,0) (0,1,0)"}, "allowed: 3 vectors, or none"),
        ({"space directions": "(1,0,0) (0,1,0) (1,0,0,1)"}, "allowed: vectors of 3 numbers"),
        ({"space directions": "none none none"}, "0 of 3 axes are spatial"),
        (
            {
                "dimension": 6,
                "sizes": "1 1 1 5 4 3",
                "space directions": "none none none (1,0,0) (0,1,0) (0,0,1)",
            },
            "3 of 6 axes are spatial",
        ),
        (
            {"dimension": 5, "sizes": "1 1 5 4 3", "kinds": "time time space space space"},
            "several axes are series",
        ),
    ],
)
def test_nrrd_headers_that_are_refused(fields, said):
    with pytest.raises(UnreadableSourceError) as caught:
        seqpipe.open(_nrrd(fields, b"one " * 60))
    assert said in str(caught.value)


def test_files_that_a_header_promises_and_that_are_not_there(tmp_path):
    (tmp_path / "v.nhdr").write_bytes(_nrrd({"data file": "other.raw"}))
    with pytest.raises(SourceNotFoundError, match=r"other\.raw"):
        seqpipe.open(tmp_path / "v.nhdr")
    with pytest.raises(UnreadableSourceError, match="the NRRD header has no end"):
        seqpipe.open(_nrrd({})[:-1])
    with pytest.raises(DamagedSourceError, match="the file has 59 values, and its header states 60"):
        seqpipe.open(_nrrd({"encoding": "text"}, b"10, " * 59))
    with pytest.raises(DamagedSourceError, match="the voxels are not all numbers"):
        seqpipe.open(_nrrd({"encoding": "ascii"}, b"one " * 60))


def test_files_that_gzip_packs_as_a_whole():
    for data in (_nrrd({}, VOXELS.tobytes()), _meta({}, VOXELS.tobytes())):
        half = len(data) // 2
        members = [gzip.compress(part) for part in (b"", data[:10], data[10:half], b"", data[half:], b"")]
        for packed in (gzip.compress(data), b"".join(members)):
            with seqpipe.open(packed) as volume:
                assert np.array_equal(volume.sequence().numpy(), seqpipe.open(data).sequence().numpy())


def _meta(fields, voxels=b"", file="LOCAL"):
    usual = {"ObjectType": "Image", "NDims": 3, "DimSize": "5 4 3", "ElementType": "MET_SHORT"}
    lines = [f"{n} = {v}" for n, v in {**usual, **fields, "ElementDataFile": file}.items() if v is not None]
    return "\n".join([*lines, ""]).encode() + voxels


@pytest.mark.parametrize("letters", ["DHW", "DHWC", "FDHW", "HW"])
@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_metaimage_files_of_itk(tmp_path, letters, compress, dtype):
    sitk = needs("SimpleITK")
    array, full = _array(letters, dtype) if letters != "HW" else (VOXELS[0].astype(dtype),) * 2
    image = sitk.GetImageFromArray(array, isVector="C" in letters)
    count = image.GetDimension()
    image.SetSpacing([0.5, 0.75, 2.0, 1.0][:count])
    image.SetOrigin([1.0, -2.0, 3.0, 0.0][:count])
    turned = np.eye(count)
    turned[:2, :2] = [[0.6, -0.8], [0.8, 0.6]]
    image.SetDirection(turned.ravel().tolist())
    path = tmp_path / ("v.mha" if compress else "v.mhd")
    sitk.WriteImage(image, str(path), compress)
    with seqpipe.open(path) as volume:
        assert volume.info.compressed is compress
        assert np.array_equal(volume.sequence().data.reshape(full.shape), full)
        assert volume.info.layout == ("FDHWC" if "F" in letters else "DHWC")
        spacing, origin = (
            ([0.5, 0.75, 2.0], [1.0, -2.0, 3.0]) if count > 2 else ([0.5, 0.75, 1.0], [1.0, -2.0, 0])
        )
        axes = np.eye(3)
        axes[:2, :2] = turned[:2, :2]
        np.testing.assert_allclose(volume.affine, from_axes(axes * spacing, origin, lps=True), atol=1e-9)


@pytest.mark.parametrize(
    ("fields", "voxels"),
    [
        ({"ElementByteOrderMSB": "True"}, VOXELS.astype(">i2").tobytes()),
        ({"BinaryDataByteOrderMSB": "true"}, VOXELS.astype(">i2").tobytes()),
        ({"ElementType": "MET_LONG"}, VOXELS.astype("<i4").tobytes()),
        ({"ElementType": "MET_SHORT_ARRAY"}, VOXELS.tobytes()),
        ({"HeaderSize": 7}, b"7 bytes" + VOXELS.tobytes()),
        ({"HeaderSize": -1}, b"of any length" + VOXELS.tobytes()),
        ({"CompressedData": "True"}, zlib.compress(VOXELS.tobytes())),
        ({"CompressedData": "True"}, gzip.compress(VOXELS.tobytes(), mtime=0)),
        ({"CompressedData": "True", "HeaderSize": 7}, b"7 bytes" + zlib.compress(VOXELS.tobytes())),
        ({"CompressedData": "True", "HeaderSize": 7}, b"7 bytes" + gzip.compress(VOXELS.tobytes(), mtime=0)),
    ],
)
def test_metaimage_voxels_of_other_writers(tmp_path, fields, voxels):
    (tmp_path / "voxels").write_bytes(voxels)
    (tmp_path / "v.mhd").write_bytes(_meta(fields, file="voxels"))
    for source in (_meta(fields, voxels), tmp_path / "v.mhd"):
        with seqpipe.open(source) as volume:
            assert np.array_equal(volume.sequence().data[..., 0], VOXELS)


@pytest.mark.parametrize(
    ("fields", "spacing", "origin"),
    [
        ({}, [1, 1, 1], [0, 0, 0]),
        ({"ElementSize": "0.5 0.75 2", "Position": "1 2 3"}, [0.5, 0.75, 2], [1, 2, 3]),
        (
            {"ElementSpacing": "0.5 0.75 2", "ElementSize": "9 9 9", "Origin": "1 2 3"},
            [0.5, 0.75, 2],
            [1, 2, 3],
        ),
        ({"ElementSpacing": "0.5 0.75 -2"}, [0.5, 0.75, 2], [0, 0, 0]),
    ],
)
def test_metaimage_spacing_under_any_of_its_names(fields, spacing, origin):
    with seqpipe.open(_meta(fields, VOXELS.tobytes())) as volume:
        np.testing.assert_allclose(volume.affine, from_axes(np.diag(spacing), origin, lps=True))


def test_a_name_that_the_system_refuses_is_of_no_file(tmp_path):
    """In a header, and as a source; ``Path.is_dir`` raises for it."""
    long = "a" * 300
    (tmp_path / "a.mhd").write_bytes(_meta({}, b"", long))
    for source in (
        lambda: seqpipe.open(tmp_path / "a.mhd"),
        lambda: seqpipe.volumes(long, seqpipe.Patch(2)).read([0]),
    ):
        with pytest.raises(SourceNotFoundError, match=f"{long}: no such file"):
            source()
    with pytest.raises(SourceNotFoundError, match=f"{long}: no such file"):
        seqpipe.videos(long, 2).read([0])


@pytest.mark.parametrize("name", ["", ".", "sub"])
def test_a_voxel_file_that_is_a_folder_is_named_as_the_header_names_it(tmp_path, name):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.mhd").write_bytes(_meta({}, b"", name))
    with pytest.raises(
        UnreadableSourceError, match=f"the header names '{name}' as the file of its voxels, which"
    ):
        seqpipe.open(tmp_path / "a.mhd")


@pytest.mark.parametrize(
    ("fields", "file", "said"),
    [
        ({"NDims": 1}, "LOCAL", "the header's field 'NDims' is '1'; allowed: 2, 3 or 4"),
        ({"NDims": 5}, "LOCAL", "the header's field 'NDims' is '5'"),
        ({"ElementType": "MET_OTHER"}, "LOCAL", "the header's field 'ElementType' is 'MET_OTHER'"),
        ({"BinaryData": "False"}, "LOCAL", "the header's field 'BinaryData' is 'False'; allowed: True"),
        ({"DimSize": None}, "LOCAL", "the header has no field 'DimSize'"),
        ({}, "LIST", "the header's field 'ElementDataFile' is 'LIST'; allowed: LOCAL, or one file"),
        ({}, "v%03d.raw 1 3 1", "allowed: LOCAL, or one file"),
        ({"TransformMatrix": "1 0 0 0"}, "LOCAL", "the header's field 'TransformMatrix' is '1 0 0 0'"),
    ],
)
def test_metaimage_headers_that_are_refused(fields, file, said):
    with pytest.raises(UnreadableSourceError) as caught:
        seqpipe.open(_meta(fields, VOXELS.tobytes(), file))
    assert said in str(caught.value)
