"""The gather: each voxel of the result interpolated from the array at the place that a matrix sends it to.

This is the readable form, in NumPy; a faster one may take its place behind :func:`gather`.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from itertools import product
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from ..array import FloatArray, IntArray
from .source import AnyArray

__all__ = ["INTERPOLATIONS", "Interpolation", "gather"]

Interpolation: TypeAlias = Literal["linear", "nearest", "vote"]
INTERPOLATIONS: Final = ("linear", "nearest", "vote")

_REACH: Final = 4.0
_ROUND: Final = 1e-9


def gather(
    array: AnyArray,
    matrix: FloatArray,
    shape: Seq[int],
    interp: Interpolation,
    fill_value: float | None = None,
    sigmas: Seq[float] = (0.0, 0.0, 0.0),
) -> AnyArray:
    """A volume sampled on another grid.

    Args:
        array: ``DHWC``.
        matrix: 4×4, from the indices (d, h, w) of the result to those of the array; voxel centers are whole numbers.
        shape: D, H and W of the result.
        interp: ``"linear"``; ``"nearest"``; or ``"vote"``: the value that has the largest sum of linear weights, of
            equal ones that of the nearest voxel, else the smallest.
        fill_value: what lies outside of the array; None repeats its edge.
        sigmas: of a Gaussian over the array that comes first, in its voxels; for ``"linear"``.

    Returns:
        The array's type for ``"nearest"`` and ``"vote"``, and for ``"linear"`` of integers, rounded half to even.
    """
    if interp == "linear":
        exact = array.dtype.itemsize > 4 or (array.dtype.kind in "iu" and array.dtype.itemsize == 4)
        work = _smoothed(array.astype(np.float64 if exact else np.float32, copy=False), sigmas)
        made = (_along_axes if _is_diagonal(matrix) else _by_slices)(work, matrix, shape, fill_value)
        if array.dtype.kind not in "iu":
            return made.astype(array.dtype, copy=False)
        limits = np.iinfo(array.dtype)
        return np.clip(np.rint(made), limits.min, limits.max).astype(array.dtype)
    if interp == "nearest":
        return _nearest(array, matrix, shape, fill_value)
    return _vote(array, matrix, shape, fill_value)


def _smoothed(array: AnyArray, sigmas: Seq[float]) -> AnyArray:
    """A Gaussian along the first three axes of floats, edges repeated; σ in voxels, 0 for none."""
    result: AnyArray = array
    for axis, sigma in enumerate(sigmas):
        if sigma <= 0:
            continue
        reach = int(np.ceil(_REACH * sigma))
        offsets = np.arange(-reach, reach + 1)
        weights = np.exp(-0.5 * (offsets / sigma) ** 2)
        weights /= weights.sum()
        padded = np.pad(
            result, [(reach, reach) if a == axis else (0, 0) for a in range(result.ndim)], mode="edge"
        )
        length = result.shape[axis]
        result = np.zeros_like(result)
        for offset, weight in zip(offsets, weights, strict=True):
            cut = [slice(None)] * result.ndim
            cut[axis] = slice(offset + reach, offset + reach + length)
            result = result + padded[tuple(cut)] * result.dtype.type(weight)
    return result


def _is_diagonal(matrix: FloatArray) -> bool:
    linear = matrix[:3, :3]
    return bool(np.allclose(linear, np.diag(np.diag(linear)), rtol=0, atol=_ROUND))


def _taps(places: FloatArray, size: int, fill_value: float | None) -> tuple[IntArray, FloatArray, FloatArray]:
    """The lower neighbor of each place, and the weights of it and of the upper one; 0 outside if that is filled."""
    if fill_value is None:
        places = np.clip(places, 0, size - 1)
    low = np.floor(places + _ROUND)
    upper = np.clip(places - low, 0.0, 1.0)
    lower = 1.0 - upper
    index = low.astype(np.int64)
    if fill_value is not None:
        lower = np.where((index >= 0) & (index < size), lower, 0.0)
        upper = np.where((index >= -1) & (index < size - 1), upper, 0.0)
    return index, lower, upper


def _along_axes(array: AnyArray, matrix: FloatArray, shape: Seq[int], fill_value: float | None) -> AnyArray:
    """One axis after the other: the grids are parallel."""
    for axis in range(3):
        size = array.shape[axis]
        places = matrix[axis, axis] * np.arange(shape[axis]) + matrix[axis, 3]
        index, lower, upper = _taps(places, size, fill_value)
        if not upper.any() and (lower == 1).all():
            array = array.take(index, axis)
            continue
        column = [1] * array.ndim
        column[axis] = -1
        weights = [w.reshape(column).astype(array.dtype) for w in (lower, upper)]
        made = array.take(np.clip(index, 0, size - 1), axis) * weights[0]
        made += array.take(np.clip(index + 1, 0, size - 1), axis) * weights[1]
        if fill_value:
            made += (1 - weights[0] - weights[1]) * array.dtype.type(fill_value)
        array = made
    return array


def _places(matrix: FloatArray, shape: Seq[int], depth: int) -> FloatArray:
    """The places (3, H, W) in the array of one slice of the result."""
    rows, columns = np.arange(shape[1])[:, None], np.arange(shape[2])[None, :]
    linear, offset = matrix[:3, :3], matrix[:3, 3]
    parts = [
        linear[a, 0] * depth + linear[a, 1] * rows + linear[a, 2] * columns + offset[a] for a in range(3)
    ]
    return np.stack(parts)


def _corners(
    array: AnyArray, matrix: FloatArray, shape: Seq[int], depth: int, fill_value: float | None
) -> Any:
    """For one slice, the value and the weight of each of the eight neighbors: (H, W, C) and (H, W)."""
    places = _places(matrix, shape, depth)
    taps = [
        _taps(place, size, None if fill_value is None else 0.0)
        for place, size in zip(places, array.shape, strict=False)
    ]
    for ends in product((0, 1), repeat=3):
        weight = np.ones(places.shape[1:])
        index = []
        for (low, lower, upper), end, size in zip(taps, ends, array.shape, strict=False):
            weight = weight * (upper if end else lower)
            index.append(np.clip(low + end, 0, size - 1))
        yield array[index[0], index[1], index[2]], weight


def _by_slices(array: AnyArray, matrix: FloatArray, shape: Seq[int], fill_value: float | None) -> AnyArray:
    made = np.empty((*shape, array.shape[3]), dtype=array.dtype)
    for depth in range(shape[0]):
        total = np.zeros(made.shape[1:], dtype=np.float64)
        inside = np.zeros(made.shape[1:3])
        for value, weight in _corners(array, matrix, shape, depth, fill_value):
            total += value * weight[..., None]
            inside += weight
        if fill_value:
            total += (1.0 - inside)[..., None] * fill_value
        made[depth] = total
    return made


def _nearest(array: AnyArray, matrix: FloatArray, shape: Seq[int], fill_value: float | None) -> AnyArray:
    made = np.empty((*shape, array.shape[3]), dtype=array.dtype)
    sizes = np.array(array.shape[:3])[:, None, None]
    if _is_diagonal(matrix):
        index = [
            np.floor(matrix[a, a] * np.arange(shape[a]) + matrix[a, 3] + 0.5 + _ROUND).astype(np.int64)
            for a in range(3)
        ]
        inside = [(i >= 0) & (i < size) for i, size in zip(index, array.shape, strict=False)]
        clipped = [np.clip(i, 0, size - 1) for i, size in zip(index, array.shape, strict=False)]
        made = array[np.ix_(*clipped)]
        if fill_value is not None:
            made[~(inside[0][:, None, None] & inside[1][:, None] & inside[2])] = fill_value
        return made
    for depth in range(shape[0]):
        places = np.floor(_places(matrix, shape, depth) + 0.5 + _ROUND).astype(np.int64)
        d, h, w = np.clip(places, 0, sizes - 1)
        made[depth] = array[d, h, w]
        if fill_value is not None:
            made[depth][((places < 0) | (places >= sizes)).any(axis=0)] = fill_value
    return made


def _vote(array: AnyArray, matrix: FloatArray, shape: Seq[int], fill_value: float | None) -> AnyArray:
    made = np.empty((*shape, array.shape[3]), dtype=array.dtype)
    nearest = _nearest(array, matrix, shape, fill_value)
    for depth in range(shape[0]):
        pairs = list(_corners(array, matrix, shape, depth, fill_value))
        values, weights = [value for value, _ in pairs], [weight[..., None] for _, weight in pairs]
        if fill_value is not None:
            values.append(np.full_like(values[0], fill_value))
            weights.append(1.0 - sum(weights))
        made[depth] = _winner(values, weights, nearest[depth])
    return made


def _winner(values: list[AnyArray], weights: list[AnyArray], nearest: AnyArray) -> AnyArray:
    best, score = values[0], np.full(values[0].shape, -1.0)
    favored = np.zeros(values[0].shape)
    for value in values:
        total = sum(
            np.where(other == value, weight, 0.0) for other, weight in zip(values, weights, strict=True)
        )
        better = total > score + _ROUND
        equal = (np.abs(total - score) <= _ROUND) & (value < best)
        best, score = np.where(better | equal, value, best), np.where(better, total, score)
    for value, weight in zip(values, weights, strict=True):
        favored += np.where(value == nearest, weight, 0.0)
    return np.where(favored >= score - _ROUND, nearest, best)
