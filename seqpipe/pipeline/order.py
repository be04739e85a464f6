"""Topological order of the nodes of a graph."""

from __future__ import annotations

from collections.abc import Iterable

from ..ops import DataNode
from ..ops.core.nodes import Occurrences
from .inputs import Input

__all__ = ["Ordered", "ordered"]


class Ordered:
    """Nodes in evaluation order, with lookup of a node's position; inputs of one name share a position.

    Nodes are compared by identity, since ``==`` on nodes creates a node.

    Attributes:
        nodes: the nodes in order.
    """

    def __init__(self) -> None:
        self.nodes: list[DataNode] = []
        self._positions: dict[int | str, int] = {}

    def __contains__(self, node: DataNode) -> bool:
        return _key(node) in self._positions

    def add(self, node: DataNode) -> None:
        """Append a node, unless it is present."""
        if node not in self:
            self._positions[_key(node)] = len(self.nodes)
            self.nodes.append(node)

    def count_occurrences(self) -> None:
        """Replace each node by one whose operators have the number of their occurrence in the graph.

        Operands still refer to the replaced nodes, which keep their positions.
        """
        seen = Occurrences()
        for position, node in enumerate(self.nodes):
            self.nodes[position] = counted = node.with_occurrences(seen)
            counted.__dict__["where"] = node.where  # the line of user code, for messages
            self._positions[_key(counted)] = position

    def copy(self) -> Ordered:
        """Return the same order, to which nodes may be added."""
        result = Ordered()
        result.nodes, result._positions = list(self.nodes), dict(self._positions)
        return result

    def stand_in(self, node: DataNode, other: DataNode) -> None:
        """Give a node the position of another one, whose value it computes."""
        self._positions[_key(node)] = self.position(other)

    def position(self, node: DataNode) -> int:
        """Return the position of a node, from 0."""
        return self._positions[_key(node)]


def ordered(outputs: Iterable[DataNode]) -> Ordered:
    """Return the output nodes and all nodes that they depend on, operands first.

    The order depends on the structure of the graph only, not on the time of creation. The search is iterative, so that
    long graphs do not exceed Python's recursion limit.
    """
    order = Ordered()
    for output in outputs:
        stack = [output]
        while stack:
            node = stack[-1]
            missing = [] if node in order else [one for one in node.operands if one not in order]
            if missing:
                stack.extend(reversed(missing))
            else:
                order.add(stack.pop())
    return order


def _key(node: DataNode) -> int | str:
    return node.name if isinstance(node, Input) else id(node)
