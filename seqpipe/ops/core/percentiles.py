"""Percentiles: a range of intensities between two percentiles of the values."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.param import Param, check_fields
from ...errors import ParameterError

__all__ = ["Percentiles"]

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
