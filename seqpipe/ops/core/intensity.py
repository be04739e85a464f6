"""The range of intensities that an operator works in: one parameter, and what it comes to for a sample."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from ...array import Array, namespace
from ...errors import ParameterError
from ...param import Param
from .distributions import unframed
from .nodes import DataNode
from .parameters import KEY, Parameter
from .percentiles import Percentiles
from .spec import Spec, full_range, half_range

__all__ = ["Intensities", "IntensityRange", "intensities", "limits_of", "range_param", "refusal"]

IntensityRange: TypeAlias = (
    tuple[float, float] | Literal["minmax", "percentiles", "dtype"] | Percentiles | None
)
"""What the parameter ``range`` may be."""
_FORMS: Final = "(least, greatest), 'minmax', 'percentiles' (0.5 and 99.5), ops.Percentiles(…) or 'dtype'"
_DOC: Final = (
    "the range of intensities: two numbers, that of the values of each sample, percentiles of them, or from 0 to the "
    "greatest value of the type, 1 for floats; None means the type's for pictures, and is refused for volumes"
)


class Intensities(NamedTuple):
    """A range of intensities.

    Attributes:
        lo: what means dark.
        hi: what means full intensity.
        middle: between them; as DALI has it where the range is that of the type.
    """

    lo: float
    hi: float
    middle: float

    @property
    def width(self) -> float:
        """From dark to full; 1 where the range is empty, so that it can be divided by."""
        return self.hi - self.lo or 1.0


@dataclass(frozen=True)
class _RangeParameter(Parameter):
    """The parameter ``range``, with its forms."""

    @property
    def hint(self) -> str:
        """See :attr:`Parameter.hint`."""
        return "ops.Range"

    def _words(self, one: Param, unit: str = "") -> str:  # noqa: ARG002  it has none
        return f"{_FORMS}, or None"

    def normal(self, value: Any) -> Any:
        """The range in its normal form; percentiles by name are those from 0.5 to 99.5.

        Raises:
            ParameterError: it is of none of the forms.
        """
        if isinstance(unframed(value), DataNode):
            return super().normal(value)  # which refuses it by name
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
    """Declare the parameter ``range``, as the value of a field.

    Args:
        doc: what it means, where that is not what it means to most operators.
    """
    declared = Param(name="", doc=doc or _DOC, kind=str, optional=True)
    return dataclasses.field(
        default=None, metadata={KEY: _RangeParameter(declared, None, None, 0, drawn=False)}
    )


def intensities(wanted: IntensityRange, spec: Spec, dtype: str = "") -> Intensities:
    """The range for a sample.

    Args:
        wanted: the parameter.
        spec: the sample, with the limits of its values where they were asked for.
        dtype: the type whose range is meant by "dtype"; by default that of the sample.
    """
    if wanted in (None, "dtype"):
        name = dtype or spec.dtype
        return Intensities(0.0, full_range(name), half_range(name))
    # NaN where pixels are not there yet, as where crops are only planned
    lo, hi = wanted if isinstance(wanted, tuple) else spec.limits or (math.nan, math.nan)
    return Intensities(lo, hi, (lo + hi) / 2)


def limits_of(values: Array, wanted: Literal["minmax"] | Percentiles) -> tuple[float, float]:
    """The range of some values, without those that are no finite numbers; 0 to 1 if there are none.

    Args:
        values: NumPy or CuPy, of any shape.
        wanted: which one.
    """
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


def refusal(name: str) -> ParameterError:
    """What is said of a volume without a range."""
    return ParameterError(
        "a volume without a range of intensities, which does not follow from its type",
        source=name,
        allowed=f"range= {_FORMS}",
        advice="Give the window that matters, such as range=(-200, 300) for soft tissue in HU",
    )
