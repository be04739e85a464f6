"""Cubic B-spline interpolation: weights, and the prefilter that turns voxels into spline coefficients."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..array import Array, FloatArray, namespace

__all__ = ["PAD", "coefficients", "slopes", "weights"]

PAD: Final = 12
"""Voxels added at each border before the prefilter, as in SciPy."""

_POLE: Final = 3.0**0.5 - 2.0


def weights(offset: FloatArray) -> FloatArray:
    """Return the weights of the four coefficients around a position, in a new last axis."""
    rest = 1 - offset
    cubics = [rest**3, 3 * offset**3 - 6 * offset**2 + 4, 3 * rest**3 - 6 * rest**2 + 4, offset**3]
    result: FloatArray = np.stack(cubics, axis=-1) / 6
    return result


def slopes(offset: FloatArray) -> FloatArray:
    """Return the derivatives of :func:`weights` with respect to the position."""
    rest = 1 - offset
    quadratics = [-3 * rest**2, 9 * offset**2 - 12 * offset, -9 * rest**2 + 12 * rest, 3 * offset**2]
    result: FloatArray = np.stack(quadratics, axis=-1) / 6
    return result


def coefficients(volume: Array, fill_value: float | None) -> Array:
    """Return the spline's coefficients, float64, with :data:`PAD` more at each border."""
    xp, sides = namespace(volume), [(PAD, PAD)] * 3 + [(0, 0)]
    wide = volume.astype(np.float64)
    padded = (
        xp.pad(wide, sides, mode="edge")
        if fill_value is None
        else xp.pad(wide, sides, mode="constant", constant_values=fill_value)
    )
    for axis in range(3):
        _prefilter(xp.moveaxis(padded, axis, 0))
    return padded


def _prefilter(lines: Array) -> None:
    """Apply the recursive filter along the first axis, of more than 24 values, in place, with mirrored ends."""
    xp = namespace(lines)
    lines *= (1 - _POLE) * (1 - 1 / _POLE)
    powers = xp.asarray(_POLE ** np.arange(len(lines)))
    lines[0] = xp.tensordot(powers, lines, 1)  # the mirror image of the far end is below float64's precision
    for n in range(1, len(lines)):
        lines[n] += _POLE * lines[n - 1]
    lines[-1] = _POLE / (_POLE * _POLE - 1) * (lines[-1] + _POLE * lines[-2])
    for n in range(len(lines) - 2, -1, -1):
        lines[n] = _POLE * (lines[n + 1] - lines[n])
