"""Datasets of a pipeline: the sequences of a video reader, and single items such as files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from ..array import IntArray
from ..core.workers import Workers
from ..errors import SeqpipeError
from ..ops import Type
from ..readers import SampleRequest, Video
from ..readers.collate import collate
from ..readers.fetch import Pending, begin_together
from ..readers.outputs import Outputs, luma_of
from ..readers.report import ReportBook
from ..sampling import EpochOrder
from ..sequence import Batch
from ..video.convert.output import OutputSpec
from .source import EmptyBatchError

__all__ = ["CLIP_PARTS", "Clips", "Items"]

CLIP_PARTS: Final = ("pixels", "label", "timestamps", "frames", "index", "video")
_THREADS: Final = 4


@dataclass(eq=False)
class Clips:
    """The sequences of a :class:`seqpipe.readers.Video` with their metadata.

    The values are pixels (a Batch), labels, timestamps, frame numbers, indices, positions of the videos in the dataset,
    and further columns of the dataset by name, with the prefix ``column_`` if the name is one of these.

    Attributes:
        reader: the reader.
        outputs: a function that replaces the reader's output for each sample, or None.
        luma: whether the last value is the luma of the pixels: uint8, one channel, full range, from the decoded
            surface. Pixels or luma that no node uses are not computed.
    """

    reader: Video
    outputs: Outputs | None = None
    luma: bool = False
    name: str = "video"

    def __post_init__(self) -> None:
        self._columns = self.reader.columns
        last = ("luma",) if self.luma else ()
        named = tuple(f"column_{name}" if name in (*CLIP_PARTS, *last) else name for name in self._columns)
        self.parts: tuple[str, ...] = (*CLIP_PARTS, *named, *last)
        fetcher = self.reader.fetcher
        whole = fetcher if self.outputs is None else replace(fetcher, outputs=self.outputs)
        # with a report of its own, so that losses are counted once
        gray = replace(whole, outputs=_LumaOutputs(whole.output, self.outputs), book=ReportBook())
        self._fetchers = {"pixels": whole, "luma": gray}
        self._requested = set[str]()

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """The reader's fingerprint."""
        return {"reader": self.reader.fingerprint}

    @property
    def limit_bytes(self) -> int:
        """The reader's memory limit of pending batches."""
        return self.reader.limit_bytes

    @property
    def order(self) -> EpochOrder:
        """The order of the rank's samples."""
        return self.reader.order

    def length(self, epoch: int) -> int:
        """Return the number of samples of this rank."""
        return self.reader.epoch_length(epoch)

    def lockstep(self) -> tuple[int, int]:
        """Return the smallest and the largest number of samples of a rank."""
        return _lockstep(self.order)

    def use(self, parts: Seq[int]) -> None:
        """See :meth:`seqpipe.pipeline.source.BatchSource.use`."""
        self._requested.update(self.parts[part] for part in parts)

    @property
    def _used(self) -> tuple[str, ...]:
        """The images to decode: those requested by :meth:`use`, else the pixels."""
        return tuple(name for name in self._fetchers if name in self._requested) or ("pixels",)

    def type_of(self, part: int) -> Type:
        """Return the type of a value, by its number."""
        name = self.parts[part]
        if name in self._fetchers:
            return self._image_type(name)
        if part >= len(CLIP_PARTS) or (name == "label" and self.reader.label_type != "class"):
            return Type()
        dtype = "float64" if name == "timestamps" else "int64"
        return Type("numbers", "F" if name in ("timestamps", "frames") else "", dtype, "cpu")

    def _image_type(self, name: str) -> Type:
        if self.outputs is not None:
            return Type("images", device=self.reader.device)
        output, shapes = self.reader.output, self.reader.fetcher.selection.catalog.shapes
        frames = self.reader.fetcher.selection.sampler.length
        sides = tuple(
            side.pop() if len(side := set(sides)) == 1 else None for sides in zip(*shapes, strict=True)
        )
        if name == "luma":
            output = luma_of(output)
            axes = zip(output.frame_layout, sides, strict=True)
            sides = tuple(1 if axis == "C" else side for axis, side in axes)
        known = Type("images", output.layout, output.dtype, self.reader.device, (frames, *sides))
        return known.resized(self.reader.layout, {})

    def size(self, epoch: int, positions: IntArray) -> int:
        """Return the size of the samples' pixels in bytes."""
        indices = self.order.samples(epoch, positions)
        return sum(self._fetchers[name].size(epoch, indices) for name in self._used)

    def begin(self, epoch: int, positions: IntArray) -> Any:
        """Start to decode samples."""
        indices = self.order.samples(epoch, positions)
        return begin_together([self._fetchers[name] for name in self._used], epoch, indices)

    def finish(self, work: Any) -> tuple[tuple[Any, ...], IntArray, tuple[str, ...]]:
        """Wait for samples; return their values, indices and sources.

        Raises:
            SeqpipeError: a sample cannot be read, and the reader's ``on_error`` is "raise".
            EmptyBatchError: no sample can be read, and ``on_error`` leaves them out.
        """
        images = {name: self._batch(name, one) for name, one in zip(self._used, work, strict=True)}
        batch = images[self._used[0]]
        indices, known = np.asarray(batch.indices), batch.columns
        values = (
            images.get("pixels"),
            np.asarray(batch.labels),
            batch.timestamps,
            batch.frames,
            indices,
            self.reader.videos(indices),
            *(known.get(name, (None,) * len(indices)) for name in self._columns),
            *([images.get("luma")] if self.luma else ()),
        )
        return values, indices, batch.sources

    def _batch(self, name: str, work: Pending) -> Batch:
        fetcher = self._fetchers[name]
        fetched = fetcher.finish(work)
        if fetched.error is not None:
            raise fetched.error
        if not fetched.pairs:
            sources = dict.fromkeys(sample.source for sample in work.group.samples)
            raise EmptyBatchError(
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
    """Items that are read one by one, on separate threads.

    Attributes:
        read: returns the values of an item by its number; called by several threads.
        order: order of the items.
        name: name for messages and threads.
        parts: names of the values.
        facts: everything that determines the items, as plain values.
        described: path or URL of each item.
        gather: combines the values of all items of a batch into one, for each part.
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
    def limit_bytes(self) -> None:
        """None: pending items are not limited, as their size is unknown."""

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """Everything that determines the items and their order."""
        order = self.order
        return {
            **self.facts,
            "order": [order.size, order.seed, order.shuffle, *order.shard, order.stick_to_shard],
        }

    def length(self, epoch: int) -> int:
        """Return the number of items of this rank."""
        return self.order.length(epoch)

    def lockstep(self) -> tuple[int, int]:
        """Return the smallest and the largest number of items of a rank."""
        return _lockstep(self.order)

    def type_of(self, part: int) -> Type:  # noqa: ARG002  unknown before items are read
        """Nothing is known of it."""
        return Type()

    def size(self, epoch: int, positions: IntArray) -> int:  # noqa: ARG002  unknown before items are read
        """Nothing is known of it."""
        return 0

    def begin(self, epoch: int, positions: IntArray) -> Any:
        """Start to read items."""
        if not self._workers:
            self._workers.append(Workers(_THREADS, f"seqpipe-{self.name}"))
        indices = self.order.samples(epoch, positions)
        calls = [lambda index=index: self.read(index) for index in indices.tolist()]
        return indices, [self._workers[0].submit(call) for call in calls]

    def finish(self, work: Any) -> tuple[tuple[Any, ...], IntArray, tuple[str, ...]]:
        """Wait for items; return their values, indices and sources."""
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
class _LumaOutputs:
    """Outputs of luma with the geometry of the reader's output, or of the outputs that replace it."""

    plain: OutputSpec
    outputs: Outputs | None

    def __call__(self, samples: Seq[SampleRequest], epoch: int) -> list[OutputSpec]:
        colored = [self.plain] * len(samples) if self.outputs is None else self.outputs(samples, epoch)
        return [luma_of(one) for one in colored]


def _lockstep(order: EpochOrder) -> tuple[int, int]:
    return order.shortest, order.longest
