"""Deferred calls: nodes for calls of operators and chains that have nodes as data or parameters."""

from __future__ import annotations

import inspect
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from ...core.cached import cached_property
from ...errors import ParameterError
from .distributions import PerFrame, unframed
from .nodes import GRAPH_ARGUMENTS, DataNode, Named, Occurrences, Run, numbers_of
from .types import Type

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Deferrable", "DeferredCall", "naming_nodes", "node_of", "or_node", "written"]

F = TypeVar("F", bound=Callable[..., Any])


class Deferrable(ABC):
    """Base of operators and chains, whose calls are deferred if data or parameters are nodes.

    Attributes:
        call_method: name of the method that evaluates a call, the one with a backend if there are several.
        accepts_samples: whether the call itself handles mappings of names to nodes.
    """

    call_method: ClassVar[str] = "__call__"
    accepts_samples: ClassVar[bool] = False

    @property
    @abstractmethod
    def operators(self) -> tuple[Any, ...]:
        """The operators, each a :class:`seqpipe.ops.Declaration`."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Names of the operators."""

    def refusal(self, fact: str, *, allowed: str | None = None, advice: str | None = None) -> ParameterError:
        """Return the error for an argument or input that is not accepted."""
        return ParameterError(
            fact, source=getattr(self, "name", "") or self.title, allowed=allowed, advice=advice
        )

    @abstractmethod
    def rebuilt(self, operators: Seq[Any]) -> Self:
        """Return the same object with other operators, as many as it has."""

    @cached_property
    def pending(self) -> tuple[DataNode, ...]:
        """The nodes among the parameters, in the order of the operators and of their parameters."""
        return tuple(node for op in self.operators for node in op.nodes.values())

    def bound(self, values: Iterable[Any]) -> Self:
        """Return the same object with values in place of :attr:`pending`."""
        numbers = iter(values)
        if not self.pending:
            return self
        # operators without pending parameters keep their caches
        return self.rebuilt([_bound(op, numbers) if op.nodes else op for op in self.operators])

    def results(self, node: DataNode) -> Any:
        """Return the node of a call, or a node for each of several results."""
        return node

    def result_types(self, inputs: Seq[Type]) -> tuple[Type, ...]:  # noqa: ARG002  for overrides
        """Return the types of the results of a call in a graph; unknown ones unless a class overrides this."""
        return (Type(),)

    def expression(self, name: Named) -> str:
        """Return the expression that creates it, without the arguments of its call."""
        return f"{type(self).__name__}({' → '.join(op.expression(name) for op in self.operators)})"


def _bound(op: Any, numbers: Iterator[Any]) -> Any:
    settings = op.settings()
    for name in op.nodes:
        try:
            value = numbers_of(next(numbers))
        except ParameterError as error:
            error.source, error.fact = op.name, f"{name} is {error.fact}"
            raise
        settings[name] = PerFrame(value) if isinstance(settings[name], PerFrame) else value
    return op.with_settings(settings)


@contextmanager
def naming_nodes(ops: Seq[Any]) -> Iterator[None]:
    """Add to errors about a parameter which node computed it, for the operators of a call."""
    try:
        yield
    except ParameterError as error:
        nodes = [pair for op in ops if op.name == error.source for pair in op.nodes.items()]
        blamed = [(name, node) for name, node in nodes if re.search(rf"\b{name}\b", error.fact)]
        origin = ", ".join(dict.fromkeys(f"{name} is the value of {node}" for name, node in blamed))
        error.advice = ". ".join(part for part in (error.advice, f"Here {origin}" if origin else "") if part)
        raise


