"""Distributions, tables of values per sample, and values per frame: what a parameter may be besides a constant."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from reprlib import repr as short
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ...array import FloatArray
from ...core.cached import cached_property
from ...core.json_text import parse_json
from ...core.param import Param, check_fields
from ...errors import ParameterError

__all__ = [
    "Choice",
    "Distribution",
    "Flag",
    "Normal",
    "Number",
    "PerFrame",
    "Percentiles",
    "Reciprocal",
    "Table",
    "TwoSided",
    "Uniform",
    "encoded",
    "per_frame",
    "settings_of",
    "unframed",
]


_SHOWN: Final = 16  # numbers of an array that a repr prints


class Distribution(ABC):
    """Distribution of a parameter: one value for each sequence, or for each frame within :func:`per_frame`.

    A custom distribution is a frozen dataclass that derives from this class and defines both methods.

    Attributes:
        kinds: registered distributions by class name.
        for_flags: whether the values may be True and False.
    """

    kinds: ClassVar[dict[str, type[Distribution]]] = {}
    for_flags: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__name__ in Distribution.kinds:
            raise ParameterError(
                f"there is a distribution {cls.__name__} already", advice="Choose another name"
            )
        Distribution.kinds[cls.__name__] = cls

    @abstractmethod
    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], *, whole: bool) -> FloatArray | float:
        """Sample values of a shape; one number if the shape is empty.

        Args:
            rng: the only source of randomness.
            shape: shape of the result; for a vector parameter its length is the last axis.
            whole: whether the values must be integers.
        """

    @abstractmethod
    def support(self) -> tuple[Any, Any] | None:
        """Return the least and greatest value that can be sampled; None for the bounds of the parameter."""


@dataclasses.dataclass(frozen=True)
class Uniform(Distribution):
    """Uniform distribution from ``lo`` to ``hi``; integers include both ends. A tuple ``(lo, hi)`` means this.

    Attributes:
        lo: least value; a tuple with one for each element of a vector.
        hi: greatest value, likewise.
    """

    lo: Any
    hi: Any

    def __post_init__(self) -> None:
        _keep_plain(self, "lo", "hi", several=True)
        if len({len(end) for end in (self.lo, self.hi) if isinstance(end, tuple)}) > 1:
            raise ParameterError(
                f"the range ({self.lo}, {self.hi}) has ends of different lengths", allowed="one length"
            )
        if np.any(np.asarray(self.lo) > np.asarray(self.hi)):
            raise ParameterError(f"the range ({self.lo}, {self.hi}) is reversed", allowed="(least, greatest)")

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], *, whole: bool) -> FloatArray | float:
        """See :meth:`Distribution.draw`."""
        size = shape or None  # None is faster than an empty shape and samples the same number
        if not whole and isinstance(self.lo, tuple):
            # as Generator.uniform, which takes three times as long for arrays
            lo, width = self._ends
            return lo + width * rng.random(size)
        if not whole:
            return rng.uniform(self.lo, self.hi, size)
        values = rng.integers(self.lo, self.hi, size, endpoint=True)
        return values.astype(np.float64) if isinstance(values, np.ndarray) else float(values)

    @cached_property
    def _ends(self) -> tuple[FloatArray, FloatArray]:
        """The least values, and the widths of the ranges."""
        lo = np.asarray(self.lo, np.float64)
        return lo, np.asarray(self.hi, np.float64) - lo

    @property
    def is_finite(self) -> bool:
        """Whether the width of the range is finite, which NumPy requires."""
        return bool(np.isfinite(np.subtract(self.hi, self.lo)).all())

    def support(self) -> tuple[Any, Any]:
        """``(lo, hi)``."""
        return self.lo, self.hi


@dataclasses.dataclass(frozen=True)
class Normal(Distribution):
    """Normal distribution; values outside of the parameter's bounds are clipped to them.

    Attributes:
        mean: mean.
        stddev: standard deviation, at least 0.
    """

    mean: float
    stddev: float

    def __post_init__(self) -> None:
        _keep_plain(self, "mean", "stddev")
        if not math.isfinite(self.mean):
            raise ParameterError(f"mean={self.mean!r} is not valid", allowed="a number")
        if not 0 <= self.stddev < math.inf:
            raise ParameterError(f"stddev={self.stddev!r} is not valid", allowed="a number of at least 0")

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], *, whole: bool) -> FloatArray | float:
        """See :meth:`Distribution.draw`."""
        values = rng.normal(self.mean, self.stddev, shape or None)
        return np.rint(values) if whole else values

    def support(self) -> None:
        """Return None: the parameter's bounds."""
        return


