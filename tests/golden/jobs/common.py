"""What the jobs share: data sets of the golden media, and their batches as plain arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

import seqpipe
from seqpipe import Clip, Dataset, Decode, OutputSpec, Segments, ops
from seqpipe.parts import Labels
from seqpipe.sources.volumes import Cases

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


def videos(*files: str, source: Any = None, **options: Any) -> Dataset:
    """A data set of some of the videos, or of another source; options are those of every part of it, by their names."""
    listed = {
        name: options.pop(name) for name in ("labels", "label_type", "classes", "ranges") if name in options
    }
    source = source or list(files or (A, B))
    return _made(seqpipe.videos, seqpipe.listing(source, **listed) if listed else source, options)


def folders(source: Any, **options: Any) -> Dataset:
    """A data set of folders of frames."""
    return _made(seqpipe.folders, source, options)


def _made(make: Any, source: Any, given: dict[str, Any]) -> Dataset:
    def of(kind: Any) -> Any:
        return kind(**{one.name: given.pop(one.name) for one in fields(kind) if one.name in given})

    shard = {name: given.pop(name) for name in ("shard", "even", "stick") if name in given}
    take = of(Segments if "count" in given else Clip)
    decode = of(Decode) if make is seqpipe.videos else None
    data: Dataset = make(
        source, take, output=of(OutputSpec), **given, **({"decode": decode} if decode else {})
    )
    return data.shard(*shard.pop("shard", (0, 1)), **shard) if shard else data


def clips(**options: Any) -> Dataset:
    """A small training set."""
    given = {"labels": [3, 5], "length": 4, "stride": 2, "step": 9, "shuffle": True, "seed": 3}
    return videos(**{**given, **options})


def listed_cases(*names: str, **options: Any) -> Cases:
    """The cases of the golden media, with some of their parts."""
    files = [{name: f"volumes/{name}_{number}.nii.gz" for name in names} for number in range(3)]
    return seqpipe.cases(files, **options)


def volumes(take: Any = None, names: tuple[str, ...] = ("t1", "label"), **options: Any) -> Dataset:
    """A data set of volumes; options are those of ``volumes``."""
    return seqpipe.volumes(listed_cases(*names), take, **options)


def epochs_of(data: Dataset, batch_size: int | None = None, **options: Any) -> Found:
    """The batches of two epochs of a data set, which is closed then; of one without batches by their size."""
    with data:
        batches = data if batch_size is None else data.batch(batch_size, **options)
        for epoch in EPOCHS:
            for batch in batches.epoch(epoch):
                yield epoch, of_samples(batch)


def volumes_of(data: Dataset, batch_size: int) -> Found:
    """The batches of two epochs of a data set of volumes, which is closed then."""
    with data:
        for epoch in EPOCHS:
            for batch in data.batch(batch_size).epoch(epoch):
                yield epoch, {"index": batch.index, **of_sample(voxels_of(batch))}


def voxels_of(samples: Any) -> dict[str, Any]:
    """The parts of a sample or a batch that hold voxels."""
    return {
        name: part
        for name, part in samples.items()
        if hasattr(part, "with_pixels") or hasattr(part, "sequences")
    }


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
    """What a batch of clips holds."""
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


def of_samples(samples: Any) -> dict[str, Any]:
    """What a batch, or a sample, of a data set holds, under the names of its pixels' own facts."""
    kept = (
        of_batch(samples["image"])
        if hasattr(samples["image"], "sequences")
        else of_sequence(samples["image"])
    )
    rest = [name for name in samples if name.startswith("image_")]
    return {**kept, **{f"image {number}": pixels(samples[name]) for number, name in enumerate(rest, 1)}}


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
    """Some parts of a batch."""
    return {name: pixels(value) for name, value in values.items()}


def of_tensor(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else value
