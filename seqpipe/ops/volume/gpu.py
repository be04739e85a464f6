"""Running plans on a GPU: the steps of all samples advance together, each kind of step in common launches.

The result of a sample does not depend on the others: kernels process each in the same way, whatever their number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np

from ...array import Array, namespace
from ...core.kernel import KernelDevice
from ...resampling.gather import BatchMemory, Gather, gathers
from .channels import MOST_VOXELS, ChannelTask, Stage, rounded, run_channels
from .plan import Change, Move, Plan, PlanStep, Rename
from .state import PartState, SampleState, name_of

__all__ = ["run_on_gpu"]

# dtypes whose values float32 represents exactly
_EXACT: Final = frozenset(map(np.dtype, ("uint8", "int8", "uint16", "int16", "float32")))


@dataclass(eq=False)
class _Sample:
    """A sample while its steps are run."""

    state: SampleState
    steps: list[PlanStep]
    fresh: set[str] = field(default_factory=set)  # parts in memory allocated here, which may be overwritten


def run_on_gpu(
    states: Seq[SampleState], plans: Seq[Plan], device: KernelDevice, memory: BatchMemory | None
) -> list[SampleState]:
    """Run the planned steps of samples on a GPU."""
    samples = [_Sample(state, list(plan.steps)) for state, plan in zip(states, plans, strict=True)]
    while any(sample.steps for sample in samples):
        if moving := [one for one in samples if one.steps and isinstance(one.steps[0], Move)]:
            _move(moving, device, memory)
        if changing := [one for one in samples if one.steps and isinstance(one.steps[0], Change)]:
            _change(changing, device)
        for sample in samples:
            while sample.steps and isinstance(step := sample.steps[0], Rename):
                sample.state = step.run(sample.state)
                sample.steps.pop(0)
    return [sample.state for sample in samples]


def _move(samples: Seq[_Sample], device: KernelDevice, memory: BatchMemory | None) -> None:
    """Run the next step of samples, a geometric one."""
    jobs: list[Gather] = []
    moves: list[tuple[_Sample, Any]] = []
    for sample in samples:
        step: Any = sample.steps.pop(0)
        # intermediate results do not stay
        last = memory is not None and not any(isinstance(later, Move) for later in sample.steps)
        moves.append((sample, step))
        for name, item in sample.state.parts.items():
            if item.layout:
                outside, allocate = (
                    step.outside(item),
                    partial(memory.allocate, name) if memory and last else None,
                )
                volume, interpolation = step.source_values(item), step.interpolation(item)
                jobs.append(Gather(volume, step.mapping, interpolation, outside, allocate=allocate))
    gathered = iter(gathers(jobs, device))
    for sample, step in moves:
        affine, parts = step.grid.affine, {}
        for name, item in sample.state.parts.items():
            values = next(gathered) if item.layout else step.moved_points(item)
            parts[name] = PartState(item.part, values, item.layout, affine)
            if item.layout:
                sample.fresh.add(name)
        sample.state = SampleState(parts, step.grid, sample.state.op)


def _set(sample: _Sample, name: str, values: Array) -> None:
    parts = sample.state.parts
    item = parts[name]
    moved = PartState(item.part, values, item.layout, item.affine)
    sample.state = SampleState({**parts, name: moved}, sample.state.grid, sample.state.op)
    sample.fresh.add(name)


def _change(samples: Seq[_Sample], device: KernelDevice) -> None:
    """Run the next steps of samples that change intensities."""
    tasks: list[ChannelTask] = []
    results: list[tuple[_Sample, str, Array, np.dtype[Any]]] = []
    for sample in samples:
        steps: list[Change] = []
        while sample.steps and isinstance(sample.steps[0], Change):
            steps.append(sample.steps.pop(0))  # type: ignore[arg-type]  # checked in the condition
        first_channels = [step.first_channels(sample.state) for step in steps]
        for name, item in sample.state.images.items():
            own = [
                (step, first[name])
                for step, first in zip(steps, first_channels, strict=True)
                if name in first
            ]
            dtype = item.values.dtype
            if math.prod(item.values.shape[:3]) > MOST_VOXELS or dtype not in _EXACT:
                for step, first_channel in own:
                    item = replace(
                        item,
                        values=step.op.apply_to_image(
                            item.values, step.p, first_channel, step.image_context(sample.state, item)
                        ),
                    )
                    _set(sample, name, item.values)
                continue
            image_tasks, result, dtype = _tasks_of(own, sample.state, item, fresh=name in sample.fresh)
            if image_tasks:
                tasks += image_tasks
                results.append((sample, name, result, dtype))
            elif dtype != item.values.dtype:
                _set(sample, name, item.values.astype(dtype))
    if not tasks:
        return
    xp = namespace(tasks[0].values)
    run_channels(tasks, device, xp)
    for sample, name, result, dtype in results:
        _set(sample, name, xp.moveaxis(result, 0, 3).astype(dtype, copy=False))


def _tasks_of(
    steps: Seq[tuple[Change, int]], state: SampleState, item: PartState, *, fresh: bool
) -> tuple[list[ChannelTask], Array, np.dtype[Any]]:
    """Return tasks for the channels of an image, the memory of the result and its dtype; no tasks if no value changes.

    Args:
        steps: steps on the image, each with the number of its first channel.
        state: the sample.
        item: the image.
        fresh: whether its memory may be written.
    """
    values, xp = item.values, namespace(item.values)
    dtype = values.dtype
    contexts = []
    every: list[list[Stage]] = [[] for _ in range(values.shape[3])]
    for step, first_channel in steps:
        context = step.image_context(state, item) | {"dtype": name_of(dtype)}
        contexts.append(context)
        dtype = np.dtype(step.op.result_dtype(name_of(dtype)))
        rounds = [] if dtype == np.float32 else [rounded(dtype)]
        for channel, stages in enumerate(every):
            own = step.op.for_channel(step.p, first_channel + channel, context)
            if own is not None:
                stages += [*step.op.stages(own), *rounds]
    if not any(every):
        return [], values, dtype
    mask = next((context["mask"] for context in contexts if context["mask"] is not None), None)
    mask = None if mask is None else xp.ascontiguousarray(mask, np.uint8)
    planes = xp.moveaxis(values, 3, 0)
    if values.dtype != np.float32 or not planes.flags.c_contiguous:
        planes, fresh = xp.ascontiguousarray(planes, np.float32), True
    result = planes if fresh else xp.empty(planes.shape, np.float32)
    tasks = []
    for number, stages in enumerate(every):
        own_result = result[number]
        tasks.append(ChannelTask(own_result if fresh else planes[number], own_result, stages, mask))
    return tasks, result, dtype
