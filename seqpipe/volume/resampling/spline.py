"""Cubic B-splines: a volume interpolated by order 3, smooth and through its voxels, as ``scipy.ndimage`` does it."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from itertools import product
from typing import Final

import numpy as np
import numpy.typing as npt

from ...array import FloatArray, IntArray
from ...bspline import PAD, coefficients, weights
from ..source import AnyArray

__all__ = ["MARGIN", "sampled"]

MARGIN: Final = 10
"""Voxels around a window that its values depend on, to 2e-6 of the range."""


def sampled(
    array: AnyArray,
    matrix: FloatArray,
    places_of: Callable[[int], FloatArray],
    shape: Seq[int],
    fill_value: float | None,
) -> FloatArray:
    """A volume at the places of another grid, in float64.

    Args:
        array: ``DHWC``.
        matrix: 4×4, from the indices of the result to those of the array.
        places_of: the same for all of a slice: the places (3, H, W) in the array.
        shape: D, H and W of the result.
        fill_value: what lies outside; None repeats the edge.
    """
    spline = coefficients(array, fill_value)
    sizes = array.shape[:3]
    linear = matrix[:3, :3]
    if (linear == np.diag(np.diag(linear))).all():
        return _along_axes(spline, matrix, shape, sizes, fill_value)
    made = np.empty((*shape, array.shape[3]))
    for depth in range(shape[0]):
        taps = [_taps(places, size, fill_value) for places, size in zip(places_of(depth), sizes, strict=True)]
        (d, wd, far_d), (h, wh, far_h), (w, ww, far_w) = taps
        total = np.zeros((shape[1], shape[2], array.shape[3]))
        for i, j, k in product(range(4), repeat=3):
            total += spline[d + i, h + j, w + k] * (wd[i] * wh[j] * ww[k])[..., None]
        total[far_d | far_h | far_w] = fill_value
        made[depth] = total
    return made


def _along_axes(
    spline: FloatArray, matrix: FloatArray, shape: Seq[int], sizes: Seq[int], fill_value: float | None
) -> FloatArray:
    """The same for grids with parallel axes, one axis after the other."""
    made, beyond = spline, []
    for axis in range(3):
        places = matrix[axis, axis] * np.arange(shape[axis]) + matrix[axis, 3]
        first, worth, far = _taps(places, sizes[axis], fill_value)
        form = [-1 if a == axis else 1 for a in range(4)]
        made = sum(
            (np.take(made, first + n, axis=axis) * worth[n].reshape(form) for n in range(1, 4)),
            np.take(made, first, axis=axis) * worth[0].reshape(form),
        )
        beyond.append(far)
    for axis, far in enumerate(beyond):
        np.moveaxis(made, axis, 0)[far] = fill_value
    return made


def _taps(
    places: FloatArray, size: int, fill_value: float | None
) -> tuple[IntArray, FloatArray, npt.NDArray[np.bool_]]:
    """The first of four coefficients for places along an axis, their weights, and which places are filled."""
    # beyond its border the spline goes on into what fills
    reach = 0 if fill_value is None else PAD - 3
    inside = np.clip(places, -reach, size - 1.0 + reach)
    cells = np.floor(inside)
    far = (places != inside) & (fill_value is not None)
    return cells.astype(np.int64) + PAD - 1, np.moveaxis(weights(inside - cells), -1, 0), far
