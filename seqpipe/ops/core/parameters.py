"""Parameters of operators: declared once, checked by :class:`seqpipe.core.param.Param`, normalized to one form."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Hashable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import FloatArray
from ...core.cached import cached_property
from ...core.param import Param
from ...errors import ParameterError
from .distributions import Distribution, PerFrame, Table, Uniform, unframed
from .nodes import DataNode
from .spec import COMPUTED_DTYPES, MOVED_DTYPES

__all__ = [
    "ANY",
    "COMMON",
    "KEY",
    "MATRIX",
    "Parameter",
    "at_most_one",
    "block_dtype_of",
    "check_names",
    "check_stated",
    "documented",
    "levels",
    "name_taken",
    "param",
    "parameters_of",
    "replaces",
    "sentence_of",
    "signature_of",
    "summary_of",
    "usage_hint",
    "with_fields",
]

ANY: Final = -1
"""Size of a vector of any length."""
MATRIX: Final = -2
"""Size of a matrix of any shape."""

KEY: Final = "seqpipe"
"""Key of a declaration in the metadata of a dataclass field."""
_TYPES: Final = {float: np.float32, int: np.int32, bool: np.int32}
_GREATEST: Final = {float: float(np.finfo(np.float32).max), int: 2**31 - 1}
"""Greatest magnitude that a field of a block holds."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of an operator.

    Attributes:
        param: name, meaning, unit and bounds.
        default: value if the user passes none.
        identity: value at which the operator changes nothing; None if there is none.
        size: 0 for a number, the length of a vector, :data:`ANY` or :data:`MATRIX`.
        drawn: whether the value may differ between samples and frames; else it is one value for all.
        by_frame: whether it may differ between the frames of a sequence; False for parameters that determine the size.
        ordered: whether a vector is the two ends of a range.
    """

    param: Param
    default: Any
    identity: Any
    size: int
    drawn: bool
    by_frame: bool = True
    ordered: bool = False

    @property
    def hint(self) -> str:
        """Type annotation for stubs; empty if it follows from the other attributes."""
        return ""

    @property
    def name(self) -> str:
        """Python name."""
        return self.param.name

    @property
    def field(self) -> tuple[Any, ...]:
        """Field in the dtype of a block: float32, or int32 for integers and flags."""
        kind = _TYPES[self.param.kind]
        return (self.name, kind, (self.size,)) if self.size else (self.name, kind)

    @cached_property
    def one(self) -> Param:
        """Declaration of one element of a vector, range or distribution, which cannot be None."""
        return dataclasses.replace(self.param, optional=False)

    @property
    def allowed(self) -> str:
        """Allowed values in words."""
        return self._words(self.one)

    def sentence(self, *, by_frame: bool = True) -> str:
        """Return the meaning and the allowed values, for documentation.

        Args:
            by_frame: whether parameters of the operator may differ between the frames of a sequence.
        """
        forms = "a Choice, a node" if self.param.kind is bool else "a range, a distribution, a node"
        forms += ", an array, per_frame" if self.by_frame and by_frame else ", an array"
        forms = f" (or {forms})" if self.drawn else ""
        unit = f", {self.param.unit}" if self.param.unit and not self.param.choices else ""
        still = "" if self.identity is None else f"; {self.identity!r} changes nothing"
        allowed = self._words(dataclasses.replace(self.one, unit=""), unit)
        return f"{self.param.doc.rstrip('.')}; {allowed}{forms}; by default {self.default!r}{still}."

    def _words(self, element: Param, unit: str = "") -> str:
        names = {ANY: "one value or more", MATRIX: "rows of values, all of one length"}
        count = names.get(self.size, f"{self.size} values")
        words = f"{count}, each {element.allowed}{unit}," if self.size else element.allowed + unit
        return f"{words} or None" if self.param.optional else words.removesuffix(",")

    def normal(self, value: Any) -> Any:
        """Return the normalized value: a constant, a tuple, a Distribution, a Table, a DataNode or a PerFrame.

        Raises:
            ParameterError: the value is out of bounds or has the wrong shape.
        """
        value = _plain(value)
        if isinstance(node := unframed(value), DataNode):
            if not self.drawn:
                raise ParameterError(
                    f"{self.name} is the node {node}",
                    allowed=f"{self.allowed}, known when the operator is created: it is one value for all samples",
                )
            value = PerFrame(node) if node.by_frame else value
        if value is None or not (self.drawn or self.size):
            return self._constant(value)
        if not self.drawn:
            return self._vector(value)
        if isinstance(value, PerFrame):
            if not self.by_frame:
                raise ParameterError(
                    f"{self.name} asks for a value for each frame",
                    allowed="one for a sequence, whose frames have one size",
                )
            inner = self._varying(value.values, 2)
            if inner is None or isinstance(inner, tuple):
                raise self._error(value, "an array, a range or a distribution within per_frame")
            return PerFrame(inner)
        varying = self._varying(value, 1)
        return self._constant(value) if varying is None else varying

    def _varying(self, value: Any, axes: int) -> Any:
        """Return a distribution, a table, a node, or a tuple for a constant vector; None if it must be a constant."""
        if isinstance(value, DataNode):
            return value
        if isinstance(value, Distribution):
            return self._distribution(value)
        if isinstance(value, tuple) and self._is_range(value):
            return self._range(value)
        if isinstance(value, Table):
            return self._table(value.values, axes)
        if isinstance(value, (tuple, list)) or hasattr(value, "ndim"):
            return self._array(value, axes)
        return None

    def draw(self, value: Distribution, rng: np.random.Generator, frames: int | None) -> FloatArray | float:
        """Sample one value, or one for each frame, clipped to the bounds of the parameter and of a block's field."""
        shape = (*(() if frames is None else (frames,)), *((self.size,) if self.size else ()))
        values = value.draw(rng, shape, whole=self.param.kind is not float)
        lo, hi = self.param.lo, self.param.hi
        if (lo is None or hi is None) and value.support() is None:
            most = _GREATEST.get(self.param.kind, 1)
            lo, hi = (-most if lo is None else lo), (most if hi is None else hi)
        if lo is None and hi is None:
            return values
        if np.ndim(values) == 0:  # NumPy's maximum takes twenty times as long for one number
            values = float(values)
            values = values if lo is None or values > lo else lo
            return values if hi is None or values < hi else hi
        values = values if lo is None else np.maximum(values, lo)
        return values if hi is None else np.minimum(values, hi)

    def _is_range(self, value: tuple[Any, ...]) -> bool:
        if self.size:
            return len(value) == self.size and any(isinstance(part, tuple) for part in value)
        return True

    def _range(self, value: tuple[Any, ...]) -> Distribution:
        pairs = (
            [part if isinstance(part, tuple) else (part, part) for part in value] if self.size else [value]
        )
        checked = [tuple(self._constant(_plain(end), one=True) for end in pair) for pair in pairs]
        if any(len(pair) != 2 or pair[0] > pair[1] for pair in checked):
            raise self._error(value, f"a range (least, greatest) of values that are {self.param.allowed}")
        lo, hi = zip(*checked, strict=True)
        return self._distribution(Uniform(lo, hi) if self.size else Uniform(lo[0], hi[0]))

    def _distribution(self, value: Distribution) -> Distribution:
        support = value.support()
        if self.param.kind is bool and not value.for_flags:
            raise self._error(value, "True, False, or a Choice of both")
        checked = [self._bound(value, bound) for bound in support or ()]
        # bounds of an integer range are integers, also if they were passed as floats
        return Uniform(*checked) if type(value) is Uniform else value

    def _bound(self, value: Distribution, bound: Any) -> Any:
        """Check a bound of a distribution: a number, or one for each element of a vector."""
        if not np.ndim(bound):
            return self._constant(bound, one=True)
        if len(bound) != self.size:
            raise self._error(value, self.allowed)
        return tuple(self._constant(part, one=True) for part in bound)

    def _array(self, value: Any, axes: int) -> Any:
        try:
            values = np.asarray(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise self._error(value, f"an array in main memory ({error})") from error
        vector = self.size and values.shape == (self.size,)
        return self._vector(values) if vector else self._table(values, axes)

    def _table(self, values: npt.NDArray[Any], axes: int) -> Table:
        trailing = values.shape[values.ndim - 1 :] if self.size else ()
        numbers = values.ndim - bool(self.size)
        if (
            values.dtype.kind not in "biuf"
            or not 1 <= numbers <= axes
            or (self.size and trailing != (self.size,))
        ):
            wanted = f"({{}}, {self.size})" if self.size else "({},)"
            actual = f"an array of {values.dtype} of shape {values.shape}"
            allowed = f"{self.allowed}; for each sample, {wanted.format('N')}"
            raise ParameterError(f"{self.name} is {actual}", allowed=allowed)
        if values.size:
            broken = values != np.rint(values) if self.param.kind is not float else np.isnan(values)
            for suspect in (values.min(), values.max(), *values[broken][:1]):
                self._constant(suspect.item(), one=True)
        return Table(values)

    def _vector(self, value: Any) -> tuple[Any, ...]:
        if self.size == ANY and isinstance(value, (int, float)):
            value = (value,)
        if self.size == MATRIX:
            return self._matrix(value)
        parts = value.tolist() if isinstance(value, np.ndarray) else value
        if not isinstance(parts, (tuple, list)) or len(parts) != (
            len(parts) or 1 if self.size == ANY else self.size
        ):
            raise self._error(value, self.allowed)
        vector = tuple(self._constant(_plain(part), one=True) for part in parts)
        if self.ordered and vector[0] > vector[1]:
            raise ParameterError(f"{self.name}={vector} is reversed", allowed="(least, greatest)")
        return vector

    def _matrix(self, value: Any) -> tuple[tuple[Any, ...], ...]:
        rows = [tuple(row) if np.ndim(row) == 1 else () for row in value] if np.iterable(value) else []
        if not rows or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
            raise self._error(value, self.allowed)
        return tuple(tuple(self._constant(_plain(part), one=True) for part in row) for row in rows)

    def _constant(self, value: Any, *, one: bool = False) -> Any:
        if self.size and not one and value is not None:
            raise self._error(value, self.allowed)
        if self.param.kind is bool and isinstance(value, (int, float)) and value in (0, 1):
            value = bool(value)  # DALI's flags are numbers
        most = _GREATEST.get(self.param.kind) if self.drawn else None
        # an integer beyond the range of float is compared here, since check() would not name the limit
        large = most is not None and isinstance(value, int) and self.param.kind is float and abs(value) > most
        checked = None if large else (self.one if one else self.param).check(value)
        if most is not None and (large or (checked is not None and abs(checked) > most)):
            raise self._error(value, f"{self.param.allowed}, none beyond {most:g} in either direction")
        return checked

    def _error(self, value: Any, allowed: str) -> ParameterError:
        return ParameterError(f"{self.name}={value!r} is not valid", allowed=allowed)


def param(
    default: Any,
    doc: str,
    *,
    kind: type | None = None,
    unit: str = "",
    lo: float | None = None,
    hi: float | None = None,
    identity: Any = None,
    size: int = 0,
    choices: Seq[str] = (),
    drawn: bool = True,
    by_frame: bool = True,
    optional: bool = False,
    ordered: bool = False,
) -> Any:
    """Declare a parameter, as the value of a field of a class that derives from :class:`Op`.

    Args:
        default: value if the user passes none. None makes the parameter optional; a block of parameters holds NaN then.
        doc: meaning, a phrase or a sentence.
        kind: ``float``, ``int``, ``bool`` or ``str``; by default that of ``default``, or of its first number.
        unit: unit of the values.
        lo: least allowed value.
        hi: greatest allowed value.
        identity: value at which the operator changes nothing.
        size: length of a vector; :data:`ANY` for one or more numbers, :data:`MATRIX` for rows of numbers. These two
            cannot be sampled.
        choices: allowed strings.
        drawn: False if the value is the same for all samples and cannot be sampled; strings never can.
        by_frame: False if all frames of a sequence share the value, as of parameters that determine the size.
        optional: whether None is allowed although it is not the default.
        ordered: whether the value is a range (least, greatest) that is the same for all samples.

    Raises:
        ParameterError: the kind is none of these or does not follow from the default, or the bounds are reversed.
    """
    default = _frozen(default)
    kind = kind or (str if choices else _kind_of(default))
    if kind not in (float, int, bool, str):
        raise ParameterError(
            f"a parameter of the kind {getattr(kind, '__name__', kind)}",
            allowed="float, int, bool and str",
            advice="Give kind=",
        )
    if lo is not None and hi is not None and not lo <= hi:
        raise ParameterError(f"a parameter from lo={lo} to hi={hi}", allowed="lo up to hi")
    declared = Param(
        name="",
        doc=doc,
        kind=kind,
        unit=unit,
        lo=lo,
        hi=hi,
        choices=tuple(choices),
        optional=optional or default is None,
    )
    varies = drawn and kind is not str and size >= 0
    whole = Parameter(declared, default, identity, size, varies, by_frame, ordered)
    return dataclasses.field(default=default, metadata={KEY: whole})


def levels(doc: str) -> Any:
    """Declare a level for all channels, or one for each; by default 0."""
    return param((0.0,), f"{doc}, or one for each channel", kind=float, unit="levels", size=ANY)


def at_most_one(op: Any, *names: str) -> None:
    """Check that at most one of some parameters is set; None and False mean that a parameter is not set."""
    values = {name: getattr(op, name) for name in names}
    present = [name for name, value in values.items() if value is not None and value is not False]
    if len(present) > 1:
        raise op.refusal(f"{' and '.join(present)} given", allowed=f"one of {', '.join(names)}")


def _frozen(value: Any) -> Any:
    """Return a default as Python numbers and tuples, which are immutable."""
    value = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    return tuple(_frozen(part) for part in value) if isinstance(value, (list, tuple)) else value


def _kind_of(default: Any) -> type:
    """Return the type of a value, or of the first number of a vector."""
    return _kind_of(default[0]) if isinstance(default, tuple) and default else type(default)


def _plain(value: Any) -> Any:
    is_one = isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0)
    return value.item() if is_one else value


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
@lru_cache(maxsize=256)  # creating a dtype takes as long as filling an array
def with_fields(dtype: np.dtype[Any], *fields: tuple[Any, ...]) -> np.dtype[Any]:
    """Return a structured dtype with more fields."""
    return np.dtype([*((name, dtype[name]) for name in dtype.names or ()), *fields])


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
    """Check that the names of parameters and derived values are unique within an operator."""
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
    """Check the form of an operator's name, dtypes and channels."""
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
