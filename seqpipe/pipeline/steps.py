"""Nodes of a graph in order, and steps, the units of evaluation: consecutive operators form one step, a Chain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from typing import Any

from ..array import DEFAULT_LAYOUTS
from ..core.cached import cached_property
from ..ops import Chain, DataNode, Op, Run
from ..ops.core.deferred import DeferredCall, naming_nodes
from ..ops.core.nodes import Occurrences
from .inputs import Input

__all__ = ["GraphStep", "Ordered", "ordered", "releasing", "steps_of"]


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
            missing = [] if node in order else [operand for operand in node.operands if operand not in order]
            if missing:
                stack.extend(reversed(missing))
            else:
                order.add(stack.pop())
    return order


def _key(node: DataNode) -> int | str:
    return node.name if isinstance(node, Input) else id(node)


@dataclass(frozen=True, eq=False)
class GraphStep:
    """One node, or consecutive calls of operators on images, each the only user of the previous result.

    Attributes:
        nodes: the nodes in order; the step computes the value of the last.
        released: the nodes whose values are not needed after this step.
        given: where the value is that the first call acts on instead of its operand; None for the operand's.
    """

    nodes: tuple[DataNode, ...]
    released: tuple[DataNode, ...] = ()
    given: int | None = None

    @cached_property
    def calls(self) -> tuple[DeferredCall, ...]:
        """The calls of a chain; empty for another node."""
        return tuple(node for node in self.nodes if isinstance(node, DeferredCall) and _chains(node))

    @cached_property
    def chain(self) -> Chain:
        """The operators of the calls as a chain, with nodes among their parameters."""
        if len(self.calls) == 1 and isinstance(self.calls[0].target, Chain):
            return self.calls[0].target
        return Chain.part([op for call in self.calls for op in call.target.operators])

    @cached_property
    def operands(self) -> tuple[DataNode, ...]:
        """The nodes whose values it needs: of a chain, what that acts on, and then the parameters."""
        return (*self.calls[0].inputs, *self.chain.pending) if self.calls else self.nodes[0].operands

    @property
    def needed(self) -> tuple[DataNode, ...]:
        """The operands without one that :attr:`given` replaces."""
        return self.operands if self.given is None else self.operands[1:]

    def value(self, operands: Seq[Any], run: Run) -> Any:
        """Compute the value of the last node.

        Args:
            operands: the values of the operands.
            run: epoch, indices and device of the evaluation.

        Raises:
            ParameterError: an operator does not accept a value.
        """
        if not self.calls:
            return self.nodes[0].value(operands, run)
        (first,) = self.calls[0].args
        with naming_nodes(self.chain.ops):
            many = len(self.calls[0].inputs)
            chain = self.chain.bound(operands[many:])
            return chain(
                operands[0] if many else first,
                layout=self.calls[0].options.get("layout"),
                epoch=run.epoch,
                index=run.index,
                backend=run.backend,
                device=run.device,
            )

    def after(self, count: int) -> tuple[DataNode, ...]:
        """Return the calls that remain after some operators of the chain; the first may be a part of itself."""
        if not self.calls:
            return self.nodes
        for number, call in enumerate(self.calls):
            own = call.target.operators
            if count < len(own):
                later = self.calls[number + 1 :]
                rest = replace(call, target=Chain.part(own[count:], self.chain.fuse)) if count else call
                return (rest, *later)
            count -= len(own)
        return ()

    def appended(self, call: DeferredCall) -> GraphStep:
        """Return the step with another call appended."""
        return GraphStep((*self.nodes, call))

    def can_append(self, call: DeferredCall) -> bool:
        """Return whether a call has the same result as the last operator of this chain.

        A chain propagates layouts, and a call declares its own: both must agree. Fusion must be exact.
        """
        targets = (self.chain, call.target)
        if not self.calls or any(target.fuse != "exact" for target in targets if isinstance(target, Chain)):
            return False
        before, after = self.calls[0].options.get("layout"), call.options.get("layout")
        if before is not None:
            return _after(self.chain, before) == after
        return after is None and all(
            _after(self.chain, letters) == letters for letters in DEFAULT_LAYOUTS.values()
        )


def _after(chain: Chain, layout: str) -> str:
    return chain.result_layout(layout)


def _chains(node: DeferredCall) -> bool:
    """Return whether a call consists of operators on images only, so that it can be part of a longer chain."""
    target = node.target
    if isinstance(target, Chain):
        return target.is_line and len(node.args) == 1
    return isinstance(target, Op) and type(target).__call__ is Op.__call__


def steps_of(order: Ordered, outputs: Seq[DataNode]) -> list[GraphStep]:
    """Return the steps of a graph in evaluation order, without inputs."""
    uses = Counter(order.position(node) for step in order.nodes for node in step.operands)
    uses.update(order.position(node) for node in outputs)
    steps: dict[int, GraphStep] = {}  # by the position of the last node
    for position, node in enumerate(order.nodes):
        if isinstance(node, Input):
            continue
        steps[position] = GraphStep((node,))
        if isinstance(node, DeferredCall) and _chains(node) and isinstance(node.args[0], DataNode):
            before = order.position(node.args[0])
            if before in steps and uses[before] == 1 and steps[before].can_append(node):
                steps[position] = steps.pop(before).appended(node)
    return releasing(order, [*steps.values()], outputs)


def releasing(order: Ordered, steps: Seq[GraphStep], outputs: Seq[DataNode]) -> list[GraphStep]:
    """Return the steps with the operands that each is the last to use."""
    needed = {order.position(node) for node in outputs}
    done: list[GraphStep] = []
    for step in reversed(steps):
        released = {order.position(node): node for node in step.needed if order.position(node) not in needed}
        needed.update(released)
        done.append(replace(step, released=tuple(released.values())))
    return done[::-1]
