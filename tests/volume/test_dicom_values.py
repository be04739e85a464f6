"""DICOM values and grids beside pydicom and nibabel: elements of pixels, tables, doses, mosaics, damaged series."""

from __future__ import annotations

import gzip
import io
import struct
import warnings

import numpy as np
import pytest

import seqpipe
from data_scripts.make_volumes import AFFINE, phantom
from seqpipe.errors import SeqpipeError, UnreadableSourceError
from tests.support.volumes import needs

pydicom = needs("pydicom")

from pydicom.dataset import Dataset  # noqa: E402  after the check that it is installed
from pydicom.pixels import apply_modality_lut, pack_bits  # noqa: E402
from pydicom.sequence import Sequence as Items  # noqa: E402
from pydicom.uid import (  # noqa: E402
    UID,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    MRImageStorage,
    RTDoseStorage,
    RTStructureSetStorage,
)

from data_scripts.volume_dicom import multi_frame, slices_of, write_slices  # noqa: E402


def _one(pixels=None):
    return slices_of(np.zeros((1, 6, 5), np.int16) if pixels is None else pixels, AFFINE)[0]


def _bytes(one, **options):
    file = io.BytesIO()
    one.save_as(file, **(options or {"enforce_file_format": True}))
    return file.getvalue()


def _values(data):
    with seqpipe.open(data) as volume:
        return volume.sequence().scaled().numpy()


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize(("name", "dtype"), [("FloatPixelData", "<f4"), ("DoubleFloatPixelData", "<f8")])
def test_floating_point_pixels(name, dtype, frames):
    one, values = _one(), np.random.default_rng(0).normal(size=(frames, 6, 5)).astype(dtype)
    del one.PixelData, one.PixelRepresentation, one.BitsStored, one.HighBit
    one.BitsAllocated, one.NumberOfFrames = 8 * values.dtype.itemsize, frames
    setattr(one, name, values.tobytes())
    found = _values(_bytes(one))
    assert found.dtype == values.dtype
    assert np.array_equal(found[..., 0], values)


