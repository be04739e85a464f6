"""Calls of operators on volumes: on the CPU sample by sample, on a GPU all samples of a call in common launches.

The result of a sample does not depend on the others: kernels process each in the same way, whatever their number.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np

from ...array import Array, address_of, as_native, device_of, namespace
from ...core.kernel import KernelDevice
from ...errors import ParameterError, ResultSizesError, warn_caller
from ...parts import Image, Labels, Part, Sample, as_part, is_labels, unmarked_labels
from ...resampling.gather import BatchMemory, Gather, gathers
from ...sequence import Batch, Sequence
from ..call.backends import check_backend, cuda_device_of, on_device_of
from ..call.inputs import as_array, check_marked, like_container, like_library
from ..core.declaration import Declaration
from ..core.sampling import indices_of
from ..core.spec import Backend, CallOptions
from .channels import MOST_VOXELS, ChannelTask, Stage, rounded, run_channels
from .plan import Change, Move, Plan, PlanStep, Rename, SampledParameters, plans_of, sampled_parameters
from .state import LAYOUTS, PartState, SampleState, name_of, state_of

__all__ = [
    "SINGLE",
    "RunSettings",
    "apply_to_samples",
    "count_nonfinite",
    "plain",
    "run",
    "run_on_cpu",
    "warn_of_counts",
]

_counted: deque[tuple[str, Any, Any]] = deque(maxlen=256)
"""Counts being copied from GPUs: name of the image, pinned memory, and the event after the copy."""


def run_on_cpu(state: SampleState, plan: Plan, *, reference: bool) -> SampleState:
    """Run the planned steps of a sample on the CPU; the reference is NumPy even if there is a C compiler."""
    for step in plan.steps:
        state = step.run(state, reference=reference)
    return state


def count_nonfinite(state: SampleState) -> None:
    """Count the NaN and infinite voxels of a sample's images, and warn; for a GPU in a later call."""
    for name, item in state.images.items():
        values = item.values
        if values.dtype.kind != "f":
            continue
        if isinstance(values, np.ndarray):
            if not bool(np.isfinite(values.sum())):
                _warn(name, int((~np.isfinite(values)).sum()))
            continue
        _count_later(name, values)


def _count_later(name: str, values: Array) -> None:
    """Count the values on a GPU that are not finite; the count is looked at once it is there."""
    xp = namespace(values)
    count = values.size - xp.count_nonzero(xp.isfinite(values))
    memory = xp.cuda.alloc_pinned_memory(count.nbytes)
    here = np.frombuffer(memory, count.dtype, 1).reshape(())
    count.get(out=here, blocking=False)
    event = xp.cuda.Event(disable_timing=True)
    event.record()
    _counted.append((name, (here, count, memory), event))


def warn_of_counts() -> None:
    """Warn of the counts of earlier calls on GPUs that are available by now."""
    while _counted and _counted[0][2].done:
        name, (here, *_), _ = _counted.popleft()
        _warn(name, int(here))


def _warn(name: str, count: int) -> None:
    """Warn of values that are not finite."""
    if count:
        warn_caller(
            f"{count} voxels of {name!r} are NaN or infinite: they are kept, and left out of statistics"
        )


SINGLE: Final = "image"
"""Name of a part that is not in a dictionary."""
_PORTION: Final = 16 << 20  # number of voxels for which gathering on a GPU takes longer than planning
_BATCHES: Final = {3: "DHW", 4: "DHWC", 5: "NDHWC"}


@dataclass
class RunSettings:
    """Settings of a run.

    Attributes:
        backend: the backend; None for the kernel on a GPU and C on the CPU.
        device: device of the kernels; None for the GPU of the volume.
        stacked: whether results of one shape are contiguous in memory.
        with_history: whether samples get a history.
    """

    backend: Backend | None = None
    device: KernelDevice | None = None
    stacked: bool = False
    with_history: bool = True

    def device_for(self, values: Array) -> KernelDevice | None:
        """Return the device of the kernels for a volume; None for NumPy and C."""
        by_kernel = self.backend == "cuda" or (self.backend is None and device_of(values) != "cpu")
        return (self.device or cuda_device_of(values)) if by_kernel else None


