"""A sample's steps on the CPU, by NumPy and C."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...array import Array
from ...parts import Labels
from .gather import gather
from .held import Held, State
from .plan import Move, Plan, Rename

__all__ = ["by_host", "labels_for", "renamed"]


def by_host(state: State, plan: Plan, *, reference: bool) -> State:
    """Run the planned steps of a sample on the CPU.

    Args:
        state: the sample.
        plan: its steps.
        reference: whether NumPy does it though there is something faster.
    """
    for step in plan.steps:
        if isinstance(step, Move):
            made = {name: _moved(held, step, reference=reference) for name, held in state.parts.items()}
            state = replace(state, parts=made, grid=step.grid)
        elif isinstance(step, Rename):
            state = renamed(state, step)
        else:
            parts = dict(state.parts)
            for name, place in step.places(state).items():
                held = parts[name]
                values = step.op.done_to(held.values, step.p, place, step.about(state, held))
                parts[name] = replace(held, values=values)
            state = replace(state, parts=parts)
    return state


def _moved(held: Held, step: Move, *, reference: bool) -> Held:
    if not held.layout:
        values: Array = step.places(held)
    else:
        outside = step.outside(held)
        values = gather(
            labels_for(held, outside), step.mapping, step.interpolation(held), outside, reference=reference
        )
    return replace(held, values=values, affine=step.grid.affine)


def labels_for(held: Held, fill: float | None) -> Array:
    """Return the values of a part; labels in a dtype that also holds the fill value."""
    values = held.values
    if (
        isinstance(held.part, Labels)
        and fill is not None
        and values.dtype.kind in "iub"
        and values.dtype != bool
    ):
        info = np.iinfo(values.dtype)
        if not info.min <= fill <= info.max:
            return values.astype(np.int16 if info.bits <= 8 else np.int32 if info.bits <= 16 else np.int64)
    return values


def renamed(state: State, step: Rename) -> State:
    """The sample with its labels changed."""
    parts = {
        name: replace(held, values=step.op.reference(held.values, None))
        if isinstance(held.part, Labels)
        else held
        for name, held in state.parts.items()
    }
    return replace(state, parts=parts)
