"""Chain: a sequence of operators, fused into few passes over the pixels.

A member of a chain is an operator on images, on the samples of a batch (Mixup), on arrays (Transpose), on sequences
(ElementExtract) or on volumes, a choice (OneOf, SomeOf), operators for some images of a sample (Only), or a chain with
another ``fuse``; chains with the same ``fuse`` and lists are flattened. Consecutive operators on images are fused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, get_args, overload

import numpy as np

from ...array import DEFAULT_LAYOUTS, Array, device_of
from ...core.cached import cached_property
from ...core.kernel import KernelDevice
from ...errors import ParameterError, described_type
from ...parts import is_labels
from ...sequence import Batch, Sequence
from ..arrays.base import Arrays
from ..batch.base import Mixed, Mixing
from ..call.functions import call_of, own_operator
from ..call.inputs import is_sample, layout_of, like_container, reference_of
from ..call.op import Op, apply
from ..core.declaration import Declaration
from ..core.deferred import Deferrable, or_node
from ..core.nodes import DataNode, Named, Occurrences, parts_of
from ..core.spec import Backend, CallOptions
from ..core.types import Type
from ..temporal.frames import ElementExtract
from ..volume.base import VolumeChain, Volumetric, composed_with_volumes
from .fused import Composed, can_follow, can_lead, compositions, fused
from .member import Member, State, chain_of_json, json_of_chain, reads_state, sample_error
from .parts import apply_to_sample

__all__ = ["Chain"]

ChainFuse: TypeAlias = Literal["exact", "compose"]
X = TypeVar("X")
_Step: TypeAlias = "Composed | tuple[Op, ...]"


@dataclass(frozen=True)
class Chain(Deferrable):
    """A sequence of operators.

    The result equals that of calling :attr:`ops` one after the other, to the last bit, except that operators of the
    same name and seed are sampled independently of each other; see :class:`~seqpipe.ops.core.nodes.Occurrences`.
    On a GPU, one kernel runs consecutive operators that change single pixels or move whole pixels, and a resampling
    operator before them, so pixels are read and written once.

    With ``fuse="compose"``, consecutive geometric operators with the same interpolation and fill value become one
    mapping: pixels are interpolated once, so images stay sharper, and pixels that one operator moves out of the image
    may be moved back by another. Antialiased resizing is not composed.

    Operators on volumes are always composed: consecutive geometric operators with the same interpolation and fill value
    become one mapping, and each part is resampled once. A second elastic field starts another pass, as does smoothing
    before downsampling (``antialias``). Operators on images between them act on slices; those that move whole pixels
    (Flip, Crop), and Rotate and WarpAffine with the same interpolation and a constant fill value, are part of the
    mapping of a geometric operator on volumes next to them: ``Flip → Rotate → RandomAffine3d`` interpolates once.

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

    accepts_samples: ClassVar[bool] = True
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
            if _returns_several(op):
                raise ParameterError(
                    f"{op.name} returns several values, and {_follower(members, op)} follows it",
                    source="Chain",
                    allowed="an operator that returns several values as the last one only",
                )
        whole = Chain.part(members, fuse)
        object.__setattr__(self, "ops", whole.rebuilt(Occurrences().of(whole.operators)).ops)
        object.__setattr__(self, "fuse", fuse)

    @classmethod
    def part(cls, ops: Seq[Any], fuse: ChainFuse = "exact") -> Chain:
        """Return a chain of members whose occurrences are already set; arguments as for a chain."""
        result = object.__new__(cls)
        object.__setattr__(result, "ops", tuple(ops))
        object.__setattr__(result, "fuse", fuse)
        return result

    def __repr__(self) -> str:
        fuse = "" if self.fuse == "exact" else f", fuse={self.fuse!r}"
        return f"Chain({', '.join(map(repr, self.ops))}{fuse})"

    @property
    def argument_repr(self) -> str:
        """The repr as an argument that accepts chains: the only operator, or a list."""
        if self.fuse != "exact":
            return repr(self)
        return repr(self.ops[0]) if len(self.ops) == 1 else f"[{', '.join(map(repr, self.ops))}]"

    @cached_property
    def operators(self) -> tuple[Any, ...]:
        """All operators, including those within choices and nested chains."""
        return tuple(op for member in self.ops for op in member.operators)

    @property
    def title(self) -> str:
        """The names of the members."""
        return " → ".join(member.title for member in self.ops)

    @cached_property
    def is_line(self) -> bool:
        """Whether all members are operators on images."""
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
        """Return a member, or a chain of some members."""
        return Chain(*self.ops[number], fuse=self.fuse) if isinstance(number, slice) else self.ops[number]

    def __add__(self, other: Chain) -> Chain:
        if not isinstance(other, Chain):
            return NotImplemented
        return Chain(*self.ops, *(other.ops if other.fuse == self.fuse else (other,)), fuse=self.fuse)

    def without(self, *names: str) -> Chain:
        """Return the chain without the operators of some names, such as ``"gaussian_noise3d"``.

        Raises:
            ParameterError: the chain has no such operator, or no other one.
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
        """Return the chain as JSON, for :meth:`from_json`.

        Raises:
            ParameterError: a parameter is a node.
        """
        return json_of_chain(self.state())

    @staticmethod
    def from_json(text: str) -> Chain:
        """Create the chain that :meth:`to_json` wrote, with its occurrences.

        Raises:
            ParameterError: the text is not such JSON, or an operator in it is not valid.
        """
        result: Chain = chain_of_json(text)
        return result

    def rebuilt(self, operators: Seq[Any]) -> Chain:
        """Return the same chain with other operators, as many as :attr:`operators`."""
        left = iter(operators)
        return Chain.part([op.rebuilt([next(left) for _ in op.operators]) for op in self.ops], self.fuse)

    def results(self, node: DataNode) -> Any:
        """Return a node, one for data and one for labels if there are labels, or one for each of several values."""
        if len(getattr(node, "args", ())) > 1:
            return Mixed(*parts_of(node, Mixed._fields))
        return self.ops[-1].results(node) if _returns_several(self.ops[-1]) else node

    def result_types(self, inputs: Seq[Type]) -> tuple[Type, ...]:
        """See :meth:`Deferrable.result_types`."""
        first, *labels = inputs
        for member in self.ops:
            first = member.result_types((first,))[0]
        return (first, *(replace(label, kind="labels", dtype="float32", shape=None) for label in labels))

    def expression(self, name: Named) -> str:
        """See :meth:`Deferrable.expression`."""
        return f"Chain({' → '.join(member.expression(name) for member in self.ops)})"

    def state(self) -> dict[str, Any]:
        """Return the settings as JSON types; nodes stay objects."""
        return {"op": "chain", "ops": [member.state() for member in self.ops], "fuse": self.fuse}

    def result_layout(self, layout: str) -> str:
        """Return the layout of the result for images of a layout."""
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
        execution: dict[str, Any] = {"backend": backend, "device": device}
        if self._image_names and not is_sample(x):
            raise sample_error(self._image_names, type(x).__name__)
        only_volumes = len(self._segments) == 1 and isinstance(self._segments[0], VolumeChain)
        if (only_volumes and labels is None) or (
            type(x) is not np.ndarray and (is_sample(x) or is_labels(x))
        ):
            if labels is not None:
                raise ParameterError(
                    "labels for a sample of several parts",
                    source="Chain",
                    allowed="a batch of images and labels",
                )
            sample: X = apply_to_sample(self, x, **execution, **options)
            return sample
        result: Any = x
        for number, segment in enumerate(self._segments):
            if isinstance(segment, _Line):
                result, options["layout"] = segment.run(
                    result, options, execution, last=number == len(self._segments) - 1
                )
                continue
            result, labels, options["layout"] = _run_member(segment, result, labels, options, execution)
        output: X = result if labels is None else Mixed(result, labels)  # type: ignore[assignment]  # with the labels
        return output

    @cached_property
    def _image_names(self) -> dict[str, None]:
        """The images that some of the operators are for, which only a sample of several parts has."""
        return dict.fromkeys(name for op in self.operators for name in getattr(op, "image_names", None) or ())

    @cached_property
    def _segments(self) -> list[Any]:
        """Consecutive operators on images as a line, those on volumes as a chain, and other members alone."""
        result: list[Any] = []
        members = [own for op in self.ops for own in (op.members if isinstance(op, Member) else (op,))]
        with_volumes = composed_with_volumes(members)
        for position, member in enumerate(members):
            on_volumes = isinstance(member, Volumetric) or position in with_volumes
            kind = VolumeChain if on_volumes else _Line if isinstance(member, Op) else None
            joins = kind and result and isinstance(result[-1], kind)
            own = (*(result.pop().ops if joins else ()), member)
            result.append(VolumeChain(own) if on_volumes else _Line(own, self.fuse) if kind else member)
        return result

    def composed_ops(self) -> list[Any]:
        """Return the members, with operators that are composed into one mapping as one."""
        return [
            part
            for segment in self._segments
            for part in (segment.composed_ops() if isinstance(segment, _Line) else (segment,))
        ]

    def groups(self) -> list[tuple[Any, ...]]:
        """Return the members in groups that one kernel runs on a GPU."""
        return [group for segment in self._segments for group in _groups_of(segment)]

    def explain(self, x: Any = None, *, layout: str | None = None, epoch: int = 0, index: int = 0) -> str:
        """Describe what runs on a GPU, one line for each pass over the pixels; for volumes also what runs on the CPU.

        Args:
            x: for a chain of operators on volumes, a volume or a sample whose sampled parameters to describe: which
                operators act, and whether slices stay slices.
            layout: layout of arrays.
            epoch: epoch that parameters are sampled for.
            index: index of the sample.

        Raises:
            ParameterError: x is given, and the chain has other operators.
        """
        first, *others = self._segments
        if x is not None and (others or not isinstance(first, VolumeChain)):
            raise ParameterError(
                "only operators on volumes can be explained for a sample",
                source="Chain",
                allowed="explain() without a sample",
            )
        lines: list[str] = [] if x is None else first.explained_for(x, layout, epoch, index)
        for segment in self._segments if x is None else ():
            lines += (
                segment.explained()
                if hasattr(segment, "explained")
                else [f"{segment.title}: {_explanation(segment)}"]
            )
        return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))


@dataclass(frozen=True)
class _Line:
    """Consecutive operators on images.

    Attributes:
        ops: the operators.
        fuse: argument of the chain.
    """

    ops: tuple[Op, ...]
    fuse: ChainFuse

    def composed_ops(self) -> list[Composed | Op]:
        """Return the operators, with those that are composed into one mapping as one."""
        return list(compositions(self.ops)) if self.fuse == "compose" else list(self.ops)

    @cached_property
    def steps(self) -> list[_Step]:
        """The operators in groups that one kernel runs."""
        result: list[Composed | tuple[Op, ...]] = []
        for part in self.composed_ops():
            last = result[-1] if result else ()
            if isinstance(part, Composed):
                result.append(part)
            elif isinstance(last, tuple) and last and can_follow(part) and can_lead(last[-1]):
                result[-1] = (*last, part)
            else:
                result.append((part,))
        return result

    def run(
        self, x: Any, options: Mapping[str, Any], execution: dict[str, Any], *, last: bool
    ) -> tuple[Any, str | None]:
        """Apply the operators; return the result and its layout."""
        own, result = dict(options), x
        on_gpu = _uses_kernels(x, execution["backend"])
        for step in self.steps:
            fused_result, one_by_one = None, _ops_of(step)
            if isinstance(step, Composed):
                one_by_one = (step.operator(result, **own),)
            elif on_gpu and len(step) > 1:
                fused_result = _run_fused(step, result, device=execution["device"], **own)
            if fused_result is not None:
                result = fused_result
                if step is not self.steps[-1] or not last:
                    own["layout"] = _layout_after(_ops_of(step), result, own["layout"])
                continue
            for op in one_by_one:
                allow_view = on_gpu and not (last and op is self.ops[-1])
                result = apply(op, result, **execution, allow_view=allow_view, **own)
                own["layout"] = _layout_after((op,), result, own["layout"])
        return result, own["layout"]

    def explained(self) -> list[str]:
        """Describe what runs on a GPU, one line for each pass."""
        lines = []
        for step in self.steps:
            first, *_ = group = _ops_of(step)
            how = "one kernel" if first.traits.body is not None else "the reference on CuPy arrays"
            how = "one kernel for each step, for all samples" if first.traits.composed else how
            how = "one mapping, interpolated once" if isinstance(step, Composed) else how
            lines.append(f"{' → '.join(op.name for op in group)}: {how}")
        return lines


@reads_state("chain")
def _chain_of(state: State, read: Callable[[State], Any]) -> Chain:
    if not state["ops"] or state["fuse"] not in get_args(ChainFuse):
        raise ValueError(f"there is no chain of {state['ops']!r} with fuse={state['fuse']!r}")
    return Chain.part([read(member) for member in state["ops"]], state["fuse"])


def _groups_of(segment: Any) -> list[tuple[Any, ...]]:
    """Return the members of a segment in groups that run together."""
    if isinstance(segment, _Line):
        return [_ops_of(step) for step in segment.steps]
    return list(segment.groups()) if isinstance(segment, VolumeChain) else [(segment,)]


def _members(values: Any, fuse: ChainFuse) -> Iterator[Any]:
    """Flatten lists, and chains with the same ``fuse``."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _members(value, fuse)
        elif isinstance(value, Chain) and value.fuse == fuse:
            yield from value.ops
        elif isinstance(value, (Op, Mixing, ElementExtract, Volumetric, Member, Chain)) or _takes_one_array(
            value
        ):
            yield value
        else:
            if (own := own_operator(value)) is None:
                raise _member_error(value)
            yield own


