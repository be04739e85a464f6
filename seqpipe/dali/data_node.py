"""DataNode: inputs and outputs of a pipeline's operators, with DALI's arithmetic, indexing and transfers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from collections.abc import Sequence as Seq
from copy import copy
from dataclasses import dataclass
from functools import partial
from numbers import Real
from types import EllipsisType
from typing import Any, Final, NoReturn

import numpy as np

from .. import ops
from ..errors import ParameterError, described_type, user_line
from ..ops import Named, Run
from ..ops.core.arithmetic import number_of
from .dtypes import ScalarConstant, converted, dtype_name
from .expressions import (
    InputIndex,
    NewAxis,
    combined,
    each_of,
    index_text,
    inverse,
    negative,
    newaxis,
    numpy_index,
    remaining_layout,
    resolved,
)
from .raised import dali_error
from .serialized import Origin, recorded
from .sources.mapped import owned, views
from .value import Value, value_of

__all__ = [
    "Absent",
    "Compute",
    "Constant",
    "DataNode",
    "NewAxis",
    "Recipe",
    "arithmetic",
    "attached",
    "check_plain_list",
    "current",
    "fixed_value",
    "newaxis",
    "node_of",
    "nodes_in",
    "operand_of",
    "outputs_of",
    "pop_pipeline",
    "push_pipeline",
    "set_operators",
    "subscript",
]

Compute = Callable[[list[Value], Run], Any]
"""Computes a Value, or a tuple of Values, from those of the inputs."""

_state = threading.local()


def current() -> Any:
    """Return the pipeline that is being defined in this thread, or None."""
    stack = getattr(_state, "stack", [])
    return stack[-1] if stack else None


def push_pipeline(pipeline: Any) -> None:
    """Start the definition of a pipeline in this thread."""
    _state.stack = [*getattr(_state, "stack", []), pipeline]


def pop_pipeline() -> None:
    """End the definition that :func:`push_pipeline` started last."""
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
        is_passthrough: whether the value is that of its only input, on the same or another device.
        applies: the operator on images that it applies to its first input before anything else, if known; its other
            inputs do not change which pixels that operator reads.
    """

    constant: np.ndarray[Any, Any] | None = None
    """The value of a node that is the same for all samples of all batches."""
    recipe: Recipe | None = None
    """The call that made a node outside of a pipeline."""
    origin: tuple[Origin, int] | None = None
    """The call that made it, and its number among the nodes of the call; None if that is not recorded."""
    maps_files = False
    """Whether values may be views of mapped files, or of parts of them."""

    def __init__(
        self,
        label: str,
        inputs: Seq[ops.DataNode],
        compute: Compute,
        *,
        device: str = "cpu",
        summary: str = "",
        part: int | None = None,
        is_passthrough: bool = False,
        applies: Any = None,
    ) -> None:
        self._label, self._compute, self._summary, self._part = label, compute, summary, part
        self._is_passthrough, self._applies = is_passthrough, applies
        self.device, self.where = device, user_line()
        self.pipeline = current()
        self.scope = self.pipeline.scope if self.pipeline is not None else None
        belongs = self.pipeline is not None and not self.pipeline.is_draft
        if belongs:
            inputs = [attached(node, self.pipeline) for node in inputs]
        for node in inputs:
            other = getattr(node, "pipeline", None)
            if belongs and other is not None and other is not self.pipeline:
                raise ParameterError(
                    f"{self.where}: {label} has the input {node}, a node of another pipeline",
                    source=label,
                    advice="Create all nodes of a pipeline within its own definition",
                )
        if self.scope is not None and part is None:
            inputs = (*(self.scope.restrict(node) for node in inputs), self.scope.index)
        self._inputs = tuple(inputs)
        self.maps_files = any(getattr(node, "maps_files", False) for node in inputs)

    @property
    def operands(self) -> tuple[ops.DataNode, ...]:
        """The nodes that it depends on."""
        return self._inputs

    def with_inputs(self, inputs: tuple[ops.DataNode, ...]) -> DataNode:
        """Replace the inputs, without splitting them for a branch; return the node."""
        self._inputs = inputs
        return self

    @property
    def is_passthrough(self) -> bool:
        """See :meth:`seqpipe.ops.DataNode.is_passthrough`; False within a branch."""
        return self._is_passthrough and self.scope is None

    @property
    def applies(self) -> Any:
        """See :meth:`seqpipe.ops.DataNode.applies`; None within a branch."""
        return self._applies if self.scope is None else None

    @property
    def label(self) -> str:
        """Name of the operator that computes it."""
        return self._label

    name = source = label

    def written(self, name: Named) -> str:
        """See :meth:`seqpipe.ops.DataNode.written`."""
        if self._part is not None:
            return f"{name(self._inputs[0])}[{self._part}]"
        arguments = [*map(name, self._inputs), *([self._summary] if self._summary else [])]
        return f"{self._label}({', '.join(arguments)})"

    def value(self, operands: Seq[Any], run: Run) -> Any:
        """See :meth:`seqpipe.ops.DataNode.value`; within a branch the last operand is the branch's indices."""
        if self._part is not None:
            return operands[0] if isinstance(operands[0], Absent) else operands[0][self._part]
        if self.scope is not None:
            *operands, index = operands
            if not len(index):
                return Absent()
            run = run._replace(index=index)
        values: list[Any] = [
            operand if isinstance(operand, Absent) else value_of(operand) for operand in operands
        ]
        return self._compute(values, run)

    def get(self) -> Any:
        """Return the batch as a list of tensors, in debug mode.

        Raises:
            ParameterError: the pipeline is not in debug mode.
        """
        if self.pipeline is None or not self.pipeline.computes:
            raise ParameterError(
                f"get() of {self}, whose values are computed later",
                source="DataNode",
                advice="Declare the pipeline with @pipeline_def(debug=True) to see values in its definition",
            )
        return self.pipeline.batch_of(self)

    @recorded("gpu")
    def gpu(self) -> DataNode:
        """Return the node's value on the pipeline's GPU; unchanged on machines without a driver."""
        if self.device == "gpu":
            return self
        if self.pipeline is None or self.pipeline.gpu_index() is None:
            return _on(self, "gpu", lambda values, _: values[0])
        return _on(self, "gpu", lambda values, _: owned(values[0]).on_device())

    @recorded("cpu")
    def cpu(self) -> DataNode:
        """Return the node's value in main memory."""
        return self if self.device == "cpu" else _on(self, "cpu", lambda values, _: values[0].on_host())

    @recorded("shape")
    def shape(self, *, dtype: Any = None, device: str = "cpu") -> DataNode:
        """Return the shape of each sample, by default int64, on a device."""
        kind = "int64" if dtype is None else dtype_name(dtype)
        node = DataNode("shapes", [self], partial(_shapes, kind), summary=kind)
        return node.gpu() if device == "gpu" else node

    @recorded("property")
    def property(self, key: str, *, device: str = "cpu") -> DataNode:
        """Return a property of each sample as bytes: ``"source_info"`` or ``"layout"``.

        Args:
            key: the property.
            device: "cpu", or "gpu" for a node there.

        Raises:
            ParameterError: the key is not valid.
        """
        if key not in ("source_info", "layout"):
            raise ParameterError(
                f"key={key!r} is not valid", source="DataNode", allowed="'source_info', 'layout'"
            )
        node = DataNode("get_property", [self], partial(_properties, key), summary=key)
        return node.gpu() if device == "gpu" else node

    def source_info(self, *, device: str = "cpu") -> DataNode:
        """Return the source of each sample, such as the path of its file, as bytes."""
        return self.property("source_info", device=device)

    def __getitem__(self, key: Any) -> DataNode:
        return subscript(self, key)

    def __bool__(self) -> NoReturn:
        raise dali_error(
            '"DataNode" was used in conditional context - it might have been used in truth evaluation for `if` '
            "statement, logical expression or cast to a boolean. To use conditional execution via `if` statements "
            "you need to specify `enable_conditionals=True` in `@seqpipe.dali.pipeline_def` decorator. You can "
            "read more about conditional execution in specific section of the Pipeline documentation. Bool "
            "conversion can be achieved with the `cast` operator",
            source=f"{self.where}: {self}",
            advice="A node has a truth value for each sample of a batch, not one for all. Without conditionals, "
            "choose by arithmetic: condition * a + (condition == 0) * b. In functions that were not rewritten "
            "(lambdas without a file, installed packages) `if` on nodes does not work",
        )

    @recorded("abs")
    def __abs__(self) -> DataNode:
        return DataNode("abs", [self], lambda v, _: each_of(v[0], abs), device=self.device)

    @recorded("neg")
    def __neg__(self) -> DataNode:
        return DataNode("-", [self], lambda v, _: each_of(v[0], negative), device=self.device)

    @recorded("invert")
    def __invert__(self) -> DataNode:
        return DataNode("~", [self], lambda v, _: each_of(v[0], inverse), device=self.device)

    def __pos__(self) -> DataNode:
        return self

    __hash__ = object.__hash__
    __iter__ = None  # type: ignore[assignment]  # programs ask whether an output is iterable: a node is not


