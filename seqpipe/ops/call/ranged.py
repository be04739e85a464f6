"""Ranged: the base of operators on intensities, whose range is a parameter: that of a volume is not its type's."""

from __future__ import annotations

from typing import Any

from ..core.intensity import Intensities, IntensityRange, intensities, limits_of, range_param, refusal
from ..core.percentiles import Percentiles
from ..core.spec import Spec
from .inputs import Given
from .op import Op

__all__ = ["Ranged"]


class Ranged(Op, register=False):
    """An operator that asks what intensities mean dark and full."""

    range: IntensityRange = range_param()

    @property
    def needs_range(self) -> bool:
        """Whether the range matters with these parameters."""
        return True

    @property
    def looks_at_values(self) -> bool:
        """Whether parameters follow from the values themselves, which have to be there then."""
        return self.range == "minmax" or isinstance(self.range, Percentiles)

    def check_sample(self, spec: Spec) -> None:
        """See that a volume has a range.

        Raises:
            ParameterError: it has none.
        """
        if spec.volume and self.range is None and self.needs_range:
            raise refusal(self.name)

    def specs_of(self, part: Given) -> list[Spec]:
        """What the operator is told of each sample: also the limits of its values, if they are asked for."""
        specs = [part.form.spec] * part.form.samples
        wanted: Any = self.range
        if wanted is None or not self.looks_at_values:
            return specs
        if part.view.is_series:
            found = [limits_of(part.five, wanted)] * len(specs)
        else:
            found = [limits_of(one, wanted) for one in part.five]
        return [spec._replace(limits=limits) for spec, limits in zip(specs, found, strict=True)]

    def intensities(self, spec: Spec, dtype: str = "") -> Intensities:
        """The range for a sample; see :func:`seqpipe.ops.core.intensity.intensities`."""
        return intensities(self.range, spec, dtype)
