"""Graphs of operators: built from nodes that stand for future values, then called with batches.

    images = Input("images")
    angle = fn.random.uniform(range=(-10.0, 10.0), seed=1)
    turned = fn.rotate(images, angle=angle, fill_value=0)
    even = fn.brightness(turned, brightness=118 / (fn.reductions.mean(turned, axis_names="FHWC", layout="NFHWC") + 1))
    graph = Graph(even, angle)
    pixels, angles = graph(images=batch, epoch=1)

A node refers to its operands only, not to its users or a graph. So graphs have no cycles, and a node may be in several
graphs. Operators create nodes when they are called with nodes; this module evaluates them.

Results equal those of the same calls without a graph, bit by bit: a node as a parameter stands for an array with values
for samples or frames. A node is evaluated once for all of its users, and its value is released after the last use.
Consecutive calls without other users are one :class:`seqpipe.ops.Chain`. Parameters are needed in main memory: if they
are computed from pixels on a GPU, they are copied from there, which waits for the GPU.

Sampled values depend on (seed, name, occurrence, epoch, sample index). Operators of the same name and seed sample
independently in a graph, and so do nodes of random numbers; see :class:`~seqpipe.ops.core.nodes.Occurrences`.
A call outside of
a graph is the first occurrence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..array import IntArray
from ..core.cached import cached_property
from ..core.json_text import reading_json
from ..core.kernel import KernelDevice
from ..errors import ParameterError, described_type
from ..ops import Backend, Chain, DataNode, Op, Run, Type
from ..ops.core.deferred import DeferredCall
from ..ops.core.nodes import GRAPH_ARGUMENTS
from ..ops.random import RandomSource
from ..sampling import fingerprint
from ..sequence import Batch
from .graph_json import from_json, to_json
from .inference import dot_text, infer
from .inputs import Input, extent_of, image_inputs
from .source import add_note
from .steps import GraphStep, Ordered, ordered, releasing, steps_of

__all__ = ["Graph", "Numbers"]


class Graph:
    """A function of named inputs that consists of operators and random numbers; see :mod:`seqpipe.pipeline.graph`.

    Args:
        *outputs: the output nodes, one or more.

    Raises:
        ParameterError: there is no output, or an output is not a node.
    """

    def __init__(self, *outputs: DataNode) -> None:
        unchecked: tuple[Any, ...] = outputs
        for output in unchecked:
            if not isinstance(output, DataNode):
                several = isinstance(output, tuple)
                raise _wrong(
                    f"{described_type(output)} among the outputs",
                    allowed="nodes",
                    advice="Give its parts one by one" if several else "Make them of Input('images')",
                )
        if not outputs:
            raise _wrong("a graph of no outputs", allowed="one node or more")
        self._outputs = outputs
        self._order = ordered(outputs)
        self._order.count_occurrences()
        self._steps = steps_of(self._order, outputs)
        self._image_inputs = image_inputs(self._order.nodes)
        self._input_positions = {
            n.name: self._order.position(n) for n in self._order.nodes if isinstance(n, Input)
        }
        self._draws = any(isinstance(node, RandomSource) for node in self._order.nodes)
        self._inferred = infer(self._order)

    @property
    def outputs(self) -> tuple[DataNode, ...]:
        """The output nodes."""
        return self._outputs

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(self._input_positions)

    @property
    def nodes(self) -> tuple[DataNode, ...]:
        """All nodes in evaluation order."""
        return tuple(self._order.nodes)

    @property
    def types(self) -> tuple[Type, ...]:
        """Types of the outputs, as far as known."""
        return tuple(self.type_of(node) for node in self._outputs)

    def type_of(self, node: DataNode) -> Type:
        """Return the type of a node's value; the first one's, if the node has several values."""
        return self._inferred.types[self._order.position(node)][0]

    @property
    def waits(self) -> tuple[str, ...]:
        """A sentence for each node whose value is copied from a GPU during a batch."""
        return self._inferred.waits

    def infer_types(self, types: Mapping[str, Type]) -> None:
        """Infer the types of all nodes from those of the inputs.

        Args:
            types: type of a sample of each input, by name; unknown for those that are missing.

        Raises:
            ParameterError: an operator does not accept its input.
        """
        self._inferred = infer(self._order, types)

    @property
    def input_nodes(self) -> tuple[Input, ...]:
        """The input nodes."""
        return tuple(node for node in self._order.nodes if isinstance(node, Input))

    def users(self, node: DataNode) -> tuple[DataNode | None, ...]:
        """The nodes that use a node, once for each use, and None for each time that it is an output."""
        position = self._order.position(node)
        outputs = [None for output in self._outputs if self._order.position(output) == position]
        uses = [
            node
            for node in self._order.nodes
            for used in node.operands
            if self._order.position(used) == position
        ]
        return (*uses, *outputs)

    def __call__(
        self,
        *,
        epoch: int = 0,
        index: Any = None,
        backend: Backend | None = None,
        device: KernelDevice | None = None,
        **inputs: Any,
    ) -> tuple[Any, ...]:
        """Compute the outputs.

        Args:
            epoch: the epoch of sampled values.
            index: index of the first sample within its dataset, or of each sample, for sampled values. By default
                the indices of a Batch among the inputs, else counted from 0.
            backend: implementation of the operators on images; None for kernels on a GPU and the fast ones on the CPU.
            device: device of the kernels; None for the GPU that holds the images.
            **inputs: a value for each input by name: an array, a list of arrays, a Sequence or a Batch.

        Returns:
            A value for each output, equal to that of the same calls without a graph.

        Raises:
            ParameterError: an input is missing or unknown, or an operator does not accept its input.
            BackendError: the data are on a GPU that is not usable.
        """
        self._check(inputs, epoch=epoch, index=index)
        index = _indices(inputs, index)
        samples, frames = extent_of(self._image_inputs, inputs, index) if self._draws else (0, None)
        run = Run(epoch, index, samples, frames, backend, device)
        values = {position: inputs.pop(name) for name, position in self._input_positions.items()}
        for step in self._steps:
            values[self._position(step)] = self._value(step, values, run)
            for position in (*map(self._order.position, step.released), step.given):
                if position is not None:
                    del values[position]
        return tuple(values[self._order.position(node)] for node in self._outputs)

    def _value(self, step: GraphStep, values: Mapping[int, Any], run: Run) -> Any:
        """Compute a step; no reference to its operands remains afterwards, so that their memory is freed."""
        given = [] if step.given is None else [values[step.given]]
        try:
            return step.value([*given, *(values[self._order.position(node)] for node in step.needed)], run)
        except Exception as error:
            where = getattr(step.nodes[-1], "where", "")
            add_note(error, f"node {step.nodes[-1]}" + (f", made at {where}" if where else ""))
            raise

    def lines_on(self, name: str) -> list[tuple[GraphStep, Chain]]:
        """Return the steps that act on an input, one for each such use, with their operators.

        These are followed by the target of the next call, if that is the only user of the step's result.
        """
        lines = []
        for step in self._steps:
            if self._acts_on(step, self._input_positions[name]):
                ops = list(step.chain.ops if step.calls else self._targets(step))
                last = self._position(step)
                users = [
                    step
                    for step in self._steps
                    for node in step.operands
                    if self._order.position(node) == last
                ]
                if (
                    step.calls
                    and len(users) == 1
                    and not any(self._order.position(n) == last for n in self._outputs)
                ):
                    ops += self._targets(users[0]) if self._acts_on(users[0], last) else []
                if ops:
                    lines.append((step, Chain.part(ops, step.chain.fuse if step.calls else "exact")))
        return lines

    def _acts_on(self, step: GraphStep, position: int) -> bool:
        """Whether a step begins with a call whose first argument is at a position, and has a layout of its own."""
        call = step.nodes[0]
        if not isinstance(call, DeferredCall) or not call.args or call.options.get("layout"):
            return False
        return isinstance(call.args[0], DataNode) and self._order.position(call.args[0]) == position

    @staticmethod
    def _targets(step: GraphStep) -> list[Any]:
        """The operator of a single call that is no chain."""
        return (
            [node.target for node in step.nodes if isinstance(node, DeferredCall)] if not step.calls else []
        )

    def after(self, absorbed: Mapping[str, tuple[GraphStep, int]]) -> Graph:
        """Return what remains of the graph if the first operators of some of its steps are applied elsewhere.

        Args:
            absorbed: for each input that is new, a step and the number of its operators whose result the input is.

        Returns:
            A graph with other inputs and the same outputs, which does not pickle.
        """
        result = Graph.__new__(Graph)  # copy() would go by JSON
        result.__dict__.update(self.__dict__)
        result._order, steps, inputs = self._order.copy(), list[GraphStep](), dict(self._input_positions)
        keys = {id(step): (key, count) for key, (step, count) in absorbed.items()}
        for step in self._steps:
            key, count = keys.get(id(step), ("", 0))
            if not key:
                steps.append(step)
            elif rest := step.after(count):
                inputs[key] = -len(steps) - 1
                result._order.stand_in(rest[-1], step.nodes[-1])
                steps.append(GraphStep(rest, given=inputs[key]))
            else:
                inputs[key] = self._order.position(step.nodes[-1])
        result._steps = releasing(result._order, steps, self._outputs)
        used = {self._order.position(node) for step in steps for node in step.needed}
        used |= {self._order.position(node) for node in self._outputs}
        result._input_positions = {n: at for n, at in inputs.items() if n in absorbed or at in used}
        layouts = {**self._image_inputs, **dict.fromkeys(absorbed)}
        result._image_inputs = {n: layout for n, layout in layouts.items() if n in result._input_positions}
        return result

    @property
    def numbers(self) -> Numbers:
        """The values of nodes that depend on no input."""
        return Numbers(self._order)

    def _position(self, step: GraphStep) -> int:
        return self._order.position(step.nodes[-1])

    def _check(self, inputs: Mapping[str, Any], **options: Any) -> None:
        names = ", ".join(self.inputs) or "none"
        for name, value in (*inputs.items(), *options.items()):
            if isinstance(value, DataNode):
                raise _wrong(f"{name} is a node, {value}", allowed="values that are there")
        for name in inputs:
            if name not in self.inputs:
                raise _wrong(f"there is no input {name!r}", allowed=f"{names}; {', '.join(GRAPH_ARGUMENTS)}")
        if missing := [name for name in self.inputs if name not in inputs]:
            raise _wrong(
                f"the input {missing[0]!r} is missing",
                allowed=f"a value for each of {names}",
                advice=f"graph({', '.join(f'{name}=…' for name in self.inputs)})",
            )

    def __repr__(self) -> str:
        lines = [f"{self._name(node)} = {node.written(self._name)}" for node in self._computed]
        outputs = ", ".join(map(self._name, self._outputs))
        return (
            f"Graph({', '.join(node.label for node in self.input_nodes)}):\n"
            + "".join(f"    {line}\n" for line in lines)
            + f"    → {outputs}"
        )

    @property
    def _computed(self) -> list[DataNode]:
        return [node for node in self._order.nodes if not isinstance(node, Input)]

    def _name(self, node: DataNode) -> str:
        return node.label if isinstance(node, Input) else f"%{self._order.position(node)}"

    def explain(self) -> str:
        """Describe each step in a line; chains of operators by their passes on a GPU.

        The types of the inputs come first, the type of a result follows its step as far as known, and copies from a GPU
        are listed at the end.
        """
        lines = []
        for step in self._steps:
            kind = self.type_of(step.nodes[-1])
            known = f" → {kind}" if kind.layout is not None or kind.dtype is not None else ""
            if step.calls:
                passes = zip(step.chain.explain().splitlines(), step.chain.groups(), strict=True)
                lines += [line.partition(". ")[2] + self._parameter_sources(group) for line, group in passes]
                lines[-1] += known
            else:
                node = step.nodes[-1]
                how = "by itself" if isinstance(node, DeferredCall) else "numbers in main memory"
                lines.append(f"{node.written(self._name)}: {how}{known}")
        inputs = [
            f"{node.label}: {kind}" for node in self.input_nodes if (kind := self.type_of(node)) != Type()
        ]
        return "\n".join(
            [*inputs, *(f"{number}. {line}" for number, line in enumerate(lines, 1)), *self.waits]
        )

    def dot(self) -> str:
        """Return the graph in Graphviz's DOT language, with the types of its nodes."""
        return dot_text(self._order, self._inferred.types)

    def _parameter_sources(self, ops: Iterable[Op]) -> str:
        """Return a clause with the nodes that parameters of operators come from."""
        names = [self._name(node) for op in ops for node in op.pending]
        return f"; parameters from {', '.join(names)}" if names else ""

    def to_json(self) -> str:
        """Return the graph as JSON, for :meth:`from_json`; equal for graphs with the same structure.

        Raises:
            ParameterError: an array is part of the graph.
        """
        return to_json(self._order, self._outputs)

    @staticmethod
    def from_json(text: str) -> Graph:
        """Return the graph from the result of :meth:`to_json`.

        Raises:
            ParameterError: the text is not one, or an operator or a parameter in it is not valid.
        """
        outputs = from_json(text)
        with reading_json("graph", "Graph"):
            return Graph(*outputs)

    @cached_property
    def fingerprint(self) -> str:
        """Short digest of everything that determines the outputs for given inputs."""
        return fingerprint(graph=self.to_json())

    def __reduce__(self) -> tuple[Any, ...]:
        return Graph.from_json, (self.to_json(),)