_SIGNS: Final = {
    **{"+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow"},
    **{"&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift"},
    **{"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"},
}
"""The names of Python's binary operators."""


def set_operators(cls: type, operation: Callable[[str, Any, Any], Any]) -> None:
    """Give a class Python's binary operators, which call a function with the sign and both operands."""
    for sign, name in _SIGNS.items():
        setattr(cls, f"__{name}__", lambda self, other, sign=sign: operation(sign, self, other))
        if name not in ("lt", "le", "gt", "ge", "eq", "ne"):  # Python swaps the operands of these
            setattr(cls, f"__r{name}__", lambda self, other, sign=sign: operation(sign, other, self))


def _shapes(kind: str, values: list[Value], _: Run) -> Value:
    return Value(np.asarray(values[0].shapes(), kind).reshape(len(values[0]), -1))


def _properties(key: str, values: list[Value], _: Run) -> Value:
    value = values[0]
    texts = value.sources or ("",) * len(value) if key == "source_info" else (value.layout,) * len(value)
    return Value.of([np.frombuffer(text.encode(), np.uint8) for text in texts])


@dataclass(eq=False)
class Recipe:
    """A call of an operator outside of a pipeline, which is repeated in the pipeline that its outputs become part of.

    Attributes:
        call: makes the nodes of the call.
        outputs: the nodes that it made outside.
    """

    call: Callable[[], Any]
    outputs: tuple[DataNode, ...] = ()