def _takes_one_array(member: Any) -> bool:
    """Return whether a value is an operator on arrays with one required argument."""
    if not isinstance(member, Arrays):
        return False
    first, *others = call_of(type(member))[0]
    return first.kind is not first.VAR_POSITIONAL and all(q.default is not q.empty for q in others)


def _returns_several(member: Any) -> bool:
    """Return whether a member returns several values, so that no member can follow it."""
    if isinstance(member, (Op, Mixing, Chain, Member)):
        return isinstance(member, Chain) and _returns_several(member.ops[-1])
    result = member.results(DataNode())  # type: ignore[abstract]  # only the number of nodes matters
    return isinstance(result, tuple) and len(result) > 1


def _follower(members: Seq[Any], op: Any) -> str:
    return str(members[next(n for n, member in enumerate(members) if member is op) + 1].title)


def _member_error(op: Any) -> ParameterError:
    """Return the error for a value that cannot be a member of a chain."""
    cls = op if isinstance(op, type) else getattr(op, "op", None)
    if isinstance(cls, type) and issubclass(cls, Declaration):
        fact = f"a chain with {f'the class {cls.__name__}' if cls is op else f'the function {cls.name}'}"
        advice = f"Create the operator: Chain(ops.{cls.__name__}(…))"
    elif not isinstance(op, Declaration):
        fact, advice = f"a chain with {described_type(op)}", "Chain(ops.Flip(), ops.Crop(crop=(112, 112)))"
        if callable(op):
            advice = "Make it an operator by @seqpipe.operator, or call it on whole samples: dataset.apply(function)"
    else:
        fact = f"a chain with {op.name}, which acts on {op.traits.takes}"
        advice = f"Call it on the result of the chain: {type(op).__name__}(…)(chain(x))"
    return ParameterError(
        fact,
        source="Chain",
        allowed="operators on images, batches, arrays, sequences and volumes, OneOf, SomeOf, Only, chains and lists",
        advice=advice,
    )


