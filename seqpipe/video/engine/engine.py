"""Thread pool for parallel decoding of many sequences: an ordered, bounded parallel map, and read-ahead of packets."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Seq
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np

from ...array import Array, IntArray
from ...core.closing import Closing
from ...core.workers import CLOSED_MEANWHILE, OPENCV, InterruptibleFuture, Workers
from ...errors import BackendError, SeqpipeError, SourceError
from ...sequence import Sequence
from ..convert.converter import HostPainter, Painter, Targets, host_array
from ..decode.cpu import DecoderPool
from ..decode.packets import IndexMismatchError, PacketReader, open_packets
from ..device import DecodeChoice, Device
from ..index.open import IndexOptions, Library
from ..plan import Job, JobQueue, Outcomes, PlannedVideo, Request, assemble, check_memory, cut_jobs
from .backend import DecodeBackend, ReaderContext, fill
from .backend import processes as default_processes

__all__ = ["Engine", "PendingRead", "ReadAhead", "available_cores", "engine_for", "reader_context"]

_READING_THREADS: Final = 32
# compressed packets of queued jobs; readers limit the decoded frames of these jobs
_MOST_READ_AHEAD_BYTES: Final = 256 << 20

_Packets = dict[int, bytes]


class ReadAhead:
    """Threads that read the packets of queued jobs, up to a limit of bytes.

    Where the limit is reached, or reading fails, the thread that decodes the job reads its packets.
    """

    def __init__(self) -> None:
        self._workers = Workers(_READING_THREADS, "seqpipe-read")
        self._pending: dict[Job, tuple[Future[_Packets], int]] = {}
        self._buffered = 0
        self._lock = threading.Lock()

    def begin(self, job: Job) -> None:
        """Start to read a job's packets, if its source has a high latency."""
        video = job.video
        if not (video.source.slow and video.index.by_offset):
            return
        size = int(video.index.packets.size[job.packets].sum())
        with self._lock:
            if self._buffered + size > _MOST_READ_AHEAD_BYTES:
                return
            self._pending[job] = self._workers.submit(partial(_read_packets, job)), size
            self._buffered += size
        job.future.add_done_callback(lambda _: self.end(job))  # if it is canceled or fails

    def reader(self, jobs: Seq[Job]) -> PacketReader:
        """Open a packet reader for jobs of one video that are decoded together."""
        direct = open_packets(jobs[0].video.source, jobs[0].video.index)
        with self._lock:
            pending = [self._pending[job][0] for job in jobs if job in self._pending]
        return _PrefetchedPackets(direct, pending) if pending else direct

    def end(self, job: Job) -> None:
        """Release the packets of a job, if any are buffered.

        Called before the job's future is set: the future wakes a waiting thread before it runs other callbacks, and
        that thread's next job needs the room.
        """
        with self._lock:
            if job not in self._pending:
                return
            reading, size = self._pending.pop(job)
            self._buffered -= size
        reading.cancel()

    def close(self) -> None:
        """Cancel queued reads, and wait for running ones."""
        self._workers.close()


class _PrefetchedPackets:
    """PacketReader that serves prefetched packets from memory and reads the others."""

    def __init__(self, direct: PacketReader, pending: Seq[Future[_Packets]]) -> None:
        self._direct, self._pending = direct, pending

    def read(self, numbers: IntArray) -> Iterator[bytes]:
        """The bytes of the packets with the given ascending numbers."""
        prefetched: _Packets = {}
        for future in self._pending:
            # The packets are read again below, which raises the error if it persists.
            with contextlib.suppress(SourceError, CancelledError):
                prefetched.update(future.result())
        missing = [number for number in numbers.tolist() if number not in prefetched]
        others = self._direct.read(np.array(missing, dtype=np.int64))
        for number in numbers.tolist():
            yield prefetched[number] if number in prefetched else next(others)

    def close(self) -> None:
        """Close the underlying reader."""
        self._direct.close()