@dataclasses.dataclass(frozen=True)
class Choice(Distribution):
    """Random choice of one of some values.

    Attributes:
        values: the values.
        weights: relative probabilities; None for equal ones.
    """

    values: tuple[float, ...]
    weights: tuple[float, ...] | None = None
    for_flags = True

    def __post_init__(self) -> None:
        values = _plain_numbers(self.values)
        if values == ():
            raise ParameterError("a choice of no values", allowed="one value or more")
        # bounds cannot be compared with NaN
        if not isinstance(values, tuple) or any(value != value for value in values):
            raise ParameterError(f"a choice of {values or self.values}", allowed="numbers, one or more")
        object.__setattr__(self, "values", values)
        if self.weights is not None:
            object.__setattr__(self, "weights", self._checked_weights())

    def _checked_weights(self) -> tuple[float, ...]:
        plain = _plain_numbers(self.weights)
        weights = tuple(map(float, plain)) if isinstance(plain, tuple) else ()
        if len(weights) != len(self.values) or min(weights) < 0 or not 0 < sum(weights) < math.inf:
            raise ParameterError(
                f"weights={self.weights} do not fit {len(self.values)} values",
                allowed="a number of at least 0 for each value, not all 0",
            )
        return weights

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], *, whole: bool) -> FloatArray | float:  # noqa: ARG002  the values decide
        """See :meth:`Distribution.draw`."""
        if self.weights is None:
            which = rng.integers(0, len(self.values), shape or None)
        else:
            which = _cumulative(self.weights).searchsorted(rng.random(shape or None), side="right")
        several = isinstance(which, np.ndarray)
        return np.array(self.values, np.float64)[which] if several else float(self.values[which])

    def support(self) -> tuple[float, float]:
        """Return the least and greatest of the values."""
        return min(self.values), max(self.values)


def _keep_plain(owner: Distribution, *names: str, several: bool = False) -> None:
    """Convert fields to Python numbers, so that equal distributions have equal repr, JSON and hash."""
    for name in names:
        value = getattr(owner, name)
        plain = _plain_numbers(value)
        if plain is None or (isinstance(plain, tuple) and not several):
            allowed = "a number, or one for each element" if several else "a number"
            raise ParameterError(f"{name}={value!r} is not valid", allowed=allowed)
        object.__setattr__(owner, name, plain)


