"""Warped: base of operators that interpolate each pixel at one point of a projective map."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray, namespace
from ..core.distributions import Distribution, Number, PerFrame, Table
from ..core.nodes import DataNode
from ..core.parameters import param
from ..core.spec import Spec, put
from ..core.traits import Body
from .base import Interpolated, Resampled
from .interpolate import (
    KINDS,
    InterpolationKind,
    coordinates_of,
    interpolated,
    quickly_interpolated,
    remap_is_exact,
    remapped,
)
from .mapping import Mapping, OutputSize

__all__ = ["Warped", "voted"]

_MAX_CACHED_PIXELS: Final = 1 << 12  # up to so many pixels, coordinates are cached for several operators
_SHIFTS: Final = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0]  # other elements of a matrix that only shifts
_SIDE: Final = 32766  # greatest side that OpenCV supports
_CHANNELS: Final = 4  # most channels that OpenCV supports
_MAX_EXACT_CENTER: Final = 1 << 22  # up to so many pixels, float32 is exact for pixel centers
_ROW: Final = np.dtype([("matrix", np.float32, (3, 3)), ("fill", np.float32), ("kind", np.int32)])


class Warped(OutputSize, Resampled, register=False):
    """Base of operators that compute each pixel by interpolation at one point of the source.

    Coordinates are float32: their error is below 1/2000 of a pixel for images of 4096 pixels.
    """

    fill_value: Number = param(
        None, "value of pixels outside of the images; None repeats edge pixels", kind=float
    )
    interp_type: InterpolationKind = param(
        "linear", "interpolation: nearest, linear (2×2 pixels) or cubic (4×4 pixels)", choices=KINDS
    )
    body: ClassVar[Body | None] = Body("warp")
    kernel_row = _ROW
    # of OpenCV alone, for integers: its weights have errors up to 1e-5, which may change the rounding
    cpu_tolerance: ClassVar[tuple[float, float] | None] = (1.0, 0.02)

    @property
    def interpolation(self) -> Interpolated | None:
        """See :attr:`Geometry.interpolation`."""
        varies = isinstance(self.fill_value, (Distribution, Table, PerFrame, DataNode))
        return None if varies else Interpolated(self.interp_type, self.fill_value)

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """Return the kernel rows; the identity where the operator does not act."""
        result = np.zeros(len(rows), _ROW)
        result["matrix"] = self.mappings(rows, spec).matrices
        result["fill"] = rows["fill_value"]
        result["kind"] = np.where(rows["acts"], KINDS.index(self.interp_type), 0)
        return result

    def reference(self, x: Array, p: Any) -> Array:
        """Interpolate at each point."""
        coordinates = _coordinates_of(self.mapping(p, *x.shape[1:3]))
        return interpolated(x, *coordinates, self.interp_type, _fill_of(p))

    def cpu(self, x: Array, p: Any) -> Array:
        """Compute in C; integers with linear interpolation by OpenCV, and maps that only shift by copying."""
        mapping = self.mapping(p, *x.shape[1:3])
        shift = _shift_of(mapping) if p.whole and self.dtype is None else None
        if shift is not None:
            return _shifted(x, shift, mapping.height, mapping.width, _fill_of(p))
        takes = max(x.shape[1:3]) <= _SIDE and x.shape[3] <= _CHANNELS
        # errors of 1e-5 in weights are large for huge floats, and matter for NaN and infinity
        exact = not p.whole or x.dtype.kind == "f" or self.interp_type != "linear"
        if exact or not takes or not remap_is_exact(x.shape[3]):
            matrix, size = mapping.matrix.astype(np.float32), (mapping.height, mapping.width)
            result = quickly_interpolated(x, matrix, size, self.interp_type, _fill_of(p))
            if result is not None:
                return result
            return interpolated(
                x.astype(np.float32), *_coordinates_of(mapping), self.interp_type, _fill_of(p)
            )
        return remapped(x.astype(np.float32), *_coordinates_of(mapping), _fill_of(p))

    def mapped(self, matrix: FloatArray, height: int, width: int, *, inverse_map: bool) -> Mapping:
        """Return the mapping for the parameter ``matrix``.

        Args:
            matrix: 3×3; or several of them.
            height: rows of the input.
            width: columns of the input.
            inverse_map: whether it maps the result to the source.
        """
        if not inverse_map:
            for frame_matrix in matrix.reshape(-1, 3, 3):
                if not np.linalg.cond(frame_matrix) < 1e12:
                    raise self.refusal(
                        f"matrix={frame_matrix.tolist()} has no inverse",
                        allowed="an invertible matrix, or inverse_map=True",
                    )
            matrix = np.asarray(np.linalg.inv(matrix), np.float64)
        return Mapping(matrix, *(self.size or (height, width)))


def _fill_of(p: Any) -> float | None:
    return None if np.isnan(p.fill_value) else float(p.fill_value)


def _shift_of(mapping: Mapping) -> tuple[int, int] | None:
    """Return the columns and rows of a map that shifts by whole pixels; None for any other map."""
    across, down, last = mapping.matrix.tolist()
    left, top = across[2], down[2]
    moves = [*across[:2], *down[:2], *last] == _SHIFTS and max(abs(left), abs(top)) < _MAX_EXACT_CENTER
    return (int(left), int(top)) if moves and left.is_integer() and top.is_integer() else None


def _shifted(
    x: npt.NDArray[Any], by: tuple[int, int], height: int, width: int, fill: float | None
) -> npt.NDArray[Any]:
    """Shift integer images by whole pixels."""
    (left, right), (top, bottom) = (
        (start, start + side) for start, side in zip(by, (width, height), strict=True)
    )
    if fill is None:
        rows, columns = (
            np.clip(np.arange(first, end), 0, length - 1)
            for first, end, length in ((top, bottom, x.shape[1]), (left, right, x.shape[2]))
        )
        repeated: npt.NDArray[Any] = x[:, rows[:, None], columns]
        return repeated
    out = np.empty((len(x), height, width, x.shape[3]), x.dtype)
    put(out, np.array(fill, np.float32))
    shown = x[:, max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    above, before = max(-top, 0), max(-left, 0)
    out[:, above : above + shown.shape[1], before : before + shown.shape[2]] = shown
    return out


def _coordinates_of(mapping: Mapping) -> tuple[Any, Any]:
    matrix, height, width = mapping.matrix.astype(np.float32).tobytes(), mapping.height, mapping.width
    return (_few if height * width <= _MAX_CACHED_PIXELS else _many)(matrix, height, width)


@lru_cache(maxsize=2)  # frames of a sequence are consecutive
def _many(matrix: bytes, height: int, width: int) -> tuple[Any, Any]:
    return coordinates_of(np.frombuffer(matrix, np.float32).reshape(3, 3), height, width)


_few = lru_cache(maxsize=64)(_many.__wrapped__)


def voted(x: Array, mapping: Mapping) -> Array:
    """Move labels ``(F, H, W, C)``; each is the one with the greatest sum of linear weights around its point.

    Of labels with equal sums, the nearest pixel's wins, or else the least. Points outside of the labels get 0; edge
    pixels are repeated for the half pixel around them.
    """
    xp, (height, width) = namespace(x), x.shape[1:3]
    coordinates = coordinates_of(mapping.matrix.astype(np.float32), mapping.height, mapping.width)
    across, down = (xp.asarray(axis, np.float64) for axis in coordinates)
    across, down = xp.broadcast_arrays(across, down)
    inside = (across >= 0) & (across < width) & (down >= 0) & (down < height)
    columns, rows = xp.where(inside, across, 0) - 0.5, xp.where(inside, down, 0) - 0.5
    left, top = xp.floor(columns), xp.floor(rows)
    right, below = columns - left, rows - top
    weights = xp.stack([(1 - below) * (1 - right), (1 - below) * right, below * (1 - right), below * right])
    at = [
        (xp.clip(top + y, 0, height - 1).astype(np.int64), xp.clip(left + x_, 0, width - 1).astype(np.int64))
        for y in (0, 1)
        for x_ in (0, 1)
    ]
    nearest = weights.argmax(axis=0)
    out = xp.zeros((len(x), mapping.height, mapping.width, x.shape[3]), x.dtype)
    for frame, into in zip(x, out, strict=True):
        taps = xp.stack([frame[row, column] for row, column in at])
        winner = _winner(taps, weights[..., None], nearest[..., None])
        into[...] = xp.where(inside[..., None], winner, xp.zeros((), x.dtype))
    return out


def _winner(taps: Array, weights: Array, nearest: Array) -> Array:
    """Return, of four labels, the one with the greatest sum of weights."""
    xp = namespace(taps)
    own = xp.take_along_axis(taps, xp.broadcast_to(nearest, taps.shape[1:])[None], 0)[0]
    differs = (taps != taps[:1]).any(axis=0)
    if not bool(differs.any()):
        return own
    labels = taps[:, differs]
    shares = xp.broadcast_to(weights, taps.shape)[:, differs]
    sums = xp.stack([(shares * (labels == label)).sum(axis=0) for label in labels])
    wins = sums >= sums.max(axis=0) - 1e-9
    keeps = (wins & (labels == own[differs])).any(axis=0)
    most = labels.max(axis=0) if labels.dtype.kind != "b" else xp.ones(labels.shape[1:], labels.dtype)
    least = xp.where(wins, labels, most).min(axis=0)
    own[differs] = xp.where(keeps, own[differs], least)
    return own
