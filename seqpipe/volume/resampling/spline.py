"""Cubic B-spline interpolation of a volume, equal to order 3 in ``scipy.ndimage``."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from itertools import product
from typing import Final

import numpy as np
import numpy.typing as npt

from ...array import FloatArray, IntArray
from ...core.bspline import PAD, coefficients, weights
from ..source import AnyArray

__all__ = ["MARGIN", "sampled"]

MARGIN: Final = 10
"""Margin in voxels around a window on which its values depend, to 2e-6 of the range."""


def sampled(
    array: AnyArray,
    matrix: FloatArray,
    positions_of: Callable[[int], FloatArray],
    shape: Seq[int],
    fill_value: float | None,
) -> FloatArray:
    """Sample a volume on another grid, in float64.

    Args:
        array: ``DHWC``.
        matrix: 4×4, from the indices of the result to those of the array.
        positions_of: returns the positions (3, H, W) in the array of a slice of the result.
        shape: D, H and W of the result.
        fill_value: value outside the array; None repeats the edge.
    """
    spline = coefficients(array, fill_value)
    sizes = array.shape[:3]
    linear = matrix[:3, :3]
    if (linear == np.diag(np.diag(linear))).all():
        return _along_axes(spline, matrix, shape, sizes, fill_value)
    result = np.empty((*shape, array.shape[3]))
    for depth in range(shape[0]):
        taps = [
            _taps(positions, size, fill_value)
            for positions, size in zip(positions_of(depth), sizes, strict=True)
        ]
        (d, wd, far_d), (h, wh, far_h), (w, ww, far_w) = taps
        total = np.zeros((shape[1], shape[2], array.shape[3]))
        for i, j, k in product(range(4), repeat=3):
            total += spline[d + i, h + j, w + k] * (wd[i] * wh[j] * ww[k])[..., None]
        total[far_d | far_h | far_w] = fill_value
        result[depth] = total
    return result


def _along_axes(
    spline: FloatArray, matrix: FloatArray, shape: Seq[int], sizes: Seq[int], fill_value: float | None
) -> FloatArray:
    """Sample on a grid with parallel axes, one axis after the other."""
    result, beyond = spline, []
    for axis in range(3):
        positions = matrix[axis, axis] * np.arange(shape[axis]) + matrix[axis, 3]
        first, tap_weights, far = _taps(positions, sizes[axis], fill_value)
        form = [-1 if a == axis else 1 for a in range(4)]
        result = sum(
            (np.take(result, first + n, axis=axis) * tap_weights[n].reshape(form) for n in range(1, 4)),
            np.take(result, first, axis=axis) * tap_weights[0].reshape(form),
        )
        beyond.append(far)
    for axis, far in enumerate(beyond):
        np.moveaxis(result, axis, 0)[far] = fill_value
    return result


def _taps(
    positions: FloatArray, size: int, fill_value: float | None
) -> tuple[IntArray, FloatArray, npt.NDArray[np.bool_]]:
    """Return the first of four coefficients for positions along an axis, their weights, and which are filled."""
    # the spline continues from the border into the fill value
    reach = 0 if fill_value is None else PAD - 3
    inside = np.clip(positions, -reach, size - 1.0 + reach)
    cells = np.floor(inside)
    far = (positions != inside) & (fill_value is not None)
    return cells.astype(np.int64) + PAD - 1, np.moveaxis(weights(inside - cells), -1, 0), far
