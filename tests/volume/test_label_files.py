"""Labels as clinics store them: DICOM segmentations and contours, masks of structures, regions; on the image's grid."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

import seqpipe
from seqpipe.errors import ParameterError, UnreadableSourceError
from seqpipe.sequence import Sequence
from seqpipe.volume import LabelFiles, save
from tests.support.volumes import needs, phantom_path

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)
ORGANS = ("Liver", "Tumor", "Kidney")


@pytest.fixture(scope="module")
def image():
    needs("pydicom")
    with seqpipe.open(phantom_path("dicom")) as volume:
        return volume.sequence()


@pytest.fixture(scope="module")
def masks(image):
    """A mask a structure, ``DHW``; the tumor is in the liver, and neither is in the first slices."""
    depth, height, width = np.indices(image.shape[:3])
    found = {}
    for name, center, radius in zip(ORGANS, ((4, 6, 6), (4, 6, 7), (6, 9, 12)), (4, 2, 3), strict=True):
        found[name] = (depth - center[0]) ** 2 + (height - center[1]) ** 2 + (
            width - center[2]
        ) ** 2 < radius**2
        assert found[name].any()
    return found


def datasets():
    """The data sets of the phantom's slices, in the order of our slices."""
    pydicom = needs("pydicom")
    found = [pydicom.dcmread(path) for path in sorted(phantom_path("dicom").iterdir())]
    normal = np.cross(found[0].ImageOrientationPatient[:3], found[0].ImageOrientationPatient[3:])
    return sorted(found, key=lambda one: np.dot(normal, one.ImagePositionPatient))


