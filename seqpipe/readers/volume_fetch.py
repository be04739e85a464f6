"""VolumeFetcher: threads that cut patches from volumes; each volume is read once for all patches of an epoch."""

from __future__ import annotations

import math
import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ..array import FloatArray, IntArray, on_gpu, to_cupy
from ..cached import cached_property
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
    """One sample before it is read.

    Attributes:
        index: index within the dataset, the same on all ranks and in all epochs.
        volume: position of the volume within the dataset.
        source: the volume's first file.
        draws: random numbers in [0, 1) that determine the patch's position.
    """

    index: int
    volume: int
    source: str
    draws: FloatArray


@dataclass(frozen=True, eq=False)
class PatchSelection:
    """The patches of a dataset.

    Attributes:
        cases: the volumes.
        shapes: (slices, rows, columns, channels) of each volume's first part.
        order: order of the patches.
        preparation: orientation, spacing, alignment and dtype of volumes.
        rule: positions and padding of patches.
    """

    cases: tuple[Case, ...]
    shapes: tuple[tuple[int, ...], ...]
    order: BlockOrder
    preparation: Preparation
    rule: Rule

    def sample(self, index: int, epoch: int) -> PatchSample:
        """Return one sample of an epoch by its index within the dataset."""
        volume = index // self.order.per_volume
        source = next(iter(self.cases[volume].parts.values()))
        return PatchSample(index, volume, source, patch_draws(self.order.volumes.seed, epoch, index))

    def at(self, epoch: int, positions: IntArray | None = None) -> list[PatchSample]:
        """Return the samples at positions of the rank's epoch; by default all of them."""
        return [self.sample(index, epoch) for index in self.order.samples(epoch, positions).tolist()]

    def bytes_of(self, volume: int) -> int:
        """Return the approximate size of a sample in bytes, as if all parts were float32."""
        shape = self.shapes[volume]
        voxels = math.prod(self.rule.patch or shape[-4:-1])
        return voxels * math.prod(shape[:-4]) * shape[-1] * 4 * len(self.cases[volume].parts)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of everything that determines samples and their order."""
        order = self.order
        return fingerprint(
            files=[case.key for case in self.cases],
            shapes=[list(shape) for shape in self.shapes],
            preparation=[repr({**vars(self.preparation), "labels": sorted(self.preparation.labels)})],
            sampler=repr(self.rule),
            patches=[order.per_volume, order.block],
            **order.volumes.fingerprint_fields(),
        )


class _Slot:
    """A volume that is open or being opened."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.found: Opened | SeqpipeError | None = None


class OpenCases:
    """Cache of volumes in memory; the least recently used ones are dropped first.

    Args:
        selection: the dataset's volumes.
        least: number of volumes that are always kept.
        room: limit in bytes for further volumes.
        disk: cache on disk, or None.
        gpu: number of the GPU whose memory holds the volumes; None for main memory.
    """

    def __init__(
        self,
        selection: PatchSelection,
        least: int,
        room: int,
        disk: DiskCache | None = None,
        gpu: int | None = None,
    ) -> None:
        self._selection, self._least, self._room, self._disk = selection, least, room, disk
        self.gpu = gpu
        self._process = os.getpid()
        self._slots: OrderedDict[int, _Slot] = OrderedDict()
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()

    def get(self, volume: int) -> Opened:
        """Return a volume, and read it if it is not cached.

        Raises:
            SeqpipeError: the volume cannot be read; the error is cached as a volume is.
        """
        if self._process != os.getpid():  # a forked process: threads of the parent may have held the locks
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
                    found = opened(case, selection.preparation, selection.rule, self._disk)
                    slot.found = found if self.gpu is None else found.on_gpu(self.gpu)
                except SeqpipeError as error:
                    slot.found = error
            if isinstance(slot.found, SeqpipeError):
                raise slot.found
            return slot.found

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenCases, (self._selection, self._least, self._room, self._disk, self.gpu)

    def clear(self) -> None:
        """Drop all volumes."""
        with self._lock:
            self._slots.clear()

    def _drop(self) -> None:
        """Drop the least recently used volumes beyond ``least`` and ``room``."""
        if len(self._slots) <= self._least:
            return
        held = sum(slot.found.nbytes for slot in self._slots.values() if isinstance(slot.found, Opened))
        while len(self._slots) > self._least and (held > self._room or not self._room):
            _, slot = self._slots.popitem(last=False)
            held -= slot.found.nbytes if isinstance(slot.found, Opened) else 0


class _LazyWorkers:
    """Starts threads on first use, and again after :meth:`close` and in forked or spawned processes."""

    def __init__(self, threads: int | None) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._workers: Workers | None = None
        self._process = -1

    def get(self) -> Workers:
        """Return the threads of this process."""
        if self._workers is not None and self._process != os.getpid():
            self._workers, self._lock = None, threading.Lock()
        with self._lock:
            if self._workers is None:
                self._workers = Workers(self._threads or available_cores(), "seqpipe-volume")
                self._process = os.getpid()
            return self._workers

    def close(self) -> None:
        """Stop the threads after their current work."""
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
        """Cancel patches that no thread has started."""
        for future in self.futures:
            future.cancel()


