"""DataNode: inputs and outputs of a pipeline's operators, with DALI's arithmetic, indexing and transfers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from collections.abc import Sequence as Seq
from functools import partial
from numbers import Real
from types import EllipsisType
from typing import Any, NoReturn

import numpy as np

from .. import ops
from ..errors import ParameterError, user_line
from ..ops import Named, Run, computed, number_of
from ..pipeline.value import Value, value_of
from .types import Constant, dtype_name

__all__ = [
    "Absent",
    "Compute",
    "DataNode",
    "NewAxis",
    "arithmetic",
    "current",
    "entered",
    "left",
    "newaxis",
    "node_of",
    "outputs_of",
    "subscript",
]

Compute = Callable[[list[Value], Run], Any]
"""Computes a Value, or a tuple of Values, from those of the inputs."""

_state = threading.local()


def current() -> Any:
    """Return the pipeline that is being defined in this thread, or None."""
    stack = getattr(_state, "stack", [])
    return stack[-1] if stack else None


def entered(pipeline: Any) -> None:
    """Start the definition of a pipeline in this thread."""
    _state.stack = [*getattr(_state, "stack", []), pipeline]


def left() -> None:
    """End the definition that :func:`entered` started last."""
    _state.stack = _state.stack[:-1]


class DataNode(ops.DataNode):
    """A value of future batches.

    Args:
        label: name of the operator.
        inputs: the nodes that it depends on.
        compute: computes the value.
        device: device of the value, "cpu" or "gpu".
        summary: constant arguments as text, for messages and fingerprints.
        part: number of the value among several of its only input; None for the input's own value.
        passes: whether the value is that of its only input, on the same or another device.
        applies: the operator on images that it applies to its first input before anything else, if known; its other
            inputs do not change which pixels that operator reads.
    """

    def __init__(
        self,
        label: str,
        inputs: Seq[ops.DataNode],
        compute: Compute,
        *,
        device: str = "cpu",
        summary: str = "",
        part: int | None = None,
        passes: bool = False,
        applies: Any = None,
    ) -> None:
        self._label, self._compute, self._summary, self._part = label, compute, summary, part
        self._passes, self._applies = passes, applies
        self.device, self.where = device, user_line()
        self.pipeline = current()
        self.scope = self.pipeline.scope if self.pipeline is not None else None
        for one in inputs:
            home = getattr(one, "pipeline", None)
            if home is not None and self.pipeline is not None and home is not self.pipeline:
                raise ParameterError(
                    f"{self.where}: {label} has the input {one}, a node of another pipeline",
                    source=label,
                    advice="Create all nodes of a pipeline within its own definition",
                )
        if self.scope is not None and part is None:
            inputs = (*(self.scope.seen(one) for one in inputs), self.scope.index)
        self._inputs = tuple(inputs)

    @property
    def operands(self) -> tuple[ops.DataNode, ...]:
        """The nodes that it depends on."""
        return self._inputs

    def with_inputs(self, inputs: tuple[ops.DataNode, ...]) -> DataNode:
        """Replace the inputs, without splitting them for a branch; return the node."""
        self._inputs = inputs
        return self

    @property
    def passes(self) -> bool:
        """See :meth:`seqpipe.ops.DataNode.passes`; False within a branch."""
        return self._passes and self.scope is None

    @property
    def applies(self) -> Any:
        """See :meth:`seqpipe.ops.DataNode.applies`; None within a branch."""
        return self._applies if self.scope is None else None

    @property
    def label(self) -> str:
        """What makes it."""
        return self._label

    @property
    def name(self) -> str:
        """The same."""
        return self._label

    @property
    def source(self) -> str:
        """What makes it."""
        return self._label

    def written(self, name: Named) -> str:
        """See :meth:`seqpipe.ops.DataNode.written`."""
        if self._part is not None:
            return f"{name(self._inputs[0])}[{self._part}]"
        return f"{self._label}({', '.join([*map(name, self._inputs), *([self._summary] if self._summary else [])])})"

    def value(self, given: Seq[Any], run: Run) -> Any:
        """See :meth:`seqpipe.ops.DataNode.value`."""
        if self._part is not None:
            return given[0] if isinstance(given[0], Absent) else given[0][self._part]
        if self.scope is not None:
            *given, index = given
            if not len(index):
                return Absent()
            run = run._replace(index=index)
        values: list[Any] = [one if isinstance(one, Absent) else value_of(one) for one in given]
        return self._compute(values, run)

    def gpu(self) -> DataNode:
        """Return the node's value on the pipeline's GPU; unchanged on machines without a driver."""
        number = self.pipeline.gpu_index() if self.pipeline is not None else None
        if self.device == "gpu" or number is None:
            return self if self.device == "gpu" else _moved(self, "gpu", lambda values, _: values[0])
        return _moved(self, "gpu", lambda values, _: values[0].on_device())

    def cpu(self) -> DataNode:
        """Return the node's value in main memory."""
        return self if self.device == "cpu" else _moved(self, "cpu", lambda values, _: values[0].on_host())

    def shape(self, *, dtype: Any = None) -> DataNode:
        """Return the shape of each sample, by default int64."""
        kind = "int64" if dtype is None else dtype_name(dtype)
        return DataNode("shapes", [self], partial(_shapes, kind), summary=kind)

    def property(self, key: str) -> DataNode:
        """Return a property of each sample as bytes: ``"source_info"`` or ``"layout"``.

        Raises:
            ParameterError: the key is not valid.
        """
        if key not in ("source_info", "layout"):
            raise ParameterError(
                f"key={key!r} is not valid", source="DataNode", allowed="'source_info', 'layout'"
            )
        return DataNode("get_property", [self], partial(_facts, key), summary=key)

    def __getitem__(self, key: Any) -> DataNode:
        return subscript(self, key)

    def __bool__(self) -> NoReturn:
        raise ParameterError(
            f"{self.where}: {self} has a truth value for each sample of a batch, not one for all",
            source="DataNode",
            advice="Declare the pipeline with @pipeline_def(enable_conditionals=True) and use `if`, `and`, `or`, `not` "
            "there; or choose by arithmetic: condition * a + (condition == 0) * b. In functions that were not "
            "rewritten (lambdas of another file, installed packages) `if` on nodes does not work",
        )

    def __add__(self, other: Any) -> DataNode:
        return arithmetic("+", self, other)

    def __radd__(self, other: Any) -> DataNode:
        return arithmetic("+", other, self)

    def __sub__(self, other: Any) -> DataNode:
        return arithmetic("-", self, other)

    def __rsub__(self, other: Any) -> DataNode:
        return arithmetic("-", other, self)

    def __mul__(self, other: Any) -> DataNode:
        return arithmetic("*", self, other)

    def __rmul__(self, other: Any) -> DataNode:
        return arithmetic("*", other, self)

    def __truediv__(self, other: Any) -> DataNode:
        return arithmetic("/", self, other)

    def __rtruediv__(self, other: Any) -> DataNode:
        return arithmetic("/", other, self)

    def __floordiv__(self, other: Any) -> DataNode:
        return arithmetic("//", self, other)

    def __rfloordiv__(self, other: Any) -> DataNode:
        return arithmetic("//", other, self)

    def __mod__(self, other: Any) -> DataNode:
        return arithmetic("%", self, other)

    def __rmod__(self, other: Any) -> DataNode:
        return arithmetic("%", other, self)

    def __pow__(self, other: Any) -> DataNode:
        return arithmetic("**", self, other)

    def __rpow__(self, other: Any) -> DataNode:
        return arithmetic("**", other, self)

    def __and__(self, other: Any) -> DataNode:
        return arithmetic("&", self, other)

    def __rand__(self, other: Any) -> DataNode:
        return arithmetic("&", other, self)

    def __or__(self, other: Any) -> DataNode:
        return arithmetic("|", self, other)

    def __ror__(self, other: Any) -> DataNode:
        return arithmetic("|", other, self)

    def __xor__(self, other: Any) -> DataNode:
        return arithmetic("^", self, other)

    def __rxor__(self, other: Any) -> DataNode:
        return arithmetic("^", other, self)

    def __lt__(self, other: Any) -> DataNode:
        return arithmetic("<", self, other)

    def __le__(self, other: Any) -> DataNode:
        return arithmetic("<=", self, other)

    def __gt__(self, other: Any) -> DataNode:
        return arithmetic(">", self, other)

    def __ge__(self, other: Any) -> DataNode:
        return arithmetic(">=", self, other)

    def __eq__(self, other: object) -> DataNode:  # type: ignore[override]  # as of arrays, for each sample
        return arithmetic("==", self, other)

    def __ne__(self, other: object) -> DataNode:  # type: ignore[override]  # likewise
        return arithmetic("!=", self, other)

    def __lshift__(self, other: Any) -> DataNode:
        return arithmetic("<<", self, other)

    def __rshift__(self, other: Any) -> DataNode:
        return arithmetic(">>", self, other)

    def __neg__(self) -> DataNode:
        return DataNode("-", [self], lambda v, _: _each(v[0], _negative), device=self.device)

    def __invert__(self) -> DataNode:
        return DataNode("~", [self], lambda v, _: _each(v[0], _inverse), device=self.device)

    def __pos__(self) -> DataNode:
        return self

    __hash__ = object.__hash__


