"""Decode backends: decoders, painter and scheduling rules for one device; and decoding of a video's frames by them."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Seq
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from ...array import IntArray
from ...core.cached import cached_property
from ...core.param import Param
from ...errors import BackendError, DeviceMemoryError, SourceError
from ..convert.converter import Painter, Targets
from ..convert.surface import AnySurface
from ..decode.packets import Decoders, PacketReader, open_packets
from ..decode.run import Decoding, Lost
from ..plan import Job, PlannedVideo

__all__ = [
    "PROCESSES",
    "Count",
    "DecodeBackend",
    "DecodedFrames",
    "FusedDecode",
    "Helpers",
    "ReaderContext",
    "fill",
    "processes",
]

PROCESSES: Final = Param(
    name="SEQPIPE_PROCESSES",
    doc="Worker processes that decode small frames on the CPU for each reader of many files; 0 for none; "
    "by default one per thread (at most 16) from 8 threads on, none below",
    kind=int,
    lo=0,
)
# Processes pay where threads wait for the GIL: on 16 cores, 16 of them halve the time for 340×256; on 2 they only cost.
_FROM_THREADS: Final = 8
_MOST_BY_DEFAULT: Final = 16


def processes(threads: int) -> int:
    """Return the number of worker processes of an engine: ``SEQPIPE_PROCESSES``, else a default by its threads."""
    text = os.environ.get(PROCESSES.name)
    if text is None:
        # None in a process of multiprocessing: its siblings, such as a DataLoader's workers, use the other cores.
        # None without a GIL (free-threaded Python), which threads would have to wait for.
        has_gil: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
        if threads < _FROM_THREADS or not has_gil or not hasattr(os, "memfd_create"):
            return 0
        from multiprocessing import parent_process

        return min(threads, _MOST_BY_DEFAULT) if parent_process() is None else 0
    count = int(PROCESSES.check(int(text) if text.strip().isdecimal() else text))
    if count and not hasattr(os, "memfd_create"):
        raise BackendError(
            f"{PROCESSES.name}={count}, but this system has no memfd_create",
            advice=f"Unset {PROCESSES.name}: threads decode instead, with the same result",
        )
    return count


class DecodedFrames(Protocol):
    """Iterable of decoded frames like :class:`~seqpipe.video.decode.run.Decoding`; the caller closes it."""

    def __iter__(self) -> Iterator[AnySurface | Lost]:
        """Yield each frame, or why it is lost."""

    def close(self) -> None:
        """Stop decoding and release the helper."""


class Helpers(Protocol):
    """Pool of worker processes that decode in place of a backend's own decoders."""

    @property
    def count(self) -> int:
        """Maximum number of processes."""

    def fit(self, video: PlannedVideo) -> bool:
        """Return whether the processes can decode a video."""

    def decode(self, video: PlannedVideo, frames: IntArray) -> DecodedFrames | None:
        """Start to decode frames, waiting for a free process; None while the processes are starting."""

    def close(self) -> None:
        """End the processes."""


class FusedDecode(Protocol):
    """Fused decode loop: decodes and paints all frames of a job in one call, as long as nothing is damaged."""

    def __call__(
        self, video: PlannedVideo, targets: Targets, painter: Painter, reader: Callable[[], PacketReader]
    ) -> bool:
        """Decode and paint the targets; False where it failed, and all of them have to be decoded step by step."""


def _first(jobs: Iterable[Job], _waiting: Seq[Job]) -> Job | None:
    return next(iter(jobs), None)


def _fits_every(_job: Job) -> bool:
    return True


def _ignore_duration(_jobs: Seq[Job], _seconds: float) -> None:
    """Default of ``done``: the duration is not measured."""


def _close_nothing() -> None:
    """Default of ``close``: the backend owns nothing."""


@dataclass(frozen=True, eq=False)
class DecodeBackend:
    """Decoders, painter and scheduling rules of one kind of worker thread.

    Attributes:
        name: name of the decoder in the statistics.
        decoders: pool of its decoders.
        painter: creates a painter for a thread.
        helpers: worker processes that decode instead of ``decoders`` where they can, or None.
        threads: number of its own threads; 0 to run on the engine's CPU threads.
        frame_threads: frame threads of each CPU decoder.
        fits: returns whether the backend can take a job; called for every queued job.
        choose: picks one of the jobs that fit, given also all queued jobs; None to leave them to another backend.
        fused: fused decode loop, tried first, or None.
        fallback: decoders for the frames that ``decoders`` failed to decode, or None.
        done: called with the jobs that were decoded together and the seconds that this took.
        close: releases what the backend holds, once its threads have ended.
    """

    name: str
    decoders: Decoders
    painter: Callable[[], Painter]
    helpers: Helpers | None = None
    threads: int = 0
    frame_threads: int = 1
    fits: Callable[[Job], bool] = _fits_every
    choose: Callable[[Iterable[Job], Seq[Job]], Job | None] = _first
    fused: FusedDecode | None = None
    fallback: Decoders | None = None
    done: Callable[[Seq[Job], float], None] = _ignore_duration
    close: Callable[[], None] = _close_nothing

    def pick(self, jobs: Seq[Job]) -> Job | None:
        """Return the queued job that a worker takes next, or None."""
        return self.choose(filter(self.fits, jobs), jobs)

    def only(self, fits: Callable[[Job], bool]) -> DecodeBackend:
        """Return a copy restricted to the jobs that also meet the given condition."""
        mine = self.fits
        return replace(self, fits=lambda job: mine(job) and fits(job))

    def with_helpers(self, helpers: Helpers | None, spare: int | None = None) -> list[DecodeBackend]:
        """Split the backend in two: one for the jobs of the worker processes, one for all others.

        Args:
            helpers: the worker processes; None to split nothing.
            spare: threads of the first beyond one for each process, which paint, or hold a job until a process is
                free; by default as many as there are processes.
        """
        if helpers is None:
            return [self]
        return [
            self.only(lambda job: not helpers.fit(job.video)),
            replace(
                self.only(lambda job: helpers.fit(job.video)),
                helpers=helpers,
                threads=helpers.count + (helpers.count if spare is None else spare),
                frame_threads=1,
                close=helpers.close,
            ),
        ]


