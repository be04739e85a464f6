"""Gathers in NumPy and double precision: the reference, and the fallback without a C compiler."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..array import Array, FloatArray
from ..core.padding import FillMode, indices_at
from .mapping import Mapping3, spline_weights

__all__ = ["reference_gather"]

_TIE: Final = 1e-9
"""Places this little below the middle between two voxels, which is a rounding error, count as in the middle."""
_EQUAL: Final = 1e-5
"""Sums of linear weights that differ by less count as equal, so that rounding does not matter and devices agree."""


def reference_gather(
    volume: Array,
    mapping: Mapping3,
    interpolation: str,
    fill: float | FillMode | None,
    positions: Array | None = None,
) -> npt.NDArray[Any]:
    """The reference of :func:`seqpipe.resampling.gather.gather`."""
    out = np.empty((*mapping.size, volume.shape[3]), volume.dtype)
    for depth in range(mapping.size[0]):  # slice by slice, to limit the memory in use
        points = _positions(mapping, depth) if positions is None else np.asarray(positions[depth], np.float64)
        if fill is None:
            points = points.clip(0, np.array(volume.shape[:3]) - 1)
        if isinstance(fill, str):  # of whole positions
            axes = zip(np.moveaxis(points, -1, 0).astype(np.int64), volume.shape[:3], strict=True)
            points = np.stack([indices_at(at, n, fill) for at, n in axes], axis=-1).astype(np.float64)
        out[depth] = _REFERENCES[interpolation](volume, points, None if isinstance(fill, str) else fill)
    return out


def _positions(mapping: Mapping3, depth: int) -> FloatArray:
    """Return the positions ``(H, W, 3)`` of a slice, of matrices in the order of ``gather.c``, so bit for bit."""
    rows, columns = np.arange(mapping.size[1])[:, None], np.arange(mapping.size[2])
    if mapping.lattice is not None:
        return mapping.positions(np.stack(np.broadcast_arrays(float(depth), rows, columns), axis=-1))
    return np.stack([d * depth + h * rows + at + w * columns for d, h, w, at in mapping.matrix[:3]], axis=-1)


def _taps(volume: Array, corner: FloatArray, fill: Any) -> npt.NDArray[Any]:
    """Return the voxels at integer positions ``(…, 3)``: ``(…, C)``."""
    most = np.array(volume.shape[:3]) - 1
    d, h, w = np.moveaxis(corner.clip(0, most).astype(np.int64), -1, 0)
    voxels: npt.NDArray[Any] = volume[d, h, w]
    if fill is None:
        return voxels
    inside = ((corner >= 0) & (corner <= most)).all(axis=-1, keepdims=True)
    return np.where(inside, voxels, fill)


def _rounded(values: FloatArray, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return values in a dtype; integers are rounded half to even and saturate."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = np.rint(values).clip(info.min, info.max)
    return values.astype(dtype)


def _nearest(volume: Array, points: FloatArray, fill: float | None) -> npt.NDArray[Any]:
    """Sample the nearest voxel."""
    own = None if fill is None else volume.dtype.type(fill)
    return _taps(volume, np.floor(points + (0.5 + _TIE)), own)


def _linear(volume: Array, points: FloatArray, fill: float | None) -> npt.NDArray[Any]:
    """Interpolate linearly between eight voxels."""
    first = np.floor(points)
    if fill is None:  # as in C, the last voxel is read as the end of the last cell
        first = np.minimum(first, np.maximum(np.array(volume.shape[:3]) - 2, 0))
    values = [_taps(volume, first + tap, fill).astype(np.float64) for tap in np.ndindex(2, 2, 2)]
    for part in np.moveaxis(points - first, -1, 0)[::-1, ..., None]:  # columns, rows, slices
        values = [low + part * (high - low) for low, high in zip(values[::2], values[1::2], strict=True)]
    return _rounded(values[0], volume.dtype)


def _keys(t: FloatArray) -> FloatArray:
    """Return the weights of the four voxels around a position by Keys' cubic with a = -1/2."""
    s = 1 - t
    weights_of_taps = [
        -0.5 * t * s * s,
        1 + t * t * (1.5 * t - 2.5),
        1 + s * s * (1.5 * s - 2.5),
        -0.5 * s * t * t,
    ]
    result: FloatArray = np.stack(weights_of_taps, axis=-1)
    return result


def _cubic(
    volume: Array, points: FloatArray, fill: float | None, weights_of: Callable[[FloatArray], FloatArray]
) -> npt.NDArray[Any]:
    """Interpolate between 64 voxels."""
    first = np.floor(points)
    weight, total = weights_of(points - first), np.zeros((*points.shape[:-1], volume.shape[3]))
    for d, h, w in np.ndindex(4, 4, 4):
        each = weight[..., 0, d] * weight[..., 1, h] * weight[..., 2, w]
        total += each[..., None] * _taps(volume, first + np.array([d, h, w]) - 1, fill)
    return _rounded(total, volume.dtype)


def _vote(volume: Array, points: FloatArray, fill: float | None) -> npt.NDArray[Any]:
    """Return the label with the greatest sum of linear weights; of equals the nearest voxel's, else the smallest."""
    own = None if fill is None else volume.dtype.type(fill)
    first = np.floor(points)
    part = points - first
    taps = [np.array(tap) for tap in np.ndindex(2, 2, 2)]
    labels = np.stack([_taps(volume, first + tap, own) for tap in taps])
    weight = np.stack([np.where(tap, part, 1 - part).prod(axis=-1) for tap in taps])[..., None]
    scores = np.stack([((labels == label) * weight).sum(axis=0) for label in labels])
    best = scores >= scores.max(axis=0) - _EQUAL
    number = ((part >= 0.5 - _TIE) * np.array([4, 2, 1])).sum(axis=-1)[None, ..., None]
    near = np.take_along_axis(labels, np.broadcast_to(number, (1, *labels.shape[1:])), axis=0)[0]
    smallest = np.where(best, labels, labels.max()).min(axis=0)
    voted: npt.NDArray[Any] = np.where((best & (labels == near)).any(axis=0), near, smallest)
    return voted


_REFERENCES: Final[dict[str, Callable[..., npt.NDArray[Any]]]] = {
    "nearest": _nearest,
    "linear": _linear,
    "cubic": partial(_cubic, weights_of=_keys),
    "vote": _vote,
    "bspline": partial(_cubic, weights_of=spline_weights),
}
