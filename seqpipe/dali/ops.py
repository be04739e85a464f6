"""``nvidia.dali.ops``: operators as classes, whose objects are called with nodes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from ..errors import ParameterError
from .call import call_operator
from .table import OperatorGroup, class_name, operators_in, row_of

__all__ = ["Compose"]

_POSITIONAL: Final = {
    "external_source": ("source", "num_outputs"),
    "python_function": ("function", "num_outputs"),
    "torch_python_function": ("function", "num_outputs"),
    "dl_tensor_python_function": ("function", "num_outputs"),
}
"""Arguments that constructors take by position."""


class _Operator:
    """An operator with arguments, which is called with nodes.

    Args:
        *positional: values of the arguments in :data:`_POSITIONAL`, in their order.
        **arguments: arguments of the function; except for ``name``, the call must not repeat them.
    """

    operator = ""

    def __init__(self, *positional: Any, **arguments: Any) -> None:
        names = _POSITIONAL.get(self.operator, ())
        if len(positional) > len(names):
            raise ParameterError(
                f"{len(positional)} positional arguments",
                source=f"ops.{type(self).__name__}",
                allowed=", ".join(names) or "arguments by name",
            )
        self._arguments = {**dict(zip(names, positional, strict=False)), **arguments}

    def __call__(self, *inputs: Any, **arguments: Any) -> Any:
        repeated = sorted((arguments.keys() & self._arguments.keys()) - {"name"})
        if repeated:
            raise ParameterError(
                f"{repeated[0]} is given at the call, and was given to the constructor",
                source=f"ops.{type(self).__name__}",
                allowed="one of both",
            )
        row = row_of(self.operator)
        assert row is not None
        return call_operator(row, inputs, {**self._arguments, **arguments})

    @property
    def device(self) -> str:
        """The argument ``device``."""
        return str(self._arguments.get("device") or "cpu")

    def __repr__(self) -> str:
        return f"ops.{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self._arguments.items())})"


class Compose:
    """A sequence of operators with one input each.

    Args:
        op_list: operators of this module, or other callables that take a node.
    """

    def __init__(self, op_list: Iterable[Callable[..., Any]]) -> None:
        self._operators = list(op_list)

    def __call__(self, *inputs: Any, **arguments: Any) -> Any:
        """Return the result of the last operator; arguments are passed to the first."""
        for operator in self._operators:
            inputs = (operator(*inputs, **arguments),)
            arguments = {}
        return inputs[0]


def _class(group: str, name: str) -> Any:
    """Return a class of a group; "" for the module itself."""
    full_name = f"{group}.{name}" if group else name
    for operator in operators_in(group):
        if operator.replace("_", "").lower() == name.replace("_", "").lower():
            namespace = {
                "operator": f"{group}.{operator}" if group else operator,
                "__doc__": f"``nvidia.dali.ops.{full_name}``.",
            }
            return type(name, (_Operator,), namespace)
    raise AttributeError(f"module 'seqpipe.dali.ops' has no operator {full_name}")


_GROUP = OperatorGroup("ops", "", _class, lambda _, operator: class_name(operator))


def __getattr__(name: str) -> Any:
    return getattr(_GROUP, name)


def __dir__() -> list[str]:
    return sorted({*dir(_GROUP), *__all__})


__path__: list[str] = []
sys.modules.update(_GROUP.importable())
