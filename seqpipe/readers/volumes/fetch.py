"""VolumeFetcher: worker threads that load volumes and cut patches, with a cache of loaded volumes."""

from __future__ import annotations

import math
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np

from ...array import Array, FloatArray, IntArray, on_gpu, to_cupy
from ...core.cached import cached_property
from ...core.forks import reset_after_fork
from ...errors import ParameterError, SeqpipeError, SourceError, UnreadableSourceError
from ...sampling import fingerprint
from ...sampling.blocks import BlockOrder, patch_draws
from ...sampling.params import OnError
from ...sequence import Sequence
from ...video.cuda.streams import Streams
from ...video.device import Device
from ...video.engine.engine import available_cores
from ...video.engine.workers import Workers
from ...volume.disk import DiskCache
from ..fetch import FetchedSamples
from ..lazy_engine import LazyPool
from ..report import ReportBook
from .case import LoadedCase, PatchRule, Preparation, cut_patches, load_case
from .listing import Case

__all__ = ["CaseCache", "PatchSample", "PatchSelection", "VolumeFetcher"]

_TRIES: Final = 16
_CHUNK: Final = 256


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
    rule: PatchRule

    @property
    def total(self) -> int:
        """Number of samples of an epoch over all ranks; sample indices are 0 to ``total - 1``."""
        return self.order.size

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


class _CacheEntry:
    """A volume that is loaded or being loaded."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.result: LoadedCase | SeqpipeError | None = None

    @property
    def nbytes(self) -> int:
        """Size in bytes; 0 before the volume is loaded."""
        return self.result.nbytes if isinstance(self.result, LoadedCase) else 0


class CaseCache:
    """LRU cache of volumes in memory; empty in a forked process.

    Args:
        selection: the dataset's volumes.
        min_volumes: number of volumes that are always kept.
        limit_bytes: memory limit beyond these.
        disk: cache on disk, or None.
        gpu: number of the GPU whose memory holds the volumes; None for main memory.
    """

    def __init__(
        self,
        selection: PatchSelection,
        min_volumes: int,
        limit_bytes: int,
        disk: DiskCache | None = None,
        gpu: int | None = None,
    ) -> None:
        self._selection, self._disk = selection, disk
        self._min_volumes, self._limit_bytes = min_volumes, limit_bytes
        self.gpu = gpu
        self.counts: Counter[str] = Counter()
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Drop all volumes and create new locks, as threads of the parent process may have held them."""
        self._entries: OrderedDict[int, _CacheEntry] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, volume: int) -> LoadedCase:
        """Return a volume; load it if it is not cached.

        Raises:
            SeqpipeError: the volume cannot be loaded; errors are cached like volumes.
        """
        with self._lock:
            entry = self._entries.setdefault(volume, _CacheEntry())
            self._entries.move_to_end(volume)
            self._evict()
        with entry.lock:
            if entry.result is None:
                with self._lock:
                    self.counts["volumes"] += 1
                entry.result = self._load(self._selection.cases[volume])
            if isinstance(entry.result, SeqpipeError):
                raise entry.result
            return entry.result

    def _load(self, case: Case) -> LoadedCase | SeqpipeError:
        try:
            loaded = load_case(case, self._selection.preparation, self._selection.rule, self._disk)
            return loaded if self.gpu is None else loaded.on_gpu(self.gpu)
        except ParameterError as error:  # the arguments were checked before: it is about this file
            source = error.source or case.key
            return UnreadableSourceError(
                error.fact, source=source, allowed=error.allowed, advice=error.advice
            )
        except SeqpipeError as error:
            error.source = error.source or case.key
            return error

    def __reduce__(self) -> tuple[Any, ...]:
        return CaseCache, (self._selection, self._min_volumes, self._limit_bytes, self._disk, self.gpu)

    def clear(self) -> None:
        """Drop all volumes."""
        with self._lock:
            self._entries.clear()

    def _evict(self) -> None:
        if len(self._entries) <= self._min_volumes:
            return
        total = sum(entry.nbytes for entry in self._entries.values())
        while len(self._entries) > self._min_volumes and (total > self._limit_bytes or not self._limit_bytes):
            _, entry = self._entries.popitem(last=False)
            total -= entry.nbytes


