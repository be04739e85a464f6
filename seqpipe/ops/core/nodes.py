"""Nodes: values that are to come. This is where operators know them by; :mod:`seqpipe.pipeline` evaluates them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from ...array import FloatArray, to_numpy
from ...cached import cached_property
from ...errors import ParameterError, user_line
from ...kernel import KernelDevice
from ...sequence import Batch, Sequence
from .arithmetic import computed
from .occurrences import Occurrences
from .spec import Backend

__all__ = ["OF_CALLS", "Computed", "DataNode", "Named", "NodeOutput", "Run", "numbers_of", "parts_of"]

OF_CALLS: Final = ("epoch", "index", "backend", "device")
"""What of a run a graph is called with, so that no call that makes a node is given it."""


class Run(NamedTuple):
    """What nodes are evaluated for.

    Attributes:
        epoch: the epoch that draws are for.
        index: the samples' indices, or that of the first, as operators take them.
        samples: how many samples there are.
        frames: how many frames each has; None where they differ.
        backend: who does it; see :class:`seqpipe.ops.Chain`.
        device: what kernels run on.
    """

    epoch: int
    index: Any
    samples: int
    frames: int | None
    backend: Backend | None
    device: KernelDevice | None


class DataNode:  # no ABC: to ask what is none of a class takes one of these ten times as long
    """A value that is to come, for a batch: an input, a random number, or what is made of other nodes.

    What is given one gives one: operators and functions, for what they act on as for their parameters, and arithmetic
    (``angle * 2 + 1``, ``angle > 0``), which is that of the samples' numbers, in the types that
    :mod:`seqpipe.ops.core.arithmetic` says. :class:`seqpipe.pipeline.Graph` says what comes of it. Nodes are values
    that cannot be changed.

    Attributes:
        where: the line of the user's that made it, as ``train.py:31 (function)``; empty if there is none.
    """

    where: str

    def __new__(cls, *_: Any, **__: Any) -> DataNode:  # noqa: D102  not in __init__, which dataclasses write
        made = super().__new__(cls)
        made.__dict__["where"] = user_line()
        return made

    # so that NumPy's numbers leave arithmetic to nodes, on either side of the sign
    __array_ufunc__: ClassVar[None] = None

    @property
    def operands(self) -> tuple[DataNode, ...]:
        """The nodes that it is made of."""
        return ()

    @property
    def by_frame(self) -> bool:
        """Whether it has a number for each frame of a sample."""
        return False

    @property
    def passes(self) -> bool:
        """Whether it gives what its only operand is, here or on another device, sample by sample."""
        return False

    @property
    def applies(self) -> Any:
        """The operator on images that it applies to its first operand before anything else; None if that is not known.

        Other operands do not change which pixels it reads.
        """
        return None

    @property
    def holds_pixels(self) -> bool:
        """Whether it is known to be made of pixels, with which there is no arithmetic."""
        return False

    @property
    @abstractmethod
    def label(self) -> str:
        """What it is, in a word."""

    @abstractmethod
    def written(self, name: Named) -> str:
        """How it is made, as an expression.

        Args:
            name: what to call the nodes in it.
        """

    @abstractmethod
    def value(self, given: Seq[Any], run: Run) -> Any:
        """Its value.

        Args:
            given: the values of its operands.
            run: what it is evaluated for.

        Raises:
            ParameterError: a value is not one that it can be made of.
        """

    def occurring(self, seen: Occurrences) -> DataNode:  # noqa: ARG002  for those that draw
        """The same, of operators that draw as they occur among others.

        Args:
            seen: counts the operators of a graph, those of this node next.
        """
        return self

    def support(self) -> None:
        """The least and the greatest value, as a distribution tells them: those of the parameter's own bounds."""
        return

    def __str__(self) -> str:
        return self.written(lambda node: node.label)

    def __repr__(self) -> str:
        return f"<DataNode {self}>"

    def __add__(self, other: Any) -> DataNode:
        return _computed("+", self, other)

    def __radd__(self, other: Any) -> DataNode:
        return _computed("+", other, self)

    def __sub__(self, other: Any) -> DataNode:
        return _computed("-", self, other)

    def __rsub__(self, other: Any) -> DataNode:
        return _computed("-", other, self)

    def __mul__(self, other: Any) -> DataNode:
        return _computed("*", self, other)

    def __rmul__(self, other: Any) -> DataNode:
        return _computed("*", other, self)

    def __truediv__(self, other: Any) -> DataNode:
        return _computed("/", self, other)

    def __rtruediv__(self, other: Any) -> DataNode:
        return _computed("/", other, self)

    def __neg__(self) -> DataNode:
        return _computed("*", self, -1)

    def __lt__(self, other: Any) -> DataNode:
        return _computed("<", self, other)

    def __le__(self, other: Any) -> DataNode:
        return _computed("<=", self, other)

    def __gt__(self, other: Any) -> DataNode:
        return _computed(">", self, other)

    def __ge__(self, other: Any) -> DataNode:
        return _computed(">=", self, other)

    def __eq__(self, other: object) -> DataNode:  # type: ignore[override]  # as of arrays, for each sample
        return _computed("==", self, other)

    def __ne__(self, other: object) -> DataNode:  # type: ignore[override]  # likewise
        return _computed("!=", self, other)

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise self._not_there(
            "truth value",
            "Decide by a parameter: fn.flip(x, horizontal=node), or fn.rotate(x, angle=node * 10)",
        )

    def __len__(self) -> NoReturn:
        raise self._not_there("length", "That of a batch is what the graph is called with")

    def __iter__(self) -> NoReturn:
        raise self._not_there(
            "parts to go through", "Give the node whole: it stands for all samples of a batch"
        )

    # type checkers take nodes for what arrays can be made of, and so for numbers of operators
    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise self._not_there("values", "Call the graph, and take the array that it gives")

    def _not_there(self, what: str, advice: str) -> ParameterError:
        return ParameterError(f"{self} has no {what} yet, for it is a node", source="DataNode", advice=advice)


