"""Jobs of videos and folders of frames."""

from __future__ import annotations

from typing import Any

from seqpipe.readers import FrameFolders, Range, Video, list_videos

from ..hashing import job
from .common import (
    EPOCHS,
    RANKS,
    A,
    B,
    C,
    Found,
    epochs_of,
    of_sequence,
    videos,
)


@job("video/windows in order")
def windows_in_order() -> Found:
    yield from epochs_of(videos(labels=[3, 5], sequence_length=4, stride=2, step=3), 4)


@job("video/windows shuffled")
def windows_shuffled() -> Found:
    yield from epochs_of(videos(labels=[3, 5], sequence_length=4, stride=2, step=3, shuffle=True, seed=7), 5)


@job("video/last batches")
def last_batches() -> Found:
    for last in ("drop", "fill", "partial"):
        yield from epochs_of(videos(sequence_length=5, shuffle=True), 4, last_batch=last)


@job("video/random clips")
def random_clips() -> Found:
    yield from epochs_of(videos(sequence_length=4, stride=3, clips_per_video=3, shuffle=True, seed=5), 4)


@job("video/even clips")
def even_clips() -> Found:
    yield from epochs_of(videos(sequence_length=4, clips_per_video=3, clip_mode="even"), 4)


@job("video/clips together with repeats")
def clips_together() -> Found:
    options = {"clips_per_video": 3, "clips_together": True, "repeats": 2, "shuffle": True, "seed": 2}
    yield from epochs_of(videos(A, B, A, labels=[0, 1, 2], sequence_length=3, stride=2, **options), 4)


@job("video/segments")
def segments() -> Found:
    for mode in ("random", "center", "linspace"):
        yield from epochs_of(videos(segments=6, segment_mode=mode, shuffle=True, seed=3, repeats=2), 3)


@job("video/frame rates")
def frame_rates() -> Found:
    files = A, B, C
    yield from epochs_of(
        videos(*files, sequence_length=4, fps=7.5, step=2, short_side=32, crop=(0, 0, 64, 96)), 4
    )
    yield from epochs_of(
        videos(A, B, sequence_length=3, fps=12, stride=2, clips_per_video=2, shuffle=True, seed=1), 3
    )


@job("video/pad modes")
def pad_modes() -> Found:
    for mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
        options = {"pad_mode": mode, "fill_value": 90 if mode == "constant" else 0}
        yield from epochs_of(videos(B, sequence_length=8, stride=4, step=10, **options), 2)


@job("video/folders of classes, and files that cannot be read")
def class_folders() -> Found:
    for policy in ("skip", "substitute"):
        data = Video(file_root="videos", sequence_length=4, step=8, shuffle=True, on_error=policy)
        yield 0, {"classes": data.classes, "total": data.total, "lost": len(data.report().losses)}
        yield from epochs_of(data, 3)


@job("video/manifest with ranges and columns")
def manifest() -> Found:
    yield from epochs_of(Video(manifest="train.csv", sequence_length=3, step=5, shuffle=True, seed=4), 3)


@job("video/types of labels")
def label_types() -> Found:
    given = {"number": [0.5, 2], "vector": [[1, 2, 3], [4, 5, 6]], "text": ["one", "two"]}
    for kind, labels in given.items():
        yield from epochs_of(videos(labels=labels, label_type=kind, sequence_length=4, step=12), 3)
    several = videos(labels=[["x", "z"], ["y"]], classes=["x", "y", "z"], label_type="classes", segments=3)
    yield from epochs_of(several, 2)


@job("video/ranges and short videos")
def ranges() -> Found:
    data = Video(
        files=[A, A, B],
        ranges=[Range(start_frame=5, end_frame=20), Range(start_s=1.0), None],
        sequence_length=4,
        step=4,
        min_frames=16,
        shuffle=True,
    )
    yield from epochs_of(data, 3)


@job("video/least motion")
def least_motion() -> Found:
    yield from epochs_of(videos(sequence_length=6, step=2, min_motion=20.0, shuffle=True), 4)


@job("video/splits and balanced listings")
def splits() -> Found:
    listing = list_videos(files=[A, B, C, A, A], labels=[0, 1, 1, 0, 0])
    train, held_out = listing.split((0.6, 0.4), seed=3)
    for part in (train, held_out, listing.balanced(seed=1)):
        yield from epochs_of(Video(videos=part, segments=2, size=(16, 24)), 3)


@job("video/colors, types and layouts")
def outputs() -> Found:
    for options in (
        {"color": "GRAY", "short_side": 40},
        {"color": "BGR", "crop": (8, 10, 40, 60), "mirror": True},
        {"color": "YCbCr", "max_side": 48, "dtype": "uint16"},
        {"dtype": "float32", "mean": 0.5, "std": (0.2, 0.3, 0.4), "layout": "FCHW", "size": (30, 50)},
        {"dtype": "float16", "layout": "CFHW"},
    ):
        yield from epochs_of(videos(A, C, sequence_length=3, step=9, **options), 4)


@job("video/batches of different sizes")
def different_sizes() -> Found:
    for ragged in ("list", "pad"):
        data = videos(A, C, sequence_length=3, step=7, fill_value=40, shuffle=True, seed=3)
        yield from epochs_of(data, 4, ragged=ragged)


@job("video/single samples")
def single_samples() -> Found:
    with videos(sequence_length=4, clips_per_video=2, shuffle=True, seed=9) as data:
        for epoch in EPOCHS:
            for index in (3, 0, 2):
                yield epoch, of_sequence(data.sample(index, epoch))
            data.set_epoch(epoch)
            for sequence in data:
                yield epoch, of_sequence(sequence)


@job("video/shards of one rank")
def one_rank() -> Found:
    for options in ({"stick_to_shard": True}, {"even_shards": True}):
        yield from epochs_of(videos(sequence_length=4, step=5, shuffle=True, shard=(0, 1), **options), 4)


@job("video/shards of three ranks", changes=RANKS)
def three_ranks() -> Found:
    for options in ({}, {"shuffle": True}, {"shuffle": True, "stick_to_shard": True, "even_shards": True}):
        for rank in range(3):
            data = videos(sequence_length=4, step=5, shard=(rank, 3), size=(16, 24), **options)
            yield from epochs_of(data, 3)


@job("video/samples of all ranks together")
def all_ranks() -> Found:
    for epoch in EPOCHS:
        found: dict[int, Any] = {}
        for rank in range(3):
            with videos(sequence_length=4, clips_per_video=4, shuffle=True, shard=(rank, 3)) as data:
                data.set_epoch(epoch)
                found |= {one.index: of_sequence(one) for one in data}
        for index in sorted(found):
            yield epoch, found[index]


@job("folders of frames")
def frame_folders() -> Found:
    folders = {"folders": ["frames/f0", "frames/f1"], "template": "img_{:05}.png", "labels": [4, 1]}
    yield from epochs_of(
        FrameFolders(**folders, sequence_length=4, stride=2, step=3, shuffle=True, seed=1), 4
    )
    yield from epochs_of(FrameFolders(**folders, segments=5, segment_mode="random", short_side=32), 2)
    yield from epochs_of(FrameFolders(file_root="frames", sequence_length=5, pad_mode="edge", step=7), 3)
