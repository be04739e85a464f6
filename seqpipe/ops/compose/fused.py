"""Operators fused into one kernel, composed into one mapping, or sampled before their inputs are decoded."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, takewhile
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...array import DEFAULT_LAYOUTS, Array, FloatArray
from ...core.kernel import KernelDevice
from ...errors import ParameterError, ResultSizesError
from ...sequence import Batch, Sequence
from ..call.backends import cuda_device_of, on_device_of
from ..call.inputs import CallInput, check
from ..call.op import BoundCall, Op, as_list
from ..core.blocks import UNMOVED, Block, joined, resolve
from ..core.declaration import Declaration
from ..core.distributions import per_frame
from ..core.sampling import alike, indices_of
from ..core.spec import Spec, View, view_of
from ..cuda.kernel import SKELETONS, TYPES, Item, OpSource, launch, row_text
from ..geometry.base import WHOLE_PIXELS, Geometry, Interpolated, check_sides
from ..geometry.mapping import Mapping
from ..geometry.warp import WarpPerspective

__all__ = [
    "Composed",
    "Fused",
    "Planned",
    "can_follow",
    "can_lead",
    "compositions",
    "fused",
    "leading",
    "planned",
    "result_specs",
]

_POINTWISE: Final = ("value", "pixel")
_MOST_CHANNELS: Final = 4


def can_lead(op: Declaration) -> bool:
    """Return whether an operator can be the first in a fused kernel."""
    return (_resamples(type(op)) and op.traits.body is not None) or can_follow(op)


def can_follow(op: Declaration) -> bool:
    """Return whether an operator can follow others in a fused kernel."""
    return op.traits.keeps_frames and not op.needs_pixels and (_moves(type(op)) or _changes(op))


@lru_cache(maxsize=512)  # issubclass() of an ABC takes as long as sampling a number
def _moves(op: type[Declaration]) -> bool:
    return issubclass(op, Geometry) and op.traits.whole_pixels


@lru_cache(maxsize=512)
def _resamples(op: type[Declaration]) -> bool:
    return issubclass(op, Geometry) and op.traits.resamples


def _changes(op: Declaration | type[Declaration]) -> bool:
    body = op.traits.body  # an instance may have another body than its class
    kind = op if isinstance(op, type) else type(op)
    return body is not None and (body.kind in _POINTWISE or (bool(body.text) and _moves(kind)))


class Fused(NamedTuple):
    """Calls of operators that run in one kernel, each bound to the results of the one before.

    Attributes:
        calls: call of each operator.
        specs: samples of the result.
        layout: layout of input arrays; None for the default.
    """

    calls: list[BoundCall]
    specs: list[Spec]
    layout: str | None

    def results(self, device: KernelDevice | None) -> list[Array]:
        """Compute the results, an array for each input of the first call."""
        first = self.calls[0]
        outs, items, sample = [], [], 0
        with on_device_of(first.parts[0].array):
            for part in first.parts:
                spec = self.specs[sample]
                if self.specs[sample : sample + part.samples].count(spec) < part.samples:
                    raise ResultSizesError(
                        "results of different sizes, of samples in one array",
                        source=self.calls[-1].op.name,
                        advice=as_list(self.calls[-1].op),
                    )
                arranged = part._replace(form=part.form._replace(result_view=self._result_view(part)))
                out = arranged.result(spec.dtype, spec[:3])
                items.append(Item(part.nfhwc, arranged.result_nfhwc(out), sample))
                outs.append(out)
                sample += part.samples
            self._launch(items, device or cuda_device_of(first.parts[0].array))
        return outs

    def wrap_results(self, outs: Seq[Array]) -> list[Any]:
        """Return the results as the types of the inputs, with metadata transformed by each operator."""
        results: list[Any] = []
        sample = 0
        for part, out in zip(self.calls[0].parts, outs, strict=True):
            is_sequence = isinstance(part.value, Sequence)
            results.append(self.sequence(part.value, out, sample) if is_sequence else part.like_value(out))
            sample += part.samples
        return results

    def sequence(self, source: Sequence, data: Array, sample: int) -> Sequence:
        """Return the result of a sequence: its pixels with the sequence's metadata, transformed."""
        for call in self.calls:
            source = call.sequence(source, data, sample)
        return source

    def mask(self, mask: Array) -> Array:
        """Apply the motion of the images to masks ``(N, F, H, W)``."""
        for call in self.calls:
            mask = call.mask(mask)
        return mask

    def _result_view(self, part: CallInput) -> View:
        """Return the view of the result of an input, in the layout of the last operator's result."""
        value = part.value
        letters = value.layout if isinstance(value, (Sequence, Batch)) else self.layout
        letters = letters or DEFAULT_LAYOUTS[part.array.ndim]
        for call in self.calls:
            letters = call.op.result_layout(letters)
        return view_of(letters, part.array.ndim)

    def _launch(self, items: Seq[Item], device: KernelDevice) -> None:
        first = self.calls[0].specs[0]
        steps = tuple([(type(call.op), call.op.result_dtype(call.specs[0].dtype)) for call in self.calls])
        kernel = _kernel_of(steps, first.dtype, first.channels)
        launch(kernel.source, kernel.defines, items, self._block(kernel), device)

    def _block(self, kernel: _Kernel) -> Block:
        """Return a row for each sample or frame with the kernel rows of every operator."""
        count = len(self.specs)
        # rows for frames if any operator needs them: all samples of a launch have the same step
        by_frame = any(call.block.step for call in self.calls)
        if all(alike(call.specs) for call in self.calls):
            rows = self._rows(kernel, 0, count, by_frame=by_frame)
            return Block(rows, tuple(range(0, len(rows), len(rows) // count)), int(by_frame))
        parts = [self._rows(kernel, sample, sample + 1, by_frame=by_frame) for sample in range(count)]
        first = tuple(accumulate(map(len, parts), initial=0))[:-1]
        return Block(np.concatenate(parts), first, int(by_frame))

    def _rows(self, kernel: _Kernel, begin: int, end: int, *, by_frame: bool) -> npt.NDArray[Any]:
        """Return the rows of some samples of one spec."""
        frames = self.specs[begin].frames
        count = (end - begin) * (frames if by_frame else 1)
        rows = np.empty(count, kernel.row)
        moves = UNMOVED
        for call, step in zip(self.calls, kernel.steps, strict=True):
            if step.moves:
                check_sides(call.op, *call.specs[begin][1:3])  # type: ignore[arg-type]  # of geometry
                moves = _after(moves, _for_each(_matrices(call, begin, end), count))
            if step.changes:
                rows[step.field] = _for_each(_kernel_rows(call, begin, end), count).view(step.bytes)
        first = self.calls[0]
        if kernel.resamples:
            block = _for_each(first.block.of_all(begin, end, frames), count)
            axes = first.op.moved_rows(block, first.specs[begin], moves)  # type: ignore[attr-defined]  # of what resamples
            rows["step0"] = axes.view(kernel.steps[0].bytes)
        elif kernel.defines["MOVES"]:
            rows["matrix"] = moves
        return rows


def _matrices(call: BoundCall, begin: int, end: int) -> FloatArray:
    """Return the matrices by which an operator moves some samples of one spec; one if they are equal."""
    spec, block, op = call.specs[begin], call.block, call.op
    if block.constant is not None:
        return block.constant.moved_by(op, spec)
    if block.constants:
        return np.concatenate([constant.moved_by(op, spec) for constant in block.constants[begin:end]])
    result: FloatArray = op.mappings(block.of_all(begin, end, spec.frames), spec).matrices  # type: ignore[attr-defined]  # of geometry
    return result


def _after(moves: FloatArray, later: FloatArray) -> FloatArray:
    """Return the product of matrices with later ones."""
    if moves is UNMOVED:
        return later
    return moves if later is UNMOVED else moves @ later


def _kernel_rows(call: BoundCall, begin: int, end: int) -> npt.NDArray[Any]:
    """Return the kernel rows of an operator for some samples of one spec; one if they are equal."""
    spec, block, op = call.specs[begin], call.block, call.op
    if block.constant is not None:
        return block.constant.for_kernel(op, spec)
    if block.constants:
        return joined([constant.for_kernel(op, spec) for constant in block.constants[begin:end]])
    return op.kernel_rows(block.of_all(begin, end, spec.frames), spec)


def _for_each(rows: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    """Repeat rows for samples or frames to ``count`` rows; a single row stays one."""
    return rows if len(rows) in (1, count) else np.repeat(rows, count // len(rows), axis=0)


def fused(
    ops: Seq[Declaration], values: Seq[Any], layout: str | None, epoch: int, index: Any
) -> Fused | None:
    """Bind operators to some values; return None if the values cannot be processed by one kernel."""
    calls = [BoundCall.of(ops[0], values, layout, epoch, index)]
    specs = calls[0].specs
    channels = {spec.channels for spec in specs}
    if len(channels) > 1 or max(channels) > _MOST_CHANNELS or specs[0].dtype not in TYPES:
        return None
    for op in ops[1:]:
        specs = result_specs(calls[-1])
        if specs[0].dtype not in TYPES:
            return None
        calls.append(calls[-1].then(op, specs, epoch, index))
    result = result_specs(calls[-1])
    return Fused(calls, result, layout) if result[0].dtype in TYPES else None


def result_specs(call: BoundCall) -> list[Spec]:
    """Return the specs of the results of a call."""
    op, specs = call.op, call.specs
    if alike(specs) and specs[0].spacing is None:
        extents = call.block.extents(op, range(len(specs)), specs[0])
        if len(extents) == 1:
            return [_result_spec(op, specs[0], extents.pop(), None)] * len(specs)
    result = []
    for sample, spec in enumerate(specs):
        rows = call.block.of(sample, spec.frames)
        spacing = op.moved_spacing(rows, spec) if isinstance(op, Geometry) else spec.spacing
        result.append(_result_spec(op, spec, op.extent(rows, spec), spacing))
    return result


def _result_spec(op: Declaration, spec: Spec, extent: tuple[int, int, int], spacing: Any) -> Spec:
    """Return the spec of the result of one sample, from its extent and spacing."""
    frames, height, width = extent
    channels, dtype = op.result_channels(spec.channels), op.result_dtype(spec.dtype)
    return Spec(frames, height, width, channels, dtype, spec.volume, None, spacing)


class _KernelStep(NamedTuple):
    """An operator within a fused kernel.

    Attributes:
        field: field of a row with its parameters.
        bytes: dtype of that field.
        moves: whether it moves whole pixels.
        changes: whether it changes values.
    """

    field: str
    bytes: np.dtype[np.void]
    moves: bool
    changes: bool


class _Kernel(NamedTuple):
    """A fused kernel for operators with any parameters.

    Attributes:
        source: source of the kernel.
        defines: macros.
        row: dtype of a row, with each operator's parameters as bytes, which NumPy copies ten times as fast.
        steps: step of each operator.
        resamples: whether the first operator resamples.
    """

    source: OpSource
    defines: dict[str, int]
    row: np.dtype[Any]
    steps: tuple[_KernelStep, ...]
    resamples: bool


@lru_cache(maxsize=256)
def _kernel_of(steps: tuple[tuple[type[Declaration], str], ...], dtype: str, channels: int) -> _Kernel:
    """Return the kernel for operators with the dtypes of their results, and an input dtype."""
    source, row = _source(steps)
    result = tuple(
        _KernelStep(
            f"step{number}", np.dtype((np.void, op.kernel_dtype().itemsize)), _moves(op), _changes(op)
        )
        for number, (op, _) in enumerate(steps)
    )
    defines = {
        "IN": TYPES[dtype],
        "OUT": TYPES[steps[-1][1]],
        "MOVES": int(any(step.moves for step in result)),
        "CHANNELS": channels,
    }
    return _Kernel(source, defines, row, result, _resamples(steps[0][0]))


@lru_cache(maxsize=256)
def _source(steps: tuple[tuple[type[Declaration], str], ...]) -> tuple[OpSource, np.dtype[Any]]:
    """Return the source for operators with the dtypes of their results, and the dtype of a row."""
    head = steps[0][0] if _resamples(steps[0][0]) else None
    fields: list[tuple[Any, ...]] = []
    functions, members, statements = [], [], []
    if head is None and any(_moves(op) for op, _ in steps):
        fields.append(("matrix", np.float32, (3, 3)))
        members.append("    Real matrix[9];")
    for number, (op, dtype) in enumerate(steps):
        step = f"step{number}"
        if op is head or _changes(op):
            fields.append((step, np.void, op.kernel_dtype().itemsize))
            members.append(f"    struct Step{number} {{\n{row_text(op.kernel_dtype())}\n    }} {step};")
        if _changes(op):
            functions.append(_function(number, op))
            statements.append(
                f"    if (row.{step}.acts) {step}(pixel, row.{step});\n"
                f"    for (int c = 0; c < CHANNELS; c++) pixel[c] = rounded<{TYPES[dtype]}>(pixel[c]);"
            )
    change = "__device__ __forceinline__ void change(Real (&pixel)[CHANNELS], const Row& row) {\n%s\n}"
    resampled = f"#define AXES(row) (row).step0\n#define MADE {TYPES[steps[0][1]]}"
    body = "\n".join([resampled if head else "", *functions, change % "\n".join(statements)])
    skeleton = "resample.cuh" if head else "chain.cuh"
    return OpSource(SKELETONS, skeleton, "\n".join(members), body), np.dtype(fields)


def _function(number: int, op: type[Declaration]) -> str:
    """Return the body of an operator as a C++ function of a pixel."""
    row = f"const Row::Step{number}& row"
    head = "__device__ __forceinline__"
    if op.traits.body is not None and op.traits.body.kind == "pixel":
        return f"{head} void step{number}(Real (&pixel)[CHANNELS], {row}) {{\n{op.traits.body.text}\n}}"
    text = op.traits.body.text if op.traits.body is not None else ""
    return (
        f"{head} Real value{number}(Real value, int channel, {row}) {{\n{text}\nreturn value;\n}}\n"
        f"{head} void step{number}(Real (&pixel)[CHANNELS], {row}) {{\n"
        f"    for (int c = 0; c < CHANNELS; c++) pixel[c] = value{number}(pixel[c], c, row);\n}}"
    )


@dataclass(frozen=True)
class Composed:
    """Operators that form one mapping.

    Attributes:
        ops: the operators in order, two or more.
        interpolation: their common interpolation.
    """

    ops: tuple[Op, ...]
    interpolation: Interpolated

    def operator(self, x: Any, layout: str | None, epoch: int, index: Any) -> WarpPerspective:
        """Return one operator with the product of the mappings that the operators sample for an input."""
        values: Seq[Any] = x if isinstance(x, (list, tuple)) else (x,)
        if isinstance(x, Batch):
            index = x.indices if index is None else index
            values, layout = (x.sequences, None) if x.stacked is None else ((x,), layout)
        calls = [BoundCall.of(self.ops[0], values, layout, epoch, index)]
        for op in self.ops[1:]:
            calls.append(calls[-1].then(op, result_specs(calls[-1]), epoch, index))
        sizes = {(spec.height, spec.width) for spec in result_specs(calls[-1])}
        if len(sizes) > 1:
            raise ParameterError(
                f"results of different sizes, {sorted(sizes)}",
                source=" → ".join(op.name for op in self.ops),
                advice="Pass the samples one by one, or fuse='exact'",
            )
        interp_type, fill_value = self.interpolation
        return WarpPerspective(
            matrix=_product_matrices(calls), size=sizes.pop(), interp_type=interp_type, fill_value=fill_value
        )


def compositions(ops: Seq[Op]) -> Iterator[Composed | Op]:
    """Yield the operators in order, with neighbors that can form one mapping composed."""
    group: list[Op] = []
    common = WHOLE_PIXELS
    for op in ops:
        own = op.composable if isinstance(op, Geometry) else None
        both = None if own is None else _common(common, own)
        if group and both is None:
            yield from _closed(group, common)
            group, common = [], WHOLE_PIXELS
            both = own
        if both is None:
            yield op
        else:
            group.append(op)
            common = both
    yield from _closed(group, common)


def _closed(group: list[Op], common: Interpolated) -> Iterator[Composed | Op]:
    """Yield a group as one, unless it only moves whole pixels, which needs no interpolation."""
    if len(group) > 1 and common is not WHOLE_PIXELS:
        yield Composed(tuple(group), common)
    else:
        yield from group


def _common(own: Interpolated, other: Interpolated) -> Interpolated | None:
    if own is WHOLE_PIXELS or own == other:
        return other if other is not WHOLE_PIXELS else own
    return own if other is WHOLE_PIXELS else None


def _product_matrices(calls: Seq[BoundCall]) -> Any:
    """Return the product of the mappings as the parameter ``matrix``, for each sample or for each frame."""
    specs, by_frame = calls[0].specs, any(call.block.step for call in calls)
    result: list[npt.NDArray[Any]] = []
    for sample, spec in enumerate(specs):
        product: npt.NDArray[Any] = np.eye(3)[None]
        for call in calls:
            op: Any = call.op
            rows = call.block.of(sample, spec.frames)
            product = product @ op.mappings(rows, call.specs[sample]).matrices
        result.append(np.broadcast_to(product, (spec.frames if by_frame else 1, 3, 3)).reshape(-1, 9))
    if not by_frame:
        return np.concatenate(result)
    if len({len(part) for part in result}) > 1:
        raise ParameterError(
            "different mappings for frames, in sequences of different lengths",
            source=" → ".join(call.op.name for call in calls),
            advice="Pass the sequences one by one, or fuse='exact'",
        )
    return per_frame(np.stack(result))


class Planned(NamedTuple):
    """An operator with its sampled parameters.

    Attributes:
        op: the operator.
        specs: the samples that it gets.
        mappings: for each sample, the mapping from its result to its input; empty if the operator moves no pixels.
    """

    op: Op
    specs: list[Spec]
    mappings: list[Mapping]


def planned(ops: Seq[Op], specs: Seq[Spec], epoch: int, index: Any) -> list[Planned]:
    """Sample the parameters of consecutive operators for some samples.

    The parameters are those that the operators sample when they are called with such samples, for the same epoch and
    indices; each is one for all frames of a sample.
    """
    result = []
    current = list(specs)
    for op in ops:
        for spec in dict.fromkeys(current):
            check(op, spec)
        call = BoundCall(op, (), current, resolve(op, current, epoch, indices_of(op, index, len(current))))
        result.append(Planned(op, current, _mappings(call)))
        current = result_specs(call)
    return result


def _mappings(call: BoundCall) -> list[Mapping]:
    op, block, specs = call.op, call.block, call.specs
    if not isinstance(op, Geometry):
        return []
    if block.constant is not None:
        return op.mappings(block.rows, specs[0]).each() * len(specs)
    if alike(specs) and not block.step:
        return op.mappings(block.of_all(0, len(specs), specs[0].frames), specs[0]).each()
    return [
        op.mappings(block.of(sample, spec.frames)[:1], spec).each()[0] for sample, spec in enumerate(specs)
    ]


def leading(chain: Any) -> tuple[Op, ...]:
    """Return the operators on all images at the start of a chain, up to the first composed mapping."""
    return tuple(
        takewhile(lambda part: isinstance(part, Op) and part.image_names is None, chain.composed_ops())
    )
