"""Volumes on a GPU: what is read, cut and aggregated there is what the CPU gives."""

from __future__ import annotations

import numpy as np
import pytest

import seqpipe
from seqpipe.readers import Volume
from seqpipe.volume import GridAggregator, GridSampler, reorient, resample
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


def test_patches_of_a_dataset_are_the_same_on_any_device():
    options = {
        "files": [phantom_path("nii_gz")] * 2,
        "labels": [phantom_path("nii_labels")] * 2,
        "patch_size": 12,
        "patches_per_volume": 4,
        "sampler": "balanced",
        "shuffle": True,
    }
    kept = {"device": "cuda", "cache_device": "cuda", "cache_gib": 1, "dtype": "float32", "crop_above": 5}
    for more in ({"device": "cuda"}, kept):
        plain = {name: value for name, value in more.items() if name in ("dtype", "crop_above")}
        with Volume(**options, **plain) as host, Volume(**options, **more) as there:
            for one, other in zip(host.batches(3), there.batches(3), strict=True):
                for name in ("image", "label"):
                    assert other[name].device == "cuda:0"
                    assert np.array_equal(one[name].numpy(), other[name].numpy())


@pytest.mark.parametrize("cache_device", ["cpu", "cuda"])
def test_samples_come_whole_while_the_device_works_on_others(cache_device):
    """Memory of samples that were dropped is written only behind the kernels that read it."""
    import cupy

    options = {"files": [phantom_path("nii_gz")] * 3, "dtype": "float32", "cache_gib": 1, "shuffle": True}
    sums, wanted = [], []
    with Volume(**options, device="cuda", cache_device=cache_device) as there, Volume(**options) as here:
        for epoch in range(20):
            there.set_epoch(epoch)
            here.set_epoch(epoch)
            for one, other in zip(here.batches(1), there.batches(1), strict=True):
                values = other["image"].data
                for _ in range(30):  # the default stream is behind
                    values = cupy.sort(values.ravel())
                sums.append(values.sum(dtype=cupy.float64) + other["image"].data.sum(dtype=cupy.float64))
                wanted.append(2 * one["image"].data.sum(dtype=np.float64))
    assert np.allclose([float(one) for one in sums], wanted, rtol=1e-6)


def test_a_grid_is_put_together_on_the_device():
    with seqpipe.open(phantom_path("nii_gz"), device="cuda") as volume:
        sampler = GridSampler(volume, 12, overlap=0.5)
        together = GridAggregator(sampler)
        for numbers, batch in sampler.batches(4):
            together.add(numbers, batch.data)
        found = together.result(np.int16)
        assert found.device == "cuda:0"
        assert np.array_equal(found.numpy(), volume.sequence().numpy())
