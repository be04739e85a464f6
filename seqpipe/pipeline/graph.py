"""Graphs of operators: written with values that are to come, then called with batches.

    images = Input("images")
    angle = fn.random.uniform(range=(-10.0, 10.0), seed=1)
    turned = fn.rotate(images, angle=angle, fill_value=0)
    even = fn.brightness(turned, brightness=118 / (fn.reductions.mean(turned, axis_names="FHWC", layout="NFHWC") + 1))
    graph = Graph(even, angle)
    pixels, angles = graph(images=batch, epoch=1)

A node describes a value by what it is made of, and knows nothing else: neither who uses it, nor any graph. So cycles
cannot be written, and a node may be in many graphs. Operators know nodes (``ops._node``) and make them
(``ops._called``), for such a call is one like any other that waits for its values; this room evaluates them.

What comes is what the same eager calls give, to the last bit: a node of a parameter stands for an array with a value
for each sample, or for each frame. A node is evaluated once, however many use it, and let go after its last use. Calls
of which each takes what the one before it gives, and nobody else does, are one :class:`seqpipe.ops.Chain`. Parameters
are needed in main memory: those that are made of pixels on a GPU are brought there by way of its current stream, which
is waited for.

Draws depend on (seed, name, occurrence, epoch, index of the sample), as everywhere. Operators of one name and one seed
draw apart in a graph, and so do nodes of random numbers: see :mod:`seqpipe.ops.core.occurrences`. A call by itself
draws as the first occurrence does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..cached import cached_property
from ..errors import ParameterError
from ..kernel import KernelDevice
from ..ops import GRAPH_ARGUMENTS, Backend, DataNode, DeferredCall, Op, Run, Type, type_of_value
from ..ops.random import RandomSource
from ..sampling import fingerprint
from ..sequence import Batch
from .graph_json import from_json, to_json
from .inference import dot_text, infer
from .inputs import Input, extent_of, leads_of
from .nodes import add_note
from .order import ordered
from .steps import GraphStep, steps_of

__all__ = ["Graph"]


class Graph:
    """Values that are made of inputs, by operators and random numbers; see :mod:`seqpipe.pipeline.graph`.

    Args:
        *outputs: the nodes whose values are wanted, one or more.

    Raises:
        ParameterError: there are none, or something else is among them.
    """

    def __init__(self, *outputs: DataNode) -> None:
        given: tuple[Any, ...] = outputs
        for output in given:
            if not isinstance(output, DataNode):
                several = isinstance(output, tuple)
                raise _wrong(
                    f"a {type(output).__name__} among the outputs",
                    allowed="nodes",
                    advice="Give its parts one by one" if several else "Make them of Input('images')",
                )
        if not outputs:
            raise _wrong("a graph of no outputs", allowed="one node or more")
        self._outputs = outputs
        self._order = ordered(outputs)
        self._order.count_occurrences()
        self._steps = steps_of(self._order, outputs)
        self._leads = leads_of(self._order.nodes)
        self._places = {n.name: self._order.place(n) for n in self._order.nodes if isinstance(n, Input)}
        self._draws = any(isinstance(node, RandomSource) for node in self._order.nodes)
        self._inferred = infer(self._order)

    @property
    def outputs(self) -> tuple[DataNode, ...]:
        """The nodes whose values it gives."""
        return self._outputs

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of what it is called with."""
        return tuple(self._places)

    @property
    def nodes(self) -> tuple[DataNode, ...]:
        """All nodes, each after what it is made of."""
        return tuple(self._order.nodes)

    @property
    def types(self) -> tuple[Type, ...]:
        """What is known of the outputs before anything runs."""
        return tuple(self.type_of(node) for node in self._outputs)

    def type_of(self, node: DataNode) -> Type:
        """What is known of the value of one of its nodes; of one that gives several, of the first."""
        return self._inferred.types[self._order.place(node)][0]

    @property
    def waits(self) -> tuple[str, ...]:
        """For each node whose value has to be brought from a GPU while a batch is made, a sentence."""
        return self._inferred.waits

    def settle(self, values: Mapping[str, Any]) -> None:
        """Take what is not known of types from a first batch, before anything is done to it.

        Args:
            values: of inputs, by their names.

        Raises:
            ParameterError: an operator does not take what it would be given.
        """
        known = {name: type_of_value(value) for name, value in values.items()}
        for node in self.input_nodes:
            declared, found = self.type_of(node), known[node.name]
            if found.layout is None and declared.layout is not None:
                known[node.name] = replace(found, kind=declared.kind, layout=declared.layout)
        self._inferred = infer(self._order, known)

    @property
    def input_nodes(self) -> tuple[Input, ...]:
        """The inputs themselves."""
        return tuple(node for node in self._order.nodes if isinstance(node, Input))

    def users(self, node: DataNode) -> tuple[DataNode | None, ...]:
        """The nodes that are made of a node, one by one, and None for each output that it is."""
        place = self._order.place(node)
        outputs = [None for one in self._outputs if self._order.place(one) == place]
        uses = [one for one in self._order.nodes for used in one.operands if self._order.place(used) == place]
        return (*uses, *outputs)

    @property
    def images(self) -> frozenset[str]:
        """The names of inputs that operators act on as on images."""
        calls = [node for node in self._order.nodes if isinstance(node, DeferredCall)]
        targets = [(call, call.target.operators[0].traits.takes) for call in calls]
        acted_on = [one for call, takes in targets if takes in ("images", "batches") for one in call.inputs]
        return frozenset(one.name for one in acted_on if isinstance(one, Input))

    def __call__(
        self,
        *,
        epoch: int = 0,
        index: Any = None,
        backend: Backend | None = None,
        device: KernelDevice | None = None,
        **inputs: Any,
    ) -> tuple[Any, ...]:
        """The values of the outputs.

        Args:
            epoch: the epoch that draws are for.
            index: the index of the first sample within its dataset, or of each one; draws depend on it. By default
                those that a Batch among the inputs knows, else from 0 on.
            backend: who does what operators do to images; None for kernels on a GPU and the fast forms on the CPU.
            device: what kernels run on; None for the GPU that holds the images.
            **inputs: a value for each input, by its name: an array, a list of such, a Sequence or a Batch.

        Returns:
            One for each output, each as the same eager calls give it.

        Raises:
            ParameterError: an input is missing or unknown, or an operator does not take what it is given.
            BackendError: the data is on a GPU that cannot be used.
        """
        self._check(inputs, epoch=epoch, index=index)
        index = _indices(inputs, index)
        samples, frames = extent_of(self._leads, inputs, index) if self._draws else (0, None)
        run = Run(epoch, index, samples, frames, backend, device)
        values = {place: inputs.pop(name) for name, place in self._places.items()}
        for step in self._steps:
            values[self._place(step)] = self._value(step, values, run)
            for node in step.spent:
                del values[self._order.place(node)]
        return tuple(values[self._order.place(node)] for node in self._outputs)

    def _value(self, step: GraphStep, values: Mapping[int, Any], run: Run) -> Any:
        """What a step gives; nothing here holds what it was given when the next one begins."""
        try:
            return step.value([values[self._order.place(node)] for node in step.operands], run)
        except Exception as error:
            where = getattr(step.nodes[-1], "where", "")
            add_note(error, f"node {step.nodes[-1]}" + (f", made at {where}" if where else ""))
            raise

    def _place(self, step: GraphStep) -> int:
        return self._order.place(step.nodes[-1])

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
        lines = [f"{self._name(node)} = {node.written(self._name)}" for node in self._made]
        outputs = ", ".join(map(self._name, self._outputs))
        return (
            f"Graph({', '.join(node.label for node in self.input_nodes)}):\n"
            + "".join(f"    {line}\n" for line in lines)
            + f"    → {outputs}"
        )

    @property
    def _made(self) -> list[DataNode]:
        return [node for node in self._order.nodes if not isinstance(node, Input)]

    def _name(self, node: DataNode) -> str:
        return node.label if isinstance(node, Input) else f"%{self._order.place(node)}"

    def explain(self) -> str:
        """What is done, a line for each step; of operators on images what is done on a GPU, as a chain has it.

        The types of inputs stand before it, that of a step's result behind it as far as they are known; at the end
        stands what waits for a GPU.
        """
        lines = []
        for step in self._steps:
            kind = self.type_of(step.nodes[-1])
            known = f" → {kind}" if kind.layout is not None or kind.dtype is not None else ""
            if step.calls:
                passes = zip(step.chain.explain().splitlines(), step.chain.groups(), strict=True)
                lines += [line.partition(". ")[2] + self._told(group) for line, group in passes]
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
        """The graph as text for Graphviz: nodes with their types, and what each is made of."""
        return dot_text(self._order, self._inferred.types)

    def _told(self, ops: Iterable[Op]) -> str:
        """Where parameters of operators come from."""
        names = [self._name(node) for op in ops for node in op.pending]
        return f"; parameters from {', '.join(names)}" if names else ""

    def to_json(self) -> str:
        """The graph as JSON, for :meth:`from_json`; the same for graphs that are made alike.

        Raises:
            ParameterError: an array is part of it.
        """
        return to_json(self._order, self._outputs)

    @staticmethod
    def from_json(text: str) -> Graph:
        """The graph that :meth:`to_json` was called for.

        Raises:
            ParameterError: this is no such text, or an operator or a parameter in it is not valid.
        """
        return Graph(*from_json(text))

    @cached_property
    def fingerprint(self) -> str:
        """What decides what it makes of its inputs, in a short text."""
        return fingerprint(graph=self.to_json())

    def __reduce__(self) -> tuple[Any, ...]:
        return Graph.from_json, (self.to_json(),)


def _indices(inputs: Mapping[str, Any], index: Any) -> Any:
    """The samples' indices: those that are given, or those that batches know.

    Raises:
        ParameterError: batches are of different samples.
    """
    if index is not None:
        return index
    batches = {name: value for name, value in inputs.items() if isinstance(value, Batch)}
    known = {name: batch.indices for name, batch in batches.items() if batch.indices is not None}
    if len({tuple(indices.tolist()) for indices in known.values()}) > 1:
        raise _wrong(
            f"{' and '.join(known)} are batches of different samples",
            allowed="those of the same, in one order",
            advice="Say by index=… which draws are meant",
        )
    return next(iter(known.values()), None)


def _wrong(fact: str, *, allowed: str, advice: str | None = None) -> ParameterError:
    return ParameterError(fact, source="Graph", allowed=allowed, advice=advice)
