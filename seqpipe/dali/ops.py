"""``nvidia.dali.ops``: operators as classes, whose objects are called with nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ..errors import ParameterError
from .call import called
from .table import known_names, row_of

__all__ = ["Compose"]

_FIRST: Final = {
    "external_source": ("source", "num_outputs"),
    "python_function": ("function", "num_outputs"),
    "torch_python_function": ("function", "num_outputs"),
    "dl_tensor_python_function": ("function", "num_outputs"),
}
"""Arguments that constructors take by position."""


class _Operator:
    """An operator with arguments, which is called with nodes.

    Args:
        *first: the function and the number of outputs of Python functions, the source and the number of outputs of
            external sources.
        **arguments: arguments of the function; except for ``name``, the call must not repeat them.
    """

    operator = ""

    def __init__(self, *first: Any, **arguments: Any) -> None:
        names = _FIRST.get(self.operator, ())
        if len(first) > len(names):
            raise ParameterError(
                f"{len(first)} positional arguments",
                source=f"ops.{type(self).__name__}",
                allowed=", ".join(names) or "arguments by name",
            )
        self._arguments = {**dict(zip(names, first, strict=False)), **arguments}

    def __call__(self, *inputs: Any, **arguments: Any) -> Any:
        twice = sorted((arguments.keys() & self._arguments.keys()) - {"name"})
        if twice:
            raise ParameterError(
                f"{twice[0]} is given at the call, and was given to the constructor",
                source=f"ops.{type(self).__name__}",
                allowed="one of both",
            )
        row = row_of(self.operator)
        assert row is not None
        return called(row, inputs, {**self._arguments, **arguments})

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


class _Group:
    """A submodule of classes, such as ``ops.readers``.

    Args:
        name: name of the submodule.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        return _found(self.__name__, name)

    def __dir__(self) -> list[str]:
        before = f"{self.__name__}."
        return sorted(_class_name(one) for one in known_names() if one.startswith(before))


def _flat(name: str) -> str:
    return name.replace("_", "").lower()


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.rpartition(".")[2].split("_"))


def _found(group: str, name: str) -> Any:
    before = f"{group}." if group else ""
    known = known_names()
    for one in known:
        inside = one.removeprefix(before)
        if one.startswith(before) and "." not in inside and _flat(inside) == _flat(name):
            return type(
                name, (_Operator,), {"operator": one, "__doc__": f"``nvidia.dali.ops.{before}{name}``."}
            )
    if any(one.startswith(f"{before}{name}.") for one in known):
        return _Group(f"{before}{name}")
    raise AttributeError(f"module 'seqpipe.dali.ops' has no operator {before}{name}")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _found("", name)


def __dir__() -> list[str]:
    groups = {name.partition(".")[0] for name in known_names() if "." in name}
    return sorted({_class_name(name) for name in known_names() if "." not in name} | groups | {*__all__})
