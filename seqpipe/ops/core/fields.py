"""What follows from the fields of an operator's class: its parameters, their rows, its signature, and names."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Hashable, Iterable
from collections.abc import Sequence as Seq
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final

import numpy as np

from ...errors import ParameterError
from .parameters import KEY, Parameter
from .spec import COMPUTED, MOVED

__all__ = [
    "block_dtype_of",
    "check_names",
    "check_stated",
    "documented",
    "name_taken",
    "parameters_of",
    "replaces",
    "sentence_of",
    "signature_of",
    "suggestion",
    "summary_of",
    "telling",
]

_TAKEN: Final = frozenset({"acts", "cls", "occurrence", "op", "self"})
"""Of rows of parameters, of calls that make operators, and of their JSON."""


def parameters_of(cls: type) -> tuple[Parameter, ...]:
    """The parameters of a dataclass, each with its name; those of the class itself before those of its bases."""
    found = []
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
        found.append((depth, named))
    return tuple(parameter for _, parameter in sorted(found, key=lambda pair: pair[0]))


@lru_cache(maxsize=512)
def block_dtype_of(op: Hashable) -> np.dtype[Any]:
    """A row of an operator's block: whether it acts, its parameters that may be drawn, and what is derived of them."""
    kind: Any = op
    fields = [("acts", np.int32), *(q.field for q in kind.drawable)]
    for entry in kind.traits.derived:
        name, length = entry if isinstance(entry, tuple) else (entry, 0)
        fields.append((name, np.float32, (length,)) if length else (name, np.float32))
    return np.dtype(fields)


def signature_of(parameters: Seq[Parameter]) -> inspect.Signature:
    """The signature of what takes parameters, by keyword."""
    return inspect.Signature(
        [inspect.Parameter(q.name, inspect.Parameter.KEYWORD_ONLY, default=q.default) for q in parameters]
    )


def replaces(cls: type, method: str) -> bool:
    """Whether a class has a method of its own in place of one of its bases that is more than a demand for it."""
    before = getattr(super(cls, cls), method, None)
    return method in vars(cls) and not getattr(before, "__isabstractmethod__", before is None)


def summary_of(cls: type) -> str:
    """What a class says of itself, or the nearest one of its bases that does."""
    own = cls.__dict__.get("__doc__")
    inherited: str = getattr(super(cls, cls), "summary", "")
    return inspect.cleandoc(own) if own else inherited


def sentence_of(cls: Any, parameter: Parameter) -> str:
    """What a parameter means to an operator."""
    if parameter.name == "per_frame" and not cls.traits.by_frame:
        meaning = parameter.param.doc.rstrip(".")
        return f"{meaning}; always False, as the frames of a sequence belong together."
    return parameter.sentence(by_frame=cls.traits.by_frame)


def documented(cls: Any) -> str:
    """The docstring of an operator: what its class says, and its parameters."""
    lines = "".join(f"\n    {q.name}: {sentence_of(cls, q)}" for q in cls.parameters)
    return f"{cls.summary}\n\nArgs:{lines}\n" if lines else cls.summary


def suggestion(name: str, known: Iterable[str]) -> str:
    """What may have been meant by a name that is none of some, as advice; empty if nothing is near."""
    near = {known_name.lower(): known_name for known_name in known}
    found = get_close_matches(name.lower(), near, n=1, cutoff=0.7)
    return f"Perhaps {near[found[0]]!r} is meant" if found else ""


def telling(op: Any) -> str:
    """What to tell an operator that does nothing: its last example, or else to give its own parameters."""
    given = ", ".join(f"{name}={value!r}" for name, value in (op.traits.examples or ({},))[-1].items())
    own = " or ".join(q.name for q in op.parameters[:-3])  # all but those that every operator has
    return f"try {type(op).__name__}({given})" if given else f"give {own}"


def check_names(cls: Any) -> None:
    """See that an operator's parameters, and what it derives from them, can be told apart from all else of it.

    Args:
        cls: its class, that knows its parameters.

    Raises:
        ParameterError: one has the name of an attribute or a method, of an argument of the call, or of another one.
    """
    derived = [entry if isinstance(entry, str) else entry[0] for entry in cls.traits.derived]
    call = inspect.signature(cls.__call__).parameters
    beside = {*_TAKEN, *derived, *call}.union(*map(_others, cls.__mro__[1:]))
    for q in cls.parameters:
        if q.name in beside:
            raise name_taken(cls, q.name)


def name_taken(cls: type, name: str) -> ParameterError:
    """The error of a parameter that cannot have the name that it has."""
    return ParameterError(
        f"{cls.__name__}.{name} has the name of something else of the operator",
        allowed="names of no attribute, no method, no argument of its call, and nothing derived",
    )


def check_stated(cls: Any) -> None:
    """See that what a class states of itself is of the right form: a text is no tuple of types, nor a number one.

    Raises:
        ParameterError: its name is no name, or its types or numbers of channels are none that there can be.
    """
    computes = cls.traits.takes in ("images", "batches") and cls.traits.values != "moved"
    types = COMPUTED if computes else MOVED
    if not all(part.isidentifier() for part in cls.name.split(".")):
        raise ParameterError(
            f"an operator with the name {cls.name!r}", allowed="names as Python's functions have"
        )
    if type(cls.traits.dtypes) is not tuple or not set(cls.traits.dtypes) <= set(types):
        raise ParameterError(
            f"{cls.__name__}.dtypes={cls.traits.dtypes!r} is not valid",
            allowed=f"a tuple of {', '.join(types)}",
            advice='Operators that only move values, whose values are "moved", take others'
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


def _others(base: Any) -> set[str]:
    """The attributes of a base that are no fields; those of a class alone are not."""
    fields = dataclasses.fields(base) if dataclasses.is_dataclass(base) else ()
    return set(vars(base)) - {field.name for field in fields}
