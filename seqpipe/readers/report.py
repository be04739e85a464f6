"""Report: the samples that a dataset left out, and why."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from ..errors import DamagedSourceError, SeqpipeError, printable
from ..video.source.extensions import PassedOver

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
]

_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What could not be given of one source.

    Attributes:
        source: the path or URL.
        fate: what became of it: the whole video or volume was left out because it cannot be used, is too short, or
            shows too little motion; or some of its samples were raised as errors, left out, substituted by others, or,
            for patches, cut anywhere because what they are to be cut around is not there.
        reason: what is wrong, as the error says it; of the first sample, if there were several.
        frames: the frames that cannot be decoded, as far as samples asked for them, ascending.
        times: how many samples were concerned; 1 for a whole video.
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
    """What a dataset gives and what it lost so far.

    Attributes:
        listed: files, or ranges of files, that the dataset was given.
        used: how many of them give samples.
        samples: samples of an epoch, of all ranks together.
        losses: one for each source and fate, in the order in which they happened first.
        passed_over: how many files of ``file_root`` are not taken for videos, by the endings of their names.
        unit: what was listed: ``"videos"`` or ``"volumes"``.
    """

    listed: int
    used: int
    samples: int
    losses: tuple[Loss, ...] = ()
    passed_over: dict[str, int] = field(default_factory=dict)
    unit: str = "videos"

    @property
    def counts(self) -> dict[Fate, int]:
        """How many videos or samples met each fate."""
        counts: Counter[Fate] = Counter()
        for loss in self.losses:
            counts[loss.fate] += loss.times
        return dict(counts)

    def __repr__(self) -> str:
        head = f"Report({self.used} of {self.listed} {self.unit}, {self.samples} samples"
        for fate, count in self.counts.items():
            head += f"; {count} × {fate}"
        head += f"; passed over: {PassedOver(self.passed_over)}" if self.passed_over else ""
        lines = [f"  {loss}" for loss in self.losses[:_SHOWN]]
        if len(self.losses) > _SHOWN:
            lines.append(f"  … and {len(self.losses) - _SHOWN} more in .losses")
        return "\n".join([head + ")", *lines])


@dataclass
class ReportBook:
    """Collects losses; several threads may write. One entry a source and fate, so that it stays small.

    Attributes:
        unit: what is listed: ``"videos"`` or ``"volumes"``.
        report: everything so far.
    """

    unit: str = "videos"
    report: Report = field(default_factory=lambda: Report(listed=0, used=0, samples=0))
    _losses: dict[tuple[str, Fate], Loss] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, source: str, fate: Fate, error: SeqpipeError | str) -> None:
        """Write down a loss."""
        frames = error.lost if isinstance(error, DamagedSourceError) else ()
        reason = error if isinstance(error, str) else error.fact
        new = Loss(source=source, fate=fate, reason=reason, frames=frames)
        with self._lock:
            if old := self._losses.get((source, fate)):
                frames = tuple(sorted({*old.frames, *new.frames}))
                new = replace(old, frames=frames, times=old.times + 1)
            self._losses[source, fate] = new

    def finished(self, *, listed: int, used: int, samples: int) -> None:
        """Write down what the dataset consists of."""
        self.report = replace(self.report, listed=listed, used=used, samples=samples, unit=self.unit)

    def passed_over(self, endings: dict[str, int]) -> None:
        """Write down how many files were not taken for videos."""
        self.report = replace(self.report, passed_over=endings)

    def so_far(self) -> Report:
        """The report as it stands."""
        with self._lock:
            return replace(self.report, losses=tuple(self._losses.values()))

    def __getstate__(self) -> dict[str, Any]:
        return {"unit": self.unit, "report": self.report, "_losses": dict(self._losses)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())
