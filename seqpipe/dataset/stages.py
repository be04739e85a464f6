"""Stages: the operators and functions of a data set, applied to a sample or a batch of samples in parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from keyword import iskeyword
from typing import Any, Final, Protocol

import numpy as np

from ..array import Array, to_cupy, to_numpy
from ..errors import ParameterError, ResultSizesError, described_type
from ..ops import Chain, DataNode, Op, Type
from ..ops.core.nodes import GRAPH_ARGUMENTS
from ..ops.geometry.base import Geometry
from ..parts import Part, Sample, is_labels
from ..pipeline.graph import Graph
from ..pipeline.inputs import Input
from ..sequence import Batch, Sequence
from .calls import CallPool, may_start_processes
from .samples import collated, padded, spatial

__all__ = [
    "DatasetStage",
    "Function",
    "GraphStage",
    "OperatorStage",
    "PadStage",
    "TransferStage",
    "chain_of",
    "check_operators",
    "stages_of",
    "with_padding",
]

_NO_WORD: Final = r"\W"


class DatasetStage(Protocol):
    """A step between reading and the consumer."""

    def __call__(self, parts: Mapping[str, Any], epoch: int, index: Any) -> dict[str, Any]:
        """Return the parts after the step; ``index`` is an array for a batch, a number for one sample."""

    @property
    def facts(self) -> object:
        """Everything that determines the result, as plain values."""

    def explain(self, device: str) -> list[str]:
        """Describe the passes over the pixels on a device, a line for each."""


@dataclass(frozen=True)
class OperatorStage:
    """A chain of operators on all spatial parts.

    Attributes:
        chain: the chain.
    """

    chain: Chain

    def __call__(self, parts: Mapping[str, Any], epoch: int, index: Any) -> dict[str, Any]:
        """See :class:`DatasetStage`."""
        moving = spatial(parts)
        if not moving:
            raise ParameterError(
                f"{self.chain.title} needs images, and the parts are {', '.join(parts) or 'none'}",
                allowed="a part of images",
                advice="Give parts={'name': …} to items(), or arrays with a layout of images",
            )
        name = next(iter(moving))
        if all(is_labels(value.data if isinstance(value, Part) else value) for value in moving.values()):
            self._check_labels(name)
        batches = [value for value in map(_data, moving.values()) if isinstance(value, Batch)]
        if len(moving) > 1 and any(batch.stacked is None for batch in batches):
            return self._by_sample(parts, moving, epoch, index)
        try:
            return self._applied(parts, moving, epoch, index)
        except ResultSizesError:
            if not np.ndim(index):
                raise
            return self._by_sample(parts, moving, epoch, index)

    def _by_sample(
        self, parts: Mapping[str, Any], moving: Mapping[str, Any], epoch: int, index: Any
    ) -> dict[str, Any]:
        """Return the parts of a batch whose samples have different sizes, before the operators or after them."""
        rows = [
            (
                int(own),
                self._applied(
                    {}, {name: _sample(value, n) for name, value in moving.items()}, epoch, int(own)
                ),
            )
            for n, own in enumerate(index)
        ]
        joined = collated(rows, {}).parts
        for name, value in moving.items():
            if isinstance(value, Batch) and isinstance(joined.get(name), Batch):
                joined[name] = replace(joined[name], labels=value.labels, indices=value.indices)
        return {**parts, **joined}

    def _applied(
        self, parts: Mapping[str, Any], moving: Mapping[str, Any], epoch: int, index: Any
    ) -> dict[str, Any]:
        (name, only), *others = moving.items()
        # a volume is a sample of parts, which has the history that invert_volume takes
        if (
            others
            or not isinstance(only, (Batch, Sequence))
            or (isinstance(only, Sequence) and only.affine is not None)
        ):
            sample = self.chain(moving, epoch=epoch, index=index)
            return Sample({**parts, **sample}, getattr(sample, "_history", ()))
        target: Any = self.chain
        result: Any = target(only, epoch=epoch, index=index)
        if isinstance(result, tuple):
            fields = getattr(result, "_fields", range(len(result)))
            first, *more = [
                (field, value) for field, value in zip(fields, result, strict=True) if value is not None
            ]
            return {**parts, name: first[1], **{f"{name}_{field}": value for field, value in more}}
        return {**parts, **result} if isinstance(result, dict) else {**parts, name: result}

    def _check_labels(self, name: str) -> None:
        """Raise if an operator changes intensities, and there are labels alone."""
        for op in self.chain.operators:
            if isinstance(op, Op) and op.traits.takes == "images" and not isinstance(op, Geometry):
                raise ParameterError(
                    f"{op.name} changes intensities, and {name!r} holds labels",
                    source="Dataset.map",
                    allowed="a sample with an image besides",
                    advice="Leave the operator out, or mark the part as an image: parts={…: Image}",
                )

    def __repr__(self) -> str:
        return f".map({', '.join(map(repr, self.chain.ops))})"

    @property
    def facts(self) -> object:
        """The operators as JSON."""
        return [self.chain.fuse, *(op.to_json() if isinstance(op, Op) else repr(op) for op in self.chain.ops)]

    def explain(self, device: str) -> list[str]:
        """See :class:`DatasetStage`."""
        if device == "cpu":
            return [f"{op.name}: on the CPU" for op in self.chain.ops]
        return [line.partition(". ")[2] for line in self.chain.explain().splitlines()]


def _data(value: Any) -> Any:
    return value.data if isinstance(value, Part) else value


def _sample(value: Any, number: int) -> Any:
    """Return a part of one sample of a batch."""
    if isinstance(value, Part):
        return value.with_data(value.data[number])
    return value[number]


@dataclass(frozen=True)
class Function:
    """The user's own function of one sample, a dictionary of parts.

    Attributes:
        function: takes and returns a dictionary of parts.
        pool: processes that call it; None to call it in the data set's own thread.
    """

    function: Callable[[dict[str, Any]], Mapping[str, Any]]
    pool: CallPool | None = None

    def __call__(self, parts: Mapping[str, Any], epoch: int, index: Any) -> dict[str, Any]:
        """See :class:`DatasetStage`."""
        if np.ndim(index):
            raise ParameterError(
                "apply() is called with samples", advice="Call apply() before batch(), or map() after it"
            )
        del epoch
        return self._checked(self.function(dict(parts)), parts)

    def begin(self, parts: Mapping[str, Any]) -> Callable[[], dict[str, Any]]:
        """Begin a call with one sample, in a process if there are any, and return what waits for its result."""
        if self.pool is None or not may_start_processes():
            return lambda: self(parts, 0, 0)
        pool = self.pool
        future = pool.submit(self.function, dict(parts))
        return lambda: self._checked(pool.result(future), parts)

    def _checked(self, result: Any, parts: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(result, Mapping):
            raise ParameterError(
                f"{self.name} returned {described_type(result)}", allowed="a dictionary of parts"
            )
        changed = {name: value for name, value in result.items() if value is not parts.get(name)}
        return _labeled(dict(result), changed)

    @property
    def name(self) -> str:
        """The function's name, the same in every process; that of its class if it is an object."""
        function: Any = self.function
        while isinstance(function, partial):
            function = function.func
        return str(getattr(function, "__qualname__", type(function).__qualname__))

    def close(self) -> None:
        """Stop the processes."""
        if self.pool is not None:
            self.pool.close()

    def __repr__(self) -> str:
        return f".apply({self.name})"

    @property
    def facts(self) -> object:
        """The name: the code of a function is not known."""
        return self.name

    def explain(self, device: str) -> list[str]:  # noqa: ARG002  alike on all
        """See :class:`DatasetStage`."""
        return [f"{self.name}: the user's function, sample by sample"]


