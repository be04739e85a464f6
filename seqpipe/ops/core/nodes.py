"""DataNode: values computed later, when :mod:`seqpipe.pipeline` evaluates a graph."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from ...array import FloatArray, to_numpy
from ...core.cached import cached_property
from ...core.kernel import KernelDevice
from ...errors import ParameterError, described_type, user_line
from ...sequence import Batch, Sequence
from .arithmetic import computed
from .spec import Backend

__all__ = [
    "GRAPH_ARGUMENTS",
    "Computed",
    "DataNode",
    "Named",
    "NodeOutput",
    "Occurrences",
    "Run",
    "numbers_of",
    "parts_of",
]

GRAPH_ARGUMENTS: Final = ("epoch", "index", "backend", "device")
"""Arguments of a call that a graph gets instead of its deferred calls."""


class Run(NamedTuple):
    """The batch that nodes are evaluated for.

    Attributes:
        epoch: epoch that parameters are sampled for.
        index: indices of the samples, or the index of the first.
        samples: number of samples.
        frames: number of frames of each sample; None if the samples differ.
        backend: implementation to run; see :class:`seqpipe.ops.Chain`.
        device: device that kernels run on.
    """

    epoch: int
    index: Any
    samples: int
    frames: int | None
    backend: Backend | None
    device: KernelDevice | None


class DataNode:  # no ABC: isinstance() of an ABC takes ten times as long for other types
    """A value of a batch that is computed later: a graph's input, a random number, or a function of other nodes.

    Operators and functions that get a node return a node, for data as well as for parameters. So does arithmetic
    (``angle * 2 + 1``, ``angle > 0``), which acts on the numbers of each sample with the dtypes of
    :mod:`seqpipe.ops.core.arithmetic`. :class:`seqpipe.pipeline.Graph` evaluates nodes. Nodes are immutable.

    Attributes:
        where: the user's line that created the node, as ``train.py:31 (function)``; empty if there is none.
    """

    where: str

    def __new__(cls, *_: Any, **__: Any) -> DataNode:  # noqa: D102  not in __init__, which dataclasses generate
        node = super().__new__(cls)
        node.__dict__["where"] = user_line()
        return node

    # NumPy scalars then defer arithmetic to nodes, on either side
    __array_ufunc__: ClassVar[None] = None

    @property
    def operands(self) -> tuple[DataNode, ...]:
        """The nodes that it depends on."""
        return ()

    @property
    def by_frame(self) -> bool:
        """Whether it has a number for each frame of a sample."""
        return False

    @property
    def is_passthrough(self) -> bool:
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
        """Whether it is known to hold pixels, which have no arithmetic."""
        return False

    @property
    @abstractmethod
    def label(self) -> str:
        """Short name."""

    @abstractmethod
    def written(self, name: Named) -> str:
        """Return the expression that computes it.

        Args:
            name: returns the names of the nodes in the expression.
        """

    @abstractmethod
    def value(self, operands: Seq[Any], run: Run) -> Any:
        """Compute the value.

        Args:
            operands: values of the operands.
            run: the batch to compute it for.

        Raises:
            ParameterError: the value of an operand is not valid.
        """

    def with_occurrences(self, seen: Occurrences) -> DataNode:  # noqa: ARG002  for nodes with operators
        """Return the node with the occurrences of its operators set.

        Args:
            seen: counts the operators of a graph in order.
        """
        return self

    def support(self) -> None:
        """Return None, as a distribution that has the bounds of the parameter."""
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
            "Pass it as a parameter: fn.flip(x, horizontal=node), or fn.rotate(x, angle=node * 10)",
        )

    def __len__(self) -> NoReturn:
        raise self._not_there("length", "The length is that of the batch that the graph is called with")

    def __iter__(self) -> NoReturn:
        raise self._not_there("elements", "Pass the node itself: it stands for all samples of a batch")

    # makes nodes ArrayLike for type checkers, so that parameters accept them
    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise self._not_there("values", "Call the graph, and use the array that it returns")

    def _not_there(self, what: str, advice: str) -> ParameterError:
        return ParameterError(
            f"{self} has no {what} yet, because it is a node", source="DataNode", advice=advice
        )


Named: TypeAlias = Callable[[DataNode], str]
"""Function that names a node in an expression."""


@dataclass(frozen=True, eq=False, repr=False)
class NodeOutput(DataNode):
    """One of several values of a node.

    Attributes:
        whole: the node.
        number: position of the value.
        name: name of the value.
    """

    whole: DataNode
    number: int
    name: str

    @property
    def operands(self) -> tuple[DataNode, ...]:
        """The node that computes it."""
        return (self.whole,)

    @property
    def label(self) -> str:
        """The node's label and the name of the value."""
        return self.written(lambda node: node.label)

    def written(self, name: Named) -> str:
        """See :meth:`DataNode.written`."""
        return f"{name(self.whole)}.{self.name}"

    def value(self, operands: Seq[Any], run: Run) -> Any:  # noqa: ARG002  only the operand matters
        """See :meth:`DataNode.value`."""
        return operands[0][self.number]


