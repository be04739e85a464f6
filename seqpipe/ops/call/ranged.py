"""Ranged: base of operators on intensities, with the parameter ``range``, which volumes require."""

from __future__ import annotations

from typing import Any

from ..core.intensity import (
    Intensities,
    IntensityRange,
    intensities,
    limits_of,
    missing_range_error,
    range_param,
)
from ..core.percentiles import Percentiles
from ..core.spec import Spec
from .inputs import CallInput
from .op import Op

__all__ = ["Ranged"]


class Ranged(Op, register=False):
    """Base of operators that use the intensities of dark and full."""

    range: IntensityRange = range_param()

    @property
    def needs_range(self) -> bool:
        """Whether the range affects the result with these parameters."""
        return True

    @property
    def needs_pixels(self) -> bool:
        """Whether the range depends on the values of the sample."""
        return self.range == "minmax" or isinstance(self.range, Percentiles)

    def check_sample(self, spec: Spec) -> None:
        """Check that a volume has a range.

        Raises:
            ParameterError: it has none.
        """
        if spec.volume and self.range is None and self.needs_range:
            raise missing_range_error(self.name)

    def specs_of(self, part: CallInput) -> list[Spec]:
        """Return the specs of the samples, with the limits of their values if the range depends on them."""
        specs = [part.form.spec] * part.form.samples
        wanted: Any = self.range
        if wanted is None or not self.needs_pixels:
            return specs
        if part.view.is_series:
            result = [limits_of(part.nfhwc, wanted)] * len(specs)
        else:
            result = [limits_of(one, wanted) for one in part.nfhwc]
        return [spec._replace(limits=limits) for spec, limits in zip(specs, result, strict=True)]

    def intensities(self, spec: Spec, dtype: str = "") -> Intensities:
        """Return the range for a sample; see :func:`seqpipe.ops.core.intensity.intensities`."""
        return intensities(self.range, spec, dtype)