def _explanation(member: Any) -> str:
    """Return how a member other than an operator on images runs, as a clause."""
    if isinstance(member, Member):
        return member.explanation
    if isinstance(member, Chain):
        return f"a separate chain, with fuse={member.fuse!r}"
    return "all samples of the batch at once" if isinstance(member, Mixing) else "alone"


def _run_member(
    member: Any, x: Any, labels: Any, options: Mapping[str, Any], execution: Mapping[str, Any]
) -> tuple[Any, Any, str | None]:
    """Apply a member other than an operator on images; return the result, the labels, and the layout of arrays."""
    layout = options["layout"]
    if isinstance(member, Mixing):
        mixed = member.mixed(x, labels, **options, **execution)
        if isinstance(x, Batch) and labels is None and mixed.labels is not None:
            return replace(mixed.data, labels=mixed.labels), None, layout
        return mixed.data, mixed.labels, layout
    if isinstance(member, Chain):
        result = member(x, labels, **options, **execution)
        data, labels = result if labels is not None else (result, None)
        return data, labels, _layout_after((member,), data, layout)
    if hasattr(member, "run"):
        result = member.run(x, CallOptions(**options, **execution))
        return result, labels, _layout_after((member,), result, layout)
    if isinstance(member, VolumeChain):
        return member(x, **options, **execution), labels, layout
    array_layout: Any = None if _has_layout(x) else layout_of(x, layout)
    result = member(x, layout=array_layout)
    if isinstance(result, tuple) and len(result) == 1 and isinstance(member, ElementExtract):
        (result,) = result
    return result, labels, None if array_layout is None else _letters_after(member, x, result, array_layout)


