"""Datasets of a pipeline: those of readers, and items that are read one by one, such as files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from ..array import IntArray
from ..errors import DamagedSourceError, SeqpipeError
from ..ops import Type
from ..readers import SampleRequest, Video
from ..readers.collate import collate
from ..readers.fetch import Fetcher, Pending, begin_together
from ..readers.report import ReportBook
from ..sampling import EpochOrder
from ..sequence import Batch
from ..video.convert.output import DType, OutputSpec
from ..video.engine.workers import Workers

__all__ = ["Clips", "Items"]

_THREADS: Final = 4


@dataclass(eq=False)
class Clips:
    """The sequences of a :class:`seqpipe.readers.Video`: pixels (a Batch), labels, times, frame numbers, indices.

    With ``luma`` among its parts also the luma of the pixels: uint8, one channel, full range, straight from the decoded
    surface, where a part that nobody uses is not made.

    Attributes:
        reader: the reader.
        parts: the names of the values.
    """

    reader: Video
    parts: tuple[str, ...] = ("pixels", "label", "timestamps", "frames", "index")
    name: str = "video"
    _asked: set[str] = field(default_factory=set, init=False)

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """That of the reader."""
        return {"reader": self.reader.fingerprint}

    @property
    def room(self) -> int:
        """Bytes that may be under way."""
        return self.reader.room

    def length(self, epoch: int) -> int:
        """Samples of this rank."""
        return self.reader.epoch_length(epoch)

    def lockstep(self) -> tuple[int, int]:
        """The least and the most samples of any rank."""
        return _lockstep(self.reader.fetcher.selection.order)

    def use(self, parts: Seq[int]) -> None:
        """See :meth:`Dataset.use`; what was used before stays so."""
        self._asked.update(self.parts[part] for part in parts)

    @property
    def _used(self) -> tuple[str, ...]:
        """The images that are made: the pixels, where nobody has asked for any."""
        return tuple(part for part in ("pixels", "luma") if part in self._asked) or ("pixels",)

    def type_of(self, part: int) -> Type:
        """Of pixels what the reader delivers; of numbers all."""
        if self.parts[part] not in ("pixels", "luma"):
            layout, dtype = ("F", "float64" if self.parts[part] == "timestamps" else "int64")
            per_frame = self.parts[part] in ("timestamps", "frames")
            return Type("numbers", layout if per_frame else "", dtype, "cpu")
        output, shapes = self.reader.output, self.reader.fetcher.selection.catalog.shapes
        frames = self.reader.fetcher.selection.sampler.length
        sides = tuple(
            side.pop() if len(side := set(sides)) == 1 else None for sides in zip(*shapes, strict=True)
        )
        if self.parts[part] == "luma":
            output = _luma(output)
            sides = tuple(
                1 if axis == "C" else side for axis, side in zip(output.frame_layout, sides, strict=True)
            )
        return Type("images", output.layout, output.dtype, self.reader.device, (frames, *sides))

    @cached_property
    def _fetchers(self) -> dict[str, Fetcher]:
        """Who reads the pixels, and who reads the luma: with a report of its own, for losses count once."""
        whole = self.reader.fetcher
        gray = replace(whole, outputs=_Always(_luma(whole.output)), book=ReportBook())
        return {"pixels": whole, "luma": gray}

    def size(self, epoch: int, positions: IntArray) -> int:
        """The bytes of their pixels."""
        return sum(self._fetchers[part].size(epoch, positions) for part in self._used)

    def begin(self, epoch: int, positions: IntArray) -> Any:
        """Begin to decode."""
        return begin_together([self._fetchers[part] for part in self._used], epoch, positions)

    def finish(self, work: Any) -> tuple[tuple[Any, ...], IntArray, tuple[str, ...]]:
        """The batch and what is known of its samples.

        Raises:
            SeqpipeError: a sample cannot be read, and the reader says that this is an error.
        """
        images = {part: self._batch(part, one) for part, one in zip(self._used, work, strict=True)}
        batch = images[self._used[0]]
        indices = np.asarray(batch.indices)
        known = {
            "label": np.asarray(batch.labels),
            "timestamps": batch.timestamps,
            "frames": batch.frames,
            "index": indices,
        }
        values = {"pixels": None, "luma": None, **images, **known}
        return tuple(values[part] for part in self.parts), indices, batch.sources

    def _batch(self, part: str, work: Pending) -> Batch:
        fetcher = self._fetchers[part]
        fetched = fetcher.finish(work)
        if fetched.error is not None:
            raise fetched.error
        if not fetched.pairs:
            sources = dict.fromkeys(sample.source for sample in work.group.samples)
            raise DamagedSourceError(
                f"no sample of a batch can be read, of {', '.join(sources)}",
                advice="See the reader's report()",
            )
        return collate(fetched, ragged="list", fill=fetcher.fill)

    def cancel(self, work: Any) -> None:
        """Forget what was begun."""
        for one in work:
            one.read.cancel()

    def close(self) -> None:
        """Stop the reader's threads."""
        self.reader.close()


