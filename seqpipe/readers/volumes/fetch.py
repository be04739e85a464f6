"""VolumeFetcher: worker threads that load volumes and cut patches, with a cache of loaded volumes."""

from __future__ import annotations

import math
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np

from ...array import Array, FloatArray, IntArray, on_gpu, to_cupy
from ...core.cached import cached_property
from ...core.forks import reset_after_fork
from ...core.workers import Workers
from ...errors import ParameterError, SeqpipeError, SourceError, UnreadableSourceError
from ...sampling.dealing import distinct, patch_draws, substitutes
from ...sampling.params import OnError
from ...sequence import Sequence
from ...video.cuda.streams import Streams
from ...video.device import Device
from ...video.engine.engine import available_cores
from ...volume.disk import DiskCache
from ...volume.info import VolumeInfo
from ...volume.patches.grid import starts_of
from ...volume.source import Box
from ..fetch import LazyPool
from ..report import ReportBook
from .case import LoadedCase, VolumeRules, cut_at, load_case, patch_start
from .listing import Case
from .options import Cache, Grid, Whole

__all__ = ["CaseCache", "CropOfPatches", "PatchSample", "PatchSelection", "VolumeFetcher", "VolumeOutcome"]


VolumeOutcome: TypeAlias = "tuple[int, dict[str, Sequence]] | SeqpipeError | None"
"""A sample's index and parts by name; the error to raise; or None for a sample that is left out."""


class CropOfPatches(Protocol):
    """Crops that are part of reading."""

    @property
    def size(self) -> tuple[int, int, int]:
        """Slices, rows and columns of the result."""

    def box(self, grid: tuple[int, int, int], epoch: int, index: int) -> Box:
        """Return the window of a patch that is left."""


@dataclass(frozen=True, eq=False)
class PatchSample:
    """One sample before it is read.

    Attributes:
        index: index within the dataset, the same on all ranks and in all epochs.
        volume: position of the volume within the dataset.
        source: the volume's first file.
        draws: random numbers in [0, 1) that determine the patch's position.
        start: first voxel of a patch of a grid; None if it is drawn.
        epoch: the epoch.
    """

    index: int
    volume: int
    source: str
    draws: FloatArray
    start: tuple[int, int, int] | None
    epoch: int


