"""VolumeFetcher: patches of a dataset, cut by threads from volumes that each are read once while they are needed."""

from __future__ import annotations

import math
import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from ..array import FloatArray, IntArray, to_cupy
from ..errors import ParameterError, SeqpipeError
from ..sampling import fingerprint
from ..sampling.blocks import BlockOrder, patch_draws
from ..sampling.params import OnError
from ..sequence import Sequence
from ..video.device import Device
from ..video.engine.engine import available_cores
from ..video.engine.workers import Workers
from ..volume.disk import DiskCache
from .fetch import FetchedSamples
from .report import ReportBook
from .volume_case import Opened, Preparation, Rule, cut, opened
from .volume_list import Case

__all__ = ["OpenCases", "PatchSample", "PatchSelection", "VolumeFetcher"]

_TRIES: Final = 16


@dataclass(frozen=True, eq=False)
class PatchSample:
    """One sample, before it is read.

    Attributes:
        index: its index within the dataset, the same on all ranks and in all epochs.
        volume: the place of its volume within the dataset.
        source: the volume's first file.
        draws: the numbers that place its patch, each from 0 to below 1.
    """

    index: int
    volume: int
    source: str
    draws: FloatArray


@dataclass(frozen=True, eq=False)
class PatchSelection:
    """Which patches make a dataset.

    Attributes:
        cases: the volumes.
        shapes: slices, rows, columns and channels of each one's first part.
        order: of the patches.
        preparation: what is made of volumes.
        rule: how patches are placed.
    """

    cases: tuple[Case, ...]
    shapes: tuple[tuple[int, ...], ...]
    order: BlockOrder
    preparation: Preparation
    rule: Rule

    def sample(self, index: int, epoch: int) -> PatchSample:
        """One sample of an epoch by its index within the dataset."""
        volume = index // self.order.per_volume
        source = next(iter(self.cases[volume].parts.values()))
        return PatchSample(index, volume, source, patch_draws(self.order.seed, epoch, index))

    def at(self, epoch: int, positions: IntArray | None = None) -> list[PatchSample]:
        """The samples at positions of the rank's epoch; at all of them by default."""
        return [self.sample(index, epoch) for index in self.order.samples(epoch, positions).tolist()]

    def bytes_of(self, volume: int) -> int:
        """About how many bytes a sample of a volume holds: all parts as float32 at most."""
        shape = self.shapes[volume]
        voxels = math.prod(self.rule.patch or shape[-4:-1])
        return voxels * math.prod(shape[:-4]) * shape[-1] * 4 * len(self.cases[volume].parts)

    @cached_property
    def fingerprint(self) -> str:
        """What decides the order of samples and their places."""
        order = self.order
        return fingerprint(
            files=[case.key for case in self.cases],
            shapes=[list(shape) for shape in self.shapes],
            preparation=[repr({**vars(self.preparation), "labels": sorted(self.preparation.labels)})],
            sampler=repr(self.rule),
            patches=[order.per_volume, order.block],
            seed=order.seed,
            shuffle=order.shuffle,
            shard=list(order.shard),
            stick_to_shard=order.stick_to_shard,
            even_shards=order.even,
        )


