"""What the tests of operators on data sets share: data sets, chains, and what comes of them with and without fusion."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import seqpipe
from seqpipe import Clip, Dataset, Decode, OutputSpec, ops
from seqpipe.ops import Chain
from seqpipe.sequence import Batch
from tests.support.datasets import files

__all__ = [
    "LEVEL",
    "MEAN",
    "NORMALIZED",
    "STD",
    "TRAIN",
    "assert_same_samples",
    "clips",
    "fused",
    "images",
    "levels_apart",
    "unfused",
]

MEAN: Final = (123.0, 116.0, 103.0)
STD: Final = (58.0, 57.0, 56.0)
NORMALIZED = ops.CropMirrorNormalize(mean=MEAN, std=STD, dtype="float32", output_layout="CHW")
TRAIN = Chain(ops.RandomResizedCrop(size=(40, 48), seed=3), ops.Flip(p=0.5), NORMALIZED)
LEVEL: Final = 1.001  # of 8 bits, and what float32 has rounded of values that are normalized


def clips(device: str, *names: str, **changes: Any) -> Dataset:
    """Some sequences of several files, in a new order in every epoch; changes are arguments of any part of it."""
    given: dict[str, Any] = {"length": 4, "stride": 2, "threads": 2, "shuffle": True, "seed": 5, **changes}

    def of(kind: Any) -> Any:
        return kind(**{one.name: given.pop(one.name) for one in fields(kind) if one.name in given})

    take, output, decode = of(Clip), of(OutputSpec), of(Decode)
    listed = seqpipe.listing(files(*names), labels=list(range(len(names))))
    result = seqpipe.videos(listed, take, output=output, decode=decode, device=device, **given)
    return result.prefetch(gib=0.5)


def images(dataset: Dataset, epoch: int = 2) -> list[Batch]:
    """The images of the batches of an epoch."""
    with dataset:
        return [batch["image"] for batch in dataset.epoch(epoch)]


def unfused(chain: Chain, device: str, *names: str, **changes: Any) -> list[Batch]:
    """What the references of a chain's operators give for the data set's batches."""
    host = map(_in_main_memory, images(clips(device, *names, **changes).batch(3)))
    return [chain(batch, epoch=2, backend="reference") for batch in host]


def _in_main_memory(batch: Batch) -> Batch:
    sequences = [sequence.with_pixels(sequence.numpy(), sequence.layout) for sequence in batch]
    return Batch.of(sequences, labels=batch.labels, indices=batch.indices)


def fused(chain: Chain, device: str, *names: str, fuse: Any = "surface", **changes: Any) -> list[Batch]:
    return images(clips(device, *names, **changes).map(chain).batch(3).fuse(fuse))


def assert_same_samples(batches: list[Batch], wanted: list[Batch]) -> None:
    """All that a batch tells beside its pixels."""
    assert len(batches) == len(wanted)
    for one, other in zip(batches, wanted, strict=True):
        assert one.indices.tolist() == other.indices.tolist()
        assert one.labels.tolist() == other.labels.tolist()
        assert one.sources == other.sources
        assert one.layout == other.layout
        assert one[0].dtype == other[0].dtype
        np.testing.assert_array_equal(one.frames, other.frames)
        np.testing.assert_array_equal(one.timestamps, other.timestamps)


def levels_apart(batches: list[Batch], wanted: list[Batch], unit: Any = STD) -> NDArray[np.float64]:
    """How far values are apart, in levels.

    Args:
        batches: one.
        wanted: the other.
        unit: what a value of 1 is in levels, for each channel.
    """
    parts = []
    for one, other in zip(batches, wanted, strict=True):
        for left, right in zip(one, other, strict=True):
            apart = np.abs(left.numpy().astype(float) - right.numpy().astype(float))
            apart = np.moveaxis(apart, 1, -1) if left.layout == "FCHW" else apart
            parts.append((apart * unit).ravel())
    return np.concatenate(parts)
