"""Planning: references to samples in blocks that keep a file's samples together; no file is opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from ..array import IntArray
from ..dataset.write import owners

__all__ = ["ReferenceBlock", "planned_blocks", "sample_ids"]

ROWS: Final = 64
"""Rows of a block, as far as files allow: what is repeated after a failure."""


def sample_ids(dataset: Any, indices: Iterable[int], epoch: int = 0) -> list[str]:
    """Return names of samples that are the same on every machine: 32 hexadecimal digits each.

    They are BLAKE2b digests of the data set's fingerprint, the epoch and the index, so equal names are equal samples,
    whatever order, shard, batch or actor reads them.

    Args:
        dataset: a :class:`seqpipe.Dataset`.
        indices: indices of samples.
        epoch: their epoch.
    """
    return _ids(dataset.fingerprint, epoch, indices)


def _ids(fingerprint: str, epoch: int, indices: Iterable[int]) -> list[str]:
    start = blake2b(f"{fingerprint}/{epoch}/".encode(), digest_size=16)
    ids = []
    for index in indices:
        digest = start.copy()
        digest.update(str(index).encode())
        ids.append(digest.hexdigest())
    return ids


@dataclass(frozen=True)
class ReferenceBlock:
    """Consecutive samples.

    Attributes:
        fingerprint: that of the data set.
        epoch: their epoch.
        first: index of the first one.
        runs: (path or URL, number of samples) of each file in order; the path is "" if unknown.
    """

    fingerprint: str
    epoch: int
    first: int
    runs: tuple[tuple[str, int], ...]

    @property
    def size(self) -> int:
        """Number of samples."""
        return sum(count for _, count in self.runs)

    def columns(self) -> dict[str, Any]:
        """Return the references by column."""
        indices = np.arange(self.first, self.first + self.size, dtype=np.int64)
        return {
            "sample_id": _ids(self.fingerprint, self.epoch, indices.tolist()),
            "index": indices,
            "epoch": np.full(len(indices), self.epoch, np.int64),
            "source": [path for path, count in self.runs for _ in range(count)],
        }


def planned_blocks(dataset: Any, epoch: int, least: int) -> list[ReferenceBlock]:
    """Divide a data set's samples into blocks at the borders of files."""
    paths, owner = owners(dataset.source)
    size = dataset.size
    changes = np.flatnonzero(np.diff(owner)) + 1 if paths else np.arange(1, size)
    borders = np.append(changes, size)
    rows = min(ROWS, max(1, size // least))
    blocks = []
    for first, stop in _ranges(borders, size, rows):
        inner = slice(*np.searchsorted(borders, (first + 1, stop)))
        begun = [first, *borders[inner].tolist()] if paths else [first]
        ends = [*begun[1:], stop]
        runs = tuple((paths[owner[a]] if paths else "", b - a) for a, b in zip(begun, ends, strict=True))
        blocks.append(ReferenceBlock(dataset.fingerprint, epoch, first, runs))
    return blocks


def _ranges(borders: IntArray, size: int, rows: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of about ``rows`` samples that end at borders; a file of more than two blocks is divided."""
    first = 0
    while first < size:
        stop = int(borders[np.searchsorted(borders, min(first + rows, size))])
        stop = min(stop, first + 2 * ROWS)
        yield first, stop
        first = stop
