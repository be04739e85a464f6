"""The threads: parallel reading of many sequences, and an ordered, bounded, parallel map for everything around it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Seq
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

import cv2
import numpy as np

from ..array import BoolArray, IntArray
from ..errors import DamagedSourceError, SeqpipeError, SourceError
from ..sequence import Sequence
from .convert import Converter, OutputSpec
from .decode import Decoding, Lost
from .index import PacketIndex
from .open import open_index
from .packets import open_packets
from .plan import make_plan
from .pool import DecoderPool
from .source import Origin, Source, open_source

__all__ = ["Engine", "Outcomes", "PendingRead", "Request", "available_cores", "lost_error"]

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

Outcomes: TypeAlias = "dict[int, Sequence | SeqpipeError]"
"""What became of requests, by their place among those that were given together."""

_OPEN_VIDEOS = 64


@dataclass(frozen=True, eq=False)
class Request:
    """A sequence to be read.

    Attributes:
        origin: the video: a path or URL.
        frames: frame numbers to put at each position, int64; -1 for a position that is filled with ``fill``.
        padding: positions that are padding; their frame numbers are given as -1 and their times as NaN.
        output: colour, dtype and geometry of the pixels.
        fill: the value of the pixels at positions without a frame.
        out: where to write the pixels, ``(F, H, W, C)`` or as the output's layout says; a new array by default.
    """

    origin: Origin
    frames: IntArray
    padding: BoolArray | None = None
    output: OutputSpec = field(default_factory=OutputSpec)
    fill: float = 0
    out: np.ndarray[Any, Any] | None = None


@dataclass(frozen=True, eq=False)
class _Video:
    """An open video, shared by the threads."""

    source: Source
    index: PacketIndex


@dataclass(frozen=True, eq=False)
class _Job:
    """Requests of one video whose decoding runs overlap, so that one run serves them all."""

    video: _Video
    requests: tuple[tuple[int, Request], ...]
    cost: int


class PendingRead:
    """Sequences being read; :meth:`result` waits for them."""

    def __init__(self, count: int, planning: Future[list[Future[Outcomes]]]) -> None:
        self._count, self._planning = count, planning

    def result(self) -> list[Sequence | SeqpipeError]:
        """One entry per request, in their order: the sequence, or why there is none."""
        found: Outcomes = {}
        for future in self._planning.result():
            found.update(future.result())
        return [found[i] for i in range(self._count)]

    def cancel(self) -> None:
        """Do not begin what has not begun."""
        if not self._planning.cancel() and self._planning.done() and self._planning.exception() is None:
            for future in self._planning.result():
                future.cancel()


class Engine:
    """A pool of threads that decode, one sequence each, and of the decoders and files they use.

    Args:
        threads: how many; by default one per core that this process may use.
        cache_dir: where indexes are kept, see :func:`seqpipe.video.open.open_index`.
    """

    def __init__(
        self, threads: int | None = None, *, cache_dir: str | os.PathLike[str] | None = None
    ) -> None:
        self.threads = threads or available_cores()
        self._cache_dir = cache_dir
        self._executor = ThreadPoolExecutor(self.threads, thread_name_prefix="seqpipe")
        self._closing = contextlib.ExitStack()
        self._closing.enter_context(_opencv_single_threaded())
        self._decoders = DecoderPool(idle=4 * self.threads)
        self._videos: OrderedDict[str, _Video] = OrderedDict()
        self._lock = threading.Lock()
        self._local = threading.local()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Begin nothing more, wait for what has begun, and give back decoders and files."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._closing.close()
        self._decoders.clear()
        with self._lock:
            self._videos.clear()

    def map(
        self, function: Callable[[ItemT], ResultT], items: Iterable[ItemT], *, ahead: int | None = None
    ) -> Iterator[ResultT]:
        """Apply a function in parallel and yield the results in order.

        Args:
            function: called with one item, on any of the threads.
            items: taken one by one, never further ahead than ``ahead``.
            ahead: how many results may be under way or waiting; by default twice the threads.

        Raises:
            Exception: what the function raised, at the place of that item's result.
        """
        limit = ahead or 2 * self.threads
        waiting: deque[Future[ResultT]] = deque()
        try:
            for item in items:
                if len(waiting) >= limit:
                    yield waiting.popleft().result()
                waiting.append(self._executor.submit(function, item))
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def read(self, requests: Seq[Request]) -> list[Sequence | SeqpipeError]:
        """Read sequences in parallel; requests whose GOPs overlap share one decode.

        Returns:
            One entry per request, in their order: the sequence, or the error that it ended in. The others are complete.
        """
        return self.submit(requests).result()

    def submit(self, requests: Seq[Request]) -> PendingRead:
        """Begin to read sequences; the costliest runs first, so that none is left over at the end."""
        return PendingRead(len(requests), self._executor.submit(self._begin, requests))

    def _begin(self, requests: Seq[Request]) -> list[Future[Outcomes]]:
        """Open the videos, and put the runs that the requests need in the threads' queue."""
        by_video: dict[str, list[tuple[int, Request]]] = defaultdict(list)
        failed: Outcomes = {}
        videos: dict[str, _Video] = {}
        for place, request in enumerate(requests):
            try:
                video = self._video(request.origin)
                video.index.check(request.frames[request.frames >= 0])
            except SeqpipeError as error:
                failed[place] = error
                continue
            key = video.source.name
            videos[key] = video
            by_video[key].append((place, request))
        jobs = [job for key, group in by_video.items() for job in _jobs(videos[key], group)]
        jobs.sort(key=lambda job: -job.cost)
        done: Future[Outcomes] = Future()
        done.set_result(failed)
        return [done, *(self._executor.submit(self._do, job) for job in jobs)]

    def _video(self, origin: Origin) -> _Video:
        key = os.fspath(origin) if isinstance(origin, (str, os.PathLike)) else f"{id(origin)}"
        with self._lock:
            if key in self._videos:
                self._videos.move_to_end(key)
                return self._videos[key]
        source = open_source(origin)
        video = _Video(source, open_index(source, cache_dir=self._cache_dir))
        with self._lock:
            self._videos[key] = video
            while len(self._videos) > _OPEN_VIDEOS:
                self._videos.popitem(last=False)
        return video

    def _do(self, job: _Job) -> Outcomes:
        try:
            return self._decode(job)
        except SeqpipeError as error:
            return {place: error for place, _ in job.requests}

    def _decode(self, job: _Job) -> Outcomes:
        index = job.video.index
        done: Outcomes = {}
        arrays: dict[int, np.ndarray[Any, Any]] = {}
        targets: dict[int, list[tuple[Converter, np.ndarray[Any, Any]]]] = defaultdict(list)
        for place, request in job.requests:
            try:
                converter = self._converter(index, request.output)
                arrays[place] = _allocate(request, converter, index.info.source)
            except SeqpipeError as error:
                done[place] = error
                continue
            for frame, target in zip(request.frames.tolist(), arrays[place], strict=True):
                if frame >= 0:
                    targets[frame].append((converter, target))
                else:
                    target[...] = request.fill
        lost = self._fill(job.video, targets)
        for place, request in job.requests:
            if place in arrays:
                done[place] = _result(index, request, arrays[place], lost)
        return done

    def _fill(
        self, video: _Video, targets: dict[int, list[tuple[Converter, np.ndarray[Any, Any]]]]
    ) -> dict[int, str]:
        lost: dict[int, str] = {}
        frames = np.fromiter(targets, dtype=np.int64, count=len(targets))
        with contextlib.closing(open_packets(video.source, video.index)) as reader:
            for item in Decoding(video.index, reader, self._decoders, frames):
                if isinstance(item, Lost):
                    lost[item.number] = item.reason
                    continue
                done: dict[int, np.ndarray[Any, Any]] = {}
                for converter, target in targets[item.number]:
                    if (earlier := done.get(id(converter))) is not None:
                        target[...] = earlier
                    else:
                        converter(item, target)
                        done[id(converter)] = target
        return lost

    def _converter(self, index: PacketIndex, output: OutputSpec) -> Converter:
        """This thread's converter: it holds buffers, so no two threads may share one."""
        known: OrderedDict[Any, Converter] = self._local.__dict__.setdefault("converters", OrderedDict())
        key = (index.info, output)
        if key not in known:
            known[key] = Converter(index.info, output)
            while len(known) > _OPEN_VIDEOS:
                known.popitem(last=False)
        known.move_to_end(key)
        return known[key]


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def lost_error(index: PacketIndex, lost: dict[int, str], advice: str = "") -> DamagedSourceError:
    """The error for frames that could not be delivered."""
    numbers = tuple(sorted(lost))
    some = ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "")
    frames = f"frame {some}" if len(numbers) == 1 else f"{len(numbers)} frames ({some})"
    return DamagedSourceError(
        f"{frames} cannot be decoded ({lost[numbers[0]]})",
        source=index.info.source,
        advice=advice or "Ask for other frames, or leave the video out with on_error='skip'",
        lost=numbers,
    )


