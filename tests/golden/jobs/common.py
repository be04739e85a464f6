"""What the jobs share: data sets of the golden media, and their batches as plain arrays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from seqpipe import ops
from seqpipe.parts import Labels
from seqpipe.pipeline import Pipeline
from seqpipe.readers import Video, Volume

A, B, C = "videos/0/a.mp4", "videos/0/b.mp4", "videos/1/c.mkv"
EPOCHS = (0, 1)
Found = Iterator[tuple[int, dict[str, Any]]]

# what decided changes of the package will alter in a job on purpose
RANKS = "ranks: units of what remains are dealt to the ranks in turn, instead of contiguous parts"
STORED = "stored: volumes are read with slope and intercept applied"
STATE = "state: version 2, with a history instead of a position"

MOVING = (
    ops.RandomResizedCrop(size=(40, 40), random_area=(0.3, 1.0), seed=1),
    ops.Flip(p=0.5, seed=1),
)


def videos(*files: str, **options: Any) -> Video:
    """A data set of some of the videos."""
    return Video(files=files or (A, B), **options)


def clips(**options: Any) -> Video:
    """A small training set."""
    given = {"labels": [3, 5], "sequence_length": 4, "stride": 2, "step": 9, "shuffle": True, "seed": 3}
    return videos(**{**given, **options})


def _cases(*names: str) -> list[dict[str, str]]:
    return [{name: f"volumes/{name}_{number}.nii.gz" for name in names} for number in range(3)]


def volumes(names: tuple[str, ...] = ("t1", "label"), **options: Any) -> Volume:
    return Volume(files=_cases(*names), **options)


def epochs_of(data: Any, batch_size: int, **options: Any) -> Found:
    """The batches of two epochs of a data set, which is closed then."""
    with data:
        for epoch in EPOCHS:
            data.set_epoch(epoch)
            for batch in data.batches(batch_size, **options):
                yield epoch, of_batch(batch)


def volumes_of(data: Volume, batch_size: int) -> Found:
    """The batches of two epochs of a data set of volumes, which is closed then."""
    with data:
        for epoch in EPOCHS:
            data.set_epoch(epoch)
            for batch in data.batches(batch_size):
                yield epoch, {"index": next(iter(batch.values())).indices, **of_sample(batch)}


def outputs_of(pipe: Pipeline) -> Found:
    """The batches of two epochs of a pipeline, which is closed then."""
    with pipe:
        for epoch in EPOCHS:
            pipe.set_epoch(epoch)
            for values in pipe:
                yield epoch, of_outputs(values)


def pixels(value: Any) -> Any:
    """Pixels as an array, or a list of arrays if their shapes differ."""
    value = getattr(value, "data", value) if not hasattr(value, "stacked") else value
    if hasattr(value, "stacked") and value.stacked is None:
        return [one.numpy() for one in value.sequences]
    return value.numpy() if hasattr(value, "numpy") else np.asarray(value)


def of_sequence(one: Any) -> dict[str, Any]:
    kept = {"image": one.numpy(), "layout": one.layout, "index": one.index, "label": one.label}
    return {**kept, "frames": one.frames, "timestamps": one.timestamps, "source": Path(one.source).name}


def of_batch(batch: Any) -> dict[str, Any]:
    """What a batch of clips holds; of several parts, such as clips and their flow, the first by these names."""
    if isinstance(batch, tuple):
        rest = {f"image {number}": pixels(one) for number, one in enumerate(batch[1:], 1)}
        return {**of_batch(batch[0]), **rest}
    kept = {
        "image": pixels(batch),
        "layout": batch.sequences[0].layout,
        "index": batch.indices,
        "label": batch.labels,
        "frames": [one.frames for one in batch],
        "timestamps": [one.timestamps for one in batch],
        "source": [Path(one.source).name for one in batch],
    }
    fields = {name: [one.fields[name] for one in batch] for name in batch.sequences[0].fields}
    return {**kept, **fields, **({} if batch.mask is None else {"mask": batch.mask})}


def affines(batch: Any) -> Any:
    return [one.affine for one in batch]


def of_sample(parts: Any) -> dict[str, Any]:
    """Volumes by name: voxels, layout and affines, of batches, samples and parts alike."""
    found: dict[str, Any] = {}
    for name, value in parts.items():
        inner = value.data if isinstance(value, Labels) else value
        several = hasattr(inner, "sequences")
        one = inner.sequences[0] if several else inner
        found |= {name: pixels(inner) if several else inner.numpy(), f"{name} layout": one.layout}
        found[f"{name} affine"] = affines(inner) if several else inner.affine
    return found


def of_outputs(values: dict[str, Any]) -> dict[str, Any]:
    """The outputs of a pipeline."""
    return {name: pixels(value) for name, value in values.items()}


def of_tensor(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else value
