"""Fingerprints of data sets, nnU-Net's plans from them, and whole volumes that are prepared once."""

from __future__ import annotations

import numpy as np
import pytest

import seqpipe
from seqpipe import Prepare, ops, recipes
from seqpipe.errors import ManifestError, ParameterError, SourceError
from seqpipe.segmentation.planning import planned, target_spacing
from seqpipe.volume import save

COUNT = 4


def voxels(number):
    rng = np.random.default_rng(number)
    image = np.zeros((12, 14, 16, 2), np.float32)
    image[2:11, 1:13, 3:15] = rng.normal(100 * (number + 1), 20, (9, 12, 12, 2))
    labels = np.zeros((12, 14, 16, 1), np.uint8)
    labels[4:8, 4:8, 4:9] = 1
    if number % 2:
        labels[8:10, 4:8, 4:8] = 2
    labels[2, 2, 3:7] = 3
    return image, labels


@pytest.fixture
def folder(tmp_path):
    for number in range(COUNT):
        image, labels = voxels(number)
        affine = np.array([[0, 0, 0.5, 0], [0, 1.0, 0, 0], [2.0 + number, 0, 0, 0], [0, 0, 0, 1]])
        for name, data in (("images", image), ("labels", labels)):
            (tmp_path / name).mkdir(exist_ok=True)
            save(seqpipe.Sequence(data, "DHWC", affine=affine), tmp_path / name / f"c{number}.nii.gz")
    return tmp_path


def test_statistics_are_those_of_all_voxels(folder):
    """NumPy on the concatenated voxels; cases have the same number of them, so that weights agree, too."""
    calls = []
    found = seqpipe.fingerprint(folder, ignore=3, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(n, COUNT) for n in range(1, COUNT + 1)]
    assert found.channels == ("image[0]", "image[1]")
    assert found.class_counts == {1: (4, 4 * 80), 2: (2, 2 * 32)}
    assert [case.shape for case in found.cases] == [(12, 14, 16)] * COUNT
    assert [case.cropped for case in found.cases] == [(9, 12, 12)] * COUNT
    assert [case.spacing_mm for case in found.cases] == [(2.0 + n, 1.0, 0.5) for n in range(COUNT)]
    for channel in (0, 1):
        values = np.concatenate([voxels(n)[0][..., channel][voxels(n)[1][..., 0] == 1] for n in range(COUNT)])
        values_of_class = found.by_class[1][f"image[{channel}]"]
        np.testing.assert_allclose(
            [values_of_class.mean, values_of_class.std], [values.mean(), values.std()], rtol=1e-5
        )
        assert (values_of_class.min, values_of_class.max) == (values.min(), values.max())
        np.testing.assert_allclose(
            [values_of_class.p00_5, values_of_class.median, values_of_class.p99_5],
            np.percentile(values, [0.5, 50, 99.5]),
            rtol=0.03,
        )
        labeled = [voxels(n)[0][..., channel][np.isin(voxels(n)[1][..., 0], (1, 2))] for n in range(COUNT)]
        mean = np.mean([each.mean() for each in labeled])
        std = np.sqrt(np.mean([each.var() + each.mean() ** 2 for each in labeled]) - mean**2)
        whole = found.intensities[f"image[{channel}]"]
        np.testing.assert_allclose([whole.mean, whole.std], [mean, std], rtol=1e-5)
    assert found.spacing_mm == (3.5, 1.0, 0.5)
    assert found.foreground_share == pytest.approx(9 * 12 * 12 / (12 * 14 * 16))
    assert found.nbytes == COUNT * 12 * 14 * 16 * (2 * 4 + 1)
    assert "4 cases" in str(found)
    assert found.prepare() == Prepare(spacing_mm=(3.5, 1.0, 0.5), interp="bspline", antialias=False)


