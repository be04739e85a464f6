"""Buckets: batches of samples of one shape, planned before anything is decoded.

Samples of an epoch are taken in its order; each joins the open batch of its bucket. Complete batches come in the order
in which they became complete, incomplete ones at the end. Of packed samples, each joins the open batch with the least
room that it fits into (best fit, with a limited number of open batches).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from ..array import FloatArray, IntArray
from ..core.keywords import refuses_unknown_fields
from ..errors import ParameterError, described_type

__all__ = ["Bucket", "BucketPlan", "Buckets", "bucketed"]

_SIDES: Final = ("frames", "height", "width")
_TOKEN: Final = (1, 16, 16)
_RUN: Final = (
    8  # batches of one bucket that follow one another, so that as many ranks have equal work in a step
)
_OPEN: Final = 64  # packed batches that are open at a time


@refuses_unknown_fields()
@dataclass(frozen=True)
class Bucket:
    """How the samples of a batch get one shape, for ``batch(size, bucket=…)``.

    Bucket()                                                   # batches of samples whose shapes agree
    Bucket(shapes=[(256, 256), (256, 448), (448, 256)])        # the nearest aspect ratio; resized to cover, and cropped
    Bucket(frames=(17, 33, 65), shapes=[(256, 256)])           # and the first 17, 33 or 65 frames
    Bucket(token_budget=32768)                                 # as many samples as the budget allows
    Bucket(token_budget=32768, pack=True)                      # samples of all shapes, one after the other

    Batches of one bucket come in runs of eight in shuffled epochs, so that up to eight ranks have equal work in a step.

    Attributes:
        by: what the samples of a batch have in common, of "frames", "height" and "width"; with ``shapes``, of heights
            and widths after resizing.
        shapes: (height, width) of each bucket. A sample goes to the nearest aspect ratio, of these to the nearest area,
            and is resized to cover the shape and cropped around its center, while its frames are converted.
        frames: numbers of frames of the buckets, for samples of different lengths: a sample goes to the largest one
            that it has the frames for, and keeps its first frames; later ones are not decoded.
        token_budget: most tokens in a batch; ``size`` of ``batch`` is a limit as well.
        token: (frames, height, width) of a token.
        sizes: int array ``(samples, 3)`` of frames, height and width, for sources that do not know them before samples
            are read, or operators change them.
        pack: whether samples of any shapes share a batch, up to the budget, for models that read them as one sequence
            of tokens; see :func:`seqpipe.packed`.

    Raises:
        ParameterError: a field is out of bounds, or ``pack`` is given without ``token_budget`` or with ``shapes``.
    """

    by: tuple[str, ...] = _SIDES
    shapes: tuple[tuple[int, int], ...] | None = None
    frames: tuple[int, ...] | None = None
    token_budget: int | None = None
    token: tuple[int, int, int] = _TOKEN
    sizes: Any = field(default=None, repr=False, compare=False)
    pack: bool = False

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
        if self.frames is not None:
            counts: Any = (self.frames,) if _is_count(self.frames) else self.frames
            if not isinstance(counts, Seq) or not counts or not all(map(_is_count, counts)):
                raise _wrong(
                    f"frames={self.frames!r} is not valid", "numbers of frames, such as (17, 33, 65)"
                )
            object.__setattr__(self, "frames", tuple(sorted(map(int, counts))))
        if self.pack and (self.token_budget is None or self.shapes is not None):
            raise _wrong(
                "pack=True", "with token_budget and without shapes", "Resize by operators, and give sizes"
            )

    @property
    def facts(self) -> dict[str, object]:
        """Everything that determines batches, as plain values."""
        return {
            "by": list(self.by),
            "shapes": None if self.shapes is None else [list(shape) for shape in self.shapes],
            "token_budget": self.token_budget,
            "token": list(self.token),
            "frames": None if self.frames is None else list(self.frames),
            "pack": self.pack,
        }

    def assigned(self, sizes: IntArray, size: int) -> Buckets:
        """Return the buckets of samples.

        Args:
            sizes: (frames, height, width) of each sample.
            size: most samples in a batch.

        Raises:
            ParameterError: a sample has more tokens than the budget, or fewer frames than the smallest bucket.
        """
        given = sizes
        if self.frames is not None:
            sizes = np.column_stack([self._frames_of(sizes[:, 0]), sizes[:, 1:]])
        if self.shapes is not None:
            sizes = np.column_stack([sizes[:, :1], self._nearest(sizes[:, 1:])])
        columns = [_SIDES.index(name) for name in self.by] if not self.pack else [0, 1, 2]
        _, first, numbers = np.unique(sizes[:, columns], axis=0, return_index=True, return_inverse=True)
        shapes, numbers = sizes[first], numbers.reshape(-1)
        np.maximum.at(shapes, numbers, sizes)
        tokens = np.prod(-(-shapes // np.array(self.token)), axis=1)
        capacities = np.full(len(shapes), size, np.int64)
        if self.token_budget is not None:
            room = self.token_budget // tokens
            for number in np.unique(numbers[room[numbers] == 0]).tolist():
                raise _wrong(
                    f"token_budget={self.token_budget} is smaller than one sample of {_text(shapes[number])}",
                    f"at least {int(tokens[number])}",
                )
            capacities = capacities if self.pack else np.minimum(capacities, room)
        return Buckets(
            *(shapes, numbers, np.maximum(capacities, 1), tokens, self.token_budget, self.pack),
            kept=sizes[:, 0] if self.frames is not None else None,
            padding=_mean_by(1 - sizes.prod(axis=1) / shapes[numbers].prod(axis=1), numbers),
            cropped=_mean_by(_cropped(given, sizes, is_resized=self.shapes is not None), numbers),
        )

    def unused(self, buckets: Buckets) -> list[str]:
        """Return the given shapes and numbers of frames that no sample goes to."""
        used = set(map(tuple, buckets.shapes[:, 1:].tolist())), set(buckets.shapes[:, 0].tolist())
        idle = [f"{h}×{w}" for h, w in self.shapes or () if (h, w) not in used[0]]
        return idle + [f"{count} frames" for count in self.frames or () if count not in used[1]]

    def _frames_of(self, lengths: IntArray) -> IntArray:
        """Return the number of frames that each sample keeps."""
        counts = np.array(self.frames, np.int64)
        place = np.searchsorted(counts, lengths, side="right") - 1
        if (place < 0).any():
            raise _wrong(
                f"{int((place < 0).sum())} samples have fewer frames than the smallest bucket of {counts[0]}; "
                f"the shortest has {int(lengths.min())}",
                "a bucket for each sample",
                "Add a smaller number to frames=…, or leave the videos out with min_frames=… of the take",
            )
        kept: IntArray = counts[place]
        return kept

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
        pack: whether samples of several buckets share a batch.
        kept: number of frames that each sample keeps; None for all.
        padding: share of a bucket's shape that its samples do not fill, where ``by`` allows different shapes.
        cropped: share of the pixels of a sample, after resizing, that a bucket does not keep.
    """

    shapes: IntArray
    numbers: IntArray
    capacities: IntArray
    tokens: IntArray
    token_budget: int | None = None
    pack: bool = False
    kept: IntArray | None = None
    padding: FloatArray = field(default_factory=lambda: np.zeros(0))
    cropped: FloatArray = field(default_factory=lambda: np.zeros(0))

    def report(self) -> list[Mapping[str, object]]:
        """Return what each bucket holds, and the shares that are filled of the budget, padded, and cropped.

        Packed samples have one row.
        """
        if self.pack:
            return [self._packed_report()]
        counts = np.bincount(self.numbers, minlength=len(self.shapes))
        rows: list[Mapping[str, object]] = []
        columns = self.shapes, counts, self.capacities, self.tokens, self.padding, self.cropped
        for shape, count, capacity, tokens, padding, cropped in zip(*columns, strict=True):
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
                    "padding": round(float(padding), 4),
                    "cropped": round(float(cropped), 4),
                }
            )
        return rows

    def _packed_report(self) -> Mapping[str, object]:
        """Return the row of packed samples, which are planned in the order of their numbers."""
        tokens = self.tokens[self.numbers]
        batches = len(bucketed(np.arange(len(tokens)), self))
        budget = int(self.token_budget or 0)
        return {
            "shape": tuple(self.shapes.max(axis=0).tolist()),
            "samples": len(tokens),
            "batches": batches,
            "batch_size": round(len(tokens) / batches, 2),
            "fill": round(float(tokens.sum()) / (batches * budget), 4),
        }


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

    def in_order(self, order: IntArray) -> BucketPlan:
        """Return the batches in another order."""
        return _plan_of([self.batch(number) for number in order.tolist()])

    def in_runs(self, places: IntArray, buckets: Buckets) -> BucketPlan:
        """Return a plan of equal batches whose order by ``places`` has runs of eight batches of one size and shape.

        Args:
            places: number of the batch at each place of the epoch.
            buckets: the buckets.
        """
        if buckets.pack or not len(self):
            return self
        lengths = np.diff(self.starts)
        kinds = np.column_stack([buckets.numbers[self.members[self.starts[:-1]]], lengths])
        _, numbers = np.unique(kinds, axis=0, return_inverse=True)
        numbers = numbers.reshape(-1)
        work = lengths * buckets.tokens[kinds[:, 0]]
        runs = bucketed(
            places, replace(buckets, numbers=numbers, capacities=np.full(len(work), _RUN, np.int64))
        )
        whole = np.diff(runs.starts) == _RUN
        in_whole = runs.members[: int(whole.sum()) * _RUN]
        rest = runs.members[len(in_whole) :]
        order = np.empty(len(self), np.int64)
        order[places] = np.concatenate([in_whole, rest[np.argsort(work[rest], kind="stable")]])
        return self.in_order(order)


