"""Cubic B-splines: a volume interpolated by order 3, smooth and through its voxels, as ``scipy.ndimage`` does it."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from itertools import product
from typing import Final

import numpy as np
import numpy.typing as npt

from ...array import FloatArray, IntArray
from ..source import AnyArray

__all__ = ["MARGIN", "PAD", "coefficients", "sampled"]

MARGIN: Final = 10
"""Voxels around a window that its values depend on, to 2e-6 of the range."""
PAD: Final = 12
"""Voxels that are added at each border before coefficients are computed, as SciPy adds them."""

_POLE: Final = np.sqrt(3.0) - 2.0


def coefficients(array: AnyArray, fill_value: float | None) -> FloatArray:
    """The coefficients of the spline through all voxels of ``DHWC``, :data:`PAD` more at each border.

    Args:
        array: of any real type.
        fill_value: what lies outside; None repeats the edge.
    """
    sides = [(PAD, PAD)] * 3 + [(0, 0)]
    wide = array.astype(np.float64)
    made: FloatArray = (
        np.pad(wide, sides, mode="edge")
        if fill_value is None
        else np.pad(wide, sides, constant_values=fill_value)
    )
    for axis in range(3):
        _filter(np.moveaxis(made, axis, 0))
    return made


def _filter(lines: FloatArray) -> None:
    """The recursive filter along the first axis, in place, with mirrored ends; its length is above 24."""
    lines *= (1 - _POLE) * (1 - 1 / _POLE)
    powers = _POLE ** np.arange(len(lines))
    lines[0] = np.tensordot(powers, lines, 1)  # the end's mirror image is beyond float64
    for n in range(1, len(lines)):
        lines[n] += _POLE * lines[n - 1]
    lines[-1] = _POLE / (_POLE * _POLE - 1) * (lines[-1] + _POLE * lines[-2])
    for n in range(len(lines) - 2, -1, -1):
        lines[n] = _POLE * (lines[n + 1] - lines[n])


def sampled(
    array: AnyArray,
    matrix: FloatArray,
    places_of: Callable[[int], FloatArray],
    shape: Seq[int],
    fill_value: float | None,
) -> FloatArray:
    """A volume at the places of another grid, in float64.

    Args:
        array: ``DHWC``.
        matrix: 4×4, from the indices of the result to those of the array.
        places_of: the same for all of a slice: the places (3, H, W) in the array.
        shape: D, H and W of the result.
        fill_value: what lies outside; None repeats the edge.
    """
    spline = coefficients(array, fill_value)
    sizes = array.shape[:3]
    linear = matrix[:3, :3]
    if (linear == np.diag(np.diag(linear))).all():
        return _along_axes(spline, matrix, shape, sizes, fill_value)
    made = np.empty((*shape, array.shape[3]))
    for depth in range(shape[0]):
        taps = [_taps(places, size, fill_value) for places, size in zip(places_of(depth), sizes, strict=True)]
        (d, wd, far_d), (h, wh, far_h), (w, ww, far_w) = taps
        total = np.zeros((shape[1], shape[2], array.shape[3]))
        for i, j, k in product(range(4), repeat=3):
            total += spline[d + i, h + j, w + k] * (wd[i] * wh[j] * ww[k])[..., None]
        total[far_d | far_h | far_w] = fill_value
        made[depth] = total
    return made


def _along_axes(
    spline: FloatArray, matrix: FloatArray, shape: Seq[int], sizes: Seq[int], fill_value: float | None
) -> FloatArray:
    """The same for grids with parallel axes, one axis after the other."""
    made, beyond = spline, []
    for axis in range(3):
        places = matrix[axis, axis] * np.arange(shape[axis]) + matrix[axis, 3]
        first, weights, far = _taps(places, sizes[axis], fill_value)
        form = [-1 if a == axis else 1 for a in range(4)]
        made = sum(
            (np.take(made, first + n, axis=axis) * weights[n].reshape(form) for n in range(1, 4)),
            np.take(made, first, axis=axis) * weights[0].reshape(form),
        )
        beyond.append(far)
    for axis, far in enumerate(beyond):
        np.moveaxis(made, axis, 0)[far] = fill_value
    return made


def _taps(
    places: FloatArray, size: int, fill_value: float | None
) -> tuple[IntArray, list[FloatArray], npt.NDArray[np.bool_]]:
    """The first of four coefficients for places along an axis, their weights, and which places are filled."""
    # beyond its border the spline goes on into what fills
    reach = 0 if fill_value is None else PAD - 3
    inside = np.clip(places, -reach, size - 1.0 + reach)
    cells = np.floor(inside)
    far = (places != inside) & (fill_value is not None)
    return cells.astype(np.int64) + PAD - 1, _weights(inside - cells), far


def _weights(part: FloatArray) -> list[FloatArray]:
    """Those of the four coefficients around a place, from how far it is beyond the second."""
    rest = 1 - part
    return [
        rest**3 / 6,
        2 / 3 - part**2 * (2 - part) / 2,
        2 / 3 - rest**2 * (2 - rest) / 2,
        part**3 / 6,
    ]
