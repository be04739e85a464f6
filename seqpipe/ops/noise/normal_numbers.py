"""Normally distributed numbers from random bits, bit-exact on every device.

The inverse of the distribution is approximated by 1472 linear pieces: 64 for each power of 2 of the tail probability,
down to 2⁻²³. Its error is at most 1.4·10⁻⁵, and numbers reach 5.29. Each number takes two rounded operations of
float32, and no function whose rounding differs between libraries.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from ...core.native import buffer_of
from ...core.philox import Bits
from .native import native_noise

__all__ = ["Floats", "fast_normal", "normal", "normal_indices", "normal_lines"]

Floats = npt.NDArray[np.float32]

_PARTS: Final = 64  # pieces of a power of 2
_PART_BITS: Final = 17  # low bits of a float32, the position within a piece
_POWERS: Final = range(8, 31)  # powers of 2 of the bits as integers that are no multiples of 2⁹
_FIRST: Final = (_POWERS.start + 127) * _PARTS  # index of the first piece in the bits of a float32
_UNIT: Final = 2.0**-20


@cache
def normal_indices() -> tuple[int, ...]:
    """Return the inverse at the ends of the pieces, from the far tail to 0, in units of 2⁻²⁰.

    The units are so coarse that all libraries' logarithms give the same integers.
    """
    from statistics import NormalDist

    parts = [2.0 ** (power - 31) * (1 + part / _PARTS) for power in _POWERS for part in range(_PARTS)]
    inverse = NormalDist().inv_cdf
    return tuple(round(-inverse(outside / 2) / _UNIT) for outside in (*parts, 1.0))


@cache
def normal_lines() -> Floats:
    """Return the pieces ``(parts, 2)``: intercept and slope, exact in float32."""
    indices = np.array(normal_indices())
    steps, number = np.diff(indices), np.arange(len(indices) - 1)
    power, part = number // _PARTS + _POWERS.start, number % _PARTS
    at_zero = (indices[:-1] - steps * (_PARTS + part)) * _UNIT
    slope = steps * _UNIT / 2.0**power * _PARTS
    return np.stack([at_zero, slope], axis=1).astype(np.float32)


def normal(bits: Bits) -> Floats:
    """Return numbers of the standard normal distribution.

    The upper 23 bits are a signed integer; the closer to 0 it is, the farther from 0 is the number.
    """
    position = (bits & np.uint32(0xFFFFFE00) | np.uint32(0x100)).view(np.int32).astype(np.float32)
    outside = np.abs(position)
    line = normal_lines()[(outside.view(np.uint32) >> np.uint32(_PART_BITS)) - np.uint32(_FIRST)]
    size = line[..., 0] + line[..., 1] * outside
    result: Floats = np.copysign(size, position)
    return result


def fast_normal(bits: Bits) -> Floats:
    """Compute :func:`normal` in C for contiguous bits, if there is a C compiler."""
    native = native_noise()
    if native is None:
        return normal(bits)
    result = np.empty(bits.shape, np.float32)
    native.seqpipe_normals(buffer_of(bits), bits.size, buffer_of(normal_lines()), _FIRST, buffer_of(result))
    return result
