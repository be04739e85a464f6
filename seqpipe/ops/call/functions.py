"""Functions of :mod:`seqpipe.fn`: operator classes as functions, with a cache of operators by arguments."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from itertools import chain
from textwrap import dedent, indent
from typing import Any, Final

from ...core.keywords import suggestion
from ...errors import ParameterError
from ..core.declaration import REGISTRY
from ..core.fields import sentence_of
from .op import Op

__all__ = ["Group", "call_of", "function_of", "functions"]

_KEPT: Final = 4096  # operators that are cached for calls with constant arguments
_PLAIN: Final = frozenset((bool, int, float, str, type(None)))
_operators: dict[Any, Op] = {}
_functions: dict[str, Any] = {}
_groups: dict[str, Group] = {}

_CALL: Final = """
    Args:
        x: a NumPy, CuPy or torch array, a Sequence, a Batch, or a list of these with one shape each; or a DataNode.
{parameters}
        layout: layout of arrays; by default HW, HWC, FHWC or NFHWC, by the number of axes.
        epoch: epoch that random parameters are sampled for.
        index: index of the first sample within its dataset, or of each sample; sampled parameters depend on it.

    Returns:
        The result, of the type of x and on the same device, in its own memory. A DataNode, if x or a parameter is
        one; epoch and index are then arguments of the seqpipe.pipeline.Graph.
"""


def functions(group: str = "") -> tuple[str, ...]:
    """Return the names of all functions and groups, or of the functions of a group such as ``reductions``."""
    before = f"{group}." if group else ""
    inside = (name.removeprefix(before) for name in REGISTRY if name.startswith(before))
    return tuple(sorted({name.partition(".")[0] for name in inside}))


class Group:
    """Namespace of functions, such as ``fn.reductions``.

    Args:
        name: name of the group.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return function_of(f"{self.__name__}.{name}")

    def __dir__(self) -> list[str]:
        return list(functions(self.__name__))

    def __repr__(self) -> str:
        return f"<functions {', '.join(f'{self.__name__}.{name}' for name in functions(self.__name__))}>"


def function_of(name: str) -> Callable[..., Any]:
    """Return the function of an operator, or the group of that name.

    Raises:
        AttributeError: there is no such operator or group.
    """
    cls = REGISTRY.get(name)
    if cls is None:
        if name in _groups or functions(name):
            return _groups.setdefault(name, Group(name))  # type: ignore[return-value]  # of functions
        group, _, last = name.rpartition(".")
        module = f"seqpipe.fn.{group}" if group else "seqpipe.fn"
        known = functions(group)
        near = suggestion(last, known)
        raise AttributeError(
            f"module {module!r} has no attribute {last!r}; it has {', '.join(known)}{near and f'. {near}'}"
        )
    kept = _functions.get(name)
    if kept is None or kept.op is not cls:
        kept = _functions[name] = _create(name, cls)
    return kept  # type: ignore[no-any-return]  # a function, to which an attribute is added


def _create(name: str, cls: Any) -> Any:
    """Return the function of an operator, with its signature and documentation."""
    inputs, keywords = call_of(cls)
    by_name = [option.name for option in keywords]
    several = any(q.kind is q.VAR_POSITIONAL for q in inputs)
    most = sys.maxsize if several else len(inputs)

    def function(*positional: Any, **arguments: Any) -> Any:
        options = {key: arguments.pop(key) for key in by_name if key in arguments}
        if len(positional) > most > 0:
            shown = "…" if hasattr(positional[most], "shape") else repr(positional[most])
            raise ParameterError(
                f"{len(positional)} positional arguments",
                source=name,
                allowed=f"{', '.join(q.name for q in inputs)} by position, parameters by keyword",
                advice=f"fn.{name}(…, {cls.parameters[0].name}={shown})",
            )
        return _operator(cls, arguments)(*positional, **options)

    parameters = cls.__signature__.parameters.values()
    described: Any = function
    described.op = cls
    described.__signature__ = inspect.Signature([*inputs, *parameters, *keywords])
    function.__name__ = name.rpartition(".")[2]
    function.__qualname__ = name
    function.__module__ = "seqpipe.fn"
    lines = "\n".join(f"        {q.name}: {sentence_of(cls, q)}" for q in cls.parameters)
    if cls.traits.takes == "images":
        call = _CALL.format(parameters=lines)
    else:
        nodes = "\nThe result for a DataNode is a DataNode.\n" if inputs else ""
        call = f"\nParameters:\n{indent(dedent(lines), '    ')}\n\n{inspect.getdoc(cls.__call__)}\n{nodes}"
    function.__doc__ = f"{cls.summary}\n{call}"
    return function


def call_of(cls: Any) -> tuple[list[inspect.Parameter], list[inspect.Parameter]]:
    """Return the positional and the keyword arguments of an operator's call."""
    _, *all_of_them = inspect.signature(cls.__call__).parameters.values()
    inputs = [q for q in all_of_them if q.kind is not q.KEYWORD_ONLY]
    options = [q for q in all_of_them if q.kind is q.KEYWORD_ONLY]
    return [q if q.kind is q.VAR_POSITIONAL else q.replace(kind=q.POSITIONAL_ONLY) for q in inputs], options


def _operator(cls: type[Op], arguments: dict[str, Any]) -> Op:
    """Return the operator with some arguments; cached if these are constants."""
    values = tuple(arguments.values())
    kinds: tuple[Any, ...] = tuple(map(type, values))
    if not _PLAIN.issuperset(kinds):
        kinds = tuple(tuple(map(type, v)) if type(v) is tuple else type(v) for v in values)
        inner = chain.from_iterable(kind if type(kind) is tuple else (kind,) for kind in kinds)
        if not _PLAIN.issuperset(inner):
            return cls(**arguments)
    # with the types, because True, 1 and 1.0 are equal and have one hash
    key = cls, tuple(arguments), values, kinds
    operator = _operators.get(key)
    if operator is None:
        if len(_operators) >= _KEPT:
            _operators.clear()
        operator = _operators[key] = cls(**arguments)
    return operator
