"""Volumes on a GPU: what is read, cut and aggregated there is what the CPU gives."""

from __future__ import annotations

import numpy as np
import pytest

import seqpipe
from seqpipe import Cache, Grid, Patch, Prepare
from seqpipe.volume import reorient, resample
from tests.support.volumes import phantom_path

pytestmark = pytest.mark.gpu


def test_windows_come_to_the_device():
    with (
        seqpipe.open(phantom_path("nii_gz"), device="cuda") as volume,
        seqpipe.open(phantom_path("nii_gz")) as host,
    ):
        for one, other in (
            (volume[3:9, 4:20], host[3:9, 4:20]),
            (volume.resample(2.0)[2], host.resample(2.0)[2]),
        ):
            assert one.device == "cuda:0"
            assert np.array_equal(one.numpy(), other.numpy())
            assert np.array_equal(one.affine, other.affine)


def test_sequences_on_the_device_are_reoriented_resampled_and_scaled():
    with seqpipe.open(phantom_path("nii_gz"), device="cuda") as volume:
        there = volume.sequence()
    with seqpipe.open(phantom_path("nii_gz")) as volume:
        here = volume.sequence()
    for change in (lambda s: reorient(s, "RAS"), lambda s: resample(s, 2.0)):
        assert change(there).device == "cuda:0"
        assert np.array_equal(change(there).numpy(), change(here).numpy())
    scaled = seqpipe.Sequence(there.data, "DHWC", scale=(0.5, 3.0)).scaled()
    assert np.array_equal(scaled.numpy(), seqpipe.Sequence(here.data, "DHWC", scale=(0.5, 3.0)).scaled().data)


@pytest.mark.parametrize("kept", [Cache(), Cache(gib=1, device="cuda")])
def test_patches_of_a_dataset_are_the_same_on_any_device(kept):
    cases = seqpipe.cases([phantom_path("nii_gz")] * 2, labels=[phantom_path("nii_labels")] * 2)
    take = Patch(12, per_volume=4, around="balanced")
    prepare = Prepare(dtype="float32", crop_above=5) if kept.gib else None
    options = {"take": take, "prepare": prepare, "shuffle": True}
    here = seqpipe.volumes(cases, **options).batch(3)
    there = seqpipe.volumes(cases, **options, device="cuda", cache=kept).batch(3)
    with here, there:
        for one, other in zip(here, there, strict=True):
            for name in ("image", "label"):
                assert other[name].device == "cuda:0"
                assert np.array_equal(one[name].numpy(), other[name].numpy())


@pytest.mark.parametrize("cache_device", ["cpu", "cuda"])
def test_samples_come_whole_while_the_device_works_on_others(cache_device):
    """Memory of samples that were dropped is written only behind the kernels that read it."""
    import cupy

    files, prepare = [phantom_path("nii_gz")] * 3, Prepare(dtype="float32")
    here = seqpipe.volumes(files, prepare=prepare, cache=Cache(gib=1), shuffle=True).batch(1)
    cache = Cache(gib=1, device=cache_device)
    there = seqpipe.volumes(files, prepare=prepare, cache=cache, shuffle=True, device="cuda").batch(1)
    sums, wanted = [], []
    with here, there:
        for epoch in range(20):
            for one, other in zip(here.epoch(epoch), there.epoch(epoch), strict=True):
                values = other["image"].data
                for _ in range(30):  # the default stream is behind
                    values = cupy.sort(values.ravel())
                sums.append(values.sum(dtype=cupy.float64) + other["image"].data.sum(dtype=cupy.float64))
                wanted.append(2 * one["image"].data.sum(dtype=np.float64))
    assert np.allclose([float(one) for one in sums], wanted, rtol=1e-6)


def test_a_grid_is_put_together_on_the_device():
    grid = seqpipe.volumes(phantom_path("nii_gz"), Grid(12, overlap=0.5), device="cuda").batch(4)
    whole = seqpipe.Aggregate(grid, dtype=np.int16)
    with grid, seqpipe.open(phantom_path("nii_gz")) as volume:
        ((_, found),) = [done for batch in grid for done in whole.add(batch, batch["image"])]
        assert found.device == "cuda:0"
        assert np.array_equal(found.numpy(), volume.sequence().numpy())
