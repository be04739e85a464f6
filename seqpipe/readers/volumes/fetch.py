"""VolumeFetcher: worker threads that load volumes and cut patches, with a cache of loaded volumes."""

from __future__ import annotations

import math
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np

from ...array import Array, FloatArray, IntArray, on_gpu, to_cupy
from ...core.cached import cached_property
from ...core.forks import reset_after_fork
from ...core.workers import Workers
from ...errors import ParameterError, SeqpipeError, SourceError, UnreadableSourceError
from ...sampling.blocks import patch_draws
from ...sampling.dealing import distinct, substitutes
from ...sampling.params import OnError
from ...sequence import Sequence
from ...video.cuda.streams import Streams
from ...video.device import Device
from ...video.engine.engine import available_cores
from ...volume.disk import DiskCache
from ..fetch import FetchedSamples
from ..lazy_engine import LazyPool
from ..report import ReportBook
from .case import LoadedCase, PatchRule, Preparation, cut_at, cut_patches, load_case
from .listing import Case

__all__ = ["CaseCache", "GridSelection", "PatchSample", "PatchSelection", "VolumeFetcher"]

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
        per_volume: patches of each volume.
        open_volumes: number of volumes whose patches are mixed.
        seed: seed of the patches' positions.
        preparation: orientation, spacing, alignment and dtype of volumes.
        rule: positions and padding of patches.
    """

    cases: tuple[Case, ...]
    shapes: tuple[tuple[int, ...], ...]
    per_volume: int
    open_volumes: int
    seed: int
    preparation: Preparation
    rule: PatchRule

    @property
    def total(self) -> int:
        """Number of samples of an epoch over all ranks; sample indices are 0 to ``total - 1``."""
        return len(self.cases) * self.per_volume

    def sample(self, index: int, epoch: int) -> PatchSample:
        """Return one sample of an epoch by its index within the dataset."""
        volume = index // self.per_volume
        source = next(iter(self.cases[volume].parts.values()))
        return PatchSample(index, volume, source, patch_draws(self.seed, epoch, index))

    def volumes_of(self, indices: IntArray) -> IntArray:
        """Return the position within the dataset of each sample's volume."""
        return indices // self.per_volume

    def cut(self, case: LoadedCase, sample: PatchSample) -> tuple[dict[str, Sequence], str]:
        """Return a sample's patch of each part, and a note if it was cut anywhere."""
        return cut_patches(case, self.rule, self.preparation.labels, sample.draws)

    def bytes_of(self, volume: int) -> int:
        """Return the approximate size of a sample in bytes, as if all parts were float32."""
        shape = self.shapes[volume]
        voxels = math.prod(self.rule.patch or shape[-4:-1])
        return voxels * math.prod(shape[:-4]) * shape[-1] * 4 * len(self.cases[volume].parts)

    @cached_property
    def facts(self) -> dict[str, object]:
        """Everything that determines the samples, as plain values by name."""
        return {
            "files": [case.key for case in self.cases],
            "shapes": [list(shape) for shape in self.shapes],
            "preparation": [repr({**vars(self.preparation), "labels": sorted(self.preparation.labels)})],
            "sampler": repr(self.rule),
            "patches": [self.per_volume, self.open_volumes],
        }