def segmentation(path, pixels, kind):
    """Write a segmentation by highdicom; ``pixels`` are ``DHWC``, a segment a channel, or labels ``DHW``."""
    hd, sr = needs("highdicom"), pytest.importorskip("highdicom.sr")
    code = sr.CodedConcept("85756007", "SCT", "Tissue")
    segments = [
        hd.seg.SegmentDescription(number, name, code, code, hd.seg.SegmentAlgorithmTypeValues.MANUAL)
        for number, name in enumerate(ORGANS, 1)
    ]
    series = datasets()
    for one in series:
        for keyword, value in (
            ("StudyInstanceUID", "1.2.3"),
            ("FrameOfReferenceUID", "1.2.4"),
            ("PatientName", "A"),
            ("PatientID", "1"),
            ("PatientBirthDate", ""),
            ("PatientSex", ""),
            ("AccessionNumber", ""),
            ("StudyID", "1"),
            ("StudyDate", ""),
            ("StudyTime", ""),
            ("ReferringPhysicianName", ""),
        ):
            if keyword not in one:
                setattr(one, keyword, value)
    options = {} if kind != "FRACTIONAL" else {"fractional_type": "PROBABILITY", "max_fractional_value": 200}
    hd.seg.Segmentation(
        series,
        pixels,
        hd.seg.SegmentationTypeValues(kind),
        segments,
        hd.UID(),
        1,
        hd.UID(),
        1,
        "seqpipe",
        "tests",
        "1",
        "0",
        **options,
    ).save_as(path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("labels")


@pytest.fixture(scope="module")
def files(folder, masks):
    apart = np.select([masks["Tumor"], masks["Liver"], masks["Kidney"]], [2, 1, 3]).astype(np.uint8)
    channels = np.stack([masks[name] for name in ORGANS], axis=-1)
    soft = (channels * np.array([0.25, 0.5, 1.0])).astype(np.float32)
    return (
        {
            "binary": segmentation(folder / "binary.dcm", channels.astype(np.uint8), "BINARY"),
            "apart": segmentation(folder / "apart.dcm", apart, "BINARY"),
            "labelmap": segmentation(folder / "labelmap.dcm", apart, "LABELMAP"),
            "fractional": segmentation(folder / "fractional.dcm", soft, "FRACTIONAL"),
        },
        apart,
        channels,
        soft,
    )


def test_segmentations_are_on_the_grid_of_the_image(files, image):
    paths, apart, _, _ = files
    for name in ("apart", "labelmap"):
        with seqpipe.open(LabelFiles(paths[name], like=phantom_path("dicom"))) as volume:
            assert np.array_equal(volume.sequence().data[..., 0], apart), name
            np.testing.assert_allclose(volume.affine, image.affine)
            assert volume.info.header["classes"] == {"1": "Liver", "2": "Tumor", "3": "Kidney"}
            assert np.array_equal(volume[2:5, 3:9, 4:8].data[..., 0], apart[2:5, 3:9, 4:8])


def test_segmentations_alone_have_the_place_of_highdicom_s_volume(files):
    hd = needs("highdicom")
    paths, apart, _, soft = files
    for name in ("apart", "labelmap", "fractional"):
        judge = hd.seg.segread(paths[name]).get_volume(
            combine_segments=name != "fractional", rescale_fractional=True
        )
        with seqpipe.open(paths[name]) as volume:
            found, affine = volume.sequence().numpy(), np.diag([-1.0, -1, 1, 1]) @ judge.affine
            assert volume.info.format == "dicom-seg"
        want = judge.array if judge.array.ndim == 4 else judge.array[..., None]
        places = np.argwhere(want.any(axis=-1))
        world = np.c_[places, np.ones(len(places))] @ affine.T
        mine = np.rint(world @ np.linalg.inv(volume.affine).T)[:, :3].astype(int)
        np.testing.assert_allclose(np.c_[mine, np.ones(len(mine))] @ volume.affine.T, world, atol=1e-3)
        np.testing.assert_allclose(found[tuple(mine.T)], want[tuple(places.T)], atol=3e-3)
        assert np.count_nonzero(found.any(axis=-1)) == len(places)
    assert np.count_nonzero(apart) == np.count_nonzero(soft.any(axis=-1))


def test_segments_that_overlap(files, image):
    paths, _, channels, soft = files
    like = {"like": phantom_path("dicom")}
    with pytest.raises(UnreadableSourceError, match=r"'Liver' and 'Tumor' overlap in \d+ voxels.*LabelFiles"):
        seqpipe.open(paths["binary"]).sequence()
    (one,) = [seqpipe.open(LabelFiles(paths["binary"], **like, overlap="channels")).sequence()]
    assert np.array_equal(one.data, channels)
    first = seqpipe.open(LabelFiles(paths["binary"], **like, overlap="first")).sequence().data[..., 0]
    last = seqpipe.open(LabelFiles(paths["binary"], **like, overlap="last")).sequence().data[..., 0]
    both = channels[..., 0] & channels[..., 1]
    assert set(first[both]) == {1}
    assert set(last[both]) == {2}
    half = seqpipe.open(LabelFiles(paths["fractional"], **like, classes={"Kidney": 7, "Tumor": 4})).sequence()
    assert np.array_equal(half.data[..., 0], np.where(channels[..., 2], 7, np.where(channels[..., 1], 4, 0)))
    with seqpipe.open(paths["binary"], key="Tumor") as tumor:
        assert tumor.sequence().data.sum() == channels[..., 1].sum()
    with pytest.raises(UnreadableSourceError, match=r"there is no segment 'Lung'; allowed: 1 \(Liver\)"):
        seqpipe.open(paths["binary"], key="Lung")
    with pytest.raises(
        UnreadableSourceError, match="there is no structure 'Lung'; allowed: Liver, Tumor, Kidney"
    ):
        seqpipe.open(LabelFiles(paths["binary"], classes=["Lung"]))
    assert soft.max() == 1


def test_a_segmentation_on_another_grid_goes_to_the_nearest_voxels(files, image):
    sitk = needs("SimpleITK")
    paths, apart, _, _ = files
    coarse = seqpipe.volume.resample(image, spacing_mm=(3.7, 2.6, 2.1))
    save(coarse, files[0]["apart"].with_name("coarse.nii.gz"))
    labels = seqpipe.open(
        LabelFiles(paths["apart"], like=paths["apart"].with_name("coarse.nii.gz"))
    ).sequence()
    source = seqpipe.volume.to_sitk(Sequence(apart[..., None], "DHWC", affine=image.affine))
    judge = sitk.Resample(
        source, seqpipe.volume.to_sitk(coarse), sitk.Transform(), sitk.sitkNearestNeighbor, 0
    )
    want = sitk.GetArrayFromImage(judge)
    assert labels.shape[:3] == want.shape
    assert np.mean(labels.data[..., 0] == want) > 0.99
    assert set(np.unique(labels.data)) <= {0, 1, 2, 3}


def structure_set(path, contours):
    """Write an RT structure set: name → polygons of points in mm, LPS."""
    pydicom = needs("pydicom")
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.sequence import Sequence as Items

    one = Dataset()
    one.file_meta = FileMetaDataset()
    one.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    one.file_meta.MediaStorageSOPClassUID = one.SOPClassUID = pydicom.uid.RTStructureSetStorage
    one.file_meta.MediaStorageSOPInstanceUID = one.SOPInstanceUID = pydicom.uid.generate_uid()
    one.Modality, one.SeriesInstanceUID = "RTSTRUCT", pydicom.uid.generate_uid()
    rois, outlines = [], []
    for number, (name, polygons) in enumerate(contours.items(), 3):
        roi, outline = Dataset(), Dataset()
        roi.ROINumber, roi.ROIName = number, name
        outline.ReferencedROINumber, items = number, []
        for points in polygons:
            item = Dataset()
            item.ContourGeometricType, item.NumberOfContourPoints = "CLOSED_PLANAR", len(points)
            item.ContourData = [f"{x:.6f}" for x in np.ravel(points)]
            items.append(item)
        outline.ContourSequence = Items(items)
        rois.append(roi)
        outlines.append(outline)
    one.StructureSetROISequence, one.ROIContourSequence = Items(rois), Items(outlines)
    one.save_as(path, enforce_file_format=True)
    return path


def polygon(rng, center, radius, count=17):
    angles = np.sort(rng.uniform(0, 2 * np.pi, count))
    reach = rng.uniform(0.4, 1.0, count) * radius
    return np.stack([center[0] + reach * np.sin(angles), center[1] + reach * np.cos(angles)], axis=1)


def in_mm(image, depth, rows_and_columns):
    index = np.c_[np.full(len(rows_and_columns), depth), rows_and_columns, np.ones(len(rows_and_columns))]
    return (index @ image.affine.T)[:, :3] * [-1, -1, 1]


def test_contours_fill_the_voxels_whose_centers_opencv_finds_inside(folder, image):
    rng = np.random.default_rng(5)
    size = image.shape[1:3]
    outlines = {
        depth: [
            polygon(rng, (size[0] / 2, size[1] / 2), 9),
            polygon(rng, (size[0] / 2, size[1] / 2), 3),  # a hole, or an island across the border
            polygon(rng, (1, 2), 5),  # over the border of the image
        ]
        for depth in range(1, 6)
    }
    want = np.zeros(image.shape[:3], bool)
    for depth, polygons in outlines.items():
        for points in polygons:
            flat = points[:, ::-1].astype(np.float32).reshape(-1, 1, 2)
            for row, column in np.ndindex(*size):
                want[depth, row, column] ^= cv2.pointPolygonTest(flat, (column, row), measureDist=False) > 0
    contours = [in_mm(image, depth, points) for depth, polygons in outlines.items() for points in polygons]
    path = structure_set(folder / "rt.dcm", {"Empty": [], "Heart": contours})
    with seqpipe.open(LabelFiles(path, like=phantom_path("dicom"), classes={"Heart": 5})) as volume:
        found = volume.sequence()
        assert np.array_equal(found.data[..., 0] == 5, want)
        assert np.array_equal(volume[2:4, 1:9, 3:12].data, found.data[2:4, 1:9, 3:12])
        np.testing.assert_array_equal(found.affine, image.affine)


def test_contours_that_are_not_of_the_image_are_refused(folder, image):
    square = np.array([[2.5, 2.5], [2.5, 6.5], [6.5, 6.5], [6.5, 2.5]])
    good = in_mm(image, 2, square)
    path = structure_set(folder / "far.dcm", {"Lung": [good, good + np.array([0, 0, 900])]})
    like = {"like": phantom_path("dicom")}
    with pytest.raises(
        UnreadableSourceError, match=r"a contour of 'Lung' is outside of the image, around .*'skip'"
    ):
        seqpipe.open(LabelFiles(path, **like)).sequence()
    assert seqpipe.open(LabelFiles(path, **like, outside="skip")).sequence().data.sum() == 16
    upright = (np.c_[square[:, 0], np.full(4, 5.0), square[:, 1], np.ones(4)] @ image.affine.T)[:, :3] * [
        -1,
        -1,
        1,
    ]
    path = structure_set(folder / "upright.dcm", {"Lung": [upright]})
    with pytest.raises(UnreadableSourceError, match="a contour of 'Lung' goes through 5 slices of the image"):
        seqpipe.open(LabelFiles(path, **like)).sequence()
    with pytest.raises(ParameterError, match="contours have no grid of their own"):
        seqpipe.open(LabelFiles(path))


def test_one_file_a_structure(tmp_path, image, masks):
    paths = {}
    for name, mask in masks.items():
        paths[name] = tmp_path / f"{name}.nii.gz"
        save(Sequence(mask.astype(np.float32)[..., None], "DHWC", affine=image.affine), paths[name])
    with pytest.raises(UnreadableSourceError, match="'Liver' and 'Tumor' overlap in"):
        seqpipe.open(paths).sequence()
    merged = seqpipe.open(LabelFiles(paths, overlap="last")).sequence()
    want = np.select([masks["Kidney"], masks["Tumor"], masks["Liver"]], [3, 2, 1])
    assert np.array_equal(merged.data[..., 0], want)
    channels = seqpipe.open(LabelFiles(paths, overlap="channels")).sequence()
    assert np.array_equal(channels.data, np.stack([*masks.values()], axis=-1))
    chosen = seqpipe.open(LabelFiles(paths, classes=["Kidney", "Liver"])).sequence()
    assert np.array_equal(chosen.data[..., 0], np.where(masks["Kidney"], 1, np.where(masks["Liver"], 2, 0)))
    save(
        Sequence(masks["Liver"][1:, ..., None].astype(np.uint8), "DHWC", affine=image.affine), paths["Liver"]
    )
    with pytest.raises(UnreadableSourceError, match="the mask of 'Tumor' is on another grid"):
        seqpipe.open(LabelFiles(paths, overlap="last"))
    with pytest.raises(ParameterError, match="different numbers from 1 to 65535"):
        LabelFiles(paths, classes={"Liver": 1, "Tumor": 1})


def test_regions_of_brats_overlap_as_channels(tmp_path):
    labels = np.random.default_rng(0).choice([0, 1, 2, 4], (4, 5, 6)).astype(np.int16)
    save(Sequence(labels[..., None], "DHWC", affine=np.eye(4)[:, [2, 1, 0, 3]]), tmp_path / "seg.nii.gz")
    regions = {"WT": (1, 2, 4), "TC": (1, 4), "ET": (4,)}
    with seqpipe.open(LabelFiles(tmp_path / "seg.nii.gz", regions=regions)) as volume:
        want = np.stack([np.isin(labels, one) for one in regions.values()], axis=-1)
        assert np.array_equal(volume.sequence().data, want)
        assert volume.info.header["classes"] == {"1": "WT", "2": "TC", "3": "ET"}
    with pytest.raises(ParameterError, match="regions are made of the labels of one label map"):
        LabelFiles({"a": "b"}, regions=regions)
