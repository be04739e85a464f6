"""Operators on the values of volumes: limits, masks, histograms, smooth contrast, and images made of labels."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...array import Array, namespace
from ...core.lazy import import_optional
from ...errors import ParameterError
from ...resampling.mapping import spline_weights
from ..core.distributions import Number
from ..core.parameters import param
from ..noise.numbers import fast_normal
from .base import RANDOM_PURPOSE, Intensity, bits, extremes, generator, moments
from .channels import Call, Stage, Step
from .percentiles import percentiles

__all__ = [
    "Clamp",
    "DistanceMap",
    "HistogramShift",
    "LabelsToImage",
    "Mask",
    "PercentileClip",
    "SmoothContrast",
    "Threshold",
]

_MOST_LABEL: Final = 1 << 20


class Clamp(Intensity):
    """Limit values to a range."""

    lo: Number | None = param(None, "smaller values become this one; None for no limit", kind=float)
    hi: Number | None = param(None, "greater values become this one; None for no limit", kind=float)

    examples = ({"lo": 0.2, "hi": 0.7}, {"hi": (0.5, 0.9), "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """``min(max(x, lo), hi)``."""
        lo, hi = (
            None if limit is None else np.float32(value)
            for limit, value in ((self.lo, p.lo), (self.hi, p.hi))
        )
        return x if lo is None and hi is None else x.clip(lo, hi)


class PercentileClip(Intensity):
    """Limit values to the range between two of their percentiles."""

    lower: Number = param(0.5, "percentile of the lower limit", unit="%", lo=0, hi=100)
    upper: Number = param(99.5, "percentile of the upper limit", unit="%", lo=0, hi=100)

    examples = ({"lower": 5.0, "upper": 90.0}, {"upper": (90.0, 100.0), "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """Values below the lower limit become that limit, those above the upper one likewise."""
        lo, hi = percentiles(x, (float(p.lower), float(p.upper)))
        return x.clip(np.float32(lo), np.float32(hi))


class Threshold(Intensity):
    """Replace the values on one side of a threshold by another value."""

    threshold: Number = param(0.0, "the threshold")
    above: bool = param(True, "whether values above it are kept, rather than those below", drawn=False)
    fill_value: float = param(0.0, "value of the others", drawn=False)

    examples = ({"threshold": 0.3}, {"threshold": (0.2, 0.8), "above": False, "fill_value": 1.0, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """``x`` where it is on the kept side, else the fill value."""
        kept = x > np.float32(p.threshold) if self.above else x < np.float32(p.threshold)
        return namespace(x).where(kept, x, np.float32(self.fill_value))


class Mask(Intensity):
    """Replace the values outside of a mask."""

    of: str = param(
        "labels",
        "voxels that are kept: those that the sample's labels mark, or those above the mean",
        choices=("labels", "above_mean"),
    )
    fill_value: float = param(0.0, "value of the others", drawn=False)

    examples = ({"of": "above_mean"}, {"of": "above_mean", "fill_value": 0.5, "p": 0.5, "seed": 1})

    @property
    def asks_mask(self) -> bool:
        """Whether the mask is that of labels."""
        return self.of == "labels"

    def reference(self, x: Array, p: Any) -> Array:
        """``x`` in the mask, else the fill value."""
        kept = x > np.float32(moments(x)[0]) if self.of == "above_mean" else p.mask
        if kept is None:
            raise _without_labels(self, "of='labels'")
        return namespace(x).where(kept, x, np.float32(self.fill_value))


class HistogramShift(Intensity):
    """Map values by a random rising curve: line segments between points at equal distances over their range.

    Each inner point moves to a place between the point before, moved already, and the one behind, as in MONAI.
    """

    points: Number = param((5, 15), "points of the curve, with both ends", kind=int, lo=3, hi=1000)

    examples = ({"points": 8}, {"points": (5, 15), "per_channel": True, "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """Linear interpolation of the curve."""
        xp = namespace(x)
        if (ends := extremes(x)) is None:
            return x
        lo, hi = ends
        even, rng = np.linspace(0, 1, int(p.points)), generator(p.key, int(p.channel), RANDOM_PURPOSE)
        curve = even.copy()
        for n in range(1, len(curve) - 1):
            curve[n] = rng.uniform(curve[n - 1], curve[n + 1])
        before, after = (xp.asarray(values * (hi - lo) + lo) for values in (even, curve))
        return xp.interp(x, before, after).astype(np.float32)


class SmoothContrast(Intensity):
    """Raise values to a power within their range, with an exponent that varies smoothly over the volume."""

    gamma: tuple[float, float] = param(
        (0.5, 2.0), "range of the exponents", lo=0.01, hi=100, size=2, drawn=False
    )
    cells: int = param(
        3, "cells along each axis, at whose corners exponents are random", lo=1, hi=64, drawn=False
    )

    examples = ({"cells": 2}, {"gamma": (0.7, 1.5), "per_channel": True, "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """``u ^ f · (hi - lo) + lo`` with ``u`` the share of the range, and ``f`` a cubic B-spline of the exponents."""
        xp = namespace(x)
        if (ends := extremes(x)) is None:
            return x
        lo, hi = ends
        rng = generator(p.key, int(p.channel) if self.per_channel else 0, RANDOM_PURPOSE)
        field = xp.asarray(rng.uniform(min(self.gamma), max(self.gamma), (self.cells + 3,) * 3))
        for n in x.shape:  # the first axis becomes the last, three times
            field = xp.tensordot(field, xp.asarray(_spline_matrix(n, self.cells)), (0, 0))
        wide = np.float32(max(hi - lo, 1e-7))
        share = ((x - np.float32(lo)) / wide).clip(0, 1)
        return xp.power(share, field.astype(np.float32)) * wide + np.float32(lo)


def _spline_matrix(size: int, cells: int) -> Any:
    """Return the weight of each of ``cells + 3`` coefficients (rows) for each voxel of an axis."""
    position = np.linspace(0, cells, size)
    first = np.minimum(position.astype(int), cells - 1)
    matrix = np.zeros((cells + 3, size))
    for n, weight in enumerate(spline_weights(position - first).T):
        matrix[first + n, np.arange(size)] = weight
    return matrix


class LabelsToImage(Intensity):
    """Make images of labels: each class has a random mean and deviation of normally distributed values.

    The images of the sample are replaced, so that a file of labels may stand for an image, too: ``{"image": labels,
    "label": labels}``. With blur, a bias field and low resolution behind it, networks learn from labels alone
    (SynthSeg, Billot et al.).
    """

    of: str = param(
        "labels",
        "the classes: the sample's labels, or the values of the image itself",
        choices=("labels", "image"),
    )
    mean: tuple[float, float] = param((0.1, 0.9), "range of the means of classes", size=2, drawn=False)
    std: tuple[float, float] = param(
        (0.01, 0.1), "range of the standard deviations of classes", lo=0, size=2, drawn=False
    )

    to_float = True
    examples = ({"of": "image"}, {"of": "image", "per_channel": True, "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """``mean[class] + std[class] · n``; labels below 0 count as 0."""
        noise = fast_normal(bits(p.key, 2 * int(p.channel), x.size)).reshape(x.shape)
        mean, std = self._by_class(x, p)
        return mean + std * namespace(x).asarray(noise)

    def stages(self, p: Any) -> list[Stage]:
        """See :meth:`Intensity.stages`."""
        drawn: list[Array] = []

        def empty(x: Array) -> Array:
            drawn[:] = self._by_class(x, p)
            return namespace(x).zeros_like(x)

        noise = Step("noise", (1.0,), p.key, 2 * int(p.channel))
        return [Call(empty), noise, Call(lambda x: drawn[0] + drawn[1] * x)]

    def _by_class(self, x: Array, p: Any) -> tuple[Array, Array]:
        """Return the mean and the deviation of the class of each voxel."""
        xp = namespace(x)
        classes = xp.rint(xp.nan_to_num(x)) if self.of == "image" else p.labels
        if classes is None:
            raise _without_labels(self, "of='labels'")
        classes = classes.astype(np.int64).clip(0, None)
        most = int(classes.max())
        if most > _MOST_LABEL:
            raise ParameterError(f"the label {most}", source=self.name, allowed=f"labels up to {_MOST_LABEL}")
        rng = generator(p.key, int(p.channel), RANDOM_PURPOSE)
        # in pairs, so that the numbers of a class do not depend on the other classes of the sample
        drawn = rng.random((most + 1, 2))
        ends = np.array([sorted(self.mean), sorted(self.std)])
        mean, std = (xp.asarray(v.astype(np.float32)) for v in (ends[:, 0] + drawn * np.diff(ends).T).T)
        return mean[classes], std[classes]


class DistanceMap(Intensity):
    """Replace values by the distance to the nearest voxel that is 0 or less; images of integers become float32.

    Distances are in mm, or in voxels for volumes without a spacing; they are 0 if all voxels are above 0, or none. A
    file of labels that is listed as an image becomes its distance map: ``Only("distance", DistanceMap())``.
    """

    signed: bool = param(
        False, "whether voxels outside get minus the distance to the nearest voxel above 0", drawn=False
    )

    to_float = True
    examples = ({}, {"signed": True, "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """The Euclidean distance transform, by SciPy, or on a GPU by CuPy."""
        inside = x > 0
        if bool(inside.all()) or not bool(inside.any()):
            return namespace(x).zeros_like(x)
        library = "scipy.ndimage" if isinstance(x, np.ndarray) else "cupyx.scipy.ndimage"
        transform = import_optional(
            library, "scipy" if isinstance(x, np.ndarray) else "cuda"
        ).distance_transform_edt
        sampling = None if p.spacing is None else [float(mm) for mm in p.spacing]
        found = transform(inside, sampling=sampling)
        return (found - transform(~inside, sampling=sampling) if self.signed else found).astype(np.float32)


def _without_labels(op: Intensity, what: str) -> ParameterError:
    """Return the error for an operator whose sample has no labels."""
    return ParameterError(
        f"{what}, and the sample has no labels",
        source=op.name,
        advice="Pass them: {'image': volume, 'label': parts.Labels(labels)}",
    )
