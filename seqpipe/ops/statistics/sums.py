"""Sums, means and variances over axes in double precision, for NumPy and CuPy arrays."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace

__all__ = ["inverse_of", "mean_of", "rows_of", "shape_of", "sum_of", "variance_of"]

_TINY: Final = float(np.finfo(np.float64).tiny)
_LONG: Final = 2048  # from so many values, rows are processed one by one within the cache


def rows_of(x: Array, axes: tuple[int, ...]) -> Array:
    """Return an array with the reduced axes as a contiguous last axis, which NumPy reduces fast."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    rows = namespace(x).ascontiguousarray(x.transpose(*kept, *axes))
    return rows.reshape(*[x.shape[axis] for axis in kept], -1)


def shape_of(x: Array, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of an array whose axes are reduced to 1."""
    return tuple(1 if axis in axes else n for axis, n in enumerate(x.shape))


def sum_of(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the sum over axes, which become 1."""
    return rows_of(x, axes).sum(-1, dtype=np.float64).reshape(shape_of(x, axes))


def mean_of(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the mean over axes, which become 1."""
    return sum_of(x, axes) / _count(x, axes)


def variance_of(x: Array, mean: Array, axes: tuple[int, ...], ddof: int = 0) -> Array:
    """Return the mean square of distances from a mean over axes, which become 1.

    Args:
        x: values.
        mean: of a shape that broadcasts to that of the values.
        axes: axes to reduce.
        ddof: delta degrees of freedom; the divisor is at least 1.
    """
    freedom, shape = max(_count(x, axes) - ddof, 1), shape_of(x, axes)
    if isinstance(x, np.ndarray) and _count(x, axes) >= _LONG and mean.shape in (shape, ()):
        rows = rows_of(x, axes)
        rows = rows.reshape(-1, rows.shape[-1])
        means = np.broadcast_to(mean, shape).ravel()
        squares = [_square(row - np.float64(about)) for row, about in zip(rows, means, strict=True)]
        return (np.array(squares) / freedom).reshape(shape)
    distances = x - mean.astype(np.float64)
    distances *= distances
    return sum_of(distances, axes) / freedom


def inverse_of(variance: Array) -> Array:
    """Return the reciprocal of the standard deviation; 0 where that is 0."""
    library = namespace(variance)
    deviation = library.sqrt(variance)
    return library.where(deviation > 0, 1 / library.maximum(deviation, _TINY), 0)


def _square(values: npt.NDArray[np.float64]) -> float:
    return float(np.square(values, out=values).sum())


def _count(x: Array, axes: tuple[int, ...]) -> int:
    return math.prod([x.shape[axis] for axis in axes])
