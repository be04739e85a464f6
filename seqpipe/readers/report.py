"""Report of the sources and samples that a dataset lost, with the reasons."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from ..errors import DamagedSourceError, SeqpipeError, printable
from ..video.source.names import SkippedFiles

__all__ = ["Fate", "Loss", "Report", "ReportBook"]

Fate: TypeAlias = Literal[
    "video left out",
    "volume left out",
    "too short",
    "too still",
    "sample raised",
    "sample left out",
    "sample substituted",
    "cut anywhere",
    "labels rounded",
    "instants without a frame",
]

_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A source that a dataset lost, or samples of it.

    Attributes:
        source: the path or URL.
        fate: the whole video or volume was left out because it is unreadable, too short or too still; or samples of it
            were raised as errors, left out, or substituted by others; or a patch was cut anywhere because the volume
            has no voxel of the class that it should be cut around; or labels that are stored as floats close to whole
            numbers were rounded; or a camera or signal has nothing at instants of its recording.
        reason: the error's text, of the first sample.
        frames: requested frames that cannot be decoded, ascending.
        times: number of samples; 1 for a whole video.
    """

    source: str
    fate: Fate
    reason: str
    frames: tuple[int, ...] = ()
    times: int = 1

    def __str__(self) -> str:
        count = f" ×{self.times}" if self.times > 1 else ""
        total = f"; {len(self.frames)} frames in all" if self.times > 1 and self.frames else ""
        return f"{printable(self.source)}: {self.fate}{count}: {self.reason}{total}"


@dataclass(frozen=True, kw_only=True, repr=False)
class Report:
    """Number of sources and samples of a dataset, and its losses so far.

    Attributes:
        listed: number of files, or ranges of files, in the dataset's arguments.
        used: number of these that have samples.
        samples: samples of an epoch over all ranks.
        losses: one entry for each source and fate, in order of first occurrence.
        skipped: number of files in ``file_root`` that are not videos, by file extension.
        unit: ``"videos"`` or ``"volumes"``.
    """

    listed: int
    used: int
    samples: int
    losses: tuple[Loss, ...] = ()
    skipped: dict[str, int] = field(default_factory=dict)
    unit: str = "videos"

    @property
    def counts(self) -> dict[Fate, int]:
        """Number of videos or samples for each fate."""
        counts: Counter[Fate] = Counter()
        for loss in self.losses:
            counts[loss.fate] += loss.times
        return dict(counts)

    def __repr__(self) -> str:
        head = f"Report({self.used} of {self.listed} {self.unit}, {self.samples} samples"
        for fate, count in self.counts.items():
            head += f"; {count} × {fate}"
        head += f"; passed over: {SkippedFiles(self.skipped)}" if self.skipped else ""
        lines = [f"  {loss}" for loss in self.losses[:_SHOWN]]
        if len(self.losses) > _SHOWN:
            lines.append(f"  … and {len(self.losses) - _SHOWN} more in .losses")
        return "\n".join([head + ")", *lines])


@dataclass
class ReportBook:
    """Thread-safe collection of losses, with one entry for each source and fate.

    Attributes:
        unit: ``"videos"`` or ``"volumes"``.
        report: the report without losses.
    """

    unit: str = "videos"
    report: Report = field(default_factory=lambda: Report(listed=0, used=0, samples=0))
    _losses: dict[tuple[str, Fate], Loss] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, source: str, fate: Fate, error: SeqpipeError | str) -> None:
        """Record a loss."""
        frames = error.lost if isinstance(error, DamagedSourceError) else ()
        reason = error if isinstance(error, str) else error.fact
        new = Loss(source=source, fate=fate, reason=reason, frames=frames)
        with self._lock:
            if old := self._losses.get((source, fate)):
                frames = tuple(sorted({*old.frames, *new.frames}))
                new = replace(old, frames=frames, times=old.times + 1)
            self._losses[source, fate] = new

    def finished(self, *, listed: int, used: int, samples: int) -> None:
        """Record the number of sources and samples."""
        self.report = replace(self.report, listed=listed, used=used, samples=samples, unit=self.unit)

    def skipped(self, endings: dict[str, int]) -> None:
        """Record the number of files that are not videos, by file extension."""
        self.report = replace(self.report, skipped=endings)

    def so_far(self) -> Report:
        """Return the report with all losses so far."""
        with self._lock:
            return replace(self.report, losses=tuple(self._losses.values()))

    def __getstate__(self) -> dict[str, Any]:
        return {"unit": self.unit, "report": self.report, "_losses": dict(self._losses)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())