def _read_packets(job: Job) -> _Packets:
    with contextlib.closing(open_packets(job.video.source, job.video.index)) as packets:
        return dict(zip(job.packets.tolist(), packets.read(job.packets), strict=True))


ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

_log = logging.getLogger(__name__)


class PendingRead:
    """Sequences that are being read; :meth:`result` waits for them."""

    def __init__(self, numbers: range, planning: Future[list[Future[Outcomes]]]) -> None:
        self._numbers, self._planning = numbers, planning

    def result(self) -> list[Sequence | SeqpipeError]:
        """Return one entry per request, in order: the sequence, or the error that replaced it."""
        outcomes: Outcomes = {}
        try:
            for future in self._planning.result():
                outcomes.update(future.result())
        except CancelledError as error:
            raise BackendError("the reader was closed during a read", advice=CLOSED_MEANWHILE) from error
        return [outcomes[number] for number in self._numbers]

    def part(self, first: int, end: int) -> PendingRead:
        """Return a view of the requests ``first`` to ``end`` (exclusive); cancelling it cancels all requests."""
        return PendingRead(range(first, end), self._planning)

    def cancel(self) -> None:
        """Cancel the requests that no thread has started on."""
        if not self._planning.cancel():
            self._planning.add_done_callback(_cancel_planned)


def _cancel_planned(planning: Future[list[Future[Outcomes]]]) -> None:
    if not planning.cancelled() and planning.exception() is None:
        for future in planning.result():
            future.cancel()


