"""Gaussian filters, in fixed point for uint8 to uint8."""

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

_MOST_TAPS: Final = 17  # that banded.cuh sees; errors of the weights of 31 could add up to a level
_WEIGHT_STEPS: Final = 4096  # of 1; times 256 levels times the next, float32 holds it
_LEVEL_STEPS: Final = 16.0
_WHOLE: Final = np.float32(1.5 * 2**23)  # what is added to it is rounded to whole numbers, half to even
_BANDED: Final = 3  # the number of banded.cuh among the kernels of core/body.py


class Gaussian(Separable, register=False):
    """A filter whose column and row are one Gaussian window; ``sigma`` is among its parameters.

    Bytes are made of bytes in fixed point, if the window has up to 17 taps: weights are multiples of 1/4096 that add
    up to 1, and what the rows leave to the columns is rounded to 1/16 of a level, half to even. No other sum is
    rounded in float32 then, so that their order does not matter. Results lie 0.01 to 0.02 levels beside those of exact
    weights in noise and in films, and less than 0.75 in any image.
    """

    derived = (*Separable.traits.derived, "window", "steps")
    body = Body("gaussian")

    def taps(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """How many weights the windows of some rows of parameters have: those of up to three deviations."""
        return 2 * np.ceil(3 * rows["sigma"].astype(np.float64)) + 1

    def fixed(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.bool_] | bool:  # noqa: ARG002  for those that have more to say
        """Whether these parameters allow fixed point."""
        return True

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """The taps, and the steps of a level that rows are rounded to, or 0, besides what all filters have."""
        taps = self.taps(rows)
        bytes_alone = spec.dtype == self.result_dtype(spec.dtype) == "uint8"
        fixed = bytes_alone & self.fixed(rows) & (taps <= _MOST_TAPS)
        return {**super().derive(rows, spec), "window": taps, "steps": np.where(fixed, _LEVEL_STEPS, 0)}

    def weights(self, p: Any) -> tuple[tuple[Weights, Weights], ...]:
        """The Gaussian window."""
        one = _weights(float(p.sigma), int(p.window), fixed=p.steps > 0)
        return ((one, one),)

    def between(self, rows: Array, p: Any) -> Array:
        """Sums of rows, rounded if they are in fixed point."""
        return np.rint(rows * p.steps) / p.steps if p.steps else rows

    def cpu(self, x: Array, p: Any) -> Array:
        """By OpenCV, where the result is a whole number; in fixed point it is the same."""
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
        """Rows with their weights; those in fixed point have a kernel of their own."""
        made = super().kernel_rows(rows, spec)
        made["reach"][rows["steps"] > 0] = _BANDED
        return made


@lru_cache(maxsize=256)
def _weights(sigma: float, taps: int, *, fixed: bool) -> Weights:
    """The weights of a Gaussian window; their sum is 1. Not to be written to, for it is kept.

    Args:
        sigma: standard deviation; 0 follows from the taps.
        taps: an odd number.
        fixed: whether they are in fixed point.
    """
    if taps == 1:
        return np.ones(1, np.float32)
    sigma = sigma or 0.3 * ((taps - 1) / 2 - 1) + 0.8
    weights = np.exp(-0.5 * ((np.arange(taps) - taps // 2) / sigma) ** 2)
    weights /= weights.sum()
    return np.asarray(_in_steps(weights) if fixed else weights, np.float32)


def _in_steps(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Weights in fixed point: from either end on, what one lost by rounding is added to the next; their sum stays 1."""
    middle = len(weights) // 2
    ends = np.diff(np.rint(np.cumsum(weights[:middle]) * _WEIGHT_STEPS), prepend=0.0)
    return np.concatenate((ends, [_WEIGHT_STEPS - 2 * ends.sum()], ends[::-1])) / _WEIGHT_STEPS
