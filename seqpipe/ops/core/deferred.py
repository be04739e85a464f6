"""Calls that are to come: what an operator or a chain gives for nodes, or where its parameters are nodes."""

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

from ...cached import cached_property
from ...errors import ParameterError
from .distributions import PerFrame, unframed
from .nodes import OF_CALLS, DataNode, Named, Run, numbers_of
from .occurrences import Occurrences

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Called", "Maker", "naming_nodes", "node_of", "or_node", "written"]

F = TypeVar("F", bound=Callable[..., Any])


class Maker(ABC):
    """What makes a value of others, by one operator or several, of which parameters may be nodes.

    Attributes:
        by_backend: the name of the method that is its call, with a backend where it has several.
        moves_samples: whether its call itself sees to nodes among the parts of a sample.
    """

    by_backend: ClassVar[str] = "__call__"
    moves_samples: ClassVar[bool] = False

    @property
    @abstractmethod
    def makers(self) -> tuple[Any, ...]:
        """The operators, each a :class:`seqpipe.ops.Declaration`."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Their names."""

    @abstractmethod
    def rebuilt(self, makers: Seq[Any]) -> Self:
        """The same of other operators, as many as it has."""

    @cached_property
    def awaited(self) -> tuple[DataNode, ...]:
        """The nodes among the parameters, in the order of the operators and of their parameters."""
        return tuple(node for op in self.makers for node in op.nodes.values())

    def settled(self, values: Iterable[Any]) -> Self:
        """The same with values in place of :attr:`awaited`.

        Raises:
            ParameterError: the parameters cannot have them; the message is that of an eager call.
        """
        numbers = iter(values)
        if not self.awaited:
            return self
        # those that await nothing stay the same objects, with what they keep
        return self.rebuilt([_settled(op, numbers) if op.nodes else op for op in self.makers])

    def results(self, node: DataNode) -> Any:
        """What is given for the node of a call: that, or one for each value of what gives several."""
        return node

    def expression(self, name: Named) -> str:
        """What it is, as an expression without what it is called with.

        Args:
            name: what to call the nodes among the parameters.
        """
        return f"{type(self).__name__}({' → '.join(op.expression(name) for op in self.makers)})"


def _settled(op: Any, numbers: Iterator[Any]) -> Any:
    given = op.settings()
    for name in op.nodes:
        try:
            found = numbers_of(next(numbers))
        except ParameterError as error:
            error.source, error.fact = op.name, f"{name} is {error.fact}"
            raise
        given[name] = PerFrame(found) if isinstance(given[name], PerFrame) else found
    return type(op)(**given).occurring(op.occurrence)


@contextmanager
def naming_nodes(ops: Seq[Any]) -> Iterator[None]:
    """A context whose errors about a parameter tell which node it is, of the operators that are called."""
    try:
        yield
    except ParameterError as error:
        nodes = [pair for op in ops if op.name == error.source for pair in op.nodes.items()]
        blamed = [(name, node) for name, node in nodes if re.search(rf"\b{name}\b", error.fact)]
        told = ", ".join(dict.fromkeys(f"{name} is what {node} gave" for name, node in blamed))
        error.advice = ". ".join(part for part in (error.advice, f"Here {told}" if told else "") if part)
        raise