def _shapes(kind: str, values: list[Value], _: Run) -> Value:
    return Value(np.asarray(values[0].shapes(), kind).reshape(len(values[0]), -1))


def _facts(key: str, values: list[Value], _: Run) -> Value:
    value = values[0]
    texts = value.sources or ("",) * len(value) if key == "source_info" else (value.layout,) * len(value)
    return Value.of([np.frombuffer(text.encode(), np.uint8) for text in texts])


class Absent:
    """The value of a node in a branch without samples."""

    def __len__(self) -> int:
        return 0


def outputs_of(node: DataNode, count: int) -> tuple[DataNode, ...]:
    """Return a node for each of several values of a node."""
    return tuple(
        DataNode(node.label, [node], lambda v, _: v[0], device=node.device, part=number)
        for number in range(count)
    )


def node_of(value: Any) -> DataNode:
    """Return a value as a node; a number, an array or a Constant is the same for all samples.

    Raises:
        ParameterError: the value cannot be a node.
    """
    if isinstance(value, DataNode):
        return value
    if isinstance(value, ops.DataNode):
        return DataNode(value.label, [value], lambda v, _: v[0])
    if not isinstance(value, Constant):
        if hasattr(type(value), "error"):  # a variable that only one branch has set
            raise value.error()
        if not isinstance(value, (Real, np.generic, np.ndarray, list, tuple)):
            raise ParameterError(f"a {type(value).__name__} among nodes", allowed="nodes, numbers and arrays")
        value = (
            Constant(value)
            if not isinstance(value, (np.generic, np.ndarray))
            else Constant(np.asarray(value))
        )
    array, layout = value.value, value.layout

    def repeated(_: list[Value], run: Run) -> Value:
        return Value(np.broadcast_to(array, (len(run.index), *array.shape)).copy(), layout)

    made = DataNode("constant", [], repeated, summary=_summary(array))
    return made.gpu() if value.device == "gpu" else made