@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_whole_numbers_of_every_size(bits, signed):
    dtype = np.dtype(f"{'i' if signed else 'u'}{bits // 8}")
    one, values = _one(), np.random.default_rng(bits).integers(0, 256, 30 * bits // 8, np.uint8).view(dtype)
    one.BitsAllocated, one.BitsStored, one.HighBit, one.PixelRepresentation = bits, bits, bits - 1, signed
    one.PixelData = values.tobytes()
    found = _values(_bytes(one))
    assert found.dtype == dtype
    assert np.array_equal(found.ravel(), values)


@pytest.mark.parametrize("shape", [(1, 6, 5), (3, 5, 7), (5, 3, 3), (9, 1, 1)])
@pytest.mark.parametrize("segmentation", [False, True])
def test_one_bit_a_pixel(shape, segmentation):
    one, values = _one(), np.random.default_rng(0).integers(0, 2, shape, np.uint8)
    one.Rows, one.Columns, one.NumberOfFrames = shape[1], shape[2], shape[0]
    one.BitsAllocated, one.BitsStored, one.HighBit, one.PixelRepresentation = 1, 1, 0, 0
    one.PixelData = pack_bits(values.ravel(), pad=True)
    if segmentation:  # which does not describe its segments
        one.SOPClassUID = "1.2.840.10008.5.1.4.1.1.66.4"
    assert np.array_equal(_values(_bytes(one))[..., 0], values)


def _table(one, entries, first, bits):
    item = Dataset()
    item.LUTDescriptor, item.ModalityLUTType = [len(entries), first, bits], "HU"
    item["LUTDescriptor"].VR = "US"
    item.LUTData = np.asarray(entries, "<u2").tobytes()
    item["LUTData"].VR = "OW"
    one.ModalityLUTSequence = Items([item])
    del one.RescaleSlope, one.RescaleIntercept


@pytest.mark.parametrize(("bits", "most"), [(8, 255), (12, 4095), (16, 65535)])
def test_a_modality_table_is_applied(bits, most):
    one = _one(np.random.default_rng(0).integers(0, 40, (1, 6, 5)).astype(np.int16))
    one.PixelRepresentation = 0
    _table(one, np.random.default_rng(1).integers(0, most + 1, 30), 4, bits)
    data = _bytes(one)
    one.ModalityLUTSequence[0].LUTDescriptor[2] = 8 if bits == 8 else 16
    judge = apply_modality_lut(one.pixel_array, one)
    with seqpipe.open(data) as volume:
        assert np.array_equal(volume.sequence().numpy()[0, ..., 0], judge)
        assert volume.info.scale is None
        assert any("modality table" in note for note in volume.info.notes)


def test_slices_with_tables_of_their_own_and_with_slopes(tmp_path):
    slices = slices_of(phantom() % 16, AFFINE)
    for number, one in enumerate(slices):
        one.PixelRepresentation = 0
        if number % 2:
            _table(one, np.arange(16) * (number + 1), 0, 16)
        else:
            one.RescaleSlope = str(number + 0.5)
    found = _values(write_slices(tmp_path / "series", slices))
    for one, plane in zip(slices, found[..., 0], strict=True):
        np.testing.assert_allclose(plane, apply_modality_lut(one.pixel_array, one), rtol=1e-6)


def test_monochrome1_and_palettes_are_noted(tmp_path):
    for photometric, said in (("MONOCHROME1", "not inverted"), ("PALETTE COLOR", "palette")):
        one = _one()
        one.PhotometricInterpretation = photometric
        with seqpipe.open(_bytes(one)) as volume:
            assert any(said in note for note in volume.info.notes)


DOSES = {
    "relative": ([0.0, 2.5, 5.0, 7.5], [10.0, 12.5, 15.0, 17.5]),
    "downward": ([0.0, -2.5, -5.0, -7.5], [10.0, 7.5, 5.0, 2.5]),
    "absolute": ([10.0, 13.0, 16.0, 19.0], [10.0, 13.0, 16.0, 19.0]),
}


@pytest.mark.parametrize("name", DOSES)
@pytest.mark.parametrize("bits", [16, 32])
def test_doses_have_their_scale_and_their_places(name, bits):
    offsets, places = DOSES[name]
    one, dose = _one(), np.random.default_rng(0).integers(0, 1 << 15, (4, 6, 5)).astype(f"<u{bits // 8}")
    one.SOPClassUID = one.file_meta.MediaStorageSOPClassUID = RTDoseStorage
    one.Modality, one.DoseUnits, one.DoseGridScaling = "RTDOSE", "GY", "0.00125"
    one.NumberOfFrames, one.GridFrameOffsetVector = 4, offsets
    one.BitsAllocated = one.BitsStored = bits
    one.HighBit, one.PixelRepresentation = bits - 1, 0
    one.ImagePositionPatient, one.ImageOrientationPatient = [-3, 4, 10], [1, 0, 0, 0, 1, 0]
    one.PixelSpacing, one.PixelData = [2, 3], dose.tobytes()
    del one.RescaleSlope, one.RescaleIntercept
    with seqpipe.open(_bytes(one)) as volume:
        found, affine = volume.sequence().scaled().numpy()[..., 0], volume.affine
    for frame, z in enumerate(places):
        index = np.argmin([abs((affine @ [d, 0, 0, 1])[2] - z) for d in range(4)])
        np.testing.assert_allclose(affine @ [index, 0, 0, 1], [3, -4, z, 1], atol=1e-6)
        np.testing.assert_allclose(found[index], dose[frame] * 0.00125, rtol=1e-6)


def _csa(count, normal):
    """The header that Siemens writes, with two entries: see nibabel.nicom.csareader."""
    tags = [
        ("NumberOfImagesInMosaic", "US", [str(count)]),
        ("SliceNormalVector", "FD", [str(x) for x in normal]),
    ]
    data = b"SV10\4\3\2\1" + struct.pack("<2I", len(tags), 77)
    for name, vr, values in tags:
        data += struct.pack("<64si4s3i", name.encode(), len(values), vr.encode(), 0, len(values), 77)
        for value in values:
            text = value.encode() + b"\0"
            data += struct.pack("<4i", len(text), len(text), 77, len(text)) + text + bytes(-len(text) % 4)
    return data


def _mosaic(count, rows, columns, *, down=False, private=True, csa=True):
    side = int(np.ceil(np.sqrt(count)))
    voxels = np.arange(side * side * rows * columns, dtype=np.int16).reshape(side * side, rows, columns)
    voxels[count:] = 0
    picture = (
        voxels.reshape(side, side, rows, columns).transpose(0, 2, 1, 3).reshape(side * rows, side * columns)
    )
    one = _one(picture[None])
    one.SOPClassUID, one.Modality, one.Manufacturer = MRImageStorage, "MR", "SIEMENS"
    one.ImageType = ["ORIGINAL", "PRIMARY", "M", "ND", "MOSAIC"]
    one.SpacingBetweenSlices = "3.5"
    normal = np.cross(
        np.array(one.ImageOrientationPatient[:3], float), np.array(one.ImageOrientationPatient[3:], float)
    )
    if private:
        one.private_block(0x19, "SIEMENS MR HEADER", create=True).add_new(0x0A, "US", count)
    if csa:
        block = one.private_block(0x29, "SIEMENS CSA HEADER", create=True)
        block.add_new(0x10, "OB", _csa(count, -normal if down else normal))
    return one, voxels[:count]


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize(
    ("count", "rows", "columns"), [(1, 4, 4), (2, 3, 5), (4, 6, 4), (7, 12, 10), (10, 3, 3)]
)
def test_mosaics_are_taken_apart_as_by_nibabel(count, rows, columns, down):
    needs("nibabel")
    one, voxels = _mosaic(count, rows, columns, down=down)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from nibabel.nicom.dicomwrappers import MosaicWrapper

        judge = MosaicWrapper(one)
        theirs, affine = judge.get_data(), np.diag([-1, -1, 1, 1]) @ judge.affine
    with seqpipe.open(_bytes(one)) as volume:
        mine, ours = volume.sequence().numpy()[..., 0], volume.affine
    assert mine.shape == voxels.shape
    for d, h, w in ((0, 0, 0), (count - 1, rows - 1, 0), (count // 2, 1, 2)):
        i, j, k, _ = np.rint(np.linalg.solve(affine, ours @ [d, h, w, 1])).astype(int)
        np.testing.assert_allclose(affine @ [i, j, k, 1], ours @ [d, h, w, 1], atol=1e-3)
        assert mine[d, h, w] == theirs[i, j, k]


def test_mosaics_are_volumes_of_a_series_and_need_their_count(tmp_path):
    needs("nibabel")
    made = [_mosaic(5, 4, 6, csa=bool(number % 2)) for number in range(3)]
    for number, (one, _) in enumerate(made):
        one.InstanceNumber, one.AcquisitionNumber, one.RepetitionTime = number + 1, number + 1, "2000"
        one.PixelData = (one.pixel_array + number).astype(np.int16).tobytes()
    with seqpipe.open(write_slices(tmp_path / "series", [one for one, _ in made])) as volume:
        found = volume.sequence().numpy()[..., 0]
        assert volume.info.time_step_s == 2.0
    assert np.array_equal(found, [made[0][1] + number for number in range(3)])
    one, _ = _mosaic(5, 4, 6, private=False, csa=False)
    with pytest.raises(SeqpipeError, match="mosaic of Siemens"):
        seqpipe.open(_bytes(one))


@pytest.mark.parametrize("place", [0, 8, 17])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"PixelSpacing": [1.5, 1.251]}, "different spacings of pixels"),
        ({"PixelSpacing": [3.0, 3.0]}, "different spacings of pixels"),
        ({"ImageOrientationPatient": [1, 0, 0, 0, 1, 0]}, "2 orientations"),
        ({"Rows": 13, "Columns": 64}, "different sizes"),
        ({"BitsAllocated": 8}, "different types"),
        ({"ImagePositionPatient": None}, "have no position"),
    ],
)
def test_one_slice_with_another_geometry_is_named(tmp_path, place, change, said):
    slices = slices_of(phantom(), AFFINE)
    slices[place].update({name: value for name, value in change.items() if value is not None})
    for name in (name for name, value in change.items() if value is None):
        delattr(slices[place], name)
    with pytest.raises(UnreadableSourceError, match=said) as caught:
        seqpipe.open(write_slices(tmp_path / "series", slices))
    assert f"IM{(place * 7919) % 10007:05d}" in str(caught.value)


