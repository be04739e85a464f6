"""Buckets: batches of samples of one shape, planned before anything is decoded.

Samples of an epoch are taken in its order; each joins the open batch of its bucket. Complete batches come in the order
in which they became complete, incomplete ones at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ..array import FloatArray, IntArray
from ..core.keywords import refuses_unknown_fields
from ..errors import ParameterError, described_type

__all__ = ["Bucket", "BucketPlan", "Buckets", "bucketed"]

_SIDES: Final = ("frames", "height", "width")
_TOKEN: Final = (1, 16, 16)


@refuses_unknown_fields()
@dataclass(frozen=True)
class Bucket:
    """How the samples of a batch get one shape, for ``batch(size, bucket=…)``.

    Bucket()                                                   # batches of samples whose shapes agree
    Bucket(shapes=[(256, 256), (256, 448), (448, 256)])        # the nearest aspect ratio; resized to cover, and cropped
    Bucket(token_budget=32768)                                 # as many samples as the budget allows

    Attributes:
        by: what the samples of a batch have in common, of "frames", "height" and "width"; with ``shapes``, of heights
            and widths after resizing.
        shapes: (height, width) of each bucket. A sample goes to the nearest aspect ratio, of these to the nearest area,
            and is resized to cover the shape and cropped around its center, while its frames are converted.
        token_budget: most tokens in a batch; ``size`` of ``batch`` is a limit as well.
        token: (frames, height, width) of a token.
        sizes: int array ``(samples, 3)`` of frames, height and width, for sources that do not know them before samples
            are read.

    Raises:
        ParameterError: a field is out of bounds.
    """

    by: tuple[str, ...] = _SIDES
    shapes: tuple[tuple[int, int], ...] | None = None
    token_budget: int | None = None
    token: tuple[int, int, int] = _TOKEN
    sizes: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        given: Any = self.by
        by = (given,) if isinstance(given, str) else tuple(given)
        if not by or set(by) - set(_SIDES):
            raise _wrong(f"by={self.by!r} is not valid", f"names of {', '.join(_SIDES)}")
        object.__setattr__(self, "by", by)
        if self.shapes is not None:
            object.__setattr__(self, "shapes", _checked_shapes(self.shapes))
        if self.token_budget is not None and not _is_count(self.token_budget):
            raise _wrong(f"token_budget={self.token_budget!r} is not valid", "a whole number of at least 1")
        if not isinstance(self.token, tuple) or len(self.token) != 3 or not all(map(_is_count, self.token)):
            raise _wrong(f"token={self.token!r} is not valid", "(frames, height, width), such as (1, 16, 16)")

    @property
    def facts(self) -> dict[str, object]:
        """Everything that determines batches, as plain values."""
        return {
            "by": list(self.by),
            "shapes": None if self.shapes is None else [list(shape) for shape in self.shapes],
            "token_budget": self.token_budget,
            "token": list(self.token),
        }

    def assigned(self, sizes: IntArray, size: int) -> Buckets:
        """Return the buckets of samples.

        Args:
            sizes: (frames, height, width) of each sample.
            size: most samples in a batch.

        Raises:
            ParameterError: a sample has more tokens than the budget.
        """
        if self.shapes is not None:
            sizes = np.column_stack([sizes[:, :1], self._nearest(sizes[:, 1:])])
        columns = [_SIDES.index(name) for name in self.by]
        _, first, numbers = np.unique(sizes[:, columns], axis=0, return_index=True, return_inverse=True)
        shapes, numbers = sizes[first], numbers.reshape(-1)
        np.maximum.at(shapes, numbers, sizes)
        tokens = np.prod(-(-shapes // np.array(self.token)), axis=1)
        capacities = np.full(len(shapes), size, np.int64)
        if self.token_budget is not None:
            capacities = np.minimum(capacities, self.token_budget // tokens)
            for number in np.unique(numbers[capacities[numbers] == 0]).tolist():
                raise _wrong(
                    f"token_budget={self.token_budget} is smaller than one sample of {_text(shapes[number])}",
                    f"at least {int(tokens[number])}",
                )
        return Buckets(shapes, numbers, np.maximum(capacities, 1), tokens, self.token_budget)

    def _nearest(self, sizes: IntArray) -> IntArray:
        """Return the shape that each sample is resized to."""
        given = np.array(self.shapes, np.int64)
        unique, inverse = np.unique(sizes, axis=0, return_inverse=True)
        aspect = np.abs(_log_aspect(unique)[:, None] - _log_aspect(given)[None])
        area = np.abs(np.log(unique.prod(axis=1))[:, None] - np.log(given.prod(axis=1))[None])
        result: IntArray = given[np.argmin(aspect.round(9) * 1e6 + area, axis=1)][inverse.reshape(-1)]
        return result


@dataclass(frozen=True, eq=False)
class Buckets:
    """The buckets of all samples.

    Attributes:
        shapes: (frames, height, width) of each bucket, the largest of its samples.
        numbers: the bucket of each sample.
        capacities: samples in a batch of each bucket.
        tokens: tokens of a sample of each bucket.
        token_budget: most tokens in a batch; None for as many as ``capacities`` give.
    """

    shapes: IntArray
    numbers: IntArray
    capacities: IntArray
    tokens: IntArray
    token_budget: int | None = None

    def report(self) -> list[Mapping[str, object]]:
        """Return what each bucket holds: shape, samples, batches, samples in a batch, and how full they are."""
        counts = np.bincount(self.numbers, minlength=len(self.shapes))
        rows: list[Mapping[str, object]] = []
        for shape, count, capacity, tokens in zip(
            self.shapes, counts, self.capacities, self.tokens, strict=True
        ):
            batches = -(-int(count) // int(capacity))
            full = (
                int(count) * int(tokens) / (batches * (self.token_budget or int(capacity * tokens)))
                if batches
                else 0.0
            )
            rows.append(
                {
                    "shape": tuple(shape.tolist()),
                    "samples": int(count),
                    "batches": batches,
                    "batch_size": int(capacity),
                    "fill": round(full, 4),
                }
            )
        return rows


@dataclass(frozen=True, eq=False)
class BucketPlan:
    """The batches of an epoch, in order.

    Attributes:
        members: the samples of all batches, one batch after the other.
        starts: position of the first member of each batch, and the number of members at the end.
    """

    members: IntArray
    starts: IntArray

    def __len__(self) -> int:
        """Number of batches."""
        return len(self.starts) - 1

    def batch(self, number: int) -> IntArray:
        """Return the samples of a batch."""
        return self.members[self.starts[number] : self.starts[number + 1]]


def bucketed(order: IntArray, buckets: Buckets, *, drop: bool = False) -> BucketPlan:
    """Return the batches of samples in an order."""
    numbers = buckets.numbers[order]
    by_bucket = np.argsort(numbers, kind="stable")
    sorted_numbers = numbers[by_bucket]
    first = np.searchsorted(sorted_numbers, sorted_numbers)  # where each sample's bucket begins
    within = np.arange(len(order)) - first
    capacity = buckets.capacities[sorted_numbers]
    begins = within % capacity == 0
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(order)) if len(starts) else starts
    lengths = ends - starts
    full = lengths == capacity[starts]
    # incomplete batches follow all complete ones
    place = np.where(full, by_bucket[ends - 1], len(order) + by_bucket[ends - 1])
    chosen = np.argsort(place, kind="stable")
    if drop:
        chosen = chosen[full[chosen]]
    members = [order[by_bucket[starts[n] : ends[n]]] for n in chosen.tolist()]
    joined = np.concatenate(members) if members else np.empty(0, np.int64)
    return BucketPlan(joined, np.concatenate([[0], np.cumsum(lengths[chosen])]).astype(np.int64))


def _log_aspect(sizes: IntArray) -> FloatArray:
    result: FloatArray = np.log(sizes[:, 0]) - np.log(sizes[:, 1])
    return result


def _checked_shapes(shapes: Any) -> tuple[tuple[int, int], ...]:
    if not isinstance(shapes, Seq) or isinstance(shapes, str) or not shapes:
        raise _wrong(f"shapes is {described_type(shapes)}", "a list of (height, width)")
    checked = []
    for shape in shapes:
        if not isinstance(shape, Seq) or len(shape) != 2 or not all(map(_is_count, shape)):
            raise _wrong(f"shapes has {shape!r}", "(height, width), whole numbers")
        checked.append((int(shape[0]), int(shape[1])))
    return tuple(checked)


def _is_count(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= 1


def _text(shape: IntArray) -> str:
    return "×".join(map(str, shape.tolist()))


def _wrong(fact: str, allowed: str, advice: str | None = None) -> ParameterError:
    return ParameterError(fact, source="Bucket", allowed=allowed, advice=advice)
