"""What a parameter can be besides a constant: a distribution, a table with a value per sample, one per frame."""

from __future__ import annotations

import dataclasses
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import lru_cache
from numbers import Real
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ...array import FloatArray
from ...errors import ParameterError
from .percentiles import Percentiles

__all__ = [
    "Choice",
    "Distribution",
    "Flag",
    "Normal",
    "Number",
    "PerFrame",
    "Table",
    "Uniform",
    "encoded",
    "per_frame",
    "settings_of",
    "unframed",
]


_SHOWN: Final = 16  # numbers of an array that are worth reading


class Distribution(ABC):
    """What values are drawn from: one for each sequence, or one for each frame within :func:`per_frame`.

    A distribution of one's own is a frozen dataclass that derives from this class and has both methods.

    Attributes:
        for_flags: whether its values are chosen so that they may be True and False.
    """

    kinds: ClassVar[dict[str, type[Distribution]]] = {}
    for_flags: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__name__ in Distribution.kinds:
            raise ParameterError(
                f"there is a distribution {cls.__name__} already", advice="Name it otherwise"
            )
        Distribution.kinds[cls.__name__] = cls

    @abstractmethod
    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], *, whole: bool) -> FloatArray | float:
        """Values of a shape; one number where that has no axes.

        Args:
            rng: the only source of randomness.
            shape: how many; for a parameter that is a vector, its length is the last axis.
            whole: whether they must be whole numbers.
        """

    @abstractmethod
    def support(self) -> tuple[Any, Any] | None:
        """The least and the greatest value that can be drawn; None where the parameter's own bounds are meant."""


@dataclasses.dataclass(frozen=True)
class Uniform(Distribution):
    """Every value from ``lo`` to ``hi`` alike; whole numbers include both ends. A tuple ``(lo, hi)`` means this.

    Attributes:
        lo: the least value; a tuple with one for each element, where the parameter is a vector.
        hi: the greatest value, likewise.
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
        """Values of a shape; see :meth:`Distribution.draw`."""
        size = shape or None  # NumPy is quicker with None than with a shape of no axes, and draws the same
        if not whole:
            return rng.uniform(self.lo, self.hi, size)
        values = rng.integers(self.lo, self.hi, size, endpoint=True)
        return values.astype(np.float64) if isinstance(values, np.ndarray) else float(values)

    @property
    def is_finite(self) -> bool:
        """Whether the range has a width, which NumPy needs to draw from it."""
        return bool(np.isfinite(np.subtract(self.hi, self.lo)).all())

    def support(self) -> tuple[Any, Any]:
        """``(lo, hi)``."""
        return self.lo, self.hi


@dataclasses.dataclass(frozen=True)
class Normal(Distribution):
    """The normal distribution; what lies outside of the parameter's bounds is moved to them.

    Attributes:
        mean: where it is highest.
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
        """Values of a shape; see :meth:`Distribution.draw`."""
        values = rng.normal(self.mean, self.stddev, shape or None)
        return np.rint(values) if whole else values

    def support(self) -> None:
        """The parameter's bounds."""
        return


@dataclasses.dataclass(frozen=True)
class Choice(Distribution):
    """One of some values.

    Attributes:
        values: what there is to choose from.
        weights: how likely each is, in proportion; None makes all alike.
    """

    values: tuple[float, ...]
    weights: tuple[float, ...] | None = None
    for_flags = True

    def __post_init__(self) -> None:
        values = _plain_numbers(self.values)
        if values == ():
            raise ParameterError("a choice of no values", allowed="one value or more")
        # NaN is what no bound is compared with
        if not isinstance(values, tuple) or any(value != value for value in values):
            raise ParameterError(f"a choice of {values or self.values}", allowed="numbers, one or more")
        object.__setattr__(self, "values", values)
        if self.weights is not None:
            object.__setattr__(self, "weights", self._checked_weights())

    def _checked_weights(self) -> tuple[float, ...]:
        found = _plain_numbers(self.weights)
        weights = tuple(map(float, found)) if isinstance(found, tuple) else ()
        if len(weights) != len(self.values) or min(weights) < 0 or not 0 < sum(weights) < math.inf:
            raise ParameterError(
                f"weights={self.weights} do not fit {len(self.values)} values",
                allowed="a number of at least 0 for each value, not all 0",
            )
        return weights

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], *, whole: bool) -> FloatArray | float:  # noqa: ARG002  its values are whole or not
        """Values of a shape; see :meth:`Distribution.draw`."""
        if self.weights is None:
            which = rng.integers(0, len(self.values), shape or None)
        else:
            which = _shares(self.weights).searchsorted(rng.random(shape or None), side="right")
        several = isinstance(which, np.ndarray)
        return np.array(self.values, np.float64)[which] if several else float(self.values[which])

    def support(self) -> tuple[float, float]:
        """The least and the greatest of the values."""
        return min(self.values), max(self.values)


