"""Iterators over a dataset of volumes: batches and single samples, each a dictionary of parts."""

from __future__ import annotations

from typing import Any

from ...parts import Labels
from ...sampling.params import LastBatch
from ...sequence import Batch, Sequence
from ..fetch import FetchedSamples
from ..loader import BatchPass, PassContext, Singles

__all__ = ["VolumeBatches", "VolumeSamples", "as_parts"]


class VolumeBatches(BatchPass[dict[str, Batch]]):
    """Iterator over batches of a dataset of volumes; see :meth:`seqpipe.readers.Volume.batches`."""

    def __init__(self, feed: PassContext, *, batch_size: int, last_batch: LastBatch, prefetch: int) -> None:
        super().__init__(feed, batch_size, last_batch, prefetch, None)

    def _collate(self, fetched: FetchedSamples) -> dict[str, Batch]:
        """Return a batch of each part; the batch is a list of sequences if volumes differ in shape."""
        indices = [sample.index for sample, _ in fetched.pairs]
        parts: list[dict[str, Sequence]] = [sample for _, sample in fetched.pairs]  # type: ignore[misc]
        return {name: Batch.of([part[name] for part in parts], indices=indices) for name in parts[0]}


class VolumeSamples(Singles[dict[str, Any]]):
    """Iterator over the samples of a dataset of volumes; see :meth:`seqpipe.readers.Volume.samples`."""

    def __init__(self, feed: PassContext, *, group: int, labels: frozenset[str]) -> None:
        self._labels = labels
        super().__init__(feed, group=group)

    def __next__(self) -> dict[str, Any]:
        return as_parts(super().__next__(), self._labels)


def as_parts(sample: dict[str, Sequence], labels: frozenset[str]) -> dict[str, Any]:
    """Wrap the labels of a sample in :class:`seqpipe.parts.Labels`, so that operators never blend classes.

    Args:
        sample: sequences by name.
        labels: names of the parts that hold labels; empty to return the sample unchanged.
    """
    return {name: Labels(part) if name in labels else part for name, part in sample.items()}
