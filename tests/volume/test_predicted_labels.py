"""Predicted labels: cleaned, measured beside a truth, and written in every format that has a place for them."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import seqpipe
from seqpipe.errors import ParameterError
from seqpipe.sequence import Sequence
from seqpipe.volume import (
    fill_holes,
    keep_largest,
    measure,
    remove_small,
    save,
    save_dicom_seg,
    to_labels,
    to_regions,
    write_table,
)
from tests.support.volumes import needs, phantom_path

AFFINE = np.array([[0, 0.2, 0.7, 3], [0.1, 1.5, 0, -4], [2.0, 0, 0.1, 5], [0, 0, 0, 1]])


def labels(data, affine=AFFINE):
    return Sequence(np.asarray(data, np.uint8)[..., None], "DHWC", affine=affine)


def blobs():
    rng = np.random.default_rng(2)
    ndimage = needs("scipy.ndimage")
    return (ndimage.gaussian_filter(rng.normal(size=(14, 20, 18)), 1.5) > 0.06).astype(np.uint8)


def test_the_largest_component_and_small_ones_as_itk_finds_them():
    sitk = needs("SimpleITK")
    data = blobs() * 2
    image = sitk.GetImageFromArray(data)
    for connectivity, full in ((1, False), (3, True)):
        parts = sitk.RelabelComponent(sitk.ConnectedComponent(image > 0, full), sortByObjectSize=True)
        judge = sitk.GetArrayFromImage(parts)
        found = keep_largest(labels(data), connectivity=connectivity).data[..., 0]
        assert np.array_equal(found == 2, judge == 1)
        kept = sitk.GetArrayFromImage(sitk.RelabelComponent(parts, minimumObjectSize=30)) > 0
        found = remove_small(labels(data), min_voxels=30, connectivity=connectivity).data[..., 0]
        assert np.array_equal(found == 2, kept)
        voxel = float(np.prod(labels(data).spacing_mm))
        by_mm = remove_small(labels(data), min_mm3=29.5 * voxel, connectivity=connectivity).data[..., 0]
        assert np.array_equal(by_mm, found)
    assert np.array_equal(keep_largest(labels(data), [1]).data[..., 0], data)
    with pytest.raises(ParameterError, match="min_mm3 and min_voxels exclude one another"):
        remove_small(labels(data))
    with pytest.raises(ParameterError, match="labels are float32"):
        keep_largest(Sequence(np.zeros((2, 2, 2, 1), np.float32), "DHWC"))


def test_holes_as_itk_fills_them():
    sitk = needs("SimpleITK")
    data = np.zeros((9, 10, 11), np.uint8)
    data[1:8, 1:9, 1:10] = 3
    data[3:5, 3:6, 3:6] = 0
    data[4, 4, 4] = 5
    data[:, 7, 7] = 0  # a channel is no hole in three dimensions, but one in each slice
    filled = sitk.GetArrayFromImage(sitk.BinaryFillhole(sitk.GetImageFromArray((data == 3).astype(np.uint8))))
    found = fill_holes(labels(data), [3]).data[..., 0]
    assert np.array_equal(found, np.where((filled > 0) & (data == 0), 3, data))
    assert found[4, 4, 4] == 5
    assert not found[:, 7, 7].any()
    assert (fill_holes(labels(data), [3], by_slice=True).data[2:7, 7, 7] == 3).all()


def test_regions_and_back():
    data = np.random.default_rng(0).choice([0, 1, 2, 4], (4, 5, 6))
    regions = {"WT": (1, 2, 4), "TC": (1, 4), "ET": (4,)}
    channels = to_regions(labels(data), regions)
    assert np.array_equal(channels.data, np.stack([np.isin(data, one) for one in regions.values()], axis=-1))
    assert np.array_equal(to_labels(channels, (2, 1, 4)).data[..., 0], data)
    with pytest.raises(ParameterError, match="there are 2 labels for"):
        to_labels(channels, (2, 1))


def surface(mask):
    """Voxels with a face beside another class, by hand."""
    padded = np.pad(mask, 1)
    inner = mask.copy()
    for axis in range(3):
        for step in (-1, 1):
            inner &= np.roll(padded, step, axis)[1:-1, 1:-1, 1:-1]
    return np.argwhere(mask & ~inner)


def test_measures_are_those_of_itk_and_of_all_pairs_of_voxels():
    sitk, distance = needs("SimpleITK"), needs("scipy.spatial.distance")
    one, other = blobs(), np.roll(blobs(), (1, 2), (0, 2)) * (np.indices((14, 20, 18)).sum(axis=0) > 12)
    affine = np.array([[0, 0, 0.8, 0], [0, 1.5, 0, 0], [2.0, 0, 0, 0], [0, 0, 0, 1]])
    (row,) = measure(labels(one, affine), labels(other, affine), case="a", tolerance_mm=1.2)
    images = [seqpipe.volume.to_sitk(labels(mask, affine)) for mask in (one, other)]
    overlap = sitk.LabelOverlapMeasuresImageFilter()
    overlap.Execute(*images)
    assert row.dice == pytest.approx(overlap.GetDiceCoefficient())
    assert row.volume_ml == pytest.approx(one.sum() * 2.4 / 1000)
    assert row.truth_ml == pytest.approx(other.sum() * 2.4 / 1000)
    pairs = distance.cdist(surface(one > 0) * [2.0, 1.5, 0.8], surface(other > 0) * [2.0, 1.5, 0.8])
    there, back = pairs.min(axis=1), pairs.min(axis=0)
    assert row.hd_mm == pytest.approx(max(there.max(), back.max()))
    assert row.hd95_mm == pytest.approx(max(np.percentile(there, 95), np.percentile(back, 95)))
    assert row.assd_mm == pytest.approx(np.r_[there, back].mean())
    assert row.surface_dice == pytest.approx(np.mean(np.r_[there, back] <= 1.2))
    hausdorff = sitk.HausdorffDistanceImageFilter()
    hausdorff.Execute(*images)
    assert row.hd_mm >= hausdorff.GetHausdorffDistance() - 1e-6  # of the sets, with their interiors


def test_measures_of_absent_classes_ignored_voxels_and_other_grids(tmp_path):
    truth, found = np.zeros((4, 5, 6)), np.zeros((4, 5, 6))
    truth[1, 1, 1:3], truth[0], found[1, 1, 1:3], found[0, 0] = 1, 9, 1, 1
    save(labels(truth), tmp_path / "truth.nii.gz")
    (row,) = measure(labels(found), tmp_path / "truth.nii.gz", ignore=9)
    assert (row.label, row.dice, row.hd_mm, row.case) == (1, 1.0, 0.0, str(tmp_path / "truth.nii.gz"))
    rows = measure(labels(found), labels(truth), [1, 2, 9], case="b")
    assert [one.dice for one in rows] == [pytest.approx(4 / 10), 1.0, 0.0]
    assert np.isnan(rows[2].hd_mm)
    write_table([*rows, *measure(labels(truth), labels(truth), [1], case="c")], tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [one["case"] for one in table] == ["b", "b", "b", "c", "mean", "mean", "mean"]
    assert float(table[4]["dice"]) == pytest.approx(0.7)
    with pytest.raises(ParameterError, match="on different grids"):
        measure(labels(found), labels(truth, AFFINE + np.eye(4)[:, [3, 0, 1, 2]]))


@pytest.mark.parametrize("ending", [".nii.gz", ".nrrd", ".mha", ".mgz"])
@pytest.mark.parametrize("shape", [(3, 4, 5, 1), (3, 4, 5, 2), (2, 3, 4, 5, 1)])
def test_saved_volumes_are_those_of_itk_and_come_back(tmp_path, ending, shape):
    sitk, rng = needs("SimpleITK"), np.random.default_rng(1)
    q, _ = np.linalg.qr(AFFINE[:3, :3])
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = q * [2.0, 1.5, 0.5], AFFINE[:3, 3]
    data = rng.integers(0, 200, shape).astype(np.int16)
    whole = Sequence(data, "FDHWC" if len(shape) == 5 else "DHWC", affine=affine)
    save(whole, tmp_path / f"a{ending}")
    again = seqpipe.open(tmp_path / f"a{ending}").sequence()
    if ending == ".mgz" and shape[-1] == 2:
        data = np.moveaxis(data, -1, 0)[..., None]  # channels are frames there
    assert np.array_equal(again.data, data)
    assert again.data.dtype == np.int16
    np.testing.assert_allclose(again.affine, affine, atol=1e-5)
    if ending == ".nrrd":
        judge, header = needs("nrrd").read(str(tmp_path / f"a{ending}"))
        assert np.array_equal(judge.T.reshape(data.shape), data)
        assert np.allclose(header["space origin"], affine[:3, 3] * [-1, -1, 1])
    if ending == ".mha" or (ending == ".nrrd" and len(shape) == 4):  # ITK does not read series of NRRD
        image = sitk.ReadImage(str(tmp_path / f"a{ending}"))
        judge = sitk.GetArrayFromImage(image)
        assert np.array_equal(judge.reshape(data.shape), data)
        for index in ((0, 0, 0), (2, 3, 4)):
            place = (*index[::-1], 0)[: image.GetDimension()]
            point = image.TransformIndexToPhysicalPoint(place)[:3]
            np.testing.assert_allclose((affine @ [*index, 1])[:3], np.array(point) * [-1, -1, 1], atol=1e-5)


def test_labels_become_a_dicom_segmentation_of_their_series(tmp_path):
    hd = needs("highdicom")
    with seqpipe.open(phantom_path("dicom")) as series:
        affine, grid = series.affine, series.info.grid
    data = np.zeros(grid, np.uint8)
    data[2:5, 3:9, 4:8], data[4, 4, 10:12] = 1, 7
    names = {1: "Liver", 7: "Tumor"}
    save_dicom_seg(labels(data, affine), tmp_path / "seg.dcm", phantom_path("dicom"), names)
    judge = hd.seg.segread(tmp_path / "seg.dcm")
    assert [judge.get_segment_description(n).segment_label for n in (1, 2)] == ["Liver", "Tumor"]
    assert judge.segmentation_type == hd.seg.SegmentationTypeValues.BINARY
    again = seqpipe.volume.LabelFiles(
        tmp_path / "seg.dcm", like=phantom_path("dicom"), classes={name: n for n, name in names.items()}
    )
    assert np.array_equal(seqpipe.open(again).sequence().data[..., 0], data)
    with pytest.raises(ParameterError, match="are not on the grid of the series"):
        save_dicom_seg(labels(data), tmp_path / "b.dcm", phantom_path("dicom"), names)
    with pytest.raises(ParameterError, match=r"names=\{\} is not valid"):
        save_dicom_seg(labels(data, affine), tmp_path / "b.dcm", phantom_path("dicom"), {})
    assert not (tmp_path / "b.dcm").exists()
