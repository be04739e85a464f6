"""Sample plans of policies: the operators for a sample, with their parameters for each backend."""

from __future__ import annotations

from functools import cached_property, lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..call.backends import applied
from ..core.blocks import constant_of, derives_anew, values_of_all
from ..core.declaration import Declaration
from ..core.spec import Spec
from .batched import BatchedOps, batched_ops
from .schedule import OpStage, stages_of
from .steps import STEPS

__all__ = ["Act", "SamplePlan", "kernel_of_steps"]


class Act:
    """A step of a sample: its operator, and the parameters in each form that is asked for.

    Attributes:
        op: the operator.
        values: its parameters, but for those that it has anyway.
    """

    def __init__(self, op: Declaration, values: dict[str, Any], spec: Spec) -> None:
        self.op = op
        self.values = values
        self._spec = spec

    @cached_property
    def rows(self) -> npt.NDArray[Any]:
        """All of its parameters, as those of a block of one row."""
        constant = constant_of(self.op, Spec(1, 1, 1, self._spec.channels, self._spec.dtype))
        rows = constant.rows.copy()
        rows["acts"] = 1
        for name, value in self.values.items():
            rows[name] = value
        if self.op.traits.derived and derives_anew(self.op, self.values.keys()):
            for name, value in self.op.derive(rows, self._spec).items():
                rows[name] = value
        return rows

    @cached_property
    def p(self) -> SimpleNamespace:
        """The same as attributes."""
        return values_of_all(self.rows)

    @cached_property
    def table(self) -> npt.NDArray[np.uint8] | None:
        """What becomes of each level of 8 bits, if that depends on the level alone."""
        if not self.op.traits.pointwise or self._spec.dtype != "uint8":
            return None
        levels = np.arange(256, dtype=np.uint8).reshape(1, 1, 256, 1)
        found: npt.NDArray[np.uint8] = applied(self.op, self.op.cpu, levels, self.p, fast=True).reshape(256)
        return found

    @cached_property
    def row(self) -> bytes:
        """What its kernel is given."""
        return self.op.kernel_rows(self.rows, self._spec).tobytes()


class SamplePlan:
    """What acts on a sample.

    Attributes:
        acts: one step after the other.
    """

    def __init__(self, acts: list[Act], channels: int) -> None:
        self.acts = acts
        self._channels = channels

    @cached_property
    def stages(self) -> tuple[OpStage, ...]:
        """The same on a GPU."""
        return stages_of(kernel_of_steps(self._channels), [(type(act.op), act.row) for act in self.acts])


@lru_cache(maxsize=8)
def kernel_of_steps(channels: int) -> BatchedOps:
    """The kernel of all steps, for images of so many channels."""
    return batched_ops(_kinds(channels))


@lru_cache(maxsize=8)
def _kinds(channels: int) -> tuple[type[Declaration], ...]:
    """The operators of all steps that take images of so many channels, so that all policies share one kernel."""
    kinds = dict.fromkeys(step.op for step in STEPS.values())
    return tuple(kind for kind in kinds if not kind.traits.channels or channels in kind.traits.channels)
