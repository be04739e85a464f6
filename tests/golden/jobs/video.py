"""Jobs of videos and folders of frames."""

from __future__ import annotations

from typing import Any

import seqpipe
from seqpipe import ops
from seqpipe.readers import Range

from ..hashing import job
from .common import (
    EPOCHS,
    RANKS,
    A,
    B,
    C,
    Found,
    epochs_of,
    folders,
    of_samples,
    videos,
)


@job("video/windows in order")
def windows_in_order() -> Found:
    yield from epochs_of(videos(labels=[3, 5], length=4, stride=2, step=3), 4)


@job("video/windows shuffled")
def windows_shuffled() -> Found:
    yield from epochs_of(videos(labels=[3, 5], length=4, stride=2, step=3, shuffle=True, seed=7), 5)


@job("video/last batches")
def last_batches() -> Found:
    for last in ("drop", "fill", "partial"):
        yield from epochs_of(videos(length=5, shuffle=True), 4, last=last)


@job("video/random clips")
def random_clips() -> Found:
    yield from epochs_of(videos(length=4, stride=3, per_video=3, shuffle=True, seed=5), 4)


@job("video/even clips")
def even_clips() -> Found:
    yield from epochs_of(videos(length=4, per_video=3, starts="even"), 4)


@job("video/clips together with repeats")
def together() -> Found:
    options = {"per_video": 3, "together": True, "repeats": 2, "shuffle": True, "seed": 2}
    yield from epochs_of(videos(A, B, A, labels=[0, 1, 2], length=3, stride=2, **options), 4)


@job("video/segments")
def segments() -> Found:
    for mode in ("random", "center", "linspace"):
        yield from epochs_of(videos(count=6, where=mode, shuffle=True, seed=3, repeats=2), 3)


@job("video/frame rates")
def frame_rates() -> Found:
    files = A, B, C
    yield from epochs_of(videos(*files, length=4, fps=7.5, step=2, short_side=32, crop=(0, 0, 64, 96)), 4)
    yield from epochs_of(videos(A, B, length=3, fps=12, stride=2, per_video=2, shuffle=True, seed=1), 3)


@job("video/pad modes")
def pad_modes() -> Found:
    for mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
        options = {"pad": mode, "fill": 90 if mode == "constant" else 0}
        yield from epochs_of(videos(B, length=8, stride=4, step=10, **options), 2)


@job("video/folders of classes, and files that cannot be read")
def class_folders() -> Found:
    for policy in ("skip", "substitute"):
        data = videos(source="videos", length=4, step=8, shuffle=True, on_error=policy)
        yield 0, {"classes": data.classes, "total": data.size, "lost": len(data.report().losses)}
        yield from epochs_of(data, 3)


@job("video/manifest with ranges and columns")
def manifest() -> Found:
    yield from epochs_of(videos(source="train.csv", length=3, step=5, shuffle=True, seed=4), 3)


@job("video/types of labels")
def label_types() -> Found:
    given = {"number": [0.5, 2], "vector": [[1, 2, 3], [4, 5, 6]], "text": ["one", "two"]}
    for kind, labels in given.items():
        yield from epochs_of(videos(labels=labels, label_type=kind, length=4, step=12), 3)
    several = videos(labels=[["x", "z"], ["y"]], classes=["x", "y", "z"], label_type="classes", count=3)
    yield from epochs_of(several, 2)


@job("video/ranges and short videos")
def ranges() -> Found:
    data = videos(
        *(A, A, B),
        ranges=[Range(start_frame=5, end_frame=20), Range(start_s=1.0), None],
        length=4,
        step=4,
        min_frames=16,
        shuffle=True,
    )
    yield from epochs_of(data, 3)


@job("video/least motion")
def least_motion() -> Found:
    yield from epochs_of(videos(length=6, step=2, min_motion=20.0, shuffle=True), 4)


@job("video/splits and balanced listings")
def splits() -> Found:
    listing = seqpipe.listing([A, B, C, A, A], labels=[0, 1, 1, 0, 0])
    train, held_out = listing.split((0.6, 0.4), seed=3)
    for part in (train, held_out, listing.balanced(seed=1)):
        yield from epochs_of(videos(source=part, count=2, size=(16, 24)), 3)


@job("video/colors, types and layouts")
def outputs() -> Found:
    for options in (
        {"color": "GRAY", "short_side": 40},
        {"color": "BGR", "crop": (8, 10, 40, 60), "mirror": True},
        {"color": "YCbCr", "max_side": 48, "dtype": "uint16"},
        {"dtype": "float32", "mean": 0.5, "std": (0.2, 0.3, 0.4), "layout": "FCHW", "size": (30, 50)},
    ):
        yield from epochs_of(videos(A, C, length=3, step=9, **options), 4)
    data = videos(A, C, length=3, step=9, dtype="float16")
    yield from epochs_of(data.map(ops.Transpose(output_layout="CFHW")), 4)


@job("video/batches of different sizes")
def different_sizes() -> Found:
    for ragged in ("list", "pad"):
        data = videos(A, C, length=3, step=7, fill=40, shuffle=True, seed=3)
        yield from epochs_of(data, 4, ragged=ragged)


@job("video/single samples")
def single_samples() -> Found:
    with videos(length=4, per_video=2, shuffle=True, seed=9) as data:
        for epoch in EPOCHS:
            for index in (3, 0, 2):
                yield epoch, of_samples(data.sample(index, epoch))
            for sample in data.epoch(epoch):
                yield epoch, of_samples(sample)


@job("video/shards of one rank")
def one_rank() -> Found:
    for options in ({"stick": True}, {"even": True}):
        yield from epochs_of(videos(length=4, step=5, shuffle=True, shard=(0, 1), **options), 4)


@job("video/shards of three ranks", changes=RANKS)
def three_ranks() -> Found:
    for options in ({}, {"shuffle": True}, {"shuffle": True, "stick": True, "even": True}):
        for rank in range(3):
            data = videos(length=4, step=5, shard=(rank, 3), size=(16, 24), **options)
            yield from epochs_of(data, 3)


@job("video/samples of all ranks together")
def all_ranks() -> Found:
    for epoch in EPOCHS:
        found: dict[int, Any] = {}
        for rank in range(3):
            with videos(length=4, per_video=4, shuffle=True, shard=(rank, 3)) as data:
                found |= {one.index: of_samples(one) for one in data.epoch(epoch)}
        for index in sorted(found):
            yield epoch, found[index]


@job("folders of frames")
def frame_folders() -> Found:
    given = {"template": "img_{:05}.png", "labels": [4, 1]}
    two = ["frames/f0", "frames/f1"]
    yield from epochs_of(folders(two, **given, length=4, stride=2, step=3, shuffle=True, seed=1), 4)
    yield from epochs_of(folders(two, **given, count=5, where="random", short_side=32), 2)
    yield from epochs_of(folders("frames", length=5, pad="edge", step=7), 3)
