"""The one rule by which numbers become values of a type: integers round half to even and saturate, floats do not."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray
from .spec import RANGES, WIDE

__all__ = ["placed", "put", "typed"]

# in float64 where float32 would round the bounds to values beyond them
_BOUNDS: Final = {
    np.dtype(name): tuple((np.float64 if name in WIDE else np.float32)(end) for end in ends)
    for name, ends in RANGES.items()
}
_HALF: Final = np.dtype(np.float16)


def put(out: Array, values: Array) -> None:
    """Write values into an array, by the rule of its type.

    What is of that type already is copied. NaN, which no arithmetic with whole numbers should give, becomes the least
    value of a type of whole numbers.

    Args:
        out: the array that is written.
        values: floats, or values of the type of ``out``; of a shape that broadcasts to that of ``out``.
    """
    if values.dtype == out.dtype:
        out[...] = values
        return
    bounds = _BOUNDS.get(out.dtype)
    if bounds is None:
        if out.dtype == _HALF:
            with np.errstate(over="ignore"):  # what float16 cannot hold is infinite there
                out[...] = values
        else:
            out[...] = values
        return
    if values.dtype.kind != "f":
        raise TypeError(f"a result of {values.dtype} for {out.dtype}: computed operators give floats")
    # fmax before fmin: with NaN it gives the bound, as the kernels do. CuPy's arrays take these functions as well
    if bounds[0].dtype != np.float32:
        values = values.astype(np.float64)
    levels = np.fmax(values, bounds[0])
    if type(levels) is np.ndarray:  # in the memory that this has taken
        np.rint(np.fmin(levels, bounds[1], levels), levels)
        out[...] = levels
    else:
        out[...] = np.rint(np.fmin(levels, bounds[1]))


def typed(values: FloatArray, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A few numbers as values of any type, by the same rule; exact where float32 is not."""
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        return np.array([min(max(round(value), bounds.min), bounds.max) for value in values.tolist()], dtype)
    with np.errstate(over="ignore"):  # what float16 cannot hold is infinite there
        return values.astype(dtype)


def placed(values: Array, dtype: np.dtype[Any]) -> Array:
    """Places in double precision as numbers of a type, by the same rule.

    Args:
        values: in main memory or on a GPU.
        dtype: the type.
    """
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        most = float(bounds.max)
        if most > bounds.max:  # of 64 bits: rounded, it is one more
            most = math.nextafter(most, 0.0)
        values = np.rint(np.fmin(np.fmax(values, bounds.min), most))
    made: Array = values.astype(dtype)
    return made