def nodes_in(result: Any) -> tuple[DataNode, ...]:
    """Return the nodes of a call's result, which may be a node, or nested lists and tuples of nodes."""
    if isinstance(result, (list, tuple)):
        return tuple(node for item in result for node in nodes_in(item))
    return (result,)


def attached(node: ops.DataNode, pipe: Any) -> ops.DataNode:
    """Return a node as one of a pipeline: calls that were made outside of pipelines are repeated in it.

    Args:
        node: a node of the pipeline, or one that was made outside.
        pipe: the pipeline, which is being defined.
    """
    if not isinstance(node, DataNode) or not (node.pipeline is None or node.pipeline.is_draft):
        return node
    known = pipe.attached_nodes
    if node in known:
        return known[node]  # type: ignore[no-any-return]
    scope, pipe.scope = pipe.scope, None  # it is computed for whole batches
    try:
        if node.recipe is not None:
            made = nodes_in(node.recipe.call())
            known.update(zip(node.recipe.outputs, made, strict=True))
            return known[node]  # type: ignore[no-any-return]
        inputs = tuple(attached(operand, pipe) for operand in node.operands)
        if all(item is other for item, other in zip(inputs, node.operands, strict=True)):
            known[node] = node
        else:
            known[node] = copy(node).with_inputs(inputs)
            known[node].pipeline = pipe
        return known[node]  # type: ignore[no-any-return]
    finally:
        pipe.scope = scope


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
    """Return a value as a node; a number, an array or a constant is the same for all samples.

    Raises:
        ParameterError: the value cannot be a node.
    """
    if isinstance(value, DataNode):
        return value
    if isinstance(value, ops.DataNode):
        return DataNode(value.label, [value], lambda v, _: v[0])
    if hasattr(type(value), "error"):  # a variable that only one branch has set
        raise value.error()
    if not isinstance(value, (Real, np.generic, np.ndarray, list, tuple, ScalarConstant)):
        raise ParameterError(f"{described_type(value)} among nodes", allowed="nodes, numbers and arrays")
    return _constant_node(value.array if isinstance(value, ScalarConstant) else _array_of(value))