@dataclass(frozen=True)
class ReaderContext:
    """Decode backend without threads, with the context of its device.

    Attributes:
        backend: decoders and painter.
        active: context manager that makes the device the thread's current one.
        stream_batch: number of frames that a stream paints before it yields the first of them.
    """

    backend: DecodeBackend
    active: Callable[[], AbstractContextManager[Any]]
    stream_batch: int

    @cached_property
    def painter(self) -> Painter:
        """Painter of random access."""
        return self.backend.painter()

    def new_painter(self) -> Painter:
        """Create a painter for a stream, which may stay open while other frames are requested."""
        with self.active():
            return self.backend.painter()

    def close(self) -> None:
        """Release the decoders."""
        self.backend.close()


Count: TypeAlias = Callable[[str, int, str], None]
"""Called with a backend's name, its number of decoded frames, and why the backend before it failed, or ""."""


def fill(
    video: PlannedVideo,
    targets: Targets,
    backend: DecodeBackend,
    painter: Painter,
    count: Count,
    *,
    reader: Callable[[], PacketReader] | None = None,
    threads: int = 1,
) -> dict[int, str]:
    """Decode and paint all targets; frames that the backend cannot decode are left to its fallback."""
    reader = reader or partial(open_packets, video.source, video.index)
    decode = partial(_decode_and_paint, video, targets, painter, reader, threads)
    try:
        try:
            if backend.fused is None:
                return _decode_with_fallback(video, targets, backend, count, decode)
            fused = partial(backend.fused, video, targets, painter, reader)
            return _decode_with_fallback(video, targets, backend, count, decode, fused)
        finally:
            # Also after an error: the painter would write pending frames later, into arrays that are freed by then.
            painter.finish()
    except SourceError as error:
        # The painter's converter may have been created for another stream of the same kind, which the error names.
        error.source = video.index.info.source
        raise


def _decode_with_fallback(
    video: PlannedVideo,
    targets: Targets,
    backend: DecodeBackend,
    count: Count,
    decode: Callable[..., dict[int, str]],
    fused: Callable[[], bool] = lambda: False,
) -> dict[int, str]:
    """Decode by the fused loop, else by the backend's decoders, else by its fallback."""
    wanted = len(targets)
    lost: dict[int, str] = {}
    try:
        if fused():
            targets.clear()
        else:
            lost = decode(backend.decoders, backend.helpers)
        reason = next(iter(lost.values()), "")
    except BackendError as error:
        if backend.fallback is None:
            if not isinstance(error, DeviceMemoryError):  # a full GPU has nothing to do with the video
                error.source = video.index.info.source
            raise
        reason = error.fact
    count(backend.name, wanted - len(targets), "")
    if targets and backend.fallback is not None:
        wanted = len(targets)
        lost = decode(backend.fallback)
        count("cpu", wanted - len(targets), reason)
    return lost


def _decode_and_paint(
    video: PlannedVideo,
    targets: Targets,
    painter: Painter,
    reader: Callable[[], PacketReader],
    threads: int,
    decoders: Decoders,
    helpers: Helpers | None = None,
) -> dict[int, str]:
    """Decode and paint targets, which are removed; returns the reason for each frame that is lost."""
    lost: dict[int, str] = {}
    frames = np.fromiter(targets, dtype=np.int64, count=len(targets))
    by_helper = None if helpers is None else helpers.decode(video, frames)
    with contextlib.ExitStack() as stack:
        items: Iterable[AnySurface | Lost]
        if by_helper is None:
            packets = stack.enter_context(contextlib.closing(reader()))
            items = Decoding(video.index, packets, decoders, frames, threads=threads)
        else:
            items = stack.enter_context(contextlib.closing(by_helper))
        left = len(frames)
        for item in items:
            left -= 1
            if isinstance(item, Lost):
                lost[item.number] = item.reason
            else:
                painter.put(item, targets.pop(item.number))
            # A frame buffer that is still referenced is not reused. Where damage leaves part of a frame undecoded, the
            # old content of its buffer shows, which must not depend on the set of requested frames.
            del item
            if not left:
                painter.finish()  # the decoder is returned to its pool with the last frame, and may be reused
        assert not left, "some frames were neither delivered nor lost"
    return lost
