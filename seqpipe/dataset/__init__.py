"""Data sets: one model of samples and one executor for videos, volumes, images and one's own sources.

    ds = seqpipe.videos("train", Clip(16, stride=2, per_video=4), shuffle=True).map(augment).batch(8)
    for epoch in ds.epochs(10):
        for batch in epoch:
            batch["image"], batch["label"]

A :class:`Dataset` is an immutable description. A source (``videos``, ``volumes``, ``items``, ``zipped``, ``views``,
``feed``) knows epochs and indices of samples; the order (:mod:`seqpipe.sampling.dealing`) knows rank, world and what
has been read; the executor (:mod:`seqpipe.pipeline.executor`) knows batches, threads and memory. ``dealt`` joins the
three, ``stages`` applies operators, and ``epoch`` iterates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import on_demand

if TYPE_CHECKING:
    from .aggregate import Aggregate
    from .dataset import Dataset
    from .epoch import Epoch
    from .feed import feed
    from .items import items
    from .lerobot import lerobot
    from .options import Cache, Decode, Prepare
    from .samples import Samples
    from .takes import Clip, Every, Grid, Patch, Segments, Spread, Whole
    from .videos import folders, videos
    from .views import VideoScores
    from .volumes import cases, volumes
    from .zipped import zip  # noqa: A004  named as Python's

__all__ = [
    "Aggregate",
    "Cache",
    "Clip",
    "Dataset",
    "Decode",
    "Epoch",
    "Every",
    "Grid",
    "Patch",
    "Prepare",
    "Samples",
    "Segments",
    "Spread",
    "VideoScores",
    "Whole",
    "cases",
    "feed",
    "folders",
    "items",
    "lerobot",
    "videos",
    "volumes",
    "zip",
]

_LAZY = {
    "Aggregate": "aggregate",
    "Cache": "options",
    "Clip": "takes",
    "Dataset": "dataset",
    "Decode": "options",
    "Epoch": "epoch",
    "Every": "takes",
    "Grid": "takes",
    "Patch": "takes",
    "Prepare": "options",
    "Samples": "samples",
    "Segments": "takes",
    "Spread": "takes",
    "VideoScores": "views",
    "Whole": "takes",
    "cases": "volumes",
    "feed": "feed",
    "folders": "videos",
    "items": "items",
    "lerobot": "lerobot",
    "videos": "videos",
    "volumes": "volumes",
    "zip": "zipped",
}

if not TYPE_CHECKING:
    __getattr__ = on_demand(__name__, _LAZY)


def __dir__() -> list[str]:
    return __all__