def _summary(array: np.ndarray[Any, Any]) -> str:
    return f"{array.dtype}{array.tolist()}" if array.size <= 64 else f"{array.dtype}{array.shape}"


def _moved(node: DataNode, device: str, compute: Compute) -> DataNode:
    return DataNode(device, [node], compute, device=device, passes=True)


def _negative(array: Any) -> Any:
    if array.dtype.kind == "b":
        raise ParameterError("-x of truth values", source="DataNode", advice="Write ~x for the opposite")
    return -array


def _inverse(array: Any) -> Any:
    if array.dtype.kind == "f":
        raise ParameterError(
            f"~x of {array.dtype}", source="DataNode", allowed="whole numbers and truth values"
        )
    return ~array


def _each(value: Value, function: Callable[[Any], Any]) -> Value:
    return value.with_data(function(value.data) if value.dense else [function(part) for part in value.data])


def arithmetic(sign: str, before: Any, behind: Any) -> DataNode:
    """Return the node of a binary operation on two nodes, or on a node and a number.

    Raises:
        ParameterError: an operand is neither a node nor a number.
    """
    nodes = [part for part in (before, behind) if isinstance(part, ops.DataNode)]
    numbers: list[Any] = []
    for part in (before, behind):
        if isinstance(part, ops.DataNode):
            numbers.append(None)
            continue
        if isinstance(part, Constant):
            numbers.append(part.value)
        elif isinstance(part, (list, tuple, np.ndarray)):
            numbers.append(Constant(part).value)
        elif isinstance(part, (Real, np.generic)):
            numbers.append(number_of(part))
        else:
            raise ParameterError(
                f"{user_line()}: a {type(part).__name__} as an operand of {sign!r} with a node",
                source="DataNode",
                allowed="a number, a node, an array or a list of numbers, or types.Constant",
            )
    device = "gpu" if any(getattr(node, "device", "cpu") == "gpu" for node in nodes) else "cpu"
    summary = " ".join(_summary(one) if one is not None else "·" for one in numbers)

    def compute(values: list[Value], _: Run) -> Value:
        found = iter(values)
        parts: list[Any] = [next(found) if number is None else number for number in numbers]
        return _combined(sign, parts)

    return DataNode(sign, nodes, compute, device=device, summary=summary)


