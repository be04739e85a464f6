"""Sums, means, mean squares and variances over axes in double precision, for NumPy and CuPy arrays."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ...core.kernel import KernelDevice
from ..call.backends import cuda_device_of
from ..core.blocks import Block
from ..cuda.kernel import SKELETONS, TYPES, Item, OpSource, launch, row_text

__all__ = ["inverse_of", "mean_of", "mean_square_by_kernel", "rows_of", "shape_of", "sum_of", "variance_of"]

_TINY: Final = float(np.finfo(np.float64).tiny)
_LONG: Final = 2048  # from so many values, rows are processed one by one within the cache
_ROW: Final = np.dtype([("from_mean", np.int32), ("ddof", np.int32)])
_SOURCE: Final = OpSource(SKELETONS, "moments.cuh", row_text(_ROW))
_PART: Final = 1 << 13  # values that justify a block
_MOST_OF_PART: Final = 1 << 16  # most values of a block whose sum is exact
_BLOCKS: Final = 1024  # blocks that occupy any GPU
_LEAST, _MOST = 1 << 10, 1 << 30  # values of a row


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


def mean_square_by_kernel(
    x: Array, axes: tuple[int, ...], *, from_mean: bool, ddof: int = 0, device: KernelDevice | None = None
) -> Array | None:
    """Return the mean square of values over axes, which become 1, or of their distances from their mean.

    Args:
        x: values.
        axes: axes to reduce.
        from_mean: whether to use distances from the mean.
        ddof: delta degrees of freedom; the divisor is at least 1.
        device: device that runs the kernel; None for the GPU that holds the values.

    Returns:
        The mean squares in double precision; None if the array's library should compute them: in main memory, for
        dtypes that kernels do not support, and for few or very many values.
    """
    library = namespace(x)
    if device is None and library is np:
        return None
    kind = "uint8" if x.dtype == np.bool_ else x.dtype.name
    length = math.prod([x.shape[axis] for axis in axes])
    if kind not in TYPES or not _LEAST <= length <= _MOST or ddof > _MOST:
        return None
    rows = rows_of(x, axes).view(kind).reshape(-1, 1, 1, length, 1)
    blocks = max(-(-length // _MOST_OF_PART), min(-(-length // _PART), _BLOCKS // len(rows)))
    sums = library.empty((len(rows), 1, 1, blocks, 2), np.float64)
    block = Block(np.array([(from_mean, ddof)], _ROW), (0,) * len(rows), 0)
    defines = {"IN": TYPES[kind], "OUT": TYPES[kind], "CHANNELS": 1}
    launch(_SOURCE, defines, [Item(rows, sums, 0)], block, device or cuda_device_of(x))
    result: Array = sums[:, 0, 0, 0, 0].reshape(shape_of(x, axes))
    return result