def _plain_numbers(value: Any) -> Any:
    """Return a number of any library as a Python number, or several as a tuple; None for anything else."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, Iterable):
        return value if isinstance(value, Real) else None
    parts = tuple(part.item() if hasattr(part, "item") else part for part in value)
    return parts if all(isinstance(part, Real) for part in parts) else None


@lru_cache(maxsize=256)
def _cumulative(weights: tuple[float, ...]) -> FloatArray:
    """Return the cumulative probabilities; the last one is 1."""
    cumulative: FloatArray = (np.asarray(weights) / sum(weights)).cumsum()
    cumulative /= cumulative[-1]
    return cumulative


class Table:
    """Array with a value for each sample or frame: read-only, comparable and hashable.

    Args:
        values: numbers; the first axis counts samples or frames.
    """

    def __init__(self, values: npt.ArrayLike) -> None:
        self.values: FloatArray = np.array(values, np.float64)
        self.values.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        # -0.0 equals 0.0, so both must have one hash
        return hash((self.values.shape, (self.values + 0.0).tobytes()))

    def __repr__(self) -> str:
        few = self.values.size <= _SHOWN
        return (
            repr(self.values.tolist()) if few else f"<{self.values.dtype} array of shape {self.values.shape}>"
        )


@dataclasses.dataclass(frozen=True)
class PerFrame:
    """Values for each frame; made by :func:`per_frame`.

    Attributes:
        values: a table ``(F,)`` or ``(N, F)``, a distribution, or a range.
    """

    values: Any

    def __repr__(self) -> str:
        return f"per_frame({self.values!r})"


def per_frame(values: Number) -> PerFrame:
    """Give a parameter one value for each frame.

    Args:
        values: an array ``(F,)`` for every sample, or ``(N, F)``; or a range or a distribution, from which one value
            is sampled for each frame. A vector parameter has one more axis.
    """
    return PerFrame(values)


def unframed(value: Any) -> Any:
    """Return the value inside of :func:`per_frame`; any other value unchanged."""
    return value.values if isinstance(value, PerFrame) else value


Number: TypeAlias = npt.ArrayLike | Distribution | PerFrame
"""A number, a range ``(lo, hi)``, a distribution, an array ``(N,)`` for each sample, or :func:`per_frame`."""
Flag: TypeAlias = bool | npt.ArrayLike | Distribution | PerFrame
"""True or False, a ``Choice([True, False])``, an array ``(N,)`` for each sample, or :func:`per_frame`."""


def encoded(value: Any) -> Any:
    """Return a value as JSON types."""
    if isinstance(value, PerFrame):
        return {"per_frame": encoded(value.values)}
    if isinstance(value, Table):
        return {"per_sample": value.values.tolist()}
    if isinstance(value, Percentiles):
        return {Percentiles.__name__: dataclasses.asdict(value)}
    if isinstance(value, Distribution):
        fields = dataclasses.fields(value)  # type: ignore[arg-type]  # every distribution is a dataclass
        return {type(value).__name__: {field.name: _plain(getattr(value, field.name)) for field in fields}}
    return value


def _decoded(value: Any) -> Any:
    """Return the value that :func:`encoded` wrote."""
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, Mapping):
        return value
    if len(value) != 1:
        raise ParameterError(f"{dict(value)} is no distribution", allowed="one name with its arguments")
    ((kind, inner),) = value.items()
    if kind == "per_frame":
        return PerFrame(_decoded(inner))
    if kind == "per_sample":
        return np.asarray(inner)
    if kind != Percentiles.__name__ and kind not in Distribution.kinds:
        known = ", ".join(sorted(Distribution.kinds))
        raise ParameterError(f"there is no distribution {kind!r}", allowed=known)
    cls: Any = Percentiles if kind == Percentiles.__name__ else Distribution.kinds[kind]
    try:
        return cls(**{name: _tuples(part) for name, part in inner.items()})
    except (AttributeError, TypeError) as error:
        raise ParameterError(f"{inner!r} are not arguments of {kind} ({error})") from error


def settings_of(text: str) -> dict[str, Any]:
    """Return the values by name from an operator's JSON."""
    allowed = "the result of to_json()"
    try:
        result = parse_json(text)
    except ValueError as error:
        raise ParameterError(f"{short(text)} is no JSON ({error})", allowed=allowed) from error
    if not isinstance(result, dict):
        raise ParameterError(f"{short(text)} is no operator", allowed=allowed)
    return {name: _decoded(value) for name, value in result.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class TwoSided(Distribution):
    """Uniform distribution from ``lo`` to ``middle`` or, with equal probability, from ``middle`` to ``hi``.

    Attributes:
        lo: the least value.
        hi: the greatest value.
        middle: between both.
    """

    lo: float
    hi: float
    middle: float = 1.0

    def __post_init__(self) -> None:
        if not self.lo <= self.middle <= self.hi:
            raise ParameterError(
                f"TwoSided({self.lo}, {self.hi}, {self.middle}) is reversed", allowed="lo ≤ middle ≤ hi"
            )

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], *, whole: bool) -> Any:
        """Values of a shape; see :meth:`Distribution.draw`."""
        side, number = rng.random(shape or None), rng.random(shape or None)
        low, high = self.lo + (self.middle - self.lo) * number, self.middle + (self.hi - self.middle) * number
        values: Any = np.where(side < 0.5, low, high) if shape else low if side < 0.5 else high
        return np.rint(values) if whole else values

    def support(self) -> tuple[float, float]:
        """``(lo, hi)``."""
        return self.lo, self.hi


@dataclass(frozen=True)
class Reciprocal(Distribution):
    """The reciprocal of a uniformly distributed number.

    Attributes:
        lo: the least number, above 0.
        hi: the greatest number.
    """

    lo: float
    hi: float

    def __post_init__(self) -> None:
        if not 0 < self.lo <= self.hi:
            raise ParameterError(f"Reciprocal({self.lo}, {self.hi}) is not valid", allowed="0 < lo ≤ hi")

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], *, whole: bool) -> Any:
        """Values of a shape; see :meth:`Distribution.draw`."""
        values = 1 / rng.uniform(self.lo, self.hi, shape or None)
        return np.rint(values) if whole else values

    def support(self) -> tuple[float, float]:
        """The least and the greatest quotient."""
        return 1 / self.hi, 1 / self.lo


_LO = Param(name="lo", doc="The percentile at the least intensity", kind=float, lo=0, hi=100)
_HI = Param(name="hi", doc="The percentile at the greatest intensity", kind=float, lo=0, hi=100)


@dataclass(frozen=True)
class Percentiles:
    """Range between two percentiles of the values of a sample, with NumPy's linear interpolation.

    Attributes:
        lo: percentile of the least intensity, from 0 to 100.
        hi: percentile of the greatest intensity.

    Raises:
        ParameterError: a percentile is not valid, or they are reversed.
    """

    lo: float = 0.5
    hi: float = 99.5

    def __post_init__(self) -> None:
        check_fields(self, _LO, _HI)
        if not self.lo < self.hi:
            raise ParameterError(f"Percentiles({self.lo}, {self.hi}) is reversed", allowed="lo below hi")
