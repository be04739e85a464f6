"""Views: several windows of each sample, for evaluation, as a source over another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..array import IntArray
from ..errors import ParameterError
from ..ops import REGISTRY, Type
from .source import Outcome, Plan, Read, Source

__all__ = ["Views"]


@dataclass(frozen=True, eq=False)
class Views:
    """``count`` consecutive windows of each sample of a source, spread evenly along the longer side.

    Attributes:
        source: the source.
        window: (height, width) of a window.
        count: windows of each sample; a single one is centered.
    """

    source: Source
    window: tuple[int, int]
    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ParameterError(f"count={self.count} is not valid", source="views", allowed="1 or more")

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

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("output", "source"):
            raise AttributeError(name)  # operators are not fused with decoding: windows come first
        return getattr(self.source, name)

    @property
    def parts(self) -> Mapping[str, Type]:
        """Those of the source; images have another size."""
        known = dict(self.source.parts)
        return {name: Type(one.kind, one.layout, one.dtype, one.device) for name, one in known.items()}

    @property
    def facts(self) -> Mapping[str, object]:
        """Those of the source and of the windows."""
        return {**self.source.facts, "views": [*self.window, self.count]}

    def plan(self, epoch: int, indices: IntArray, head: Any = None) -> Plan:
        """See :class:`seqpipe.dataset.source.Source`; each sample is read once."""
        del head
        samples = np.array(list(dict.fromkeys((indices // self.count).tolist())), np.int64)
        inner = self.source.plan(epoch, samples)
        return Plan(epoch, indices, inner.nbytes, inner)

    def begin(self, plan: Plan, *, stack: bool = True) -> Any:
        """See :class:`seqpipe.dataset.source.Source`."""
        del stack
        return plan, self.source.begin(plan.work, stack=False)

    def finish(self, work: Any) -> Read:
        """See :class:`seqpipe.dataset.source.Source`."""
        plan, pending = work
        read = self.source.finish(pending)
        known = dict(zip(plan.work.indices.tolist(), read.outcomes, strict=True))
        return Read(tuple(self._view(known[number // self.count], number) for number in plan.indices.tolist()))

    def _view(self, outcome: Outcome, number: int) -> Outcome:
        if not isinstance(outcome, tuple):
            return outcome
        index, parts = outcome
        sequence = parts["image"]
        rows, columns = (sequence.shape[sequence.layout.index(axis)] for axis in "HW")
        side = "crop_pos_x" if columns >= rows else "crop_pos_y"
        position = 0.5 if self.count == 1 else number % self.count / (self.count - 1)
        view = REGISTRY["crop"](crop=self.window, **{side: position})(sequence)
        label = sequence.label if isinstance(sequence.label, int) else sequence.label
        return index * self.count + number % self.count, {
            **parts,
            "image": view.as_sample(label, number, sequence.fields),
        }

    def cancel(self, work: Any) -> None:
        """See :class:`seqpipe.dataset.source.Source`."""
        self.source.cancel(work[1])

    def metadata(self, indices: IntArray) -> Mapping[str, Any]:
        """See :class:`seqpipe.dataset.source.Source`."""
        return {**self.source.metadata(indices // self.count), "view": indices % self.count}

    def close(self) -> None:
        """Close the source."""
        self.source.close()

    def __repr__(self) -> str:
        return f"{self.source!r}.views({self.window}, count={self.count})"