@dataclass(frozen=True, eq=False)
class PatchSelection:
    """The patches of a data set: an immutable description of what is cut of which volumes.

    Attributes:
        cases: the volumes.
        infos: header facts of each volume's first part.
        rules: preparation of volumes, positions and padding of patches.
        seed: seed of the patches' positions.
    """

    cases: tuple[Case, ...]
    infos: tuple[VolumeInfo, ...]
    rules: VolumeRules
    seed: int

    @cached_property
    def starts(self) -> tuple[IntArray, ...] | None:
        """First voxel of each patch of each volume, int64 ``(n, 3)``; None unless a grid covers the volumes."""
        take = self.rules.take
        if not isinstance(take, Grid):
            return None
        return tuple(starts_of(info.grid, take.patch, take.overlaps, take.margins) for info in self.infos)

    @cached_property
    def bounds(self) -> IntArray:
        """Cumulative number of patches, beginning with 0."""
        if self.starts is None:
            return np.arange(len(self.cases) + 1) * self.rules.take.per_volume
        return np.cumsum([0, *map(len, self.starts)])

    @property
    def total(self) -> int:
        """Number of samples of an epoch over all ranks; sample indices are 0 to ``total - 1``."""
        return int(self.bounds[-1])

    def volumes_of(self, indices: IntArray) -> IntArray:
        """Return the position within the dataset of each sample's volume."""
        volumes: IntArray = np.searchsorted(self.bounds, indices, side="right") - 1
        return volumes

    def sample(self, index: int, epoch: int) -> PatchSample:
        """Return one sample of an epoch by its index within the dataset."""
        volume = int(self.volumes_of(np.array([index]))[0])
        source = str(next(iter(self.cases[volume].parts.values())))
        start = None
        if self.starts is not None:
            depth, height, width = self.starts[volume][index - self.bounds[volume]].tolist()
            start = depth, height, width
        return PatchSample(index, volume, source, patch_draws(self.seed, epoch, index), start, epoch)

    def nbytes(self, indices: IntArray, size: tuple[int, ...] | None = None) -> int:
        """Return the approximate size of samples in bytes, as if all parts were float32."""
        total = 0
        for volume in self.volumes_of(indices).tolist():
            shape = self.infos[volume].shape
            voxels = math.prod(size or self.rules.take.patch or shape[-4:-1])
            total += voxels * math.prod(shape[:-4]) * shape[-1] * 4 * len(self.cases[volume].parts)
        return total

    @cached_property
    def facts(self) -> dict[str, object]:
        """Everything that determines the samples, as plain values by name."""
        return {
            "files": [case.key for case in self.cases],
            "shapes": [list(info.shape) for info in self.infos],
            "preparation": [repr(self.rules.prepare), *self.rules.labels],
            "patches": repr(self.rules.take),
        }


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
        options: limits.
        gpu: number of the GPU whose memory holds the volumes; None for main memory.
    """

    def __init__(self, selection: PatchSelection, options: Cache, gpu: int | None = None) -> None:
        self._selection, self._options, self.gpu = selection, options, gpu
        self._min_volumes = 2 * selection.rules.take.mix  # which are always kept
        self._limit_bytes = int(options.gib * 2**30)
        self._disk: DiskCache | None = None
        if options.dir is not None:
            self._disk = DiskCache(options.dir, int(options.dir_gib * 2**30), options.compression)
        self.counts: Counter[str] = Counter()
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Drop all volumes and create new locks, as threads of the parent process may have held them."""
        self._entries: OrderedDict[int, _CacheEntry] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, volume: int) -> LoadedCase:
        """Return a volume; load it if it is not cached."""
        with self._lock:
            entry = self._entries.setdefault(volume, _CacheEntry())
            self._entries.move_to_end(volume)
            self._evict()
        with entry.lock:
            if entry.result is None:
                entry.result = self._load(self._selection.cases[volume])
            if isinstance(entry.result, SeqpipeError):
                raise entry.result
            return entry.result

    @property
    def reads_boxes(self) -> bool:
        """Whether windows of volumes can be read alone: nothing keeps whole volumes, and none is resampled."""
        prepare, take = self._selection.rules.prepare, self._selection.rules.take
        is_kept = self._limit_bytes or self._disk is not None or self.gpu is not None
        return isinstance(take, Whole) and not is_kept and prepare.crop_above is None

    def window(self, volume: int, box: Box) -> LoadedCase:
        """Return a window of a volume, which is read from the files and not kept."""
        loaded = self._load(self._selection.cases[volume], box)
        if isinstance(loaded, SeqpipeError):
            raise loaded
        return loaded

    def _load(self, case: Case, box: Box | None = None) -> LoadedCase | SeqpipeError:
        """Read a case; its error is returned."""
        try:
            loaded = load_case(case, self._selection.rules, self._disk, box)
        except ParameterError as error:  # the arguments were checked before: it is about this file
            source = error.source or case.key
            return UnreadableSourceError(
                error.fact, source=source, allowed=error.allowed, advice=error.advice
            )
        except SeqpipeError as error:
            error.source = error.source or case.key
            return error
        finally:
            with self._lock:
                self.counts["volumes"] += 1
        with self._lock:
            self.counts["voxels"] += loaded.voxels
        return loaded if self.gpu is None else loaded.on_gpu(self.gpu)

    def __reduce__(self) -> tuple[Any, ...]:
        return CaseCache, (self._selection, self._options, self.gpu)

    def clear(self) -> None:
        """Drop all volumes."""
        with self._lock:
            self._entries.clear()

    def _evict(self) -> None:
        """Drop cases until the cache is within its limits."""
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
        return Workers(self.threads_for(self._threads) or available_cores(), "seqpipe-volume")

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
        """An array in the memory of a GPU, for any stream; one that is there is returned as it is."""
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
class _PendingCuts:
    """Samples that worker threads are cutting."""

    samples: tuple[PatchSample, ...]
    crop: CropOfPatches | None
    futures: tuple[Any, ...]
    engine: Workers

    def cancel(self) -> None:
        """Cancel samples that no thread has started."""
        for future in self.futures:
            future.cancel()