def run(
    ops: Seq[Any],
    x: Any,
    options: CallOptions,
) -> Any:
    """Apply operators on volumes."""
    _check(ops, x, options)
    if is_labels(x):  # alone: what changes intensities leaves them alone, too
        ops = [op for op in ops if op.traits.geometric or op.traits.on_labels]
        if not ops:
            return x
    layout, index = options.layout, options.index

    def results_of(
        values: Seq[Any], indices: Seq[int], layout: str | None, *, stacked: bool = False
    ) -> list[Any]:
        """Return the results of volumes and samples of several parts, with their indices and the layout of arrays."""
        alone = [not isinstance(value, Mapping) for value in values]
        samples = [{SINGLE: value} if single else value for value, single in zip(values, alone, strict=True)]
        settings = RunSettings(options.backend, options.device, stacked, with_history=not all(alone))
        results = apply_to_samples(ops, samples, layout, options.epoch, indices, settings)
        return [
            plain(value, sample[SINGLE]) if single else sample
            for value, sample, single in zip(values, results, alone, strict=True)
        ]

    if isinstance(x, Batch):
        indices = indices_of(ops[0], x.indices if index is None else index, len(x))
        return Batch.of(results_of(x.sequences, indices, None), labels=x.labels, indices=x.indices)
    if isinstance(x, (list, tuple)):
        indices = indices_of(ops[0], index, len(x))
        return like_container(x, results_of(x, indices, layout))
    if isinstance(x, Mapping) and (several := _samples_of_batch(ops[0], x, layout)) is not None:
        samples, letters, batch_indices = several
        numbers = indices_of(ops[0], batch_indices if index is None else index, len(samples))
        return _batch_of_samples(ops[0], x, results_of(samples, numbers, letters, stacked=True))
    if isinstance(x, (Mapping, Sequence, Part)):
        return results_of([x], indices_of(ops[0], index, 1), layout)[0]
    array = as_array(ops[0], x)
    letters = layout or _BATCHES.get(array.ndim, "")
    if letters not in LAYOUTS or len(letters) != array.ndim or not array.size:
        raise ParameterError(
            f"an array of shape {array.shape} and layout {layout or letters or 'unknown'}",
            source=ops[0].name,
            allowed=f"arrays of one voxel or more, of the layouts {', '.join(LAYOUTS)}",
        )
    if letters[0] != "N":
        return results_of([x], indices_of(ops[0], index, 1), letters)[0]
    numbers = indices_of(ops[0], index, len(array))
    return like_library(x, _stacked(ops[0], results_of(list(array), numbers, letters[1:], stacked=True)))


def _check(ops: Seq[Any], x: Any, options: CallOptions) -> None:
    """Check the backend, and that no operator computes new values of parts that may be labels."""
    if options.backend is not None:
        check_backend(options.backend, ops[0].name)
    first = x[0] if isinstance(x, (list, tuple)) and x else x
    if isinstance(first, Mapping) and (unmarked := unmarked_labels(first)):
        for op in ops:
            check_marked(op, unmarked)