@dataclass(eq=False)
class Items:
    """Items that are read one by one, on threads of their own.

    Attributes:
        read: makes the values of the item with a number; may run on several threads at once.
        order: which item stands where.
        name: for messages.
        parts: the names of the values.
        facts: what decides the items, as plain values.
        described: what an item comes from.
        gather: makes one value of those of all items, for each part.
    """

    read: Callable[[int], tuple[Any, ...]]
    order: EpochOrder
    name: str
    parts: tuple[str, ...]
    facts: Mapping[str, object]
    described: Seq[str]
    gather: Callable[[list[Any], tuple[str, ...]], Any]
    _workers: list[Workers] = field(default_factory=list, init=False)

    @property
    def room(self) -> None:
        """Any number of bytes may be under way: items are small, or their size is not known."""

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """What decides the items and their order."""
        order = self.order
        return {
            **self.facts,
            "order": [order.size, order.seed, order.shuffle, *order.shard, order.stick_to_shard],
        }

    def length(self, epoch: int) -> int:
        """Items of this rank."""
        return self.order.length(epoch)

    def lockstep(self) -> tuple[int, int]:
        """The least and the most items of any rank."""
        return _lockstep(self.order)

    def use(self, parts: Seq[int]) -> None:
        """Items are read whole."""

    def type_of(self, part: int) -> Type:  # noqa: ARG002  it is not known before they are read
        """Nothing is known of it."""
        return Type()

    def size(self, epoch: int, positions: IntArray) -> int:  # noqa: ARG002  it is not known before they are read
        """Nothing is known of it."""
        return 0

    def begin(self, epoch: int, positions: IntArray) -> Any:
        """Begin to read."""
        if not self._workers:
            self._workers.append(Workers(_THREADS, f"seqpipe-{self.name}"))
        indices = self.order.samples(epoch, positions)
        calls = [lambda index=index: self.read(index) for index in indices.tolist()]
        return indices, [self._workers[0].submit(call) for call in calls]

    def finish(self, work: Any) -> tuple[tuple[Any, ...], IntArray, tuple[str, ...]]:
        """The values."""
        indices, futures = work
        sources = tuple(self.described[index] for index in indices.tolist())
        rows = []
        for source, future in zip(sources, futures, strict=True):
            try:
                rows.append(future.result())
            except SeqpipeError as error:
                error.source = error.source or source
                raise
        columns = zip(*rows, strict=True)
        return tuple(self.gather(list(column), sources) for column in columns), indices, sources

    def cancel(self, work: Any) -> None:
        """Forget what was begun."""
        for future in work[1]:
            future.cancel()

    def close(self) -> None:
        """Stop the threads; a later use starts them again."""
        while self._workers:
            self._workers.pop().close()


@dataclass(frozen=True)
class _Always:
    """One output of all samples."""

    output: OutputSpec

    def __call__(self, samples: Seq[SampleRequest], epoch: int) -> list[OutputSpec]:  # noqa: ARG002  it is that of all
        return [self.output] * len(samples)


def _luma(output: OutputSpec) -> OutputSpec:
    """The luma of what a reader delivers: of the same geometry and layout."""
    rounded: DType | None = None if output.rounded is None else "uint8"
    return replace(output, color="GRAY", dtype="uint8", mean=None, std=None, rounded=rounded)


def _lockstep(order: EpochOrder) -> tuple[int, int]:
    world = order.shard[1]
    most = -(-order.size // world)
    return (most if order.even else order.size // world), most