class VolumeFetcher:
    """Reads samples by their indices. Unreadable ones are raised, left out, or substituted; up to 16 are tried.

    Args:
        selection: the patch of each sample.
        options: caches and threads.
        device: device of the samples.
        on_error: policy for unreadable samples.
        book: records losses.
    """

    def __init__(
        self, selection: PatchSelection, options: Cache, device: Device, on_error: OnError, book: ReportBook
    ) -> None:
        self.selection, self.device, self.book = selection, device, book
        self.cache = CaseCache(selection, options, device.number if options.device == "cuda" else None)
        self.engine = _LazyWorkers(options.threads)
        self._on_error, self._upload = on_error, _Uploads()

    def begin(self, epoch: int, indices: IntArray, crop: CropOfPatches | None = None) -> _PendingCuts:
        """Start to read samples, of which a crop may leave a part."""
        return self._begun(tuple(self.selection.sample(index, epoch) for index in indices.tolist()), crop)

    def _begun(self, samples: tuple[PatchSample, ...], crop: CropOfPatches | None) -> _PendingCuts:
        """Begin to cut samples on the threads."""
        workers = self.engine.get()
        if crop is None or not self.cache.reads_boxes:
            # volumes are loaded first, one per task: otherwise all threads would wait for the first volume's patches
            for volume in dict.fromkeys(sample.volume for sample in samples):
                workers.submit(partial(self._preload, volume))
        cuts = tuple(workers.submit(partial(self._uploaded, sample, crop)) for sample in samples)
        return _PendingCuts(samples, crop, cuts, workers)

    def finish(self, pending: _PendingCuts) -> list[VolumeOutcome]:
        """Wait for samples, and apply ``on_error`` to unreadable ones."""
        if pending.engine is not self.engine.get():
            # the data set was closed, or this is a forked process: what was begun never finishes
            pending = self._begun(pending.samples, pending.crop)
        outcomes: list[VolumeOutcome] = []
        for sample, future in zip(pending.samples, pending.futures, strict=True):
            result = future.result()
            if isinstance(result, SeqpipeError):
                outcomes.append(self._lost(sample, pending.crop, result))
            else:
                outcomes.append((sample.index, self._on_device(result)))
        return outcomes

    def _preload(self, volume: int) -> None:
        """Read a volume before its patches are asked for."""
        try:
            self.cache.get(volume)
        except SeqpipeError:
            return  # cached, and returned by _cut

    def _cut(self, sample: PatchSample, crop: CropOfPatches | None) -> dict[str, Sequence] | SeqpipeError:
        """Return the parts of a sample, or its error."""
        selection = self.selection
        try:
            if crop is not None and self.cache.reads_boxes:
                box = crop.box(selection.infos[sample.volume].grid, sample.epoch, sample.index)
                case, note = self.cache.window(sample.volume, box), ""
                parts = cut_at(case, (0, 0, 0), case.grid, selection.rules)
            else:
                case = self.cache.get(sample.volume)
                with _finished_on(self.cache.gpu):
                    parts, note = self._patch(case, sample, crop)
        except SeqpipeError as error:
            return error
        if note:
            self.book.note(sample.source, "cut anywhere", note)
        for source, rounded in case.notes:
            self.book.note(source, "labels rounded", rounded)
        return {name: part.as_sample(-1, sample.index) for name, part in parts.items()}

    def _patch(
        self, case: LoadedCase, sample: PatchSample, crop: CropOfPatches | None
    ) -> tuple[dict[str, Sequence], str]:
        """Return a sample's patch of each part, and a note if it was cut anywhere."""
        rules, note = self.selection.rules, ""
        size, start = rules.take.patch or case.grid, sample.start
        if start is None:
            start, note = patch_start(case, rules, sample.draws)
        if crop is not None:
            box = crop.box(size, sample.epoch, sample.index).shifted(start)
            start, size = box.start, box.shape
        return cut_at(case, start, size, rules), note

    def _uploaded(
        self, sample: PatchSample, crop: CropOfPatches | None
    ) -> dict[str, Sequence] | SeqpipeError:
        """A sample where samples are to be, by one of the threads; or why it cannot be read."""
        cut = self._cut(sample, crop)
        if isinstance(cut, SeqpipeError) or self.device.kind == "cpu":
            return cut
        number = self.device.number
        return {
            name: part.with_pixels(self._upload(part.data, number), part.layout) for name, part in cut.items()
        }

    def _on_device(self, parts: dict[str, Sequence]) -> dict[str, Sequence]:
        """Return parts whose data is on the device."""
        if self.device.kind == "cpu":
            return parts
        number = self.device.number
        return {
            name: part.with_pixels(to_cupy(part.data, number), part.layout) for name, part in parts.items()
        }

    def _lost(self, sample: PatchSample, crop: CropOfPatches | None, error: SeqpipeError) -> VolumeOutcome:
        """Return what replaces an unreadable sample: the error to raise, a substitute, or None."""
        if self._on_error == "raise" or not isinstance(error, SourceError):
            self.book.note(sample.source, "sample raised", error)
            return error
        if self._on_error == "skip":
            self.book.note(sample.source, "sample left out", error)
            return None
        selection = self.selection
        candidates = substitutes(selection.seed, sample.epoch, sample.index, selection.total)
        for index in distinct(candidates, selection.volumes_of(candidates), sample.volume).tolist():
            other = selection.sample(index, sample.epoch)
            if not isinstance(result := self._cut(other, crop), SeqpipeError):
                self.book.note(sample.source, "sample substituted", error)
                return other.index, self._on_device(result)
        self.book.note(sample.source, "sample left out", error)
        return None
