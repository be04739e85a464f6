"""Gaussian filters, in fixed-point arithmetic from uint8 to uint8."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import Array
from ..core.body import Body
from ..core.spec import Spec
from .base import Separable, Weights, by_frame

__all__ = ["Gaussian"]

_MOST_TAPS: Final = 17  # limit of banded.cuh; rounding errors of 31 weights could add up to 1
_WEIGHT_STEPS: Final = (
    4096  # fixed-point steps of a weight of 1; float32 holds its product with 256 and the next
)
_LEVEL_STEPS: Final = 16.0
_WHOLE: Final = np.float32(1.5 * 2**23)  # adding it rounds to integers, half to even
_BANDED: Final = 3  # index of banded.cuh among the kernels in core/body.py


class Gaussian(Separable, register=False):
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
        fixed = bytes_alone & self.fixed(rows) & (taps <= _MOST_TAPS)
        return {**super().derive(rows, spec), "window": taps, "steps": np.where(fixed, _LEVEL_STEPS, 0)}

    def weights(self, p: Any) -> tuple[tuple[Weights, Weights], ...]:
        """Return the Gaussian window."""
        one = _weights(float(p.sigma), int(p.window), fixed=p.steps > 0)
        return ((one, one),)

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
        one, lifted = np.ones(1, np.float32), _WHOLE / p.steps

        def smoothed(frame: Array) -> Array:
            rows = cv2.sepFilter2D(frame, cv2.CV_32F, row, one, delta=float(lifted), borderType=border)
            rows -= lifted
            return cv2.sepFilter2D(rows, cv2.CV_32F, one, column, borderType=border)

        return self.finish(by_frame(np.ascontiguousarray(x), smoothed), x, p)

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """Return the kernel rows; fixed-point filters have their own kernel."""
        made = super().kernel_rows(rows, spec)
        made["reach"][rows["steps"] > 0] = _BANDED
        return made


@lru_cache(maxsize=256)
def _weights(sigma: float, taps: int, *, fixed: bool) -> Weights:
    """Return the weights of a Gaussian window, which sum to 1; cached, so do not modify them.

    Args:
        sigma: standard deviation; 0 derives it from the taps.
        taps: an odd number.
        fixed: whether to round to fixed-point steps.
    """
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
