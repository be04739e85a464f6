"""Triangle filter for scaling planes: pixel centers at half integers, widened for downscaling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["triangle"]


def triangle(centers: npt.NDArray[Any], step: float) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the samples around each pixel of an axis and their weights, which are not normalized.

    Args:
        centers: ``(pixels, 1)``, positions of the pixels in samples; sample ``k`` is at ``k``.
        step: distance between pixels in samples.

    Returns:
        Sample numbers, which may be out of range, and weights, both float64 of shape ``(pixels, taps)``.
    """
    reach = max(1.0, step)
    samples = np.ceil(centers - reach) + np.arange(math.ceil(2 * reach) + 1)
    return samples, np.maximum(0.0, 1 - np.abs(samples - centers) / reach)