def _has_layout(x: Any) -> bool:
    """Return whether the input, or the first of a list, is a sequence or a batch."""
    first = x[0] if isinstance(x, (list, tuple)) and x else x
    return isinstance(first, (Sequence, Batch))


def _letters_after(member: Any, x: Any, result: Any, layout: str) -> str | None:
    """Return the layout of the result of an operator on arrays or sequences; None if it is unknown."""
    if isinstance(member, ElementExtract):
        return layout.replace("F", "")
    first = x[0] if isinstance(x, (list, tuple)) else x
    first_result = result[0] if isinstance(result, (list, tuple)) else result
    if hasattr(member, "shaped"):
        letters: str = member.shaped(member.as_operand(_placeholder(first), layout))[1]
        return letters or None
    return layout if getattr(first_result, "ndim", -1) == len(layout) else None


def _placeholder(array: Array) -> Array:
    """Return an array of the same shape that takes no memory."""
    return np.broadcast_to(np.zeros((), np.uint8), tuple(array.shape))


def _ops_of(step: _Step) -> tuple[Op, ...]:
    return step.ops if isinstance(step, Composed) else step


def _layout_after(group: Seq[Any], result: Any, layout: str | None) -> str | None:
    """Return the layout of the arrays that a group returns; None if values have one, or the default is right."""
    first = reference_of(result[0] if isinstance(result, (list, tuple)) else result)
    first = first[0] if isinstance(first, (list, tuple)) else first
    if isinstance(first, (Sequence, Batch)):
        return None
    before = layout or DEFAULT_LAYOUTS[first.ndim]
    after = reduce(lambda letters, op: op.result_layout(letters), group, before)
    return layout if before == after else after


