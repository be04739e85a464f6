"""Jobs of data sets, chains over them, pipelines and torch: the one module that builds them.

When their API changes, the functions here are rewritten and the recorded hashes stay. Each function is a generator of
``(epoch, parts)`` for two epochs; what a batch holds is turned into plain arrays at the end of this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import seqpipe
from seqpipe import fn, ops
from seqpipe.parts import Labels
from seqpipe.pipeline import (
    Augmented,
    Graph,
    Input,
    Pipeline,
    SampleInfo,
    VideoScores,
    crop_views,
    external_source,
    read,
    read_items,
)
from seqpipe.readers import FrameFolders, Range, Video, Volume, list_videos
from seqpipe.volume import GridAggregator, GridSampler

from .hashing import job

A, B, C = "videos/0/a.mp4", "videos/0/b.mp4", "videos/1/c.mkv"
RANKS = "ranks: units of what remains are dealt to the ranks in turn, instead of contiguous parts"
STORED = "stored: volumes are read with slope and intercept applied"
STATE = "state: version 2, with a history instead of a position"
EPOCHS = (0, 1)
Found = Iterator[tuple[int, dict[str, Any]]]


# --- videos


def _video(*files: str, **options: Any) -> Video:
    """A data set of some of the videos."""
    return Video(files=files or (A, B), **options)


@job("video/windows in order")
def windows_in_order() -> Found:
    yield from _epochs(_video(labels=[3, 5], sequence_length=4, stride=2, step=3), 4)


@job("video/windows shuffled")
def windows_shuffled() -> Found:
    yield from _epochs(_video(labels=[3, 5], sequence_length=4, stride=2, step=3, shuffle=True, seed=7), 5)


@job("video/last batches")
def last_batches() -> Found:
    for last in ("drop", "fill", "partial"):
        yield from _epochs(_video(sequence_length=5, shuffle=True), 4, last_batch=last)


@job("video/random clips")
def random_clips() -> Found:
    yield from _epochs(_video(sequence_length=4, stride=3, clips_per_video=3, shuffle=True, seed=5), 4)


@job("video/even clips")
def even_clips() -> Found:
    yield from _epochs(_video(sequence_length=4, clips_per_video=3, clip_mode="even"), 4)


@job("video/clips together with repeats")
def clips_together() -> Found:
    options = {"clips_per_video": 3, "clips_together": True, "repeats": 2, "shuffle": True, "seed": 2}
    yield from _epochs(_video(A, B, A, labels=[0, 1, 2], sequence_length=3, stride=2, **options), 4)


@job("video/segments")
def segments() -> Found:
    for mode in ("random", "center", "linspace"):
        yield from _epochs(_video(segments=6, segment_mode=mode, shuffle=True, seed=3, repeats=2), 3)


@job("video/frame rates")
def frame_rates() -> Found:
    files = A, B, C
    yield from _epochs(_video(*files, sequence_length=4, fps=7.5, step=2, short_side=32, crop=(0, 0, 64, 96)), 4)
    yield from _epochs(
        _video(A, B, sequence_length=3, fps=12, stride=2, clips_per_video=2, shuffle=True, seed=1), 3
    )


@job("video/pad modes")
def pad_modes() -> Found:
    for mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
        options = {"pad_mode": mode, "fill_value": 90 if mode == "constant" else 0}
        yield from _epochs(_video(B, sequence_length=8, stride=4, step=10, **options), 2)


@job("video/folders of classes, and files that cannot be read")
def class_folders() -> Found:
    for policy in ("skip", "substitute"):
        data = Video(file_root="videos", sequence_length=4, step=8, shuffle=True, on_error=policy)
        yield 0, {"classes": data.classes, "total": data.total, "lost": len(data.report().losses)}
        yield from _epochs(data, 3)


@job("video/manifest with ranges and columns")
def manifest() -> Found:
    yield from _epochs(Video(manifest="train.csv", sequence_length=3, step=5, shuffle=True, seed=4), 3)


@job("video/types of labels")
def label_types() -> Found:
    given = {"number": [0.5, 2], "vector": [[1, 2, 3], [4, 5, 6]], "text": ["one", "two"]}
    for kind, labels in given.items():
        yield from _epochs(_video(labels=labels, label_type=kind, sequence_length=4, step=12), 3)
    several = _video(labels=[["x", "z"], ["y"]], classes=["x", "y", "z"], label_type="classes", segments=3)
    yield from _epochs(several, 2)


@job("video/ranges and short videos")
def ranges() -> Found:
    data = Video(
        files=[A, A, B],
        ranges=[Range(frames=(5, 20)), Range(seconds=(1.0, None)), None],
        sequence_length=4,
        step=4,
        min_frames=16,
        shuffle=True,
    )
    yield from _epochs(data, 3)


@job("video/least motion")
def least_motion() -> Found:
    yield from _epochs(_video(sequence_length=6, step=2, min_motion=20.0, shuffle=True), 4)


@job("video/splits and balanced listings")
def splits() -> Found:
    listing = list_videos(files=[A, B, C, A, A], labels=[0, 1, 1, 0, 0])
    train, held_out = listing.split((0.6, 0.4), seed=3)
    for part in (train, held_out, listing.balanced(seed=1)):
        yield from _epochs(Video(videos=part, segments=2, size=(16, 24)), 3)


@job("video/colors, types and layouts")
def outputs() -> Found:
    for options in (
        {"color": "GRAY", "short_side": 40},
        {"color": "BGR", "crop": (8, 10, 40, 60), "mirror": True},
        {"color": "YCbCr", "max_side": 48, "dtype": "uint16"},
        {"dtype": "float32", "mean": 0.5, "std": (0.2, 0.3, 0.4), "layout": "FCHW", "size": (30, 50)},
        {"dtype": "float16", "layout": "CFHW"},
    ):
        yield from _epochs(_video(A, C, sequence_length=3, step=9, **options), 4)


@job("video/batches of different sizes")
def different_sizes() -> Found:
    for ragged in ("list", "pad"):
        data = _video(A, C, sequence_length=3, step=7, fill_value=40, shuffle=True, seed=3)
        yield from _epochs(data, 4, ragged=ragged)


@job("video/single samples")
def single_samples() -> Found:
    with _video(sequence_length=4, clips_per_video=2, shuffle=True, seed=9) as data:
        for epoch in EPOCHS:
            for index in (3, 0, 2):
                yield epoch, _sequence(data.sample(index, epoch))
            data.set_epoch(epoch)
            for sequence in data:
                yield epoch, _sequence(sequence)


@job("video/shards of one rank")
def one_rank() -> Found:
    for options in ({"stick_to_shard": True}, {"even_shards": True}):
        yield from _epochs(_video(sequence_length=4, step=5, shuffle=True, shard=(0, 1), **options), 4)


@job("video/shards of three ranks", changes=RANKS)
def three_ranks() -> Found:
    for options in ({}, {"shuffle": True}, {"shuffle": True, "stick_to_shard": True, "even_shards": True}):
        for rank in range(3):
            data = _video(sequence_length=4, step=5, shard=(rank, 3), size=(16, 24), **options)
            yield from _epochs(data, 3)


@job("video/samples of all ranks together")
def all_ranks() -> Found:
    for epoch in EPOCHS:
        found: dict[int, Any] = {}
        for rank in range(3):
            with _video(sequence_length=4, clips_per_video=4, shuffle=True, shard=(rank, 3)) as data:
                data.set_epoch(epoch)
                found |= {one.index: _sequence(one) for one in data}
        for index in sorted(found):
            yield epoch, found[index]


@job("folders of frames")
def frame_folders() -> Found:
    folders = {"folders": ["frames/f0", "frames/f1"], "template": "img_{:05}.png", "labels": [4, 1]}
    yield from _epochs(FrameFolders(**folders, sequence_length=4, stride=2, step=3, shuffle=True, seed=1), 4)
    yield from _epochs(FrameFolders(**folders, segments=5, segment_mode="random", short_side=32), 2)
    yield from _epochs(FrameFolders(file_root="frames", sequence_length=5, pad_mode="edge", step=7), 3)


# --- chains over videos

MOVING = (
    ops.RandomResizedCrop(size=(40, 40), random_area=(0.3, 1.0), seed=1),
    ops.Flip(p=0.5, seed=1),
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


def _clips(**options: Any) -> Video:
    """A small training set."""
    given = {"labels": [3, 5], "sequence_length": 4, "stride": 2, "step": 9, "shuffle": True, "seed": 3}
    return _video(**{**given, **options})


def _augmented(name: str, fuse: Any) -> Any:
    def run() -> Found:
        yield from _epochs(Augmented(_clips(), ops.Chain(*CHAINS[name]), fuse=fuse), 3)

    return run


for _name in CHAINS:
    for _fuse in ("surface", "exact"):
        job(f"map/{_name}, {_fuse}")(_augmented(_name, _fuse))
job("map/crop, flip, brightness, planes")(_augmented("crop, flip, brightness", "planes"))


@job("map/single samples and different sizes")
def augmented_samples() -> Found:
    chain = ops.Chain(ops.Crop(crop=(48, 64), crop_pos_x=(0.0, 1.0)), ops.Gamma(gamma=(0.7, 1.5)))
    with Augmented(_video(A, C, sequence_length=3, step=7, shuffle=True), chain) as data:
        for epoch in EPOCHS:
            data.set_epoch(epoch)
            yield epoch, _sequence(data.sample(2, epoch))
            for sequence in data:
                yield epoch, _sequence(sequence)
    yield from _epochs(Augmented(_video(A, C, sequence_length=3, step=7), ops.Flip(p=0.5)), 4, ragged="list")
    yield from _epochs(Augmented(_video(A, C, sequence_length=3, step=7), ops.Flip(p=0.5)), 4, ragged="pad")


@job("map/repeated clips and channels first")
def augmented_repeats() -> Found:
    data = _clips(clips_per_video=2, step=None, clips_together=True, repeats=2, layout="CFHW")
    yield from _epochs(Augmented(data, list(MOVING)), 4)


@job("map/three ranks", changes=RANKS)
def augmented_ranks() -> Found:
    for rank in range(3):
        yield from _epochs(Augmented(_clips(shard=(rank, 3)), list(MOVING)), 2)


@job("views of held-out videos")
def views() -> Found:
    with _video(A, C, sequence_length=3, clips_per_video=2, clip_mode="even", short_side=48) as data:
        scores = VideoScores()
        for batch in data.batches(3):
            crops = crop_views(batch, (48, 48), count=3)
            pixels = crops.numpy() if crops.stacked is not None else np.stack([one.numpy() for one in crops])
            scores.add(pixels.mean((1, 2, 3)), data.videos(crops.indices))
            yield 0, {**_batch(crops), "video": data.videos(crops.indices)}
        yield 1, {"mean": [scores.mean()[key] for key in sorted(scores.mean())]}


# --- pipelines and graphs


@job("pipeline/reader, drawn parameters, all values")
def pipeline_values() -> Found:
    for last in ("partial", "drop", "fill", "pad"):
        clip = read(Video(manifest="train.csv", sequence_length=3, step=5, shuffle=True), 4, last_batch=last)
        turned = fn.flip(clip.pixels, horizontal=fn.random.coin_flip(seed=1))
        names = ("image", "label", "timestamps", "frames", "index", "video", "speed", "name")
        values = clip.label, clip.timestamps, clip.frames, clip.index, clip.video, *clip.columns.values()
        yield from _pipeline(Pipeline(turned, *values, names=names))


@job("pipeline/luma and colors")
def pipeline_luma() -> Found:
    clip = read(_clips(), 3)
    motion = fn.optical_flow(clip.luma, output_grid=4, preset="fast", backend="dis")
    yield from _pipeline(Pipeline(clip.pixels, clip.luma, motion, names=("image", "luma", "flow")))


@job("pipeline/parameters from pixels")
def pipeline_computed() -> Found:
    clip = read(_clips(), 3)
    angle = fn.random.uniform(range=(-10.0, 10.0), seed=2)
    rotated = fn.rotate(clip.pixels, angle=angle, keep_size=True, fill_value=0)
    mean = fn.reductions.mean(rotated, axis_names="FHWC")
    even = fn.brightness(rotated, brightness=118 / (mean + 1))
    yield from _pipeline(Pipeline(even, angle, clip.index, names=("image", "angle", "index")))


def _picture(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (24, 32, 3), dtype=np.uint8)


def _sample_of(info: SampleInfo) -> Any:
    if info.idx_in_epoch >= 10:
        raise StopIteration
    return _picture(info.idx_in_epoch + 100 * info.epoch_idx), np.int32(info.idx_in_epoch)


def _batch_of(number: int) -> Any:
    if number >= 3:
        raise StopIteration
    return np.stack([_picture(3 * number + one) for one in range(3)])


class _Items:
    """An iterable of batches."""

    def __iter__(self) -> Iterator[Any]:
        return (_batch_of(number) for number in range(2))


def _external(source: Any, **options: Any) -> Found:
    several = options.get("num_outputs")
    node = external_source(source, **options)
    values = node if several else (node,)
    turned = fn.rotate(values[0], angle=fn.random.uniform(range=(-30.0, 30.0), seed=5), keep_size=True)
    outputs = fn.crop(turned, crop=(16, 20)), *values[1:]
    yield from _pipeline(Pipeline(*outputs, names=("image", "number")[: len(outputs)]))


@job("external/callables")
def external_callables() -> Found:
    pair = {"num_outputs": 2, "batch": False, "layout": ("HWC", "")}
    yield from _external(_sample_of, batch_size=4, **pair)
    yield from _external(_batch_of, batch_size=3, layout="HWC")
    yield from _external(lambda info: _batch_of(info.iteration), batch_size=3, batch_info=True, layout="HWC")


@job("external/iterables")
def external_iterables() -> Found:
    yield from _external(_Items(), batch_size=3, layout="HWC", cycle="raise")
    yield from _external([_batch_of(0), _batch_of(2)], batch_size=3, layout="HWC", cycle="raise")
    yield from _external(lambda: iter(_Items()), batch_size=3, layout="HWC", cycle="raise")


@job("external/processes")
def external_processes() -> Found:
    pair = {"num_outputs": 2, "batch": False, "layout": ("HWC", "")}
    yield from _external(_sample_of, batch_size=4, parallel=True, workers=2, **pair)


@job("external/pushed batches")
def external_pushed() -> Found:
    node = external_source(batch_size=3, name="pushed", layout="HWC")
    with Pipeline(fn.flip(node, horizontal=fn.random.coin_flip(seed=3)), names=("image",)) as pipe:
        for number in range(4):
            pipe.feed("pushed", _batch_of(number % 3))
            yield 0, _values(next(pipe))


class _Own:
    """A data set of one's own, which yields pictures and their numbers."""

    name, parts, limit_bytes, fingerprint = "own", ("image", "number"), None, {"count": 7}

    def length(self, epoch: int) -> int:
        return 7 + epoch

    def lockstep(self) -> tuple[int, int]:
        return 7, 8

    def type_of(self, part: int) -> Any:
        return ops.Type("int64", (), "") if part else ops.Type("uint8", (24, 32, 3), "HWC")

    def size(self, epoch: int, positions: Any) -> int:
        return len(positions) * 24 * 32 * 3

    def begin(self, epoch: int, positions: Any) -> Any:
        return (np.asarray(positions) * 3 + epoch) % self.length(epoch)

    def finish(self, work: Any) -> Any:
        return (np.stack([_picture(int(one)) for one in work]), work), work, ("own",) * len(work)

    def cancel(self, work: Any) -> None:
        """Nothing has begun."""

    def close(self) -> None:
        """Nothing is open."""


