"""Parameters, block dtype, signature and documentation that follow from the fields of an operator's class."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Hashable
from collections.abc import Sequence as Seq
from functools import lru_cache
from typing import Any, Final

import numpy as np

from ...errors import ParameterError
from .parameters import KEY, Parameter
from .spec import COMPUTED_DTYPES, MOVED_DTYPES

__all__ = [
    "COMMON",
    "block_dtype_of",
    "check_names",
    "check_stated",
    "documented",
    "name_taken",
    "parameters_of",
    "replaces",
    "sentence_of",
    "signature_of",
    "summary_of",
    "usage_hint",
]

COMMON: Final = ("p", "per_frame", "seed")
"""Parameters that every operator on images has."""
_RESERVED: Final = frozenset({"acts", "cls", "occurrence", "op", "self"})
"""Names used in rows of parameters, by calls that create operators, and in JSON."""


def parameters_of(cls: type) -> tuple[Parameter, ...]:
    """Return the parameters of a dataclass with their names; those of the class come before those of its bases."""
    result = []
    for entry in dataclasses.fields(cls):
        whole = entry.metadata.get(KEY)
        if whole is None:
            raise ParameterError(
                f"{cls.__name__}.{entry.name} is not declared as a parameter",
                allowed="param(default, doc, …)",
            )
        depth = max(
            n for n, base in enumerate(cls.__mro__) if entry.name in vars(base).get("__annotations__", {})
        )
        named = dataclasses.replace(whole, param=dataclasses.replace(whole.param, name=entry.name))
        result.append((depth, named))
    return tuple(parameter for _, parameter in sorted(result, key=lambda pair: pair[0]))


@lru_cache(maxsize=512)
def block_dtype_of(op: Hashable) -> np.dtype[Any]:
    """Return the dtype of a row of an operator's block: whether it acts, sampled parameters, derived values, a key."""
    kind: Any = op
    fields = [("acts", np.int32), *(q.field for q in kind.drawable)]
    for entry in kind.traits.derived:
        name, length = entry if isinstance(entry, tuple) else (entry, 0)
        fields.append((name, np.float32, (length,)) if length else (name, np.float32))
    if kind.traits.keyed:
        fields.append(("key", np.float32, (2,)))
    return np.dtype(fields)


def signature_of(parameters: Seq[Parameter]) -> inspect.Signature:
    """Return the signature of a callable that takes parameters by keyword."""
    return inspect.Signature(
        [inspect.Parameter(q.name, inspect.Parameter.KEYWORD_ONLY, default=q.default) for q in parameters]
    )


def replaces(cls: type, method: str) -> bool:
    """Return whether a class defines a method that a base already implements."""
    before = getattr(super(cls, cls), method, None)
    return method in vars(cls) and not getattr(before, "__isabstractmethod__", before is None)


def summary_of(cls: type) -> str:
    """Return the docstring of a class, or of its nearest base that has one."""
    own = cls.__dict__.get("__doc__")
    inherited: str = getattr(super(cls, cls), "summary", "")
    return inspect.cleandoc(own) if own else inherited


def sentence_of(cls: Any, parameter: Parameter) -> str:
    """Return the documentation of a parameter for one operator class."""
    if parameter.name == "per_frame" and not cls.traits.by_frame:
        meaning = parameter.param.doc.rstrip(".")
        return f"{meaning}; always False, as the frames of a sequence belong together."
    return parameter.sentence(by_frame=cls.traits.by_frame)


def documented(cls: Any) -> str:
    """Return the docstring of an operator: its summary and its parameters."""
    lines = "".join(f"\n    {q.name}: {sentence_of(cls, q)}" for q in cls.parameters)
    return f"{cls.summary}\n\nArgs:{lines}\n" if lines else cls.summary


def usage_hint(op: Any) -> str:
    """Return advice for an operator that changes nothing: its last example, or its own parameters."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in (op.traits.examples or ({},))[-1].items())
    own = " or ".join(q.name for q in op.parameters if q.name not in COMMON)
    return f"try {type(op).__name__}({arguments})" if arguments else f"give {own}"


def check_names(cls: Any) -> None:
    """Check that the names of parameters and derived values are unique within an operator.

    Args:
        cls: the class, with its parameters.

    Raises:
        ParameterError: a parameter has the name of an attribute, a method, an argument of the call or a derived value.
    """
    derived = [entry if isinstance(entry, str) else entry[0] for entry in cls.traits.derived]
    call = inspect.signature(cls.__call__).parameters
    key = ["key"] if cls.traits.keyed else []
    reserved = {*_RESERVED, *derived, *key, *call}.union(*map(_attributes, cls.__mro__[1:]))
    for q in cls.parameters:
        if q.name in reserved:
            raise name_taken(cls, q.name)


def name_taken(cls: type, name: str) -> ParameterError:
    """Return the error for a parameter whose name is already used."""
    return ParameterError(
        f"{cls.__name__}.{name} has the name of another attribute of the operator",
        allowed="names of no attribute, method, argument of the call or derived value",
    )


def check_stated(cls: Any) -> None:
    """Check the form of an operator's name, dtypes and channels.

    Raises:
        ParameterError: the name is not an identifier, or dtypes or channels are not valid.
    """
    computes = cls.traits.takes in ("images", "batches") and cls.traits.values != "moved"
    types = COMPUTED_DTYPES if computes else MOVED_DTYPES
    if not all(part.isidentifier() for part in cls.name.split(".")):
        raise ParameterError(f"an operator with the name {cls.name!r}", allowed="Python identifiers")
    if type(cls.traits.dtypes) is not tuple or not set(cls.traits.dtypes) <= set(types):
        raise ParameterError(
            f"{cls.__name__}.dtypes={cls.traits.dtypes!r} is not valid",
            allowed=f"a tuple of {', '.join(types)}",
            advice='Operators that only move values, whose trait values is "moved", accept others'
            if computes
            else "",
        )
    if type(cls.traits.channels) is not tuple or not all(
        type(n) is int and n > 0 for n in cls.traits.channels
    ):
        raise ParameterError(
            f"{cls.__name__}.channels={cls.traits.channels!r} is not valid",
            allowed="a tuple of whole numbers of at least 1; empty for any",
        )


def _attributes(base: Any) -> set[str]:
    """Return the attributes of a base class that are not dataclass fields."""
    fields = dataclasses.fields(base) if dataclasses.is_dataclass(base) else ()
    return set(vars(base)) - {field.name for field in fields}
