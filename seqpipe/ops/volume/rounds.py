"""Samples on a GPU: steps of all samples run concurrently, each kind of step in common launches.

The result of a sample does not depend on the others: kernels process each in the same way, whatever their number.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np

from ...array import Array, namespace
from ...core.kernel import KernelDevice
from .gather import BatchMemory, Gather, gathers
from .held import Held, State, name_of
from .host import labels_for, renamed
from .lanes import MOST_VOXELS, Lane, run_lanes
from .plan import Change, Move, Plan, PlanStep, Rename
from .stages import Stage, rounded

__all__ = ["in_rounds"]

_WHOLE: Final = (
    "uint8",
    "int8",
    "uint16",
    "int16",
)  # dtypes whose values float32 represents exactly


@dataclass(eq=False)
class _Sample:
    """A sample while its steps are run."""

    state: State
    steps: list[PlanStep]
    fresh: set[str] = field(default_factory=set)  # parts in memory allocated here, which may be overwritten


def in_rounds(
    states: Seq[State], plans: Seq[Plan], device: KernelDevice, memory: BatchMemory | None
) -> list[State]:
    """Run the planned steps of samples on a GPU.

    Args:
        states: the samples, all of them on one device, which is the current one.
        plans: their steps.
        device: device of the kernels.
        memory: memory for contiguous results; None if they need not be contiguous.
    """
    samples = [_Sample(state, list(plan.steps)) for state, plan in zip(states, plans, strict=True)]
    while any(sample.steps for sample in samples):
        if moving := [one for one in samples if one.steps and isinstance(one.steps[0], Move)]:
            _move(moving, device, memory)
        if changing := [one for one in samples if one.steps and isinstance(one.steps[0], Change)]:
            _change(changing, device)
        for sample in samples:
            while sample.steps and isinstance(step := sample.steps[0], Rename):
                sample.state = renamed(sample.state, step)
                sample.steps.pop(0)
    return [sample.state for sample in samples]


def _move(samples: Seq[_Sample], device: KernelDevice, memory: BatchMemory | None) -> None:
    """The next step of samples, of which it is geometry, done."""
    jobs: list[Gather] = []
    moves: list[tuple[_Sample, Any]] = []
    for sample in samples:
        step: Any = sample.steps.pop(0)
        # intermediate results do not stay
        last = memory is not None and not any(isinstance(later, Move) for later in sample.steps)
        moves.append((sample, step))
        for name, held in sample.state.parts.items():
            if held.layout:
                outside, room = step.outside(held), partial(memory.room, name) if memory and last else None
                volume, interpolation = labels_for(held, outside), step.interpolation(held)
                jobs.append(Gather(volume, step.mapping, interpolation, outside, room=room))
    made = iter(gathers(jobs, device))
    for sample, step in moves:
        affine, parts = step.grid.affine, {}
        for name, held in sample.state.parts.items():
            values = next(made) if held.layout else step.places(held)
            parts[name] = Held(held.part, values, held.layout, affine)
            if held.layout:
                sample.fresh.add(name)
        sample.state = State(parts, step.grid, sample.state.op)


def _set(sample: _Sample, name: str, values: Array) -> None:
    parts = sample.state.parts
    held = parts[name]
    moved = Held(held.part, values, held.layout, held.affine)
    sample.state = State({**parts, name: moved}, sample.state.grid, sample.state.op)
    sample.fresh.add(name)


def _change(samples: Seq[_Sample], device: KernelDevice) -> None:
    """The next steps of samples, as far as they change intensities, done."""
    lanes: list[Lane] = []
    homes: list[tuple[_Sample, str, Array, np.dtype[Any]]] = []
    for sample in samples:
        steps: list[Change] = []
        while sample.steps and isinstance(sample.steps[0], Change):
            steps.append(sample.steps.pop(0))  # type: ignore[arg-type]  # it was looked at
        for name, held in sample.state.images.items():
            own = [
                (step, place)
                for step in steps
                for at, place in step.places(sample.state).items()
                if at == name
            ]
            dtype = held.values.dtype
            if held.values[..., 0].size > MOST_VOXELS or dtype.name not in (*_WHOLE, "float32"):
                for step, place in own:
                    held = replace(
                        held,
                        values=step.op.done_to(held.values, step.p, place, step.about(sample.state, held)),
                    )
                    _set(sample, name, held.values)
                continue
            found, home, dtype = _lanes_of(own, sample.state, held, fresh=name in sample.fresh)
            if found:
                lanes += found
                homes.append((sample, name, home, dtype))
            elif dtype != held.values.dtype:
                _set(sample, name, held.values.astype(dtype))
    if not lanes:
        return
    xp = namespace(lanes[0].values)
    run_lanes(lanes, device, xp)
    for sample, name, home, dtype in homes:
        _set(sample, name, xp.moveaxis(home, 0, 3).astype(dtype, copy=False))


def _lanes_of(
    steps: Seq[tuple[Change, int]], state: State, held: Held, *, fresh: bool
) -> tuple[list[Lane], Array, np.dtype[Any]]:
    """Return lanes for the channels of an image, the memory of the result and its dtype; no lanes if no value changes.

    Args:
        steps: steps on the image, each with the number of its first channel.
        state: the sample.
        held: the image.
        fresh: whether its memory may be written.
    """
    values, xp = held.values, namespace(held.values)
    dtype = values.dtype
    abouts = []
    every: list[list[Stage]] = [[] for _ in range(values.shape[3])]
    for step, place in steps:
        about = step.about(state, held) | {"dtype": name_of(dtype)}
        abouts.append(about)
        dtype = np.dtype(step.op.result_dtype(name_of(dtype)))
        rounds = [] if dtype == np.float32 else [rounded(dtype)]
        for channel, stages in enumerate(every):
            own = step.op.for_channel(step.p, place + channel, about)
            if own is not None:
                stages += [*step.op.stages(own), *rounds]
    if not any(every):
        return [], values, dtype
    mask = next((about["mask"] for about in abouts if about["mask"] is not None), None)
    mask = None if mask is None else xp.ascontiguousarray(mask, np.uint8)
    planes = xp.moveaxis(values, 3, 0)
    if values.dtype != np.float32 or not planes.flags.c_contiguous:
        planes, fresh = xp.ascontiguousarray(planes, np.float32), True
    home = planes if fresh else xp.empty(planes.shape, np.float32)
    lanes = []
    for number, stages in enumerate(every):
        own_home = home[number]
        lanes.append(Lane(own_home if fresh else planes[number], own_home, stages, mask))
    return lanes, home, dtype
