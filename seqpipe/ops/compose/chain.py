"""Chain: a sequence of operators, fused into few passes over the pixels.

A member of a chain is an operator on images, on the samples of a batch (Mixup), on arrays (Transpose), on sequences
(ElementExtract) or on volumes, a choice (OneOf, SomeOf), operators for some images of a sample (Only), or a chain with
another ``fuse``; members of other chains and lists become members of the chain. Consecutive operators on images are a
line, which is fused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, get_args, overload

import numpy as np

from ...array import Array, device_of
from ...cached import cached_property
from ...errors import ParameterError
from ...kernel import KernelDevice
from ...sequence import Batch, Sequence
from ..arrays.base import Arrays
from ..batch.base import Mixed, Mixing
from ..call.dispatch import apply
from ..call.functions import call_of
from ..call.inputs import gathered
from ..call.op import Op
from ..core.call_options import CallOptions
from ..core.declaration import Declaration
from ..core.deferred import Maker, or_node
from ..core.nodes import DataNode, Named, parts_of
from ..core.occurrences import Occurrences
from ..core.spec import Backend
from ..core.views import DEFAULT_LAYOUTS
from ..temporal.frames import ElementExtract
from ..volume.base import Volumetric
from ..volume.chain import VolumeChain
from .chain_json import chain_of_json, state_of_member
from .composed import Composed, compositions
from .fused import can_join, can_lead, fused
from .member import Member
from .parts import moved_sample
from .samples import layout_of, reference_of

__all__ = ["Chain"]

ChainFuse: TypeAlias = Literal["exact", "compose"]
X = TypeVar("X")
_Step: TypeAlias = "Composed | tuple[Op, ...]"


@dataclass(frozen=True)
class Chain(Maker):
    """A sequence of operators.

    The result equals that of calling :attr:`ops` one after the other, to the last bit, except that operators of the
    same name and seed are sampled independently of each other; see :mod:`seqpipe.ops.core.occurrences`. On a GPU, one
    kernel runs consecutive operators that change single pixels or move whole pixels, and a resampling operator before
    them, so pixels are read and written once.

    With ``fuse="compose"``, consecutive geometric operators with the same interpolation and fill value become one
    mapping: pixels are interpolated once, so images stay sharper, and pixels that one operator moves out of the image
    may be moved back by another. Antialiased resizing is not composed.

    Operators on volumes are always composed: consecutive geometric operators with the same interpolation and fill value
    become one mapping, and each part is resampled once. A second elastic field starts another pass, as does smoothing
    before downsampling (``antialias``). Operators on images between them act on slices.

    A chain is a value: it prints its members, converts to JSON and back, supports indexing, and chains can be added.

    Axis numbers of operators on arrays, such as Transpose, are those of a sample. Mixup and CutMix need a batch: they
    mix the labels that the chain is called with, or those of a :class:`seqpipe.Batch`, whose ``labels`` become floats
    ``(N, classes)``. An operator that returns several values must be the last one.

    Args:
        *ops: operators on images, batches, arrays, sequences or volumes, :class:`OneOf`, :class:`SomeOf`,
            :class:`Only`, other chains, and lists of these.
        fuse: ``"exact"`` or ``"compose"``; members that are chains with another ``fuse`` keep it.

    Attributes:
        ops: the members, with their occurrences in the chain.
        fuse: the argument.

    Raises:
        ParameterError: there are no members, or one is not allowed in a chain.
    """

    moves_samples: ClassVar[bool] = True
    ops: tuple[Any, ...]
    fuse: ChainFuse = "exact"

    def __init__(self, *ops: Any, fuse: ChainFuse = "exact") -> None:
        if fuse not in get_args(ChainFuse):
            allowed = ", ".join(map(repr, get_args(ChainFuse)))
            raise ParameterError(f"fuse={fuse!r} is not valid", source="Chain", allowed=allowed)
        members = tuple(_members(ops, fuse))
        if not members:
            raise ParameterError("a chain of no operators", source="Chain", allowed="one or more")
        for op in members[:-1]:
            if _gives_several(op):
                raise ParameterError(
                    f"{op.name} gives several values, and {_follower(members, op)} follows it",
                    source="Chain",
                    allowed="an operator that gives several values as the last one alone",
                )
        whole = Chain.part(members, fuse)
        object.__setattr__(self, "ops", whole.rebuilt(Occurrences().of(whole.makers)).ops)
        object.__setattr__(self, "fuse", fuse)

    @classmethod
    def part(cls, ops: Seq[Any], fuse: ChainFuse = "exact") -> Chain:
        """A chain of members that draw as they do in what they are a part of; arguments as for a chain."""
        found = object.__new__(cls)
        object.__setattr__(found, "ops", tuple(ops))
        object.__setattr__(found, "fuse", fuse)
        return found

    def __repr__(self) -> str:
        how = "" if self.fuse == "exact" else f", fuse={self.fuse!r}"
        return f"Chain({', '.join(map(repr, self.ops))}{how})"

    @property
    def bare(self) -> str:
        """How it is written where a chain is expected: as its only operator, or as a list of them."""
        if self.fuse != "exact":
            return repr(self)
        return repr(self.ops[0]) if len(self.ops) == 1 else f"[{', '.join(map(repr, self.ops))}]"

    @cached_property
    def makers(self) -> tuple[Any, ...]:
        """All operators, those within choices and other chains too; parameters of each may be nodes."""
        return tuple(maker for member in self.ops for maker in member.makers)

    @property
    def title(self) -> str:
        """Their names."""
        return " → ".join(member.title for member in self.ops)

    @cached_property
    def is_line(self) -> bool:
        """Whether all of it acts on images, sample by sample and axis by axis as they come."""
        return all(isinstance(member, Op) for member in self.ops)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.ops)

    def __len__(self) -> int:
        return len(self.ops)

    @overload
    def __getitem__(self, number: int) -> Any: ...

    @overload
    def __getitem__(self, number: slice) -> Chain: ...

    def __getitem__(self, number: int | slice) -> Any:
        """A member, or a chain of some of them."""
        return Chain(*self.ops[number], fuse=self.fuse) if isinstance(number, slice) else self.ops[number]

    def __add__(self, other: Chain) -> Chain:
        return Chain(*self.ops, *(other.ops if other.fuse == self.fuse else (other,)), fuse=self.fuse)

    def without(self, *names: str) -> Chain:
        """The chain without the operators of some names, as ``"gaussian_noise3d"``.

        Raises:
            ParameterError: there is no such operator in it, or no other.
        """
        known = {getattr(op, "name", op.title) for op in self.ops}
        for name in names:
            if name not in known:
                raise ParameterError(
                    f"there is no {name!r} in the chain", source="Chain", allowed=", ".join(sorted(known))
                )
        left = [op for op in self.ops if getattr(op, "name", op.title) not in names]
        return Chain(*left, fuse=self.fuse)

    def to_json(self) -> str:
        """A chain of operators and chains as JSON, for :meth:`from_json`.

        Raises:
            ParameterError: a choice is among them, or a parameter is a node.
        """
        return json.dumps(state_of_member(self))

    @staticmethod
    def from_json(text: str) -> Chain:
        """The chain that :meth:`to_json` was called for, which draws as it did.

        Raises:
            ParameterError: this is no such text.
        """

        def build(members: Seq[Any], fuse: Any) -> Chain:
            if fuse not in get_args(ChainFuse):
                raise ValueError(f"there is no fuse={fuse!r}")
            return Chain.part(members, fuse)

        found: Chain = chain_of_json(text, build)
        return found

    def rebuilt(self, makers: Seq[Any]) -> Chain:
        """The same with other operators, as many as :attr:`makers` are."""
        left = iter(makers)
        return Chain.part([one.rebuilt([next(left) for _ in one.makers]) for one in self.ops], self.fuse)

    def results(self, node: DataNode) -> Any:
        """A node; one for the data and one for the labels, if it is called with labels; one for each of several."""
        if len(getattr(node, "given", ())) > 1:
            return Mixed(*parts_of(node, Mixed._fields))
        return self.ops[-1].results(node) if _gives_several(self.ops[-1]) else node

    def expression(self, name: Named) -> str:
        """See :meth:`Maker.expression`."""
        return f"Chain({' → '.join(member.expression(name) for member in self.ops)})"

    def state(self) -> dict[str, Any]:
        """What it is, as JSON knows it, but for nodes, which stay what they are."""
        return {"op": "chain", "ops": [member.state() for member in self.ops], "fuse": self.fuse}

    def result_layout(self, layout: str) -> str:
        """The layout of images of another layout."""
        return reduce(lambda letters, member: member.result_layout(letters), self.ops, layout)

    @or_node
    def __call__(
        self,
        x: X,
        labels: Any = None,
        *,
        layout: str | None = None,
        epoch: int = 0,
        index: Any = None,
        backend: Backend | None = None,
        device: KernelDevice | None = None,
    ) -> X:
        """Apply the chain to images, a sequence, a volume or a batch; see :meth:`seqpipe.ops.Op.__call__`.

        Args:
            x: the input; all parts of a mapping are transformed by the same sampled parameters.
            labels: labels of the samples, for operators that mix samples; by default those of a Batch.
            layout: layout of arrays.
            epoch: the epoch that parameters are sampled for.
            index: indices of the samples within their dataset, or the index of the first.
            backend: implementation to run; None for kernels on a GPU and the fast forms on the CPU.
            device: device that kernels run on; None for the GPU that holds the images.

        Returns:
            The result, of the same type as ``x``; with ``labels``, a :class:`Mixed` of the result and the labels.

        Raises:
            ParameterError: an operator does not accept its input.
            BackendError: the data is on a GPU that cannot be used.
        """
        options: dict[str, Any] = {"layout": layout, "epoch": epoch, "index": index}
        how: dict[str, Any] = {"backend": backend, "device": device}
        if len(self._segments) == 1 and isinstance(self._segments[0], VolumeChain):
            volume: X = self._segments[0](x, **how, **options)
            return volume
        if type(x) is not np.ndarray and isinstance(x, Mapping):
            if labels is not None:
                raise ParameterError(
                    "labels beside a sample of several parts",
                    source="Chain",
                    allowed="a batch of images and labels",
                )
            sample: X = moved_sample(self, x, **how, **options)
            return sample
        result: Any = x
        for number, segment in enumerate(self._segments):
            if isinstance(segment, _Line):
                result, options["layout"] = segment.done(
                    result, options, how, last=number == len(self._segments) - 1
                )
                continue
            result, labels, options["layout"] = _done(segment, result, labels, options, how)
        found: X = result if labels is None else Mixed(result, labels)  # type: ignore[assignment]  # with the labels
        return found

    @cached_property
    def _segments(self) -> list[Any]:
        """The chain in lines of operators on images and volumes, and other members by themselves."""
        found: list[Any] = []
        for member in self.ops:
            last = found[-1] if found else None
            before: tuple[Any, ...] = ()
            if isinstance(member, Op):
                before = last.ops if isinstance(last, _Line) else ()
                found[len(found) - bool(before) :] = [_Line((*before, member), self.fuse)]
            elif isinstance(member, Volumetric):
                before = last.ops if isinstance(last, VolumeChain) else ()
                found[len(found) - bool(before) :] = [VolumeChain((*before, member))]
            else:
                found.append(member)
        return found

    def passes(self) -> list[Any]:
        """The members one by one, but for operators that are one mapping together."""
        return [
            part for one in self._segments for part in (one.passes() if isinstance(one, _Line) else (one,))
        ]

    def groups(self) -> list[tuple[Any, ...]]:
        """The members that one kernel does together, on a GPU."""
        return [group for one in self._segments for group in _groups_of(one)]

    def explain(self, x: Any = None, *, layout: str | None = None, epoch: int = 0, index: int = 0) -> str:
        """Describe what runs on a GPU, in a line for each pass over the pixels; for volumes also what runs on the CPU.

        Args:
            x: for a chain of operators on volumes, a volume or a sample, to be told what is drawn for it: which of them
                act, and whether slices stay slices.
            layout: of arrays.
            epoch: the epoch that draws are for.
            index: of the sample.

        Raises:
            ParameterError: x is given, and there are other operators.
        """
        first, *others = self._segments
        if x is not None and (others or not isinstance(first, VolumeChain)):
            raise ParameterError(
                "what is done to one sample is known of operators on volumes alone",
                source="Chain",
                allowed="explain() without a sample",
            )
        lines: list[str] = [] if x is None else first.explained_for(x, layout, epoch, index)
        for one in self._segments if x is None else ():
            lines += one.explained() if hasattr(one, "explained") else [f"{one.title}: {_how(one)}"]
        return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))


@dataclass(frozen=True)
class _Line:
    """Operators on images that follow one another.

    Attributes:
        ops: the operators.
        fuse: of the chain.
    """

    ops: tuple[Op, ...]
    fuse: ChainFuse

    def passes(self) -> list[Composed | Op]:
        """The operators one by one, but for those that are one mapping together."""
        return list(compositions(self.ops)) if self.fuse == "compose" else list(self.ops)

    @cached_property
    def steps(self) -> list[_Step]:
        """The operators in groups that one kernel does."""
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

    def done(
        self, x: Any, options: Mapping[str, Any], how: dict[str, Any], *, last: bool
    ) -> tuple[Any, str | None]:
        """The result, and the layout of arrays then.

        Args:
            x: what it acts on.
            options: layout, epoch and index.
            how: backend and device.
            last: whether it ends the chain, so that the result may not be a view of what was given.
        """
        given, result = dict(options), x
        by_kernel = _by_kernel(x, how["backend"])
        for step in self.steps:
            done, one_by_one = None, _ops_of(step)
            if isinstance(step, Composed):
                one_by_one = (step.operator(result, **given),)
            elif by_kernel and len(step) > 1:
                done = _together(step, result, device=how["device"], **given)
            if done is not None:
                result = done
                if step is not self.steps[-1] or not last:
                    given["layout"] = _layout_after(_ops_of(step), done, given["layout"])
                continue
            for op in one_by_one:
                passing = by_kernel and not (last and op is self.ops[-1])
                result = apply(op, result, **how, passing=passing, **given)
                given["layout"] = _layout_after((op,), result, given["layout"])
        return result, given["layout"]

    def explained(self) -> list[str]:
        """What is done on a GPU, in a line for each pass."""
        lines = []
        for step in self.steps:
            first, *_ = group = _ops_of(step)
            how = "one kernel" if first.traits.body is not None else "by the reference, on CuPy's arrays"
            how = "a kernel for each step, of all samples" if first.traits.composed else how
            how = "one mapping, interpolated once" if isinstance(step, Composed) else how
            lines.append(f"{' → '.join(op.name for op in group)}: {how}")
        return lines


def _groups_of(segment: Any) -> list[tuple[Any, ...]]:
    """The members of a segment that are done together."""
    if isinstance(segment, _Line):
        return [_ops_of(step) for step in segment.steps]
    return list(segment.groups()) if isinstance(segment, VolumeChain) else [(segment,)]


def _members(given: Any, fuse: ChainFuse) -> Iterator[Any]:
    """What a chain consists of: lists and chains of the same kind are their members."""
    for one in given:
        if isinstance(one, (list, tuple)):
            yield from _members(one, fuse)
        elif isinstance(one, Chain) and one.fuse == fuse:
            yield from one.ops
        elif isinstance(one, (Op, Mixing, ElementExtract, Volumetric, Member, Chain)) or _takes_arrays(one):
            yield one
        else:
            raise _refusal(one)


def _takes_arrays(one: Any) -> bool:
    """Whether something is an operator on arrays that takes one value."""
    if not isinstance(one, Arrays):
        return False
    first, *others = call_of(type(one))[0]
    return first.kind is not first.VAR_POSITIONAL and all(
        other.default is not other.empty for other in others
    )


def _gives_several(one: Any) -> bool:
    """Whether a member gives several values, so that nothing can follow it."""
    if isinstance(one, (Op, Mixing, Chain, Member)):
        return isinstance(one, Chain) and _gives_several(one.ops[-1])
    found = one.results(DataNode())  # type: ignore[abstract]  # any node; nothing is asked of it
    return isinstance(found, tuple) and len(found) > 1


def _follower(members: Seq[Any], op: Any) -> str:
    return str(members[next(n for n, one in enumerate(members) if one is op) + 1].title)


def _refusal(op: Any) -> ParameterError:
    """Why something cannot be part of a chain."""
    if not isinstance(op, Declaration):
        fact, advice = f"a chain with a {type(op).__name__}", "Chain(ops.Flip(), ops.Crop(crop=(112, 112)))"
    else:
        fact = f"a chain with {op.name}, which acts on {op.traits.takes}"
        advice = f"Call it on what the chain gives: {type(op).__name__}(…)(chain(x))"
    return ParameterError(
        fact,
        source="Chain",
        allowed="operators on images, batches, arrays, sequences and volumes, OneOf, SomeOf, Only, chains and lists",
        advice=advice,
    )


def _how(member: Any) -> str:
    """How a member that is no line is done, in a clause."""
    if isinstance(member, Member):
        return member.how
    if isinstance(member, Chain):
        return f"a chain of its own, with fuse={member.fuse!r}"
    return "all samples of the batch at once" if isinstance(member, Mixing) else "by itself"


def _done(
    member: Any, x: Any, labels: Any, options: Mapping[str, Any], how: Mapping[str, Any]
) -> tuple[Any, Any, str | None]:
    """What a member that is no line gives; the labels, and the layout of arrays then."""
    layout = options["layout"]
    if isinstance(member, Mixing):
        mixed = member.mixed(x, labels, **options, **how)
        if isinstance(x, Batch) and labels is None and mixed.labels is not None:
            return replace(mixed.data, labels=mixed.labels), None, layout
        return mixed.data, mixed.labels, layout
    if isinstance(member, Chain):
        found = member(x, labels, **options, **how)
        data, labels = found if labels is not None else (found, None)
        return data, labels, _layout_after((member,), data, layout)
    if isinstance(member, Member):
        found = member.done(x, CallOptions(**options, **how))
        return found, labels, _layout_after((member,), found, layout)
    if isinstance(member, VolumeChain):
        return member(x, **options, **how), labels, layout
    given: Any = None if _holds_samples(x) else layout_of(x, layout)
    found = member(x, layout=given)
    if isinstance(found, tuple) and len(found) == 1 and isinstance(member, ElementExtract):
        (found,) = found
    return found, labels, None if given is None else _letters_after(member, x, found, given)


def _holds_samples(x: Any) -> bool:
    """Whether what is given knows its layout."""
    first = x[0] if isinstance(x, (list, tuple)) and x else x
    return isinstance(first, (Sequence, Batch))


def _letters_after(member: Any, x: Any, found: Any, layout: str) -> str | None:
    """The layout of arrays behind an operator on arrays or sequences; None where it is not known."""
    if isinstance(member, ElementExtract):
        return layout.replace("F", "")
    first = x[0] if isinstance(x, (list, tuple)) else x
    made = found[0] if isinstance(found, (list, tuple)) else found
    if hasattr(member, "shaped"):
        letters: str = member.shaped(member.held(_shadow(first), layout))[1]
        return letters or None
    return layout if getattr(made, "ndim", -1) == len(layout) else None


def _shadow(array: Array) -> Array:
    """An array of the same shape and type that takes no memory."""
    return np.broadcast_to(np.zeros((), np.uint8), tuple(array.shape))


def _ops_of(step: _Step) -> tuple[Op, ...]:
    return step.ops if isinstance(step, Composed) else step


def _layout_after(group: Seq[Any], result: Any, layout: str | None) -> str | None:
    """The layout of arrays that a group has made; None where they know it, or the default is right."""
    first = reference_of(result)
    first = first[0] if isinstance(first, (list, tuple)) else first
    if isinstance(first, (Sequence, Batch)):
        return None
    before = layout or DEFAULT_LAYOUTS[first.ndim]
    after = reduce(lambda letters, op: op.result_layout(letters), group, before)
    return layout if before == after else after


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
