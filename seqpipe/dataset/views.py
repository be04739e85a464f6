"""Evaluation views: several windows of each sample, as a source over another one, and the scores of their videos."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ..array import FloatArray, IntArray, to_numpy
from ..core.param import Param, check_list
from ..errors import ParameterError
from ..ops import REGISTRY, Type
from ..readers.report import Report
from .source import PLAIN, Heads, ReadPlan, ReadResult, SampleOutcome, SampleSource

__all__ = ["VideoScores", "Views", "check_window"]

_SIDE: Final = Param(name="size", doc="Height and width of a window", lo=1, hi=65_536, unit="pixels")


@dataclass(frozen=True, eq=False)
class Views:
    """``count`` consecutive windows of each sample of a source, spread evenly along the longer side.

    Attributes:
        source: the source.
        window: (height, width) of a window.
        count: windows of each sample; a single one is centered.
    """

    source: SampleSource
    window: tuple[int, int]
    count: int

    @property
    def name(self) -> str:
        """That of the source."""
        return self.source.name

    @property
    def size(self) -> int:
        """Number of views."""
        return self.source.size * self.count

    @property
    def unit(self) -> int:
        """The views of a unit stay together."""
        return self.source.unit * self.count

    @property
    def mix(self) -> int:
        """That of the source."""
        return self.source.mix

    @property
    def seed(self) -> int:
        """That of the source."""
        return self.source.seed

    @property
    def shuffle(self) -> bool:
        """That of the source."""
        return self.source.shuffle

    @property
    def device(self) -> str:
        """That of the source."""
        return self.source.device

    def report(self) -> Report:
        """Return what was lost."""
        return self.source.report()

    def stats(self) -> dict[str, Any]:
        """Return those of the source."""
        return self.source.stats()

    @property
    def parts(self) -> Mapping[str, Type]:
        """Those of the source; images have another size."""
        known = dict(self.source.parts)
        return {
            name: Type(part_type.kind, part_type.layout, part_type.dtype, part_type.device)
            for name, part_type in known.items()
        }

    @property
    def facts(self) -> Mapping[str, object]:
        """Those of the source and of the windows."""
        return {**self.source.facts, "views": [*self.window, self.count]}

    def plan(self, epoch: int, indices: IntArray, heads: Heads = PLAIN) -> ReadPlan:
        """See :class:`seqpipe.dataset.source.SampleSource`; each sample is read once."""
        del heads
        samples = np.array(list(dict.fromkeys((indices // self.count).tolist())), np.int64)
        inner = self.source.plan(epoch, samples)
        return ReadPlan(epoch, indices, inner.nbytes, inner)

    def begin(self, plan: ReadPlan, *, stack: bool = True) -> Any:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        del stack
        return plan, self.source.begin(plan.work, stack=False)

    def finish(self, work: Any) -> ReadResult:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        plan, pending = work
        read = self.source.finish(pending)
        known = dict(zip(plan.work.indices.tolist(), read.outcomes, strict=True))
        return ReadResult(
            tuple(self._view(known[number // self.count], number) for number in plan.indices.tolist())
        )

    def _view(self, outcome: SampleOutcome, number: int) -> SampleOutcome:
        if not isinstance(outcome, tuple):
            return outcome
        index, parts = outcome
        sequence = parts["image"]
        rows, columns = (sequence.shape[sequence.layout.index(axis)] for axis in "HW")
        side = "crop_pos_x" if columns >= rows else "crop_pos_y"
        position = 0.5 if self.count == 1 else number % self.count / (self.count - 1)
        view = REGISTRY["crop"](crop=self.window, **{side: position})(sequence)
        return index * self.count + number % self.count, {
            **parts,
            "image": view.as_sample(sequence.label, number, sequence.fields),
        }

    def cancel(self, work: Any) -> None:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        self.source.cancel(work[1])

    def metadata(self, indices: IntArray) -> Mapping[str, Any]:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        return {**self.source.metadata(indices // self.count), "view": indices % self.count}

    def close(self) -> None:
        """Close the source."""
        self.source.close()

    def __repr__(self) -> str:
        return f"{self.source!r}.views({self.window}, count={self.count})"


def check_window(size: Any) -> tuple[int, int]:
    """Return (height, width) of a window."""
    sides = check_list("size", size, "(height, width)")
    if len(sides) != 2:
        raise ParameterError(f"size={size!r} is not valid", allowed="(height, width)")
    height, width = map(_SIDE.check, sides)
    return height, width


@dataclass(eq=False)
class VideoScores:
    """Scores averaged over all views of each video.

    clips = seqpipe.videos(…, Clip(16, per_video=10, starts="even"), output=OutputSpec(short_side=256))
    scores = VideoScores()
    for batch in clips.views((256, 256), count=3).batch(12):     # 3 consecutive views of each clip
        scores.add(model(batch["image"].torch()), batch["video"])
    mean = scores.mean()                                         # for each video, the mean over 10 × 3 views
    """

    _sums: dict[Hashable, FloatArray] = field(default_factory=dict, init=False)
    _counts: dict[Hashable, int] = field(default_factory=dict, init=False)

    def add(self, scores: Any, videos: Any) -> None:
        """Add the scores of some views.

        Args:
            scores: ``(N, classes)``, a NumPy, CuPy or torch array.
            videos: the video of each view: numbers, as the part "video" of a data set's batches, or other keys, such
                as :attr:`seqpipe.Batch.sources`.

        Raises:
            ParameterError: the numbers of scores and videos, or of classes, differ.
        """
        table = np.asarray(to_numpy(scores), np.float64)
        keys = list(videos.tolist() if hasattr(videos, "tolist") else videos)
        if table.ndim != 2 or len(table) != len(keys):
            raise ParameterError(
                f"scores of the shape {table.shape} for {len(keys)} views",
                source="VideoScores",
                allowed="(views, classes)",
            )
        for key, row in zip(keys, table, strict=True):
            if key in self._sums and self._sums[key].shape != row.shape:
                raise ParameterError(
                    f"scores of {len(row)} classes after some of {len(self._sums[key])}",
                    source=f"video {key}",
                )
            self._sums[key] = self._sums.get(key, 0.0) + row
            self._counts[key] = self._counts.get(key, 0) + 1

    def mean(self) -> dict[Any, FloatArray]:
        """Return the mean scores of each video."""
        return {key: total / self._counts[key] for key, total in self._sums.items()}

    def counts(self) -> dict[Any, int]:
        """Return the number of views of each video."""
        return dict(self._counts)