@dataclass(frozen=True)
class GraphStage:
    """A graph of operators, whose parameters may be computed from pixels.

    Attributes:
        graph: the graph.
        names: names of its outputs.
        parts: for each input, the name of the part.
        read: parts that the source has read for this graph, which end here.
    """

    graph: Graph
    names: tuple[str, ...]
    parts: Mapping[str, str]
    read: frozenset[str] = frozenset()

    @classmethod
    def built(
        cls, build: Callable[[Mapping[str, DataNode]], Mapping[str, Any]], types: Mapping[str, Type]
    ) -> GraphStage:
        """Return the graph that a function builds of nodes."""
        inputs = {f"part_{re.sub(_NO_WORD, '_', name)}" if _is_taken(name) else name: name for name in types}
        nodes = build(_Nodes({name: Input(own) for own, name in inputs.items()}))
        if not isinstance(nodes, Mapping) or not nodes:
            raise ParameterError(
                f"the function returned {described_type(nodes)}",
                source="Dataset.graph",
                allowed="a dictionary of names to nodes",
            )
        graph = Graph(*nodes.values())
        graph.infer_types({own: types[name] for own, name in inputs.items()})
        return cls(graph, tuple(nodes), {own: inputs[own] for own in graph.inputs})

    def __call__(self, parts: Mapping[str, Any], epoch: int, index: Any) -> dict[str, Any]:
        """See :class:`DatasetStage`; one sample is a batch of one."""
        single = not np.ndim(index)
        given = {own: parts[name] for own, name in self.parts.items()}
        if single:
            given = collated([(int(index), given)], {}).parts
        outputs = self.graph(epoch=epoch, index=np.atleast_1d(index), **given)
        values = outputs if isinstance(outputs, tuple) else (outputs,)
        named = dict(zip(self.names, (value[0] for value in values) if single else values, strict=True))
        kept = {name: value for name, value in parts.items() if name not in self.read}
        first = {name: named[name] for name in self.names if name == "image" and name not in kept}
        return _labeled({**first, **kept, **named}, named)

    def __repr__(self) -> str:
        return f".graph({', '.join(self.parts.values())} → {', '.join(self.names)})"

    @property
    def facts(self) -> object:
        """The graph as JSON."""
        return self.graph.to_json()

    def explain(self, device: str) -> list[str]:  # noqa: ARG002  alike on all
        """See :class:`DatasetStage`."""
        return [re.sub(r"^\d+\. ", "", line) for line in self.graph.explain().splitlines()]


