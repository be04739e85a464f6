"""Mixup and CutMix of volumes and of labels of voxels, against the formulas written with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe import Sequence
from seqpipe.errors import ParameterError
from seqpipe.ops import CutMix, CutMix3d, Mixup
from seqpipe.ops.core.blocks import resolve
from seqpipe.ops.core.spec import Spec
from seqpipe.parts import Image, Labels, Points, Sample
from tests.support.operators import compare

SIZE = (6, 8, 9)


def samples(count=4, dtype=np.float32):
    """Images of noise with two channels, and labels of four classes."""
    rng = np.random.default_rng(3)
    return [
        {
            "image": (rng.random((*SIZE, 2)) * 100).astype(dtype),
            "label": Labels(rng.integers(0, 4, SIZE).astype(np.int16), classes=4),
        }
        for _ in range(count)
    ]


def drawn(op, count, **where):
    rows = resolve(op, [Spec(*SIZE, 2, "float32", True)] * count, where.get("epoch", 0), range(count)).rows
    return [(row["weight"], row["box"].astype(int) if "box" in row.dtype.names else None) for row in rows]


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint8])
def test_cutmix3d_pastes_one_box_into_every_part_and_mixes_class_labels_by_its_volume(dtype):
    op = CutMix3d(num_classes=4, per_sample=True, seed=5)
    given = samples(dtype=dtype)
    found, classes = op([{**one, "label": one["label"]} for one in given], [0, 1, 2, 3], epoch=2)
    changed = 0
    for n, (weight, box) in enumerate(drawn(op, 4, epoch=2)):
        d, h, w, back, bottom, right = box
        inside = np.zeros(SIZE, bool)
        inside[d:back, h:bottom, w:right] = True
        changed += 0 < inside[:, 0, 0].sum() < SIZE[0] or 0 < inside.any(axis=(1, 2)).sum() < SIZE[0]
        other = given[n - 1]
        compare(found[n]["image"], np.where(inside[..., None], other["image"], given[n]["image"]))
        label = found[n]["label"]
        assert isinstance(label, Labels)
        assert label.classes == 4
        compare(label.data, np.where(inside, other["label"].data, given[n]["label"].data))
        assert weight == pytest.approx(1 - inside.mean(), abs=1e-6)
        np.testing.assert_allclose(
            classes[n], np.eye(4)[n] * weight + np.eye(4)[n - 1] * (1 - weight), atol=1e-6
        )
    assert changed >= 2, "boxes end within the slices, too"


def test_mixup_blends_images_and_makes_labels_of_voxels_soft():
    op = Mixup(alpha=1.0, per_sample=True, seed=5)
    given = samples()
    found = op(given).data
    for n, (weight, _) in enumerate(drawn(op, 4)):
        other = given[n - 1]
        np.testing.assert_allclose(
            found[n]["image"], given[n]["image"] * weight + other["image"] * (1 - weight), atol=1e-4
        )
        soft = found[n]["label"]
        assert isinstance(soft, Image)
        assert soft.data.dtype == np.float32
        hot = [np.eye(4)[one["label"].data] for one in (given[n], other)]
        np.testing.assert_allclose(soft.data, hot[0] * weight + hot[1] * (1 - weight), atol=1e-6)


@pytest.mark.parametrize(
    "op", [Mixup(alpha=1.0, seed=2), CutMix(seed=1), CutMix3d(seed=1)], ids=lambda op: op.name
)
def test_every_layout_and_library_gives_the_same(op, torch):
    given = samples()
    wanted = op(given, index=3).data
    channels_first = [
        {
            "image": torch.from_numpy(np.moveaxis(one["image"], 3, 0).copy()),
            "label": Labels(torch.from_numpy(one["label"].data[None].copy()), classes=4),
        }
        for one in given
    ]
    found = op(channels_first, layout="CDHW", index=3).data
    affine = np.diag([2.0, 1.0, 1.0, 1.0])
    sequences = [
        Sample(
            {
                "image": Sequence(one["image"], "DHWC", affine=affine),
                "label": Labels(Sequence(one["label"].data[..., None], "DHWC", affine=affine), classes=4),
            },
            [{"op": "before"}],
        )
        for one in given
    ]
    placed = op(sequences, index=3).data
    for n, one in enumerate(wanted):
        assert isinstance(found[n]["image"], torch.Tensor)
        compare(np.moveaxis(found[n]["image"].numpy(), 0, 3), one["image"])
        label = one["label"].data if op.softens else one["label"].data[..., None]
        compare(np.moveaxis(found[n]["label"].data.numpy(), 0, 3), label)
        compare(placed[n]["image"].data, one["image"])
        compare(placed[n]["label"].data.data, label)
        assert (placed[n]["label"].data.affine == affine).all()
        assert placed[n].history == [{"op": "before"}]


def test_draws_depend_on_seed_epoch_and_index_and_arrays_with_n_are_samples():
    op = CutMix3d(seed=7)
    given = samples()
    stacked = np.stack([one["image"] for one in given])
    compare(op(stacked, index=9).data, np.stack([one["image"] for one in op(given, index=9).data]))
    compare(op(stacked, index=9).data, op(stacked, index=9).data)
    others = [
        op(stacked, index=10).data,
        op(stacked, index=9, epoch=1).data,
        CutMix3d(seed=8)(stacked, index=9).data,
    ]
    assert all((one != op(stacked, index=9).data).any() for one in others)
    compare(op(stacked[..., 0], layout="NDHW", index=9).data, op(stacked, index=9).data[..., 0])


def test_what_does_not_act_stays_and_memory_is_its_own():
    given = samples()
    for op in (CutMix3d(p=0.0), Mixup(p=0.0)):
        found = op(given).data
        compare(found[1]["image"], given[1]["image"])
        assert not np.shares_memory(found[1]["image"], given[1]["image"])
    compare(CutMix3d(p=0.0)(given).data[1]["label"].data, given[1]["label"].data)
    compare(Mixup(p=0.0)(given).data[1]["label"].data, np.eye(4, dtype=np.float32)[given[1]["label"].data])


def test_what_cannot_be_mixed_is_refused():
    given = samples(2)
    bare = [{"image": one["image"], "label": Labels(one["label"].data)} for one in given]
    short = [given[0], {"image": given[1]["image"], "label": Labels(given[1]["label"].data[:3], classes=4)}]
    for op, bad, said in (
        (Mixup(), bare, r"labels of voxels without a number of classes. Mixup\(num_classes=…\), or Labels"),
        (
            CutMix3d(),
            [given[0], {"image": given[1]["image"]}],
            r"a sample of image \(Image\); allowed: images and labels",
        ),
        (
            CutMix3d(),
            [{**one, "tip": Points([[1, 2, 3]])} for one in given],
            r"tip \(Points\); allowed: images",
        ),
        (
            CutMix3d(),
            [{"label": one["label"]} for one in given],
            "samples of label; allowed: one image at least",
        ),
        (CutMix3d(), short, r"labels of shape \(6, 8, 9\) and \(3, 8, 9\)|labels of shape \(3, 8, 9\)"),
        (CutMix3d(), [one["image"][:1] for one in given], "volumes of 1 slice; allowed: 2 slices or more"),
    ):
        with pytest.raises(ParameterError, match=said):
            op(bad)
