"""Separable filters for smoothing, sharpening and derivatives."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import Array
from ...errors import ParameterError
from ..core.body import Body
from ..core.distributions import Choice, Distribution, Number, Table, Uniform, unframed
from ..core.nodes import DataNode
from ..core.parameters import param
from ..core.spec import Spec
from .base import WHOLE, Separable, Weights
from .gaussian import Gaussian

__all__ = ["BoxBlur", "GaussianBlur", "Laplacian", "Sharpen"]

_FIXED_AMOUNT: Final = 1.5  # up to this factor, errors of a fixed-point blur stay below 1


class GaussianBlur(Gaussian):
    """Smooth images with a Gaussian window.

    The weight at a distance ``d`` from the center is ``exp(-d² / (2 sigma²))``, for rows and for columns, divided by
    the sum of all. A parameter that is 0 is derived from the other, as in DALI:
    ``window_size = 2 ceil(3 sigma) + 1``, ``sigma = 0.3 ((window_size - 1) / 2 - 1) + 0.8``.

    From uint8 to uint8 and with up to 17 taps, arithmetic is fixed-point: weights are multiples of 1/4096, and row sums
    are rounded to 1/16. Results may differ by 1 from those of exact weights.
    """

    sigma: Number = param(
        0.0, "standard deviation; 0 follows from window_size", unit="pixels", lo=0, hi=21, identity=0.0
    )
    window_size: Number = param(
        0,
        "height and width of the window, odd; 0 to derive it from sigma",
        unit="pixels",
        lo=0,
        hi=127,
        identity=0,
    )

    examples = (
        {"sigma": 1.5},
        {"sigma": (0.1, 2.0), "seed": 4},
        {"window_size": 5, "pad_mode": "edge", "dtype": "float32"},
        {"sigma": 0.7, "window_size": 9, "pad_mode": "constant", "fill_value": 9.0},
    )
    errors = (
        ({"sigma": -1}, "sigma=-1 is not valid; allowed: a number from 0 to 21 pixels"),
        ({"pad_mode": "mirror"}, "pad_mode='mirror' is not valid; allowed: 'constant', 'edge', 'reflect'"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(_sizes_of(unframed(self.window_size)))  # at once, not only when a size is sampled

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """See :meth:`Gaussian.derive`.

        Raises:
            ParameterError: a window has an even size.
        """
        self._check(rows["window_size"])
        return super().derive(rows, spec)

    def _check(self, sizes: npt.NDArray[Any]) -> None:
        if (even := sizes[(sizes > 0) & (sizes % 2 == 0)]).size:
            raise ParameterError(
                f"window_size={even.flat[0]:g} is not valid",
                source=self.name,
                allowed="odd numbers, or 0",
                advice="Sample it by Choice([3, 5, 7])",
            )

    def taps(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return the window size if it is set."""
        sizes = rows["window_size"]
        return np.where(sizes > 0, sizes, super().taps(rows))


def _sizes_of(value: Any) -> npt.NDArray[Any]:
    """Return the possible window sizes, as far as they are known before sampling."""
    if isinstance(value, Uniform):
        return np.arange(value.lo, value.hi + 1)
    if isinstance(value, (Distribution, DataNode)) and not isinstance(value, Choice):
        return np.empty(0)
    return np.asarray(value.values if isinstance(value, (Choice, Table)) else value).ravel()


class BoxBlur(Separable):
    """Smooth images by the mean of a square window.

    The sum is divided once, so results are correctly rounded if float32 holds the sum (``values * window_size²`` below
    2²⁴). The center of a window of even size is the pixel right of and below its middle.
    """

    window_size: Number = param(3, "height and width of the window", unit="pixels", lo=1, hi=127, identity=1)

    derived = (*Separable.traits.derived, "area", "share")
    examples = (
        {},
        {"window_size": (1, 6), "seed": 1},
        {"window_size": 4, "pad_mode": "wrap"},
    )
    errors = (
        ({"window_size": 0}, "window_size=0 is not valid; allowed: a whole number from 1 to 127 pixels"),
    )

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """Derive the area of the window, and the share of each pixel, in addition to those of all filters."""
        area = rows["window_size"] ** 2
        return {**super().derive(rows, spec), "area": area, "share": 1 / area.astype(np.float32)}

    def weights(self, p: Any) -> tuple[tuple[Weights, Weights], ...]:
        """Return ones."""
        one = np.ones(p.window_size, np.float32)
        return ((one, one),)

    def finish(self, value: Array, center: Array, p: Any) -> Array:  # noqa: ARG002  the sum includes the center
        """Return the mean."""
        return value / p.area

    body = Body("mean", "value = mean_of(value, row.area, row.share);")


