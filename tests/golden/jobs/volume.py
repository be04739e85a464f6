"""Jobs of volumes."""

from __future__ import annotations

import tempfile

import numpy as np

import seqpipe
from seqpipe import ops
from seqpipe.parts import Labels
from seqpipe.readers import Volume
from seqpipe.volume import GridAggregator, GridSampler

from ..hashing import job
from .common import (
    EPOCHS,
    RANKS,
    STORED,
    Found,
    affines,
    of_sample,
    volumes,
    volumes_of,
)


@job("volume/whole")
def whole_volumes() -> Found:
    yield from volumes_of(volumes(shuffle=True), 2)


@job("volume/uniform patches")
def uniform_patches() -> Found:
    yield from volumes_of(volumes(patch_size=(6, 8, 10), patches_per_volume=3, shuffle=True, seed=1), 4)
    padded = volumes(("t1", "t2"), patch_size=16, pad_mode="reflect", dtype="float32")
    yield from volumes_of(padded, 2)


@job("volume/balanced patches")
def balanced_patches() -> Found:
    options = {"patch_size": (4, 8, 8), "patches_per_volume": 4, "foreground": 0.5, "open_volumes": 2}
    yield from volumes_of(volumes(**options, sampler="balanced", shuffle=True, seed=2), 4)


@job("volume/patches by class")
def class_patches() -> Found:
    options = {"patch_size": (4, 8, 8), "patches_per_volume": 3, "sampler": "classes"}
    yield from volumes_of(volumes(**options, shuffle=True), 4)
    yield from volumes_of(volumes(**options, class_weights={1: 1.0, 3: 4.0}), 4)


@job("volume/patches by weights")
def weighted_patches() -> Found:
    options = {"patch_size": (4, 8, 8), "patches_per_volume": 3, "sampler": "weighted", "weights": "weights"}
    yield from volumes_of(volumes(("t1", "label", "weights"), **options, shuffle=True), 4)


@job("volume/spacing and orientation")
def prepared_volumes() -> Found:
    yield from volumes_of(volumes(spacing_mm=(2.0, 1.5, 1.5), orientation="LPS"), 2)
    prepared = {"spacing_mm": 1.5, "orientation": "LPI", "crop_above": 150, "interp": "bspline"}
    yield from volumes_of(volumes(**prepared, patch_size=(5, 7, 9), patches_per_volume=2, pad_mode="edge"), 4)


@job("volume/folds and caches")
def cached_volumes() -> Found:
    options = {"patch_size": (4, 8, 8), "patches_per_volume": 2, "shuffle": True, "cache_gib": 0.1}
    for validation in (False, True):
        yield from volumes_of(
            volumes(**options, subjects=["a", "b", "c"], fold=(0, 2), validation=validation), 2
        )


@job("volume/a cache on the disk")
def volumes_on_disk() -> Found:
    options = {"patch_size": (4, 8, 8), "patches_per_volume": 2, "orientation": "LPS", "shuffle": True}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            yield from volumes_of(volumes(**options, cache_dir=folder), 2)


@job("volume/channels of a series")
def series_volumes() -> Found:
    yield from volumes_of(Volume(files=["volumes/series.nii.gz"], series_as_channels=True, patch_size=6), 1)


@job("volume/stored values", changes=STORED)
def stored_volumes() -> Found:
    yield from volumes_of(Volume(files=["volumes/stored.nii.gz"], patch_size=6), 1)
    with seqpipe.open("volumes/stored.nii.gz") as volume:
        for window in (volume[2:6, 3:9, 4:8], volume.sequence().scaled()):
            yield 0, {"image": window.numpy(), "scale": window.scale, "affine": window.affine}


@job("volume/three ranks", changes=RANKS)
def volume_ranks() -> Found:
    for rank in range(3):
        shared = {"shard": (rank, 3), "shuffle": True}
        yield from volumes_of(volumes(patch_size=(4, 8, 8), patches_per_volume=2, **shared), 2)


@job("volume/chains over samples of parts")
def volume_chains() -> Found:
    chain = ops.Chain(
        ops.RandomAffine3d(rotate=(-15.0, 15.0), scale=(0.9, 1.1)),
        ops.Flip3d(width=True, p=0.5),
        ops.GaussianNoise3d(sigma=(0.0, 5.0), only="t1"),
    )
    with volumes(("t1", "t2", "label"), patch_size=(6, 10, 10), patches_per_volume=2, shuffle=True) as data:
        for epoch in EPOCHS:
            data.set_epoch(epoch)
            for sample in data.samples(parts=True):
                moved = chain(sample, epoch=epoch, index=sample["t1"].index)
                yield epoch, {"index": sample["t1"].index, **of_sample(moved)}


@job("volume/slices of batches, labels by hand")
def volume_batches() -> Found:
    chain = ops.Chain(
        ops.Flip(p=0.5),
        ops.Rotate(angle=(-15.0, 15.0), keep_size=True, fill_value=0),
        ops.GaussianBlur(sigma=(0.5, 1.5)),
        ops.Gamma(gamma=(0.7, 1.5), range="minmax"),
    )
    with volumes(patch_size=(6, 12, 12), sampler="balanced", dtype="float32", shuffle=True) as data:
        for epoch in EPOCHS:
            data.set_epoch(epoch)
            for batch in data.batches(2):
                moved = chain({"image": batch["t1"], "label": Labels(batch["label"])}, epoch=epoch)
                yield epoch, of_sample(moved)


@job("volume/grid of patches")
def grid() -> Found:
    with seqpipe.open("volumes/t1_1.nii.gz") as volume:
        for epoch, overlap in enumerate((0.25, 0.5)):
            sampler = GridSampler(volume, patch_size=(8, 10, 12), overlap=overlap)
            whole = GridAggregator(sampler, weights="gaussian")
            for numbers, batch in sampler.batches(5):
                yield epoch, {"image": batch.numpy(), "index": numbers, "affine": affines(batch)}
                whole.add(numbers, batch.data > 0)
            yield epoch, {"result": whole.result(dtype=np.uint8).numpy()}