def _keep_plain(owner: Distribution, *names: str, several: bool = False) -> None:
    """Keep fields as Python's numbers: what is equal is then written, compared and hashed alike.

    Raises:
        ParameterError: one of them is no number, nor several where these are allowed.
    """
    for name in names:
        value = getattr(owner, name)
        found = _plain_numbers(value)
        if found is None or (isinstance(found, tuple) and not several):
            allowed = "a number, or one for each element" if several else "a number"
            raise ParameterError(f"{name}={value!r} is not valid", allowed=allowed)
        object.__setattr__(owner, name, found)


def _plain_numbers(value: Any) -> Any:
    """A number of any library as Python's, or several as a tuple of them; None for what is neither."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, Iterable):
        return value if isinstance(value, Real) else None
    parts = tuple(part.item() if hasattr(part, "item") else part for part in value)
    return parts if all(isinstance(part, Real) for part in parts) else None


@lru_cache(maxsize=256)
def _shares(weights: tuple[float, ...]) -> FloatArray:
    """How likely each value is, together with those before it: the last is 1."""
    shares: FloatArray = (np.asarray(weights) / sum(weights)).cumsum()
    shares /= shares[-1]
    return shares


class Table:
    """A value for each sample, or for each frame: a read-only array that can be compared and hashed.

    Args:
        values: numbers; the first axis counts samples or frames.
    """

    def __init__(self, values: npt.ArrayLike) -> None:
        self.values: FloatArray = np.array(values, np.float64)
        self.values.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.values.shape, self.values.tobytes()))

    def __repr__(self) -> str:
        few = self.values.size <= _SHOWN
        return (
            repr(self.values.tolist()) if few else f"<{self.values.dtype} array of shape {self.values.shape}>"
        )


@dataclasses.dataclass(frozen=True)
class PerFrame:
    """A value for each frame; made by :func:`per_frame`.

    Attributes:
        values: a table ``(F,)`` or ``(N, F)``, a distribution, or a range.
    """

    values: Any

    def __repr__(self) -> str:
        return f"per_frame({self.values!r})"


def per_frame(values: Number) -> PerFrame:
    """The values of a parameter, one for each frame.

    Args:
        values: an array ``(F,)`` for every sample, or ``(N, F)``; or a range or a distribution, of which one value
            is drawn for each frame. A parameter that is a vector has one more axis.
    """
    return PerFrame(values)


def unframed(value: Any) -> Any:
    """What a value for each frame is taken from; any other value is as it is."""
    return value.values if isinstance(value, PerFrame) else value


Number: TypeAlias = npt.ArrayLike | Distribution | PerFrame
"""A number, a range ``(lo, hi)``, a distribution, an array ``(N,)`` for each sample, or :func:`per_frame`."""
Flag: TypeAlias = bool | npt.ArrayLike | Distribution | PerFrame
"""True or False, a ``Choice([True, False])``, an array ``(N,)`` for each sample, or :func:`per_frame`."""


def encoded(value: Any) -> Any:
    """A value as JSON knows it."""
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
    """The value that :func:`encoded` was given.

    Raises:
        ParameterError: it is of a kind that is not known.
    """
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
    if kind == Percentiles.__name__:
        return Percentiles(**inner)
    if kind not in Distribution.kinds:
        known = ", ".join(sorted(Distribution.kinds))
        raise ParameterError(f"there is no distribution {kind!r}", allowed=known)
    try:
        return Distribution.kinds[kind](**{name: _tuples(part) for name, part in inner.items()})
    except (AttributeError, TypeError) as error:
        raise ParameterError(f"{inner!r} are no arguments of the distribution {kind!r} ({error})") from error


def settings_of(text: str) -> dict[str, Any]:
    """The values by their names in an operator's JSON.

    Raises:
        ParameterError: this is no such text, or a value is of a kind that is not known.
    """
    allowed = "what to_json() gives"
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ParameterError(f"{text!r} is no JSON ({error})", allowed=allowed) from error
    if not isinstance(found, dict):
        raise ParameterError(f"{text!r} is no operator", allowed=allowed)
    return {name: _decoded(value) for name, value in found.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