class Engine(Closing):
    """Thread pool that decodes one sequence per thread, and owner of the decoders and open files.

    Args:
        threads: number of CPU threads; by default one per core available to this process.
        cache_dir: folder of cached indexes, see :func:`seqpipe.video.index.open.open_index`.
        stream: which stream of each video, by its number in the container; None for the best one.
        register: path of a shared index register, see :mod:`seqpipe.video.index.shared`.
        processes: number of worker processes that decode small frames; None for the default of
            :func:`seqpipe.video.engine.backend.processes`.
        backends: decode backends, in order of preference; by default the CPU alone.
        allocate: allocates arrays on the device of these backends.
    """

    def __init__(
        self,
        threads: int | None = None,
        *,
        cache_dir: str | os.PathLike[str] | None = None,
        stream: int | None = None,
        register: str | None = None,
        processes: int | None = None,
        backends: Seq[DecodeBackend] | None = None,
        allocate: Callable[[tuple[int, ...], np.dtype[Any]], Array] = host_array,
    ) -> None:
        self.threads = threads or available_cores()
        # Created before the threads that wait for it: exit handlers run in reverse order of registration.
        self._ahead = ReadAhead()
        self._executor = Workers(self.threads, "seqpipe")
        self._closing = contextlib.ExitStack()
        if backends is None:
            own = DecoderPool(idle=4 * self.threads)
            helpers = None
            if count := default_processes(self.threads) if processes is None else processes:
                from .children import children  # imported late: it loads multiprocessing

                helpers = children(self.threads, count)
            backends = DecodeBackend("cpu", own, HostPainter, close=own.clear).with_helpers(helpers)
        for backend in backends:
            self._closing.callback(backend.close)
        self._backends = [(backend, self._executor_of(backend)) for backend in backends]
        self.allocate = allocate
        self._queue = JobQueue()
        self._library = Library(IndexOptions(cache_dir, stream, register))
        self._lock = threading.Lock()
        self._local = threading.local()
        self._frames: Counter[str] = Counter()
        self._fallbacks: Counter[str] = Counter()

    def close(self) -> None:
        """Cancel queued work, wait for running work, and release decoders and files."""
        self._queue.clear()
        for _, executor in self._backends:
            executor.close()
        self._executor.close()
        self._queue.clear()
        self._ahead.close()
        self._closing.close()
        self._library.clear()

    def map(
        self, function: Callable[[ItemT], ResultT], items: Iterable[ItemT], *, ahead: int | None = None
    ) -> Iterator[ResultT]:
        """Apply a function in parallel and yield the results in order."""
        limit = ahead or 2 * self.threads
        waiting: deque[Future[ResultT]] = deque()
        try:
            for item in items:
                if len(waiting) >= limit:
                    yield waiting.popleft().result()
                waiting.append(self._executor.submit(partial(OPENCV.single_threaded, function, item)))
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def read(self, requests: Seq[Request]) -> list[Sequence | SeqpipeError]:
        """Read sequences in parallel; requests whose GOPs overlap share one decode.

        Returns:
            One entry per request, in order: the sequence, or the error that replaced it. An error of one request
            leaves the others complete.
        """
        return self.submit(requests).result()

    def submit(self, requests: Seq[Request]) -> PendingRead:
        """Start to read sequences; the most expensive job runs first, so that the threads finish together."""
        return PendingRead(range(len(requests)), self._executor.submit(partial(self._begin, requests)))

    def stats(self) -> dict[str, dict[str, int]]:
        """Return the frames decoded so far by each backend, and how often each reason caused a fallback to the CPU."""
        with self._lock:
            reasons = {reason: count for reason, count in self._fallbacks.items() if reason}
            return {"frames": dict(self._frames), "fallbacks": reasons}

    def _executor_of(self, backend: DecodeBackend) -> Workers:
        if not backend.threads:
            return self._executor
        return Workers(backend.threads, f"seqpipe-{backend.name}")

    def _begin(self, requests: Seq[Request]) -> list[Future[Outcomes]]:
        """Open the videos, plan the requests as jobs, and queue these."""
        by_video: dict[int, list[tuple[int, Request]]] = defaultdict(list)
        failed: Outcomes = {}
        videos: dict[int, PlannedVideo] = {}
        for number, request in enumerate(requests):
            try:
                video = self._library.video(request.origin, alpha=request.output.color == "RGBA")
                video.index.check(request.frames[request.frames >= 0])
            except SeqpipeError as error:
                failed[number] = error
                continue
            videos[id(video)] = video
            by_video[id(video)].append((number, request))
        jobs = [job for key, group in by_video.items() for job in cut_jobs(videos[key], group)]
        for job in jobs:
            self._ahead.begin(job)
        self._queue.put(jobs)
        for backend, executor in self._backends:
            for _ in filter(backend.fits, jobs):
                executor.submit(partial(self._work, backend))
        done: Future[Outcomes] = InterruptibleFuture()
        done.set_result(failed)
        return [done, *(job.future for job in jobs)]

    def _work(self, backend: DecodeBackend) -> None:
        """Take a job and those that overlap it from the queue, decode them, and set their futures."""
        try:
            jobs = self._queue.take(backend.pick)
        except BaseException as error:
            self._queue.fail(error)
            raise
        if not jobs:
            return
        began = time.perf_counter()
        try:
            outcomes = OPENCV.single_threaded(self._decode, jobs, backend)
            backend.done(jobs, time.perf_counter() - began)
        except SeqpipeError as error:
            outcomes = [{number: error for number, _ in job.requests} for job in jobs]
        except BaseException as error:
            for job in jobs:
                job.future.set_exception(error)
            raise
        for job, outcome in zip(jobs, outcomes, strict=True):
            self._ahead.end(job)
            job.future.set_result(outcome)

    def _decode(self, jobs: Seq[Job], backend: DecodeBackend) -> list[Outcomes]:
        """Decode jobs of one video together; returns the outcomes of each."""
        video, painter = jobs[0].video, self._painter(backend)
        outcomes: list[Outcomes] = [{} for _ in jobs]
        arrays: list[dict[int, Array]] = [{} for _ in jobs]
        targets: Targets = defaultdict(list)
        for job, outcome, memory in zip(jobs, outcomes, arrays, strict=True):
            for number, request in job.requests:
                try:
                    memory[number] = self._prepare(video, request, painter, targets)
                except SeqpipeError as error:
                    outcome[number] = error
        reader = partial(self._ahead.reader, jobs)
        count = partial(self._count, video)
        try:
            lost = fill(video, targets, backend, painter, count, reader=reader, threads=backend.frame_threads)
        except IndexMismatchError:
            video = self._library.reindexed(video)
            return self._decode([replace(job, video=video) for job in jobs], backend)
        if self._library.should_save(video):
            self._save(video)
        for job, outcome, memory in zip(jobs, outcomes, arrays, strict=True):
            for number, request in job.requests:
                if number in memory:
                    outcome[number] = assemble(video.index, request, memory[number], lost)
        return outcomes

    def _save(self, video: PlannedVideo) -> None:
        """Write a video's updated index to the cache, on a CPU thread: a GPU's thread must not wait for the disk."""
        with contextlib.suppress(BackendError):  # the engine is closing, which saves the index too
            self._executor.submit(partial(self._library.save, video))

    def _prepare(self, video: PlannedVideo, request: Request, painter: Painter, targets: Targets) -> Array:
        """Allocate the pixels of a request, fill its padding, and register its frames among the targets."""
        info = video.index.info
        converter = painter.converter(info, request.output)
        shape = (len(request.frames), *converter.shape)
        if request.out is None:
            pixels = painter.allocate(shape, converter.dtype)
        else:
            pixels = request.out
            check_memory(pixels, shape, converter.dtype, info.source)
            painter.admit(pixels)
        for position, (frame, target) in enumerate(
            zip(request.frames.tolist(), painter.frame_targets(pixels), strict=True)
        ):
            if frame >= 0:
                targets[frame].append((converter, target))
            else:
                for where, value in request.fill_values(position):
                    painter.fill(pixels, where, value)
        return pixels

    def _count(self, video: PlannedVideo, name: str, frames: int, reason: str) -> None:
        """Count decoded frames, and log the first fallback for each reason."""
        with self._lock:
            self._frames[name] += frames
            self._fallbacks[reason] += 1
            first = self._fallbacks[reason] == 1
        if reason and first:
            _log.info("%s: decoded on the CPU, because %s", video.source.name, reason)

    def _painter(self, backend: DecodeBackend) -> Painter:
        """Return this thread's painter: it holds buffers, so threads cannot share one."""
        painters: dict[int, Painter] = self._local.__dict__.setdefault("painters", {})
        if id(backend) not in painters:
            painters[id(backend)] = backend.painter()
        return painters[id(backend)]


def available_cores() -> int:
    """Return the number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def engine_for(
    device: Device,
    *,
    decode: DecodeChoice,
    threads: int | None,
    cache_dir: str | os.PathLike[str] | None,
    stream: int | None = None,
    register: str | None = None,
) -> Engine:
    """Create an engine that delivers sequences on a device."""
    if device.kind == "cpu":
        return Engine(threads, cache_dir=cache_dir, stream=stream, register=register)
    from .gpu_backends import gpu_decode_backends

    backends, allocate = gpu_decode_backends(device.number, decode, threads or available_cores())
    return Engine(
        threads,
        cache_dir=cache_dir,
        stream=stream,
        register=register,
        backends=backends,
        allocate=allocate,
    )


def reader_context(device: Device, *, decode: DecodeChoice) -> ReaderContext:
    """Create the decoders and painter of a single reader, which decodes in the calling thread."""
    if device.kind == "cpu":
        decoders = DecoderPool()
        backend = DecodeBackend("cpu", decoders, HostPainter, close=decoders.clear)
        return ReaderContext(backend, contextlib.nullcontext, 1)
    from .gpu_backends import gpu_reader_context

    return gpu_reader_context(device.number, decode)
