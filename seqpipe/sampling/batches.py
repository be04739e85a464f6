"""Division of an epoch's positions into batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..array import IntArray
from ..core.param import check_fields
from ..errors import ParameterError
from .params import BATCH_SIZE, LAST_BATCH, LastBatch

__all__ = ["BatchPlan"]


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """The batches of one epoch of one rank, as positions of its order; readers decide how many are read ahead.

    Attributes:
        length: number of positions of the epoch.
        batch_size: number of positions of a batch.
        last_batch: policy for an incomplete last batch: "partial" returns it short, "drop" leaves it out, "fill"
            completes it with the first positions of the epoch, repeated as often as needed.
        start: first position of the first batch; a resumed epoch is divided from there, with any batch size.

    Raises:
        ParameterError: a parameter is out of bounds.
    """

    length: int
    batch_size: int = 1
    last_batch: LastBatch = "partial"
    start: int = 0

    def __post_init__(self) -> None:
        check_fields(self, BATCH_SIZE, LAST_BATCH)
        if self.length < 0:
            raise ParameterError(f"length={self.length} is not valid", allowed="a whole number of at least 0")
        if not 0 <= self.start <= self.length:
            raise ParameterError(f"start={self.start} is not valid", allowed=f"0 to {self.length}")

    @property
    def count(self) -> int:
        """Number of batches."""
        left = self.length - self.start
        return left // self.batch_size if self.last_batch == "drop" else -(-left // self.batch_size)

    def positions(self, batch: int) -> IntArray:
        """Return the positions of a batch.

        Raises:
            ParameterError: ``batch`` is out of range.
        """
        if not 0 <= batch < self.count:
            allowed = f"0 to {self.count - 1}" if self.count else "none, no batch is left"
            raise ParameterError(f"batch={batch} is not valid", allowed=allowed)
        first = self.start + batch * self.batch_size
        end = first + self.batch_size
        if self.last_batch == "fill":
            return np.arange(first, end, dtype=np.int64) % self.length
        return np.arange(first, min(end, self.length), dtype=np.int64)

    def end(self, batch: int) -> int:
        """Return the position after a batch, which is the ``start`` to resume from after that batch."""
        return min(self.start + (batch + 1) * self.batch_size, self.length)

    def __iter__(self) -> Iterator[IntArray]:
        return map(self.positions, range(self.count))