def test_a_fingerprint_is_kept_and_continues_where_it_stopped(folder, monkeypatch):
    path = folder / "facts.jsonl"
    whole = seqpipe.fingerprint(folder, path)
    assert seqpipe.Fingerprint.load(path) == whole
    read = []
    from seqpipe.segmentation import fingerprint as module

    load = module.load_case
    monkeypatch.setattr(module, "load_case", lambda case, rules: read.append(case.key) or load(case, rules))
    assert seqpipe.fingerprint(folder, path) == whole
    assert read == []
    image, _ = voxels(7)
    save(seqpipe.Sequence(image, "DHWC", affine=whole_affine(folder)), folder / "images/c2.nii.gz")
    again = seqpipe.fingerprint(folder, path)
    assert len(read) == 1
    assert again != whole
    # an interruption leaves a file beside, the last line of which may be cut off
    lines = path.read_text().splitlines()
    path.with_name("new.jsonl.part").write_text("\n".join([*lines[1:3], lines[3][:50]]))
    read.clear()
    assert seqpipe.fingerprint(folder, folder / "new.jsonl") == again
    assert len(read) == 2
    assert not path.with_name("new.jsonl.part").exists()
    path.write_text("{}")
    with pytest.raises(ManifestError, match="it is no fingerprint"):
        seqpipe.Fingerprint.load(path)


def whole_affine(folder):
    return seqpipe.open(folder / "labels/c2.nii.gz").affine


def test_cases_that_cannot_be_read_are_listed(folder):
    (folder / "images/c1.nii.gz").write_bytes(b"\x1f\x8b broken")
    with pytest.raises(SourceError, match=r"c1.nii.gz"):
        seqpipe.fingerprint(folder)
    found = seqpipe.fingerprint(folder, on_error="skip")
    assert len(found.cases) == COUNT - 1
    assert len(found.lost) == 1
    assert "c1.nii.gz" in found.lost[0]


PUBLISHED = {
    # task of the Decathlon: spacing, median shape, cases, classes → patch and batch size, which nnU-Net's own planner
    # gives as well (commit 0e495086, get_plans_for_configuration, one channel)
    "BrainTumour": ((1, 1, 1), (138, 170, 138), 484, 4, (128, 128, 128), 2),
    "Heart": ((1.37, 1.25, 1.25), (115, 320, 232), 20, 2, (80, 192, 160), 2),
    "Liver": ((1, 0.767, 0.767), (482, 512, 512), 131, 3, (128, 128, 128), 2),
    "Hippocampus": ((1, 1, 1), (36, 50, 35), 260, 3, (40, 56, 40), 9),
    "Prostate": ((3.6, 0.625, 0.625), (20, 320, 320), 32, 3, (20, 320, 256), 2),
    "Lung": ((1.245, 0.785, 0.785), (252, 512, 512), 63, 2, (80, 192, 160), 2),
    "Pancreas": ((2.5, 0.8, 0.8), (96, 512, 512), 281, 3, (40, 224, 224), 2),
    "HepaticVessel": ((1.5, 0.798, 0.798), (150, 512, 512), 303, 3, (64, 192, 192), 2),
    "Spleen": ((1.6, 0.793, 0.793), (187, 512, 512), 41, 2, (64, 192, 160), 2),
}


@pytest.mark.parametrize("task", PUBLISHED)
def test_plans_are_those_that_nnunet_publishes(task):
    spacing, shape, cases, classes, patch, batch = PUBLISHED[task]
    plan = planned(spacing, shape, cases, classes=classes)
    assert (plan.patch_size, plan.batch_size) == (patch, batch)
    assert all(
        size % np.prod(strides) == 0
        for size, strides in zip(patch, zip(*plan.strides, strict=True), strict=True)
    )
    if batch == 2:
        assert plan.memory_gib <= 8
    assert planned(spacing, shape, cases, classes=classes, gpu_gib=24).memory_gib <= 24


