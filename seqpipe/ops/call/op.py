"""Calls of operators: Op and its kin, and their application to arrays, sequences, batches, lists and samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from ...array import Array, device_of, namespace
from ...core.kernel import KernelDevice
from ...errors import ResultSizesError
from ...parts import Part, is_labels
from ...sequence import Batch, Sequence
from ..core.blocks import Block, constant_of, resolve
from ..core.declaration import Declaration
from ..core.deferred import node_of
from ..core.distributions import Percentiles
from ..core.intensity import (
    Intensities,
    IntensityRange,
    intensities,
    limits_of,
    missing_range_error,
    range_param,
)
from ..core.nodes import DataNode
from ..core.parameters import param
from ..core.sampling import alike, indices_of
from ..core.spec import COMPUTED_DTYPES, Backend, CallOptions, Spec, ValueMap
from ..core.types import Type
from ..cuda.kernel import Item
from .backends import check_backend, on_device_of, run, run_on_host
from .inputs import (
    CallInput,
    as_input,
    check,
    check_memory,
    check_not_empty,
    check_size,
    check_value_type,
    is_sample,
    like_container,
)

__all__ = [
    "Applied",
    "BoundCall",
    "Op",
    "OutputDtype",
    "Ranged",
    "apply",
    "as_list",
    "handles_samples",
    "is_pending",
]

X = TypeVar("X")

_CHECKED_FROM_PIXELS: Final = 1 << 26  # smaller results are not compared with the memory of the device
_NO_ARRAYS: Final = (Sequence, Batch, list, tuple, Mapping)
_sample_handlers: list[Callable[..., Any]] = []


def handles_samples(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register the function that :func:`apply` calls for mappings of names to parts, and for labels alone.

    It needs geometry and flow, which import this module.
    """
    _sample_handlers.append(function)
    return function


class BoundCall(NamedTuple):
    """An operator with its inputs and sampled parameters.

    Attributes:
        op: the operator.
        parts: inputs, one for each array.
        specs: spec of each sample.
        block: parameters of the samples.
    """

    op: Declaration
    parts: Seq[CallInput]
    specs: list[Spec]
    block: Block

    @classmethod
    def of(cls, op: Declaration, values: Seq[Any], layout: str | None, epoch: int, index: Any) -> BoundCall:
        """Bind an operator to some values."""
        _check_takes(op)
        parts = [as_input(op, value, layout) for value in values]
        if len(parts) > 1:
            _check_alike(op, parts)
        op = op.for_inputs(parts)
        specs: list[Spec] = []
        for part in parts:
            specs += op.specs_of(part)
        return cls(op, parts, specs, resolve(op, specs, epoch, _indices(op, parts, index)))

    def then(self, op: Declaration, specs: list[Spec], epoch: int, index: Any) -> BoundCall:
        """Bind another operator to the results of this call."""
        for spec in specs[:1] if alike(specs) else dict.fromkeys(specs):
            check(op, spec)
        return BoundCall(op, self.parts, specs, resolve(op, specs, epoch, _indices(op, self.parts, index)))

    def results(
        self, backend: Backend | None, device: KernelDevice | None, *, allow_view: bool = False
    ) -> list[Array]:
        """Compute the results, an array for each input."""
        outs, items, sample = [], [], 0
        with on_device_of(self.parts[0].array):
            for part in self.parts:
                out = self._view(part, sample) if allow_view else None
                if out is None:
                    out = part.result(part.form.dtype, _extent(self.op, part, self.block, sample))
                    items.append(Item(part.nfhwc, part.result_nfhwc(out), sample))
                outs.append(out)
                sample += part.samples
            if items:
                run(self.op, items, self.specs, self.block, backend, device)
        return outs

    def _view(self, part: CallInput, sample: int) -> Array | None:
        """Return the result as a view if it is the same crop of every image, else None."""
        rows = self.block.of_all(sample, sample + part.samples, part.spec.frames)
        window = self.op.crop_window(rows, part.spec)
        return None if window is None else part.array[part.view.window(*window)]

    def wrap_results(self, outs: Seq[Array]) -> list[Any]:
        """Return the results as the types of the inputs, with transformed metadata."""
        results, sample = [], 0
        for part, out in zip(self.parts, outs, strict=True):
            result = part.like_value(out)
            is_sequence = isinstance(part.value, Sequence)
            results.append(self.sequence(part.value, result, sample) if is_sequence else result)
            sample += part.samples
        return results

    def sequence(self, source: Sequence, data: Array, sample: int) -> Sequence:
        """Return the result of a sequence: its pixels with the sequence's metadata, transformed."""
        layout = self.op.result_layout(source.layout)
        if self.op.traits.keeps_frames and source.affine is None:
            return source.with_pixels(data, layout)
        return replace(source, data=data, layout=layout, **self.metadata(source, sample))

    def metadata(self, source: Sequence, sample: int) -> dict[str, Any]:
        """Return the affine, frame numbers and timestamps of the result of a sequence, where they change."""
        spec = self.specs[sample]
        rows = self.block.of(sample, spec.frames)
        moved: dict[str, Any] = {}
        if source.affine is not None:
            moved["affine"] = self.op.moved_affine(rows, spec, source.affine)
        if not self.op.traits.keeps_frames and "D" not in source.layout:
            order = self.op.frame_order(rows, spec)
            clocks = {name: getattr(source, name) for name in ("frames", "timestamps")}
            moved |= {name: values[order] for name, values in clocks.items() if values is not None}
        return moved

    def mask(self, mask: Array) -> Array:
        """Apply the motion of the images to masks ``(N, F, H, W)``."""
        specs = [spec._replace(channels=1, dtype="bool") for spec in self.specs]
        return self.op.moved_mask(mask[..., None], specs, self.block)[..., 0]


