"""Data sets of made videos: their samples as numbers read from the pixels, and the test that any state resumes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from data_scripts.frame_code import find, read
from seqpipe import Clip, Dataset, Decode, OutputSpec, Segments, folders, listing, videos
from seqpipe.dataset import Epoch
from seqpipe.readers.selection import SampleRequest
from seqpipe.sequence import Sequence
from tests.support.media import entries, made

__all__ = [
    "assert_resumes",
    "assert_true_frames",
    "clips",
    "files",
    "frames_of",
    "gist",
    "gists",
    "images",
    "planned",
    "shown",
]


def files(*names: str) -> list[str]:
    """Paths of made items."""
    return [str(made(name)) for name in names]


def clips(source: Any, *, folder: bool = False, **options: Any) -> Dataset:
    """A data set of clips, or segments with ``count``, whose options are given flat, each by the name that it has.

    Args:
        source: the files, or another source of :func:`seqpipe.videos`.
        folder: whether the source are folders of frames.
        **options: of Clip or Segments, OutputSpec, Decode, listing, videos, ``shard`` (a pair), ``even`` and ``stick``,
            ``ahead`` and ``gib`` of prefetch, and ``batch`` (a size) with ``last`` and ``ragged``.
    """

    def of(*names: str) -> dict[str, Any]:
        return {name: options.pop(name) for name in names if name in options}

    def of_fields(kind: Any) -> Any:
        given = of(*(one.name for one in fields(kind)))
        return kind(**given) if given else None

    batch = of("batch", "last", "ragged")
    shard, ahead = of("shard", "even", "stick"), of("ahead", "gib")
    take = of_fields(Segments if "count" in options else Clip)
    options |= {"output": options.get("output") or of_fields(OutputSpec)}
    if folder:
        dataset = folders(source, take, **options)
    else:
        options |= {"decode": of_fields(Decode)}
        listed = of("labels", "classes", "label_type", "ranges")
        dataset = videos(listing(source, **listed) if listed else source, take, **options)
    if ahead:
        dataset = dataset.prefetch(ahead.get("ahead", 2), ahead.get("gib"))
    if shard:
        dataset = dataset.shard(*shard.pop("shard", (0, 1)), **shard)
    return dataset.batch(batch.pop("batch"), **batch) if batch else dataset


def planned(dataset: Dataset, epoch: int = 0) -> list[SampleRequest]:
    """The samples of a rank's epoch in their order, each with its frames; nothing is decoded."""
    share = dataset.dealt().steps(epoch).share
    selection = dataset.source.fetcher.selection
    return [selection.sample(index, epoch) for index in share.indices(np.arange(len(share))).tolist()]


def frames_of(dataset: Dataset, epoch: int = 0) -> list[list[int]]:
    """The frames of the samples of a rank's epoch; nothing is decoded."""
    return [request.frames.tolist() for request in planned(dataset, epoch)]


def shown(sequence: Sequence) -> list[int]:
    """The numbers that the pictures of a sequence carry."""
    return [read(picture) for picture in sequence.numpy()]


def assert_true_frames(sequence: Sequence) -> None:
    """Every picture that is no padding is the frame that the sequence says it is, judged by its pixels."""
    known = _by_file()[Path(sequence.source).name].numbers
    assert sequence.frames is not None
    for frame, picture in zip(sequence.frames.tolist(), sequence.numpy(), strict=True):
        if frame >= 0:
            assert find(picture)[0] == known[frame], f"{sequence.source} frame {frame}"


def images(samples: Any) -> list[Any]:
    """The images of all samples, or batches, of an epoch or a data set."""
    return [one["image"] for one in samples]


def gist(batch: Any) -> tuple[Any, ...]:
    """All that a batch consists of, comparable and small; for samples of a data set and for their images."""
    image = batch["image"] if isinstance(batch, dict) else batch
    pixels = [hash(np.ascontiguousarray(sequence.numpy()).tobytes()) for sequence in image]
    labels, indices = np.asarray(image.labels).tolist(), np.asarray(image.indices).tolist()
    return indices, labels, image.sources, image.frames.tolist(), pixels


def gists(batches: Any) -> list[tuple[Any, ...]]:
    """What all batches consist of."""
    return [gist(batch) for batch in batches]


def assert_resumes(make: Callable[[], Dataset], *, epoch: int = 1) -> None:
    """From the state at every step of an epoch, a new data set continues with exactly the batches that would have come.

    Args:
        make: makes the data set of batches anew, with the same parameters.
        epoch: the epoch that is read.
    """
    with make() as dataset:
        running: Epoch = dataset.epoch(epoch)
        states, delivered = [running.state_dict()], []
        for batch in running:
            delivered.append(gist(batch))
            states.append(batch.state)
            assert batch.state == running.state_dict()
    assert len(delivered) == len(running) > 1
    with make() as other:
        for step, state in enumerate(states):
            rest = other.resume(json.loads(json.dumps(state)))
            assert gists(rest) == delivered[step:], f"resumed at step {step} of {len(delivered)}"


def _by_file() -> dict[str, Any]:
    return {found.file: found for found in entries().values()}
