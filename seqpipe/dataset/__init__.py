"""Data sets: one model of samples and one executor for videos, volumes, images and one's own sources.

    ds = seqpipe.videos("train", Clip(16, stride=2, per_video=4), shuffle=True).map(augment).batch(8)
    for epoch in ds.epochs(10):
        for batch in epoch:
            batch["image"], batch["label"]

A :class:`Dataset` is an immutable description. A source (:mod:`seqpipe.sources`, ``views``) knows epochs and indices of
samples; the order (:mod:`seqpipe.sampling.dealing`) knows rank, world and what has been read; the executor
(:mod:`seqpipe.pipeline.executor`) knows batches, threads and memory. ``dealt`` joins the three, ``stages`` applies
operators, and ``epoch`` iterates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import on_demand

if TYPE_CHECKING:
    from .dataset import Dataset
    from .epoch import Epoch
    from .samples import Samples
    from .views import VideoScores

__all__ = ["Dataset", "Epoch", "Samples", "VideoScores"]

_LAZY = {"Dataset": "dataset", "Epoch": "epoch", "Samples": "samples", "VideoScores": "views"}
_ELSEWHERE = (
    *(
        "Aggregate",
        "Cache",
        "Clip",
        "Decode",
        "Every",
        "Grid",
        "Patch",
        "Prepare",
        "Segments",
        "Spread",
        "Whole",
    ),
    *("cases", "feed", "folders", "items", "lerobot", "listing", "videos", "volumes", "zip"),
)

if not TYPE_CHECKING:
    __getattr__ = on_demand(__name__, _LAZY, {name: f"seqpipe.{name}" for name in _ELSEWHERE})


def __dir__() -> list[str]:
    return __all__
