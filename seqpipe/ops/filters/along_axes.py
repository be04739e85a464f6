"""Filters along any axes of arrays: Gaussian windows, and second derivatives."""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from typing import Any

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ...errors import ParameterError
from .smooth import derivative_windows
from .windows import Filter

__all__ = ["convolved", "gaussian_window", "laplacian_of"]


def convolved(part: Array, axes: Seq[int], weights: Seq[npt.NDArray[np.floating[Any]]]) -> Array:
    """Convolve a sample along some axes with their weights, float32."""
    xp = namespace(part)
    result = part.astype(np.float32)
    for axis, column in zip(axes, weights, strict=True):
        if len(column) > 1 and result.size:
            op: Any = Filter(kernel=tuple((float(weight),) for weight in np.ravel(column)), dtype="float32")
            moved = xp.ascontiguousarray(xp.moveaxis(result, axis, 0))
            made = op(moved.reshape(len(moved), -1, 1), layout="HWC").reshape(moved.shape)
            result = xp.moveaxis(made, 0, axis)
    return xp.ascontiguousarray(result)


def gaussian_window(sigma: float, size: int) -> npt.NDArray[np.float64]:
    """Return the weights of a Gaussian window as a column; a size or sigma of 0 follows from the other, as in DALI.

    Raises:
        ParameterError: both are 0, or the size is even.
    """
    import cv2

    if sigma <= 0 and size <= 0:
        raise ParameterError("sigma and window_size are 0", source="fn.gaussian_blur", allowed="one of them")
    if size and not size % 2:
        raise ParameterError(
            f"window_size={size} is not valid", source="fn.gaussian_blur", allowed="odd numbers, or 0"
        )
    size = size or 2 * math.ceil(3 * sigma) + 1
    return np.asarray(cv2.getGaussianKernel(size, sigma or 0.3 * ((size - 1) / 2 - 1) + 0.8), np.float64)


def laplacian_of(part: Array, axes: list[int], row: list[list[float] | None], normalized: bool) -> Array:
    """Return the sum of second derivatives of one sample, float32.

    Args:
        part: the sample.
        axes: the axes along which they are taken.
        row: sizes of windows, sizes of smoothing windows, and scales, one of each axis; None for defaults.
        normalized: whether the sums of the windows' weights are 1.

    Raises:
        ParameterError: a size is not odd, or out of bounds.
    """
    windows, smoothings, scales = row[0] or [3] * len(axes), row[1], row[2] or [1.0] * len(axes)
    for what, least, sizes in (("Window", 3, windows), ("Smoothing window", 1, smoothings or [])):
        if wrong := [size for size in sizes if size < least or size > 31 or not size % 2]:
            raise ParameterError(
                f"{what} size must be an odd integer between {least} and 31, got {wrong[0]:g}",
                source="fn.laplacian",
            )
    total: Any = None
    for n in range(len(axes)):
        sizes = [int(smoothing) for smoothing in smoothings or [windows[n]] * len(axes)]
        sizes[n] = int(windows[n])
        columns = [derivative_windows(sizes[n], size)[0][k != n] for k, size in enumerate(sizes)]
        factor = scales[n] * (2.0 ** (len(axes) + 2 - sum(sizes)) if normalized else 1.0)
        term = convolved(part, axes, columns) * np.float32(factor)
        total = term if total is None else total + term
    return total