def _uses_kernels(x: Any, backend: Backend | None) -> bool:
    if backend is not None:
        return backend == "cuda"
    first = x[0] if isinstance(x, (list, tuple)) and x else x
    if isinstance(first, Batch):
        first = first[0]  # samples of different sizes have no common array
    if isinstance(first, Sequence):
        return first.device != "cpu"
    return hasattr(first, "__dlpack_device__") and device_of(first) != "cpu"


def _run_fused(
    group: Seq[Op], x: Any, *, layout: str | None, epoch: int, index: Any, device: KernelDevice | None
) -> Any:
    """Return the result of a group from one kernel; None if the values do not allow it."""
    if isinstance(x, Batch):
        return _run_fused_batch(group, x, layout=layout, epoch=epoch, index=index, device=device)
    many = isinstance(x, (list, tuple))
    if many and not x:
        return None
    work = fused(group, x if many else (x,), layout, epoch, index)
    if work is None:
        return None
    results = work.wrap_results(work.results(device))
    return like_container(x, results) if many else results[0]


def _run_fused_batch(
    group: Seq[Op],
    batch: Batch,
    *,
    layout: str | None,
    epoch: int,
    index: Any,
    device: KernelDevice | None,
) -> Batch | None:
    """Return the result of a batch whose sequences are stacked; None for others, which run one operator at a time."""
    if batch.stacked is None:
        return None
    work = fused(group, (batch,), layout, epoch, batch.indices if index is None else index)
    if work is None:
        return None
    stacked = work.results(device)[0]
    pairs = zip(batch.sequences, stacked, strict=True)
    sequences = tuple(work.sequence(sequence, data, n) for n, (sequence, data) in enumerate(pairs))
    mask = None if batch.mask is None else work.mask(batch.mask)
    return replace(batch, sequences=sequences, stacked=stacked, mask=mask)
