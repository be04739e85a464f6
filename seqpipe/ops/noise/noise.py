"""Noise operators: independent for every value and frame, reproducible for a sample and an epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...array import Array
from ...core.native import buffer_of
from ...core.philox import Bits
from ..call.ranged import Ranged
from ..core.body import Body
from ..core.distributions import Flag, Number
from ..core.parameters import param
from ..core.spec import RANGES, Spec
from .base import Noise
from .native import native_noise
from .normal_numbers import Floats, fast_normal, normal, normal_indices
from .poisson_numbers import counts_of, fast_counts, poisson, uniform

__all__ = ["NoiseGaussian", "NoiseSaltAndPepper", "NoiseShot"]


class NoiseGaussian(Noise):
    """Add normally distributed noise (DALI's ``noise.gaussian``).

    ``out = in + mean + stddev * n``, where ``n`` is sampled for every value by the inverse of the normal distribution.
    """

    mean: Number = param(0.0, "mean of the noise", unit="levels", identity=0.0)
    stddev: Number = param(1.0, "standard deviation of the noise", unit="levels", lo=0, identity=0.0)

    examples = (
        {"stddev": 20.0},
        {"mean": -3.5, "stddev": (0.0, 10.0), "seed": 5},
    )
    errors = (({"stddev": -1}, "stddev=-1 is not valid; allowed: a number of at least 0 levels"),)

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the formula."""
        return self.noisy(x, p, lambda values, bits: values + (normal(bits) * p.stddev + p.mean))

    def cpu(self, x: Array, p: Any) -> Array:
        """Compute the formula in place."""

        def added(values: Floats, bits: Bits) -> Array:
            found = fast_normal(bits)
            found *= p.stddev
            found += p.mean
            found += values
            return found

        return self.noisy(x, p, added)

    body = Body("noise", "value = value + (normal(bits) * row.stddev + row.mean);", normal_indices)


class NoiseShot(Noise):
    """Replace values by photon counts, which is shot noise (DALI's ``noise.shot``).

    ``out = factor * k``, where ``k`` has the Poisson distribution with the mean ``in / factor``; its mean is ``in``,
    its variance ``factor * in``. Values of at most 0 and ``factor=0`` change nothing.
    """

    factor: Number = param(20.0, "value of one photon", unit="levels", lo=0, identity=0.0)

    takes_raw = True
    derived = ("by_level",)
    derived_from = ()
    examples = (
        {},
        {"factor": (0.5, 60.0), "seed": 3},
    )
    errors = (({"factor": -2.0}, "factor=-2.0 is not valid; allowed: a number of at least 0 levels"),)

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  the dtype decides
        """Derive whether counts come from tables, which exist for uint8."""
        return {"by_level": spec.dtype == "uint8"}

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the formula."""
        if not p.factor > 0:
            return x

        def drawn(values: Floats, bits: Bits) -> Array:
            if p.by_level:
                return counts_of(values.astype(np.uint8), p.factor, bits) * p.factor
            mean = values / p.factor
            some = mean > 0
            found = values.copy()
            found[some] = poisson(mean[some], bits[some]) * p.factor
            return found

        return self.noisy(x, p, drawn)

    def cpu(self, x: Array, p: Any) -> Array:
        """Compute uint8 by tables, without conversion to floats."""
        if not p.by_level or not p.factor > 0:
            return self.reference(x.astype(np.float32), p)

        def drawn(values: npt.NDArray[np.uint8], bits: Bits) -> Array:
            found = fast_counts(values, p.factor, bits)
            found *= p.factor
            return found

        return self.noisy(x, p, drawn)

    body = Body(
        "shot",
        """
    const Real mean = value / row.factor;
    if (row.factor > 0.0f && mean > 0.0f) value = poisson(mean, bits) * row.factor;
""",
        normal_indices,
    )


class NoiseSaltAndPepper(Ranged, Noise):
    """Replace values by the greatest or the least (DALI's ``noise.salt_and_pepper``)."""

    prob: Number = param(0.05, "probability that a value is replaced", lo=0, hi=1, identity=0.0)
    salt_vs_pepper: Number = param(0.5, "share of replaced values that become salt", unit="of 1", lo=0, hi=1)
    salt_val: Number = param(
        None, "value of salt; None for the maximum of the range", unit="levels", kind=float
    )
    pepper_val: Number = param(
        None,
        "value of pepper; None for the minimum of the range: for a dtype its minimum, -1 for floats",
        unit="levels",
        kind=float,
    )
    per_channel: Flag = param(False, "whether channels are replaced independently, instead of whole pixels")

    takes_raw = True
    derived = ("salt", "pepper", "salted")
    derived_from = ("prob", "salt_vs_pepper", "salt_val", "pepper_val")
    examples = (
        {"prob": 0.3},
        {"prob": (0.0, 0.5), "salt_vs_pepper": 0.25, "per_channel": True, "seed": 7},
        {"prob": 0.5, "salt_val": 200.0, "pepper_val": 50.0},
    )
    errors = (({"prob": 1.5}, "prob=1.5 is not valid; allowed: a number from 0 to 1"),)

    @property
    def needs_range(self) -> bool:
        """Whether the range affects the result: by values that are not set."""
        return self.salt_val is None or self.pepper_val is None

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """Derive both values, and the probability of salt."""
        lowest, greatest, _ = self.intensities(spec)
        if self.range in (None, "dtype"):
            lowest = RANGES[spec.dtype][0] if spec.dtype in RANGES else -1
        salt, pepper = rows["salt_val"], rows["pepper_val"]
        return {
            "salt": np.where(np.isnan(salt), greatest, salt),
            "pepper": np.where(np.isnan(pepper), lowest, pepper),
            "salted": rows["prob"] * rows["salt_vs_pepper"],
        }

    def reference(self, x: Array, p: Any) -> Array:
        """Replace by salt below its probability, by pepper above it."""

        def replaced(values: Floats, bits: Bits) -> Array:
            place = uniform(bits)
            return np.where(place < p.salted, p.salt, np.where(place < p.prob, p.pepper, values))

        return self.noisy(x, p, replaced, each=bool(p.per_channel))

    def cpu(self, x: Array, p: Any) -> Array:
        """Compute in C, if there is a C compiler."""
        native = native_noise()
        if native is None:
            return self.reference(x.astype(np.float32), p)

        def replaced(values: Array, bits: Bits) -> Array:
            found = values.astype(np.float32)
            many = found.size // bits.size
            native.seqpipe_salt(
                buffer_of(bits), bits.size, many, p.prob, p.salted, p.salt, p.pepper, buffer_of(found)
            )
            return found

        return self.noisy(x, p, replaced, each=bool(p.per_channel))

    body = Body(
        "noise",
        """
    const Real place = uniform(bits);
    if (place < row.prob) value = place < row.salted ? row.salt : row.pepper;
""",
    )
