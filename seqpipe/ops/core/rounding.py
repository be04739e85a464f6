"""Conversion of computed values to a dtype: integers are rounded half to even and saturate, floats are not."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray
from .spec import FLOAT64_DTYPES, RANGES

__all__ = ["cast_coordinates", "put", "typed"]

# float64 where float32 would round the bounds to values outside the dtype
_BOUNDS: Final = {
    np.dtype(name): tuple((np.float64 if name in FLOAT64_DTYPES else np.float32)(end) for end in ends)
    for name, ends in RANGES.items()
}
_HALF: Final = np.dtype(np.float16)


def put(out: Array, values: Array) -> None:
    """Write values into an array, converted to its dtype.

    Values of the same dtype are copied. NaN, which integer arithmetic should not produce, becomes the least value of an
    integer dtype.

    Args:
        out: output array.
        values: floats, or values of the dtype of ``out``, of a shape that broadcasts to that of ``out``.
    """
    if values.dtype == out.dtype:
        out[...] = values
        return
    bounds = _BOUNDS.get(out.dtype)
    if bounds is None:
        if out.dtype == _HALF:
            with np.errstate(over="ignore"):  # float16 overflows to infinity
                out[...] = values
        else:
            out[...] = values
        return
    if values.dtype.kind != "f":
        raise TypeError(f"a result of {values.dtype} for {out.dtype}: computed operators return floats")
    # fmax before fmin: NaN becomes the lower bound, as in the kernels. Both also accept CuPy arrays
    if bounds[0].dtype != np.float32:
        values = values.astype(np.float64)
    clipped = np.fmax(values, bounds[0])
    if type(clipped) is np.ndarray:  # in place, without another temporary array
        np.rint(np.fmin(clipped, bounds[1], clipped), clipped)
        out[...] = clipped
    else:
        out[...] = np.rint(np.fmin(clipped, bounds[1]))


def typed(values: FloatArray, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Convert a few numbers to any dtype by the same rule; exact where float32 is not."""
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        return np.array([min(max(round(value), bounds.min), bounds.max) for value in values.tolist()], dtype)
    with np.errstate(over="ignore"):  # float16 overflows to infinity
        return values.astype(dtype)


def cast_coordinates(values: Array, dtype: np.dtype[Any]) -> Array:
    """Convert coordinates in double precision to a dtype by the same rule.

    Args:
        values: in main memory or on a GPU.
        dtype: dtype of the result.
    """
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        most = float(bounds.max)
        if most > bounds.max:  # 64-bit maxima round up to one more
            most = math.nextafter(most, 0.0)
        values = np.rint(np.fmin(np.fmax(values, bounds.min), most))
    result: Array = values.astype(dtype)
    return result
