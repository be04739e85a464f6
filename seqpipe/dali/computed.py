"""Nodes that hold values: operators that are computed when they are called, for debug mode and for dynamic mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..ops import DataNode as NativeNode
from ..ops import Run
from .data_node import Absent, DataNode
from .value import Value, value_of

__all__ = ["ComputedNode", "evaluated", "flat", "holding", "run_of", "with_each_node"]


class ComputedNode(DataNode):
    """A node whose value is known.

    Args:
        value: the batch.
        label: name of the operator that computed it.
    """

    def __init__(self, value: Any, label: str = "batch") -> None:
        self.batch = value
        device = "gpu" if isinstance(value, Value) and value.on_gpu else "cpu"
        super().__init__(label, [], lambda _, __: value, device=device)


def evaluated(node: NativeNode, run: Run, known: dict[int, Any]) -> Any:
    """Return the value of a node.

    Args:
        node: the node.
        run: epoch and indices of the samples.
        known: nodes and their values by the nodes' identities; completed by those that are computed. It holds the
            nodes, as another one could have the identity of one that is gone.
    """
    if isinstance(node, ComputedNode):
        return node.batch
    if id(node) not in known:
        known[id(node)] = node, node.value([evaluated(operand, run, known) for operand in node.operands], run)
    return known[id(node)][1]


def run_of(batch_size: int, epoch: int = 0, first: int = 0) -> Run:
    """Return the run of a batch of consecutive samples."""
    return Run(epoch, np.arange(first, first + batch_size), batch_size, None, None, None)


def with_each_node(result: Any, function: Callable[[Any], Any]) -> Any:
    """Return a call's result, a node or nested lists, tuples and dictionaries of nodes, with each node replaced."""
    if isinstance(result, Mapping):
        return {key: with_each_node(node, function) for key, node in result.items()}
    if isinstance(result, (list, tuple)):
        return type(result)(with_each_node(item, function) for item in result)
    return function(result)


def flat(result: Any) -> list[Any]:
    """Return the nodes of a call's result."""
    nodes: list[Any] = []
    with_each_node(result, nodes.append)
    return nodes


def holding(result: Any, run: Run, known: dict[int, Any] | None = None) -> Any:
    """Return a call's result with nodes that hold their values; see :func:`evaluated`."""
    values: dict[int, Any] = {} if known is None else known

    def held(node: Any) -> ComputedNode:
        value = evaluated(node, run, values)
        return ComputedNode(value if isinstance(value, Absent) else value_of(value), node.label)

    return with_each_node(result, held)
