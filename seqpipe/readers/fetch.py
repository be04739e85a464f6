"""Reading of the pixels of samples, with the policy of unreadable ones; pools of threads that start on first use."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from ..array import Array, IntArray
from ..core.forks import reset_after_fork
from ..errors import DeviceMemoryError, SeqpipeError
from ..sampling.dealing import distinct, substitutes
from ..sampling.params import OnError
from ..sequence import Sequence
from ..video.convert.output import OutputSpec
from ..video.device import DecodeChoice, Device
from ..video.engine.engine import Engine, PendingRead, available_cores, engine_for
from ..video.index.open import IndexOptions
from ..video.plan import Request
from .report import Fate, ReportBook
from .selection import Outputs, SampleGroup, SampleRequest, Selection, fill_in, group_of

__all__ = [
    "FetchedSamples",
    "Fetcher",
    "LazyEngine",
    "LazyPool",
    "Pair",
    "Pending",
    "ThreadPool",
    "begin_together",
]

Pair: TypeAlias = tuple[SampleRequest, Sequence]
"""A sample's request and its decoded sequence."""


@dataclass(frozen=True, eq=False)
class Pending:
    """Samples that are being read.

    Attributes:
        epoch: the epoch.
        group: the samples and their outputs.
        stacked: the array that receives all pixels, N and then the axes of the output's layout; None if each sample
            has its own array.
        size: size of the pixels in bytes.
        read: the pending read.
        engine: the engine that reads.
    """

    epoch: int
    group: SampleGroup
    stacked: Array | None
    size: int
    read: PendingRead
    engine: Engine


@dataclass(frozen=True, eq=False)
class FetchedSamples:
    """Samples that have been read.

    Attributes:
        outcomes: for each sample, in order: the pair, the error to raise, or None if the sample is left out.
        stacked: the array that holds the pixels of all samples, or None.
    """

    outcomes: tuple[Pair | SeqpipeError | None, ...]
    stacked: Array | None = None

    @property
    def pairs(self) -> list[Pair]:
        """The samples that were read."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, tuple)]

    @property
    def error(self) -> SeqpipeError | None:
        """The first error to raise, or None."""
        return next((outcome for outcome in self.outcomes if isinstance(outcome, SeqpipeError)), None)


@dataclass(frozen=True, eq=False)
class Fetcher:
    """Reads samples.

    Unreadable samples are raised, left out or substituted, as ``on_error`` says. A substitute depends on (seed, epoch,
    sample index) only, so it is the same on any number of ranks. Candidates are random samples of the dataset: first
    those whose videos differ from the lost one and from each other, then the rest. The first of up to 16 candidates
    that is readable is used; if none is, the sample is left out.

    Two errors are raised under every policy: a full device memory, after which no sample is lost; and outputs that
    do not fit the frames, such as a crop that is too large, at the position of these samples.

    Attributes:
        selection: the frames of each sample.
        engine: the decoding engine.
        output: color, dtype, size and layout of the frames.
        fill: value of positions that are filled with a constant.
        on_error: policy for unreadable samples.
        book: records losses.
        outputs: a function that replaces ``output`` for each sample, or None.
    """

    selection: Selection
    engine: LazyPool[Engine]
    output: OutputSpec
    fill: float
    on_error: OnError
    book: ReportBook
    outputs: Outputs | None = None
    _last: dict[tuple[int, bytes], SampleGroup] = field(default_factory=dict, init=False)

    def size(self, epoch: int, indices: IntArray) -> int:
        """Return the size of the samples' pixels in bytes, without decoding."""
        if self.outputs is not None:
            return self.group(epoch, indices).size
        return self.selection.values_of(indices) * self._itemsize

    def finish(self, pending: Pending, *, counted: bool = True) -> FetchedSamples:
        """Wait for samples, and apply ``on_error`` to unreadable ones."""
        group = pending.group
        if group.broken is not None:
            return FetchedSamples((group.broken,) * len(group.samples))
        arrived = iter(pending.read.result())
        outcomes: list[Pair | SeqpipeError | None] = []
        for number, sample in enumerate(group.samples):
            result = group.failed[number] if number in group.failed else next(arrived)
            if isinstance(result, Sequence):
                outcomes.append(_pair(sample, result))
            else:
                outcomes.append(self._lost(pending.epoch, sample, result, counted=counted))
        complete = all(
            isinstance(o, tuple) and o[0] is s for o, s in zip(outcomes, group.samples, strict=True)
        )
        return FetchedSamples(tuple(outcomes), pending.stacked if complete else None)

    @property
    def _itemsize(self) -> int:
        return np.dtype(self.output.dtype).itemsize

    def group(self, epoch: int, indices: IntArray) -> SampleGroup:
        """Return samples and their outputs; the last result is cached, as callers ask twice.

        Groups with errors are not cached: a file may be readable the next time.
        """
        key = epoch, indices.tobytes()
        group = self._last.get(key)
        if group is None:
            self._last.clear()
            group = self._grouped(*self._resolve(epoch, indices), epoch)
            if not (group.failed or group.broken):
                self._last[key] = group
        return group

    def _grouped(
        self, samples: tuple[SampleRequest, ...], failed: dict[int, SeqpipeError], epoch: int
    ) -> SampleGroup:
        return group_of(samples, failed, self.selection.catalog, self.output, self.outputs, epoch)

    def _resolve(
        self, epoch: int, indices: IntArray
    ) -> tuple[tuple[SampleRequest, ...], dict[int, SeqpipeError]]:
        """Return the samples of indices, and the errors of those that cannot be planned, by position."""
        samples: list[SampleRequest] = []
        failed: dict[int, SeqpipeError] = {}
        for number, index in enumerate(indices.tolist()):
            try:
                samples.append(self.selection.sample(index, epoch))
            except SeqpipeError as error:
                failed[number] = error
                samples.append(self.selection.unknown(index))
        return tuple(samples), failed

    def _lost(
        self, epoch: int, lost: SampleRequest, error: SeqpipeError, *, counted: bool
    ) -> Pair | SeqpipeError | None:
        """Return what takes the place of a lost sample: an error, a substitute, or None."""
        if isinstance(error, DeviceMemoryError):
            raise error
        substitute = self._substitute(epoch, lost) if self.on_error == "substitute" else None
        fate: Fate = "sample left out" if substitute is None else "sample substituted"
        if counted:
            self.book.note(lost.source, "sample raised" if self.on_error == "raise" else fate, error)
        return error if self.on_error == "raise" else substitute

    def _substitute(self, epoch: int, lost: SampleRequest) -> Pair | None:
        """Read the first candidate that can be read; None if there is none."""
        selection = self.selection
        candidates = substitutes(selection.seed, epoch, lost.index, selection.total)
        for candidate in distinct(candidates, selection.videos_of(candidates), lost.video).tolist():
            group = self._grouped(*self._resolve(epoch, np.array([candidate])), epoch)
            ((sample,), (output,)) = group.samples, group.outputs
            if group.failed or group.broken:
                continue
            (result,) = self.engine.get().read([self._request(sample, output)])
            if isinstance(result, Sequence):
                return _pair(sample, result)
            if isinstance(result, DeviceMemoryError):
                raise result
        return None

    def _request(self, sample: SampleRequest, output: OutputSpec, out: Array | None = None) -> Request:
        fill = fill_in(self.fill, self.output, output)
        return Request(sample.source, sample.frames, sample.padding, output, fill, out)

    def requests(self, group: SampleGroup, stacked: Array | None) -> list[Request]:
        """Return the requests for the readable samples of a group."""
        return [
            self._request(sample, output, None if stacked is None else stacked[number])
            for number, (sample, output) in enumerate(zip(group.samples, group.outputs, strict=True))
            if number not in group.failed and group.broken is None
        ]

    def stack(self, group: SampleGroup) -> Array | None:
        """Allocate one array for all samples if their sequences have one shape."""
        if group.common is None:
            return None
        shape, dtype = group.common
        return self.engine.get().allocate((len(group.samples), *shape), np.dtype(dtype))