@pytest.mark.parametrize("place", [0, 8, 17])
@pytest.mark.parametrize(("shift", "is_refused"), [(2.0, True), (0.7, True), (0.2, False)])
def test_one_slice_that_is_shifted_in_its_plane_is_named(tmp_path, place, shift, is_refused):
    slices = slices_of(phantom(), AFFINE)
    along = np.array(slices[0].ImageOrientationPatient[:3], float)
    slices[place].ImagePositionPatient = list(
        np.array(slices[place].ImagePositionPatient, float) + shift * along
    )
    name = f"IM{(place * 7919) % 10007:05d}"
    folder = write_slices(tmp_path / "series", slices)
    if is_refused:
        with pytest.raises(UnreadableSourceError, match=name):
            seqpipe.open(folder)
    else:
        assert any(name in note for note in seqpipe.open(folder).info.notes)


@pytest.mark.parametrize("syntax", [ImplicitVRLittleEndian, ExplicitVRLittleEndian])
def test_files_without_a_preamble(tmp_path, syntax):
    folder = tmp_path / "series"
    folder.mkdir()
    for number, one in enumerate(slices_of(phantom(), AFFINE)):
        one.remove_private_tags()
        del one.file_meta
        implicit = syntax == ImplicitVRLittleEndian
        pydicom.dcmwrite(folder / f"{number}.dcm", one, implicit_vr=implicit, little_endian=True)
    assert (folder / "3.dcm").read_bytes()[128:132] != b"DICM"
    assert np.array_equal(_values(folder / "3.dcm")[0, ..., 0], phantom()[3])
    assert np.array_equal(_values(folder)[..., 0], phantom())