@recorded("constant")
def Constant(  # noqa: N802  DALI's name
    value: Any,
    dtype: Any = None,
    shape: Any = None,
    layout: str | None = None,
    device: str | None = None,
    **_: Any,
) -> Any:
    """Return a value that is the same for all samples of a batch.

    A number is a :class:`~seqpipe.dali.types.ScalarConstant`, whose methods such as ``uint8()`` set its type; all
    else is a node. Both are accepted wherever nodes are, and as arguments that must be numbers.

    Args:
        value: a number, or an array or a list of numbers.
        dtype: type of the values; by default int32, float32 or bool, or that of the array.
        shape: shape of the value; a single number is repeated.
        layout: letters of the axes.
        device: "cpu" or "gpu".
        **_: ``name`` and others that operators have, without effect.
    """
    scalar = not np.ndim(value) and (shape is None or np.size(shape) == 0 or tuple(np.ravel(shape)) == (1,))
    if scalar and layout is None and device is None:
        return ScalarConstant(value, dtype)
    array = _array_of(value)
    if dtype is not None:
        array = converted(np.asarray(value), dtype)
    if shape is not None:
        sides = tuple(shape) if np.ndim(shape) else (int(shape),)
        array = array.reshape(sides) if array.size > 1 else np.broadcast_to(array.reshape(-1)[0], sides)
    return _constant_node(array, layout or "", device or "cpu")


def _array_of(value: Any) -> np.ndarray[Any, Any]:
    """Return the array of a number, a list or an array: 64-bit values of Python and of arrays become 32-bit ones."""
    array = np.asarray(value)
    plain = not isinstance(value, (np.ndarray, np.generic))
    if array.dtype.kind in "if" and (plain or (array.dtype.itemsize == 8 and array.ndim)):
        array = converted(array, "int32" if array.dtype.kind == "i" else "float32")
    return array


def _constant_node(array: np.ndarray[Any, Any], layout: str = "", device: str = "cpu") -> DataNode:
    def repeated(_: list[Value], run: Run) -> Value:
        return Value(np.broadcast_to(array, (len(run.index), *array.shape)).copy(), layout)

    node = DataNode("constant", [], repeated, summary=_summary(array))
    node.origin = Origin("constant", (array,), {"layout": layout, "device": device}), 0
    if device == "gpu":
        return node.gpu()
    node.constant = array
    return node


def fixed_value(value: Any) -> Any:
    """Return the plain value of an argument that is a constant, or a list with constants in it; others unchanged."""
    if isinstance(value, DataNode) and value.constant is not None:
        value = value.constant
        return value if value.ndim > 1 else value.tolist()
    if isinstance(value, ScalarConstant):
        return value.value
    if isinstance(value, (list, tuple)) and any(
        isinstance(item, (ScalarConstant, DataNode)) for item in value
    ):
        return type(value)(map(fixed_value, value)) if type(value) in (list, tuple) else value
    return value


def _summary(array: np.ndarray[Any, Any]) -> str:
    return f"{array.dtype}{array.tolist()}" if array.size <= 64 else f"{array.dtype}{array.shape}"


def _on(node: DataNode, device: str, compute: Compute) -> DataNode:
    """Return a node that has the same samples on a device."""
    return DataNode(device, [node], compute, device=device, is_passthrough=True)


