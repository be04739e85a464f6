"""Reductions of values along axes, such as ``fn.reductions.mean``, named as in DALI."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence as Seq
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ...core.kernel import KernelDevice
from ...sequence import Batch
from ..arrays.base import ArrayOperand, OnAxes
from ..call.backends import cuda_device_of, on_device_of
from ..call.inputs import as_array, like_container, like_library
from ..core.blocks import Block
from ..core.deferred import or_node
from ..core.parameters import param
from ..core.types import Type
from ..cuda.kernel import SKELETONS, TYPES, Item, OpSource, launch, row_text

__all__ = [
    "Max",
    "Mean",
    "MeanSquare",
    "Min",
    "Rms",
    "StdDev",
    "Sum",
    "Variance",
    "inverse_of",
    "mean_of",
    "mean_square_by_kernel",
    "rows_of",
    "shape_of",
    "sum_of",
    "variance_of",
]

_TINY: Final = float(np.finfo(np.float64).tiny)
_LONG_ROW_VALUES: Final = 2048  # from so many values, rows are processed one by one within the cache
_ROW: Final = np.dtype([("from_mean", np.int32), ("ddof", np.int32)])
_SOURCE: Final = OpSource(SKELETONS, "moments.cuh", row_text(_ROW))
_BLOCK_VALUES: Final = 1 << 13  # values that justify a block
_MAX_EXACT_BLOCK: Final = 1 << 16  # most values of a block whose sum is exact
_FULL_GPU_BLOCKS: Final = 1024  # blocks that occupy any GPU
_MIN_ROW_VALUES, _MAX_ROW_VALUES = 1 << 10, 1 << 30  # values of a row


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
    """Return the mean square of distances from a mean over axes, which become 1."""
    freedom, shape = max(_count(x, axes) - ddof, 1), shape_of(x, axes)
    if isinstance(x, np.ndarray) and _count(x, axes) >= _LONG_ROW_VALUES and mean.shape in (shape, ()):
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

    Returns:
        The mean squares in double precision; None if the array's library should compute them: in main memory, for
        dtypes that kernels do not support, and for few or very many values.
    """
    library = namespace(x)
    if device is None and library is np:
        return None
    kind = "uint8" if x.dtype == np.bool_ else x.dtype.name
    length = math.prod([x.shape[axis] for axis in axes])
    if kind not in TYPES or not _MIN_ROW_VALUES <= length <= _MAX_ROW_VALUES or ddof > _MAX_ROW_VALUES:
        return None
    rows = rows_of(x, axes).view(kind).reshape(-1, 1, 1, length, 1)
    blocks = max(
        -(-length // _MAX_EXACT_BLOCK), min(-(-length // _BLOCK_VALUES), _FULL_GPU_BLOCKS // len(rows))
    )
    sums = library.empty((len(rows), 1, 1, blocks, 2), np.float64)
    block = Block(np.array([(from_mean, ddof)], _ROW), (0,) * len(rows), 0)
    defines = {"IN": TYPES[kind], "OUT": TYPES[kind], "CHANNELS": 1}
    launch(_SOURCE, defines, [Item(rows, sums, 0)], block, device or cuda_device_of(x))
    result: Array = sums[:, 0, 0, 0, 0].reshape(shape_of(x, axes))
    return result


_SUMS = {"b": "uint64", "u": "uint64", "i": "int64"}  # as in DALI; sums of floats are floats


class _Reduction(OnAxes, register=False):
    """Base of operators that reduce axes to one value."""

    keep_dims: bool = param(False, "whether to keep reduced axes with length 1", drawn=False)

    @abstractmethod
    def reference(self, x: Array, p: Any) -> Array:
        """Reduce ``p.axes`` to length 1."""

    def result_types(self, inputs: Seq[Type]) -> tuple[Type, ...]:
        """See :meth:`Deferrable.result_types`."""
        return tuple(replace(result_type, kind="numbers") for result_type in super().result_types(inputs))

    @or_node
    def __call__(self, x: Any, *, layout: str | None = None) -> Any:
        """Reduce axes of an array.

        Returns:
            An array of the same library on the same device, also for a Sequence; for a list, and for a Batch of samples
            of different shapes, a list.
        """
        return self._of(x, layout)

    def _of(self, x: Any, layout: str | None, **more: Any) -> Any:
        if isinstance(x, Batch) and x.stacked is None:
            return [self._of(sequence, layout, **more) for sequence in x.sequences]
        if isinstance(x, (list, tuple)):
            return like_container(x, [self._of(sample, layout, **more) for sample in x])
        operand = self.as_operand(x, layout)
        axes = self.axes_of(operand, self.axes, self.axis_names)
        if not operand.array.size:
            raise self.refusal(f"an array of shape {tuple(operand.array.shape)} holds no values")
        with on_device_of(operand.array):
            reduced = self.reference(
                operand.array, SimpleNamespace(axes=axes, **self._more(operand, axes, **more))
            )
        left = reduced if self.keep_dims else reduced.reshape(_left(operand, axes))
        return left if isinstance(operand.value, Batch) else like_library(x, left)

    def _more(self, operand: ArrayOperand, axes: tuple[int, ...], **more: Any) -> dict[str, Any]:  # noqa: ARG002  of those that take more
        return more


class _Float(_Reduction, register=False):
    """Base of reductions whose result is a float."""

    dtype: str | None = param(
        None, "type of the result; None for float32, and float64 of float64", choices=("float32", "float64")
    )

    def rounded(self, values: Array, x: Array) -> Array:
        """Convert values of double precision to the dtype of the result."""
        return values.astype(self.dtype or ("float64" if x.dtype == np.float64 else "float32"))


class Mean(_Float, function_name="reductions.mean"):
    """Compute the mean of values along axes."""

    examples = ({}, {"axis_names": "HW", "keep_dims": True})

    def reference(self, x: Array, p: Any) -> Array:
        """Divide the sum by the number of values."""
        return self.rounded(mean_of(x, p.axes), x)


class MeanSquare(_Float, function_name="reductions.mean_square"):
    """Compute the mean of the squares of values along axes."""

    examples = ({}, {"axes": (0, -1)})

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the mean of the squares."""
        return self.rounded(_mean_square(x, p.axes), x)


class Rms(_Float, function_name="reductions.rms"):
    """Compute the root of the mean of the squares of values along axes."""

    examples = ({}, {"axis_names": "HWC"})

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the root of the mean of the squares."""
        return self.rounded(namespace(x).sqrt(_mean_square(x, p.axes)), x)


class Sum(_Reduction, function_name="reductions.sum"):
    """Add values along axes: uint64 for unsigned integers, int64 for signed ones, else float32."""

    dtype: str | None = param(
        None,
        "type of the result; None for that which fits, float64 of float64",
        choices=("uint64", "int64", "float32", "float64"),
    )

    examples = ({}, {"axes": 0, "dtype": "float64"})

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the sum."""
        fits = _SUMS.get(x.dtype.kind, "float64" if x.dtype == np.float64 else "float32")
        dtype = np.dtype(self.dtype or fits)
        if dtype.kind == "f" or x.dtype.kind == "f":
            return sum_of(x, p.axes).astype(dtype)
        return rows_of(x, p.axes).sum(-1, dtype=dtype).reshape(shape_of(x, p.axes))


class Min(_Reduction, function_name="reductions.min"):
    """Compute the least value along axes."""

    examples = ({}, {"axis_names": "F"})

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the minimum."""
        return rows_of(x, p.axes).min(-1).reshape(shape_of(x, p.axes))


class Max(_Reduction, function_name="reductions.max"):
    """Compute the greatest value along axes."""

    examples = ({}, {"axis_names": "HW"})

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the maximum."""
        return rows_of(x, p.axes).max(-1).reshape(shape_of(x, p.axes))


class _Spread(_Float, register=False):
    """Base of reductions of distances from a mean."""

    ddof: int = param(0, "delta degrees of freedom; the divisor is at least 1", lo=0, drawn=False)

    @or_node
    def __call__(self, x: Any, mean: Any = None, *, layout: str | None = None) -> Any:
        """Reduce axes of an array."""
        return self._of(x, layout, mean=mean)

    def variance(self, x: Array, p: Any) -> Array:
        """Compute the mean square of distances."""
        if p.mean is not None:
            return variance_of(x, p.mean, p.axes, self.ddof)
        result = mean_square_by_kernel(x, p.axes, from_mean=True, ddof=self.ddof)
        return variance_of(x, mean_of(x, p.axes), p.axes, self.ddof) if result is None else result

    def _more(self, operand: ArrayOperand, axes: tuple[int, ...], **more: Any) -> dict[str, Any]:
        mean = more["mean"]
        if mean is None:
            return {"mean": None}
        array = np.asarray(mean) if isinstance(mean, (int, float, np.generic)) else as_array(self, mean)
        kept = tuple(1 if axis in axes else n for axis, n in enumerate(operand.array.shape))
        if array.size != 1 and tuple(array.shape) not in (kept, _left(operand, axes)):
            raise self.refusal(
                f"a mean of shape {tuple(array.shape)}",
                allowed=f"a number, or the shape {_left(operand, axes)} or {kept}",
            )
        return {"mean": namespace(operand.array).asarray(array).reshape(kept if array.size != 1 else ())}


class Variance(_Spread, function_name="reductions.variance"):
    """Compute the variance of values along axes, about a given or computed mean.

    DALI requires the mean; with fewer values than ``ddof`` it divides by 0 or a negative number.
    """

    examples = ({}, {"axis_names": "HW", "ddof": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the mean square of distances."""
        return self.rounded(self.variance(x, p), x)


class StdDev(_Spread, function_name="reductions.std_dev"):
    """Compute the standard deviation of values along axes, about a given or computed mean.

    DALI requires the mean; with fewer values than ``ddof`` it divides by 0 or a negative number.
    """

    examples = ({}, {"axis_names": "HW", "ddof": 1})

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the root of the variance."""
        return self.rounded(namespace(x).sqrt(self.variance(x, p)), x)


def _mean_square(x: Array, axes: tuple[int, ...]) -> Array:
    result = mean_square_by_kernel(x, axes, from_mean=False)
    return variance_of(x, namespace(x).zeros(()), axes) if result is None else result


def _left(operand: ArrayOperand, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape without the reduced axes."""
    return tuple(n for axis, n in enumerate(operand.array.shape) if axis not in axes)
