"""Graphs as JSON: nodes in evaluation order, each of which refers to earlier ones only, which excludes cycles."""

from __future__ import annotations

import json
from collections.abc import Sequence as Seq
from dataclasses import fields
from functools import partial
from reprlib import repr as short
from typing import Any, Final

from .. import parts
from ..core.json_text import field_of, parse_json, reading_json
from ..errors import ParameterError, described_type
from ..ops import DataNode, Op, PerFrame
from ..ops.compose.member import State, member_of_state
from ..ops.compose.parts import DeferredSampleCall
from ..ops.core.deferred import DeferredCall
from ..ops.core.nodes import Computed, NodeOutput
from ..ops.random import RandomSource
from .inputs import Input
from .steps import Ordered

__all__ = ["from_json", "to_json"]

_FORMAT: Final = 2
_KINDS: Final = {
    kind.__name__: kind
    for kind in (parts.Image, parts.Labels, parts.Boxes, parts.Points, parts.Flow, parts.Metadata)
}


def to_json(order: Ordered, outputs: Seq[DataNode]) -> str:
    """Return nodes and outputs as JSON."""
    state = {
        "format": _FORMAT,
        "nodes": [_state(node) for node in order.nodes],
        "outputs": [*outputs],
    }

    def reference(value: Any) -> Any:
        if isinstance(value, DataNode):
            return {"node": order.position(value)}
        raise ParameterError(
            f"{described_type(value)} is part of the graph",
            source="Graph",
            allowed="nodes, numbers and texts in JSON",
            advice="Make it an Input",
        )

    return json.dumps(state, default=reference)


def _state(node: DataNode) -> dict[str, Any]:
    """Return a node as a dictionary for JSON, in which other nodes are left as objects."""
    if isinstance(node, Input):
        return {"input": node.name}
    if isinstance(node, NodeOutput):
        return {"part": node.number, "name": node.name, "of": node.whole}
    if isinstance(node, Computed):
        return {"sign": node.sign, "of": node.parts}
    if isinstance(node, RandomSource):
        return {"call": _maker(node.op), "of": [], "with": {}}
    if isinstance(node, DeferredCall):
        return {"call": _maker(node.target), "of": node.args, "with": node.options}
    raise ParameterError(f"{described_type(node)} cannot be written as JSON", source="Graph")


def _maker(maker: Any) -> dict[str, Any]:
    if isinstance(maker, DeferredSampleCall):
        return {**_maker(maker.target), "parts": {name: _part(part) for name, part in maker.parts.items()}}
    return {"maker": maker.state()}


def _part(part: Any) -> dict[str, Any]:
    """Return the type of a part and its attributes without the data; {} for a value that is not a part."""
    if not isinstance(part, parts.Part):
        return {}
    more = {field.name: getattr(part, field.name) for field in fields(part) if field.name != "data"}
    return {"kind": type(part).__name__, **more}


def from_json(text: str) -> tuple[DataNode, ...]:
    """Return the outputs from the result of :func:`to_json`, as new nodes."""
    nodes: list[DataNode] = []
    with reading_json("graph", "Graph"):
        state = parse_json(text)
        if (form := field_of(state, "format", int, "")) != _FORMAT:
            raise _no_graph(f"format {form!r}")
        for number, entry in enumerate(field_of(state, "nodes", list, "")):
            with reading_json(f"graph: nodes[{number}]={short(entry)}", "Graph"):
                nodes.append(_node(entry, nodes, f"nodes[{number}]"))
        outputs = tuple(_read(output, nodes) for output in field_of(state, "outputs", list, ""))
        for number, output in enumerate(outputs):
            if not isinstance(output, DataNode):
                raise _no_graph(f"outputs[{number}]={output!r}, {described_type(output)} among the outputs")
        return outputs


def _node(entry: Any, nodes: Seq[DataNode], where: str) -> DataNode:
    if isinstance(entry, dict) and "input" in entry:
        return Input(field_of(entry, "input", str, where))
    if isinstance(entry, dict) and "part" in entry:
        whole = _read(field_of(entry, "of", dict, where), nodes)
        return NodeOutput(whole, field_of(entry, "part", int, where), field_of(entry, "name", str, where))
    operands = [_read(value, nodes) for value in field_of(entry, "of", list, where)]
    if "sign" in entry:
        if len(operands) != 2:
            raise _no_graph(f"{where}.of has {len(operands)} entries, not 2")
        return Computed(field_of(entry, "sign", str, where), (operands[0], operands[1]))
    options = {name: _read(value, nodes) for name, value in field_of(entry, "with", dict, where).items()}
    call = field_of(entry, "call", dict, where)
    field_of(field_of(call, "maker", dict, f"{where}.call"), "op", str, f"{where}.call.maker")
    result = _target(call, nodes)(*operands, **options)
    results = [*result.values()] if isinstance(result, dict) else result
    first = results[0] if isinstance(results, (list, tuple)) else None
    node = getattr(first, "data", first).whole if first is not None else result
    if not isinstance(node, DataNode):
        raise _no_graph("a call of no nodes")
    return node


def _target(state: dict[str, Any], nodes: Seq[DataNode]) -> Any:
    result = member_of_state(state["maker"], partial(_operator, nodes=nodes))
    return (
        DeferredSampleCall(result, {n: _kind(part) for n, part in state["parts"].items()})
        if "parts" in state
        else result
    )


def _kind(state: dict[str, Any]) -> Any:
    """Return a part with a placeholder as data; None for a value that is not a part."""
    more: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in state.items()}
    kind: Any = _KINDS.get(more.pop("kind", ""))
    return kind(Input("part"), **more) if state else None


def _operator(state: State, nodes: Seq[DataNode]) -> Any:
    pending = {name: node for name, value in state.items() if (node := _deferred(value, nodes)) is not None}
    plain = {name: value for name, value in state.items() if name not in pending}
    return Op.from_json(json.dumps(plain), **pending)


def _deferred(value: Any, nodes: Seq[DataNode]) -> DataNode | PerFrame | None:
    """Return the node of a parameter, or of a parameter for each frame; None for other values."""
    framed = isinstance(value, dict) and value.keys() == {"per_frame"}
    node = _read(value["per_frame"] if framed else value, nodes)
    if not isinstance(node, DataNode):
        return None
    return PerFrame(node) if framed else node


def _read(value: Any, nodes: Seq[DataNode]) -> Any:
    """Return a node by its reference; other values unchanged."""
    if not isinstance(value, dict) or value.keys() != {"node"}:
        return value
    number = field_of(value, "node", int, "")
    if number not in range(len(nodes)):
        raise _no_graph(f"there is no node {number} so far")
    return nodes[number]


def _no_graph(what: str) -> ParameterError:
    return ParameterError(f"this is no graph ({what})", source="Graph", allowed="what to_json() gives")
