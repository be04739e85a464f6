"""The nodes of a graph in an order in which they can be evaluated: each once, after all that it is made of."""

from __future__ import annotations

from collections.abc import Iterable

from ..ops import DataNode, Occurrences
from .inputs import Input

__all__ = ["Ordered", "ordered"]


class Ordered:
    """Nodes in an order, which can be asked for their places; inputs of one name have one place.

    Nodes are told apart by what they are, not by ``==``, which is arithmetic.

    Attributes:
        nodes: in their order.
    """

    def __init__(self) -> None:
        self.nodes: list[DataNode] = []
        self._places: dict[int | str, int] = {}

    def __contains__(self, node: DataNode) -> bool:
        return _key(node) in self._places

    def add(self, node: DataNode) -> None:
        """Put a node at the end, unless it is there."""
        if node not in self:
            self._places[_key(node)] = len(self.nodes)
            self.nodes.append(node)

    def count_occurrences(self) -> None:
        """Put in place of each node one whose operators draw as they occur among all of them.

        What is made of a node still names the one that was there, which has the same place.
        """
        seen = Occurrences()
        for place, node in enumerate(self.nodes):
            self.nodes[place] = made = node.with_occurrences(seen)
            made.__dict__["where"] = node.where  # it stands for that node
            self._places[_key(made)] = place

    def place(self, node: DataNode) -> int:
        """The number of a node, from 0 on."""
        return self._places[_key(node)]


def ordered(outputs: Iterable[DataNode]) -> Ordered:
    """All nodes that some are made of, and these: what a node is made of comes before it.

    The order follows from how they are made of one another alone, not from when they were made. However many follow one
    another, Python's stack does not grow.
    """
    found = Ordered()
    for output in outputs:
        waiting = [output]
        while waiting:
            node = waiting[-1]
            missing = [] if node in found else [one for one in node.operands if one not in found]
            if missing:
                waiting.extend(reversed(missing))
            else:
                found.add(waiting.pop())
    return found


def _key(node: DataNode) -> int | str:
    return node.name if isinstance(node, Input) else id(node)
