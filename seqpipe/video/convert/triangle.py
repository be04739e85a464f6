"""Triangle filter for scaling planes: pixel centers at half integers, widened for downscaling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["triangle"]


def triangle(centers: npt.NDArray[Any], step: float) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The samples around each pixel of an axis, and their weights, whose sum may be any.

    Args:
        centers: ``(pixels, 1)``, where pixels lie; sample ``k`` is at ``k``.
        step: from one pixel to the next, in samples.

    Returns:
        Whole numbers, some of which may be those of no sample, and weights, both ``(pixels, taps)`` of float64.
    """
    reach = max(1.0, step)
    places = np.ceil(centers - reach) + np.arange(math.ceil(2 * reach) + 1)
    return places, np.maximum(0.0, 1 - np.abs(places - centers) / reach)