class _LazyWorkers(LazyPool[Workers]):
    """Lazy threads that read volumes."""

    def __init__(self, threads: int | None) -> None:
        super().__init__()
        self._threads = threads

    def make(self) -> Workers:
        """See :meth:`LazyPool.make`."""
        return Workers(self._threads or available_cores(), "seqpipe-volume")

    def __reduce__(self) -> tuple[Any, ...]:
        return _LazyWorkers, (self._threads,)


class _Uploads:
    """Copies to a GPU, each by the thread that has read, on a stream of its own, while others compute there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: Streams | None = None
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Replace the lock: another thread may have held it. The GPU cannot be used in a forked process."""
        self._lock = threading.Lock()

    def __call__(self, array: Array, number: int) -> Array:
        """An array in the memory of a GPU, for any stream; one that is there is returned as it is.

        Args:
            array: in main memory or there.
            number: of the GPU.

        Raises:
            DeviceMemoryError: the GPU is full.
        """
        if not isinstance(array, np.ndarray):
            return array
        with self._lock:
            streams = self._streams = self._streams or Streams(number)
        with streams.ready():
            out = streams.allocate(array.shape, array.dtype)
            streams.admit()  # what the memory was used for before comes first
            out.set(np.ascontiguousarray(array), stream=streams.current())
            streams.current().synchronize()
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        return _Uploads, ()  # a lock and streams belong to their process


class _PendingCuts:
    """Patches that worker threads are cutting."""

    def __init__(self, futures: Seq[Any]) -> None:
        self.futures = futures

    def cancel(self) -> None:
        """Cancel patches that no thread has started."""
        for future in self.futures:
            future.cancel()


@contextmanager
def _finished_on(gpu: int | None) -> Iterator[None]:
    """Run a block on a GPU, if any, and wait for its work, since consumers of the arrays may use another stream."""
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
    read: _PendingCuts
    engine: Workers


