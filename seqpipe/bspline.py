"""Cubic B-splines: their weights, and the coefficients of the spline through all voxels of a volume."""

from __future__ import annotations

from typing import Final

import numpy as np

from .array import Array, FloatArray, namespace

__all__ = ["PAD", "coefficients", "slopes", "weights"]

PAD: Final = 12
"""Voxels that are added at each border before coefficients are computed, as SciPy adds them."""

_POLE: Final = 3.0**0.5 - 2.0


def weights(part: FloatArray) -> FloatArray:
    """What the four coefficients around a place are worth, in a new last axis.

    Args:
        part: how far it is behind the second of them, from 0 to 1.
    """
    rest = 1 - part
    made = [rest**3, 3 * part**3 - 6 * part**2 + 4, 3 * rest**3 - 6 * rest**2 + 4, part**3]
    found: FloatArray = np.stack(made, axis=-1) / 6
    return found


def slopes(part: FloatArray) -> FloatArray:
    """The derivatives of :func:`weights` by the place."""
    rest = 1 - part
    made = [-3 * rest**2, 9 * part**2 - 12 * part, -9 * rest**2 + 12 * rest, 3 * part**2]
    found: FloatArray = np.stack(made, axis=-1) / 6
    return found


def coefficients(volume: Array, fill_value: float | None) -> Array:
    """The coefficients of the spline through all voxels, float64, with :data:`PAD` more at each border.

    Args:
        volume: ``(D, H, W, C)`` of any real type, NumPy or CuPy.
        fill_value: what lies outside; None repeats the edge.
    """
    xp, sides = namespace(volume), [(PAD, PAD)] * 3 + [(0, 0)]
    wide = volume.astype(np.float64)
    made = (
        xp.pad(wide, sides, mode="edge")
        if fill_value is None
        else xp.pad(wide, sides, mode="constant", constant_values=fill_value)
    )
    for axis in range(3):
        _filter(xp.moveaxis(made, axis, 0))
    return made


def _filter(lines: Array) -> None:
    """The recursive filter along the first axis, in place, with mirrored ends; its length is above 24."""
    xp = namespace(lines)
    lines *= (1 - _POLE) * (1 - 1 / _POLE)
    powers = xp.asarray(_POLE ** np.arange(len(lines)))
    lines[0] = xp.tensordot(powers, lines, 1)  # the end's mirror image is beyond float64
    for n in range(1, len(lines)):
        lines[n] += _POLE * lines[n - 1]
    lines[-1] = _POLE / (_POLE * _POLE - 1) * (lines[-1] + _POLE * lines[-2])
    for n in range(len(lines) - 2, -1, -1):
        lines[n] = _POLE * (lines[n + 1] - lines[n])
