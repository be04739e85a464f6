"""Spec: properties of a sample; layouts as views, rounding to dtypes, and the options of a call."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray, check_layout
from ...core.kernel import KernelDevice
from ...errors import ParameterError

__all__ = [
    "BACKENDS",
    "COMPUTED_DTYPES",
    "FLOAT64_DTYPES",
    "KERNEL_DTYPES",
    "MOVED_DTYPES",
    "RANGES",
    "TABLE_DTYPES",
    "Backend",
    "CallOptions",
    "Spec",
    "ValueMap",
    "View",
    "cast_coordinates",
    "full_range",
    "half_range",
    "put",
    "typed",
    "view_of",
]

Backend: TypeAlias = Literal["reference", "cpu", "cuda"]
BACKENDS: Final[tuple[Backend, ...]] = get_args(Backend)

TABLE_DTYPES: Final = ("uint8", "uint16", "int16")
"""Dtypes with so few values that a table holds a result for each."""
KERNEL_DTYPES: Final = (*TABLE_DTYPES, "float16", "float32")
"""Dtypes that kernels and CPU implementations support; the reference computes the others."""
FLOAT64_DTYPES: Final = ("uint32", "int32", "float64")
"""Dtypes that are computed in float64, because float32 does not hold their values exactly."""
COMPUTED_DTYPES: Final = (*KERNEL_DTYPES, "int8", *FLOAT64_DTYPES)
"""Dtypes that operators compute with, in float32 except for :data:`FLOAT64_DTYPES`."""
MOVED_DTYPES: Final = ("bool", "int8", *KERNEL_DTYPES, "uint32", "int32", "uint64", "int64", "float64")
"""Dtypes that operators which only move values accept."""
RANGES: Final = {
    "uint8": (0, 255),
    "uint16": (0, 65535),
    "int16": (-32768, 32767),
    "int8": (-128, 127),
    "uint32": (0, 2**32 - 1),
    "int32": (-(2**31), 2**31 - 1),
}
"""Least and greatest value of each dtype whose results saturate."""


class Spec(NamedTuple):
    """Properties of one sample.

    Attributes:
        frames: frames or slices; 1 for an image.
        height: rows.
        width: columns.
        channels: values of a pixel.
        dtype: dtype of the values, such as ``"uint8"``.
        volume: whether the frames are slices of a volume.
        limits: range of intensities, for operators whose range depends on the values; else None.
        spacing: voxel spacing along slices, rows and columns in mm, for operators that need it; None if it is unknown.
    """

    frames: int
    height: int
    width: int
    channels: int
    dtype: str
    volume: bool = False
    limits: tuple[float, float] | None = None
    spacing: tuple[float, float, float] | None = None


def full_range(dtype: str) -> float:
    """Return the value of full intensity: the greatest value of an integer dtype, 1 for floats."""
    return float(RANGES[dtype][1]) if dtype in RANGES else 1.0


def half_range(dtype: str) -> float:
    """Return the middle value as DALI defines it: 128, 32768, 16384 for int16; 0.5 for floats."""
    return (full_range(dtype) + 1) / 2 if dtype in RANGES else 0.5


class View(NamedTuple):
    """View of an array of some layout as ``(N, F, H, W, C)``.

    Attributes:
        axes: the array's axes in the order N, F, H, W, C; None if they are in this order already.
        extend: index that adds the missing axes; None if none is missing.
        positions: position of each of the array's axes among the five.
        shape: function that selects the shape in the layout from the lengths of the five axes.
        batched: whether the layout has N.
        is_volume: whether the layout has D.
        is_series: whether time points of one volume take the place of N; they share their sampled parameters.
    """

    axes: tuple[int, ...] | None
    extend: tuple[Any, ...] | None
    positions: tuple[int, ...]
    shape: Callable[[tuple[int, ...]], tuple[int, ...]]
    batched: bool
    is_volume: bool = False
    is_series: bool = False

    def __call__(self, array: Array) -> Array:
        """Return the array as ``(N, F, H, W, C)``."""
        ordered = array if self.axes is None else array.transpose(self.axes)
        return ordered if self.extend is None else ordered[self.extend]

    def window(self, rows: slice, columns: slice) -> tuple[slice, ...]:
        """Some rows and columns of an array, as an index."""
        cut = [slice(None)] * len(self.positions)
        cut[self.positions.index(2)], cut[self.positions.index(3)] = rows, columns
        return tuple(cut)


@lru_cache(maxsize=64)
def view_of(layout: str, ndim: int) -> View:
    """Return the view for arrays of a layout."""
    known = check_layout(layout, ndim)
    is_series = "F" in known and "D" in known
    if is_series and "N" in known:
        raise ParameterError(
            f"layout={known!r} holds several series of volumes",
            allowed="'FDHWC', one series at a time",
            advice="Give the series as a list",
        )
    letters = (known.replace("F", "N") if is_series else known).replace("D", "F")
    axes = tuple(letters.index(letter) for letter in "NFHWC" if letter in letters)
    positions = tuple("NFHWC".index(letter) for letter in letters)
    extend = tuple(slice(None) if letter in letters else None for letter in "NFHWC")
    return View(
        None if axes == tuple(range(ndim)) else axes,
        None if ndim == len(extend) else extend,
        positions,
        itemgetter(*positions),
        "N" in known,
        "D" in known,
        is_series,
    )


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
    """Convert coordinates in double precision to a dtype by the same rule."""
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        most = float(bounds.max)
        if most > bounds.max:  # 64-bit maxima round up to one more
            most = math.nextafter(most, 0.0)
        values = np.rint(np.fmin(np.fmax(values, bounds.min), most))
    result: Array = values.astype(dtype)
    return result


class ValueMap(NamedTuple):
    """``out = scale * (in - mean) / sqrt(stddev ** 2 + epsilon) + shift``, cast to a dtype.

    Attributes:
        dtype: dtype of the result.
        mean: mean, one number or one for each channel.
        stddev: standard deviation, one number or one for each channel.
        scale: factor of the quotient; a distribution if the parameter is sampled.
        shift: added to the product; a distribution if the parameter is sampled.
        epsilon: added to the variance.
    """

    dtype: str
    mean: tuple[float, ...] = (0.0,)
    stddev: tuple[float, ...] = (1.0,)
    scale: Any = 1.0
    shift: Any = 0.0
    epsilon: float = 0.0


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """Options of a call.

    Attributes:
        layout: layout of arrays; None for the default by the number of axes.
        epoch: the epoch that parameters are sampled for.
        index: indices of the samples within their dataset, or the index of the first.
        backend: implementation to run; None for kernels on a GPU and the fast forms on the CPU.
        device: device that kernels run on; None for the GPU that holds the data.
    """

    layout: str | None = None
    epoch: int = 0
    index: Any = None
    backend: Backend | None = None
    device: KernelDevice | None = None