def begin_together(
    fetchers: Seq[Fetcher], epoch: int, indices: IntArray, *, stack: bool = True
) -> list[Pending]:
    """Start to read the same samples with the output of each fetcher; frames are decoded once for all of them."""
    engine = fetchers[0].engine.get()
    started, requests = [], list[Request]()
    for fetcher in fetchers:
        group = fetcher.group(epoch, indices)
        stacked = fetcher.stack(group) if stack else None
        first = len(requests)
        requests += fetcher.requests(group, stacked)
        started.append((group, stacked, fetcher.size(epoch, indices), first, len(requests)))
    read = engine.submit(requests)
    return [
        Pending(epoch, group, stacked, size, read.part(first, end), engine)
        for group, stacked, size, first, end in started
    ]


def _pair(sample: SampleRequest, sequence: Sequence) -> Pair:
    return sample, sequence.as_sample(sample.label, sample.index, sample.fields)


class ThreadPool(Protocol):
    """Threads that can be stopped."""

    def close(self) -> None:
        """Stop the threads after their current work."""


PoolT = TypeVar("PoolT", bound=ThreadPool)


class LazyPool(ABC, Generic[PoolT]):
    """Creates a pool on first use, and again after :meth:`close` and in forked or spawned processes.

    Threads do not survive a fork: a child would inherit a pool that never answers, and possibly a lock that is never
    released. So a child process starts without a pool.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: PoolT | None = None
        self._inherited: list[PoolT] = []
        self._processes = 1
        reset_after_fork(self)

    @abstractmethod
    def make(self) -> PoolT:
        """Create a pool."""

    def share_cores(self, processes: int) -> None:
        """Let a pool that is created from now on use one of ``processes`` equal parts of the cores.

        That is for the workers of a DataLoader, and does not apply if the number of threads was given.
        """
        self._processes = processes

    def threads_for(self, threads: int | None) -> int | None:
        """Return the number of threads: the given one, or that of this process's part of the cores; None for all."""
        return threads if threads or self._processes == 1 else max(1, available_cores() // self._processes)

    def get(self) -> PoolT:
        """Return the pool of this process."""
        with self._lock:
            if self._pool is None:
                self._pool = self.make()
            return self._pool

    def close(self) -> None:
        """Stop the threads after their current work; the next use starts new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def after_fork(self) -> None:
        """Drop the pool inherited from the parent process."""
        self._lock = threading.Lock()
        if self._pool is not None:
            # Kept alive and never closed: closing decoders and threads of the parent process could hang.
            self._inherited.append(self._pool)
            self._pool = None


class LazyEngine(LazyPool[Engine]):
    """A lazy decoding engine.

    Args:
        threads: number of decoding threads; by default one for each core that the process may use.
        device: device of the sequences.
        decode: decode backend for a GPU.
        indexes: options that the indexes of videos are opened with.
    """

    def __init__(
        self, threads: int | None, device: Device, decode: DecodeChoice, indexes: IndexOptions
    ) -> None:
        super().__init__()
        self._arguments = threads, device, decode, indexes

    def make(self) -> Engine:
        """See :meth:`LazyPool.make`."""
        threads, device, decode, indexes = self._arguments
        return engine_for(device, decode=decode, threads=self.threads_for(threads), **indexes._asdict())

    def __reduce__(self) -> tuple[Any, ...]:
        return LazyEngine, self._arguments
