"""Operators that act most at a random position, and less with distance from it: gradients, contrast, gamma, blur."""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray, namespace
from ..core.distributions import Number
from ..core.parameters import param
from .acquisition import GaussianBlur3d
from .base import Intensity, extremes, generator
from .channels import SavedValues, Stage, Statistics, Step

__all__ = ["BrightnessGradient", "LocalBlur", "LocalContrast", "LocalGamma"]


class _Local(Intensity, register=False):
    """An operator that acts most at a random position, and less with distance from it."""

    reach: Number = param(
        (0.2, 0.5),
        "standard deviation of the Gaussian around the position, as a fraction of each axis",
        lo=0.01,
        hi=10,
    )

    def _generator(self, p: Any) -> np.random.Generator:
        """Return the random numbers of the position: one for all channels, unless parameters are per channel."""
        return generator(p.key, int(p.channel) if self.per_channel else 0, 2)


def _near(xp: Any, center: FloatArray, size: Seq[int], reach: float) -> Array:
    """Return a float64 Gaussian with the value 1 at its center, as the product of one function of each axis."""
    slices, rows, columns = (xp.asarray(values) for values in _along(center, size, reach))
    return slices[:, None, None] * rows[:, None] * columns


def _along(center: FloatArray, size: Seq[int], reach: float) -> list[FloatArray]:
    """Return the functions of slices, rows and columns whose product is the Gaussian."""
    return [
        np.exp(-0.5 * (((np.arange(n) + 0.5) / n - coordinate) / reach) ** 2)
        for n, coordinate in zip(size, center, strict=True)
    ]


def _table(along: list[FloatArray]) -> npt.NDArray[np.float32]:
    """Return the values along each axis as one table."""
    return np.concatenate(along).astype(np.float32)


class BrightnessGradient(_Local):
    """Add a smooth gradient: a Gaussian whose center is in the volume, or outside of it by up to half of its extent."""

    offset: Number = param((-0.5, 0.5), "value that is added at the center", identity=0.0)
    centered: bool = param(True, "whether the mean of the gradient is subtracted", drawn=False)

    examples = (
        {"offset": 0.4},
        {"offset": (-1.0, 1.0), "reach": 0.3, "centered": False, "p": 0.5, "seed": 1},
    )

    def reference(self, x: Array, p: Any) -> Array:
        """``x + offset · g``, with ``g`` the Gaussian, without its mean if it is centered."""
        near = _near(namespace(x), self._generator(p).uniform(-0.5, 1.5, 3), x.shape, float(p.reach))
        gradient = near - near.mean() if self.centered else near
        return x + (float(p.offset) * gradient).astype(np.float32)

    def stages(self, p: Any) -> list[Stage]:
        """See :meth:`Intensity.stages`."""
        along, offset = (
            _along(self._generator(p).uniform(-0.5, 1.5, 3), p.extent, float(p.reach)),
            float(p.offset),
        )
        mean = float(np.prod([values.mean() for values in along])) if self.centered else 0.0
        return [Step("gradient", (offset, -offset * mean), table=_table(along))]


class LocalGamma(_Local):
    """Raise values to a power within their range, most at a random position and less with distance from it."""

    gamma: Number = param((0.7, 1.5), "exponent at the center of the Gaussian", lo=0.01, hi=100, identity=1.0)

    examples = ({"gamma": 2.0}, {"gamma": (0.7, 1.5), "reach": 0.3, "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """``u ^ (gamma ^ g) · (hi - lo) + lo`` with ``u`` the share of the range and ``g`` the Gaussian."""
        xp = namespace(x)
        near = _near(xp, self._generator(p).random(3), x.shape, float(p.reach))
        if (ends := extremes(x)) is None:
            return x
        lo, hi = ends
        wide = np.float32(max(hi - lo, 1e-7))
        power = (float(p.gamma) ** near).astype(np.float32)
        return xp.power(((x - np.float32(lo)) / wide).clip(0, 1), power) * wide + np.float32(lo)

    def stages(self, p: Any) -> list[Stage]:
        """See :meth:`Intensity.stages`."""
        along, ends = _along(self._generator(p).random(3), p.extent, float(p.reach)), Statistics()
        return [ends, Step("local_power", (math.log2(float(p.gamma)),), before=ends, table=_table(along))]


class LocalContrast(_Local):
    """Scale the distance of values from their mean, most at a random position and less with distance from it."""

    factor: Number = param(
        (0.5, 1.5), "factor of the distance from the mean, at the position", lo=0, identity=1.0
    )

    examples = ({"factor": 2.0}, {"factor": (0.5, 1.5), "reach": 0.3, "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """``x + (factor - 1) · g · (x - mean)``, with ``g`` the Gaussian, and the mean weighted by it."""
        xp = namespace(x)
        near = _near(xp, self._generator(p).random(3), x.shape, float(p.reach))
        finite = xp.isfinite(x)
        weighted, weights = float((near * xp.where(finite, x, 0)).sum()), float((near * finite).sum())
        mean = np.float32(weighted / max(weights, 1e-8))
        return x + ((float(p.factor) - 1) * near).astype(np.float32) * (x - mean)


class LocalBlur(_Local):
    """Blur by a Gaussian, most at a random position and less with distance from it."""

    sigma: Number = param((0.5, 1.5), "standard deviation of the blur", unit="voxels", lo=0, hi=100)
    amount: Number = param(
        (0.5, 1.0), "share of the blurred values at the position", lo=0, hi=1, identity=0.0
    )

    examples = ({"sigma": 1.0, "amount": 0.8}, {"sigma": (0.5, 1.5), "reach": 0.3, "p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """``x + amount · g · (blurred - x)``, with ``g`` the Gaussian around the position."""
        near = _near(namespace(x), self._generator(p).random(3), x.shape, float(p.reach))
        blur = GaussianBlur3d(sigma=float(p.sigma))
        blurred = blur.reference(x, SimpleNamespace(sigma=blur.sigma, spacing=None))
        return x + (float(p.amount) * near).astype(np.float32) * (blurred - x)

    def stages(self, p: Any) -> list[Stage]:
        """See :meth:`Intensity.stages`."""
        along, saved = _along(self._generator(p).random(3), p.extent, float(p.reach)), SavedValues()
        blur = GaussianBlur3d(sigma=float(p.sigma))
        passes = blur.stages(SimpleNamespace(sigma=blur.sigma, spacing=None))
        return [saved, *passes, Step("local_mix", (float(p.amount),), other=saved, table=_table(along))]