@job("items of one's own")
def own_items() -> Found:
    image, number = read_items(_Own(), 3)
    turned = fn.rotate(image, angle=fn.random.uniform(range=(-30.0, 30.0), seed=5), keep_size=True)
    yield from _pipeline(Pipeline(turned, number, names=("image", "number")))


@job("graph/shared draws")
def graph_shared() -> Found:
    images, masks = Input("images"), Input("masks")
    angle = fn.random.uniform(range=(-25.0, 25.0), seed=2)
    graph = Graph(
        fn.rotate(images, angle=angle, keep_size=True, fill_value=0),
        fn.rotate(masks, angle=angle, keep_size=True, fill_value=0, interp="nearest"),
        angle,
    )
    clip = np.stack([_picture(number) for number in range(8)]).reshape(2, 4, 24, 32, 3)
    for epoch in EPOCHS:
        turned, mask, angles = graph(images=clip, masks=clip // 128, epoch=epoch, index=4)
        yield epoch, {"image": _pixels(turned), "mask": _pixels(mask), "angles": np.asarray(angles)}


# --- volumes


def _cases(*names: str) -> list[dict[str, str]]:
    return [{name: f"volumes/{name}_{number}.nii.gz" for name in names} for number in range(3)]


def _volume(names: tuple[str, ...] = ("t1", "label"), **options: Any) -> Volume:
    return Volume(files=_cases(*names), **options)


@job("volume/whole")
def whole_volumes() -> Found:
    yield from _volumes(_volume(shuffle=True), 2)


@job("volume/uniform patches")
def uniform_patches() -> Found:
    yield from _volumes(_volume(patch_size=(6, 8, 10), patches_per_volume=3, shuffle=True, seed=1), 4)
    padded = _volume(("t1", "t2"), patch_size=16, pad_mode="reflect", dtype="float32")
    yield from _volumes(padded, 2)


@job("volume/balanced patches")
def balanced_patches() -> Found:
    options = {"patch_size": (4, 8, 8), "patches_per_volume": 4, "foreground": 0.5, "open_volumes": 2}
    yield from _volumes(_volume(**options, sampler="balanced", shuffle=True, seed=2), 4)


@job("volume/patches by class")
def class_patches() -> Found:
    options = {"patch_size": (4, 8, 8), "patches_per_volume": 3, "sampler": "classes"}
    yield from _volumes(_volume(**options, shuffle=True), 4)
    yield from _volumes(_volume(**options, class_weights={1: 1.0, 3: 4.0}), 4)


@job("volume/patches by weights")
def weighted_patches() -> Found:
    options = {"patch_size": (4, 8, 8), "patches_per_volume": 3, "sampler": "weighted", "weights": "weights"}
    yield from _volumes(_volume(("t1", "label", "weights"), **options, shuffle=True), 4)


@job("volume/spacing and orientation")
def prepared_volumes() -> Found:
    yield from _volumes(_volume(spacing_mm=(2.0, 1.5, 1.5), orientation="LPS"), 2)
    prepared = {"spacing_mm": 1.5, "orientation": "LPI", "crop_above": 150, "interp": "bspline"}
    yield from _volumes(_volume(**prepared, patch_size=(5, 7, 9), patches_per_volume=2, pad_mode="edge"), 4)


@job("volume/folds and caches")
def cached_volumes() -> Found:
    options = {"patch_size": (4, 8, 8), "patches_per_volume": 2, "shuffle": True, "cache_gib": 0.1}
    for validation in (False, True):
        yield from _volumes(_volume(**options, fold=(0, 2), validation=validation), 2)


@job("volume/channels of a series")
def series_volumes() -> Found:
    yield from _volumes(Volume(files=["volumes/series.nii.gz"], series_as_channels=True, patch_size=6), 1)


@job("volume/stored values", changes=STORED)
def stored_volumes() -> Found:
    yield from _volumes(Volume(files=["volumes/stored.nii.gz"], patch_size=6), 1)
    with seqpipe.open("volumes/stored.nii.gz") as volume:
        for window in (volume[2:6, 3:9, 4:8], volume.sequence().scaled()):
            yield 0, {"image": window.numpy(), "scale": window.scale, "affine": window.affine}


@job("volume/three ranks", changes=RANKS)
def volume_ranks() -> Found:
    for rank in range(3):
        shared = {"shard": (rank, 3), "shuffle": True}
        yield from _volumes(_volume(patch_size=(4, 8, 8), patches_per_volume=2, **shared), 2)


@job("volume/chains over samples of parts")
def volume_chains() -> Found:
    chain = ops.Chain(
        ops.RandomAffine3d(rotate=(-15.0, 15.0), scale=(0.9, 1.1)),
        ops.Flip3d(width=True, p=0.5),
        ops.GaussianNoise3d(sigma=(0.0, 5.0), only="t1"),
    )
    with _volume(("t1", "t2", "label"), patch_size=(6, 10, 10), patches_per_volume=2, shuffle=True) as data:
        for epoch in EPOCHS:
            data.set_epoch(epoch)
            for sample in data.samples(parts=True):
                moved = chain(sample, epoch=epoch, index=sample["t1"].index)
                yield epoch, {"index": sample["t1"].index, **_sample(moved)}


@job("volume/slices of batches, labels by hand")
def volume_batches() -> Found:
    chain = ops.Chain(
        ops.Flip(p=0.5),
        ops.Rotate(angle=(-15.0, 15.0), keep_size=True, fill_value=0),
        ops.GaussianBlur(sigma=(0.5, 1.5)),
        ops.Gamma(gamma=(0.7, 1.5), range="minmax"),
    )
    with _volume(patch_size=(6, 12, 12), sampler="balanced", dtype="float32", shuffle=True) as data:
        for epoch in EPOCHS:
            data.set_epoch(epoch)
            for batch in data.batches(2):
                moved = chain({"image": batch["t1"], "label": Labels(batch["label"])}, epoch=epoch)
                yield epoch, _sample(moved)


@job("volume/grid of patches")
def grid() -> Found:
    with seqpipe.open("volumes/t1_1.nii.gz") as volume:
        for epoch, overlap in enumerate((0.25, 0.5)):
            sampler = GridSampler(volume, patch_size=(8, 10, 12), overlap=overlap)
            whole = GridAggregator(sampler, weights="gaussian")
            for numbers, batch in sampler.batches(5):
                yield epoch, {"image": batch.numpy(), "index": numbers, "affine": _affines(batch)}
                whole.add(numbers, batch.data > 0)
            yield epoch, {"result": whole.result(dtype=np.uint8).numpy()}


# --- states


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
            found = [_batch(batch) for batch in rest]
            yield epoch, {name: [one[name] for one in found] for name in ("image", "index", "frames")}


@job("state/what follows, videos")
def resumed_videos() -> Found:
    with _clips(size=(16, 24)) as data:
        yield from _resumed(data, 3)


@job("state/what follows, chains")
def resumed_chains() -> Found:
    with Augmented(_clips(), ops.Chain(*MOVING, ops.Gamma(gamma=(0.7, 1.5)))) as data:
        yield from _resumed(data, 3)


@job("state/positions and fingerprints", changes=STATE)
def states() -> Found:
    for data in (_clips(), Augmented(_clips(), list(MOVING)), _volume(patch_size=4, shuffle=True)):
        with data:
            for epoch in EPOCHS:
                data.set_epoch(epoch)
                passing = data.batches(2)
                next(passing)
                yield epoch, {"state": dict(passing.state_dict())}
    clip = read(_clips(), 3)
    with Pipeline(fn.flip(clip.pixels, horizontal=fn.random.coin_flip(seed=1)), clip.label) as pipe:
        next(pipe)
        yield 0, {"state": dict(pipe.state_dict())}


# --- torch


def _torch(data: Any, **loader: Any) -> Found:
    """The batches of a torch data set, by a DataLoader if it is given options."""
    batches = data
    if loader:
        from torch.utils.data import DataLoader

        batches = DataLoader(data, batch_size=None, **loader)
    for epoch in EPOCHS:
        data.set_epoch(epoch)
        for batch in batches:
            yield epoch, {name: _plain_tensor(value) for name, value in batch.items()}


@job("torch/videos", needs="torch")
def torch_videos() -> Found:
    with _clips() as data:
        yield from _torch(data.as_torch(3, layout="NCFHW"))


@job("torch/chains", needs="torch")
def torch_chains() -> Found:
    with Augmented(_clips(), ops.Chain(*CHAINS["resize, normalize"])) as data:
        yield from _torch(data.as_torch(3, layout="NFCHW"))
    with Augmented(_clips(), ops.Chain(*CHAINS["mixed samples"])) as data:
        yield from _torch(data.as_torch(3))


@job("torch/workers", needs="torch")
def torch_workers() -> Found:
    with Augmented(_clips(threads=1), list(MOVING)) as data:
        yield from _torch(data.as_torch(2), num_workers=2, multiprocessing_context="fork")


@job("torch/pipelines", needs="torch")
def torch_pipelines() -> Found:
    import seqpipe.torch

    clip = read(_clips(), 3)
    pipe = Pipeline(fn.flip(clip.pixels, horizontal=fn.random.coin_flip(seed=1)), clip.label, clip.index)
    batches = seqpipe.torch.Iterator(pipe, names=("image", "label", "index"), layout="NCFHW")
    for epoch in EPOCHS:
        batches.set_epoch(epoch)
        for batch in batches:
            yield epoch, {name: _plain_tensor(value) for name, value in batch.items()}
    batches.close()


# --- batches as plain arrays


def _epochs(data: Any, batch_size: int, **options: Any) -> Found:
    """The batches of two epochs of a data set, which is closed then."""
    with data:
        for epoch in EPOCHS:
            data.set_epoch(epoch)
            for batch in data.batches(batch_size, **options):
                yield epoch, _batch(batch)


def _volumes(data: Volume, batch_size: int) -> Found:
    """The batches of two epochs of a data set of volumes, which is closed then."""
    with data:
        for epoch in EPOCHS:
            data.set_epoch(epoch)
            for batch in data.batches(batch_size):
                yield epoch, {"index": next(iter(batch.values())).indices, **_sample(batch)}


def _pipeline(pipe: Pipeline) -> Found:
    """The batches of two epochs of a pipeline, which is closed then."""
    with pipe:
        for epoch in EPOCHS:
            pipe.set_epoch(epoch)
            for values in pipe:
                yield epoch, _values(values)


def _pixels(value: Any) -> Any:
    """Pixels as an array, or a list of arrays if their shapes differ."""
    value = getattr(value, "data", value) if not hasattr(value, "stacked") else value
    if hasattr(value, "stacked") and value.stacked is None:
        return [one.numpy() for one in value.sequences]
    return value.numpy() if hasattr(value, "numpy") else np.asarray(value)


def _sequence(one: Any) -> dict[str, Any]:
    kept = {"image": one.numpy(), "layout": one.layout, "index": one.index, "label": one.label}
    return {**kept, "frames": one.frames, "timestamps": one.timestamps, "source": Path(one.source).name}


def _batch(batch: Any) -> dict[str, Any]:
    """What a batch of clips holds; of several parts, such as clips and their flow, the first by these names."""
    if isinstance(batch, tuple):
        rest = {f"image {number}": _pixels(one) for number, one in enumerate(batch[1:], 1)}
        return {**_batch(batch[0]), **rest}
    kept = {
        "image": _pixels(batch),
        "layout": batch.sequences[0].layout,
        "index": batch.indices,
        "label": batch.labels,
        "frames": [one.frames for one in batch],
        "timestamps": [one.timestamps for one in batch],
        "source": [Path(one.source).name for one in batch],
    }
    fields = {name: [one.fields[name] for one in batch] for name in batch.sequences[0].fields}
    return {**kept, **fields, **({} if batch.mask is None else {"mask": batch.mask})}


def _affines(batch: Any) -> Any:
    return [one.affine for one in batch]


def _sample(parts: Any) -> dict[str, Any]:
    """Volumes by name: voxels, layout and affines, of batches, samples and parts alike."""
    found: dict[str, Any] = {}
    for name, value in parts.items():
        inner = value.data if isinstance(value, Labels) else value
        several = hasattr(inner, "sequences")
        one = inner.sequences[0] if several else inner
        found |= {name: _pixels(inner) if several else inner.numpy(), f"{name} layout": one.layout}
        found[f"{name} affine"] = _affines(inner) if several else inner.affine
    return found


def _values(values: dict[str, Any]) -> dict[str, Any]:
    """The outputs of a pipeline."""
    return {name: _pixels(value) for name, value in values.items()}


def _plain_tensor(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else value
