"""Sums, means and variances over axes, in double precision, on NumPy's and CuPy's arrays."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace

__all__ = ["inverse_of", "mean_of", "rows_of", "shape_of", "sum_of", "variance_of"]

_TINY: Final = float(np.finfo(np.float64).tiny)
_LONG: Final = 2048  # values of a row from which it pays to go through rows one by one, each within the cache


def rows_of(x: Array, axes: tuple[int, ...]) -> Array:
    """What is reduced over axes as the last axis, in memory of its own: NumPy is quick with that."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    rows = namespace(x).ascontiguousarray(x.transpose(*kept, *axes))
    return rows.reshape(*[x.shape[axis] for axis in kept], -1)


def shape_of(x: Array, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an array whose axes are reduced to 1."""
    return tuple(1 if axis in axes else n for axis, n in enumerate(x.shape))


def sum_of(x: Array, axes: tuple[int, ...]) -> Array:
    """The sum over axes, which become 1."""
    return rows_of(x, axes).sum(-1, dtype=np.float64).reshape(shape_of(x, axes))


def mean_of(x: Array, axes: tuple[int, ...]) -> Array:
    """The mean over axes, which become 1."""
    return sum_of(x, axes) / _count(x, axes)


def variance_of(x: Array, mean: Array, axes: tuple[int, ...], ddof: int = 0) -> Array:
    """The mean square of distances from a mean over axes, which become 1.

    Args:
        x: values.
        mean: of a shape that broadcasts to theirs.
        axes: which ones.
        ddof: by which their number is lowered; it stays 1 at least.
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
    """What is multiplied by in place of dividing by the deviation; 0 where there is none."""
    library = namespace(variance)
    deviation = library.sqrt(variance)
    return library.where(deviation > 0, 1 / library.maximum(deviation, _TINY), 0)


def _square(values: npt.NDArray[np.float64]) -> float:
    return float(np.square(values, out=values).sum())


def _count(x: Array, axes: tuple[int, ...]) -> int:
    return math.prod([x.shape[axis] for axis in axes])