def _samples_of_batch(
    op: Declaration, x: Mapping[str, Any], layout: str | None
) -> tuple[list[dict[str, Part]], str | None, Any] | None:
    """Samples, the layout of their arrays and their indices, of a dictionary of batches; None if it is one sample."""
    parts = {name: as_part(value) for name, value in x.items()}
    batches = [part.data for part in parts.values() if isinstance(part.data, Batch)]
    voxels = [part.data for part in parts.values() if isinstance(part, (Image, Labels))]
    stacked = (layout or "").startswith("N") or any(
        isinstance(data, (list, tuple))
        or (not isinstance(data, (Batch, Sequence)) and as_array(op, data).ndim == len("NDHWC"))
        for data in voxels
    )
    if not batches and not stacked:
        return None
    counts = {name: len(part.data) for name, part in parts.items() if not isinstance(part.data, Sequence)}
    if len(set(counts.values())) > 1 or len(counts) < len(parts):
        listed = ", ".join(f"{name} of {counts.get(name, 'one sample')}" for name in parts)
        raise ParameterError(
            f"a batch with {listed}", source=op.name, allowed="the same number of samples in every part"
        )
    every = {
        name: part.data.sequences if isinstance(part.data, Batch) else part.data
        for name, part in parts.items()
    }
    samples = [
        {name: part.with_data(every[name][n]) for name, part in parts.items()}
        for n in range(next(iter(counts.values())))
    ]
    letters = layout[1:] if layout is not None and layout.startswith("N") else layout
    return samples, letters, batches[0].indices if batches else None


def _batch_of_samples(op: Declaration, inputs: Mapping[str, Any], results: Seq[Sample]) -> Sample:
    """Combine samples to a dictionary of batches, each part of its original type."""
    parts: dict[str, Any] = {}
    for name, value in inputs.items():
        part, data = as_part(value), [sample[name].data for sample in results]
        whole: Any = data
        if isinstance(part.data, Batch):
            whole = Batch.of(data, labels=part.data.labels, indices=part.data.indices)
        elif not isinstance(part.data, (list, tuple)):
            whole = like_library(part.data, _stacked(op, [as_native(array) for array in data]))
        parts[name] = part.with_data(whole) if isinstance(value, Part) else whole
    return Sample(parts)


def plain(value: Any, done: Any) -> Any:
    """Return the result of one part in its original form: a part, or the data of one."""
    return done if isinstance(value, Part) else done.data if isinstance(done, Part) else done


def _stacked(op: Declaration, results: list[Array]) -> Array:
    """Stack results of one shape."""
    if len({array.shape for array in results}) > 1:
        shapes = ", ".join(str(array.shape) for array in results[:4])
        raise ResultSizesError(
            f"results of different shapes, {shapes}", source=op.name, advice="Give the samples as a list"
        )
    first, xp = results[0], namespace(results[0])
    addresses = [address_of(array) for array in results]
    contiguous = [addresses[0] + n * first.nbytes for n in range(len(results))]
    if (
        addresses == contiguous
        and all(array.flags.c_contiguous for array in results)
        and _share_memory(results)
    ):
        return xp.lib.stride_tricks.as_strided(
            first, (len(results), *first.shape), (first.nbytes, *first.strides)
        )
    return xp.stack(results)


def _share_memory(results: list[Array]) -> bool:
    """Return whether arrays are views of one array that was allocated for all of them."""
    bases = [array if array.base is None else array.base for array in results]
    return len(results) == 1 or all(base is bases[0] for base in bases)


def apply_to_samples(
    ops: Seq[Any],
    samples: Seq[Mapping[str, Any]],
    layout: str | None,
    epoch: int,
    indices: Seq[int],
    settings: RunSettings,
    drawn: Seq[Seq[SampledParameters]] | None = None,
) -> list[Sample]:
    """Apply operators to samples, with histories."""
    warn_of_counts()
    states = [state_of(ops[0].name, sample, layout) for sample in samples]
    memory = BatchMemory(len(states)) if settings.stacked else None
    if drawn is None and not any(_draws_by_sample(op) for op in ops):
        specs = [state.spec for state in states]
        drawn = [sampled_parameters(op, specs, epoch, indices) for op in ops]
    plans: list[Plan] = []
    results: list[SampleState] = []
    for portion in [slice(0, len(states))] if drawn is None else _portions(states, settings):
        own = None if drawn is None else [of_op[portion] for of_op in drawn]
        planned = plans_of(ops, states[portion], epoch, indices[portion], own)
        plans += planned
        results += _run_plans(states[portion], planned, settings, memory)
    outputs = []
    for sample, state, plan, index in zip(samples, results, plans, indices, strict=True):
        moved = {name: _result(sample[name], item.to_part()) for name, item in state.parts.items()}
        parts = {name: moved.get(name, value) for name, value in sample.items()}
        history = (plan.history(epoch, index),) if settings.with_history else ()
        if isinstance(sample, Sample):
            outputs.append(sample.with_parts(parts, *history))
        else:
            outputs.append(Sample(parts, history))
    return outputs