@dataclass(frozen=True, eq=False)
class Numbers:
    """The values of nodes that depend on epoch and samples alone: random numbers, constants and arithmetic on them.

    Attributes:
        order: the nodes of a graph.
    """

    order: Ordered

    def knows(self, node: DataNode) -> bool:
        """Whether a node depends on no input, and has one value for each sample."""
        is_number = not isinstance(node, (Input, DeferredCall)) and not node.by_frame
        return is_number and all(map(self.knows, node.operands))

    def bound(self, ops: Iterable[Op], epoch: int, indices: IntArray) -> list[Op]:
        """Return operators with the values of their nodes for some samples."""
        run = Run(epoch, indices, len(indices), None, None, None)
        return [op.bound([self._value(node, run) for node in op.pending]) for op in ops]

    def _value(self, node: DataNode, run: Run) -> Any:
        own = self.order.nodes[self.order.position(node)]  # with its occurrence
        return own.value([self._value(operand, run) for operand in own.operands], run)


def _indices(inputs: Mapping[str, Any], index: Any) -> Any:
    """Return the samples' indices: ``index``, or those of the batches."""
    if index is not None:
        return index
    batches = {name: value for name, value in inputs.items() if isinstance(value, Batch)}
    known = {name: batch.indices for name, batch in batches.items() if batch.indices is not None}
    if len({tuple(indices.tolist()) for indices in known.values()}) > 1:
        raise _wrong(
            f"{' and '.join(known)} are batches of different samples",
            allowed="those of the same, in one order",
            advice="Pass the indices for sampled values as index=…",
        )
    return next(iter(known.values()), None)


def _wrong(fact: str, *, allowed: str, advice: str | None = None) -> ParameterError:
    return ParameterError(fact, source="Graph", allowed=allowed, advice=advice)
