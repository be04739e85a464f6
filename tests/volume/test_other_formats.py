"""Formats of other programs: each opened as it is written, its voxels and affine equal to those of another library."""

from __future__ import annotations

import bz2
import gzip
import io
import locale
import lzma
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

import seqpipe
from seqpipe.errors import (
    DamagedSourceError,
    ParameterError,
    SourceError,
    SourceNotFoundError,
    UnreadableSourceError,
)
from seqpipe.sequence import Sequence
from seqpipe.volume import save
from tests.support.volumes import needs, phantom_path

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of files that nibabel leaves open
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
RNG = np.random.default_rng(7)
VOXELS = RNG.integers(-300, 3000, (3, 4, 5)).astype(np.int16)
TURN = np.array([[0.9, 0.1, 0.3, 5], [-0.2, 1.8, 0.1, -7], [0.1, 0.2, -2.5, 11], [0, 0, 0, 1.0]])
AFFINE = TURN[:, [2, 1, 0, 3]]


def rigid():
    """A rotation with spacing, over (i, j, k)."""
    q, _ = np.linalg.qr(TURN[:3, :3])
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = q * [0.7, 1.3, 2.5], [5, -7, 11]
    return matrix


def assert_same(volume, image):
    """Compare a volume with an image of nibabel, whole and by windows."""
    want = np.asanyarray(image.dataobj).T
    want = want[..., None]
    found = volume.sequence()
    assert found.data.shape == want.shape
    np.testing.assert_allclose(found.data, want, rtol=1e-6)
    np.testing.assert_allclose(volume.affine, image.affine[:, [2, 1, 0, 3]], atol=1e-5)
    window = volume[1:3, 0:2, 2:5]
    np.testing.assert_array_equal(window.data, found.data[..., 1:3, 0:2, 2:5, :])
    np.testing.assert_allclose(window.affine[:3, 3], (volume.affine @ [1, 0, 2, 1])[:3])


@pytest.mark.parametrize("frames", [1, 2])
@pytest.mark.parametrize(
    ("name", "dtype"), [("a.mgh", "u1"), ("a.mgh", "i2"), ("a.mgz", "f4"), ("a.mgz", "i4")]
)
def test_mgh_of_freesurfer_is_as_in_nibabel_and_comes_back(tmp_path, name, dtype, frames):
    nibabel = needs("nibabel")
    data = RNG.integers(0, 200, (5, 4, 3, frames)).astype(dtype)
    nibabel.save(nibabel.MGHImage(data if frames > 1 else data[..., 0], rigid()), tmp_path / name)
    image = nibabel.load(tmp_path / name)
    with seqpipe.open(tmp_path / name) as volume:
        assert volume.info.format == "mgh"
        assert volume.info.dtype == np.dtype(dtype)
        assert_same(volume, image)
        save(volume.sequence(), tmp_path / f"again{name}")
    again = nibabel.load(tmp_path / f"again{name}")
    assert again.get_data_dtype().newbyteorder("=") == np.dtype(dtype)
    np.testing.assert_array_equal(np.asanyarray(again.dataobj), np.asanyarray(image.dataobj))
    np.testing.assert_allclose(again.affine, image.affine, atol=1e-5)


def test_what_mgh_does_not_hold_is_refused(tmp_path):
    sheared = Sequence(VOXELS[..., None], "DHWC", affine=AFFINE)
    with pytest.raises(ParameterError, match="the affine has a shear, which MGH does not store"):
        save(sheared, tmp_path / "a.mgz")
    large = Sequence(np.full((2, 2, 2, 1), 1 << 40), "DHWC", affine=np.eye(4))
    with pytest.raises(ParameterError, match="MGH has no type for these values of int64"):
        save(large, tmp_path / "a.mgz")
    assert not list(tmp_path.iterdir())


