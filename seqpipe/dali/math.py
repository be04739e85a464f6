"""``nvidia.dali.math``: element-wise functions of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..array import namespace
from ..errors import ParameterError
from ..ops import Run
from ..ops.core.arithmetic import result_type
from .data_node import DataNode, arithmetic, check_plain_list, node_of
from .expressions import matching
from .serialized import recorded
from .value import Value

__all__: list[str] = ["abs", "atan2", "clamp", "fabs", "fpow", "max", "min", "pow", "rsqrt"]

_FLOAT_FUNCTIONS = (
    *("sqrt", "cbrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "arcsin", "arccos", "arctan"),
    *("sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "floor", "ceil"),
)
_NUMPY_NAMES = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}


def rsqrt(x: Any) -> DataNode:
    """Return one over the square root, as a float."""
    return arithmetic("/", np.float32(1), _unary("sqrt", _float("sqrt"))(x))


def _unary(name: str, function: Callable[[Any], Any]) -> Callable[[Any], DataNode]:
    """Return a function of a node that applies a function of arrays to every sample."""

    def applied(x: Any) -> DataNode:
        node = node_of(x)
        return DataNode(f"math.{name}", [node], lambda v, _: v[0].each(function), device=node.device)

    applied = recorded(f"math.{name}")(applied)
    applied.__name__ = applied.__qualname__ = name
    applied.__doc__ = f"``nvidia.dali.math.{name}``; float32 for integers."
    return applied


def _float(name: str) -> Callable[[Any], Any]:
    """Return a function of NumPy or CuPy that takes integers as float32."""

    def function(array: Any) -> Any:
        if array.dtype.kind == "b":
            raise ParameterError(
                f"Input to arithmetic operator `{name}` cannot be a boolean",
                source=f"math.{name}",
                advice="Consider using bitwise operators",
            )
        if array.dtype.kind != "f":
            array = array.astype(np.float32)
        with np.errstate(all="ignore"):
            return getattr(namespace(array), name)(array)

    return function


def abs(x: Any) -> DataNode:  # noqa: A001  DALI's name
    """Return the absolute value, of the same dtype."""
    return _unary("abs", lambda array: namespace(array).abs(array))(x)


def fabs(x: Any) -> DataNode:
    """Return the absolute value as a float."""
    return _unary("fabs", _float("abs"))(x)


def pow(base: Any, exponent: Any) -> DataNode:  # noqa: A001  DALI's name
    """Return a power."""
    return arithmetic("**", base, exponent)


def fpow(base: Any, exponent: Any) -> DataNode:
    """Return a power as a float."""
    operands = [
        arithmetic("*", one, np.float32(1)) if isinstance(one, DataNode) else one for one in (base, exponent)
    ]
    return arithmetic("**", *operands)


def _binary(name: str, function: str) -> Callable[[Any, Any], DataNode]:
    """Return a function of two nodes that applies a function of NumPy or CuPy to each pair of samples."""

    def applied(left: Any, right: Any) -> DataNode:
        def compute(values: list[Value], _: Run) -> Value:
            kind = result_type("+", *(value.dtype for value in values))
            with matching(name, values):
                samples = [
                    getattr(namespace(a), function)(a.astype(kind), namespace(a).asarray(b, kind))
                    for a, b in zip(*values, strict=True)
                ]
            layout = sorted((value.layout for value in values), key=len)[-1]
            return Value.of(samples, layout)

        for number, one in enumerate((left, right)):
            check_plain_list(one, number, name)
        nodes = [node_of(one) for one in (left, right)]
        return DataNode(
            f"math.{name}",
            nodes,
            compute,
            device="gpu" if any(node.device == "gpu" for node in nodes) else "cpu",
        )

    applied = recorded(f"math.{function}")(applied)
    applied.__name__ = applied.__qualname__ = name
    applied.__doc__ = f"``nvidia.dali.math.{name}``."
    return applied


min = _binary("min", "minimum")  # noqa: A001  DALI's name
max = _binary("max", "maximum")  # noqa: A001  likewise


def _device_of(nodes: list[DataNode]) -> str:
    return "gpu" if any(node.device == "gpu" for node in nodes) else "cpu"


def _atan2(y: Any, x: Any) -> Any:
    xp = namespace(y)
    kind = result_type("/", y.dtype, x.dtype)
    return xp.arctan2(y.astype(kind), xp.asarray(x, kind))


@recorded("math.atan2")
def atan2(y: Any, x: Any) -> DataNode:
    """Return the angle of a point in radians."""
    nodes = [node_of(one) for one in (y, x)]

    def compute(values: list[Value], _: Run) -> Value:
        return Value.of([_atan2(a, b) for a, b in zip(*values, strict=True)], values[0].layout)

    return DataNode(
        "math.atan2", nodes, compute, device="gpu" if any(node.device == "gpu" for node in nodes) else "cpu"
    )


def clamp(value: Any, low: Any, high: Any) -> DataNode:
    """Return a value, limited to bounds."""
    return min(max(value, low), high)


def __getattr__(name: str) -> Callable[[Any], DataNode]:
    numpy_name = _NUMPY_NAMES.get(name, name)
    if numpy_name not in _FLOAT_FUNCTIONS:
        raise AttributeError(f"module 'seqpipe.dali.math' has no function {name!r}")
    return _unary(name, _float(numpy_name))