def test_big_endian_and_packed_files(tmp_path):
    slices = slices_of(phantom(), AFFINE)
    for number, one in enumerate(slices):
        one.file_meta.TransferSyntaxUID = ExplicitVRBigEndian
        one.PixelData = np.frombuffer(one.PixelData, "<i2").astype(">i2").tobytes()
        one["PixelData"].VR = "OW"
        data = _bytes(one, little_endian=False, implicit_vr=False)
        (tmp_path / f"{number}.dcm.gz").write_bytes(gzip.compress(data[:99]) + gzip.compress(data[99:]))
    assert np.array_equal(_values(tmp_path)[..., 0], phantom())
    assert np.array_equal(_values(tmp_path / "5.dcm.gz")[0, ..., 0], phantom()[5])
    multi_frame(tmp_path / "m.dcm", phantom(), AFFINE)
    assert np.array_equal(_values(gzip.compress((tmp_path / "m.dcm").read_bytes()))[..., 0], phantom())


OBJECTS = {
    "RTSTRUCT": RTStructureSetStorage,
    "RTPLAN": UID("1.2.840.10008.5.1.4.1.1.481.5"),
    "SR": UID("1.2.840.10008.5.1.4.1.1.88.11"),
    "KO": UID("1.2.840.10008.5.1.4.1.1.88.59"),
    "PR": UID("1.2.840.10008.5.1.4.1.1.11.1"),
    "DOC": UID("1.2.840.10008.5.1.4.1.1.104.1"),
}


def _object(modality):
    one = _one()
    del one.Rows, one.Columns, one.PixelData
    one.SOPClassUID = one.file_meta.MediaStorageSOPClassUID = OBJECTS[modality]
    one.Modality = modality
    return one


@pytest.mark.parametrize("modality", OBJECTS)
def test_objects_without_pixels_are_named(tmp_path, modality):
    one = _object(modality)
    with pytest.raises(UnreadableSourceError, match="DICOM file is no image") as caught:
        seqpipe.open(_bytes(one))
    assert modality in str(caught.value)
    assert OBJECTS[modality].name in str(caught.value)
    folder = write_slices(tmp_path / "series", slices_of(phantom(), AFFINE))
    (folder / "IM99999").write_bytes(_bytes(one))
    assert np.array_equal(_values(folder)[..., 0], phantom())


@pytest.mark.parametrize("ending", [".dcm", "", ".dcm.gz"])
def test_every_cut_of_a_file_of_a_series_is_told(tmp_path, ending):
    slices = slices_of(phantom()[:4], AFFINE)
    files = [tmp_path / f"{number + 1}{ending}" for number in range(4)]
    datas = [gzip.compress(_bytes(one)) if ending == ".dcm.gz" else _bytes(one) for one in slices]
    for path, data in zip(files, datas, strict=True):
        path.write_bytes(data)
    for path, data in ((files[3], datas[3]), (files[0], datas[0]), (files[1], datas[1])):
        for length in (
            *range(0, min(700, len(data)), 37),
            100,
            131,
            132,
            133,
            *range(len(data) - 300, len(data), 29),
        ):
            path.write_bytes(data[:length])
            with pytest.raises(SeqpipeError) as caught:
                _values(tmp_path)
            assert path.name in str(caught.value), length
        path.write_bytes(bytes(len(data)))  # zeros, as after a failed copy
        with pytest.raises(SeqpipeError, match=rf"\b{path.name}"):
            _values(tmp_path)
        path.write_bytes(data)
    assert np.array_equal(_values(tmp_path)[..., 0], phantom()[:4])


def test_foreign_files_beside_a_series_are_no_loss(tmp_path):
    folder = write_slices(tmp_path / "series", slices_of(phantom(), AFFINE))
    for name in (
        "notes.txt",
        "README",
        "DICOMDIR",
        ".DS_Store",
        "Thumbs.db",
        "v.json",
        "empty.txt",
        "mask.nii.gz",
    ):
        (folder / name).write_bytes(
            b"" if name == "empty.txt" else b"\0\1" * 40 if "." in name else b"words\n"
        )
    assert np.array_equal(_values(folder)[..., 0], phantom())