def test_an_mgh_header_without_directions_and_with_an_unknown_type(tmp_path):
    nibabel = needs("nibabel")
    nibabel.save(nibabel.MGHImage(VOXELS.T, np.eye(4)), tmp_path / "a.mgh")
    data = bytearray((tmp_path / "a.mgh").read_bytes())
    data[28:30] = b"\0\0"
    (tmp_path / "b.mgh").write_bytes(data)
    volume = seqpipe.open(tmp_path / "b.mgh")
    assert volume.info.space == "assumed"
    # columns to the left, rows to the feet, slices to the front, about the center
    np.testing.assert_allclose(volume.affine[:3] @ [1.5, 2, 2.5, 1], 0)
    assert volume.orientation == "LIA"
    with pytest.raises(UnreadableSourceError, match=r"promises .* bytes, but the file has"):
        seqpipe.open(bytes(data[:300]))


@pytest.mark.parametrize("kind", ["AnalyzeImage", "Spm99AnalyzeImage", "Spm2AnalyzeImage"])
@pytest.mark.parametrize("dtype", ["u1", "f4"])
def test_analyze_is_as_in_nibabel(tmp_path, kind, dtype):
    nibabel = needs("nibabel")
    matrix = np.diag([-2.0, 3.0, 4.0, 1.0])
    matrix[:3, 3] = [20, -9, -4]
    nibabel.save(getattr(nibabel, kind)(VOXELS.T.astype(dtype), matrix), tmp_path / "a.img")
    for extra in tmp_path.glob("*.mat"):
        extra.unlink()  # SPM's matrix, which is not a part of the format
    image = nibabel.load(tmp_path / "a.img")
    for name in ("a.img", "a.hdr"):
        with seqpipe.open(tmp_path / name) as volume:
            assert volume.info.format == "analyze"
            assert_same(volume, image)
    (tmp_path / "a.img").unlink()
    with pytest.raises(SourceError, match="the voxels of this ANALYZE header are missing"):
        seqpipe.open(tmp_path / "a.hdr")