@dataclass(frozen=True, eq=False, repr=False)
class DeferredCall(DataNode):
    """The result of a deferred call.

    Attributes:
        target: the operator or chain that is called.
        args: positional arguments, with nodes.
        options: keyword arguments, with nodes.
    """

    target: Deferrable
    args: tuple[Any, ...]
    options: Mapping[str, Any]

    @cached_property
    def inputs(self) -> tuple[DataNode, ...]:
        """The nodes among the arguments."""
        return tuple(v for v in (*self.args, *self.options.values()) if isinstance(v, DataNode))

    @cached_property
    def operands(self) -> tuple[DataNode, ...]:
        """The nodes among the arguments, then those among the parameters."""
        return (*self.inputs, *self.target.pending)

    def with_occurrences(self, seen: Occurrences) -> DeferredCall:
        """See :meth:`DataNode.with_occurrences`."""
        operators = seen.of(self.target.operators)
        same = all(map(operator.is_, operators, self.target.operators))
        return self if same else replace(self, target=self.target.rebuilt(operators))

    @property
    def applies(self) -> Any:
        """See :meth:`DataNode.applies`; none where a layout is given, which may differ from that of the operand."""
        first, args = getattr(self.target, "ops", (self.target,))[0], self.args  # of a chain, or itself
        alone = len(self.operands) == len(args) == 1 and args[0] is self.operands[0]
        known = first is self.target.operators[0] and first.traits.takes == "images"
        return first if alone and known and not self.options.get("layout") else None

    @property
    def holds_pixels(self) -> bool:
        """Whether the last operator gives images."""
        return self.target.operators[-1].traits.takes in ("images", "batches")

    @property
    def label(self) -> str:
        """The names of the operators."""
        return self.target.title

    def written(self, name: Named) -> str:
        """See :meth:`DataNode.written`."""
        arguments = [_named(value, name) for value in self.args]
        arguments += [
            f"{key}={_named(value, name)}" for key, value in self.options.items() if value is not None
        ]
        if self.target.operators[0] is not self.target:
            return f"{self.target.expression(name)}({', '.join(arguments)})"
        own = written(self.target, name)
        return f"{self.label}({', '.join([*arguments, own] if own else arguments)})"

    def value(self, operands: Seq[Any], run: Run) -> Any:
        """See :meth:`DataNode.value`."""
        count = len(self.inputs)
        with naming_nodes(self.target.operators):
            target: Any = self.target.bound(operands[count:])
            values = iter(operands[:count])
            positional = [next(values) if isinstance(v, DataNode) else v for v in self.args]
            keywords = {k: next(values) if isinstance(v, DataNode) else v for k, v in self.options.items()}
            accepted = _graph_arguments(getattr(type(target), target.call_method))
            options = {name: getattr(run, name) for name in accepted}
            return getattr(target, target.call_method)(*positional, **keywords, **options)


@lru_cache(maxsize=512)
def _graph_arguments(call: Callable[..., Any]) -> tuple[str, ...]:
    """Return the arguments of a graph that a call accepts."""
    parameters = inspect.signature(call).parameters
    return tuple(name for name in GRAPH_ARGUMENTS if name in parameters)


def written(op: Any, name: Named) -> str:
    """Return the parameters of an operator that differ from their defaults, as arguments of an expression."""
    return ", ".join(f"{key}={_named(value, name)}" for key, value in op.changed().items())


def _named(value: Any, name: Named) -> str:
    node = unframed(value)
    if not isinstance(node, DataNode):
        return repr(value) if not hasattr(value, "shape") else f"an array of shape {tuple(value.shape)}"
    return f"per_frame({name(node)})" if isinstance(value, PerFrame) and not node.by_frame else name(node)


def or_node(call: F) -> F:
    """Defer a call of a :class:`Deferrable` that has nodes among its arguments or parameters."""

    @wraps(call)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.accepts_samples and args and isinstance(args[0], Mapping):
            return call(self, *args, **kwargs)
        if not self.pending:
            for value in chain(args, kwargs.values()) if kwargs else args:
                if isinstance(value, DataNode):
                    break
            else:
                return call(self, *args, **kwargs)
        return node_of(call, self, args, kwargs)

    return cast(F, wrapper)


def node_of(call: Any, target: Deferrable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the node of a deferred call."""
    for name in GRAPH_ARGUMENTS:
        if name in kwargs:
            raise ParameterError(
                f"{name} is an argument of a call that returns a node",
                source=target.title,
                advice=f"Pass it to the graph: graph(…, {name}={kwargs[name]!r})",
            )
    if isinstance(kwargs.get("layout"), DataNode):
        raise ParameterError("layout is a node", source=target.title, allowed="a string, or None")
    bound = inspect.signature(call).bind(target, *args, **kwargs)
    return target.results(DeferredCall(target, bound.args[1:], bound.kwargs))