def test_the_target_spacing_of_anisotropic_data():
    shapes = [(10, 200, 200)] * 11
    spacings = [(5.0 + n, 1.0, 1.0) for n in range(11)]
    assert target_spacing(spacings, shapes) == (6.0, 1.0, 1.0)
    assert target_spacing(spacings, [(100, 200, 200)] * 11) == (10.0, 1.0, 1.0)
    assert target_spacing([(2.0, 1.0, 1.0), (3.0, 1.0, 1.0)], shapes[:2]) == (2.5, 1.0, 1.0)


def test_whole_volumes_are_prepared_once(folder, monkeypatch):
    facts = seqpipe.fingerprint(folder)
    head = recipes.nnunet_normalization(facts)
    prepare = Prepare(spacing_mm=(3.0, 1.0, 1.0))
    cases = seqpipe.prepared(folder, folder / "out", head, prepare=prepare)
    assert [case.subject for case in cases] == [f"c{n}" for n in range(COUNT)]
    for case, sample in zip(cases, seqpipe.volumes(folder, prepare=prepare), strict=True):
        want = head({"image": sample["image"], "label": sample["label"]})
        with seqpipe.open(case.parts["image"]) as image, seqpipe.open(case.parts["label"]) as label:
            np.testing.assert_array_equal(image.sequence().numpy(), want["image"].numpy())
            np.testing.assert_array_equal(label.sequence().numpy(), sample["label"].numpy())
            np.testing.assert_allclose(image.affine, sample["image"].affine, atol=1e-5)
            assert not image.info.compressed
    (sample,) = seqpipe.volumes(cases[:1], seqpipe.Patch((2, 4, 4)))
    assert sample["image"].shape == (2, 4, 4, 2)
    from seqpipe.segmentation import prepared as module

    read = []
    load = module.load_case
    monkeypatch.setattr(module, "load_case", lambda case, rules: read.append(case.key) or load(case, rules))
    assert seqpipe.prepared(folder, folder / "out", head, prepare=prepare) == cases
    assert read == []
    (folder / "out" / "00001_c1_image.nii").unlink()
    seqpipe.prepared(folder, folder / "out", head, prepare=prepare)
    assert len(read) == 1
    seqpipe.prepared(folder, folder / "out", ops.Window(lo=0, hi=9), prepare=prepare)
    assert len(read) == 1 + COUNT


@pytest.mark.parametrize(
    "op", [ops.Gamma3d(gamma=(0.7, 1.5), range="minmax"), ops.GaussianNoise3d(sigma=0.1)]
)
def test_random_operators_do_not_prepare(folder, op):
    with pytest.raises(ParameterError, match=r"is random, and whole volumes are prepared once"):
        seqpipe.prepared(folder, folder / "out", op)


def test_nnunet_s_normalization_of_ct(folder):
    for number in range(COUNT):
        image, _ = voxels(number)
        save(seqpipe.Sequence(image[..., :1], "DHWC", affine=np.eye(4)), folder / f"images/c{number}.nii.gz")
        save(
            seqpipe.Sequence(voxels(number)[1], "DHWC", affine=np.eye(4)), folder / f"labels/c{number}.nii.gz"
        )
    facts = seqpipe.fingerprint(folder)
    intensity = facts.intensities["image"]
    image = seqpipe.Sequence(voxels(2)[0][..., :1], "DHWC", affine=np.eye(4))
    found = recipes.nnunet_normalization(facts, "ct")(image).numpy()
    want = (np.clip(image.numpy(), intensity.p00_5, intensity.p99_5) - intensity.mean) / intensity.std
    np.testing.assert_allclose(found, want, atol=1e-5)
    masked = recipes.nnunet_normalization(facts)(image).numpy()
    inside = image.numpy() != 0
    assert abs(masked[inside].mean()) < 1e-4
    assert not masked[~inside].any()
    assert recipes.nnunet(facts).ops == recipes.nnunet(dummy_2d=recipes.is_anisotropic(facts.patch_size)).ops
    with pytest.raises(ParameterError, match=r"scheme='none' is not valid"):
        recipes.nnunet_normalization(facts, "none")