@contextmanager
def _finished_on(gpu: int | None) -> Iterator[None]:
    """Run a block on a GPU, if any, and wait for its work, since whoever takes the arrays may use another stream."""
    if gpu is None:
        yield
        return
    with on_gpu(gpu) as device:
        yield
        device.synchronize()


@dataclass(frozen=True, eq=False)
class _PendingCase:
    """Samples that are being read."""

    epoch: int
    positions: IntArray
    samples: tuple[PatchSample, ...]
    size: int
    read: _Reads
    engine: Workers


@dataclass(frozen=True, eq=False)
class VolumeFetcher:
    """Reads samples; the counterpart of :class:`seqpipe.readers.fetch.Fetcher` for volumes.

    Unreadable samples are raised, left out, or substituted by the epoch's next sample of another, readable volume; up
    to 16 volumes are tried.

    Attributes:
        selection: the patch of each sample.
        open: the volumes in memory.
        engine: the threads.
        device: device of the samples.
        on_error: policy for unreadable samples.
        book: records losses.
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
        *,
        on_gpu: bool = False,
    ) -> VolumeFetcher:
        """Make the fetcher of a selection.

        Args:
            selection: the patches.
            threads: number of threads; None for one for each core.
            device: device of the samples.
            on_error: policy for unreadable samples.
            book: records losses.
            room: limit in bytes for cached volumes beyond those in use.
            disk: cache on disk, or None.
            on_gpu: whether the memory of the device, a GPU, holds cached volumes.
        """
        gpu = device.number if on_gpu else None
        cases = OpenCases(selection, 2 * selection.order.block, room, disk, gpu)
        return cls(selection, cases, _LazyWorkers(threads), device, on_error, book)

    def size(self, epoch: int, positions: IntArray) -> int:
        """Return the approximate size of samples in bytes."""
        volumes = self.selection.order.samples(epoch, positions) // self.selection.order.per_volume
        return sum(self.selection.bytes_of(int(volume)) for volume in volumes)

    @property
    def largest(self) -> int:
        """Approximate largest size of a sample in bytes."""
        return max(self.selection.bytes_of(volume) for volume in range(len(self.selection.cases)))

    def begin(self, epoch: int, positions: IntArray, *, stack: bool = True) -> _PendingCase:
        """Start to read the samples at positions of the rank's epoch."""
        del stack
        samples = tuple(self.selection.at(epoch, positions))
        workers = self.engine.get()
        # one task for each volume first: otherwise all threads that cut would wait for the first volume
        for volume in dict.fromkeys(sample.volume for sample in samples):
            workers.submit(lambda volume=volume: self._touch(volume))  # type: ignore[misc]
        futures = [workers.submit(lambda sample=sample: self._cut(sample)) for sample in samples]  # type: ignore[misc]
        return _PendingCase(epoch, positions, samples, self.size(epoch, positions), _Reads(futures), workers)

    def finish(self, pending: _PendingCase) -> FetchedSamples:
        """Wait for samples, and apply ``on_error`` to unreadable ones."""
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
            SourceError: the sample cannot be read.
        """
        found = self._cut(sample)
        if isinstance(found, SeqpipeError):
            raise found
        return self._placed(found)

    def _touch(self, volume: int) -> None:
        try:
            self.open.get(volume)
        except SeqpipeError:
            return  # _cut meets the same error

    def _cut(self, sample: PatchSample) -> dict[str, Sequence] | SeqpipeError:
        selection = self.selection
        try:
            case = self.open.get(sample.volume)
            with _finished_on(self.open.gpu):
                parts, note = cut(case, selection.rule, selection.preparation.labels, sample.draws)
        except SeqpipeError as error:
            return error
        if note:
            self.book.note(sample.source, "cut anywhere", note)
        return {name: part.as_sample(-1, sample.index) for name, part in parts.items()}

    def _placed(self, parts: dict[str, Sequence]) -> dict[str, Sequence]:
        if self.device.kind == "cpu":
            return parts
        number = self.device.number
        return {
            name: part.with_pixels(to_cupy(part.data, number), part.layout) for name, part in parts.items()
        }

    def _lost(self, epoch: int, position: int, sample: PatchSample, error: SeqpipeError) -> Any:
        """Return the error to raise, a substitute, or None, in place of an unreadable sample."""
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
        """Yield the samples of the rank's epoch after a position, cyclically."""
        length = self.selection.order.length(epoch)
        step = 256
        for first in range(1, length, step):
            places = (position + np.arange(first, min(first + step, length))) % length
            yield from self.selection.at(epoch, places)