class _Slot:
    """A volume that is open, or will be."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.found: Opened | SeqpipeError | None = None


class OpenCases:
    """Volumes in memory, those used last kept: at least some of them, and more as far as there is room.

    Args:
        selection: whose volumes they are.
        least: how many are kept in any case.
        room: bytes that further ones may hold.
        disk: where read volumes are kept, or None.
    """

    def __init__(
        self, selection: PatchSelection, least: int, room: int, disk: DiskCache | None = None
    ) -> None:
        self._selection, self._least, self._room, self._disk = selection, least, room, disk
        self._process = os.getpid()
        self._slots: OrderedDict[int, _Slot] = OrderedDict()
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()

    def get(self, volume: int) -> Opened:
        """A volume, read if it is not there.

        Raises:
            SeqpipeError: it cannot be read; that is remembered as long as a volume would be.
        """
        if self._process != os.getpid():  # a forked process: its parent's threads may have held the locks
            self._lock, self._slots, self._process = threading.Lock(), OrderedDict(), os.getpid()
        with self._lock:
            slot = self._slots.setdefault(volume, _Slot())
            self._slots.move_to_end(volume)
            self._drop()
        with slot.lock:
            if slot.found is None:
                self.counts["volumes"] += 1
                selection, case = self._selection, self._selection.cases[volume]
                try:
                    slot.found = opened(case, selection.preparation, selection.rule, self._disk)
                except SeqpipeError as error:
                    slot.found = error
            if isinstance(slot.found, SeqpipeError):
                raise slot.found
            return slot.found

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenCases, (self._selection, self._least, self._room, self._disk)

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._slots.clear()

    def _drop(self) -> None:
        """Forget those used longest ago, beyond the number that is kept and the room that there is."""
        if len(self._slots) <= self._least:
            return
        held = sum(slot.found.nbytes for slot in self._slots.values() if isinstance(slot.found, Opened))
        while len(self._slots) > self._least and (held > self._room or not self._room):
            _, slot = self._slots.popitem(last=False)
            held -= slot.found.nbytes if isinstance(slot.found, Opened) else 0


class _LazyWorkers:
    """Threads that are started on first use, and anew after closing and in a forked or spawned process."""

    def __init__(self, threads: int | None) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._workers: Workers | None = None
        self._process = -1

    def get(self) -> Workers:
        """The threads of this process."""
        if self._workers is not None and self._process != os.getpid():
            self._workers, self._lock = None, threading.Lock()
        with self._lock:
            if self._workers is None:
                self._workers = Workers(self._threads or available_cores(), "seqpipe-volume")
                self._process = os.getpid()
            return self._workers

    def close(self) -> None:
        """End the threads, once what they have begun is done."""
        with self._lock:
            workers, self._workers = self._workers, None
        if workers is not None and self._process == os.getpid():
            workers.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _LazyWorkers, (self._threads,)


class _Reads:
    """Patches being cut."""

    def __init__(self, futures: Seq[Any]) -> None:
        self.futures = futures

    def cancel(self) -> None:
        """Do not begin what has not begun."""
        for future in self.futures:
            future.cancel()


@dataclass(frozen=True, eq=False)
class _PendingCase:
    """Samples on their way."""

    epoch: int
    positions: IntArray
    samples: tuple[PatchSample, ...]
    size: int
    read: _Reads
    engine: Workers


@dataclass(frozen=True, eq=False)
class VolumeFetcher:
    """Reads samples; what :class:`seqpipe.readers.fetch.Fetcher` is for videos.

    A sample that cannot be read is raised, left out, or substituted by the next one of the epoch whose volume is
    another one and can be read; of up to 16 volumes.

    Attributes:
        selection: which patches make a sample.
        open: the volumes in memory.
        engine: the threads.
        device: where samples are to be.
        on_error: what becomes of samples that cannot be read.
        book: where losses are written down.
    """

    selection: PatchSelection
    open: OpenCases
    engine: _LazyWorkers
    device: Device
    on_error: OnError
    book: ReportBook
    _said: set[int] = field(default_factory=set, init=False)

    @classmethod
    def of(
        cls,
        selection: PatchSelection,
        threads: int | None,
        device: Device,
        on_error: OnError,
        book: ReportBook,
        room: int,
        disk: DiskCache | None,
    ) -> VolumeFetcher:
        """The fetcher of a selection.

        Args:
            selection: which patches.
            threads: how many; None for one per core.
            device: where samples are to be.
            on_error: what becomes of samples that cannot be read.
            book: where losses are written down.
            room: bytes that volumes beyond those in use may hold.
            disk: where read volumes are kept, or None.
        """
        cases = OpenCases(selection, 2 * selection.order.block, room, disk)
        return cls(selection, cases, _LazyWorkers(threads), device, on_error, book)

    def size(self, epoch: int, positions: IntArray) -> int:
        """About the bytes that samples will hold."""
        volumes = self.selection.order.samples(epoch, positions) // self.selection.order.per_volume
        return sum(self.selection.bytes_of(int(volume)) for volume in volumes)

    @property
    def largest(self) -> int:
        """About the bytes that one sample holds at most."""
        return max(self.selection.bytes_of(volume) for volume in range(len(self.selection.cases)))

    def begin(self, epoch: int, positions: IntArray, *, stack: bool = True) -> _PendingCase:
        """Begin to read the samples at positions of the rank's epoch."""
        del stack
        samples = tuple(self.selection.at(epoch, positions))
        workers = self.engine.get()
        # each volume is asked for by itself first: threads that cut would all wait for the first one
        for volume in dict.fromkeys(sample.volume for sample in samples):
            workers.submit(lambda volume=volume: self._touch(volume))  # type: ignore[misc]
        futures = [workers.submit(lambda sample=sample: self._cut(sample)) for sample in samples]  # type: ignore[misc]
        return _PendingCase(epoch, positions, samples, self.size(epoch, positions), _Reads(futures), workers)

    def finish(self, pending: _PendingCase) -> FetchedSamples:
        """Wait for samples, and deal with those that cannot be read."""
        outcomes: list[Any] = []
        for place, (sample, future) in enumerate(zip(pending.samples, pending.read.futures, strict=True)):
            found = future.result()
            if isinstance(found, SeqpipeError):
                outcomes.append(self._lost(pending.epoch, int(pending.positions[place]), sample, found))
            else:
                outcomes.append((sample, self._placed(found)))
        return FetchedSamples(tuple(outcomes))

    def single(self, sample: PatchSample) -> dict[str, Sequence]:
        """Read one sample.

        Raises:
            SourceError: it cannot be read.
        """
        found = self._cut(sample)
        if isinstance(found, SeqpipeError):
            raise found
        return self._placed(found)

    def _touch(self, volume: int) -> None:
        try:
            self.open.get(volume)
        except SeqpipeError:
            return  # whoever cuts meets it again

    def _cut(self, sample: PatchSample) -> dict[str, Sequence] | SeqpipeError:
        selection = self.selection
        try:
            case = self.open.get(sample.volume)
            parts, note = cut(case, selection.rule, selection.preparation.labels, sample.draws)
        except SeqpipeError as error:
            return error
        if note:
            self.book.note(sample.source, "cut anywhere", note)
        return {name: part.of_sample(-1, sample.index) for name, part in parts.items()}

    def _placed(self, parts: dict[str, Sequence]) -> dict[str, Sequence]:
        if self.device.kind == "cpu":
            return parts
        number = self.device.number
        return {
            name: part.with_pixels(to_cupy(part.data, number), part.layout) for name, part in parts.items()
        }

    def _lost(self, epoch: int, position: int, sample: PatchSample, error: SeqpipeError) -> Any:
        """What takes the place of a sample that cannot be read."""
        if self.on_error == "raise" or isinstance(error, ParameterError):
            self.book.note(sample.source, "sample raised", error)
            return error
        if self.on_error == "skip":
            self.book.note(sample.source, "sample left out", error)
            return None
        bad = {sample.volume}
        for other in self._following(epoch, position):
            if other.volume in bad:
                continue
            found = self._cut(other)
            if not isinstance(found, SeqpipeError):
                self.book.note(sample.source, "sample substituted", error)
                return other, self._placed(found)
            bad.add(other.volume)
            if len(bad) > _TRIES:
                break
        self.book.note(sample.source, "sample left out", error)
        return None

    def _following(self, epoch: int, position: int) -> Any:
        """The samples of the rank's epoch behind a position; after the end follows the beginning."""
        length = self.selection.order.length(epoch)
        step = 256
        for first in range(1, length, step):
            places = (position + np.arange(first, min(first + step, length))) % length
            yield from self.selection.at(epoch, places)
