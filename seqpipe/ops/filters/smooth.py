"""Separable filters for smoothing, sharpening and derivatives."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import Array
from ..core.distributions import Choice, Distribution, Number, Table, Uniform, unframed
from ..core.nodes import DataNode
from ..core.parameters import param
from ..core.spec import Spec
from ..core.traits import Body
from .base import WHOLE, Separable, Weights, by_frame

__all__ = ["BoxBlur", "GaussianBlur", "Laplacian", "Sharpen", "derivative_windows"]

_FIXED_AMOUNT: Final = 1.5  # up to this factor, errors of a fixed-point blur stay below 1
_FIXED_TAPS: Final = 17  # limit of banded.cuh; rounding errors of 31 weights could add up to 1
# fixed-point steps of a weight of 1; float32 holds its product with 256 and the next
_WEIGHT_STEPS: Final = 4096
_LEVEL_STEPS: Final = 16.0
_ROUNDING: Final = np.float32(1.5 * 2**23)  # adding it rounds to integers, half to even
_BANDED_KERNEL: Final = 3  # index of banded.cuh among the kernels in core/traits.py


class _Gaussian(Separable, register=False):
    """Base of filters with one Gaussian window for columns and rows; ``sigma`` is a parameter.

    From uint8 to uint8 and with up to 17 taps, arithmetic is fixed-point: weights are multiples of 1/4096 that sum to
    1, and sums of rows are rounded to 1/16, half to even. No other sum is rounded in float32 then, so their order does
    not matter. Compared with exact weights, results differ by 0.01 to 0.02 on average in noise and films, and by less
    than 0.75 in any image.
    """

    derived = (*Separable.traits.derived, "window", "steps")
    body = Body("gaussian")

    def taps(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return the number of weights for each row of parameters: the window covers three standard deviations."""
        return 2 * np.ceil(3 * rows["sigma"].astype(np.float64)) + 1

    def fixed(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.bool_] | bool:  # noqa: ARG002  for overrides
        """Return whether the parameters allow fixed-point arithmetic."""
        return True

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """Derive the taps, and the fixed-point steps of row sums or 0, in addition to those of all filters."""
        taps = self.taps(rows)
        bytes_alone = spec.dtype == self.result_dtype(spec.dtype) == "uint8"
        fixed = bytes_alone & self.fixed(rows) & (taps <= _FIXED_TAPS)
        return {**super().derive(rows, spec), "window": taps, "steps": np.where(fixed, _LEVEL_STEPS, 0)}

    def weights(self, p: Any) -> tuple[tuple[Weights, Weights], ...]:
        """Return the Gaussian window."""
        line = _weights(float(p.sigma), int(p.window), fixed=p.steps > 0)
        return ((line, line),)

    def between(self, rows: Array, p: Any) -> Array:
        """Round sums of rows in fixed-point arithmetic."""
        return np.rint(rows * p.steps) / p.steps if p.steps else rows

    def cpu(self, x: Array, p: Any) -> Array:
        """Compute integers by OpenCV; in fixed-point arithmetic the result is the same."""
        border = self.opencv_border(x, p)
        if border is None or not p.steps:
            return super().cpu(x, p)
        import cv2

        ((column, row),) = self.weights(p)
        one, lifted = np.ones(1, np.float32), _ROUNDING / p.steps

        def smoothed(frame: Array) -> Array:
            rows = cv2.sepFilter2D(frame, cv2.CV_32F, row, one, delta=float(lifted), borderType=border)
            rows -= lifted
            return cv2.sepFilter2D(rows, cv2.CV_32F, one, column, borderType=border)

        return self.finish(by_frame(np.ascontiguousarray(x), smoothed), x, p)

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """Return the kernel rows; fixed-point filters have their own kernel."""
        result = super().kernel_rows(rows, spec)
        result["reach"][rows["steps"] > 0] = _BANDED_KERNEL
        return result