def data_of(library, *parts):
    path = Path(needs(library).__file__).parent.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"the package {library} is installed without its test files")
    return path


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("minc1_1_scale.mnc", "minc"),
        ("minc1_4d.mnc", "minc"),
        ("minc2_1_scale.mnc", "minc"),
        ("minc2_4d.mnc", "minc"),
        ("small.mnc", "minc"),
        ("tiny.mnc", "minc"),
        ("test.mgz", "mgh"),
        ("example4d+orig.HEAD", "afni"),
        ("example4d+orig.BRIK.gz", "afni"),
        ("scaled+tlrc.BRIK", "afni"),
        ("tinypet.v", "ecat"),
        ("phantom_varscale.PAR", "parrec"),
        ("phantom_EPI_asc_CLEAR_2_1.REC", "parrec"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_files_of_nibabel_s_own_tests(name, form):
    nibabel = needs("nibabel")
    path = data_of("nibabel", "tests", "data", name)
    image = nibabel.ecat.load(path) if form == "ecat" else nibabel.load(path)
    with seqpipe.open(path) as volume:
        assert volume.info.format == form
        found, want, affine = volume.sequence(), np.asanyarray(image.dataobj), np.asarray(image.affine)
        if form != "minc":
            want, affine = want.T, affine[:, [2, 1, 0, 3]]
        np.testing.assert_allclose(
            found.data[..., 0], want.reshape(found.data.shape[:-1]), rtol=1e-6, atol=1e-7
        )
        np.testing.assert_allclose(volume.affine, affine, atol=1e-6)
        np.testing.assert_array_equal(volume[1:3, 2:4, 1:5].data, found.data[..., 1:3, 2:4, 1:5, :])
    if form == "minc":
        np.testing.assert_array_equal(seqpipe.open(path.read_bytes()).sequence().data, found.data)


def test_a_missing_half_of_a_pair_is_named():
    with pytest.raises(SourceNotFoundError, match=r"a file that belongs to it is missing.*T1.REC"):
        seqpipe.open(data_of("nibabel", "tests", "data", "T1.PAR"))


@pytest.fixture
def hdf5(tmp_path):
    h5py = needs("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("scans/t1", data=VOXELS, chunks=(2, 2, 2), compression="gzip")
        file["scans/t1"].attrs["affine"] = AFFINE
        file["scans/series"] = RNG.random((2, 6, 3, 4, 5)).astype(np.float32)
        for number, label in enumerate("tczyx"):
            file["scans/series"].dims[number].label = label
        file["scans/series"].attrs["element_size_um"] = [4000.0, 500.0, 250.0]
        file["names"] = "no voxels"
    return tmp_path / "a.h5"


def test_hdf5_by_the_path_in_it(hdf5):
    h5py = needs("h5py")
    with seqpipe.open(f"{hdf5}::/scans/t1") as volume:
        np.testing.assert_array_equal(volume.sequence().data[..., 0], VOXELS)
        np.testing.assert_array_equal(volume.affine, AFFINE)
        np.testing.assert_array_equal(volume[1:2, 1:3, 2:5].data[..., 0], VOXELS[1:2, 1:3, 2:5])
        assert volume.info.compressed
    with seqpipe.open(hdf5, key="scans/series") as volume, h5py.File(hdf5) as file:
        want = np.moveaxis(file["scans/series"][()], 1, -1)
        np.testing.assert_array_equal(volume.sequence().data, want)
        np.testing.assert_array_equal(volume.sequence(times=[1]).data, want[1:])
        assert volume.spacing_mm == (4.0, 0.5, 0.25)
        assert volume.info.space == "element_size_um"
    np.testing.assert_array_equal(
        seqpipe.open(hdf5.read_bytes(), key="scans/t1").sequence().data[..., 0], VOXELS
    )


def test_hdf5_errors_say_what_there_is(hdf5, tmp_path):
    with pytest.raises(UnreadableSourceError, match=r"HDF5 file has 2 arrays.*scans/series, scans/t1.*key="):
        seqpipe.open(hdf5)
    with pytest.raises(UnreadableSourceError, match="HDF5 file has no array 'gone'"):
        seqpipe.open(f"{hdf5}::/gone")
    (tmp_path / "b.h5").write_bytes(hdf5.read_bytes()[:900])
    with pytest.raises(UnreadableSourceError, match="h5py cannot read it"):
        seqpipe.open(tmp_path / "b.h5")


@pytest.mark.parametrize("name", ["a.vtk", "a.gipl", "a.mrc"])
def test_files_of_itk(tmp_path, name):
    sitk = needs("SimpleITK")
    image = sitk.GetImageFromArray(VOXELS)
    image.SetSpacing((0.5, 0.75, 2.0))
    image.SetOrigin((10.0, -20.0, 30.0))
    sitk.WriteImage(image, str(tmp_path / name))
    before = locale.setlocale(locale.LC_ALL)
    image = sitk.ReadImage(str(tmp_path / name))
    locale.setlocale(locale.LC_ALL, before)
    for origin in (tmp_path / name, (tmp_path / name).read_bytes()):
        with seqpipe.open(origin) as volume:
            np.testing.assert_array_equal(volume.sequence().data[..., 0], sitk.GetArrayFromImage(image))
            assert volume.info.dtype == sitk.GetArrayFromImage(image).dtype
            for voxel in ((0, 0, 0), (2, 3, 4)):
                point = image.TransformIndexToPhysicalPoint(voxel[::-1])
                np.testing.assert_allclose((volume.affine @ [*voxel, 1])[:3], np.array(point) * [-1, -1, 1])
    assert locale.setlocale(locale.LC_ALL) == before, "ITK's reader of VTK files sets it"


def test_blosc2_arrays(tmp_path):
    blosc2 = needs("blosc2")
    blosc2.asarray(VOXELS, urlpath=str(tmp_path / "a.b2nd"), mode="w", chunks=(2, 2, 2))
    for origin in (tmp_path / "a.b2nd", (tmp_path / "a.b2nd").read_bytes()):
        with seqpipe.open(origin) as volume:
            np.testing.assert_array_equal(volume.sequence().data[..., 0], VOXELS)
            np.testing.assert_array_equal(volume[1:2, 1:3, 2:5].data[..., 0], VOXELS[1:2, 1:3, 2:5])
            assert volume.info.space == "assumed"


def test_cases_of_nnunet_s_preprocessed_folder_have_their_place(tmp_path):
    """The grid is judged by ITK: the borders of the cropped image are those of the resampled array."""
    blosc2, sitk = needs("blosc2"), needs("SimpleITK")
    image = sitk.GetImageFromArray(np.zeros((9, 12, 14), np.float32))
    image.SetSpacing((0.5, 0.75, 2.0))
    image.SetOrigin((10.0, -20.0, 30.0))
    image.SetDirection(np.linalg.qr(TURN[:3, :3])[0].ravel())
    itk = {"spacing": image.GetSpacing(), "origin": image.GetOrigin(), "direction": image.GetDirection()}
    properties = {
        "sitk_stuff": itk,
        "spacing": [2.0, 0.75, 0.5],
        "bbox_used_for_cropping": [[1, 9], [2, 12], [0, 14]],
        "shape_after_cropping_and_before_resampling": (8, 10, 14),
        "class_locations": {1: np.zeros((2, 4), np.int64)},
    }
    data = RNG.random((6, 16, 5, 7)).astype(np.float32)
    blosc2.asarray(data, urlpath=str(tmp_path / "c.b2nd"), mode="w")
    blosc2.asarray(data[:1].astype(np.int8), urlpath=str(tmp_path / "c_seg.b2nd"), mode="w")
    (tmp_path / "c.pkl").write_bytes(pickle.dumps(properties))
    volume, labels = seqpipe.open(tmp_path / "c.b2nd"), seqpipe.open(tmp_path / "c_seg.b2nd")
    np.testing.assert_array_equal(volume.sequence().data, np.moveaxis(data, 0, -1))
    np.testing.assert_array_equal(volume.affine, labels.affine)
    for corner in np.ndindex(2, 2, 2):
        mine = volume.affine @ [*(np.array(corner) * (16, 5, 7) - 0.5), 1]
        stored = np.array([1, 2, 0]) + np.array(corner) * (8, 10, 14) - 0.5
        point = image.TransformContinuousIndexToPhysicalPoint(stored[::-1].tolist())
        np.testing.assert_allclose(mine[:3], np.array(point) * [-1, -1, 1], atol=1e-9)
    (tmp_path / "c.pkl").write_bytes(pickle.dumps(Path("x")))
    with pytest.raises(UnreadableSourceError, match=r"pathlib.* is not read"):
        seqpipe.open(tmp_path / "c.b2nd")


def test_tensors_of_torch(tmp_path):
    torch = needs("torch")
    tensors = {"image": torch.from_numpy(RNG.random((2, 3, 4, 5))), "affine": torch.from_numpy(AFFINE)}
    torch.save(tensors, tmp_path / "a.pt")
    torch.save(torch.from_numpy(VOXELS), tmp_path / "b.pt")
    for origin in (tmp_path / "a.pt", (tmp_path / "a.pt").read_bytes()):
        with seqpipe.open(origin) as volume:
            np.testing.assert_array_equal(
                volume.sequence().data, tensors["image"].permute(1, 2, 3, 0).numpy()
            )
            np.testing.assert_array_equal(volume.affine, AFFINE)
    np.testing.assert_array_equal(seqpipe.open(tmp_path / "b.pt").sequence().data[..., 0], VOXELS)
    torch.save({"x": Path("x")}, tmp_path / "c.pt")
    with pytest.raises(UnreadableSourceError, match="torch cannot read it"):
        seqpipe.open(tmp_path / "c.pt")


PACKERS = {"bz2": bz2.compress, "xz": lzma.compress, "gz": gzip.compress}


def zipped(files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return stream.getvalue()


@pytest.mark.parametrize("packing", ["bz2", "xz", "zip", "zip of gz"])
@pytest.mark.parametrize("name", ["nii", "nrrd", "mha", "npy", "tiff", "dicom_multi_frame"])
def test_packings_around_formats(tmp_path, name, packing):
    data = phantom_path(name).read_bytes()
    with seqpipe.open(phantom_path(name)) as volume:
        want, affine = volume.sequence().numpy(), volume.affine
    if packing.startswith("zip"):
        inner = gzip.compress(data) if packing != "zip" else data
        packed = zipped({"__MACOSX/._a": b"x", "folder/a": inner})
    else:
        packed = PACKERS[packing](data[: len(data) // 2]) + PACKERS[packing](data[len(data) // 2 :])
    path = tmp_path / f"a.{packing[:3].strip()}"
    path.write_bytes(packed)
    for origin in (path, packed):
        with seqpipe.open(origin) as volume:
            np.testing.assert_array_equal(volume.sequence().numpy(), want)
            np.testing.assert_array_equal(volume.affine, affine)
            np.testing.assert_array_equal(volume[1:2].data, want[..., 1:2, :, :, :])
    with pytest.raises((DamagedSourceError, UnreadableSourceError), match=r"damaged|ends after|holds"):
        seqpipe.open(packed[: len(packed) * 3 // 4]).sequence()


def test_archives_of_several_files(tmp_path):
    files = {f"s/{path.name}": path.read_bytes() for path in sorted(phantom_path("dicom").iterdir())}
    (tmp_path / "series.zip").write_bytes(zipped(files))
    with seqpipe.open(tmp_path / "series.zip") as volume, seqpipe.open(phantom_path("dicom")) as want:
        np.testing.assert_array_equal(volume.sequence().data, want.sequence().data)
        np.testing.assert_array_equal(volume.affine, want.affine)
    nii = phantom_path("nii").read_bytes()
    (tmp_path / "two.zip").write_bytes(zipped({"a.nii": nii, "b.nii": nii}))
    with pytest.raises(
        UnreadableSourceError, match=r"the archive holds 2 files.*a.nii, b.nii.*archive.zip::name"
    ):
        seqpipe.open(tmp_path / "two.zip")
    with seqpipe.open(f"{tmp_path / 'two.zip'}::b.nii") as volume:
        assert volume.info.source == f"{tmp_path / 'two.zip'}::b.nii"
        assert volume.info.format == "nifti"
    (tmp_path / "text.zip").write_bytes(zipped({"a.txt": b"hello"}))
    with pytest.raises(UnreadableSourceError, match="this is not a volume"):
        seqpipe.open(tmp_path / "text.zip")


def test_zarr_in_a_zip_archive(tmp_path):
    zarr = needs("zarr")
    with zarr.storage.ZipStore(str(tmp_path / "a.zarr.zip"), mode="w") as store:
        zarr.create_array(store, data=VOXELS)
    np.testing.assert_array_equal(seqpipe.open(tmp_path / "a.zarr.zip").sequence().data[..., 0], VOXELS)


def test_data_sets_of_other_formats(hdf5, tmp_path):
    nibabel = needs("nibabel")
    nibabel.save(nibabel.MGHImage((VOXELS.T > 0).astype(np.uint8), TURN[:, [0, 1, 2, 3]]), tmp_path / "l.mgz")
    nibabel.save(nibabel.Nifti1Image(VOXELS.T, nibabel.load(tmp_path / "l.mgz").affine), tmp_path / "i.nii")
    (tmp_path / "i.nii.bz2").write_bytes(bz2.compress((tmp_path / "i.nii").read_bytes()))
    case = {"image": tmp_path / "i.nii.bz2", "label": tmp_path / "l.mgz"}
    (sample,) = seqpipe.volumes([case])
    np.testing.assert_array_equal(sample["image"].data[..., 0], VOXELS)
    np.testing.assert_array_equal(sample["label"].numpy()[..., 0], VOXELS > 0)
    (sample,) = seqpipe.volumes([f"{hdf5}::/scans/t1"])
    np.testing.assert_array_equal(sample["image"].data[..., 0], VOXELS)