Named: TypeAlias = Callable[[DataNode], str]
"""What a node is called in an expression."""


@dataclass(frozen=True, eq=False, repr=False)
class NodeOutput(DataNode):
    """One of several values that a node gives.

    Attributes:
        whole: that node.
        place: the number of the value among them.
        name: of the value.
    """

    whole: DataNode
    place: int
    name: str

    @property
    def operands(self) -> tuple[DataNode, ...]:
        """The node that gives it."""
        return (self.whole,)

    @property
    def label(self) -> str:
        """What it is a part of, and its name."""
        return self.written(lambda node: node.label)

    def written(self, name: Named) -> str:
        """See :meth:`DataNode.written`."""
        return f"{name(self.whole)}.{self.name}"

    def value(self, given: Seq[Any], run: Run) -> Any:  # noqa: ARG002  it is there
        """See :meth:`DataNode.value`."""
        return given[0][self.place]


def parts_of(whole: DataNode, names: Iterable[str]) -> tuple[NodeOutput, ...]:
    """The values that a node gives, by their names in order."""
    return tuple(NodeOutput(whole, place, name) for place, name in enumerate(names))


_SIGNS: Final = ("+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!=")
"""Those that operators of Python write; a minus before a node is times -1."""


@dataclass(frozen=True, eq=False, repr=False)
class Computed(DataNode):
    """Arithmetic of two nodes, or of a node and a number; the type of the result is that of the arrays' arithmetic.

    Values have their samples along the first axis, so what has fewer axes than the other is the same along the last.

    Attributes:
        sign: of the arithmetic.
        parts: what stands before it and behind it.

    Raises:
        ParameterError: there is no such sign, or one of the parts is neither a number nor a node of numbers.
    """

    sign: str
    parts: tuple[Any, Any]

    def __post_init__(self) -> None:
        if self.sign not in _SIGNS:
            raise ParameterError(f"{self.sign!r} is no sign of arithmetic", allowed=", ".join(_SIGNS))
        object.__setattr__(self, "parts", tuple(_part(self.sign, part) for part in self.parts))

    @cached_property
    def operands(self) -> tuple[DataNode, ...]:
        """The nodes among the parts."""
        return tuple(part for part in self.parts if isinstance(part, DataNode))

    @cached_property
    def by_frame(self) -> bool:
        """Whether one of the nodes has a number for each frame."""
        return any(node.by_frame for node in self.operands)

    @property
    def label(self) -> str:
        """What is computed of what, no deeper than that."""
        return f"({self.written(lambda node: '…' if isinstance(node, Computed) else node.label)})"

    def written(self, name: Named) -> str:
        """See :meth:`DataNode.written`."""
        before, behind = (name(part) if isinstance(part, DataNode) else f"{part!r}" for part in self.parts)
        return f"{before} {self.sign} {behind}"

    def value(self, given: Seq[Any], run: Run) -> Any:  # noqa: ARG002  it is the same for all
        """See :meth:`DataNode.value`."""
        values = iter(given)
        parts = [next(values) if isinstance(part, DataNode) else part for part in self.parts]
        try:
            numbers: list[Any] = [part if isinstance(part, Real) else numbers_of(part) for part in parts]
            for part in numbers:
                if np.asarray(part).dtype.kind not in "biuf":
                    raise TypeError(f"values of type {np.asarray(part).dtype}")
            axes = max(np.ndim(part) for part in numbers)
            aligned = [
                part.reshape(part.shape + (1,) * (axes - part.ndim)) if np.ndim(part) else part
                for part in numbers
            ]
            return computed(self.sign, *aligned)  # what is no number is refused where a number is needed
        except ParameterError as error:
            error.source = "DataNode"
            raise
        except (TypeError, ValueError) as error:
            raise ParameterError(f"{self} cannot be computed: {error}", source="DataNode") from error


