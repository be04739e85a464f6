"""Running the plan of a sample on the CPU, by NumPy and C."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...array import Array
from ...parts import Labels
from .gather import gather
from .plan import Move, Plan, Rename
from .state import PartState, SampleState

__all__ = ["labels_for", "renamed", "run_on_cpu"]


def run_on_cpu(state: SampleState, plan: Plan, *, reference: bool) -> SampleState:
    """Run the planned steps of a sample on the CPU.

    Args:
        state: the sample.
        plan: its steps.
        reference: whether to use NumPy even if there is a C compiler.
    """
    for step in plan.steps:
        if isinstance(step, Move):
            moved = {name: _moved(item, step, reference=reference) for name, item in state.parts.items()}
            state = replace(state, parts=moved, grid=step.grid)
        elif isinstance(step, Rename):
            state = renamed(state, step)
        else:
            parts = dict(state.parts)
            for name, first_channel in step.first_channels(state).items():
                item = parts[name]
                values = step.op.apply_to_image(
                    item.values, step.p, first_channel, step.image_context(state, item)
                )
                parts[name] = replace(item, values=values)
            state = replace(state, parts=parts)
    return state


def _moved(item: PartState, step: Move, *, reference: bool) -> PartState:
    if not item.layout:
        values: Array = step.moved_points(item)
    else:
        outside = step.outside(item)
        values = gather(
            labels_for(item, outside), step.mapping, step.interpolation(item), outside, reference=reference
        )
    return replace(item, values=values, affine=step.grid.affine)


def labels_for(item: PartState, fill: float | None) -> Array:
    """Return the values of a part; labels in a dtype that also holds the fill value."""
    values = item.values
    if (
        isinstance(item.part, Labels)
        and fill is not None
        and values.dtype.kind in "iub"
        and values.dtype != bool
    ):
        info = np.iinfo(values.dtype)
        if not info.min <= fill <= info.max:
            return values.astype(np.int16 if info.bits <= 8 else np.int32 if info.bits <= 16 else np.int64)
    return values


def renamed(state: SampleState, step: Rename) -> SampleState:
    """Return the sample with its labels changed."""
    parts = {
        name: replace(item, values=step.op.reference(item.values, None))
        if isinstance(item.part, Labels)
        else item
        for name, item in state.parts.items()
    }
    return replace(state, parts=parts)