@dataclass(frozen=True, eq=False, repr=False)
class Called(DataNode):
    """What a call gives.

    Attributes:
        maker: what is called.
        given: what it is called with by place, nodes among it.
        options: the same by name.
    """

    maker: Maker
    given: tuple[Any, ...]
    options: Mapping[str, Any]

    @cached_property
    def inputs(self) -> tuple[DataNode, ...]:
        """The nodes that it is called with."""
        return tuple(v for v in (*self.given, *self.options.values()) if isinstance(v, DataNode))

    @cached_property
    def operands(self) -> tuple[DataNode, ...]:
        """These, and then the nodes among the parameters."""
        return (*self.inputs, *self.maker.awaited)

    def occurring(self, seen: Occurrences) -> Called:
        """See :meth:`DataNode.occurring`."""
        makers = seen.of(self.maker.makers)
        same = all(map(operator.is_, makers, self.maker.makers))
        return self if same else replace(self, maker=self.maker.rebuilt(makers))

    @property
    def applies(self) -> Any:
        """See :meth:`DataNode.applies`; none where a layout is given, which may differ from that of the operand."""
        first, given = getattr(self.maker, "ops", (self.maker,))[0], self.given  # of a chain, or itself
        alone = len(self.operands) == len(given) == 1 and given[0] is self.operands[0]
        known = first is self.maker.makers[0] and first.traits.takes == "images"
        return first if alone and known and not self.options.get("layout") else None

    @property
    def holds_pixels(self) -> bool:
        """Whether the last operator gives images."""
        return self.maker.makers[-1].traits.takes in ("images", "batches")

    @property
    def label(self) -> str:
        """The names of its operators."""
        return self.maker.title

    def written(self, name: Named) -> str:
        """See :meth:`DataNode.written`."""
        given = [_named(value, name) for value in self.given]
        given += [f"{key}={_named(value, name)}" for key, value in self.options.items() if value is not None]
        if self.maker.makers[0] is not self.maker:
            return f"{self.maker.expression(name)}({', '.join(given)})"
        own = written(self.maker, name)
        return f"{self.label}({', '.join([*given, own] if own else given)})"

    def value(self, given: Seq[Any], run: Run) -> Any:
        """See :meth:`DataNode.value`."""
        count = len(self.inputs)
        with naming_nodes(self.maker.makers):
            maker: Any = self.maker.settled(given[count:])
            values = iter(given[:count])
            by_place = [next(values) if isinstance(v, DataNode) else v for v in self.given]
            by_name = {k: next(values) if isinstance(v, DataNode) else v for k, v in self.options.items()}
            known = _known(getattr(type(maker), maker.by_backend))
            options = {name: getattr(run, name) for name in known}
            return getattr(maker, maker.by_backend)(*by_place, **by_name, **options)


@lru_cache(maxsize=512)
def _known(call: Callable[..., Any]) -> tuple[str, ...]:
    """What of a run a call takes."""
    taken = inspect.signature(call).parameters
    return tuple(name for name in OF_CALLS if name in taken)


def written(op: Any, name: Named) -> str:
    """The parameters of an operator that are not as by default, as arguments.

    Args:
        op: the operator.
        name: what to call the nodes among them.
    """
    return ", ".join(f"{key}={_named(value, name)}" for key, value in op.changed().items())


def _named(value: Any, name: Named) -> str:
    node = unframed(value)
    if not isinstance(node, DataNode):
        return repr(value) if not hasattr(value, "shape") else f"an array of shape {tuple(value.shape)}"
    return f"per_frame({name(node)})" if isinstance(value, PerFrame) and not node.by_frame else name(node)


def or_node(call: F) -> F:
    """A call of a :class:`Maker` that gives a node where it is given one, or where a parameter is one."""

    @wraps(call)
    def called(self: Any, *given: Any, **options: Any) -> Any:
        if self.moves_samples and given and isinstance(given[0], Mapping):
            return call(self, *given, **options)
        if not self.awaited:
            for value in chain(given, options.values()) if options else given:
                if isinstance(value, DataNode):
                    break
            else:
                return call(self, *given, **options)
        return node_of(call, self, given, options)

    return cast(F, called)


def node_of(call: Any, maker: Maker, given: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What a call gives that has to wait.

    Args:
        call: the function that makes it.
        maker: its first argument.
        given: what else it is given by place.
        options: and by name.

    Raises:
        ParameterError: what belongs to a graph is among it.
    """
    for name in OF_CALLS:
        if name in options:
            raise ParameterError(
                f"{name} is given to a call that makes a node",
                source=maker.title,
                advice=f"Give it to the graph: graph(…, {name}={options[name]!r})",
            )
    if isinstance(options.get("layout"), DataNode):
        raise ParameterError("layout is given a node", source=maker.title, allowed="a string or None")
    bound = inspect.signature(call).bind(maker, *given, **options)
    return maker.results(Called(maker, bound.args[1:], bound.kwargs))