def bucketed(order: IntArray, buckets: Buckets, *, drop: bool = False) -> BucketPlan:
    """Return the batches of samples in an order."""
    if buckets.pack:
        return _packed(order, buckets)
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
    return _plan_of([order[by_bucket[starts[n] : ends[n]]] for n in chosen.tolist()])


def _packed(order: IntArray, buckets: Buckets) -> BucketPlan:
    """Return batches whose tokens together fit the budget; the fullest open one is closed where there are too many."""
    budget, size = int(buckets.token_budget or 0), int(buckets.capacities.max(initial=1))
    tokens = buckets.tokens[buckets.numbers].tolist()
    opened: list[tuple[int, int]] = []  # (room, number of the batch), ascending
    batches: list[list[int]] = []
    for sample in order.tolist():
        need = tokens[sample]
        at = bisect_left(opened, (need, -1))
        if at < len(opened):
            room, number = opened.pop(at)
        else:
            room, number = budget, len(batches)
            batches.append([])
        batches[number].append(sample)
        if room > need and len(batches[number]) < size:
            insort(opened, (room - need, number))
        if len(opened) > _OPEN:
            opened.pop(0)
    return _plan_of([np.array(batch, np.int64) for batch in batches])


def _plan_of(batches: Seq[IntArray]) -> BucketPlan:
    members = np.concatenate(batches) if batches else np.empty(0, np.int64)
    return BucketPlan(members, np.cumsum([0, *map(len, batches)], dtype=np.int64))


def _cropped(given: IntArray, kept: IntArray, *, is_resized: bool) -> FloatArray:
    """Return the share of each sample, after resizing, that its bucket does not keep."""
    shares: FloatArray = kept[:, 0] / given[:, 0]
    if is_resized:
        scale = (kept[:, 1:] / given[:, 1:]).max(axis=1)
        shares = shares * kept[:, 1:].prod(axis=1) / (given[:, 1:].prod(axis=1) * scale**2)
    return 1 - np.minimum(shares, 1)


def _mean_by(values: FloatArray, numbers: IntArray) -> FloatArray:
    """Return the mean of values for each bucket."""
    result: FloatArray = np.bincount(numbers, values) / np.maximum(np.bincount(numbers), 1)
    return result


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
