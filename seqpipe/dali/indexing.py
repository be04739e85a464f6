"""Indexing of nodes: ``node[0]``, ``node[:, ::-1]``, ``node[begin:end]`` with nodes among the bounds."""

from __future__ import annotations

from types import EllipsisType
from typing import Any

from ..errors import ParameterError
from ..ops import Run
from ..pipeline.nodes import user_line
from ..pipeline.value import Value
from .data_node import DataNode

__all__ = ["subscript"]


def subscript(node: DataNode, key: Any) -> DataNode:
    """A part of every sample.

    Args:
        node: of the samples.
        key: whole numbers, slices, None, Ellipsis, and nodes of whole numbers.

    Raises:
        ParameterError: the key is something else.
    """
    keys = key if isinstance(key, tuple) else (key,)
    inputs: list[DataNode] = [node]

    def admitted(part: Any) -> Any:
        if isinstance(part, DataNode):
            inputs.append(part)
            return _Place(len(inputs) - 1)
        if isinstance(part, slice):
            return slice(*(admitted(one) for one in (part.start, part.stop, part.step)))
        if part is None or isinstance(part, EllipsisType) or hasattr(part, "__index__"):
            return part
        raise ParameterError(
            f"{user_line()}: a {type(part).__name__} as an index of a node",
            source="DataNode",
            allowed="whole numbers, slices, None, ..., and nodes of whole numbers",
        )

    wanted = tuple(admitted(part) for part in keys)
    varies = len(inputs) > 1
    told = ", ".join(map(_written, wanted))

    def compute(values: list[Value], _: Run) -> Value:
        value = values[0]
        layout = _layout(value, wanted)
        try:
            if value.dense and not varies:
                return value.with_data(value.data[(slice(None), *wanted)], layout)
            parts = [value[n][tuple(_settled(part, values, n) for part in wanted)] for n in range(len(value))]
        except IndexError as error:
            shapes = dict.fromkeys(value.shapes())
            raise ParameterError(
                f"[{told}] of samples of the shape {', '.join(map(str, shapes))}: {error}", source="DataNode"
            ) from error
        return Value.of(parts, layout, value.sources)

    return DataNode("subscript", inputs, compute, device=node.device, told=told)


class _Place:
    """The number of an input that stands for a part of a key."""

    def __init__(self, number: int) -> None:
        self.number = number


def _settled(part: Any, values: list[Value], sample: int) -> Any:
    if isinstance(part, _Place):
        return int(values[part.number].on_host()[sample].reshape(-1)[0])
    if isinstance(part, slice):
        return slice(*(_settled(one, values, sample) for one in (part.start, part.stop, part.step)))
    return part


def _written(part: Any) -> str:
    if isinstance(part, _Place):
        return f"node {part.number}"
    if isinstance(part, slice):
        return ":".join("" if one is None else _written(one) for one in (part.start, part.stop, part.step))
    return "..." if isinstance(part, EllipsisType) else str(part)


def _layout(value: Value, keys: tuple[Any, ...]) -> str:
    """The letters of the axes that are left; none where there is an axis that has no letter."""
    if not value.layout or None in [key if not isinstance(key, (slice, _Place)) else 0 for key in keys]:
        return ""
    named = sum(not isinstance(key, EllipsisType) for key in keys)
    letters, kept, at = value.layout, "", 0
    for key in keys:
        if isinstance(key, EllipsisType):
            skip = len(letters) - named
            kept, at = kept + letters[at : at + skip], at + skip
        else:
            kept, at = kept + (letters[at : at + 1] if isinstance(key, slice) else ""), at + 1
    return kept + letters[at:]
