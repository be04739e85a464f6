"""Batches from sequences: stacked, as a list, or padded to one shape with a mask."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Final, Literal, TypeAlias

import numpy as np

from ..array import Array, BoolArray, namespace
from ..core.param import choice
from ..sequence import Batch, Sequence
from .fetch import FetchedSamples
from .selection import SampleRequest

__all__ = ["RAGGED", "Ragged", "collate"]

Ragged: TypeAlias = Literal["list", "pad"]

RAGGED: Final = choice(
    "ragged",
    "Batches of sequences of different shapes: a list, or padded to one shape",
    ("list", "pad"),
)


def collate(fetched: FetchedSamples, *, ragged: Ragged, fill: float) -> Batch:
    """Return a batch of samples.

    Args:
        fetched: at least one sample.
        ragged: "list" stacks the samples if all shapes agree. "pad" always stacks: frames are padded at the bottom
            and right to the largest height and width of the batch, and the mask is True for their pixels.
        fill: the value of padded pixels.
    """
    samples = [sample for sample, _ in fetched.pairs]
    sequences = tuple(sequence for _, sequence in fetched.pairs)
    labels = np.array([sample.label for sample in samples])
    indices = np.array([sample.index for sample in samples], dtype=np.int64)
    stacked, mask = fetched.stacked, None
    if ragged == "pad":
        mask = _mask(samples, sequences)
        if stacked is None:
            stacked = _padded(sequences, fill)
        sequences = tuple(replace(s, data=data) for s, data in zip(sequences, stacked, strict=True))
    elif stacked is None:
        return Batch.of(sequences, labels=labels, indices=indices)
    return Batch(sequences, stacked=stacked, labels=labels, indices=indices, mask=mask)


def _mask(samples: Seq[SampleRequest], sequences: Seq[Sequence]) -> BoolArray:
    """Return the mask ``(N, F, H, W)``, True for pixels of the video and False for padding."""
    shapes = [tuple(sequence.shape[sequence.layout.index(axis)] for axis in "FHW") for sequence in sequences]
    mask: BoolArray = np.zeros((len(sequences), *map(max, zip(*shapes, strict=True))), dtype=np.bool_)
    for target, sample, (_, rows, columns) in zip(mask, samples, shapes, strict=True):
        target[~sample.padding, :rows, :columns] = True
    return mask


def _padded(sequences: Seq[Sequence], fill: float) -> Array:
    largest = map(max, zip(*(sequence.shape for sequence in sequences), strict=True))
    stacked = namespace(sequences[0].data).full((len(sequences), *largest), fill, dtype=sequences[0].dtype)
    for target, sequence in zip(stacked, sequences, strict=True):
        target[tuple(slice(length) for length in sequence.shape)] = sequence.data
    return stacked