def _combined(sign: str, parts: list[Any]) -> Value:
    """Return the result of a binary operation; axes are aligned from the last one."""
    values = [part for part in parts if isinstance(part, Value)]
    if len({value.on_gpu for value in values}) > 1:
        if all(value.on_gpu or not value.ndim for value in values):  # only single numbers are on the CPU
            parts = [part.on_device() if isinstance(part, Value) else part for part in parts]
        else:
            raise ParameterError(
                f"{sign!r} of a value on the CPU and one on a GPU",
                allowed="both on one device",
                advice="Use x.gpu()",
            )
    values = [part for part in parts if isinstance(part, Value)]
    layout = max((value.layout for value in values), key=len, default="")
    sources = next((value.sources for value in values if value.sources), ())
    if all(value.dense for value in values):
        axes = max(value.ndim for value in values)
        arrays = [_aligned(part, axes) if isinstance(part, Value) else part for part in parts]
        return Value(computed(sign, *arrays), layout, sources)
    count = len(values[0])
    rows = [[part[n] if isinstance(part, Value) else part for part in parts] for n in range(count)]
    return Value.of([computed(sign, *row) for row in rows], layout, sources)


def _aligned(value: Value, axes: int) -> Any:
    shape = value.data.shape
    return value.data.reshape(shape[0], *(1,) * (axes - value.ndim), *shape[1:])


class NewAxis:
    """A new axis of length 1 in a subscript: ``x[newaxis]``, or with a letter ``x[newaxis("F")]``.

    Args:
        name: the letter of the axis.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __call__(self, name: str) -> NewAxis:
        """Return a new axis with a letter."""
        return NewAxis(name)

    def __repr__(self) -> str:
        return f"newaxis({self.name!r})" if self.name else "newaxis"


newaxis = NewAxis()
"""A new axis without a letter, for subscripts of nodes."""


def subscript(node: DataNode, key: Any) -> DataNode:
    """Return the node of a subscript, applied to every sample.

    Args:
        node: the node.
        key: integers, slices, newaxis, Ellipsis, and nodes of integers; None is a whole axis.

    Raises:
        ParameterError: the key has another type.
    """
    keys = key if isinstance(key, tuple) else (key,)
    inputs: list[DataNode] = [node]

    def admitted(part: Any) -> Any:
        if isinstance(part, DataNode):
            inputs.append(part)
            return _Place(len(inputs) - 1)
        if isinstance(part, slice):
            bounds = (part.start, part.stop, part.step)
            return slice(*(None if one is None else admitted(one) for one in bounds))
        if part is None:  # as in DALI, the whole axis
            return slice(None)
        if isinstance(part, (EllipsisType, NewAxis)) or hasattr(part, "__index__"):
            return part
        raise ParameterError(
            f"{user_line()}: a {type(part).__name__} as an index of a node",
            source="DataNode",
            allowed="whole numbers, slices, newaxis, ..., and nodes of whole numbers",
        )

    wanted = tuple(admitted(part) for part in keys)
    varies = len(inputs) > 1
    summary = ", ".join(map(_written, wanted))

    def compute(values: list[Value], _: Run) -> Value:
        value = values[0]
        layout = _layout(value, wanted)
        try:
            if value.dense and not varies:
                return value.with_data(value.data[(slice(None), *map(_plain_key, wanted))], layout)
            parts = [
                value[n][tuple(_plain_key(_settled(part, values, n)) for part in wanted)]
                for n in range(len(value))
            ]
        except IndexError as error:
            shapes = dict.fromkeys(value.shapes())
            raise ParameterError(
                f"[{summary}] of samples of the shape {', '.join(map(str, shapes))}: {error}",
                source="DataNode",
            ) from error
        return Value.of(parts, layout, value.sources)

    return DataNode("subscript", inputs, compute, device=node.device, summary=summary)


class _Place:
    """A part of a key that is given by an input, with the number of that input."""

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


def _plain_key(part: Any) -> Any:
    return None if isinstance(part, NewAxis) else part


def _layout(value: Value, keys: tuple[Any, ...]) -> str:
    """Return the letters of the remaining axes; "" if a new axis has no letter."""
    added = [key.name for key in keys if isinstance(key, NewAxis)]
    if not (value.layout or not value.ndim) or "" in added:
        return ""
    named = sum(not isinstance(key, (EllipsisType, NewAxis)) for key in keys)
    letters, kept, at = value.layout, "", 0
    for key in keys:
        if isinstance(key, NewAxis):
            kept += key.name
        elif isinstance(key, EllipsisType):
            skip = len(letters) - named
            kept, at = kept + letters[at : at + skip], at + skip
        else:
            kept, at = kept + (letters[at : at + 1] if isinstance(key, slice) else ""), at + 1
    return kept + letters[at:]