@dataclass(frozen=True, eq=False)
class VolumeFetcher:
    """Reads samples; the counterpart of :class:`seqpipe.readers.fetch.Fetcher` for volumes.

    Unreadable samples are raised, left out, or substituted by the epoch's next sample of another, readable volume; up
    to 16 volumes are tried.

    Attributes:
        selection: the patch of each sample.
        cache: the volumes in memory.
        engine: the worker threads.
        device: device of the samples.
        on_error: policy for unreadable samples.
        book: records losses.
    """

    selection: PatchSelection
    cache: CaseCache
    engine: _LazyWorkers
    device: Device
    on_error: OnError
    book: ReportBook
    _upload: _Uploads = field(default_factory=_Uploads, init=False)

    @classmethod
    def of(
        cls,
        selection: PatchSelection,
        threads: int | None,
        device: Device,
        on_error: OnError,
        book: ReportBook,
        cache_bytes: int,
        disk: DiskCache | None,
        *,
        on_gpu: bool = False,
    ) -> VolumeFetcher:
        """Return the fetcher of a selection.

        Args:
            selection: the patches.
            threads: number of threads; None for one per core.
            device: device of the samples.
            on_error: policy for unreadable samples.
            book: records losses.
            cache_bytes: memory limit of cached volumes beyond those in use.
            disk: cache on disk, or None.
            on_gpu: whether the memory of the device, a GPU, holds cached volumes.
        """
        gpu = device.number if on_gpu else None
        cache = CaseCache(selection, 2 * selection.order.block, cache_bytes, disk, gpu)
        return cls(selection, cache, _LazyWorkers(threads), device, on_error, book)

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
        # volumes are loaded first, one per task: otherwise all threads would wait for the first volume's patches
        for volume in dict.fromkeys(sample.volume for sample in samples):
            workers.submit(partial(self._preload, volume))
        cuts = _PendingCuts([workers.submit(partial(self._uploaded, sample)) for sample in samples])
        return _PendingCase(epoch, positions, samples, self.size(epoch, positions), cuts, workers)

    def prepare(self, epoch: int, positions: IntArray) -> None:
        """Do nothing: choosing patches takes little time."""

    def finish(self, pending: _PendingCase) -> FetchedSamples:
        """Wait for samples, and apply ``on_error`` to unreadable ones."""
        outcomes: list[Any] = []
        for number, (sample, future) in enumerate(zip(pending.samples, pending.read.futures, strict=True)):
            result = future.result()
            if isinstance(result, SeqpipeError):
                outcomes.append(self._lost(pending.epoch, int(pending.positions[number]), sample, result))
            else:
                outcomes.append((sample, self._on_device(result)))
        return FetchedSamples(tuple(outcomes))

    def single(self, sample: PatchSample) -> dict[str, Sequence]:
        """Read one sample.

        Raises:
            SourceError: the sample cannot be read.
        """
        result = self._cut(sample)
        if isinstance(result, SeqpipeError):
            raise result
        return self._on_device(result)

    def _preload(self, volume: int) -> None:
        try:
            self.cache.get(volume)
        except SeqpipeError:
            return  # cached, and returned by _cut

    def _cut(self, sample: PatchSample) -> dict[str, Sequence] | SeqpipeError:
        selection = self.selection
        try:
            case = self.cache.get(sample.volume)
            with _finished_on(self.cache.gpu):
                parts, note = cut_patches(case, selection.rule, selection.preparation.labels, sample.draws)
        except SeqpipeError as error:
            return error
        if note:
            self.book.note(sample.source, "cut anywhere", note)
        for source, rounded in case.notes:
            self.book.note(source, "labels rounded", rounded)
        return {name: part.as_sample(-1, sample.index) for name, part in parts.items()}

    def _uploaded(self, sample: PatchSample) -> dict[str, Sequence] | SeqpipeError:
        """A sample where samples are to be, by one of the threads; or why it cannot be read."""
        cut = self._cut(sample)
        if isinstance(cut, SeqpipeError) or self.device.kind == "cpu":
            return cut
        number = self.device.number
        return {
            name: part.with_pixels(self._upload(part.data, number), part.layout) for name, part in cut.items()
        }

    def _on_device(self, parts: dict[str, Sequence]) -> dict[str, Sequence]:
        if self.device.kind == "cpu":
            return parts
        number = self.device.number
        return {
            name: part.with_pixels(to_cupy(part.data, number), part.layout) for name, part in parts.items()
        }

    def _lost(self, epoch: int, position: int, sample: PatchSample, error: SeqpipeError) -> Any:
        """Return what replaces an unreadable sample: the error to raise, a substitute, or None."""
        if self.on_error == "raise" or not isinstance(error, SourceError):
            self.book.note(sample.source, "sample raised", error)
            return error
        if self.on_error == "skip":
            self.book.note(sample.source, "sample left out", error)
            return None
        bad = {sample.volume}
        for other in self._following(epoch, position):
            if other.volume in bad:
                continue
            result = self._cut(other)
            if not isinstance(result, SeqpipeError):
                self.book.note(sample.source, "sample substituted", error)
                return other, self._on_device(result)
            bad.add(other.volume)
            if len(bad) > _TRIES:
                break
        self.book.note(sample.source, "sample left out", error)
        return None

    def _following(self, epoch: int, position: int) -> Iterator[PatchSample]:
        """Yield the samples of the rank's epoch after a position, cyclically."""
        length = self.selection.order.length(epoch)
        for first in range(1, length, _CHUNK):
            positions = (position + np.arange(first, min(first + _CHUNK, length))) % length
            yield from self.selection.at(epoch, positions)
