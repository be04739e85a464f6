"""The gather: interpolates each voxel of the result at the position in the array that a matrix maps it to.

It runs in C (``gather.c``) if there is a compiler, for single-channel arrays of most dtypes; otherwise in NumPy, with
the same results, but slower.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence as Seq
from functools import cache, partial
from itertools import product
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from ...array import FloatArray, IntArray
from ...core.native import load_functions
from ..source import AnyArray
from .spline import sampled

__all__ = ["INTERPOLATIONS", "RegridInterpolation", "gather"]

RegridInterpolation: TypeAlias = Literal["linear", "nearest", "vote", "bspline"]
INTERPOLATIONS: Final = ("linear", "nearest", "vote", "bspline")

_IN_C: Final = frozenset(("u1", "i1", "u2", "i2", "u4", "i4", "f4", "f8"))
_REACH: Final = 4.0
_ROUND: Final = 1e-9
_NEAR_ZERO: Final = 1e-12


def gather(
    array: AnyArray,
    matrix: FloatArray,
    shape: Seq[int],
    interp: RegridInterpolation,
    fill_value: float | None = None,
    sigmas: Seq[float] = (0.0, 0.0, 0.0),
) -> AnyArray:
    """Sample a volume on another grid.

    Args:
        array: ``DHWC``, with any strides.
        matrix: 4×4, from the indices (d, h, w) of the result to those of the array; voxel centers have integer indices.
        shape: D, H and W of the result.
        interp: ``"linear"``; ``"nearest"``; ``"vote"``: the value with the largest sum of linear weights, of equal ones
            that of the nearest voxel, else the smallest; or ``"bspline"``: the cubic B-spline.
        fill_value: value outside the array; None repeats its edge.
        sigmas: σ in voxels of a Gaussian that is applied to the array first; for ``"linear"`` and ``"bspline"``.

    Returns:
        An array of the same dtype; interpolated integers are rounded half to even.
    """
    kind = array.dtype
    work = array
    matrix = np.where(np.abs(matrix) < _NEAR_ZERO, 0.0, matrix)  # rounding errors of parallel axes
    if interp in ("linear", "bspline") and any(sigmas):
        exact = kind.itemsize > 4 or (kind.kind in "iu" and kind.itemsize == 4)
        work = _smoothed(array.astype(np.float64 if exact else np.float32, copy=False), sigmas)
    if interp == "bspline":
        positions_of = partial(_positions, matrix, shape)
        return _as_dtype(sampled(work, matrix, positions_of, shape, fill_value), kind)
    result = _by_c(work, matrix, shape, interp, fill_value)
    if result is None:
        result = _by_numpy(work, matrix, shape, interp, fill_value)
    return result if result.dtype == kind else _as_dtype(result, kind)


def _by_c(
    array: AnyArray,
    matrix: FloatArray,
    shape: Seq[int],
    interp: RegridInterpolation,
    fill_value: float | None,
) -> AnyArray | None:
    """Sample in C; return None without a compiler, or if the C code does not support the array."""
    code = array.dtype.str[1:]
    plain = (
        array.shape[3] == 1 and array.size > 0 and all(s % array.dtype.itemsize == 0 for s in array.strides)
    )
    if code not in _IN_C or not plain or not array.dtype.isnative:
        return None
    if fill_value is not None and array.dtype.kind in "iu" and not float(fill_value).is_integer():
        return None
    functions = _functions()
    if functions is None:
        return None
    result = np.empty((*shape, 1), dtype=array.dtype)
    sizes = np.array(array.shape[:3], dtype=np.int64)
    strides = np.array([stride // array.dtype.itemsize for stride in array.strides[:3]], dtype=np.int64)
    out = np.array(shape, dtype=np.int64)
    rows = np.ascontiguousarray(matrix[:3], dtype=np.float64)
    getattr(functions, f"seqpipe_gather_{code}")(
        array.ctypes.data,
        result.ctypes.data,
        sizes.ctypes.data,
        strides.ctypes.data,
        out.ctypes.data,
        rows.ctypes.data,
        INTERPOLATIONS.index(interp),
        fill_value is not None,
        0.0 if fill_value is None else float(fill_value),
    )
    return result


@cache
def _functions() -> Any:
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    arguments = (*[pointer] * 6, number, number, ctypes.c_double)
    return load_functions(__package__, "gather.c", {f"gather_{code}": arguments for code in sorted(_IN_C)})


def _by_numpy(
    array: AnyArray,
    matrix: FloatArray,
    shape: Seq[int],
    interp: RegridInterpolation,
    fill_value: float | None,
) -> AnyArray:
    """Sample slice by slice, to limit the memory in use."""
    function = {"linear": _linear, "nearest": _nearest, "vote": _vote}[interp]
    slices = [function(array, matrix, shape, depth, fill_value) for depth in range(shape[0])]
    stacked = np.stack(slices)
    return stacked if stacked.dtype == array.dtype else _as_dtype(stacked, array.dtype)


def _as_dtype(values: AnyArray, kind: np.dtype[Any]) -> AnyArray:
    """Convert floats to a dtype; integers are rounded half to even and saturated."""
    if kind.kind not in "iu":
        return values.astype(kind, copy=False)
    limits = np.iinfo(kind)
    return np.clip(np.rint(values), limits.min, limits.max).astype(kind)


def _smoothed(array: AnyArray, sigmas: Seq[float]) -> AnyArray:
    """Apply a Gaussian along the first three axes, repeating edges; σ in voxels, 0 for none."""
    import cv2

    result: AnyArray = np.ascontiguousarray(array)
    edge = {"borderType": cv2.BORDER_REPLICATE}
    along_d, along_h, along_w = map(_gaussian, sigmas)
    if len(along_d) > 1:  # each slice becomes one row
        flat = result.reshape(len(result), -1)
        result = cv2.sepFilter2D(flat, -1, np.ones(1), along_d, **edge).reshape(result.shape)
    if len(along_h) > 1 or len(along_w) > 1:
        blurred = np.empty_like(result)
        for plane, target in zip(result, blurred, strict=True):
            target[:] = cv2.sepFilter2D(plane, -1, along_w, along_h, **edge).reshape(target.shape)
        result = blurred
    return result


def _gaussian(sigma: float) -> FloatArray:
    """Return the weights of a Gaussian, with a sum of 1; a single weight for σ = 0."""
    reach = int(np.ceil(_REACH * max(sigma, 0.0)))
    weights: FloatArray = np.exp(-0.5 * (np.arange(-reach, reach + 1) / (sigma if reach else 1.0)) ** 2)
    weights /= weights.sum()
    return weights


def _taps(
    positions: FloatArray, size: int, fill_value: float | None
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the lower neighbor of each position, and its weight and the upper one's; 0 outside with a fill value."""
    if fill_value is None:
        positions = np.clip(positions, 0, size - 1)
    low = np.floor(positions + _ROUND)
    upper = np.clip(positions - low, 0.0, 1.0)
    lower = 1.0 - upper
    index = low.astype(np.int64)
    if fill_value is not None:
        lower = np.where((index >= 0) & (index < size), lower, 0.0)
        upper = np.where((index >= -1) & (index < size - 1), upper, 0.0)
    return index, lower, upper