def apply(
    op: Declaration,
    x: Any,
    *,
    layout: str | None = None,
    epoch: int = 0,
    index: Any = None,
    backend: Backend | None = None,
    device: KernelDevice | None = None,
    allow_view: bool = False,
) -> Any:
    """Apply an operator on images or volumes; see :meth:`seqpipe.ops.Op.__call__`.

    Args:
        op: the operator.
        x: the input.
        layout: layout of arrays.
        epoch: epoch that parameters are sampled for.
        index: indices of the samples, or the index of the first.
        backend: implementation; None for the kernel on a GPU and the fast implementation on the CPU.
        device: device that runs the kernel; None for the GPU that holds the images.
        allow_view: whether the result may be a view of the input, because another operator reads it.
    """
    on_volumes = op.traits.takes == "volumes"
    if type(x) is np.ndarray and backend is None and not on_volumes:
        return _apply_to_array(op, as_input(op, x, layout), epoch, index)
    if on_volumes and not is_pending(op, x):
        options = CallOptions(layout=layout, epoch=epoch, index=index, backend=backend, device=device)
        return op.run_volumes(x, options)  # type: ignore[attr-defined]  # of operators on volumes
    check_backend(backend, op.name)
    many = False
    if isinstance(x, _NO_ARRAYS):
        if is_sample(x) or is_labels(x):
            (handler,) = _sample_handlers
            return handler(op, x, layout=layout, epoch=epoch, index=index, backend=backend, device=device)
        if isinstance(x, Batch):
            indices = x.indices if index is None else index
            return _batch(op, x, layout, epoch, indices, backend, device, allow_view=allow_view)
        if isinstance(x, (list, tuple)):
            many = True
            check_not_empty(op, x)
    call = BoundCall.of(op, x if many else (x,), layout, epoch, index)
    results = call.wrap_results(call.results(backend, device, allow_view=allow_view))
    return like_container(x, results) if many else results[0]


def is_pending(target: Any, x: Any) -> bool:
    """Return whether the parts of a sample, or the parameters of an operator that is called with it, are nodes."""
    return isinstance(x, Mapping) and (
        bool(target.pending)
        or any(isinstance(part.data if isinstance(part, Part) else part, DataNode) for part in x.values())
    )


def _apply_to_array(op: Declaration, part: CallInput, epoch: int, index: Any) -> Array:
    """Do what :class:`BoundCall` does, in fewer steps: the overhead of a call dominates for small arrays."""
    _check_takes(op)
    op = op.for_inputs((part,))
    form = part.form
    series = form.view.is_series
    indices = _indices(op, (part,), index) if series else indices_of(op, index, form.samples)
    block = resolve(op, op.specs_of(part), epoch, indices)
    out = part.result(form.dtype, _extent(op, part, block, 0))
    run_on_host(op, Item(form.view(part.array), form.result_view(out), 0), block, fast=form.fast)
    return out


def _extent(op: Declaration, part: CallInput, block: Block, sample: int) -> tuple[int, int, int]:
    """Return frames, height and width of the results of an input whose first sample is number ``sample``."""
    if op.traits.keeps_size and op.traits.keeps_frames:
        return part.form.spec[:3]
    constant = block.constant
    extent = _common_extent(op, part, block, sample) if constant is None else constant.extent
    check_size(op, "results", *extent[1:])
    if (pixels := part.form.samples * math.prod(extent)) >= _CHECKED_FROM_PIXELS:
        size = pixels * part.form.channels * part.form.dtype.itemsize
        what = f"{part.form.samples} × {extent[0]} results of {extent[1]}×{extent[2]} pixels"
        check_memory(
            op, what, size, namespace(part.array), "Choose a smaller size, or fewer frames in a call"
        )
    return extent


