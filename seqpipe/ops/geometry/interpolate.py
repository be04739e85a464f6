"""Interpolation at the points of a projective map; ``warp.cuh`` computes the same to the last bit."""

from __future__ import annotations

import ctypes
import struct
from functools import cache, lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ...core.native import load_functions
from .resampling import Float32Array, cubic

__all__ = [
    "KINDS",
    "InterpolationKind",
    "coordinates_of",
    "interpolated",
    "quickly_interpolated",
    "remap_is_exact",
    "remapped",
]

InterpolationKind: TypeAlias = Literal["nearest", "linear", "cubic"]
KINDS: Final = ("nearest", "linear", "cubic")
"""Interpolations; the index is their number in the kernel."""

_WORK: Final = struct.Struct("2Q11q10d")  # as in warp.c
_MAX_COORDINATE: Final = np.float32(1 << 24)  # limit of coordinates, so that their integers fit 32 bits


def coordinates_of(matrix: Float32Array, height: int, width: int) -> tuple[Float32Array, Float32Array]:
    """Return the source points of the pixels of a result: x and y, float32 ``(height, width)`` each."""
    half = np.float32(0.5)
    column = np.arange(width, dtype=np.float32) + half
    line = (np.arange(height, dtype=np.float32) + half)[:, None]
    m = matrix
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x, y, divisor = (m[i, 0] * column + m[i, 1] * line + m[i, 2] for i in range(3))
        along, down = (
            np.fmin(np.fmax(coordinates / divisor, -_MAX_COORDINATE), _MAX_COORDINATE)
            for coordinates in (x, y)
        )
    return along, down


class _Taps(NamedTuple):
    """Source pixels along one axis ``(taps, …)``, whether they are within the source, and their weights."""

    at: Any
    inside: Any
    weights: Any


def interpolated(
    x: Array, along: Float32Array, down: Float32Array, kind: InterpolationKind, fill: float | None
) -> Array:
    """Interpolate at points, summing each row of source pixels first; NumPy is five times faster plane by plane."""
    library = namespace(x)
    frames, height, width, channels = x.shape
    planes = library.ascontiguousarray(x.transpose(0, 3, 1, 2)).reshape(frames, channels, height * width)
    columns, rows = _taps(along, width, kind), _taps(down, height, kind)
    total: Any = np.float32(0)
    for row, row_inside, row_weight in zip(*map(library.asarray, rows), strict=True):
        line: Any = np.float32(0)
        for column, inside, weight in zip(*map(library.asarray, columns), strict=True):
            value = planes.take(row * width + column, axis=2)
            if fill is not None:
                library.copyto(value, fill, where=~(inside & row_inside))
            line = line + weight * value
        total = total + row_weight * line
    return library.ascontiguousarray(total.transpose(0, 2, 3, 1))


def _taps(coordinates: Float32Array, length: int, kind: InterpolationKind) -> _Taps:
    half, one = np.float32(0.5), np.float32(1)
    if kind == "nearest":
        at, weights = np.floor(coordinates)[None], np.ones((1, *coordinates.shape), np.float32)
    else:
        first = np.floor(coordinates - half)
        part = coordinates - half - first
        if kind == "linear":
            at, weights = np.stack([first, first + one]), np.stack([one - part, part])
        else:
            at = np.stack([first + np.float32(k) for k in (-1, 0, 1, 2)])
            weights = cubic(np.abs(np.stack([part - np.float32(k) for k in (-1, 0, 1, 2)])))
    whole = at.astype(np.int64)
    inside = np.clip(whole, 0, length - 1)
    return _Taps(inside, inside == whole, weights)


def quickly_interpolated(
    x: npt.NDArray[Any],
    matrix: Float32Array,
    size: tuple[int, int],
    kind: InterpolationKind,
    fill: float | None,
) -> npt.NDArray[Any] | None:
    """Interpolate at the positions of a matrix by ``warp.c``, equal to :func:`interpolated`; None without a C compiler.

    Args:
        x: images ``(F, H, W, C)`` in main memory.
        matrix: as :func:`coordinates_of` takes it.
        size: rows and columns of the result.
        kind: of the interpolation.
        fill: the value outside; None repeats the pixels at the border.
    """
    native = _native()
    if native is None:
        return None
    x = x.astype(np.float32, copy=False)
    if x.strides[3] != x.itemsize:
        x = np.ascontiguousarray(x)
    out = np.empty((len(x), *size, x.shape[3]), np.float32)
    fills = fill is not None
    facts = (x.ctypes.data, out.ctypes.data, *x.shape, *x.strides[:3], *size, KINDS.index(kind), fills)
    native.seqpipe_warp(_WORK.pack(*facts, fill if fills else 0.0, *matrix.ravel().tolist()))
    return out


@cache
def _native() -> Any:
    """What ``warp.c`` has; None where there is no C compiler."""
    return load_functions(__package__, "warp.c", {"warp": (ctypes.c_char_p,)})


def remapped(
    x: npt.NDArray[Any], along: Float32Array, down: Float32Array, fill: float | None
) -> npt.NDArray[Any]:
    """Compute linear interpolation by OpenCV, within 1e-5 of the range of values of :func:`interpolated`."""
    import cv2

    out = np.empty((len(x), *along.shape, x.shape[3]), np.float32)
    border = cv2.BORDER_REPLICATE if fill is None else cv2.BORDER_CONSTANT
    half = np.float32(0.5)
    coordinates = along - half, down - half
    for image, into in zip(x, out, strict=True):
        output = cv2.remap(
            np.ascontiguousarray(image),
            *coordinates,
            cv2.INTER_LINEAR,
            borderMode=border,
            borderValue=(fill or 0.0,) * 4,
        )
        into[...] = output.reshape(into.shape)
    return out


@lru_cache(maxsize=8)
def remap_is_exact(channels: int) -> bool:
    """Return whether OpenCV uses exact coordinates; its older code paths round them to 1/32 of a pixel."""
    import cv2

    ramp = np.tile(np.arange(64, dtype=np.float32)[:, None], (64, 1, channels))
    coordinates = np.full((16, 16), 20.01, np.float32)
    result = cv2.remap(ramp, coordinates, coordinates.copy(), cv2.INTER_LINEAR)  # 5.0 takes no array for both
    return bool(np.abs(result - np.float32(20.01)).max() < 1e-3)
