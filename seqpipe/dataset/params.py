"""Parameters of data sets' methods, each by the name that it has there."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal, TypeAlias, get_args

from ..core.param import Param, choice
from ..pipeline.fusion import Fuse
from ..readers.params import PREFETCH, PREFETCH_GIB
from ..sampling.params import BATCH_SIZE, EVEN_SHARDS, STICK_TO_SHARD

__all__ = ["BATCHES", "EVEN", "FUSE", "GIB", "RAGGED", "SIZE", "STICK", "VIEWS", "Ragged"]

Ragged: TypeAlias = Literal["list", "pad"]

SIZE: Final = replace(BATCH_SIZE, name="size")
GIB: Final = replace(PREFETCH_GIB, name="gib")
BATCHES: Final = replace(PREFETCH, name="batches")
EVEN: Final = replace(EVEN_SHARDS, name="even")
STICK: Final = replace(STICK_TO_SHARD, name="stick")
FUSE: Final = choice("fuse", "Difference of pixel values that fusing may make", get_args(Fuse))
RAGGED: Final = choice(
    "ragged",
    "Batches of sequences of different shapes: a list, or padded to one shape",
    get_args(Ragged),
)
VIEWS: Final = Param(name="count", doc="Windows of each sample", lo=1, hi=10_000)
