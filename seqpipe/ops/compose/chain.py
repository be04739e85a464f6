"""Chain: operators one after the other, with as few passes over the pixels as their meaning allows."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, get_args

import numpy as np

from ...array import device_of
from ...errors import ParameterError
from ...kernel import KernelDevice
from ...sequence import Batch, Sequence
from ..arrays.base import Shaping
from ..call.dispatch import apply
from ..call.inputs import gathered
from ..call.op import Op
from ..core.declaration import Declaration
from ..core.deferred import Maker, or_node
from ..core.occurrences import Occurrences
from ..core.spec import Backend
from ..core.views import DEFAULT_LAYOUTS
from .composed import Composed, compositions
from .fused import can_join, can_lead, fused
from .parts import moved_sample

__all__ = ["Chain"]

Fuse: TypeAlias = Literal["exact", "compose"]
X = TypeVar("X")


@dataclass(frozen=True)
class Chain(Maker):
    """Operators, one after the other.

    The result is that of calling :attr:`ops` one after the other, to the last bit; operators of one name and one seed
    draw apart in a chain, as :mod:`seqpipe.ops.core.occurrences` says. On a GPU, neighbors that change values pixel by
    pixel, or move whole pixels, are done by one kernel, together with what resamples the images before them: pixels are
    read once and written once.

    With ``fuse="compose"``, neighbors that move pixels, and agree on interpolation and on what is outside, become one
    mapping: pixels are interpolated once, so that images stay sharper, and what one operator moves out of the image
    another can bring back. Antialiased resizing stands alone, for there a pixel is the mean of many.

    Args:
        ops: the operators, in their order; as attribute each draws as it does in the chain.
        fuse: ``"exact"``, or ``"compose"``.

    Raises:
        ParameterError: there are none, or something else is among them.
    """

    moves_samples: ClassVar[bool] = True
    ops: tuple[Op, ...]
    fuse: Fuse = "exact"

    def __init__(self, *ops: Op, fuse: Fuse = "exact") -> None:
        for op in ops:
            if not isinstance(op, Op):
                raise _refusal(op)
        if not ops:
            raise ParameterError("a chain of no operators", source="Chain", allowed="one or more")
        if fuse not in get_args(Fuse):
            allowed = ", ".join(map(repr, get_args(Fuse)))
            raise ParameterError(f"fuse={fuse!r} is not valid", source="Chain", allowed=allowed)
        object.__setattr__(self, "ops", Occurrences().of(ops))
        object.__setattr__(self, "fuse", fuse)

    @classmethod
    def part(cls, ops: Seq[Op], fuse: Fuse = "exact") -> Chain:
        """A chain of operators that draw as they do in what they are a part of; arguments as for a chain."""
        found = object.__new__(cls)
        object.__setattr__(found, "ops", tuple(ops))
        object.__setattr__(found, "fuse", fuse)
        return found

    def __repr__(self) -> str:
        how = "" if self.fuse == "exact" else f", fuse={self.fuse!r}"
        return f"Chain({', '.join(map(repr, self.ops))}{how})"

    @property
    def makers(self) -> tuple[Op, ...]:
        """The operators, of which parameters may be nodes."""
        return self.ops

    @property
    def title(self) -> str:
        """Their names."""
        return " → ".join(op.name for op in self.ops)

    def rebuilt(self, makers: Seq[Op]) -> Chain:
        """The same with other operators."""
        return Chain.part(makers, self.fuse)

    @or_node
    def __call__(
        self,
        x: X,
        *,
        layout: str | None = None,
        epoch: int = 0,
        index: Any = None,
        backend: Backend | None = None,
        device: KernelDevice | None = None,
    ) -> X:
        """The result for images, a sequence, a volume, or a batch; see :meth:`seqpipe.ops.Op.__call__`.

        Args:
            x: what they are to act on; a mapping of names to parts is moved by one draw of each operator.
            layout: of arrays.
            epoch: the epoch that draws are for.
            index: the samples' indices, or that of the first.
            backend: who does it; None for kernels on a GPU and the fast forms on the CPU.
            device: what kernels run on; None for the GPU that holds the images.

        Raises:
            ParameterError: one of the operators does not take what it is given.
            BackendError: the data is on a GPU that cannot be used.
        """
        options = {"layout": layout, "epoch": epoch, "index": index}
        if type(x) is not np.ndarray and isinstance(x, Mapping):
            sample: X = moved_sample(self, x, backend=backend, device=device, **options)
            return sample
        result: Any = x
        by_kernel = _by_kernel(x, backend)
        for step in self._steps:
            done, one_by_one = None, _ops_of(step)
            if isinstance(step, Composed):
                one_by_one = (step.operator(result, **options),)
            elif by_kernel and len(step) > 1:
                done = _together(step, result, device=device, **options)
            if done is not None:
                result = done
                if step is not self._steps[-1]:
                    options["layout"] = _layout_after(_ops_of(step), done, options["layout"])
                continue
            for op in one_by_one:
                passing = by_kernel and op is not self.ops[-1]
                result = apply(op, result, backend=backend, device=device, passing=passing, **options)
                options["layout"] = _layout_after((op,), result, options["layout"])
        found: X = result
        return found

    def passes(self) -> list[Composed | Op]:
        """The operators one by one, but for those that are one mapping together."""
        return list(compositions(self.ops)) if self.fuse == "compose" else list(self.ops)

    def groups(self) -> list[tuple[Op, ...]]:
        """The operators that one kernel does together, on a GPU."""
        return [_ops_of(step) for step in self._steps]

    @cached_property
    def _steps(self) -> list[Composed | tuple[Op, ...]]:
        found: list[Composed | tuple[Op, ...]] = []
        for part in self.passes():
            last = found[-1] if found else ()
            if isinstance(part, Composed):
                found.append(part)
            elif isinstance(last, tuple) and last and can_join(part) and can_lead(last[-1]):
                found[-1] = (*last, part)
            else:
                found.append((part,))
        return found

    def explain(self) -> str:
        """What is done on a GPU, a line for each pass over the pixels."""
        lines = []
        for number, step in enumerate(self._steps, 1):
            first, *_ = group = _ops_of(step)
            how = "one kernel" if first.traits.body is not None else "by the reference, on CuPy's arrays"
            how = "a kernel for each step, of all samples" if first.traits.composed else how
            how = "one mapping, interpolated once" if isinstance(step, Composed) else how
            lines.append(f"{number}. {' → '.join(op.name for op in group)}: {how}")
        return "\n".join(lines)


def _refusal(op: Any) -> ParameterError:
    """Why something cannot be part of a chain."""
    if not isinstance(op, Declaration):
        fact, advice = f"a chain with a {type(op).__name__}", "Chain(ops.Flip(), ops.Crop(crop=(112, 112)))"
    else:
        fact = f"a chain with {op.name}, which acts on {op.traits.takes}"
        advice = f"Call it on what the chain gives: {type(op).__name__}(…)(chain(x))"
        if isinstance(op, Shaping):
            advice += (
                "; or take ops.CropMirrorNormalize(output_layout='CHW'), which puts axes into another order"
            )
    return ParameterError(
        fact, source="Chain", allowed="operators on images, each a seqpipe.ops.Op", advice=advice
    )


def _ops_of(step: Composed | tuple[Op, ...]) -> tuple[Op, ...]:
    return step.ops if isinstance(step, Composed) else step


def _layout_after(group: Seq[Op], result: Any, layout: str | None) -> str | None:
    """The layout of arrays that a group has made; None where they know it, or the default is right."""
    first = result[0] if isinstance(result, (list, tuple)) else result
    if isinstance(first, (Sequence, Batch)):
        return None
    before = layout or DEFAULT_LAYOUTS[first.ndim]
    after = reduce(lambda letters, op: op.result_layout(letters), group, before)
    return layout if after == before else after


def _by_kernel(x: Any, backend: Backend | None) -> bool:
    if backend is not None:
        return backend == "cuda"
    first = x[0] if isinstance(x, (list, tuple)) and x else x
    if isinstance(first, Batch):
        first = first[0]  # samples that differ in size have no array together
    if isinstance(first, Sequence):
        return first.device != "cpu"
    return hasattr(first, "__dlpack_device__") and device_of(first) != "cpu"


def _together(
    group: Seq[Op], x: Any, *, layout: str | None, epoch: int, index: Any, device: KernelDevice | None
) -> Any:
    """The result of a group by one kernel; None where its values do not allow it."""
    if isinstance(x, Batch):
        return _batch(group, x, layout=layout, epoch=epoch, index=index, device=device)
    many = isinstance(x, (list, tuple))
    if many and not x:
        return None
    work = fused(group, x if many else (x,), layout, epoch, index)
    if work is None:
        return None
    results = work.finished(work.results(device))
    return gathered(x, results) if many else results[0]


def _batch(
    group: Seq[Op],
    batch: Batch,
    *,
    layout: str | None,
    epoch: int,
    index: Any,
    device: KernelDevice | None,
) -> Batch | None:
    """A batch whose sequences lie in one array; others go one operator after the other."""
    if batch.stacked is None:
        return None
    work = fused(group, (batch,), layout, epoch, batch.indices if index is None else index)
    if work is None:
        return None
    stacked = work.results(device)[0]
    pairs = zip(batch.sequences, stacked, strict=True)
    sequences = tuple(work.sequence(given, data, n) for n, (given, data) in enumerate(pairs))
    mask = None if batch.mask is None else work.mask(batch.mask)
    return replace(batch, sequences=sequences, stacked=stacked, mask=mask)