@lru_cache(maxsize=256)
def _weights(sigma: float, taps: int, *, fixed: bool) -> Weights:
    """Return the weights of a Gaussian window, which sum to 1; cached, so do not modify them."""
    if taps == 1:
        return np.ones(1, np.float32)
    sigma = sigma or 0.3 * ((taps - 1) / 2 - 1) + 0.8
    weights = np.exp(-0.5 * ((np.arange(taps) - taps // 2) / sigma) ** 2)
    weights /= weights.sum()
    return np.asarray(_in_steps(weights) if fixed else weights, np.float32)


def _in_steps(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Round weights to fixed-point steps; each rounding error is added to the next weight, so that the sum stays 1."""
    middle = len(weights) // 2
    ends = np.diff(np.rint(np.cumsum(weights[:middle]) * _WEIGHT_STEPS), prepend=0.0)
    return np.concatenate((ends, [_WEIGHT_STEPS - 2 * ends.sum()], ends[::-1])) / _WEIGHT_STEPS


class GaussianBlur(_Gaussian):
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

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(_sizes_of(unframed(self.window_size)))  # at once, not only when a size is sampled

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """See :meth:`_Gaussian.derive`.

        Raises:
            ParameterError: a window has an even size.
        """
        self._check(rows["window_size"])
        return super().derive(rows, spec)

    def _check(self, sizes: npt.NDArray[Any]) -> None:
        if (even := sizes[(sizes > 0) & (sizes % 2 == 0)]).size:
            raise self.refusal(
                f"window_size={even.flat[0]:g} is not valid",
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

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """Derive the area of the window, and the share of each pixel, in addition to those of all filters."""
        area = rows["window_size"] ** 2
        return {**super().derive(rows, spec), "area": area, "share": 1 / area.astype(np.float32)}

    def weights(self, p: Any) -> tuple[tuple[Weights, Weights], ...]:
        """Return ones."""
        ones = np.ones(p.window_size, np.float32)
        return ((ones, ones),)

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
    errors = (({"window_size": 4}, "window_size=4 is not valid; allowed: odd numbers"),)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("window_size", "smoothing_size"):
            size = getattr(self, name)
            if size is not None and size % 2 == 0:
                raise self.refusal(f"{name}={size} is not valid", allowed="odd numbers")

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """Derive the factor of the sum, in addition to those of all filters."""
        power = 4 - self.window_size - (self.smoothing_size or self.window_size)
        factor = rows["scale"] * np.float32(2.0**power if self.normalized_kernel else 1)
        return {**super().derive(rows, spec), "factor": factor}

    def weights(self, p: Any) -> tuple[tuple[Weights, Weights], ...]:  # noqa: ARG002  the same for all samples
        """Return the windows of both terms."""
        return derivative_windows(self.window_size, self.smoothing_size or self.window_size)

    def gain(self, p: Any) -> float:
        """Return the gain of the sums, which are integers before scaling."""
        gain = sum(float(np.abs(vertical).sum() * np.abs(other).sum()) for vertical, other in self.weights(p))
        return 0.0 if gain * 2.0**p.bits <= WHOLE else gain * abs(float(p.factor))

    def finish(self, value: Array, center: Array, p: Any) -> Array:  # noqa: ARG002  the sum includes the center
        """Return the scaled sum."""
        return value * p.factor

    body = Body("separable", "value = value * row.factor;")


class Sharpen(_Gaussian):
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
def derivative_windows(window: int, smoothing: int) -> tuple[tuple[Weights, Weights], ...]:
    """Return the windows: differentiated twice down and smoothed across, and vice versa."""
    twice = np.convolve([1, -2, 1], _binomial(window - 2)).astype(np.float32)
    smooth = _binomial(smoothing).astype(np.float32)
    return ((twice, smooth), (smooth, twice))


def _binomial(size: int) -> npt.NDArray[np.float64]:
    """Return binomial weights, ``[1, 2, 1]`` for 3."""
    return np.array([math.comb(size - 1, k) for k in range(size)], np.float64)
