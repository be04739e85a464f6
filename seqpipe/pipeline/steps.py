"""Steps: what a graph does one after the other; operators that follow one another in a line are one step, a Chain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from typing import Any

from ..cached import cached_property
from ..ops import DEFAULT_LAYOUTS, Chain, DataNode, DeferredCall, Op, Run, naming_nodes
from .inputs import Input
from .order import Ordered

__all__ = ["GraphStep", "steps_of"]


@dataclass(frozen=True, eq=False)
class GraphStep:
    """One node, or calls of operators on images of which each acts on what the one before it makes, and nobody else.

    Attributes:
        nodes: in their order; the step gives the value of the last.
        spent: the nodes whose values nobody needs after it.
    """

    nodes: tuple[DataNode, ...]
    spent: tuple[DataNode, ...] = ()

    @cached_property
    def calls(self) -> tuple[DeferredCall, ...]:
        """The nodes of a chain; none if it is no chain."""
        return tuple(node for node in self.nodes if isinstance(node, DeferredCall) and _chains(node))

    @cached_property
    def chain(self) -> Chain:
        """The operators of a chain, with nodes among their parameters."""
        if len(self.calls) == 1 and isinstance(self.calls[0].target, Chain):
            return self.calls[0].target
        return Chain.part([op for call in self.calls for op in call.target.operators])

    @cached_property
    def operands(self) -> tuple[DataNode, ...]:
        """The nodes whose values it needs: of a chain, what that acts on, and then the parameters."""
        return (*self.calls[0].inputs, *self.chain.pending) if self.calls else self.nodes[0].operands

    def value(self, given: Seq[Any], run: Run) -> Any:
        """The value of its last node.

        Args:
            given: the values of its operands.
            run: what it is evaluated for.

        Raises:
            ParameterError: a value is not one that an operator takes.
        """
        if not self.calls:
            return self.nodes[0].value(given, run)
        (first,) = self.calls[0].given
        with naming_nodes(self.chain.ops):
            many = len(self.calls[0].inputs)
            chain = self.chain.bound(given[many:])
            return chain(
                given[0] if many else first,
                layout=self.calls[0].options.get("layout"),
                epoch=run.epoch,
                index=run.index,
                backend=run.backend,
                device=run.device,
            )

    def joined(self, call: DeferredCall) -> GraphStep:
        """The step with one more call at its end."""
        return GraphStep((*self.nodes, call))

    def can_lead(self, call: DeferredCall) -> bool:
        """Whether a call does to the result what it would do as the last of a chain.

        A chain passes layouts on, a call has its own: both must be the same. And what is composed stays as it is.
        """
        targets = (self.chain, call.target)
        if not self.calls or any(one.fuse != "exact" for one in targets if isinstance(one, Chain)):
            return False
        before, after = self.calls[0].options.get("layout"), call.options.get("layout")
        if before is not None:
            return _after(self.chain, before) == after
        return after is None and all(_after(self.chain, one) == one for one in DEFAULT_LAYOUTS.values())


def _after(chain: Chain, layout: str) -> str:
    return chain.result_layout(layout)


def _chains(node: DeferredCall) -> bool:
    """Whether a call is that of operators on images alone, which are one line with others before and behind them."""
    maker = node.target
    if isinstance(maker, Chain):
        return maker.is_line and len(node.given) == 1
    return isinstance(maker, Op) and type(maker).__call__ is Op.__call__


def steps_of(order: Ordered, outputs: Seq[DataNode]) -> list[GraphStep]:
    """What has to be done, in its order; inputs are there.

    Args:
        order: the nodes.
        outputs: those of them that the graph gives.
    """
    uses = Counter(order.place(node) for one in order.nodes for node in one.operands)
    uses.update(order.place(node) for node in outputs)
    found: dict[int, GraphStep] = {}  # by the place of what each gives
    for place, node in enumerate(order.nodes):
        if isinstance(node, Input):
            continue
        found[place] = GraphStep((node,))
        if isinstance(node, DeferredCall) and _chains(node) and isinstance(node.given[0], DataNode):
            before = order.place(node.given[0])
            if before in found and uses[before] == 1 and found[before].can_lead(node):
                found[place] = found.pop(before).joined(node)
    return _spending(order, [*found.values()], outputs)


def _spending(order: Ordered, steps: list[GraphStep], outputs: Seq[DataNode]) -> list[GraphStep]:
    """The steps with what each is the last to need."""
    needed = {order.place(node) for node in outputs}
    done: list[GraphStep] = []
    for step in reversed(steps):
        spent = {order.place(node): node for node in step.operands if order.place(node) not in needed}
        needed.update(spent)
        done.append(replace(step, spent=tuple(spent.values())))
    return done[::-1]
