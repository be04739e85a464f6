"""Jobs of volumes."""

from __future__ import annotations

import tempfile

import numpy as np

import seqpipe
from seqpipe import Cache, Grid, Patch, Prepare, ops

from ..hashing import job
from .common import (
    EPOCHS,
    RANKS,
    STORED,
    Found,
    affines,
    listed_cases,
    of_sample,
    volumes,
    volumes_of,
    voxels_of,
)

SIZE = (4, 8, 8)


@job("volume/whole")
def whole_volumes() -> Found:
    yield from volumes_of(volumes(shuffle=True), 2)


@job("volume/uniform patches")
def uniform_patches() -> Found:
    yield from volumes_of(volumes(Patch((6, 8, 10), per_volume=3), shuffle=True, seed=1), 4)
    padded = Patch(16, pad="reflect")
    yield from volumes_of(volumes(padded, ("t1", "t2"), prepare=Prepare(dtype="float32")), 2)


@job("volume/balanced patches")
def balanced_patches() -> Found:
    take = Patch(SIZE, per_volume=4, around="balanced", foreground=0.5, mix=2)
    yield from volumes_of(volumes(take, shuffle=True, seed=2), 4)


@job("volume/patches by class")
def class_patches() -> Found:
    yield from volumes_of(volumes(Patch(SIZE, per_volume=3, around="classes"), shuffle=True), 4)
    weighted = Patch(SIZE, per_volume=3, around="classes", class_weights={1: 1.0, 3: 4.0})
    yield from volumes_of(volumes(weighted), 4)


@job("volume/patches by weights")
def weighted_patches() -> Found:
    take = Patch(SIZE, per_volume=3, around="weighted", weights="weights")
    yield from volumes_of(volumes(take, ("t1", "label", "weights"), shuffle=True), 4)


@job("volume/spacing and orientation")
def prepared_volumes() -> Found:
    turned = Prepare(spacing_mm=(2.0, 1.5, 1.5), orientation="LPS")
    yield from volumes_of(volumes(prepare=turned), 2)
    prepare = Prepare(spacing_mm=1.5, orientation="LPI", crop_above=150, interp="bspline")
    yield from volumes_of(volumes(Patch((5, 7, 9), per_volume=2, pad="edge"), prepare=prepare), 4)


@job("volume/folds and caches")
def cached_volumes() -> Found:
    listed = listed_cases("t1", "label", subjects=["a", "b", "c"])
    for validation in (False, True):
        part = listed.fold(0, 2, validation=validation)
        data = seqpipe.volumes(part, Patch(SIZE, per_volume=2), shuffle=True, cache=Cache(gib=0.1))
        yield from volumes_of(data, 2)


@job("volume/a cache on the disk")
def volumes_on_disk() -> Found:
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            options = {"prepare": Prepare(orientation="LPS"), "cache": Cache(dir=folder)}
            yield from volumes_of(volumes(Patch(SIZE, per_volume=2), shuffle=True, **options), 2)


@job("volume/channels of a series")
def series_volumes() -> Found:
    prepare = Prepare(series_as_channels=True)
    yield from volumes_of(seqpipe.volumes("volumes/series.nii.gz", 6, prepare=prepare), 1)


@job("volume/stored values", changes=STORED)
def stored_volumes() -> Found:
    yield from volumes_of(seqpipe.volumes("volumes/stored.nii.gz", 6), 1)
    with seqpipe.open("volumes/stored.nii.gz") as volume:
        for window in (volume[2:6, 3:9, 4:8], volume.sequence().scaled()):
            yield 0, {"image": window.numpy(), "scale": window.scale, "affine": window.affine}


@job("volume/three ranks", changes=RANKS)
def volume_ranks() -> Found:
    for rank in range(3):
        yield from volumes_of(volumes(Patch(SIZE, per_volume=2), shuffle=True).shard(rank, 3), 2)


@job("volume/chains over samples of parts")
def volume_chains() -> Found:
    chain = ops.Chain(
        ops.RandomAffine3d(rotate=(-15.0, 15.0), scale=(0.9, 1.1)),
        ops.Flip3d(width=True, p=0.5),
        ops.Only("t1", ops.GaussianNoise3d(sigma=(0.0, 5.0))),
    )
    take = Patch((6, 10, 10), per_volume=2)
    with volumes(take, ("t1", "t2", "label"), shuffle=True).map(chain) as data:
        for epoch in EPOCHS:
            for sample in data.epoch(epoch):
                yield epoch, {"index": sample.index, **of_sample(voxels_of(sample))}


@job("volume/slices of batches, labels by hand")
def volume_batches() -> Found:
    chain = ops.Chain(
        ops.Flip(p=0.5),
        ops.Rotate(angle=(-15.0, 15.0), keep_size=True, fill_value=0),
        ops.GaussianBlur(sigma=(0.5, 1.5)),
        ops.Gamma(gamma=(0.7, 1.5), range="minmax"),
    )
    take, prepare = Patch((6, 12, 12), around="balanced"), Prepare(dtype="float32")
    with volumes(take, prepare=prepare, shuffle=True).batch(2) as data:
        for epoch in EPOCHS:
            for batch in data.epoch(epoch):
                yield (
                    epoch,
                    of_sample(chain({"image": batch["t1"], "label": batch["label"]}, epoch=epoch)),
                )


@job("volume/grid of patches")
def grid() -> Found:
    for epoch, overlap in enumerate((0.25, 0.5)):
        patches = seqpipe.volumes("volumes/t1_1.nii.gz", Grid((8, 10, 12), overlap)).batch(5)
        whole = seqpipe.Aggregate(patches, weights="gaussian", dtype=np.uint8)
        for batch in patches:
            image = batch["image"]
            yield epoch, {"image": image.numpy(), "index": batch.index, "affine": affines(image)}
            for _, result in whole.add(batch, image.data > 0):
                yield epoch, {"result": result.numpy()}
