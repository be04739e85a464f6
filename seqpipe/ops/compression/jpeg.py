"""JPEG compression artifacts."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import Array
from ...core.native import buffer_of, load_functions
from ..call.op import Op
from ..core.distributions import Number
from ..core.parameters import param
from ..core.spec import Spec, full_range
from ..core.traits import Body

__all__ = ["JpegCompressionDistortion"]

_ROWS: Final = 32  # rows that are processed together; a multiple of 16
# ITU-T T.81, Annex K.1: quantization steps of luma and chroma coefficients
_LUMINANCE: Final = (
    *(16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56),
    *(14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92),
    *(49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99),
)
_CHROMINANCE: Final = (
    *(17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99),
    *(47, 66, 99, 99, 99, 99, 99, 99, *(99,) * 32),
)
_STEPS: Final = np.array([*_LUMINANCE, *_CHROMINANCE], np.int64)
# JFIF: luma and both chroma components from RGB, in units of 2⁻¹⁶; and RGB from both chroma components
_TO_YCC: Final = ((19595, 38470, 7471), (-11059, -21709, 32768), (32768, -27439, -5329))
_TO_RGB: Final = ((0, 91881), (-22554, -46802), (116130, 0))
_HALF: Final = 1 << 15
_OFFSETS: Final = (_HALF, (128 << 16) + _HALF - 1, (128 << 16) + _HALF - 1)
_BITS: Final = 13  # fraction bits of the factors of the transform
_EXTRA_BITS: Final = 2  # additional bits between its two passes


class JpegCompressionDistortion(Op):
    """Add the artifacts of JPEG compression to RGB images.

    It does what libjpeg does, in the same integer arithmetic, without a file: colors by JFIF, chroma at half the
    resolution (4:2:0), the accurate integer transform (``JDCT_ISLOW``; Loeffler, Ligtenberg and Moschytz, "Practical
    fast 1-D DCT algorithms with 11 multiplications", 1989), the tables of ITU-T T.81 and the quality scale of the
    Independent JPEG Group. The four pixels of a chroma sample get the same chroma (``do_fancy_upsampling`` is off).
    Dtypes other than uint8 are converted to 8 bits and back.
    """

    quality: Number = param(50, "JPEG quality", lo=1, hi=100)

    channels = (3,)
    takes_raw = True
    derived = (("steps", 128), "scale")
    examples = (
        {"quality": 30},
        {"quality": (5, 95), "seed": 1},
        {"quality": 100},
    )

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """Derive the quantization steps, and the scale to 8 bits."""
        quality = rows["quality"][:, None].astype(np.int64)
        percent = np.where(quality < 50, 5000 // quality, 200 - 2 * quality)
        return {
            "steps": np.clip((_STEPS * percent + 50) // 100, 1, 255),
            "scale": np.float32(255 / full_range(spec.dtype)),
        }

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the steps of libjpeg, plane by plane."""
        height, width = x.shape[1:3]
        colors = _to_8_bits(x * p.scale).astype(np.int32)
        luminance, *differences = (
            _weighted(colors, row, offset) for row, offset in zip(_TO_YCC, _OFFSETS, strict=True)
        )
        # libjpeg repeats columns before averaging, and rows after it
        halves = [_halved(_grown(_grown(plane, 2, 16), 1, 2)) for plane in differences]
        steps = p.steps.astype(np.int32)
        planes = [_squeezed(_grown(_grown(luminance, 1, 8), 2, 8), steps[:64])]
        planes += [_squeezed(_grown(half, 1, 8), steps[64:]).repeat(2, 1).repeat(2, 2) for half in halves]
        y, blue, red = (plane[:, :height, :width] for plane in planes)
        blue, red = blue - 128, red - 128
        rgb = [y + ((blue * of_blue + red * of_red + _HALF) >> 16) for of_blue, of_red in _TO_RGB]
        return np.stack(rgb, axis=-1).clip(0, 255).astype(np.float32) / p.scale

    def cpu(self, x: Array, p: Any) -> Array:
        """Compute in C; without a C compiler by the reference, in groups of block rows that fit the cache."""
        native = _native()
        if native is None:
            starts = range(0, x.shape[1], _ROWS)
            parts = (x[:, top : top + _ROWS].astype(np.float32) for top in starts)
            return np.concatenate([self.reference(part, p) for part in parts], axis=1)
        is_uint8 = x.dtype == np.uint8
        frames = np.ascontiguousarray(
            x if is_uint8 else _to_8_bits(x.astype(np.float32) * p.scale).astype(np.uint8)
        )
        result = np.empty_like(frames)
        steps = p.steps.astype(np.uint8)
        native.seqpipe_jpeg(frames.ctypes.data, *frames.shape[:3], buffer_of(steps), buffer_of(result))
        return result if is_uint8 else result.astype(np.float32) / p.scale

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:  # noqa: ARG002  rows suffice
        """Return the kernel rows."""
        result = np.zeros(len(rows), self.kernel_dtype())
        result["acts"], result["scale"] = rows["acts"], rows["scale"]
        result["steps"] = rows["steps"].astype(np.uint8).view("<i4")
        return result

    # four steps in an integer, so that rows fit kernel arguments
    kernel_row = np.dtype(
        [("acts", np.int32), ("scale", np.float32), ("steps", np.int32, (_STEPS.size // 4,))]
    )
    body = Body("jpeg", numbers=lambda: _weights().ravel().tolist())


@cache
def _native() -> Any:
    """Return the functions of ``jpeg.c``; None without a C compiler."""
    images, length, pointer = ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p
    return load_functions(
        __package__, "jpeg.c", {"jpeg": (pointer, images, length, length, pointer, pointer)}
    )


def _to_8_bits(x: Array) -> Array:
    """Return integers from 0 to 255."""
    return np.rint(np.fmin(np.fmax(x, np.float32(0)), np.float32(255)))


def _weighted(colors: Array, weights: tuple[int, ...], offset: int) -> Array:
    red, green, blue = (colors[..., n] * weight for n, weight in enumerate(weights))
    return (red + green + blue + offset) >> 16


def _grown(x: Array, axis: int, multiple: int) -> Array:
    """Extend planes to a multiple of some length along an axis by repeating the last line."""
    length = x.shape[axis]
    return x.take(np.minimum(np.arange(-(-length // multiple) * multiple), length - 1), axis)


def _halved(x: Array) -> Array:
    """Return the means of 2×2 pixels; halves are rounded down and up in alternate columns, as in libjpeg."""
    total = x[:, ::2, ::2] + x[:, ::2, 1::2] + x[:, 1::2, ::2] + x[:, 1::2, 1::2]
    return (total + 1 + np.arange(total.shape[2], dtype=np.int32) % 2) >> 2


def _squeezed(x: Array, steps: Array) -> Array:
    """Return planes after quantization of their coefficients."""
    frames, height, width = x.shape
    # (column, row, block), so that NumPy's inner loops are long
    apart = (
        (x - 128).reshape(frames, height // 8, 8, width // 8, 8).transpose(4, 2, 0, 1, 3).reshape(8, 8, -1)
    )
    result = _frequencies(_frequencies(apart, -_EXTRA_BITS).swapaxes(0, 1), _EXTRA_BITS)
    step = steps.reshape(8, 8, 1)
    # coefficients are scaled by 8, and halves are rounded away from 0
    sizes = (np.abs(result) + 4 * step) // (8 * step) * step
    result = np.where(result < 0, -sizes, sizes)
    result = _values_of(_values_of(result, _BITS - _EXTRA_BITS).swapaxes(0, 1), _BITS + _EXTRA_BITS + 3)
    result = result.reshape(8, 8, frames, height // 8, width // 8).transpose(2, 3, 1, 4, 0).reshape(x.shape)
    return (result + 128).clip(0, 255)


def _frequencies(x: Array, passed: int) -> Array:
    """Transform the first axis, of eight values, as ``jpeg_fdct_islow`` does."""
    sums, differences = [x[k] + x[7 - k] for k in range(4)], [x[k] - x[7 - k] for k in range(4)]
    outer, inner = sums[0] + sums[3], sums[1] + sums[2]
    of_outer, of_inner = sums[0] - sums[3], sums[1] - sums[2]
    common = (of_inner + of_outer) * 4433
    even = common + of_outer * 6270, common - of_inner * 15137
    odd = _odd(differences[3], differences[2], differences[1], differences[0])
    whole = [outer + inner, outer - inner]
    first, middle = (
        (value << -passed for value in whole) if passed < 0 else (_rounded(value, passed) for value in whole)
    )
    one, two, three, five, six, seven = (
        _rounded(value, _BITS + passed) for value in (odd[3], even[0], odd[2], odd[1], even[1], odd[0])
    )
    return np.stack([first, one, two, three, middle, five, six, seven])


def _weights() -> Array:
    """Return the transform as an integer matrix in units of 2⁻¹³, with a row for each frequency."""
    return _frequencies(np.eye(8, dtype=np.int32) << (_BITS - _EXTRA_BITS), -_EXTRA_BITS)


def _values_of(x: Array, bits: int) -> Array:
    """Compute the inverse transform as ``jpeg_idct_islow`` does, which removes ``bits`` bits."""
    common = (x[2] + x[6]) * 4433
    low, high = common - x[6] * 15137, common + x[2] * 6270
    sums, differences = (x[0] + x[4]) << _BITS, (x[0] - x[4]) << _BITS
    even = sums + high, differences + low, differences - low, sums - high
    odd = _odd(x[7], x[5], x[3], x[1])[::-1]
    result = [even[k] + odd[k] for k in range(4)] + [even[k] - odd[k] for k in (3, 2, 1, 0)]
    return np.stack([_rounded(value, bits) for value in result])


def _odd(a: Array, b: Array, c: Array, d: Array) -> tuple[Array, ...]:
    """Return the odd part, which the forward and the inverse transform share."""
    common = (a + b + c + d) * 9633
    outer, inner = (a + d) * -7373, (b + c) * -20995
    even, odd = (a + c) * -16069 + common, (b + d) * -3196 + common
    return a * 2446 + outer + even, b * 16819 + inner + odd, c * 25172 + inner + even, d * 12299 + outer + odd


def _rounded(x: Array, bits: int) -> Array:
    return (x + (1 << (bits - 1))) >> bits