class Laplacian(Separable):
    """Compute the sum of second derivatives by Sobel windows, as in DALI and OpenCV.

    For each axis, values are differentiated twice along it with a window of ``window_size`` (``[1, -2, 1]``, convolved
    with binomial weights) and smoothed along the other with binomial weights of ``smoothing_size``. The result has
    both signs: ``dtype="float32"`` or ``"int16"`` keeps values that an unsigned dtype clips.
    """

    window_size: int = param(
        3, "size of the window of derivatives, odd", unit="pixels", lo=3, hi=23, drawn=False
    )
    smoothing_size: int | None = param(
        None,
        "size of the smoothing window, odd; None for window_size",
        kind=int,
        unit="pixels",
        lo=1,
        hi=23,
        drawn=False,
    )
    scale: Number = param(1.0, "factor of the result")
    normalized_kernel: bool = param(
        False, "also multiply by 2 to the power of (4 - window_size - smoothing_size)", drawn=False
    )

    terms = 2
    most_taps = 23
    derived = (*Separable.traits.derived, "factor")
    examples = (
        {"smoothing_size": 1},
        {"scale": (0.25, 2.0), "dtype": "float32", "seed": 9},
        {"window_size": 5, "normalized_kernel": True, "pad_mode": "symmetric"},
    )
    errors = (
        ({"window_size": 4}, "window_size=4 is not valid; allowed: odd numbers"),
        ({"window_size": 1}, "window_size=1 is not valid; allowed: a whole number from 3 to 23 pixels"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("window_size", "smoothing_size"):
            size = getattr(self, name)
            if size is not None and size % 2 == 0:
                raise ParameterError(f"{name}={size} is not valid", source=self.name, allowed="odd numbers")

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """Derive the factor of the sum, in addition to those of all filters."""
        power = 4 - self.window_size - (self.smoothing_size or self.window_size)
        factor = rows["scale"] * np.float32(2.0**power if self.normalized_kernel else 1)
        return {**super().derive(rows, spec), "factor": factor}

    def weights(self, p: Any) -> tuple[tuple[Weights, Weights], ...]:  # noqa: ARG002  the same for all samples
        """Return the windows of both terms."""
        return _second_derivatives(self.window_size, self.smoothing_size or self.window_size)

    def gain(self, p: Any) -> float:
        """Return the gain of the sums, which are integers before scaling."""
        gain = sum(float(np.abs(one).sum() * np.abs(other).sum()) for one, other in self.weights(p))
        return 0.0 if gain * 2.0**p.bits <= WHOLE else gain * abs(float(p.factor))

    def finish(self, value: Array, center: Array, p: Any) -> Array:  # noqa: ARG002  the sum includes the center
        """Return the scaled sum."""
        return value * p.factor

    body = Body("separable", "value = value * row.factor;")


class Sharpen(Gaussian):
    """Sharpen images by an unsharp mask.

    ``out = in + amount * (in - blurred)``, where ``blurred`` is the unrounded result of :class:`GaussianBlur` with
    ``sigma``; arithmetic is fixed-point for amounts up to 1.5 only.
    """

    amount: Number = param(
        1.0, "factor of the difference from the blurred image, which is added", lo=0, identity=0.0
    )
    sigma: Number = param(1.0, "standard deviation of the Gaussian window", unit="pixels", lo=0, hi=21)

    examples = (
        {},
        {"amount": (0.5, 2.0), "sigma": (0.5, 1.5), "seed": 6},
        {"amount": 3.0, "sigma": 0.4, "pad_mode": "wrap"},
    )
    errors = (({"amount": -0.5}, "amount=-0.5 is not valid; allowed: a number of at least 0"),)

    def fixed(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return whether errors of fixed-point arithmetic stay below 1."""
        return np.asarray(rows["amount"] <= _FIXED_AMOUNT)

    def gain(self, p: Any) -> float:
        """Return the gain of the difference, which is added ``amount`` times."""
        return 1 + float(p.amount)

    def finish(self, value: Array, center: Array, p: Any) -> Array:
        """Compute the formula."""
        return center + (center - value) * p.amount

    body = Body("gaussian", "value = center + (center - value) * row.amount;")


@lru_cache(maxsize=64)
def _second_derivatives(window: int, smoothing: int) -> tuple[tuple[Weights, Weights], ...]:
    """Return the windows: differentiated twice down and smoothed across, and vice versa."""
    twice = np.convolve([1, -2, 1], _binomial(window - 2)).astype(np.float32)
    smooth = _binomial(smoothing).astype(np.float32)
    return ((twice, smooth), (smooth, twice))


def _binomial(size: int) -> npt.NDArray[np.float64]:
    """Return binomial weights, ``[1, 2, 1]`` for 3."""
    return np.array([math.comb(size - 1, k) for k in range(size)], np.float64)
