"""Views: several windows of each sample, for evaluation, as a source over another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..array import IntArray
from ..core.param import Param, check_list
from ..errors import ParameterError
from ..ops import REGISTRY, Type
from ..readers.report import Report
from .source import PLAIN, Heads, ReadPlan, ReadResult, SampleOutcome, SampleSource

__all__ = ["Views", "check_window"]

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
        return {name: Type(one.kind, one.layout, one.dtype, one.device) for name, one in known.items()}

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
    """Return (height, width) of a window.

    Raises:
        ParameterError: the size is not two whole numbers of pixels.
    """
    sides = check_list("size", size, "(height, width)")
    if len(sides) != 2:
        raise ParameterError(f"size={size!r} is not valid", allowed="(height, width)")
    height, width = map(_SIDE.check, sides)
    return height, width
