"""The overview of a data set: rows, planes, overlays, warnings, and rows before and after a chain."""

from __future__ import annotations

import numpy as np
import pytest

import seqpipe
from seqpipe.errors import ParameterError, SourceError
from seqpipe.ops import Chain, Crop3d
from seqpipe.volume import save
from tests.view.pages import Read, picture_of

AFFINE = np.array([[0, 0, -1.0, 10], [0, -1.0, 0, 20], [2.0, 0, 0, -30], [0, 0, 0, 1]])  # LPS
SIZE = (8, 16, 32)


def voxels(number):
    values = np.random.default_rng(number).normal(100, 10, (*SIZE, 1)).astype(np.float32)
    labels = np.zeros((*SIZE, 1), np.uint8)
    labels[5, 2:6, 4:20] = 1
    return values, labels


def wrong(number, values, labels, affine):
    """Give a case the fault of its number."""
    if number == 1:
        labels[6, 1, 1] = 7
        values[0, 0, :3] = np.nan
    if number == 2:
        affine = affine @ np.diag([3.0, 1.0, 1.0, 1.0])
        labels[:] = 0
    if number == 3:
        affine = affine @ np.diag([1.0, 1.0, -1.0, 1.0])
        values += 5000
    if number == 4:
        values[:] = 3
    return values, labels, affine


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cases")
    for number in range(7):
        values, labels, affine = wrong(number, *voxels(0 if number == 5 else number), AFFINE)
        for name, data in (("images", values), ("labels", labels)):
            (path / name).mkdir(exist_ok=True)
            save(seqpipe.Sequence(data, "DHWC", affine=affine), path / name / f"c{number}.nii")
    (path / "images/c6.nii").write_bytes((path / "images/c6.nii").read_bytes()[:3000])
    return path


def test_a_row_a_case_names_what_is_wrong_and_what_differs(folder):
    calls = []
    page = seqpipe.overview(folder, names={1: "organ"}, progress=lambda *done: calls.append(done), workers=2)
    head, *rows = page.panels
    assert calls[-1] == (7, 7)
    assert len(rows) == 7
    assert head.history[0] == "7 cases, 1 cannot be read, 7 with warnings"
    assert head.history[1] == "spacing 2 × 1 × 1 to 6 × 1 × 1 mm, median 2 × 1 × 1 mm"
    notes = [[note.replace(str(folder), "") for note in row.notes] for row in rows]
    assert notes[0] == ["the voxels are those of " + notes_key(folder, 5)]
    assert notes[1] == [
        "3 voxels are NaN or infinite",
        "labels without a name: 7: 1 voxels, 0.002 ml",
        "no other case has the label 7",
    ]
    assert notes[2] == ["the label has no foreground", "spacing 6 × 1 × 1 mm; the median is 2 × 1 × 1 mm"]
    assert notes[3][0] == "orientation RPS; 5 of 6 are LPS"
    assert notes[3][1].startswith("mean 5100; the median of the means is ")
    assert notes[4][0] == "every voxel is 3"
    assert notes[6][0].startswith("cannot be read: ")
    assert "8 × 16 × 32 voxels · 2 × 1 × 1 mm LPS · float32" in rows[0].title
    assert [str(one) for one in rows[0].classes] == ["organ (1): 64 voxels, 0.128 ml"]


def notes_key(folder, number):
    """Return the name of a case without the folder."""
    key = seqpipe.cases(folder).entries[number].key
    return key.replace(str(folder), "")


def test_planes_go_through_the_labels_with_square_pixels(folder):
    row = seqpipe.overview(seqpipe.cases(folder)[:1], size=64).panels[1]
    images = Read(row.body).all("img")
    captions = [attributes["alt"] for _, attributes, _ in images if attributes["alt"]]
    assert captions == ["axial 5", "coronal 2", "sagittal 4"]
    pictures = [picture_of(attributes["src"]) for _, attributes, _ in images]
    assert [picture.shape[:2] for picture in pictures[::2]] == [(32, 64), (32, 64), (64, 64)]
    axial = np.zeros((16, 32), bool)
    axial[2:6, 4:20] = True
    assert np.array_equal(pictures[1][::2, ::2, 3] > 0, axial)
    coronal = np.zeros((8, 32), bool)
    coronal[8 - 1 - 5, 4:20] = True  # upper slices come first
    assert np.array_equal(pictures[3][::4, ::2, 3] > 0, coronal)


def test_rows_before_and_after_a_chain(folder):
    cases = seqpipe.cases(folder)[:1]
    body = seqpipe.overview(cases, Chain(Crop3d(size=(8, 16, 16))), size=32).panels[1].body
    images = [attributes for _, attributes, _ in Read(body).all("img")]
    assert [each["alt"] for each in images[6::2]] == [
        "after: axial 5",
        "after: coronal 2",
        "after: sagittal 0",
    ]
    before, after = picture_of(images[1]["src"]), picture_of(images[7]["src"])
    assert (before.shape, after.shape) == ((16, 32, 4), (32, 32, 4))
    assert np.array_equal(after[::2, ::2], before[:, 8:24])


def test_what_cannot_be_shown_is_refused_by_name(folder):
    with pytest.raises(ParameterError, match="image='t2' is no image of the cases; allowed: image"):
        seqpipe.overview(folder, image="t2")
    with pytest.raises(SourceError, match=r"c6\.nii"):
        seqpipe.overview(folder, on_error="raise")
    with pytest.raises(ParameterError, match="size"):
        seqpipe.overview(folder, size=2)
