"""Jobs of chains over videos, of states and of torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqpipe import fn, ops
from seqpipe.pipeline import (
    Augmented,
    Pipeline,
    VideoScores,
    crop_views,
    read,
)

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
    of_batch,
    of_sequence,
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
        yield from epochs_of(Augmented(clips(), ops.Chain(*CHAINS[name]), fuse=fuse), 3)

    return run


for _name in CHAINS:
    for _fuse in ("surface", "exact"):
        job(f"map/{_name}, {_fuse}")(_augmented(_name, _fuse))
job("map/crop, flip, brightness, planes")(_augmented("crop, flip, brightness", "planes"))


@job("map/single samples and different sizes")
def augmented_samples() -> Found:
    chain = ops.Chain(ops.Crop(crop=(48, 64), crop_pos_x=(0.0, 1.0)), ops.Gamma(gamma=(0.7, 1.5)))
    with Augmented(videos(A, C, sequence_length=3, step=7, shuffle=True), chain) as data:
        for epoch in EPOCHS:
            data.set_epoch(epoch)
            yield epoch, of_sequence(data.sample(2, epoch))
            for sequence in data:
                yield epoch, of_sequence(sequence)
    yield from epochs_of(
        Augmented(videos(A, C, sequence_length=3, step=7), ops.Flip(p=0.5)), 4, ragged="list"
    )
    yield from epochs_of(Augmented(videos(A, C, sequence_length=3, step=7), ops.Flip(p=0.5)), 4, ragged="pad")


@job("map/repeated clips and channels first")
def augmented_repeats() -> Found:
    data = clips(clips_per_video=2, step=None, clips_together=True, repeats=2, layout="CFHW")
    yield from epochs_of(Augmented(data, list(MOVING)), 4)


@job("map/three ranks", changes=RANKS)
def augmented_ranks() -> Found:
    for rank in range(3):
        yield from epochs_of(Augmented(clips(shard=(rank, 3)), list(MOVING)), 2)


@job("views of held-out videos")
def views() -> Found:
    with videos(A, C, sequence_length=3, clips_per_video=2, clip_mode="even", short_side=48) as data:
        scores = VideoScores()
        for batch in data.batches(3):
            crops = crop_views(batch, (48, 48), count=3)
            scores.add(np.stack([one.frames for one in crops]), data.videos(crops.indices))
            yield 0, {**of_batch(crops), "video": data.videos(crops.indices)}
        yield 1, {"mean": [scores.mean()[key] for key in sorted(scores.mean())]}


def _resumed(data: Any, *batches: Any) -> Found:
    """What follows each state of an epoch, from a data set that loads the state."""
    for epoch in EPOCHS:
        data.set_epoch(epoch)
        passing = data.batches(*batches)
        states = [passing.state_dict()]
        states += [passing.state_dict() for _ in passing]
        for state in states:
            rest = data.batches(*batches)
            rest.load_state_dict(state)
            found = [of_batch(batch) for batch in rest]
            yield epoch, {name: [one[name] for one in found] for name in ("image", "index", "frames")}


@job("state/what follows, videos")
def resumed_videos() -> Found:
    with clips(size=(16, 24)) as data:
        yield from _resumed(data, 3)


@job("state/what follows, chains")
def resumed_chains() -> Found:
    with Augmented(clips(), ops.Chain(*MOVING, ops.Gamma(gamma=(0.7, 1.5)))) as data:
        yield from _resumed(data, 3)


@job("state/positions and fingerprints", changes=STATE)
def states() -> Found:
    for data in (clips(), Augmented(clips(), list(MOVING)), volumes(patch_size=4, shuffle=True)):
        with data:
            for epoch in EPOCHS:
                data.set_epoch(epoch)
                passing = data.batches(2)
                next(passing)
                yield epoch, {"state": dict(passing.state_dict())}
    clip = read(clips(), 3)
    with Pipeline(fn.flip(clip.pixels, horizontal=fn.random.coin_flip(seed=1)), clip.label) as pipe:
        next(pipe)
        yield 0, {"state": dict(pipe.state_dict())}


def _torch(data: Any, **loader: Any) -> Found:
    """The batches of a torch data set, by a DataLoader if it is given options."""
    batches = data
    if loader:
        from torch.utils.data import DataLoader

        batches = DataLoader(data, batch_size=None, **loader)
    for epoch in EPOCHS:
        data.set_epoch(epoch)
        for batch in batches:
            yield epoch, {name: of_tensor(value) for name, value in batch.items()}


@job("torch/videos", needs="torch")
def torch_videos() -> Found:
    with clips() as data:
        yield from _torch(data.as_torch(3, layout="NCFHW"))


@job("torch/chains", needs="torch")
def torch_chains() -> Found:
    with Augmented(clips(), ops.Chain(*CHAINS["resize, normalize"])) as data:
        yield from _torch(data.as_torch(3, layout="NFCHW"))
    with Augmented(clips(), ops.Chain(*CHAINS["mixed samples"])) as data:
        yield from _torch(data.as_torch(3))


@job("torch/workers", needs="torch")
def torch_workers() -> Found:
    with Augmented(clips(threads=1), list(MOVING)) as data:
        yield from _torch(data.as_torch(2), num_workers=2, multiprocessing_context="fork")


@job("torch/pipelines", needs="torch")
def torch_pipelines() -> Found:
    import seqpipe.torch

    clip = read(clips(), 3)
    pipe = Pipeline(fn.flip(clip.pixels, horizontal=fn.random.coin_flip(seed=1)), clip.label, clip.index)
    batches = seqpipe.torch.Iterator(pipe, names=("image", "label", "index"), layout="NCFHW")
    for epoch in EPOCHS:
        batches.set_epoch(epoch)
        for batch in batches:
            yield epoch, {name: of_tensor(value) for name, value in batch.items()}
    batches.close()
