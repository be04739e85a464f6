"""Jobs of chains over videos, of states and of torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqpipe import Dataset, Patch, VideoScores, fn, ops

from ..hashing import job
from .common import (
    EPOCHS,
    MOVING,
    RANKS,
    STATE,
    A,
    C,
    Found,
    clips,
    epochs_of,
    of_samples,
    of_tensor,
    videos,
    volumes,
)

CHAINS: dict[str, tuple[Any, ...]] = {
    "crop, flip, brightness": (*MOVING, ops.BrightnessContrast(brightness=(0.8, 1.2), contrast=(0.8, 1.2))),
    "resize, normalize": (
        ops.Resize(resize_shorter=48),
        ops.Crop(crop=(40, 40)),
        ops.Normalize(mean=(124.0, 116.0, 104.0), stddev=(58.0, 57.0, 57.0)),
    ),
    "random augmentation": (*MOVING, ops.RandAugment(n=2, m=9, seed=4)),
    "choice of operators": (
        ops.OneOf([ops.GaussianBlur(sigma=(0.5, 2.0)), ops.Rotate(angle=(-20.0, 20.0), keep_size=True)]),
        ops.Flip(p=0.5),
    ),
    "mixed samples": (*MOVING, ops.Mixup(num_classes=8, alpha=0.4)),
    "optical flow of luma": (*MOVING, ops.OpticalFlow(output_grid=4, preset="fast", backend="dis")),
}


def _augmented(name: str, fuse: Any) -> Any:
    def run() -> Found:
        yield from epochs_of(clips().batch(3).map(CHAINS[name]).fuse(fuse))

    return run


for _name in CHAINS:
    for _fuse in ("surface", "exact"):
        job(f"map/{_name}, {_fuse}")(_augmented(_name, _fuse))


@job("map/single samples and different sizes")
def augmented_samples() -> Found:
    chain = ops.Chain(ops.Crop(crop=(48, 64), crop_pos_x=(0.0, 1.0)), ops.Gamma(gamma=(0.7, 1.5)))
    with videos(A, C, length=3, step=7, shuffle=True).map(chain) as data:
        for epoch in EPOCHS:
            yield epoch, of_samples(data.sample(2, epoch))
            for sample in data.epoch(epoch):
                yield epoch, of_samples(sample)
    for ragged in ("list", "pad"):
        data = videos(A, C, length=3, step=7).batch(4, ragged=ragged).map(ops.Flip(p=0.5))
        yield from epochs_of(data)


@job("map/repeated clips and channels first")
def augmented_repeats() -> Found:
    data = clips(per_video=2, step=None, together=True, repeats=2)
    yield from epochs_of(data.map(MOVING, ops.Transpose(output_layout="CFHW")), 4)


@job("map/three ranks", changes=RANKS)
def augmented_ranks() -> Found:
    for rank in range(3):
        yield from epochs_of(clips(shard=(rank, 3)).map(MOVING), 2)


@job("views of held-out videos")
def views() -> Found:
    with videos(A, C, length=3, per_video=2, starts="even", short_side=48) as data:
        scores = VideoScores()
        for batch in data.views((48, 48), count=3).batch(9):
            scores.add(np.stack([one.frames for one in batch["image"]]), batch["video"])
            index = batch.index // 3  # that of the clip
            yield 0, {**of_samples(batch), "index": index, "video": batch["video"]}
        yield 1, {"mean": [scores.mean()[key] for key in sorted(scores.mean())]}


def _resumed(data: Dataset) -> Found:
    """What follows each state of an epoch, from a data set that loads the state."""
    for epoch in EPOCHS:
        passing = data.epoch(epoch)
        states = [passing.state_dict(), *(batch.state for batch in passing)]
        for state in states:
            found = [of_samples(batch) for batch in data.resume(state)]
            yield epoch, {name: [one[name] for one in found] for name in ("image", "index", "frames")}


@job("state/what follows, videos")
def resumed_videos() -> Found:
    with clips(size=(16, 24)).batch(3) as data:
        yield from _resumed(data)


@job("state/what follows, chains")
def resumed_chains() -> Found:
    with clips().map(*MOVING, ops.Gamma(gamma=(0.7, 1.5))).batch(3) as data:
        yield from _resumed(data)


@job("state/positions and fingerprints", changes=STATE)
def states() -> Found:
    for data in (clips(), clips().map(MOVING), volumes(Patch(4), shuffle=True)):
        with data.batch(2) as batches:
            for epoch in EPOCHS:
                yield epoch, {"state": next(batches.epoch(epoch)).state}


def _torch(data: Dataset, layout: str | None = None, **loader: Any) -> Found:
    """The batches of a data set as tensors, by a DataLoader if it is given options."""
    tensors = data.torch(layout)
    batches = tensors
    if loader:
        from torch.utils.data import DataLoader

        batches = DataLoader(tensors, batch_size=None, **loader)
    for epoch in tensors.epochs(len(EPOCHS)):
        for batch in batches:
            named = {"pixels" if name == "image" else name: of_tensor(value) for name, value in batch.items()}
            yield epoch, {name: value for name, value in named.items() if name != "state"}


@job("torch/videos", needs="torch")
def torch_videos() -> Found:
    with clips().batch(3) as data:
        yield from _torch(data, "NCFHW")


@job("torch/chains", needs="torch")
def torch_chains() -> Found:
    with clips().batch(3) as data:
        yield from _torch(data.map(CHAINS["resize, normalize"]), "NFCHW")
        yield from _torch(data.map(CHAINS["mixed samples"]))


@job("torch/workers", needs="torch")
def torch_workers() -> Found:
    with clips(threads=1).map(MOVING).batch(2) as data:
        yield from _torch(data, num_workers=2, multiprocessing_context="fork")


@job("torch/pipelines", needs="torch")
def torch_graphs() -> Found:
    def build(parts: Any) -> dict[str, Any]:
        return {"image": fn.flip(parts["image"], horizontal=fn.random.coin_flip(seed=1))}

    with clips().graph(build).batch(3) as data:
        for epoch, batch in _torch(data, "NCFHW"):
            yield epoch, {"image": batch["pixels"], "label": batch["label"], "index": batch["index"]}
