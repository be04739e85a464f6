"""Iterating over a dataset of volumes: batches and single samples, each a dictionary of parts."""

from __future__ import annotations

from typing import Any

from ..errors import SeqpipeError
from ..parts import Labels
from ..sampling import BatchPlan
from ..sampling.params import LastBatch
from ..sequence import Batch, Sequence
from .fetch import FetchedSamples
from .loader import Pass, PassContext, Singles

__all__ = ["VolumeBatches", "VolumeSamples", "as_parts"]


class VolumeBatches(Pass[dict[str, Batch]]):
    """Batches of a dataset of volumes; see :meth:`seqpipe.readers.Volume.batches`."""

    def __init__(self, feed: PassContext, *, batch_size: int, last_batch: LastBatch, prefetch: int) -> None:
        super().__init__(feed, batch_size, last_batch, prefetch, None)

    def __len__(self) -> int:
        """Batches of a whole epoch; lost samples are not known beforehand."""
        length = self._feed.length(self._feed.epoch)
        return BatchPlan(length=length, batch_size=self._batch_size, last_batch=self._last_batch).count

    def __next__(self) -> dict[str, Batch]:
        while True:
            fetched = self._next_batch()
            if fetched is None:
                raise StopIteration
            if isinstance(fetched.error, SeqpipeError):
                raise fetched.error
            if fetched.pairs:
                return _collated(fetched)

    def __repr__(self) -> str:
        return (
            f"VolumeBatches(batch_size={self._batch_size}, last_batch={self._last_batch!r}; {self._where()})"
        )


class VolumeSamples(Singles[dict[str, Any]]):
    """The samples of a dataset of volumes one by one; see :meth:`seqpipe.readers.Volume.samples`."""

    def __init__(self, feed: PassContext, *, group: int, labels: frozenset[str]) -> None:
        self._labels = labels
        super().__init__(feed, group=group)

    def __next__(self) -> dict[str, Any]:
        return as_parts(super().__next__(), self._labels)


def as_parts(sample: dict[str, Sequence], labels: frozenset[str]) -> dict[str, Any]:
    """A sample as operators take it: what holds labels is :class:`seqpipe.parts.Labels`, so that it is never blended.

    Args:
        sample: name → sequence.
        labels: the names that hold labels; none, to leave it as it is.
    """
    return {name: Labels(part) if name in labels else part for name, part in sample.items()}


def _collated(fetched: FetchedSamples) -> dict[str, Batch]:
    """A batch of each part; a list of sequences where whole volumes differ in shape."""
    indices = [sample.index for sample, _ in fetched.pairs]
    parts: list[dict[str, Sequence]] = [found for _, found in fetched.pairs]  # type: ignore[misc]
    return {name: Batch.of([part[name] for part in parts], indices=indices) for name in parts[0]}