@recorded("arithmetic")
def arithmetic(sign: str, left: Any, right: Any) -> DataNode:
    """Return the node of a binary operation on two nodes, or on a node and a number.

    Raises:
        ParameterError: an operand is neither a node nor a number.
    """
    nodes = [operand for operand in (left, right) if isinstance(operand, ops.DataNode)]
    for number, item in enumerate((left, right)):
        check_plain_list(item, number, sign)
    constants = [
        None if isinstance(entry, ops.DataNode) else operand_of(sign, entry) for entry in (left, right)
    ]
    device = "gpu" if any(getattr(node, "device", "cpu") == "gpu" for node in nodes) else "cpu"
    summary = " ".join("·" if constant is None else _summary(constant) for constant in constants)

    def compute(values: list[Value], _: Run) -> Value:
        remaining = iter(values)
        return combined(sign, [next(remaining) if setting is None else setting for setting in constants])

    return DataNode(sign, nodes, compute, device=device, summary=summary)


set_operators(DataNode, arithmetic)


def check_plain_list(operand: Any, number: int, operator: str) -> None:
    """Check that a list as an input has no nodes in it.

    Raises:
        ParameterError: it has.
    """
    if isinstance(operand, (list, tuple)) and _nodes_within(operand):
        raise dali_error(
            f"input {number} of operator `{operator}` must be a DataNode, or convertible to one. Got a "
            f"`{type(operand).__name__}` with nested DataNode",
            source=user_line() or "DataNode",
            advice="fn.stack joins nodes",
        )


def _nodes_within(value: Any) -> bool:
    """Return whether a value is a node, or nested lists with a node."""
    if isinstance(value, (list, tuple)):
        return any(map(_nodes_within, value))
    return isinstance(value, ops.DataNode)


def operand_of(sign: str, operand: Any) -> Any:
    """Return the array of an operand that is no node.

    Raises:
        ParameterError: the operand is not a number.
    """
    if isinstance(operand, ScalarConstant):
        return operand.array
    if isinstance(operand, (list, tuple, np.ndarray)):
        return _array_of(operand)
    if isinstance(operand, (Real, np.generic)):
        return number_of(operand)
    raise ParameterError(
        f"{user_line()}: {described_type(operand)} as an operand of {sign!r} with a node",
        source="DataNode",
        allowed="a number, a node, an array or a list of numbers, or types.Constant",
    )


@recorded("subscript")
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

    def index_of(part: Any) -> Any:
        part = fixed_value(part)
        if isinstance(part, DataNode):
            inputs.append(part)
            return InputIndex(len(inputs) - 1)
        if isinstance(part, slice):
            bounds = (part.start, part.stop, part.step)
            return slice(*(None if bound is None else index_of(bound) for bound in bounds))
        if part is None:  # as in DALI, the whole axis
            return slice(None)
        if isinstance(part, (EllipsisType, NewAxis)) or hasattr(part, "__index__"):
            return part
        raise ParameterError(
            f"{user_line()}: {described_type(part)} as an index of a node",
            source="DataNode",
            allowed="whole numbers, slices, newaxis, ..., and nodes of whole numbers",
        )

    indices = tuple(index_of(part) for part in keys)
    same_for_all = len(inputs) == 1
    summary = ", ".join(map(index_text, indices))

    def compute(values: list[Value], _: Run) -> Value:
        value = values[0]
        layout = remaining_layout(value, indices)
        try:
            if value.dense and same_for_all:
                return value.with_data(value.data[(slice(None), *map(numpy_index, indices))], layout)
            samples = [
                value[n][tuple(numpy_index(resolved(part, values, n)) for part in indices)]
                for n in range(len(value))
            ]
        except IndexError as error:
            shapes = dict.fromkeys(value.shapes())
            raise ParameterError(
                f"[{summary}] of samples of the shape {', '.join(map(str, shapes))}: {error}",
                source="DataNode",
            ) from error
        return views(samples, layout, value.sources)

    return DataNode("subscript", inputs, compute, device=node.device, summary=summary)
