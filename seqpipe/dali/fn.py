"""``nvidia.dali.fn``: operators as functions of nodes, for use while a pipeline is defined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .call import called
from .table import known_names, row_of

__all__: list[str] = []


class _Group:
    """A submodule of functions, such as ``fn.readers``.

    Args:
        name: name of the submodule.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        return _found(f"{self.__name__}.{name}", f"seqpipe.dali.fn.{self.__name__}")

    def __dir__(self) -> list[str]:
        before = f"{self.__name__}."
        return sorted(
            {name.removeprefix(before).partition(".")[0] for name in known_names() if name.startswith(before)}
        )


def _found(name: str, where: str) -> Any:
    row = row_of(name)
    if row is not None:
        return _function(name)
    if any(known.startswith(f"{name}.") for known in known_names()):
        return _Group(name)
    raise AttributeError(
        f"module {where!r} has no operator {name.rpartition('.')[2]!r}, and neither has DALI 2.4"
    )


def _function(name: str) -> Callable[..., Any]:
    row = row_of(name)
    assert row is not None
    exact = row

    def function(*inputs: Any, **arguments: Any) -> Any:
        return called(exact, inputs, arguments)

    function.__name__ = name.rpartition(".")[2]
    function.__qualname__ = name
    function.__module__ = "seqpipe.dali.fn"
    function.__doc__ = f"``nvidia.dali.fn.{name}``{f'; {row.note}' if row.note else ''}."
    return function


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _found(name, "seqpipe.dali.fn")


def __dir__() -> list[str]:
    return sorted({name.partition(".")[0] for name in known_names()})
