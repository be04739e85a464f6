"""Reductions of values along axes, such as ``fn.reductions.mean``, named as in DALI."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence as Seq
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...array import Array, namespace
from ...errors import ParameterError
from ...sequence import Batch
from ..arrays.base import ArrayOperand, OnAxes
from ..call.backends import on_device_of
from ..call.inputs import as_array, like_container, like_library
from ..core.deferred import or_node
from ..core.parameters import param
from ..core.types import Type
from .sums import mean_of, mean_square_by_kernel, rows_of, shape_of, sum_of, variance_of

__all__ = ["Max", "Mean", "MeanSquare", "Min", "Rms", "StdDev", "Sum", "Variance"]

_SUMS = {"b": "uint64", "u": "uint64", "i": "int64"}  # as in DALI; sums of floats are floats


class _Reduction(OnAxes, register=False):
    """Base of operators that reduce axes to one value."""

    keep_dims: bool = param(False, "whether to keep reduced axes with length 1", drawn=False)

    @abstractmethod
    def reference(self, x: Array, p: Any) -> Array:
        """Reduce ``p.axes`` to length 1."""

    def result_types(self, inputs: Seq[Type]) -> tuple[Type, ...]:
        """See :meth:`Deferrable.result_types`."""
        return tuple(replace(one, kind="numbers") for one in super().result_types(inputs))

    @or_node
    def __call__(self, x: Any, *, layout: str | None = None) -> Any:
        """Reduce axes of an array.

        Args:
            x: a NumPy, CuPy or torch array, a Sequence, a Batch, or a list of these.
            layout: layout of arrays; if it has N, numbers of axes do not count that one, and it is kept.

        Returns:
            An array of the same library on the same device, also for a Sequence; for a list, and for a Batch of samples
            of different shapes, a list.

        Raises:
            ParameterError: there are no such axes.
        """
        return self._of(x, layout)

    def _of(self, x: Any, layout: str | None, **more: Any) -> Any:
        if isinstance(x, Batch) and x.stacked is None:
            return [self._of(one, layout, **more) for one in x.sequences]
        if isinstance(x, (list, tuple)):
            return like_container(x, [self._of(one, layout, **more) for one in x])
        operand = self.as_operand(x, layout)
        axes = self.axes_of(operand, self.axes, self.axis_names)
        if not operand.array.size:
            raise ParameterError(
                f"an array of shape {tuple(operand.array.shape)} holds no values", source=self.name
            )
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
    errors = (
        (
            {"axes": 0, "axis_names": "H"},
            "reductions.mean: axes and axis_names given; allowed: one of axes, axis_names",
        ),
        ({"dtype": "uint8"}, "dtype='uint8' is not valid; allowed: 'float32', 'float64'"),
    )

    def reference(self, x: Array, p: Any) -> Array:
        """Divide the sum by the number of values."""
        return self.rounded(mean_of(x, p.axes), x)


class MeanSquare(_Float, function_name="reductions.mean_square"):
    """Compute the mean of the squares of values along axes."""

    examples = ({}, {"axes": (0, -1)})
    errors = (({"axes": 0.5}, "axes=0.5 is not valid; allowed: a whole number"),)

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the mean of the squares."""
        return self.rounded(_mean_square(x, p.axes), x)


class Rms(_Float, function_name="reductions.rms"):
    """Compute the root of the mean of the squares of values along axes."""

    examples = ({}, {"axis_names": "HWC"})
    errors = (({"keep_dims": 2}, "keep_dims=2 is not valid; allowed: True or False"),)

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
    errors = (({"dtype": "uint8"}, "dtype='uint8' is not valid; allowed: 'uint64', 'int64', 'float32'"),)

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
    errors = (({"axes": ()}, r"axes=\(\) is not valid; allowed: one value or more"),)

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the minimum."""
        return rows_of(x, p.axes).min(-1).reshape(shape_of(x, p.axes))


class Max(_Reduction, function_name="reductions.max"):
    """Compute the greatest value along axes."""

    examples = ({}, {"axis_names": "HW"})
    errors = (({"axis_names": 3}, "axis_names=3 is not valid; allowed: a string or None"),)

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the maximum."""
        return rows_of(x, p.axes).max(-1).reshape(shape_of(x, p.axes))


class _Spread(_Float, register=False):
    """Base of reductions of distances from a mean."""

    ddof: int = param(0, "delta degrees of freedom; the divisor is at least 1", lo=0, drawn=False)

    @or_node
    def __call__(self, x: Any, mean: Any = None, *, layout: str | None = None) -> Any:
        """Reduce axes of an array.

        Args:
            x: a NumPy, CuPy or torch array, a Sequence, a Batch, or a list of these.
            mean: a number, or an array that fits the result; None computes it.
            layout: layout of arrays; if it has N, numbers of axes do not count that one, and it is kept.

        Returns:
            See :meth:`Mean.__call__`.

        Raises:
            ParameterError: there are no such axes, or the mean does not fit.
        """
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
            raise ParameterError(
                f"a mean of shape {tuple(array.shape)}",
                source=self.name,
                allowed=f"a number, or the shape {_left(operand, axes)} or {kept}",
            )
        return {"mean": namespace(operand.array).asarray(array).reshape(kept if array.size != 1 else ())}


class Variance(_Spread, function_name="reductions.variance"):
    """Compute the variance of values along axes, about a given or computed mean.

    DALI requires the mean; with fewer values than ``ddof`` it divides by 0 or a negative number.
    """

    examples = ({}, {"axis_names": "HW", "ddof": 1})
    errors = (({"ddof": -1}, "ddof=-1 is not valid; allowed: a whole number of at least 0"),)

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the mean square of distances."""
        return self.rounded(self.variance(x, p), x)


class StdDev(_Spread, function_name="reductions.std_dev"):
    """Compute the standard deviation of values along axes, about a given or computed mean.

    DALI requires the mean; with fewer values than ``ddof`` it divides by 0 or a negative number.
    """

    examples = ({}, {"axis_names": "HW", "ddof": 1})
    errors = (({"ddof": 0.5}, "ddof=0.5 is not valid; allowed: a whole number of at least 0"),)

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the root of the variance."""
        return self.rounded(namespace(x).sqrt(self.variance(x, p)), x)


def _mean_square(x: Array, axes: tuple[int, ...]) -> Array:
    result = mean_square_by_kernel(x, axes, from_mean=False)
    return variance_of(x, namespace(x).zeros(()), axes) if result is None else result


def _left(operand: ArrayOperand, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape without the reduced axes."""
    return tuple(n for axis, n in enumerate(operand.array.shape) if axis not in axes)
