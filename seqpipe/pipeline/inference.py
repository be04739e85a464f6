"""Type inference for the nodes of a graph; errors name the line of user code that created a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import SeqpipeError
from ..ops import DataNode, Type
from ..ops.core.arithmetic import result_type
from ..ops.core.deferred import DeferredCall
from ..ops.core.nodes import Computed, NodeOutput
from ..ops.core.types import types_after
from ..ops.random import RandomSource
from .inputs import Input
from .source import SourceNode, add_note
from .steps import Ordered

__all__ = ["Inferred", "dot_text", "infer", "line_of"]

_UNKNOWN = Type()


@dataclass(frozen=True)
class Inferred:
    """The inferred types of a graph.

    Attributes:
        types: one type for each value of a node, by the node's position in the order.
        waits: a sentence for each node whose value is copied from a GPU during a batch.
    """

    types: Mapping[int, tuple[Type, ...]]
    waits: tuple[str, ...]


def infer(order: Ordered, known: Mapping[str, Type] | None = None) -> Inferred:
    """Infer the types of all nodes."""
    types: dict[int, tuple[Type, ...]] = {}
    waits: list[str] = []
    for position, node in enumerate(order.nodes):
        operand_types = [types[order.position(operand)] for operand in node.operands]
        try:
            types[position] = _types_of(node, operand_types, known or {})
        except SeqpipeError as error:
            error.source = ": ".join(part for part in (line_of(node), error.source) if part)
            add_note(error, f"nodes: {_trail(node)}")
            raise
        waits += _waits(node, operand_types)
    return Inferred(types, tuple(dict.fromkeys(waits)))


def line_of(node: DataNode) -> str:
    """Return the line of user code that created a node, as ``train.py:31 (function)``."""
    return str(getattr(node, "where", ""))


def _types_of(
    node: DataNode, operand_types: list[tuple[Type, ...]], known: Mapping[str, Type]
) -> tuple[Type, ...]:
    if isinstance(node, SourceNode):
        return (known.get(node.name) or node.source.type_of(node.part),)
    if isinstance(node, Input):
        return (known.get(node.name) or _UNKNOWN,)
    if isinstance(node, RandomSource):
        return (Type("numbers", "F" if node.by_frame else "", "float64", "cpu"),)
    if isinstance(node, NodeOutput):
        whole = operand_types[0]
        return (whole[node.number] if node.number < len(whole) else _UNKNOWN,)
    if isinstance(node, Computed):
        return (_of_arithmetic(node, operand_types),)
    if isinstance(node, DeferredCall):
        inputs = iter(operand_types[: len(node.inputs)])
        by_position = [next(inputs)[0] if isinstance(arg, DataNode) else _UNKNOWN for arg in node.args]
        return types_after(node.target, by_position, node.options.get("layout"))
    return (Type(device=getattr(node, "device", None)),)


def _of_arithmetic(node: Computed, operand_types: list[tuple[Type, ...]]) -> Type:
    operands = iter(operand_types)
    dtypes = [next(operands)[0].dtype if isinstance(part, DataNode) else part for part in node.parts]
    dtype = None if None in dtypes else result_type(node.sign, *dtypes).name
    return Type("numbers", None, dtype, "cpu")


def _waits(node: DataNode, operand_types: list[tuple[Type, ...]]) -> list[str]:
    """Return a sentence for each value that a node needs in main memory and that is computed on a GPU."""
    if isinstance(node, Computed):
        pairs = zip(node.operands, operand_types, strict=True)
        what = "arithmetic"
    elif isinstance(node, DeferredCall):
        first = len(node.inputs)
        pairs = zip(node.operands[first:], operand_types[first:], strict=True)
        what = f"a parameter of {node.label}"
    else:
        return []
    where = line_of(node)
    return [
        f"{where + ': ' if where else ''}{node} is computed on {kind.device}, and {what} needs it in main memory: "
        "each batch waits for the GPU"
        for node, (kind, *_) in pairs
        if kind.device not in (None, "cpu")
    ]


def dot_text(order: Ordered, types: Mapping[int, tuple[Type, ...]]) -> str:
    """Return nodes and their types in Graphviz's DOT language."""
    lines = []
    for position, node in enumerate(order.nodes):
        label = [node.label, *(str(kind) for kind in types[position] if kind != _UNKNOWN)]
        text = "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in label)
        lines.append(f'  n{position} [label="{text}"];')
    lines += [
        f"  n{order.position(operand)} -> n{position};"
        for position, node in enumerate(order.nodes)
        for operand in node.operands
    ]
    return "digraph {\n" + "\n".join(lines) + "\n}\n"


def _trail(node: DataNode) -> str:
    """Return the labels of the nodes before a node, following first inputs."""
    labels: list[str] = []
    current: Any = node
    while current is not None:
        labels.append(current.label)
        current = next(iter(current.operands), None)
    return " → ".join(reversed(labels))