def _computed(sign: str, before: Any, behind: Any) -> DataNode:
    return Computed(sign, (before, behind))


def _part(sign: str, part: Any) -> Any:
    if isinstance(part, np.generic):
        part = part.item()
    if isinstance(part, DataNode) and part.holds_pixels:
        raise ParameterError(
            f"{part} holds pixels, with which there is no {sign!r}",
            source="DataNode",
            allowed="nodes of numbers",
            advice="Operators change pixels, such as fn.brightness_contrast; fn.reductions make numbers of them",
        )
    if not isinstance(part, (DataNode, Real)):
        raise ParameterError(
            f"{part!r} beside {sign!r} and a node",
            source="DataNode",
            allowed="a number, or a node of numbers",
        )
    return part


def numbers_of(value: Any) -> npt.NDArray[Any] | FloatArray:
    """The numbers that a node gave, in main memory: arithmetic and parameters take them there.

    A GPU's come by way of its current stream, which is waited for.

    Args:
        value: an array, a number, or a list with one of them for each sample.

    Raises:
        ParameterError: these are no numbers, or lists of different shapes.
    """
    if isinstance(value, (Sequence, Batch)):
        raise ParameterError(
            f"a {type(value).__name__} where numbers are needed",
            allowed="arrays",
            advice="fn.reductions make numbers of pixels",
        )
    if isinstance(value, (list, tuple)):
        parts = [numbers_of(part) for part in value]
        if len({part.shape for part in parts}) > 1:
            shapes = ", ".join(str(part.shape) for part in parts)
            raise ParameterError(
                f"numbers of different shapes for the samples, {shapes}", allowed="one shape"
            )
        return np.stack(parts)
    return np.asarray(value) if isinstance(value, (Real, np.generic)) else to_numpy(value)