def _draws_by_sample(op: Declaration) -> bool:
    """Return whether parameters may depend on the input of an operator, which the operators before it determine."""
    on_images = op.traits.takes == "images"
    return on_images or type(op).sample is not Declaration.sample or bool(op.traits.derived)


def _portions(states: Seq[SampleState], settings: RunSettings) -> list[slice]:
    """Return groups of samples to plan together: small groups of large samples on a GPU, so that it runs meanwhile."""
    count = len(states)
    if count and settings.device_for(states[0].reference.values):
        count = max(1, _PORTION // math.prod(states[0].grid.size))
    return [slice(first, first + count) for first in range(0, len(states), count)]


def _run_plans(
    states: Seq[SampleState], plans: Seq[Plan], settings: RunSettings, memory: BatchMemory | None
) -> list[SampleState]:
    """Run the plans of samples, grouped by device."""
    results: dict[int, SampleState] = {}
    by_device: dict[str, list[int]] = {}
    for number, state in enumerate(states):
        by_device.setdefault(device_of(state.reference.values), []).append(number)
    for numbers in by_device.values():
        first = states[numbers[0]].reference.values
        device = settings.device_for(first)
        if device is None:
            for number in numbers:
                count_nonfinite(states[number])
                results[number] = run_on_cpu(
                    states[number], plans[number], reference=settings.backend == "reference"
                )
            continue
        with on_device_of(first):
            for number in numbers:  # only if statistics could miss them: it takes a pass over the voxels
                if any(isinstance(step, Change) for step in plans[number].steps):
                    count_nonfinite(states[number])
            from_gpu = _run_on_gpu([states[n] for n in numbers], [plans[n] for n in numbers], device, memory)
        results |= dict(zip(numbers, from_gpu, strict=True))
    return [results[number] for number in range(len(states))]


def _result(value: Any, part: Part) -> Any:
    """Return a result as what was given."""
    return part if isinstance(value, Part) else part.data


# dtypes whose values float32 represents exactly
_EXACT: Final = frozenset(map(np.dtype, ("uint8", "int8", "uint16", "int16", "float32")))


@dataclass(eq=False)
class _Sample:
    """A sample while its steps are run."""

    state: SampleState
    steps: list[PlanStep]
    fresh: set[str] = field(default_factory=set)  # parts in memory allocated here, which may be overwritten


def _run_on_gpu(
    states: Seq[SampleState], plans: Seq[Plan], device: KernelDevice, memory: BatchMemory | None
) -> list[SampleState]:
    """Run the planned steps of samples on a GPU."""
    samples = [_Sample(state, list(plan.steps)) for state, plan in zip(states, plans, strict=True)]
    while any(sample.steps for sample in samples):
        if moving := [sample for sample in samples if sample.steps and isinstance(sample.steps[0], Move)]:
            _move(moving, device, memory)
        if changing := [sample for sample in samples if sample.steps and isinstance(sample.steps[0], Change)]:
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
    """Set the values of a part of a sample."""
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
            if steps and steps[-1].op.traits.changes_channels:
                break  # its result has other channels
            steps.append(sample.steps.pop(0))  # type: ignore[arg-type]  # checked in the condition
        first_channels = [step.first_channels(sample.state) for step in steps]
        for name, item in sample.state.images.items():
            own = [
                (step, first[name])
                for step, first in zip(steps, first_channels, strict=True)
                if name in first
            ]
            dtype = item.values.dtype
            large = math.prod(item.values.shape[:3]) > MOST_VOXELS
            if large or dtype not in _EXACT or any(step.op.traits.changes_channels for step in steps):
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
