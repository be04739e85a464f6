"""Declaration of a parameter: name, meaning, unit and bounds.

Validation, error messages, and the command line's options and help are derived from it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, Final

from ..errors import ParameterError
from .cached import cached_property

__all__ = ["Brief", "Param", "check_fields", "check_list", "check_path", "choice"]

_PLAIN: Final = frozenset({int, float})


@dataclass(frozen=True, kw_only=True)
class Param:
    """A parameter's type and bounds.

    Attributes:
        name: the Python name; the command line's option has dashes for underscores.
        doc: one sentence for help texts.
        kind: ``int``, ``float``, ``str`` or ``bool``.
        unit: printed after the bounds.
        lo: the smallest allowed value, or None.
        hi: the largest allowed value, or None.
        choices: the closed set of allowed values, or empty.
        optional: whether None is allowed.
    """

    name: str
    doc: str
    kind: type = int
    unit: str = ""
    lo: float | None = None
    hi: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False

    @cached_property
    def allowed(self) -> str:
        """The allowed values in words, derived from the bounds."""
        if self.choices:
            return ", ".join(repr(c) for c in self.choices) + (" or None" if self.optional else "")
        what = {int: "a whole number", float: "a number", str: "a string", bool: "True or False"}[self.kind]
        unit = f" {self.unit}" if self.unit else ""
        if self.lo is not None and self.hi is not None:
            what += f" from {_digits(self.lo)} to {_digits(self.hi)}{unit}"
        elif self.lo is not None:
            what += f" of at least {_digits(self.lo)}{unit.removesuffix('s') if self.lo == 1 else unit}"
        elif self.hi is not None:
            what += f" of at most {_digits(self.hi)}{unit}"
        return what + (" or None" if self.optional else "")

    def check(self, value: Any) -> Any:
        """Return the value, converted to ``kind``.

        Raises:
            ParameterError: the value has another type or is out of bounds.
        """
        if value is None and self.optional:
            return None
        if not self._fits(value):
            advice = self.doc[:1].upper() + self.doc[1:].rstrip(".")
            raise ParameterError(f"{self.name}={value!r} is not valid", allowed=self.allowed, advice=advice)
        return self.kind(value)

    def _fits(self, value: Any) -> bool:
        if self.choices:
            return isinstance(value, str) and value in self.choices
        if self.kind is str:
            return isinstance(value, str)
        if self.kind is bool:
            return isinstance(value, bool)
        # int and float skip the slow check against Real: requests with per-sample crops are validated one by one
        if type(value) not in _PLAIN and (isinstance(value, bool) or not isinstance(value, Real)):
            return False
        try:
            number = float(value)
        except OverflowError:
            return False
        if not math.isfinite(number) or (self.kind is int and value != math.floor(value)):
            return False
        return (self.lo is None or number >= self.lo) and (self.hi is None or number <= self.hi)


def _digits(bound: float) -> str:
    """Return a bound as users write it, without an exponent where that is readable: 10000000, 0.000001."""
    readable = bound == 0 or 1e-6 <= abs(bound) < 1e10
    return f"{bound:.10f}".rstrip("0").rstrip(".") if readable else f"{bound:g}"


def choice(name: str, doc: str, choices: Seq[str], *, optional: bool = False) -> Param:
    """Declare a parameter with a closed set of values."""
    return Param(name=name, doc=doc, kind=str, choices=tuple(choices), optional=optional)


def check_fields(owner: object, *params: Param) -> None:
    """Validate fields of a frozen dataclass with the parameters of the same names; convert each to its ``kind``.

    After conversion, equal values have the same repr and JSON: 16, 16.0 and ``np.int64(16)`` all become 16.

    Raises:
        ParameterError: a field is invalid.
    """
    for param in params:
        object.__setattr__(owner, param.name, param.check(getattr(owner, param.name)))


def check_list(name: str, values: Any, allowed: str) -> list[Any]:
    """Return the values of an argument that takes an iterable, as a list.

    Args:
        name: name of the argument.
        values: its value; a single string or path is refused.
        allowed: for the message.

    Raises:
        ParameterError: the value is not iterable.
    """
    several = isinstance(values, Iterable) and not isinstance(values, (str, bytes, os.PathLike))
    # 0-d arrays have __iter__, which raises
    if several and getattr(values, "shape", None) != ():
        return list(values)
    raise ParameterError(f"{name}={values!r} is not valid", allowed=allowed)


def check_path(name: str, value: Any) -> str:
    """Return a path as a string.

    Raises:
        ParameterError: the value is not a path.
    """
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(path, str) and "\0" not in path:
        return path
    raise ParameterError(f"{name}={value!r} is not valid", allowed="a path, as str or pathlib.Path")


class Brief:
    """Base of dataclasses, declared with ``repr=False``, whose repr leaves out fields that have their default."""

    def __repr__(self) -> str:
        own: Any = self
        given = [field.name for field in fields(own) if getattr(self, field.name) != field.default]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in given)})"
