"""Shared parts of exports: their state, outcome, frames as sequences, and rows of losses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from ...array import Array, IntArray
from ...errors import DamagedSourceError, SeqpipeError
from ...sequence import Sequence
from ...video.device import Device
from ...video.engine.engine import Engine
from ...video.reader import VideoReader
from ..output.manifest import Manifest
from ..output.sheet import Thumbnail
from ..plan.request import ExportRequest
from ..plan.source_plan import SourcePlan
from ..terminal.progress import Bar

__all__ = ["ExportWork", "SourceOutcome", "clock_of", "in_parallel", "record_losses", "stacked"]

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class ExportWork:
    """State shared by the exports of all sources.

    Attributes:
        request: the checked options.
        threads: number of decoding threads for a source, and of encoding threads.
        manifest: the manifest that rows are added to.
        bar: the progress bar, which counts finished frames.
        stop: set when the work must end early.
    """

    request: ExportRequest
    threads: int
    manifest: Manifest
    bar: Bar
    stop: threading.Event

    def open(self, source: str, device: Device) -> VideoReader:
        """Open a source with the options of the export."""
        options = self.request.options
        return VideoReader(
            source,
            device=str(device),
            decode=options.decode,
            stream=options.stream,
            threads=self.threads,
            output=self.request.output,
            cache_dir=options.cache_dir,
            register=options.register,
        )


@dataclass
class SourceOutcome:
    """Result of one source: thumbnails for the contact sheet, number of lost files, and the error."""

    thumbnails: list[Thumbnail] = field(default_factory=list)
    lost: int = 0
    error: SeqpipeError | None = None


@contextmanager
def in_parallel(
    work: Callable[[ItemT], ResultT], items: Seq[ItemT], threads: int, stop: threading.Event
) -> Iterator[Iterator[ResultT]]:
    """Yield the results of all items in order, from several threads, which stop at the end of the block and on errors.

    Args:
        work: called with each item, on any thread; it returns early once ``stop`` is set.
        items: sources, or parts of the work.
        threads: number of threads.
        stop: set by the first exception, in a thread or in the block.
    """

    def guarded(item: ItemT) -> ResultT:
        try:
            return work(item)
        except BaseException:
            stop.set()
            raise

    with Engine(threads) as engine:
        try:
            yield engine.map(guarded, items)
        finally:
            stop.set()  # the engine joins its threads at the end of the block


def record_losses(plan: SourcePlan, files: IntArray, work: ExportWork, outcome: SourceOutcome) -> None:
    """Add manifest rows for the files that a source failed to deliver."""
    outcome.lost = len(files)
    if len(files) and outcome.error is None:
        outcome.error = DamagedSourceError(f"{len(files)} outputs got no frame", source=plan.source)
    reason = outcome.error.fact if outcome.error else None
    for file in files.tolist():
        work.manifest.add(plan.row(file, status="lost", error=reason))
        work.bar.advance(plan.frames.shape[1])


def stacked(members: list[Sequence]) -> Sequence:
    """Stack single frames into one sequence, on their device."""
    clocks = [clock_of(member) for member in members]
    pixels = [member.data for member in members]
    return Sequence(
        np.stack(pixels) if members[0].device == "cpu" else _stacked_there(pixels),
        "FHWC",
        members[0].source,
        frames=np.array([number for number, _ in clocks], dtype=np.int64),
        timestamps=np.array([time_s for _, time_s in clocks], dtype=np.float64),
    )


def _stacked_there(pixels: list[Array]) -> Array:
    """Stack frames into one array on their GPU."""
    from ...ops import Stack

    return Stack()(pixels)


def clock_of(frame: Sequence) -> tuple[int, float]:
    """The number and the time of a single frame."""
    assert frame.frames is not None
    assert frame.timestamps is not None
    return int(frame.frames[0]), float(frame.timestamps[0])
