"""Sums, means and variances over axes, in double precision, on NumPy's and CuPy's arrays."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..array import Array, namespace

__all__ = ["inverse_of", "mean_of", "sum_of", "variance_of"]

_TINY: Final = float(np.finfo(np.float64).tiny)


def sum_of(x: Array, axes: tuple[int, ...]) -> Array:
    """The sum over axes, which become 1."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    shape = [1 if axis in axes else n for axis, n in enumerate(x.shape)]
    # what is added up in memory of its own, for sums are quick there
    rows = namespace(x).ascontiguousarray(x.transpose(*kept, *axes))
    return rows.reshape(*[x.shape[axis] for axis in kept], -1).sum(-1, dtype=np.float64).reshape(shape)


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
    distances = x - mean.astype(np.float64)
    distances *= distances
    return sum_of(distances, axes) / max(_count(x, axes) - ddof, 1)


def inverse_of(variance: Array) -> Array:
    """What is multiplied by in place of dividing by the deviation; 0 where there is none."""
    library = namespace(variance)
    deviation = library.sqrt(variance)
    return library.where(deviation > 0, 1 / library.maximum(deviation, _TINY), 0)


def _count(x: Array, axes: tuple[int, ...]) -> int:
    return int(np.prod([x.shape[axis] for axis in axes]))