@contextlib.contextmanager
def _opencv_single_threaded() -> Iterator[None]:
    """While any engine is open, OpenCV starts no threads inside ours; then the user's setting comes back."""
    with _opencv.lock:
        if _opencv.engines == 0:
            _opencv.threads = cv2.getNumThreads()
            cv2.setNumThreads(1)
        _opencv.engines += 1
    try:
        yield
    finally:
        with _opencv.lock:
            _opencv.engines -= 1
            if _opencv.engines == 0:
                cv2.setNumThreads(_opencv.threads)


@dataclass
class _OpenCv:
    """The process-wide setting of OpenCV, and how many engines are open."""

    engines: int = 0
    threads: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


_opencv = _OpenCv()


def _jobs(video: _Video, group: Seq[tuple[int, Request]]) -> Iterator[_Job]:
    """Cut a video's requests where no decoding run of one overlaps that of another."""
    spans = []
    for place, request in group:
        packets = video.index.packets.frame_packet[np.unique(request.frames[request.frames >= 0])]
        plan = make_plan(video.index.packets, packets)
        first = int(plan.segments[0].packets[0]) if plan.segments else 0
        last = int(plan.segments[-1].packets[-1]) if plan.segments else 0
        spans.append((first, last, plan.cost, place, request))
    spans.sort(key=lambda span: span[:2])
    island: list[tuple[int, Request]] = []
    end = cost = -1
    for first, last, packets_fed, place, request in spans:
        if island and first > end:
            yield _Job(video, tuple(island), cost)
            island, cost = [], 0
        island.append((place, request))
        end, cost = max(end, last), max(cost, 0) + packets_fed
    if island:
        yield _Job(video, tuple(island), cost)


def _allocate(request: Request, converter: Converter, source: str) -> np.ndarray[Any, Any]:
    shape = (len(request.frames), *converter.shape)
    if request.out is None:
        return np.empty(shape, dtype=converter.dtype)
    if request.out.shape != shape or request.out.dtype != converter.dtype:
        raise SourceError(
            f"its frames make {shape} {converter.dtype}, but {request.out.shape} {request.out.dtype} was expected",
            source=source,
            advice="The file may have been replaced by one of another size: make the dataset anew",
        )
    return request.out


def _result(
    index: PacketIndex, request: Request, pixels: np.ndarray[Any, Any], lost: dict[int, str]
) -> Sequence | SeqpipeError:
    missing = {frame: lost[frame] for frame in request.frames.tolist() if frame in lost}
    if missing:
        return lost_error(index, missing)
    padding = request.frames < 0 if request.padding is None else request.padding | (request.frames < 0)
    frames = np.where(padding, -1, request.frames)
    times = np.where(padding, np.nan, index.timestamps[np.maximum(request.frames, 0)])
    return Sequence(pixels, request.output.layout, index.info.source, frames, times)
