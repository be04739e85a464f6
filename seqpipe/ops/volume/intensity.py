"""Operators on the intensity of each voxel: noise, brightness, contrast, gamma, and normalization."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

import numpy as np

from ...array import Array, namespace
from ...errors import ParameterError
from ..core.distributions import Number, Percentiles
from ..core.intensity import IntensityRange, range_param
from ..core.parameters import ANY, param
from ..noise.numbers import fast_normal
from .base import Intensity, bits, extremes, moments, range_of
from .channels import COUNTS, Measurement, Stage, Statistics, Step, scaled
from .percentiles import percentile_lines, percentiles

__all__ = [
    "BrightnessAdditive",
    "BrightnessMultiplicative",
    "Contrast3d",
    "Gamma3d",
    "GaussianNoise3d",
    "HistogramStandardize",
    "PercentileRescale",
    "RicianNoise",
    "Window",
    "ZScore",
]


def _normal(x: Array, p: Any, which: int = 0) -> Array:
    """Return normally distributed numbers for all voxels, which depend on the key and the channel alone."""
    noise = fast_normal(bits(p.key, 2 * int(p.channel) + which, x.size)).reshape(x.shape)
    return namespace(x).asarray(noise)


class GaussianNoise3d(Intensity):
    """Add Gaussian noise."""

    sigma: Number = param((0.0, 0.1), "standard deviation, in the unit of the values", lo=0)

    examples = ({"sigma": 0.1}, {"sigma": (0.0, 0.2), "p": 0.5, "seed": 1, "per_channel": True})

    def reference(self, x: Array, p: Any) -> Array:
        """``x + sigma · n``."""
        return x + np.float32(p.sigma) * _normal(x, p)

    def stages(self, p: Any) -> list[Stage]:
        """See :meth:`Intensity.stages`."""
        return [Step("noise", (p.sigma,), p.key, 2 * int(p.channel))]


class RicianNoise(Intensity):
    """Add Rician noise, that of magnitudes in magnetic resonance: Gaussian noise of the real and the imaginary part."""

    sigma: Number = param(
        (0.0, 0.1), "standard deviation of the real and imaginary parts, in the unit of the values", lo=0
    )

    examples = ({"sigma": 0.1}, {"sigma": (0.0, 0.2), "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """``√((x + sigma · n)² + (sigma · m)²)``."""
        sigma = np.float32(p.sigma)
        return namespace(x).hypot(x + sigma * _normal(x, p), sigma * _normal(x, p, 1))

    def stages(self, p: Any) -> list[Stage]:
        """See :meth:`Intensity.stages`."""
        return [Step("rician", (p.sigma,), p.key, 2 * int(p.channel))]


class BrightnessMultiplicative(Intensity):
    """Multiply all values."""

    factor: Number = param(1.0, "factor of all values", lo=0, identity=1.0)

    examples = ({"factor": 1.2}, {"factor": (0.75, 1.25), "per_channel": True, "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """``x · factor``."""
        return x * np.float32(p.factor)

    def stages(self, p: Any) -> list[Stage]:
        """See :meth:`Intensity.stages`."""
        return [scaled(p.factor)]


class BrightnessAdditive(Intensity):
    """Add a number to all values."""

    offset: Number = param(0.0, "offset of all values", identity=0.0)

    examples = ({"offset": 0.1}, {"offset": (-0.1, 0.1), "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """``x + offset``."""
        return x + np.float32(p.offset)

    def stages(self, p: Any) -> list[Stage]:
        """See :meth:`Intensity.stages`."""
        return [scaled(1.0, p.offset)]


class Contrast3d(Intensity):
    """Scale the distance of values from their mean."""

    factor: Number = param(1.0, "factor of the distance from the mean", lo=0, identity=1.0)
    preserve_range: bool = param(True, "whether values are clipped to the range of the input", drawn=False)

    examples = ({"factor": 1.2}, {"factor": (0.75, 1.25), "preserve_range": False, "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """``(x - mean) · factor + mean``."""
        mean = np.float32(moments(x)[0])
        result = (x - mean) * np.float32(p.factor) + mean
        if not self.preserve_range:
            return result
        ends = extremes(x)
        return result.clip(*ends) if ends else result

    def stages(self, p: Any) -> list[Stage]:
        """See :meth:`Intensity.stages`."""
        statistics = Statistics()
        return [statistics, Step("contrast", (p.factor, self.preserve_range), before=statistics)]


class Gamma3d(Intensity):
    """Raise values to a power, between the ends of their range."""

    gamma: Number = param(1.0, "exponent", lo=0.01, hi=100, identity=1.0)
    range: IntensityRange = range_param("values that map to 0 and 1 for the power")
    invert: bool = param(False, "whether to apply the exponent to the negated values", drawn=False)
    retain_stats: bool = param(False, "whether to restore mean and standard deviation", drawn=False)

    examples = (
        {"gamma": 1.4, "range": "minmax"},
        {
            "gamma": (0.7, 1.5),
            "range": (-1.0, 2.0),
            "invert": True,
            "retain_stats": True,
            "p": 0.5,
            "seed": 1,
        },
    )
    errors = (
        ({"range": (2, 1)}, r"gamma3d: range=\(2, 1\) is not valid; allowed: \(least, greatest\), 'minmax'"),
    )

    def reference(self, x: Array, p: Any) -> Array:
        """``((x - lo) / (hi - lo)) ^ gamma · (hi - lo) + lo``; values outside the range are clipped to it."""
        xp = namespace(x)
        values = -x if self.invert else x
        lo, hi = range_of(self, x, p.dtype)
        lo, hi = (-hi, -lo) if self.invert else (lo, hi)
        wide = max(hi - lo, 1e-7)
        result = xp.power(((values - np.float32(lo)) / np.float32(wide)).clip(0, 1), np.float32(p.gamma))
        result = result * np.float32(wide) + np.float32(lo)
        if self.retain_stats:
            before, after = moments(values), moments(result)
            result = (result - np.float32(after[0])) * np.float32(
                before[1] / max(after[1], 1e-7)
            ) + np.float32(before[0])
        return -result if self.invert else result

    def stages(self, p: Any) -> list[Stage]:
        """See :meth:`Intensity.stages`."""
        bounds: Any = self.range
        if isinstance(bounds, Percentiles):
            return super().stages(p)
        whole = isinstance(bounds, str) and bounds == "minmax"
        lo, hi = (0.0, 1.0) if whole else range_of(self, np.empty(0), p.dtype)
        sign, before, after = -1.0 if self.invert else 1.0, Statistics(), Statistics()
        power = Step("power", (p.gamma, lo, hi, sign), before=before if whole else None)
        stages: list[Stage] = [before, power] if whole or self.retain_stats else [power]
        if self.retain_stats:
            return [*stages, after, Step("restore", (0.0, 0.0, 0.0, sign), before=before, after=after)]
        return [*stages, scaled(-1.0)] if self.invert else stages


class ZScore(Intensity):
    """Normalize values to the mean 0 and the standard deviation 1; images of integers become float32."""

    of: str = param(
        "all",
        "voxels that statistics are computed of: all, labeled ones (mask), or those that are not 0",
        choices=("all", "mask", "nonzero"),
    )
    keep_zeros: bool = param(False, "whether voxels that are not counted keep their values", drawn=False)

    to_float = True
    examples = ({"of": "all"}, {"of": "nonzero", "keep_zeros": True, "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """``(x - mean) / deviation``."""
        where = None
        if self.of == "mask":
            if p.mask is None:
                raise ParameterError(
                    "of='mask', and the sample has no labels",
                    source=self.name,
                    advice="Pass them: {'image': volume, 'mask': parts.Labels(mask)}",
                )
            where = p.mask
        elif self.of == "nonzero":
            where = x != 0
        mean, deviation = moments(x, where)
        result = (x - np.float32(mean)) / np.float32(deviation if deviation > 0 else 1)
        return namespace(x).where(where, result, x) if self.keep_zeros and where is not None else result

    @property
    def asks_mask(self) -> bool:
        """Whether the statistics use the mask."""
        return self.of == "mask"

    def stages(self, p: Any) -> list[Stage]:
        """See :meth:`Intensity.stages`."""
        if self.of == "mask" and p.mask is None:
            return super().stages(p)  # raises the error
        statistics = Statistics(self.of)
        changed = self.of if self.keep_zeros else "all"
        return [statistics, Step("score", (COUNTS.index(changed),), before=statistics)]


class Window(Intensity):
    """Map a range of values to 0 to 1; in CT the values are Hounsfield units; images of integers become float32."""

    lo: Number = param(-1000.0, "value that becomes 0; smaller values become 0, too")
    hi: Number = param(1000.0, "value that becomes 1; greater values become 1, too")

    to_float = True
    examples = ({"lo": 0.0, "hi": 1.0}, {"lo": (-200.0, -150.0), "hi": (200.0, 250.0), "p": 0.5, "seed": 1})
    errors = (({"lo": 3.0, "hi": 1.0}, "window: lo=3.0 and hi=1.0 are not valid; allowed: lo below hi"),)

    def __post_init__(self) -> None:
        super().__post_init__()
        lo, hi = self.lo, self.hi
        if isinstance(lo, (int, float)) and isinstance(hi, (int, float)) and lo >= hi:
            raise ParameterError(
                f"lo={lo} and hi={hi} are not valid", source=self.name, allowed="lo below hi"
            )

    def reference(self, x: Array, p: Any) -> Array:
        """``(x - lo) / (hi - lo)``, cut off at 0 and 1."""
        wide = max(float(p.hi) - float(p.lo), 1e-7)
        return ((x - np.float32(p.lo)) / np.float32(wide)).clip(0, 1)

    def stages(self, p: Any) -> list[Stage]:
        """See :meth:`Intensity.stages`."""
        return [Step("window", (p.lo, max(float(p.hi) - float(p.lo), 1e-7)))]


class PercentileRescale(Intensity):
    """Map the range between two percentiles of the values to 0 to 1; images of integers become float32."""

    lower: Number = param(0.5, "percentile that maps to 0", unit="%", lo=0, hi=100)
    upper: Number = param(99.5, "percentile that maps to 1", unit="%", lo=0, hi=100)

    to_float = True
    examples = ({"lower": 1.0, "upper": 99.0}, {"lower": (0.0, 2.0), "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """``(x - low) / (high - low)``, cut off at 0 and 1."""
        lo, hi = percentiles(x, (float(p.lower), float(p.upper)))
        return ((x - np.float32(lo)) / np.float32(max(hi - lo, 1e-7))).clip(0, 1)

    def stages(self, p: Any) -> list[Stage]:
        """See :meth:`Intensity.stages`."""
        return _on_lines((float(p.lower), float(p.upper)), (0.0, 1.0), clip=True)


class HistogramStandardize(Intensity):
    """Map percentiles of the values to landmarks, with linear interpolation between them (Nyúl and Udupa).

    Landmarks of a dataset are the means of such percentiles of its volumes. Values beyond the ends go on along the
    outermost lines. Images of integers become float32.
    """

    landmarks: tuple[float, ...] = param(
        (0.0, 25.0, 50.0, 75.0, 100.0),
        "output value of each percentile, ascending",
        size=ANY,
        drawn=False,
    )
    percentiles: tuple[float, ...] = param(
        (1.0, 25.0, 50.0, 75.0, 99.0), "percentiles of the input, ascending, one for each landmark",
        unit="%", lo=0, hi=100, size=ANY, drawn=False,
    )  # fmt: skip

    to_float = True
    examples = ({}, {"landmarks": (0.0, 1.0), "percentiles": (2.0, 98.0), "p": 0.5, "seed": 1})
    errors = (
        (
            {"landmarks": (0.0, 1.0, 2.0)},
            "histogram_standardize: 3 landmarks and 5 percentiles; allowed: "
            "the same number of both, two or more, ascending",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        rising = all(len(v) > 1 and (np.diff(v) > 0).all() for v in (self.landmarks, self.percentiles))
        if len(self.landmarks) != len(self.percentiles) or not rising:
            raise ParameterError(
                f"{len(self.landmarks)} landmarks and {len(self.percentiles)} percentiles",
                source=self.name,
                allowed="the same number of both, two or more, ascending",
            )

    def reference(self, x: Array, p: Any) -> Array:  # noqa: ARG002  nothing is drawn
        """Interpolate linearly between the two nearest percentiles."""
        xp = namespace(x)
        inputs = percentiles(x, self.percentiles)
        landmarks = np.array(self.landmarks)
        slopes = np.diff(landmarks) / np.maximum(np.diff(inputs), 1e-7)
        number = xp.searchsorted(xp.asarray(inputs[1:-1].astype(np.float32)), xp.nan_to_num(x), side="right")
        first, slope = (xp.asarray(v.astype(np.float32))[number] for v in (inputs[:-1], slopes))
        return (x - first) * slope + xp.asarray(landmarks[:-1].astype(np.float32))[number]

    def stages(self, p: Any) -> list[Stage]:  # noqa: ARG002  nothing is drawn
        """See :meth:`Intensity.stages`."""
        return _on_lines(self.percentiles, self.landmarks, clip=False)


def _on_lines(ends: Seq[float], results: Seq[float], *, clip: bool) -> list[Stage]:
    """Return the stages that map percentiles to results, linearly between them, clipped to 0 to 1 if asked."""
    lines = Measurement(lambda x, device: percentile_lines(x, ends, results, device))
    table = np.asarray(results, np.float32)
    return [lines, Step("lines", (float(clip),), other=lines, table=table, count=len(ends))]
