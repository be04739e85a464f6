"""What a reader knows and a writer writes again: the interval of volumes with its unit, forms, intent, description."""

from __future__ import annotations

import numpy as np
import pytest

import seqpipe
from seqpipe import ops
from seqpipe.volume import save, to_canonical
from tests.support.volumes import needs

nibabel = needs("nibabel")

AFFINE = np.array([[2.0, 0.1, 0, -20], [-0.1, 2.0, 0, -30], [0, 0, 3, -9], [0, 0, 0, 1]])


def _file(path, *, kind="Nifti1Image", frames=4, units=("mm", "sec"), step=2.5, codes=(1, 1), **more):
    shape = (5, 6, 7, frames) if frames else (5, 6, 7)
    data = np.random.default_rng(0).integers(0, 99, shape).astype(np.int16)
    image = getattr(nibabel, kind)(data, AFFINE)
    header = image.header
    if frames:
        header.set_zooms((*header.get_zooms()[:3], step))
    header.set_xyzt_units(*units)
    image.set_qform(more.get("qform", AFFINE), int(codes[0]))
    image.set_sform(more.get("sform", AFFINE), int(codes[1]))
    if "intent" in more:
        header.set_intent(*more["intent"])
    header["descrip"] = more.get("description", "")
    nibabel.save(image, path)
    return path


def _assert_same(one, other):
    a, b = nibabel.load(one), nibabel.load(other)
    assert np.array_equal(np.asarray(a.dataobj), np.asarray(b.dataobj))
    np.testing.assert_allclose(a.affine, b.affine, atol=1e-5)
    np.testing.assert_allclose(a.header.get_zooms(), b.header.get_zooms(), rtol=1e-5)
    assert a.header.get_xyzt_units() == b.header.get_xyzt_units()
    for form in ("get_sform", "get_qform"):
        (left, code), (right, own) = (getattr(x, form)(coded=True) for x in (a, b))
        assert code == own
        if code:
            np.testing.assert_allclose(left, right, atol=1e-4)
    assert a.header.get_intent() == b.header.get_intent()
    assert a.header["descrip"] == b.header["descrip"]


@pytest.mark.parametrize("kind", ["Nifti1Image", "Nifti2Image"])
@pytest.mark.parametrize(
    "units",
    [
        ("mm", "sec"),
        ("mm", "msec"),
        ("micron", "usec"),
        ("meter", "sec"),
        ("mm", "hz"),
        ("mm", "ppm"),
        ("mm", "unknown"),
    ],
)
def test_units_and_the_interval_of_volumes(tmp_path, kind, units):
    path = _file(tmp_path / "a.nii.gz", kind=kind, units=units, step=1.25)
    save(seqpipe.open(path).sequence(), tmp_path / "b.nii.gz")
    _assert_same(path, tmp_path / "b.nii.gz")


@pytest.mark.parametrize("frames", [0, 4])
@pytest.mark.parametrize("codes", [(1, 1), (1, 4), (2, 2), (0, 2), (3, 0), (1, 0), (0, 4)])
def test_codes_of_the_forms(tmp_path, codes, frames):
    path = _file(tmp_path / "a.nii", codes=codes, frames=frames)
    save(seqpipe.open(path).sequence(), tmp_path / "b.nii")
    _assert_same(path, tmp_path / "b.nii")


def test_forms_that_differ(tmp_path):
    other = AFFINE.copy()
    other[:3, 3] += (5, -7, 11)
    path = _file(tmp_path / "a.nii", codes=(1, 4), qform=other)
    save(seqpipe.open(path).sequence(), tmp_path / "b.nii")
    _assert_same(path, tmp_path / "b.nii")
    save(seqpipe.open(path)[2:5, 1:4], tmp_path / "c.nii")
    cut = nibabel.load(path).slicer[:, 1:4, 2:5]
    np.testing.assert_allclose(
        nibabel.load(tmp_path / "c.nii").get_qform(),
        other @ [[1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 1, 2], [0, 0, 0, 1]],
        atol=1e-4,
    )
    np.testing.assert_allclose(nibabel.load(tmp_path / "c.nii").affine, cut.affine, atol=1e-4)


@pytest.mark.parametrize("kind", ["Nifti1Image", "Nifti2Image"])
def test_intent_and_description(tmp_path, kind):
    facts = {"intent": ("f test", (2, 10), "some test"), "description": "of a scanner, 3 T"}
    path = _file(tmp_path / "a.nii", kind=kind, **facts)
    save(seqpipe.open(path).sequence(), tmp_path / "b.nii")
    _assert_same(path, tmp_path / "b.nii")


@pytest.mark.parametrize(
    ("times", "step"), [(slice(None), 2.5), ([0, 2], 5.0), ([1, 2, 3], 2.5), ([0, 1, 3], 1.0), ([3, 2], 1.0)]
)
@pytest.mark.parametrize("unit", ["sec", "unknown"])
def test_the_interval_of_chosen_volumes(tmp_path, times, step, unit):
    path = _file(tmp_path / "a.nii", units=("mm", unit))
    with seqpipe.open(path) as volume:
        chosen = volume.sequence() if isinstance(times, slice) else volume.sequence(times=times)
        save(chosen, tmp_path / "b.nii")
        by_range = volume.sequence()[::2]
    assert nibabel.load(tmp_path / "b.nii").header.get_zooms()[3] == step
    save(by_range, tmp_path / "c.nii")
    assert nibabel.load(tmp_path / "c.nii").header.get_zooms()[3] == 5.0


def test_the_interval_survives_operators_and_other_grids(tmp_path):
    path = _file(tmp_path / "a.nii", codes=(1, 4))
    with seqpipe.open(path) as volume:
        given = [volume.sequence(), to_canonical(volume.sequence()), volume.resample(2.0).sequence()]
        given += [ops.Crop3d(size=(3, 3, 3))(volume.sequence()), volume[1:3]]
        given += [ops.RandomAffine3d(rotate=5.0)(volume.sequence())]
    for sequence in given:
        save(sequence, tmp_path / "b.nii")
        header = nibabel.load(tmp_path / "b.nii").header
        assert header.get_zooms()[3] == 2.5
        assert (int(header["qform_code"]), int(header["sform_code"])) == (1, 4)
    save(volume.sequence(), tmp_path / "c.nii", time_step_s=0.5)
    assert nibabel.load(tmp_path / "c.nii").header.get_zooms()[3] == 0.5
