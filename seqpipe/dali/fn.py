"""``nvidia.dali.fn``: operators as functions of nodes, for use while a pipeline is defined."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..errors import ParameterError
from .call import call_operator
from .declared import Row
from .serialized import FUNCTIONS
from .table import OperatorGroup, row_of

__all__: list[str] = []


def _operator(group: str, name: str) -> Any:
    """Return a function of a group; "" for the module itself."""
    full_name = f"{group}.{name}" if group else name
    row = row_of(full_name)
    if row is None:
        module = f"seqpipe.dali.fn{'.' if group else ''}{group}"
        raise AttributeError(f"module {module!r} has no operator {name!r}, and neither has DALI 2.4")
    return _function(full_name, row)


def _function(name: str, row: Row) -> Callable[..., Any]:
    def function(*inputs: Any, **arguments: Any) -> Any:
        return call_operator(row, inputs, arguments)

    function.__name__ = name.rpartition(".")[2]
    function.__qualname__ = name
    function.__module__ = "seqpipe.dali.fn"
    function.__doc__ = f"``nvidia.dali.fn.{name}``{f'; {row.note}' if row.note else ''}."
    return function


_GROUP = OperatorGroup("fn", "", _operator, lambda _, operator: operator)
__dir__ = _GROUP.__dir__


def __getattr__(name: str) -> Any:
    return getattr(_GROUP, name)


def _repeated(operator: str, /, *inputs: Any, **arguments: Any) -> Any:
    row = row_of(operator)
    if row is None:
        raise ParameterError(f"there is no operator {operator!r}", source="deserialize")
    return call_operator(row, inputs, arguments)


FUNCTIONS["fn"] = _repeated
__path__: list[str] = []
sys.modules.update(_GROUP.importable())
