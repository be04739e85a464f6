"""Public data sets of volumes: what a folder holds, what is missing, and that a dataset takes it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import seqpipe
from seqpipe import Prepare
from seqpipe.errors import ManifestError, ParameterError, SourceError, SourceNotFoundError
from seqpipe.readers import published_volumes
from seqpipe.volume import save, save_dicom_seg

AFFINE = np.eye(4)[:, [2, 1, 0, 3]]


def volume(number, *, size=6):
    return seqpipe.Sequence(np.full((size, size, size, 1), number, np.int16), "DHWC", affine=AFFINE)


@pytest.fixture
def spleen(tmp_path):
    """A task as it is unpacked: relative names with ./ in front, and what macOS leaves beside files."""
    root = tmp_path / "Task09_Spleen"
    for name in ("imagesTr", "labelsTr", "imagesTs"):
        (root / name).mkdir(parents=True)
    numbers = (2, 10, 13)
    for number in numbers:
        save(volume(number), root / f"imagesTr/spleen_{number}.nii.gz")
        save(volume(number % 2), root / f"labelsTr/spleen_{number}.nii.gz")
        (root / f"imagesTr/._spleen_{number}.nii.gz").write_bytes(b"Mac OS X")
    save(volume(7), root / "imagesTs/spleen_7.nii.gz")
    told = {
        "name": "Spleen",
        "labels": {"0": "background", "1": "spleen"},
        "numTraining": 3,
        "numTest": 1,
        "training": [
            {"image": f"./imagesTr/spleen_{n}.nii.gz", "label": f"./labelsTr/spleen_{n}.nii.gz"}
            for n in numbers
        ],
        "test": ["./imagesTs/spleen_7.nii.gz"],
    }
    (root / "dataset.json").write_text(json.dumps(told), encoding="utf-8")
    return root


def test_a_task_of_the_decathlon_is_listed_and_read(spleen):
    found = published_volumes.decathlon(spleen).checked()
    assert found.subjects == ("spleen_2", "spleen_10", "spleen_13")
    assert found.classes == {0: "background", 1: "spleen"}
    assert len(found.test) == 1
    assert found.missing == found.unexpected == found.notes == ()
    assert str(found) == (
        "Medical Segmentation Decathlon, Spleen: 3 cases (image, label)\n1 cases for testing\n"
        "classes: 0 background, 1 spleen\nnothing is missing"
    )
    cases = seqpipe.cases(found.files, subjects=found.subjects)
    assert [case.subject for case in cases] == list(found.subjects)
    with seqpipe.volumes(cases, 4) as dataset:
        sample = dataset.sample(1)
        assert (sample["image"].data == 10).all()
        assert (sample["label"].data == 0).all()


def test_what_is_missing_is_named_and_the_rest_can_be_used(spleen):
    (spleen / "labelsTr/spleen_10.nii.gz").unlink()
    (spleen / "imagesTs/spleen_7.nii.gz").unlink()
    (spleen / "imagesTr/spleen_99.nii.gz").write_bytes(b"")
    told = json.loads((spleen / "dataset.json").read_text(encoding="utf-8"))
    (spleen / "dataset.json").write_text(json.dumps({**told, "numTraining": 41}), encoding="utf-8")
    found = published_volumes.decathlon(spleen)
    assert found.missing == ("labelsTr/spleen_10.nii.gz", "imagesTs/spleen_7.nii.gz")
    assert found.unexpected == ("imagesTr/spleen_99.nii.gz",)
    assert found.notes == ("dataset.json declares 41 cases for training, and lists 3",)
    assert found.subjects == ("spleen_2", "spleen_13")
    with pytest.raises(
        SourceNotFoundError, match=r"2 files are missing: labelsTr/spleen_10\.nii\.gz, imagesTs"
    ):
        found.checked()


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        (None, SourceNotFoundError, r"there is no dataset\.json"),
        ("{", ManifestError, "it cannot be read"),
        ("[]", ManifestError, "it holds a list; allowed: a JSON object"),
        ('{"name": "x"}', ManifestError, "it does not describe a task"),
    ],
)
def test_a_folder_that_is_no_task_says_so(tmp_path, text, error, said):
    if text is not None:
        (tmp_path / "dataset.json").write_text(text, encoding="utf-8")
    with pytest.raises(error, match=said):
        published_volumes.decathlon(tmp_path)


@pytest.fixture
def brains(tmp_path):
    for subject, kinds in {
        "IXI002-Guys-0828": "T1 T2 PD",
        "IXI012-HH-1211": "T1 T2",
        "IXI013-HH-1212": "T2",
    }.items():
        for kind in kinds.split():
            folder = tmp_path / f"IXI-{kind}"
            folder.mkdir(exist_ok=True)
            save(
                volume(int(subject[3:6]), size=4 if kind == "T1" else 6), folder / f"{subject}-{kind}.nii.gz"
            )
    (tmp_path / "IXI-T1" / "IXI.xls").write_bytes(b"")
    return tmp_path


def test_ixi_pairs_the_modalities_of_subjects(brains):
    found = published_volumes.ixi(brains)
    assert found.subjects == ("IXI002-Guys-0828", "IXI012-HH-1211")
    assert [list(case) for case in found.files] == [["t1", "t2"]] * 2
    assert found.missing == ("IXI013-HH-1212-T1.nii.gz",)
    assert found.notes[0] == "2 files of T1, and 581 in the publisher's archive"
    with seqpipe.volumes(found.files, prepare=Prepare(align="first")) as dataset:
        sample = dataset.sample(1)
        assert sample["t1"].shape == sample["t2"].shape == (4, 4, 4, 1)
        assert (sample["t2"].data == 12).all()
    assert published_volumes.ixi(brains, ["PD"]).subjects == ("IXI002-Guys-0828",)


def test_wrong_arguments_are_refused(brains):
    with pytest.raises(
        ParameterError, match=r"modalities=\['FLAIR'\] is not valid; allowed: T1, T2, PD, MRA"
    ):
        published_volumes.ixi(brains, ["FLAIR"])
    with pytest.raises(SourceNotFoundError, match="no such folder"):
        published_volumes.ixi(brains / "none")
    with pytest.raises(SourceNotFoundError, match="there is no complete case"):
        published_volumes.ixi(brains, ["MRA"]).checked()


def _manifest(path, rows, form):
    columns = [*dict.fromkeys(name for row in rows for name in row)]
    if form == "csv":
        lines = [",".join(columns), *(",".join(row.get(name, "") for name in columns) for row in rows)]
        path.write_text("\n".join(lines), encoding="utf-8")
    elif form == "columns":  # pandas' to_json
        table = {name: {str(n): row.get(name) for n, row in enumerate(rows)} for name in columns}
        path.write_text(json.dumps(table), encoding="utf-8")
    else:
        path.write_text(json.dumps(rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("form", ["csv", "json", "columns"])
def test_series_of_the_imaging_data_commons_with_their_segmentations(tmp_path, form):
    pytest.importorskip("highdicom")
    from data_scripts.volume_dicom import slices_of, write_slices

    voxels = np.arange(4 * 5 * 6, dtype=np.int16).reshape(4, 5, 6)
    rows = []
    for n, modality in enumerate(("CT", "CT", "SEG", "PR")):
        uid = f"1.2.3.{n}"
        row = {
            "PatientID": f"p{min(n, 1)}",
            "SeriesInstanceUID": uid,
            "Modality": modality,
            "collection_id": "c",
        }
        rows.append(row | {"StudyInstanceUID": f"9.{min(n, 1)}"})
        if modality == "CT":
            write_slices(tmp_path / f"c/p{n}/9.{n}/CT_{uid}", slices_of(voxels + n, AFFINE, uid=uid))
    mask = seqpipe.Sequence((voxels > 50).astype(np.uint8)[..., None], "DHWC", affine=AFFINE)
    (tmp_path / "c/p1/9.1/SEG_1.2.3.2").mkdir()
    save_dicom_seg(
        mask, tmp_path / "c/p1/9.1/SEG_1.2.3.2/1.dcm", tmp_path / "c/p1/9.1/CT_1.2.3.1", {1: "Liver"}
    )
    manifest = _manifest(tmp_path / f"list.{'csv' if form == 'csv' else 'json'}", rows, form)
    found = published_volumes.idc(manifest, tmp_path).checked()
    assert found.subjects == ("c/p1",)
    assert len(found.test) == 1
    (sample,) = seqpipe.volumes(found.cases)
    np.testing.assert_array_equal(sample["image"].data[..., 0], voxels + 1)
    np.testing.assert_array_equal(sample["label"].data, mask.data)
    rows.append({"PatientID": "p9", "SeriesInstanceUID": "1.2.3.9", "Modality": "CT"})
    with pytest.raises(SourceNotFoundError, match=r"1 files are missing: 1\.2\.3\.9 of p9"):
        published_volumes.idc(_manifest(manifest, rows, form), tmp_path).checked()
    with pytest.raises(ManifestError, match=r"row 1 names no series of a patient, but Modality"):
        published_volumes.idc(_manifest(manifest, [{"Modality": "CT"}], form), tmp_path)


def _tree(root):
    """Two patients: one with a segmentation, one with two series in one folder, and a report of text."""
    from data_scripts.volume_dicom import slices_of, write_slices

    voxels = np.arange(4 * 5 * 6, dtype=np.int16).reshape(4, 5, 6)
    for number, place in enumerate(("p0/s0/a", "p1/s1/a", "p1/s1/b")):
        slices = slices_of(voxels + number, AFFINE, uid=f"1.2.{number}")
        for one in slices:
            one.PatientID, one.StudyInstanceUID, one.Modality = place[:2], f"9.{place[1]}", "CT"
            one.StudyDate, one.StudyTime, one.StudyID, one.SeriesNumber = (
                "20260101",
                "120000",
                "1",
                number + 1,
            )
        write_slices(root / place, slices)
    for path in sorted((root / "p1/s1/b").iterdir()):
        path.rename(root / "p1/s1/a" / f"b{path.name}")
    (root / "p1/s1/b").rmdir()
    (root / "p0/notes.txt").write_text("no DICOM")
    mask = seqpipe.Sequence((voxels > 50).astype(np.uint8)[..., None], "DHWC", affine=AFFINE)
    (root / "p0/s0/seg").mkdir()
    save_dicom_seg(mask, root / "p0/s0/seg/1.dcm", root / "p0/s0/a", {1: "Liver"})
    return voxels, mask


def _directory(root):
    """A medium with a DICOMDIR, written by pydicom."""
    from pydicom.fileset import FileSet

    medium = FileSet()
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix != ".txt":
            medium.add(path)
    (root.parent / "medium").mkdir()
    medium.write(root.parent / "medium")
    medium._stage["t"].cleanup()  # else it warns at the end
    return root.parent / "medium/DICOMDIR"


@pytest.mark.filterwarnings("ignore::UserWarning")  # of pydicom's writer, on fields that a medium wants
@pytest.mark.parametrize("form", ["folder", "DICOMDIR"])
def test_a_tree_of_dicom_files_is_listed_and_read_by_its_series(tmp_path, form):
    pytest.importorskip("highdicom")
    (tmp_path / "tree").mkdir()
    voxels, mask = _tree(tmp_path / "tree")
    root = tmp_path / "tree" if form == "folder" else _directory(tmp_path / "tree")
    found = published_volumes.dicom(root).checked()
    assert found.subjects == ("p0",)
    (sample,) = seqpipe.volumes(found.cases)
    np.testing.assert_array_equal(sample["image"].data[..., 0], voxels)
    np.testing.assert_array_equal(sample["label"].data, mask.data)
    for number, case in enumerate(found.test, 1):
        with seqpipe.open(case["image"]) as volume:
            np.testing.assert_array_equal(volume.sequence().data[..., 0], voxels + number)
    for door in ({"source": root, "series": "1.2.2"}, {"source": f"{root}::1.2.2"}):
        with seqpipe.open(**door) as volume:
            np.testing.assert_array_equal(volume.sequence().data[..., 0], voxels + 2)
    with pytest.raises(SourceError, match=r"there are 4 series; allowed: .*1\.2\.0 .*4 files"):
        seqpipe.open(root)
    assert published_volumes.dicom(root, modalities=["MR"]).files == ()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_medium_without_its_files_and_a_folder_without_series_say_so(tmp_path):
    (tmp_path / "tree").mkdir()
    with pytest.raises(SourceError, match="there is no DICOM series"):
        published_volumes.dicom(tmp_path / "tree")
    pytest.importorskip("highdicom")
    _tree(tmp_path / "tree")
    directory = _directory(tmp_path / "tree")
    next(path for path in (tmp_path / "medium").rglob("*") if path.is_file() and path != directory).unlink()
    with pytest.raises(SourceError, match="1 of the 13 listed files do not exist, such as "):
        seqpipe.open(directory)