def parts_of(whole: DataNode, names: Iterable[str]) -> tuple[NodeOutput, ...]:
    """Return the values of a node, by their names in order."""
    return tuple(NodeOutput(whole, number, name) for number, name in enumerate(names))


_SIGNS: Final = ("+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!=")
"""Signs of the operators that nodes implement; the negative of a node is its product with -1."""


@dataclass(frozen=True, eq=False, repr=False)
class Computed(DataNode):
    """Arithmetic of two nodes, or of a node and a number, in the dtype of :func:`result_type`.

    Values have their samples along the first axis; an operand with fewer axes is broadcast along the last ones.

    Attributes:
        sign: sign of the operator.
        parts: left and right operand.

    Raises:
        ParameterError: the sign is unknown, or an operand is neither a number nor a node of numbers.
    """

    sign: str
    parts: tuple[Any, Any]

    def __post_init__(self) -> None:
        if self.sign not in _SIGNS:
            raise ParameterError(f"{self.sign!r} is not an arithmetic operator", allowed=", ".join(_SIGNS))
        object.__setattr__(self, "parts", tuple(_part(self.sign, part) for part in self.parts))

    @cached_property
    def operands(self) -> tuple[DataNode, ...]:
        """The nodes among the operands."""
        return tuple(part for part in self.parts if isinstance(part, DataNode))

    @cached_property
    def by_frame(self) -> bool:
        """Whether one of the nodes has a number for each frame."""
        return any(node.by_frame for node in self.operands)

    @property
    def label(self) -> str:
        """The expression, with nested expressions as an ellipsis."""
        return f"({self.written(lambda node: '…' if isinstance(node, Computed) else node.label)})"

    def written(self, name: Named) -> str:
        """See :meth:`DataNode.written`."""
        before, behind = (name(part) if isinstance(part, DataNode) else f"{part!r}" for part in self.parts)
        return f"{before} {self.sign} {behind}"

    def value(self, operands: Seq[Any], run: Run) -> Any:  # noqa: ARG002  only the operands matter
        """See :meth:`DataNode.value`."""
        values = iter(operands)
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
            return computed(self.sign, *aligned)  # parameters refuse NaN where they need a number
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
            f"{part} holds pixels, which have no {sign!r}",
            source="DataNode",
            allowed="nodes of numbers",
            advice="Change pixels by operators such as fn.brightness_contrast; fn.reductions compute numbers from them",
        )
    if not isinstance(part, (DataNode, Real)):
        raise ParameterError(
            f"{part!r} and a node as operands of {sign!r}",
            source="DataNode",
            allowed="a number, or a node of numbers",
        )
    return part


def numbers_of(value: Any) -> npt.NDArray[Any] | FloatArray:
    """Return the numbers of a node's value in main memory, where arithmetic and parameters need them.

    Copies from a GPU use its current stream and wait for it.
    """
    if isinstance(value, (Sequence, Batch)):
        raise ParameterError(
            f"{described_type(value)} where numbers are needed",
            allowed="arrays",
            advice="fn.reductions compute numbers from pixels",
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


class Occurrences:
    """Counter of the operators of a chain or graph: independent random streams for those of one name and one seed.

    Sampled values depend on (seed, name, occurrence, epoch, index of the sample) alone. The occurrence counts the
    preceding operators of equal name and seed: in a :class:`seqpipe.ops.Chain`, in the order of its operators; in a
    :class:`seqpipe.pipeline.Graph`, in the order of its nodes, each after its operands, outputs in their order, and a
    chain's operators within its node. A :class:`seqpipe.Dataset` counts over all operators of its ``map``, including
    those that are fused with decoding.

    The first occurrence uses the stream of the operator's name, as the operator does alone; the next ones use
    ``flip#1``, ``flip#2`` and so on. So appending an operator changes no other operator's values, and an operator with
    its own seed affects none. To use the same numbers twice, pass one node of ``fn.random`` to both operators.
    """

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, int]] = Counter()

    def of(self, ops: Iterable[Any]) -> tuple[Any, ...]:
        """Return the next operators with their occurrences set; the same objects where nothing changes."""
        return tuple(op.with_occurrence(self._next(op)) if op.has_seed else op for op in ops)

    def _next(self, op: Any) -> int:
        key = op.name, op.seed
        self._seen[key] += 1
        return self._seen[key] - 1
