"""``nvidia.dali.math``: element-wise functions of nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from ..array import namespace
from ..errors import ParameterError
from ..ops import Run
from ..ops.core.arithmetic import result_type
from .data_node import DataNode, arithmetic, check_plain_list, node_of
from .expressions import matching
from .serialized import recorded
from .value import Value

__all__: list[str] = []

_FLOAT: Final = {
    **{name: name for name in ("sqrt", "cbrt", "exp", "log", "log2", "log10", "sin", "cos", "tan")},
    **{name: name for name in ("sinh", "cosh", "tanh", "floor", "ceil")},
    **{f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "fabs": "abs",
}
"""Functions whose results are floats, float32 for integers, and their names in NumPy and CuPy."""


def _float(name: str, array: Any) -> Any:
    """Apply a function of NumPy or CuPy; integers are taken as float32."""
    if array.dtype.kind == "b":
        raise ParameterError(
            f"Input to arithmetic operator `{name}` cannot be a boolean",
            source=f"math.{name}",
            advice="Consider using bitwise operators",
        )
    with np.errstate(all="ignore"):
        numbers = array if array.dtype.kind == "f" else array.astype(np.float32)
        return getattr(namespace(array), name)(numbers)


def _pair(name: str, sign: str, left: Any, right: Any) -> Any:
    """Apply a function of NumPy or CuPy to two arrays, as the type that an operation on both has."""
    xp, kind = namespace(left), result_type(sign, left.dtype, right.dtype)
    return getattr(xp, name)(left.astype(kind), xp.asarray(right, kind))


def _function(name: str, of_arrays: Callable[..., Any]) -> Callable[..., DataNode]:
    """Return a function of nodes that applies a function of arrays to the samples."""

    def applied(*inputs: Any) -> DataNode:
        for number, operand in enumerate(inputs[: len(inputs) if len(inputs) > 1 else 0]):
            check_plain_list(operand, number, name)
        nodes = [node_of(item) for item in inputs]

        def compute(values: list[Value], _: Run) -> Value:
            with matching(name, values):
                samples = [of_arrays(*row) for row in zip(*values, strict=True)]
            layout = max((value.layout for value in values), key=len)
            return Value.of(samples, layout, values[0].sources)

        device = "gpu" if any(node.device == "gpu" for node in nodes) else "cpu"
        return DataNode(f"math.{name}", nodes, compute, device=device)

    applied = recorded(f"math.{name}")(applied)
    applied.__name__ = applied.__qualname__ = name
    applied.__doc__ = f"``nvidia.dali.math.{name}``{'; float32 for integers' if name in _FLOAT else ''}."
    return applied


def _fpow(base: Any, exponent: Any) -> DataNode:
    """Return a power as a float."""
    floats = (
        arithmetic("*", item, np.float32(1)) if isinstance(item, DataNode) else item
        for item in (base, exponent)
    )
    return arithmetic("**", *floats)


_FUNCTIONS: Final[dict[str, Callable[..., DataNode]]] = {
    **{name: _function(name, partial(_float, numpy_name)) for name, numpy_name in _FLOAT.items()},
    "abs": _function("abs", abs),
    "max": _function("max", partial(_pair, "maximum", "+")),
    "min": _function("min", partial(_pair, "minimum", "+")),
    "atan2": _function("atan2", partial(_pair, "arctan2", "/")),
    "pow": partial(arithmetic, "**"),
    "fpow": _fpow,
    "rsqrt": lambda x: arithmetic("/", np.float32(1), _FUNCTIONS["sqrt"](x)),
    "clamp": lambda value, low, high: _FUNCTIONS["min"](_FUNCTIONS["max"](value, low), high),
}


def __getattr__(name: str) -> Callable[..., DataNode]:
    if name not in _FUNCTIONS:
        raise AttributeError(f"module 'seqpipe.dali.math' has no function {name!r}")
    return _FUNCTIONS[name]


def __dir__() -> list[str]:
    return sorted(_FUNCTIONS)