def _common_extent(op: Declaration, part: CallInput, block: Block, sample: int) -> tuple[int, int, int]:
    """Return the one extent of samples with varying parameters; raise an error if they differ."""
    result = block.extents(op, range(sample, sample + part.form.samples), part.form.spec)
    if len(result) > 1:
        extents = sorted(result)
        sizes = sorted({extent[1:] for extent in extents})
        what = f"sizes, {sizes}" if len(sizes) > 1 else f"lengths, {[extent[0] for extent in extents]} frames"
        raise ResultSizesError(
            f"results of different {what}, of samples in one array",
            source=op.name,
            advice=as_list(op),
        )
    return result.pop()


def as_list(op: Declaration) -> str:
    """Return the advice for results of different sizes."""
    keeps = ", or keep_size=True" if any(q.name == "keep_size" for q in op.parameters) else ""
    return f"Give the samples as a list{keeps}"


def _batch(
    op: Declaration,
    batch: Batch,
    layout: str | None,
    epoch: int,
    index: Any,
    backend: Backend | None,
    device: KernelDevice | None,
    *,
    allow_view: bool,
) -> Batch:
    if batch.stacked is None:
        if layout not in (None, batch.layout):
            raise op.refusal(f"layout={layout!r} of a batch of layout {batch.layout}")
        call = BoundCall.of(op, batch.sequences, None, epoch, index)
        results = call.results(backend, device, allow_view=allow_view)
        fresh = Batch.of(call.wrap_results(results))  # stacked, if the results have one shape
        sequences, stacked = fresh.sequences, fresh.stacked
    else:
        call = BoundCall.of(op, (batch,), layout, epoch, index)
        stacked = call.results(backend, device, allow_view=allow_view)[0]
        pairs = zip(batch.sequences, stacked, strict=True)
        sequences = tuple(call.sequence(source, data, n) for n, (source, data) in enumerate(pairs))
    mask = None if batch.mask is None else call.mask(batch.mask)
    return replace(batch, sequences=sequences, stacked=stacked, mask=mask)


def _check_takes(op: Declaration) -> None:
    if op.traits.takes != "images":
        raise op.refusal(f"an operator on {op.traits.takes}", advice="Call it by itself")


def _check_alike(op: Declaration, parts: Seq[CallInput]) -> None:
    for what, values in (
        ("types", {part.spec.dtype for part in parts}),
        ("devices", {device_of(part.array) for part in parts}),
    ):
        if len(values) > 1:
            raise op.refusal(
                f"arrays of different {what}, {', '.join(sorted(values))}", allowed="one for all"
            )


def _indices(op: Declaration, parts: Seq[CallInput], index: Any) -> Seq[int]:
    """Return the index of each sample; the time points of a volume share one."""
    count, series = 0, False
    for part in parts:
        count += part.form.samples
        series = series or part.form.view.is_series
    if not series:
        return indices_of(op, index, count)
    own = indices_of(op, index, sum(1 if part.view.is_series else part.samples for part in parts))
    numbers = iter(own)
    result: list[int] = []
    for part in parts:
        several = (
            [next(numbers)] * part.samples if part.view.is_series else list(islice(numbers, part.samples))
        )
        result += several
    return result


class Applied(Declaration, register=False):
    """Base of operators that are called with images, volumes, or samples of several parts."""

    def __call__(self, x: X, *, layout: str | None = None, epoch: int = 0, index: Any = None) -> X:
        """Apply the operator to images, a sequence, a volume, a sample of several parts, or a batch.

        Args:
            x: a NumPy, CuPy or torch array, a Sequence, a Batch; a mapping of names to parts (see
                :mod:`seqpipe.parts`), to which the same sampled parameters apply; a list of these; or a DataNode.
            layout: layout of arrays; by default HW, HWC, FHWC or NFHWC, by the number of axes. For an operator on
                volumes DHW, DHWC, CDHW, FDHWC, or one of these behind N; by default DHW, DHWC or NDHWC. The volumes of
                a series (F), such as the modalities of a 4-D NIfTI file, are treated as channels.
            epoch: the epoch that parameters are sampled for.
            index: index of the first sample within its dataset, or of each sample; sampled parameters depend on it. By
                default the indices of a Batch, else 0, 1, ….

        Returns:
            The result, of the same type and on the same device as ``x``, in its own memory; for a mapping a
            :class:`seqpipe.parts.Sample` whose ``history`` records the sampled parameters, and is empty for a batch. A
            DataNode, if ``x`` or a parameter is one; the graph is then called with epoch and index.

        Raises:
            ParameterError: the operator does not accept the layout, dtype, number of channels or size, or parts of a
                sample are not on one grid.
            BackendError: the data is on a GPU that cannot be used.
        """
        if type(x) is not np.ndarray and isinstance(x, Mapping):
            sample: X = apply(self, x, layout=layout, epoch=epoch, index=index)
            return sample
        # the type first: for an array this test takes almost no time
        if (type(x) is not np.ndarray and isinstance(x, DataNode)) or self.pending:
            options = {"layout": layout, **({"epoch": epoch} if epoch else {})}
            options |= {} if index is None else {"index": index}
            node: X = node_of(Applied.__call__, self, (x,), options)
            return node
        result: X = apply(self, x, layout=layout, epoch=epoch, index=index)
        return result


