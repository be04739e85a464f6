"""Shared parts of exports: their state, outcome, frames as sequences, and rows of losses."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np

from ...array import Array, IntArray
from ...errors import DamagedSourceError, SeqpipeError
from ...sequence import Sequence
from ...video.device import Device
from ...video.reader import VideoReader
from ..output.manifest import Manifest
from ..output.sheet import Thumbnail
from ..plan.request import ExportRequest
from ..plan.source_plan import SourcePlan
from ..terminal.progress import Bar

__all__ = ["ExportWork", "SourceOutcome", "clock_of", "record_losses", "stacked"]


@dataclass(frozen=True)
class ExportWork:
    """What the exports of all sources share.

    Attributes:
        request: what is wanted.
        threads: for one source: decoding, and encoding beside it.
        manifest: takes the rows.
        bar: counts the frames that are done.
        stop: set when the work must end early.
    """

    request: ExportRequest
    threads: int
    manifest: Manifest
    bar: Bar
    stop: threading.Event

    def open(self, source: str, device: Device) -> VideoReader:
        """Open a source with the options of the export.

        Args:
            source: its path or URL.
            device: where frames are decoded.
        """
        options = self.request.options
        return VideoReader(
            source,
            device=str(device),
            decode=options.decode,
            stream=options.stream,
            threads=self.threads,
            output=self.request.output,
            cache_dir=options.cache_dir,
        )


@dataclass
class SourceOutcome:
    """What became of one source: pictures for the contact sheet, how many files are lost, and why."""

    thumbnails: list[Thumbnail] = field(default_factory=list)
    lost: int = 0
    error: SeqpipeError | None = None


def record_losses(plan: SourcePlan, files: IntArray, work: ExportWork, outcome: SourceOutcome) -> None:
    """Put rows of the files that a source did not give into the manifest.

    Args:
        plan: of the source.
        files: their numbers.
        work: what all sources share.
        outcome: of the source, whose error is the reason.
    """
    outcome.lost = len(files)
    if len(files) and outcome.error is None:
        outcome.error = DamagedSourceError(f"{len(files)} outputs got no frame", source=plan.source)
    reason = outcome.error.fact if outcome.error else None
    for file in files.tolist():
        work.manifest.add(plan.row(file, status="lost", error=reason))
        work.bar.advance(plan.frames.shape[1])


def stacked(members: list[Sequence]) -> Sequence:
    """Single frames as one sequence, where they are."""
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
    """Frames as one array, on their GPU."""
    from ...ops import Stack

    return Stack()(pixels)


def clock_of(frame: Sequence) -> tuple[int, float]:
    """The number and the time of a single frame."""
    assert frame.frames is not None
    assert frame.timestamps is not None
    return int(frame.frames[0]), float(frame.timestamps[0])