@dataclass(frozen=True, eq=False)
class GridSelection(PatchSelection):
    """The overlapping patches that cover each volume, in order.

    Attributes:
        starts: first voxel of each patch of each volume, int64 ``(n, 3)``.
    """

    starts: tuple[IntArray, ...] = ()

    @cached_property
    def bounds(self) -> IntArray:
        """Cumulative number of patches, beginning with 0."""
        return np.cumsum([0, *map(len, self.starts)])

    @property
    def total(self) -> int:
        """Number of patches."""
        return int(self.bounds[-1])

    def volumes_of(self, indices: IntArray) -> IntArray:
        """See :meth:`PatchSelection.volumes_of`."""
        volumes: IntArray = np.searchsorted(self.bounds, indices, side="right") - 1
        return volumes

    def sample(self, index: int, epoch: int) -> PatchSample:
        """See :meth:`PatchSelection.sample`; its draws are the first voxel."""
        del epoch
        volume = int(self.volumes_of(np.array([index]))[0])
        source = next(iter(self.cases[volume].parts.values()))
        start = self.starts[volume][index - self.bounds[volume]]
        return PatchSample(index, volume, source, start.astype(np.float64))

    def cut(self, case: LoadedCase, sample: PatchSample) -> tuple[dict[str, Sequence], str]:
        """See :meth:`PatchSelection.cut`."""
        start = [int(position) for position in sample.draws]
        patch = self.rule.patch or case.grid
        return cut_at(case, start, patch, self.rule, self.preparation.labels), ""

    @cached_property
    def facts(self) -> dict[str, object]:
        """See :attr:`PatchSelection.facts`."""
        return {**super().facts, "grid": [starts.tolist() for starts in self.starts]}


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

    def of_selection(self, selection: PatchSelection) -> CaseCache:
        """Return an empty cache for another selection, with the same limits."""
        return CaseCache(selection, self._min_volumes, self._limit_bytes, self._disk, self.gpu)

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
    samples: tuple[PatchSample, ...]
    size: int
    read: _PendingCuts
    engine: Workers


@dataclass(frozen=True, eq=False)
class VolumeFetcher:
    """Reads samples; the counterpart of :class:`seqpipe.readers.fetch.Fetcher` for volumes.

    Unreadable samples are raised, left out, or substituted; up to 16 samples are tried.

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
        cache = CaseCache(selection, 2 * selection.open_volumes, cache_bytes, disk, gpu)
        return cls(selection, cache, _LazyWorkers(threads), device, on_error, book)

    def of_selection(self, selection: PatchSelection) -> VolumeFetcher:
        """Return a fetcher of other samples of the same volumes, with the same threads and limits."""
        return replace(self, selection=selection, cache=self.cache.of_selection(selection))

    def size(self, epoch: int, indices: IntArray) -> int:  # noqa: ARG002  the same in all epochs
        """Return the approximate size of samples in bytes."""
        volumes = self.selection.volumes_of(indices)
        return sum(self.selection.bytes_of(int(volume)) for volume in volumes)

    @property
    def largest(self) -> int:
        """Approximate largest size of a sample in bytes."""
        return max(self.selection.bytes_of(volume) for volume in range(len(self.selection.cases)))

    def begin(self, epoch: int, indices: IntArray, *, stack: bool = True) -> _PendingCase:
        """Start to read samples."""
        del stack
        samples = tuple(self.selection.sample(index, epoch) for index in indices.tolist())
        workers = self.engine.get()
        # volumes are loaded first, one per task: otherwise all threads would wait for the first volume's patches
        for volume in dict.fromkeys(sample.volume for sample in samples):
            workers.submit(partial(self._preload, volume))
        cuts = _PendingCuts([workers.submit(partial(self._uploaded, sample)) for sample in samples])
        return _PendingCase(epoch, samples, self.size(epoch, indices), cuts, workers)

    def prepare(self, epoch: int, indices: IntArray) -> None:
        """Do nothing: choosing patches takes little time."""

    def finish(self, pending: _PendingCase) -> FetchedSamples:
        """Wait for samples, and apply ``on_error`` to unreadable ones."""
        outcomes: list[Any] = []
        for sample, future in zip(pending.samples, pending.read.futures, strict=True):
            result = future.result()
            if isinstance(result, SeqpipeError):
                outcomes.append(self._lost(pending.epoch, sample, result))
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
                parts, note = selection.cut(case, sample)
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

    def _lost(self, epoch: int, sample: PatchSample, error: SeqpipeError) -> Any:
        """Return what replaces an unreadable sample: the error to raise, a substitute, or None."""
        if self.on_error == "raise" or not isinstance(error, SourceError):
            self.book.note(sample.source, "sample raised", error)
            return error
        if self.on_error == "skip":
            self.book.note(sample.source, "sample left out", error)
            return None
        selection = self.selection
        candidates = substitutes(selection.seed, epoch, sample.index, selection.total)
        for index in distinct(candidates, selection.volumes_of(candidates), sample.volume)[:_TRIES].tolist():
            other = selection.sample(index, epoch)
            if not isinstance(result := self._cut(other), SeqpipeError):
                self.book.note(sample.source, "sample substituted", error)
                return other, self._on_device(result)
        self.book.note(sample.source, "sample left out", error)
        return None