class Op(Applied, register=False):
    """Base class of operators on images.

    A subclass becomes a frozen dataclass and is registered by the name of its function (``class GammaCurve`` is
    ``fn.gamma_curve``), unless it is declared with ``register=False``. :func:`seqpipe.ops.param` declares its
    parameters; :class:`seqpipe.ops.Declaration` has the methods and traits to define. :mod:`seqpipe.ops` explains how
    to write an operator.
    """

    def value_map(self) -> ValueMap | None:
        """Return the affine map of values of an operator whose trait ``converted`` has ``"values"``."""
        return None

    def result_types(self, inputs: Seq[Type]) -> tuple[Type, ...]:
        """See :meth:`Deferrable.result_types`."""
        first = inputs[0]
        check_value_type(self, first)
        sides: dict[str, int | None] = {}
        if (count := first.side("C")) is not None:
            sides["C"] = self.result_channels(count)
        if not (self.traits.keeps_size and self.traits.keeps_frames):
            frames, rows, columns = self._extent_of(first)
            sides |= {} if self.traits.keeps_frames else {"D" if "D" in (first.layout or "") else "F": frames}
            sides |= {} if self.traits.keeps_size else {"H": rows, "W": columns}
        dtype = None if first.dtype is None else self.result_dtype(first.dtype)
        layout = None if first.layout is None else self.result_layout(first.layout)
        return (replace(first.resized(layout, sides), kind="images", dtype=dtype),)

    def _extent_of(self, value_type: Type) -> tuple[int | None, int | None, int | None]:
        """Return frames, rows and columns of the results; None if they are sampled or unknown."""
        if self.nodes:
            return None, None, None
        if value_type.spec is not None and self.is_constant and not self.needs_pixels:
            return constant_of(self, value_type.spec).extent
        return (None, *(self.fixed_size or (None, None)))


class OutputDtype(Declaration, register=False):
    """Parameter of operators whose result may have another dtype."""

    dtype: str | None = param(
        None, "dtype of the result; None for that of the input", choices=COMPUTED_DTYPES
    )

    def result_dtype(self, dtype: str) -> str:
        """Return the parameter ``dtype``, or the dtype of the input."""
        return self.dtype or dtype


class Ranged(Op, register=False):
    """Base of operators that use the intensities of dark and full."""

    range: IntensityRange = range_param()

    @property
    def needs_range(self) -> bool:
        """Whether the range affects the result with these parameters."""
        return True

    @property
    def needs_pixels(self) -> bool:
        """Whether the range depends on the values of the sample."""
        return self.range == "minmax" or isinstance(self.range, Percentiles)

    def check_sample(self, spec: Spec) -> None:
        """Check that a volume has a range.

        Raises:
            ParameterError: it has none.
        """
        if spec.volume and self.range is None and self.needs_range:
            raise missing_range_error(self.name)

    def specs_of(self, part: CallInput) -> list[Spec]:
        """Return the specs of the samples, with the limits of their values if the range depends on them."""
        specs = [part.form.spec] * part.form.samples
        wanted: Any = self.range
        if wanted is None or not self.needs_pixels:
            return specs
        if part.view.is_series:
            result = [limits_of(part.nfhwc, wanted)] * len(specs)
        else:
            result = [limits_of(voxels, wanted) for voxels in part.nfhwc]
        return [spec._replace(limits=limits) for spec, limits in zip(specs, result, strict=True)]

    def intensities(self, spec: Spec, dtype: str = "") -> Intensities:
        """Return the range for a sample; see :func:`seqpipe.ops.core.intensity.intensities`."""
        return intensities(self.range, spec, dtype)