def _is_taken(name: str) -> bool:
    """Return whether an input of a graph cannot have a name."""
    return name in GRAPH_ARGUMENTS or not name.isidentifier() or iskeyword(name)


def _labeled(parts: dict[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return parts whose images have the label that a stage has changed: later operators, such as Mixup, use it."""
    label = changed.get("label")
    if label is None or isinstance(label, (Batch, Sequence, Part)):
        return parts
    return {
        name: replace(value, labels=np.asarray(label))
        if isinstance(value, Batch)
        else value.as_sample(label, value.index, value.fields)
        if isinstance(value, Sequence)
        else value
        for name, value in parts.items()
    }


class _Nodes(dict[str, DataNode]):
    """Nodes by name; a name that is missing is an error that lists the parts."""

    def __missing__(self, name: str) -> DataNode:
        raise ParameterError(
            f"there is no part {name!r}",
            source="Dataset.graph",
            allowed=", ".join(self),
            advice="Parts of items() and feed() are declared by their argument parts, as in parts={'image': 'HWC'}",
        )


@dataclass(frozen=True)
class PadStage:
    """Padding of images of different sizes to one.

    Attributes:
        fill: value of padded pixels.
    """

    fill: float

    def __call__(self, parts: Mapping[str, Any], epoch: int, index: Any) -> dict[str, Any]:
        """See :class:`DatasetStage`."""
        del epoch, index
        return {name: self._padded(value) for name, value in parts.items()}

    def _padded(self, value: Any) -> Any:
        if isinstance(value, Part) and isinstance(value.data, Batch):
            return value.with_data(padded(value.data, self.fill))
        return padded(value, self.fill) if isinstance(value, Batch) else value

    @property
    def facts(self) -> object:
        """Nothing: a sample is the same in every batch."""
        return None

    def explain(self, device: str) -> list[str]:  # noqa: ARG002  alike on all
        """See :class:`DatasetStage`."""
        return ["padding to one size, with a mask"]


@dataclass(frozen=True)
class TransferStage:
    """A copy of images to a device; points, boxes and metadata stay in main memory.

    Attributes:
        device: "cpu" or "cuda:N".
    """

    device: str

    def __call__(self, parts: Mapping[str, Any], epoch: int, index: Any) -> dict[str, Any]:
        """See :class:`DatasetStage`."""
        del epoch, index
        return {name: self._moved(value) for name, value in parts.items()}

    def _moved(self, value: Any) -> Any:
        if isinstance(value, Part) and isinstance(value.data, (Batch, Sequence)):
            return value.with_data(self._moved(value.data))
        if isinstance(value, Sequence):
            return value.with_pixels(self._array(value.data), value.layout)
        if not isinstance(value, Batch):
            return value
        stacked = None if value.stacked is None else self._array(value.stacked)
        arrays = (self._array(sequence.data) for sequence in value.sequences) if stacked is None else stacked
        pairs = zip(value.sequences, arrays, strict=True)
        return replace(
            value,
            sequences=tuple(sequence.with_pixels(data, sequence.layout) for sequence, data in pairs),
            stacked=stacked,
        )

    def _array(self, array: Array) -> Array:
        return to_numpy(array) if self.device == "cpu" else to_cupy(array, int(self.device.partition(":")[2]))

    def __repr__(self) -> str:
        return f".to({self.device!r})"

    @property
    def facts(self) -> object:
        """Nothing: no value changes."""
        return None

    def explain(self, device: str) -> list[str]:
        """See :class:`DatasetStage`."""
        return [f"copy from {device} to {self.device}"]


def with_padding(stages: tuple[DatasetStage, ...], before: int, fill: float) -> tuple[DatasetStage, ...]:
    """Return stages with padding after some of them."""
    result = list[DatasetStage]()
    for number, stage in enumerate(stages):
        count = len(stage.chain.ops) if isinstance(stage, OperatorStage) else 1
        if before <= 0:
            return (*result, PadStage(fill), *stages[number:])
        if before < count and isinstance(
            stage, OperatorStage
        ):  # operators keep their occurrences, and thus draws
            ops, fuse = stage.chain.ops, stage.chain.fuse
            first, then = (OperatorStage(Chain.part(some, fuse)) for some in (ops[:before], ops[before:]))
            return (*result, first, PadStage(fill), then, *stages[number + 1 :])
        result.append(stage)
        before -= count
    return (*result, PadStage(fill))


def chain_of(ops: tuple[Any, ...]) -> Chain:
    """Return operators as one chain."""
    flat = [operator for op in ops for operator in (op if isinstance(op, (list, tuple)) else [op])]
    return flat[0] if len(flat) == 1 and isinstance(flat[0], Chain) else Chain(*flat)


def check_operators(chain: Chain, parts: Mapping[str, Type], *, is_batched: bool) -> None:
    """Check that operators can act on the parts of samples."""
    layouts = {
        part_type.layout for part_type in parts.values() if part_type.layout and part_type.kind == "images"
    }
    for op in chain.operators:
        takes = getattr(getattr(op, "traits", None), "takes", "images")
        if takes == "batches" and not is_batched:
            raise ParameterError(
                f"{op.name} mixes the samples of a batch, and there is no batch yet",
                source="Dataset",
                advice=f"Call batch() first: .batch(8).map(ops.{type(op).__name__}(…))",
            )
        if takes == "volumes" and layouts and not any("D" in layout for layout in layouts):
            raise ParameterError(
                f"{op.name} transforms volumes, and the samples are frames ({', '.join(sorted(layouts))})",
                source="Dataset",
                allowed="operators on images, which process every frame alike",
            )


def stages_of(steps: tuple[DatasetStage, ...]) -> tuple[DatasetStage, ...]:
    """Return the stages of steps.

    Occurrences of operators are counted over all steps, so that two flips before and after a function draw apart; and
    neighboring chains are one, so that no draw depends on the number of ``map``.
    """
    mapped = [step.chain for step in steps if isinstance(step, OperatorStage)]
    numbered = iter(Chain(*(op for chain in mapped for op in chain.ops)).ops if mapped else ())
    stages = list[DatasetStage]()
    for step in steps:
        before = stages[-1] if stages else None
        if not isinstance(step, OperatorStage):
            stages.append(step)
            continue
        ops = tuple(next(numbered) for _ in step.chain.ops)
        if isinstance(before, OperatorStage) and before.chain.fuse == step.chain.fuse:
            ops = (*before.chain.ops, *ops)
            stages.pop()
        stages.append(OperatorStage(Chain.part(ops, step.chain.fuse)))
    return tuple(stages)
