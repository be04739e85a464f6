"""Type stubs fn.pyi of the functions of :mod:`seqpipe.fn`."""

from __future__ import annotations

import inspect
from textwrap import indent
from typing import Any

from ..core.declaration import REGISTRY, Declaration
from ..core.parameters import ANY, MATRIX, Parameter
from .functions import call_of

__all__ = ["stub"]

_HEAD = """# Written by `python -m seqpipe.ops` from the registry of operators; a test compares the two.
from typing import Any, Literal, TypeAlias, TypeVar

from numpy.typing import ArrayLike

from seqpipe import ops
from seqpipe.ops import BoxCrop, DataNode, Mixed

X = TypeVar("X")
# the result for a node is a node, although it is annotated as X: DataNode has no public call type of its own
Number: TypeAlias = ops.Number | DataNode
Flag: TypeAlias = ops.Flag | DataNode

"""


def stub() -> str:
    """Return the text of the file."""
    own = [cls for _, cls in sorted(REGISTRY.items()) if cls.__module__.startswith("seqpipe.")]
    text = _HEAD + "".join(_function(cls) for cls in own if "." not in cls.name)
    groups = {cls.name.partition(".")[0]: "" for cls in own if "." in cls.name}
    for group in groups:
        inside = (_function(cls) for cls in own if cls.name.startswith(f"{group}."))
        text += f"class {group}:\n" + indent("".join(f"@staticmethod\n{one}" for one in inside), "    ")
    return text


def _function(cls: type[Declaration]) -> str:
    inputs, options = call_of(cls)
    several = any(q.kind is q.VAR_POSITIONAL for q in inputs)
    lines = [f"*{_argument(q)}" for q in inputs] if several else [*map(_argument, inputs), *"/*"]
    lines = lines if inputs else ["*"]
    lines += [f"{q.name}: {_type(q)} = {q.default!r}" for q in cls.parameters]
    lines += map(_argument, options)
    arguments = "".join(f"    {line},\n" for line in lines)
    call: Any = cls
    return f"def {cls.name.rpartition('.')[2]}(\n{arguments}) -> {call.__call__.__annotations__['return']}: ...\n"


def _argument(q: inspect.Parameter) -> str:
    default = "" if q.default is q.empty else f" = {q.default!r}"
    return f"{q.name}: {q.annotation}{default}"


def _type(q: Parameter) -> str:
    none = " | None" if q.param.optional else ""
    if q.hint:
        return q.hint + none
    if q.drawn:
        return "Flag" if q.param.kind is bool else f"Number{none}"
    kind = q.param.kind.__name__
    if q.param.choices:
        kind = f"Literal[{', '.join(f'{choice!r}' for choice in q.param.choices)}]".replace("'", '"')
    if q.size == MATRIX:
        kind = "ArrayLike"
    elif q.size == ANY:
        one = "" if q.param.kind is str else f"{kind} | "
        kind = f"{one}list[{kind}] | tuple[{kind}, ...]"
    elif q.size:
        kind = f"tuple[{', '.join([kind] * q.size)}]"
    return kind + none
