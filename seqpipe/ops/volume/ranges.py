"""Range and statistics of intensities, ignoring NaN and infinity."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ...array import Array, namespace
from ...errors import ParameterError
from ..core.distributions import Distribution, Percentiles
from ..core.intensity import IntensityRange, range_param
from ..core.spec import RANGES

__all__ = ["IntensityRange", "Reciprocal", "TwoSided", "moments", "percentiles", "range_of", "range_param"]


def range_of(op: Any, x: Array, dtype: str) -> tuple[float, float]:
    """Return the least and the greatest intensity of a channel."""
    bounds: Any = op.range
    if bounds is None:
        raise ParameterError(
            "the range of intensities is required, and a volume does not define it",
            source=op.name,
            allowed="range=(least, greatest), 'minmax', 'percentiles' or 'dtype'",
            advice="In MR, 'minmax' or 'percentiles'; in CT the window, as (-1000, 1000)",
        )
    if bounds == "dtype":
        least, most = RANGES.get(dtype, (0, 1))
        return float(least), float(most)
    if isinstance(bounds, Percentiles):
        return percentiles(x, (bounds.lo, bounds.hi))
    if bounds == "minmax":
        lo, hi = float(x.min()), float(x.max())
        if not np.isfinite([lo, hi]).all():
            finite = _finite(x)
            lo, hi = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        return lo, hi
    return float(bounds[0]), float(bounds[1])


def moments(x: Array, where: Array | None = None) -> tuple[float, float]:
    """Return the mean and the standard deviation of values; 0 and 1 if there are none."""
    values = x if where is None else x[where]
    if not values.size:
        return 0.0, 1.0
    mean = float(values.mean(dtype=np.float64))
    if not np.isfinite(mean):
        finite = _finite(values)
        return moments(finite) if finite.size else (0.0, 1.0)
    return mean, float(values.std(dtype=np.float64))


def percentiles(x: Array, ends: tuple[float, float]) -> tuple[float, float]:
    """Return two percentiles of values; NaN and infinity do not count."""
    finite = _finite(x)
    if not finite.size:
        return 0.0, 1.0
    xp = namespace(x)
    lo, hi = (float(end) for end in xp.percentile(finite, xp.asarray(ends)))
    return lo, hi


def _finite(x: Array) -> Array:
    return x[namespace(x).isfinite(x)]


@dataclasses.dataclass(frozen=True)
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


@dataclasses.dataclass(frozen=True)
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