def _positions(matrix: FloatArray, shape: Seq[int], depth: int) -> FloatArray:
    """Return the positions (3, H, W) in the array of one slice of the result."""
    rows, columns = np.arange(shape[1])[:, None], np.arange(shape[2])[None, :]
    linear, offset = matrix[:3, :3], matrix[:3, 3]
    parts = [
        linear[a, 0] * depth + linear[a, 1] * rows + linear[a, 2] * columns + offset[a] for a in range(3)
    ]
    return np.stack(parts)


def _corners(
    array: AnyArray, positions: FloatArray, fill_value: float | None
) -> list[tuple[AnyArray, AnyArray]]:
    """Return the value (H, W, C) and the weight (H, W, 1) of each of the eight neighbors."""
    sizes = array.shape[:3]
    taps = [_taps(position, size, fill_value) for position, size in zip(positions, sizes, strict=True)]
    corners = []
    for ends in product((0, 1), repeat=3):
        weight = np.ones(positions.shape[1:])
        index = []
        for (low, lower, upper), end, size in zip(taps, ends, sizes, strict=True):
            weight = weight * (upper if end else lower)
            index.append(np.clip(low + end, 0, size - 1))
        corners.append((array[index[0], index[1], index[2]], weight[..., None]))
    return corners


def _linear(
    array: AnyArray, matrix: FloatArray, shape: Seq[int], depth: int, fill_value: float | None
) -> AnyArray:
    total = inside = np.zeros((shape[1], shape[2], 1))
    for value, weight in _corners(array, _positions(matrix, shape, depth), fill_value):
        total = total + value * weight
        inside = inside + weight
    return total + (1.0 - inside) * fill_value if fill_value else total


def _nearest(
    array: AnyArray, matrix: FloatArray, shape: Seq[int], depth: int, fill_value: float | None
) -> AnyArray:
    sizes = np.array(array.shape[:3])[:, None, None]
    positions = np.floor(_positions(matrix, shape, depth) + 0.5 + _ROUND).astype(np.int64)
    d, h, w = np.clip(positions, 0, sizes - 1)
    result: AnyArray = array[d, h, w]
    if fill_value is not None:
        result[((positions < 0) | (positions >= sizes)).any(axis=0)] = fill_value
    return result


def _vote(
    array: AnyArray, matrix: FloatArray, shape: Seq[int], depth: int, fill_value: float | None
) -> AnyArray:
    pairs = _corners(array, _positions(matrix, shape, depth), fill_value)
    if fill_value is not None:
        inside: AnyArray = np.sum([weight for _, weight in pairs], axis=0)
        pairs.append((np.full_like(pairs[0][0], fill_value), 1.0 - inside))
    best, score = pairs[0][0], np.full(pairs[0][0].shape, -1.0)
    for value, _ in pairs:
        total = sum(np.where(other == value, weight, 0.0) for other, weight in pairs)
        better = total > score + _ROUND
        equal = (np.abs(total - score) <= _ROUND) & (value < best)
        best, score = np.where(better | equal, value, best), np.where(better, total, score)
    nearest = _nearest(array, matrix, shape, depth, fill_value)
    favored = sum(np.where(value == nearest, weight, 0.0) for value, weight in pairs)
    result: AnyArray = np.where(favored >= score - _ROUND, nearest, best)
    return result
