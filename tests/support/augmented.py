"""What the tests of pipelines share: a reader, a chain, and what comes of them with and without fusion."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from seqpipe import ops
from seqpipe.ops import Chain
from seqpipe.pipeline import Augmented
from seqpipe.readers import Video
from seqpipe.sequence import Batch
from tests.support.datasets import files

__all__ = [
    "LEVEL",
    "MEAN",
    "NORMALIZED",
    "STD",
    "TRAIN",
    "assert_same_samples",
    "fused",
    "in_main_memory",
    "levels_apart",
    "reader",
    "unfused",
]

MEAN: Final = (123.0, 116.0, 103.0)
STD: Final = (58.0, 57.0, 56.0)
NORMALIZED = ops.CropMirrorNormalize(mean=MEAN, std=STD, dtype="float32", output_layout="CHW")
TRAIN = Chain(ops.RandomResizedCrop(size=(40, 48), seed=3), ops.Flip(p=0.5), NORMALIZED)
LEVEL: Final = 1.001  # of 8 bits, and what float32 has rounded of values that are normalized


def reader(folder: str, *names: str, **changes: Any) -> Video:
    """Some sequences of several files, in a new order in every epoch."""
    options: dict[str, Any] = {
        "sequence_length": 4,
        "stride": 2,
        "shuffle": True,
        "seed": 5,
        "device": folder,
        "threads": 2,
    }
    options |= {"files": files(*names), "labels": list(range(len(names))), "prefetch_gib": 0.5}
    return Video(**{**options, **changes})


def unfused(
    chain: Chain, folder: str, *names: str, epoch: int = 2, size: int = 3, **changes: Any
) -> list[Batch]:
    """What the references of a chain's operators give for the reader's batches."""
    with reader(folder, *names, **changes) as dataset:
        dataset.set_epoch(epoch)
        host = [in_main_memory(batch) for batch in dataset.batches(size)]
    return [chain(batch, epoch=epoch, backend="reference") for batch in host]


def in_main_memory(batch: Batch) -> Batch:
    sequences = [sequence.with_pixels(sequence.numpy(), sequence.layout) for sequence in batch]
    return Batch.of(sequences, labels=batch.labels, indices=batch.indices)


def fused(chain: Chain, folder: str, *names: str, fuse: Any = "surface", **changes: Any) -> list[Batch]:
    with Augmented(reader(folder, *names, **changes), chain, fuse=fuse) as dataset:
        dataset.set_epoch(2)
        return list(dataset.batches(3))


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
