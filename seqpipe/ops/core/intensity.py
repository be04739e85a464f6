"""Range of intensities of an operator: its parameter, and the numbers for a sample."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from ...array import Array, namespace
from ...core.param import Param
from ...errors import ParameterError
from .distributions import Percentiles, unframed
from .nodes import DataNode
from .parameters import KEY, Parameter
from .spec import Spec, full_range, half_range

__all__ = [
    "Intensities",
    "IntensityRange",
    "intensities",
    "limits_of",
    "missing_range_error",
    "range_param",
]


IntensityRange: TypeAlias = (
    tuple[float, float] | Literal["minmax", "percentiles", "dtype"] | Percentiles | None
)
"""Values of the parameter ``range``."""
_FORMS: Final = "(least, greatest), 'minmax', 'percentiles' (0.5 and 99.5), ops.Percentiles(…) or 'dtype'"
_DOC: Final = (
    "the range of intensities: two numbers, the least and greatest value of each sample, percentiles of its values, or "
    "0 to the greatest value of the dtype, 1 for floats; None is the dtype's for frames, and not allowed for volumes"
)


class Intensities(NamedTuple):
    """A range of intensities.

    Attributes:
        lo: intensity of dark.
        hi: full intensity.
        middle: middle intensity; DALI's where the range is that of the dtype.
    """

    lo: float
    hi: float
    middle: float

    @property
    def width(self) -> float:
        """Width of the range; 1 if the range is empty, so that it can be a divisor."""
        return self.hi - self.lo or 1.0


@dataclass(frozen=True)
class _RangeParameter(Parameter):
    """The parameter ``range``, which has its own forms."""

    @property
    def hint(self) -> str:
        """See :attr:`Parameter.hint`."""
        return "ops.IntensityRange"

    def _words(self, element: Param, unit: str = "") -> str:  # noqa: ARG002  the range has no unit
        return f"{_FORMS}, or None"

    def normal(self, value: Any) -> Any:
        """Return the normalized range; ``"percentiles"`` are those from 0.5 to 99.5."""
        if isinstance(unframed(value), DataNode):
            return super().normal(value)  # raises an error that names the node
        if isinstance(value, str) and value == "percentiles":
            return Percentiles()
        named = isinstance(value, str) and value in ("minmax", "dtype")
        if value is None or named or isinstance(value, Percentiles):
            return value
        try:
            lo, hi = (float(end) for end in value)
        except (TypeError, ValueError):
            lo = hi = math.nan
        if isinstance(value, str) or not (math.isfinite(lo) and math.isfinite(hi) and lo < hi):
            raise self._error(value, self.allowed)
        return lo, hi


def range_param(doc: str = "") -> Any:
    """Declare the parameter ``range``, as the value of a field."""
    declared = Param(name="", doc=doc or _DOC, kind=str, optional=True)
    return dataclasses.field(
        default=None, metadata={KEY: _RangeParameter(declared, None, None, 0, drawn=False)}
    )


def intensities(wanted: IntensityRange, spec: Spec, dtype: str = "") -> Intensities:
    """Return the range for a sample."""
    if wanted in (None, "dtype"):
        name = dtype or spec.dtype
        return Intensities(0.0, full_range(name), half_range(name))
    # NaN without pixels, as when a crop is only planned
    lo, hi = wanted if isinstance(wanted, tuple) else spec.limits or (math.nan, math.nan)
    return Intensities(lo, hi, (lo + hi) / 2)


def limits_of(values: Array, wanted: Literal["minmax"] | Percentiles) -> tuple[float, float]:
    """Return the range of the finite values of an array; 0 to 1 if there are none."""
    library = namespace(values)
    if values.dtype.kind == "f":
        finite = library.isfinite(values)
        values = values if bool(finite.all()) else values[finite]
    if not values.size:
        return 0.0, 1.0
    if wanted == "minmax":
        return float(values.min()), float(values.max())
    lo, hi = library.percentile(values.astype(np.float64), [wanted.lo, wanted.hi])
    return float(lo), float(hi)


def missing_range_error(name: str) -> ParameterError:
    """Return the error for a volume without a range of intensities."""
    return ParameterError(
        "a volume without a range of intensities, which does not follow from its type",
        source=name,
        allowed=f"range= {_FORMS}",
        advice="Pass the window of interest, such as range=(-200, 300) for soft tissue in HU",
    )
