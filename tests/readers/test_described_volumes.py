"""Data sets of volumes by their own description: nnU-Net, BraTS, BIDS and manifests, listed and read."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import seqpipe
from seqpipe.errors import ManifestError, ParameterError, SourceNotFoundError
from seqpipe.readers import published_volumes
from seqpipe.volume import LabelFiles, save
from tests.support.volumes import needs

AFFINE = np.eye(4)[:, [2, 1, 0, 3]]


def write(path, number, kind=np.int16):
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.full((4, 5, 6, 1), 0, kind)
    values[1:3, 1:3, 1:3] = number
    save(seqpipe.Sequence(values, "DHWC", affine=AFFINE), path)


def read(found):
    return [
        {name: part.numpy() for name, part in one.items() if hasattr(part, "numpy")}
        for one in seqpipe.volumes(found.cases)
    ]


@pytest.fixture
def raw(tmp_path):
    root = tmp_path / "nnUNet_raw" / "Dataset001_Tumor"
    for number, name in enumerate(("a_2", "a_10", "b"), 1):
        for channel in (0, 1):
            write(root / f"imagesTr/{name}_{channel:04d}.nii.gz", 10 * number + channel)
        write(root / f"labelsTr/{name}.nii.gz", number, np.uint8)
    write(root / "imagesTs/c_0000.nii.gz", 5)
    write(root / "imagesTs/c_0001.nii.gz", 6)
    told = {
        "channel_names": {"0": "T1", "1": "FLAIR"},
        "labels": {"background": 0, "whole": [1, 2, 3], "core": [2, 3], "ignore": 4},
        "regions_class_order": [1, 2],
        "numTraining": 3,
        "file_ending": ".nii.gz",
    }
    (root / "dataset.json").write_text(json.dumps(told), encoding="utf-8")
    return root


def test_raw_folders_of_nnunet(raw):
    found = published_volumes.nnunet_raw(raw).checked()
    assert found.subjects == ("a_10", "a_2", "b")
    assert found.regions == {"whole": (1, 2, 3), "core": (2, 3)}
    assert found.ignore == 4
    assert len(found.test) == 1
    assert set(found.test[0]) == {"T1", "FLAIR"}
    assert found.notes == found.missing == found.unexpected == ()
    samples = read(found)
    assert [int(one["T1"].max()) for one in samples] == [20, 10, 30]
    assert [int(one["FLAIR"].max()) for one in samples] == [21, 11, 31]
    assert [int(one["label"].max()) for one in samples] == [2, 1, 3]
    channels = read(published_volumes.nnunet_raw(raw, regions=True))
    assert [one["label"].shape for one in channels] == [(4, 5, 6, 2)] * 3
    assert [one["label"].max(axis=(0, 1, 2)).tolist() for one in channels] == [[1, 1], [1, 0], [1, 1]]
    train = seqpipe.volumes(found.cases.fold(0, 2), seqpipe.Patch(2))
    held_out = seqpipe.volumes(found.cases.fold(0, 2, validation=True), seqpipe.Patch(2))
    assert train.size + held_out.size == 3


def test_raw_folders_with_a_list_of_files_and_with_files_missing(raw):
    told = json.loads((raw / "dataset.json").read_text())
    (raw / "imagesTr/b_0001.nii.gz").unlink()
    found = published_volumes.nnunet_raw(raw)
    assert found.missing == ("imagesTr/b_0001.nii.gz",)
    assert found.subjects == ("a_10", "a_2")
    with pytest.raises(SourceNotFoundError, match=r"1 files are missing: imagesTr/b_0001.nii.gz"):
        found.checked()
    told["dataset"] = {
        "x": {"images": [f"imagesTr/a_2_000{n}.nii.gz" for n in (0, 1)], "label": "labelsTr/a_2.nii.gz"}
    }
    (raw / "dataset.json").write_text(json.dumps(told), encoding="utf-8")
    found = published_volumes.nnunet_raw(raw)
    assert found.subjects == ("x",)
    assert found.notes == ("dataset.json declares 3 cases for training, and there are 1",)
    del told["channel_names"]
    (raw / "dataset.json").write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(ManifestError, match=r"it does not describe a data set.*channel_names"):
        published_volumes.nnunet_raw(raw)


def test_preprocessed_folders_of_nnunet(tmp_path):
    blosc2 = needs("blosc2")
    root = tmp_path / "Dataset002_X" / "nnUNetPlans_3d_fullres"
    root.mkdir(parents=True)
    for number, name in enumerate(("a", "b")):
        data = np.full((2, 3, 4, 5), number, np.float32)
        blosc2.asarray(data, urlpath=str(root / f"{name}.b2nd"), mode="w")
        blosc2.asarray(data[:1].astype(np.int8), urlpath=str(root / f"{name}_seg.b2nd"), mode="w")
        (root / f"{name}.pkl").write_bytes(pickle.dumps({"spacing": [3.0, 2.0, 1.0]}))
    (root.parent / "dataset.json").write_text('{"labels": {"background": 0, "organ": 1}}')
    found = published_volumes.nnunet_preprocessed(root).checked()
    assert found.classes == {0: "background", 1: "organ"}
    assert found.unexpected == ()
    (first, second) = seqpipe.volumes(found.cases)
    assert first["image"].shape == (3, 4, 5, 2)
    assert first["image"].spacing_mm == (3.0, 2.0, 1.0)
    assert int(second["label"].numpy().max()) == 1


@pytest.mark.parametrize(
    ("name", "mark", "modalities", "enhancing"),
    [
        ("BraTS2021_{:05d}", "_", ("t1", "t1ce", "t2", "flair"), 4),
        ("BraTS-GLI-00001-{:03d}", "-", ("t1n", "t1c", "t2w", "t2f"), 3),
    ],
)
def test_folders_of_brats(tmp_path, name, mark, modalities, enhancing):
    for number in (1, 2, 3):
        case = name.format(number)
        for value, one in enumerate(modalities):
            write(tmp_path / case / f"{case}{mark}{one}.nii.gz", value + 1)
        if number < 3:
            write(tmp_path / case / f"{case}{mark}seg.nii.gz", (2, enhancing)[number - 1], np.uint8)
    found = published_volumes.brats(tmp_path).checked()
    assert len(found.files) == 2
    assert len(found.test) == 1
    assert found.subjects == (
        (name.format(1), name.format(2)) if enhancing == 4 else ("BraTS-GLI-00001",) * 2
    )
    samples = read(found)
    assert [[int(one[m].max()) for m in modalities] for one in samples] == [[1, 2, 3, 4]] * 2
    regions = read(published_volumes.brats(tmp_path, regions=True))
    assert [one["label"].max(axis=(0, 1, 2)).tolist() for one in regions] == [[1, 0, 0], [1, 1, 1]]
    (tmp_path / name.format(2) / f"{name.format(2)}{mark}{modalities[1]}.nii.gz").unlink()
    assert published_volumes.brats(tmp_path).missing == (
        f"{name.format(2)}/{name.format(2)}{mark}{modalities[1]}.nii.gz",
    )


def test_bids_with_derivatives_and_sessions(tmp_path):
    for number, session in enumerate(("sub-01", "sub-02/ses-a", "sub-02/ses-b"), 1):
        stem = session.replace("/", "_")
        write(tmp_path / session / "anat" / f"{stem}_T1w.nii.gz", number)
        write(tmp_path / session / "anat" / f"{stem}_acq-3d_FLAIR.nii", 10 + number)
        (tmp_path / session / "anat" / f"{stem}_T1w.json").write_text("{}")
        if number < 3:
            write(
                tmp_path / "derivatives/manual" / session / "anat" / f"{stem}_desc-lesion_mask.nii.gz",
                1,
                np.uint8,
            )
            write(
                tmp_path / "derivatives/manual" / session / "anat" / f"{stem}_desc-brain_mask.nii.gz",
                1,
                np.uint8,
            )
    query = {"t1": "T1w", "flair": "acq-3d_FLAIR"}
    found = published_volumes.bids(tmp_path, query, {"label": "desc-lesion_mask"})
    assert found.subjects == ("sub-01", "sub-02")
    assert found.missing == ("sub-02_ses-b: label",)
    assert [(int(one["t1"].max()), int(one["flair"].max())) for one in read(found)] == [(1, 11), (2, 12)]
    assert published_volumes.bids(tmp_path, query).checked().subjects == ("sub-01", "sub-02", "sub-02")
    with pytest.raises(ManifestError, match=r"are both 'label'.*Name an entity that differs"):
        published_volumes.bids(tmp_path, query, {"label": "mask"})
    with pytest.raises(ParameterError, match="names → suffixes"):
        published_volumes.bids(tmp_path, {})


def test_manifests_of_json_lines(tmp_path):
    for number in (1, 2):
        for name in ("t1", "t2", "cord", "lesion"):
            write(tmp_path / f"{number}/{name}.nii.gz", number, np.uint8)
    lines = [
        {
            "t1": f"{n}/t1.nii.gz",
            "t2": f"{n}/t2.nii.gz",
            "label": {"cord": f"{n}/cord.nii.gz"},
            "subject": f"p{n}",
        }
        for n in (1, 2)
    ]
    manifest = tmp_path / "all.jsonl"
    manifest.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    cases = seqpipe.cases(manifest)
    assert [one.subject for one in cases] == ["p1", "p2"]
    (_, second) = seqpipe.volumes(cases)
    assert int(second["t2"].numpy().max()) == 2
    assert int(second["label"].numpy().max()) == 1
    for line, message in (
        ("{", "line 2: the line is no JSON"),
        ('{"t1": 5}', "line 2: t1 is 5"),
        ("[]", "names no volume"),
    ):
        manifest.write_text(json.dumps(lines[0]) + "\n" + line)
        with pytest.raises(ManifestError, match=message):
            seqpipe.cases(manifest)


def test_files_of_structures_in_a_list_of_cases(tmp_path):
    for name, value in (("image", 5), ("cord", 1), ("lesion", 1)):
        write(tmp_path / f"{name}.nii.gz", value, np.uint8)
    paths = {name: str(tmp_path / f"{name}.nii.gz") for name in ("cord", "lesion")}
    cases = [{"image": tmp_path / "image.nii.gz", "label": LabelFiles(paths, overlap="last")}]
    (sample,) = seqpipe.volumes(cases, cache=seqpipe.Cache(dir=tmp_path / "cache"))
    assert np.array_equal(sample["label"].numpy(), np.where(sample["image"].numpy() > 0, 2, 0))
    cases[0]["label"] = LabelFiles(paths, overlap="first")
    (sample,) = seqpipe.volumes(cases, cache=seqpipe.Cache(dir=tmp_path / "cache"))
    assert int(sample["label"].numpy().max()) == 1
    with pytest.raises(seqpipe.SeqpipeError, match="overlap in 8 voxels"):
        list(seqpipe.volumes([{"image": tmp_path / "image.nii.gz", "label": paths}]))
