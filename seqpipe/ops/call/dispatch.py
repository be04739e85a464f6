"""An operator applied to whatever the user holds: arrays, sequences, batches, lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from ...array import Array, device_of
from ...errors import ParameterError
from ...kernel import KernelDevice
from ...random import stream_index
from ...sequence import Batch, Sequence
from ..core.blocks import Block, resolve
from ..core.declaration import Declaration
from ..core.sampling import alike
from ..core.spec import Backend, Spec
from ..cuda.kernel import Item
from .backends import check_backend, on_device_of, on_host, run
from .inputs import Given, check, check_size, check_some, gathered, given

__all__ = ["BoundCall", "apply", "as_list", "indices_of", "moving_samples", "window_taken"]

_moving: list[Callable[..., Any]] = []


def moving_samples(function: Callable[..., Any]) -> Callable[..., Any]:
    """Have :func:`apply` call a function, with its own arguments, for samples that are mappings of names to parts.

    What moves their parts knows geometry and flow, which are built on calls.
    """
    _moving.append(function)
    return function


class BoundCall(NamedTuple):
    """An operator and what it is about to act on, its parameters resolved.

    Attributes:
        op: the operator.
        parts: what was given, one for each array.
        specs: each sample.
        block: their parameters.
    """

    op: Declaration
    parts: Seq[Given]
    specs: list[Spec]
    block: Block

    @classmethod
    def of(cls, op: Declaration, values: Seq[Any], layout: str | None, epoch: int, index: Any) -> BoundCall:
        """A call for some values.

        Raises:
            ParameterError: a value is not one that the operator takes, or they do not go together.
        """
        _check_takes(op)
        parts = [given(op, value, layout) for value in values]
        if len(parts) > 1:
            _check_alike(op, parts)
        op = op.among(parts)
        specs: list[Spec] = []
        for part in parts:
            specs += op.specs_of(part)
        return cls(op, parts, specs, resolve(op, specs, epoch, _indices(op, parts, index)))

    def then(self, op: Declaration, specs: list[Spec], epoch: int, index: Any) -> BoundCall:
        """Another operator's call, for what this one makes.

        Raises:
            ParameterError: it does not take that.
        """
        for spec in specs[:1] if alike(specs) else dict.fromkeys(specs):
            check(op, spec)
        return BoundCall(op, self.parts, specs, resolve(op, specs, epoch, _indices(op, self.parts, index)))

    def results(
        self, backend: Backend | None, device: KernelDevice | None, *, passing: bool = False
    ) -> list[Array]:
        """The results' pixels, an array for each part.

        Args:
            backend: who does it.
            device: what kernels run on.
            passing: whether they are only passed on, and so may be views of what is given.
        """
        outs, items, sample = [], [], 0
        with on_device_of(self.parts[0].array):
            for part in self.parts:
                out = self._view(part, sample) if passing else None
                if out is None:
                    out = part.result(part.form.dtype, _extent(self.op, part, self.block, sample))
                    items.append(Item(part.five, part.seen(out), sample))
                outs.append(out)
                sample += part.samples
            if items:
                run(self.op, items, self.specs, self.block, backend, device)
        return outs

    def window(self, part: Given, sample: int) -> tuple[slice, ...] | None:
        """The part of an array that the result is, if that is the same window of every image; else None.

        Args:
            part: the array.
            sample: the number of its first sample in the call.
        """
        rows = self.block.of_all(sample, sample + part.samples, part.spec.frames)
        window = self.op.part_taken(rows, part.spec)
        if window is None:
            return None
        places = part.view.places
        cut = [slice(None)] * len(places)
        cut[places.index(2)], cut[places.index(3)] = window
        return tuple(cut)

    def _view(self, part: Given, sample: int) -> Array | None:
        """The result as a view, if it is the same window of every image."""
        window = self.window(part, sample)
        return None if window is None else part.array[window]

    def finished(self, outs: Seq[Array]) -> list[Any]:
        """The results as the types that were given, their metadata moved along."""
        results, sample = [], 0
        for part, out in zip(self.parts, outs, strict=True):
            result = part.back(out)
            is_sequence = isinstance(part.value, Sequence)
            results.append(self.sequence(part.value, result, sample) if is_sequence else result)
            sample += part.samples
        return results

    def sequence(self, given: Sequence, data: Array, sample: int) -> Sequence:
        """The result of a sequence: its pixels with what the sequence knows, moved along."""
        layout = self.op.result_layout(given.layout)
        if self.op.traits.keeps_frames and given.affine is None:
            return given.with_pixels(data, layout)
        spec = self.specs[sample]
        rows = self.block.of(sample, spec.frames)
        moved: dict[str, Any] = {"data": data, "layout": layout}
        if given.affine is not None:
            moved["affine"] = self.op.moved_affine(rows, spec, given.affine)
        if not self.op.traits.keeps_frames and "D" not in given.layout:
            order = self.op.frame_order(rows, spec)
            clocks = {name: getattr(given, name) for name in ("frames", "timestamps")}
            moved |= {name: values[order] for name, values in clocks.items() if values is not None}
        return replace(given, **moved)

    def mask(self, mask: Array) -> Array:
        """Masks ``(N, F, H, W)`` moved along."""
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
    passing: bool = False,
) -> Any:
    """The result of an operator; see :meth:`seqpipe.ops.Op.__call__`.

    Args:
        op: the operator.
        x: what it is to act on.
        layout: of arrays.
        epoch: the epoch that draws are for.
        index: the samples' indices, or that of the first.
        backend: who does it; None for the kernel on a GPU and the fast form on the CPU.
        device: what the kernel runs on; None for the GPU that holds the images.
        passing: whether the result is only passed on to another operator, and so may be a view.
    """
    if type(x) is np.ndarray and backend is None:
        return _here(op, given(op, x, layout), epoch, index)
    check_backend(backend, op.name)
    if isinstance(x, Mapping):
        (moved,) = _moving
        return moved(op, x, layout=layout, epoch=epoch, index=index, backend=backend, device=device)
    if isinstance(x, Batch):
        indices = x.indices if index is None else index
        return _batch(op, x, layout, epoch, indices, backend, device, passing=passing)
    many = isinstance(x, (list, tuple))
    if many:
        check_some(op, x)
    call = BoundCall.of(op, x if many else (x,), layout, epoch, index)
    results = call.finished(call.results(backend, device, passing=passing))
    return gathered(x, results) if many else results[0]


def window_taken(
    op: Declaration, shape: tuple[int, ...], dtype: np.dtype[Any], layout: str
) -> tuple[slice, ...] | None:
    """The part of an array that an operator of constant parameters gives as its result; None if it does more.

    Args:
        op: the operator.
        shape: of the array.
        dtype: of its values.
        layout: of its axes.

    Raises:
        ParameterError: the operator does not take such an array.
    """
    call = BoundCall.of(op, (np.broadcast_to(np.zeros((), dtype), shape),), layout, 0, None)
    return call.window(call.parts[0], 0)


def _here(op: Declaration, part: Given, epoch: int, index: Any) -> Array:
    """What :class:`BoundCall` does, in fewer steps: for tiny arrays, these steps are all that takes time."""
    _check_takes(op)
    op = op.among((part,))
    form = part.form
    series = form.view.is_series
    indices = _indices(op, (part,), index) if series else indices_of(op, index, form.samples)
    block = resolve(op, op.specs_of(part), epoch, indices)
    out = part.result(form.dtype, _extent(op, part, block, 0))
    on_host(op, Item(form.view(part.array), form.seen(out), 0), block, fast=form.fast)
    return out


def _extent(op: Declaration, part: Given, block: Block, sample: int) -> tuple[int, int, int]:
    """Frames, rows and columns of the results of an array, whose first sample has a number."""
    if op.traits.keeps_size and op.traits.keeps_frames:
        return part.form.spec[:3]
    constant = block.constant
    extent = _common_extent(op, part, block, sample) if constant is None else constant.extent
    check_size(op, "results", *extent[1:])
    return extent


def _common_extent(op: Declaration, part: Given, block: Block, sample: int) -> tuple[int, int, int]:
    """That of samples with parameters of their own, which is one for all of them."""
    found = block.extents(op, range(sample, sample + part.form.samples), part.form.spec)
    if len(found) > 1:
        extents = sorted(found)
        sizes = sorted({extent[1:] for extent in extents})
        what = f"sizes, {sizes}" if len(sizes) > 1 else f"lengths, {[one[0] for one in extents]} frames"
        raise ParameterError(
            f"results of different {what}, of samples in one array",
            source=op.name,
            advice=as_list(op),
        )
    return found.pop()


def as_list(op: Declaration) -> str:
    """What to do where the results of an operator differ in size."""
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
    passing: bool,
) -> Batch:
    if batch.stacked is None:
        if layout not in (None, batch.layout):
            raise ParameterError(f"layout={layout!r} of a batch of layout {batch.layout}", source=op.name)
        call = BoundCall.of(op, batch.sequences, None, epoch, index)
        results = call.results(backend, device, passing=passing)
        fresh = Batch.of(call.finished(results))  # stacked, if they have one shape now
        sequences, stacked = fresh.sequences, fresh.stacked
    else:
        call = BoundCall.of(op, (batch,), layout, epoch, index)
        stacked = call.results(backend, device, passing=passing)[0]
        pairs = zip(batch.sequences, stacked, strict=True)
        sequences = tuple(call.sequence(given, data, n) for n, (given, data) in enumerate(pairs))
    mask = None if batch.mask is None else call.mask(batch.mask)
    return replace(batch, sequences=sequences, stacked=stacked, mask=mask)


def _check_takes(op: Declaration) -> None:
    if op.traits.takes != "images":
        raise ParameterError(f"an operator on {op.traits.takes}", source=op.name, advice="Call it by itself")


def _check_alike(op: Declaration, parts: Seq[Given]) -> None:
    for what, found in (
        ("types", {part.spec.dtype for part in parts}),
        ("devices", {device_of(part.array) for part in parts}),
    ):
        if len(found) > 1:
            raise ParameterError(
                f"arrays of different {what}, {', '.join(sorted(found))}",
                source=op.name,
                allowed="one for all",
            )


def _indices(op: Declaration, parts: Seq[Given], index: Any) -> Seq[int]:
    """The index of each sample of some parts; the time points of a volume have one."""
    count, series = 0, False
    for part in parts:
        count += part.form.samples
        series = series or part.form.view.is_series
    if not series:
        return indices_of(op, index, count)
    own = indices_of(op, index, sum(1 if part.view.is_series else part.samples for part in parts))
    numbers = iter(own)
    found: list[int] = []
    for part in parts:
        several = (
            [next(numbers)] * part.samples if part.view.is_series else list(islice(numbers, part.samples))
        )
        found += several
    return found


def indices_of(op: Declaration, index: Any, samples: int) -> Seq[int]:
    """The index of each sample, of what a call is given: those of all, that of the first, or none.

    Raises:
        ParameterError: these are not whole numbers from 0 on, or not as many as there are samples.
    """
    if index is None:
        return range(samples)
    try:
        indices = np.asarray(index)
    except ValueError:  # rows of different lengths
        indices = np.empty((0, 0), object)
    if indices.ndim == 0:
        first = stream_index(index, "index", op.name)
        stream_index(first + samples - 1, "index", op.name)
        return range(first, first + samples)
    if indices.shape != (samples,) or indices.dtype.kind not in "iu":
        raise ParameterError(
            f"index has the shape {indices.shape} and the type {indices.dtype}",
            source=op.name,
            allowed=f"a whole number, or {samples} of them",
        )
    return [stream_index(number, "index", op.name) for number in indices.tolist()]
