"""What all exports share: their state, threads, report, the outcome of a source, and frames as sequences."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import click
import numpy as np

from ..array import Array, IntArray
from ..errors import DamagedSourceError, OutputError, SeqpipeError
from ..sequence import Sequence
from ..video.device import Device
from ..video.reader import VideoReader
from ..writers.encoders import thumbnail
from .manifest import Manifest, ManifestRow
from .messages import Bar, option_names, say, worded
from .request import ExportRequest
from .sheet import THUMBNAIL_WIDTH, Thumbnail
from .source_plan import SourcePlan

__all__ = [
    "ExportReport",
    "ExportWork",
    "SourceOutcome",
    "clock_of",
    "record_losses",
    "stacked",
]


class ExportReport:
    """Messages on stderr, JSON lines on stdout on request, and the totals of an export.

    Args:
        out: the output folder.
        sources: number of inputs.
        as_json: whether rows and the summary go to stdout.
        what: what the rows are.

    Attributes:
        sources: number of inputs.
        kept: number of outputs of an earlier run that stay.
    """

    def __init__(self, out: str, sources: int, *, as_json: bool, what: str = "file") -> None:
        self._out, self._as_json, self._what = out, as_json, what
        self.sources, self.kept = sources, 0
        # computed here, because errors come from threads without a Click context
        self._options = option_names()
        self._began = time.monotonic()
        self._counts: Counter[str] = Counter()

    @property
    def exit_code(self) -> int:
        """0 if every output was written; else 1."""
        return int(bool(self._counts["failed"] or self._counts["lost"]))

    def row(self, row: ManifestRow) -> None:
        """Count a row of the manifest; the manifest calls this from one thread at a time."""
        self._counts[row.status] += 1
        self.json("output", asdict(row))

    def error(self, error: SeqpipeError | str) -> None:
        """Report a failed source or a loss."""
        say(f"Error: {worded(error, self._options)}")

    def json(self, kind: str, values: dict[str, Any]) -> None:
        """Print a JSON line, if JSON is on."""
        if self._as_json:
            click.echo(json.dumps({"type": kind, **values}))

    @contextmanager
    def totals(self) -> Iterator[None]:
        """Report the totals after the block, also if an interrupt or an output that cannot be written ends it."""
        try:
            yield
        except KeyboardInterrupt:
            self._summarize()
            raise
        except OutputError:
            if self._counts["done"]:
                self._summarize()
            raise
        self._summarize()

    def _summarize(self) -> None:
        """Report the totals."""
        seconds = time.monotonic() - self._began
        done, lost, failed = (self._counts[status] for status in ("done", "lost", "failed"))
        counts = {"sources": self.sources, "done": done, "kept": self.kept, "lost": lost, "failed": failed}
        self.json("summary", {**counts, "seconds": round(seconds, 3), "out": self._out})
        parts = [
            f"{done:,} {self._what}{'s' * (done != 1)} written to {self._out} "
            f"in {seconds:.1f} s ({done / max(seconds, 1e-9):.0f}/s)"
        ]
        parts += [f"{self.kept:,} kept"] * bool(self.kept) + [f"{lost:,} lost"] * bool(lost)
        parts += [f"{failed:,} of {self.sources:,} sources failed or are cut"] * bool(failed)
        say(", ".join(parts) + ".")


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
    stop: threading.Event = field(default_factory=threading.Event)

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
    """Result of one source: thumbnails for the contact sheet, and the error."""

    thumbnails: list[Thumbnail] = field(default_factory=list)
    error: SeqpipeError | None = None

    def show(self, frame: Sequence, start_s: float) -> None:
        """Add a frame's thumbnail."""
        number, time_s = clock_of(frame)
        jpeg = thumbnail(frame.numpy(), THUMBNAIL_WIDTH)
        self.thumbnails.append(Thumbnail(number, time_s - start_s, jpeg))


def record_losses(plan: SourcePlan, files: IntArray, work: ExportWork, outcome: SourceOutcome) -> None:
    """Add manifest rows for the files that a source failed to deliver."""
    if len(files) and outcome.error is None:
        outcome.error = DamagedSourceError(f"{len(files)} outputs got no frame", source=plan.source)
    reason = outcome.error.fact if outcome.error else None
    for file in files.tolist():
        work.manifest.add(plan.row(file, status="lost", error=reason))
        work.bar.advance(len(plan.numbers(file)))


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
    from ..ops import Stack

    return Stack()(pixels)


def clock_of(frame: Sequence) -> tuple[int, float]:
    """The number and the time of a single frame."""
    assert frame.frames is not None
    assert frame.timestamps is not None
    return int(frame.frames[0]), float(frame.timestamps[0])
