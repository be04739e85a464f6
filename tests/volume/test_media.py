"""Every volume of the shared media: voxels, affine, spacing and orientation as other libraries read them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import seqpipe
from seqpipe.volume.space import from_axes
from tests.support.volumes import needs, shared_volume, shared_volumes

NAMES = shared_volumes() or [pytest.param("none", marks=pytest.mark.skip(reason="no shared media"))]


def test_the_shared_media_is_looked_at():
    shared_volume("volume")  # skips without it
    assert len(shared_volumes()) >= 13


def _nibabel(path):
    nibabel = needs("nibabel")
    image = nibabel.load(path)
    raw = np.asarray(image.dataobj.get_unscaled())
    affine = image.affine[:, [2, 1, 0, 3]]
    codes = "".join(nibabel.aff2axcodes(image.affine))
    return raw.transpose(*range(raw.ndim)[::-1]), affine, codes, image


@pytest.mark.parametrize("name", [n for n in NAMES if isinstance(n, str) and ".nii" in n])
def test_nifti_equals_nibabel(name):
    path = shared_volume(name)
    voxels, affine, codes, image = _nibabel(path)
    with seqpipe.open(path) as volume:
        found = volume.sequence(stored=True)
        assert np.array_equal(found.data[..., 0], voxels)
        assert found.data.dtype == voxels.dtype.newbyteorder("=")
        np.testing.assert_allclose(volume.affine, affine, atol=1e-6)
        assert volume.orientation == codes
        np.testing.assert_allclose(volume.spacing_mm[::-1], image.header.get_zooms()[:3], rtol=1e-5)
        scaled = volume.sequence().data[..., 0]
        assert np.array_equal(scaled, found.scaled().data[..., 0])
        meant = image.get_fdata()
        np.testing.assert_allclose(scaled, meant.transpose(*range(meant.ndim)[::-1]), rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_everything_equals_simpleitk(name):
    sitk = needs("SimpleITK")
    path = shared_volume(name)
    if name.endswith("/"):
        needs("pydicom")
        reader = sitk.ImageSeriesReader()
        reader.SetFileNames(reader.GetGDCMSeriesFileNames(path))
        image = reader.Execute()
    else:
        image = sitk.ReadImage(path)
    size = image.GetDimension()
    axes = (np.array(image.GetDirection()).reshape(size, size) * np.array(image.GetSpacing()))[:3, :3]
    with seqpipe.open(path) as volume:
        voxels = volume.sequence().data[..., 0]
        judge = sitk.GetArrayFromImage(image)
        np.testing.assert_allclose(voxels, judge, rtol=1e-5, atol=1e-3 if volume.info.scale else 0)
        if volume.info.space != "assumed" and "t2_seg" not in name:
            np.testing.assert_allclose(
                volume.affine, from_axes(axes, image.GetOrigin()[:3], lps=True), atol=1e-6
            )


@pytest.mark.parametrize("name", [n for n in NAMES if isinstance(n, str) and n.endswith(".nrrd")])
def test_nrrd_equals_pynrrd(name):
    nrrd = needs("nrrd")
    path = shared_volume(name)
    voxels, header = nrrd.read(path)
    with seqpipe.open(path) as volume:
        assert np.array_equal(volume.sequence().data[..., 0], voxels.T)
        np.testing.assert_allclose(
            volume.affine, from_axes(header["space directions"].T, header["space origin"], lps=True)
        )


def test_dicom_pixels_equal_pydicoms():
    pydicom = needs("pydicom")
    folder = shared_volume("volume/dicom_ct")
    with seqpipe.open(folder) as volume:
        for number in (0, 8, 16):
            one = volume[number]
            place = one.affine @ [0, 0, 0, 1]
            match = [
                ds
                for ds in map(pydicom.dcmread, Path(folder).iterdir())
                if np.allclose(np.array(ds.ImagePositionPatient, float) * [-1, -1, 1], place[:3], atol=1e-4)
            ]
            assert len(match) == 1
            assert np.array_equal(one.data[..., 0], match[0].pixel_array)


@pytest.mark.parametrize("name", NAMES)
def test_windows_and_orientations_of_real_files_are_cuts_of_the_whole(name):
    if name.endswith("/"):
        needs("pydicom")
    with seqpipe.open(shared_volume(name)) as volume:
        canonical = volume.to_canonical()
        whole = canonical.sequence()
        assert canonical.orientation == "RAS"
        d, h, w = (size // 2 for size in canonical.info.grid)
        part = canonical[d - 1 : d + 1, h : h + 5, w - 3 : w]
        assert np.array_equal(part.data, whole.data[..., d - 1 : d + 1, h : h + 5, w - 3 : w, :])
        np.testing.assert_allclose(part.affine @ [0, 0, 0, 1], whole.affine @ [d - 1, h, w - 3, 1], atol=1e-9)
