"""What saving as JPEG does to images."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..array import Array
from ._body import Body
from ._distribution import Number
from ._op import Op
from ._param import param
from ._spec import Spec, full_range

__all__ = ["JpegCompressionDistortion"]

_ROWS: Final = 32  # of images that are worked on together; a multiple of 16
# ITU-T T.81, Annex K.1: steps of the coefficients of luminance and of chrominance
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
_FREQUENCY, _PLACE = np.mgrid[:8, :8]
# the discrete cosine transform as a matrix: row = frequency, column = place
_COSINES: Final = np.where(_FREQUENCY, 0.5, 0.125**0.5) * np.cos((2 * _PLACE + 1) * _FREQUENCY * np.pi / 16)
_DCT: Final = _COSINES.astype(np.float32)
# JFIF: luminance and both differences from red, green and blue; and the way back from both differences
_TO_YCC: Final = (
    (0.299, 0.587, 0.114),
    (-0.168735892, -0.331264108, 0.5),
    (0.5, -0.418687589, -0.081312411),
)
_TO_RGB: Final = ((0.0, 1.402), (-0.344136286, -0.714136286), (1.772, 0.0))


class JpegCompressionDistortion(Op):
    """Change images of red, green and blue as saving them as JPEG and reading them again does.

    By the formulas of ITU-T T.81 and JFIF, with the tables and the scale of quality of the Independent JPEG Group,
    colour differences at half the resolution (4:2:0) and every pixel of a square of four given the same ones when
    read. Types but uint8 are brought to 8 bits and back. No file is made, on a CPU neither: every backend computes the
    formulas and gives the same, where encoders, each with a transform of its own, round some coefficients otherwise.
    """

    quality: Number = param(50, "from the smallest files to the best images", lo=1, hi=100)

    channels = (3,)
    derived = (("steps", 128), "scale")
    examples = (
        {"quality": 30},
        {"quality": (5, 95), "seed": 1},
        {"quality": 100},
    )
    errors = (({"quality": 0}, "quality=0 is not valid; allowed: a whole number from 1 to 100"),)

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """The steps of the coefficients, and what makes 8 bits of levels."""
        quality = rows["quality"][:, None].astype(np.int64)
        percent = np.where(quality < 50, 5000 // quality, 200 - 2 * quality)
        return {
            "steps": np.clip((_STEPS * percent + 50) // 100, 1, 255),
            "scale": np.float32(255 / full_range(spec.dtype)),
        }

    def reference(self, x: Array, p: Any) -> Array:
        """The formulas, each plane for itself."""
        height, width = x.shape[1:3]
        levels = _levels(x * p.scale)
        luminance, *differences = (_levels(_weighted(levels, row) + offset) for row, offset in _planes())
        # as libjpeg has it: columns are repeated before the mean, rows after it
        halves = [_halved(_grown(_grown(plane, 2, 16), 1, 2)) for plane in differences]
        planes = [_squeezed(_grown(_grown(luminance, 1, 8), 2, 8), p.steps[:64])]
        planes += [_squeezed(_grown(half, 1, 8), p.steps[64:]).repeat(2, 1).repeat(2, 2) for half in halves]
        y, blue, red = (plane[:, :height, :width] for plane in planes)
        blue, red = blue - np.float32(128), red - np.float32(128)
        rgb = [_levels(y + (blue * np.float32(b) + red * np.float32(r))) for b, r in _TO_RGB]
        return np.stack(rgb, axis=-1) / p.scale

    def cpu(self, x: Array, p: Any) -> Array:
        """The same, some rows of blocks at a time, which stay in the cache."""
        starts = range(0, x.shape[1], _ROWS)
        return np.concatenate([self.reference(x[:, top : top + _ROWS], p) for top in starts], axis=1)

    @classmethod
    def kernel_dtype(cls) -> np.dtype[Any]:
        """What is derived, four steps as the bytes of a number: rows so short are given by value, without a copy."""
        return np.dtype([("acts", np.int32), ("scale", np.float32), ("steps", np.int32, (_STEPS.size // 4,))])

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:  # noqa: ARG002  rows have all of it
        """The same of each row."""
        made = np.zeros(len(rows), self.kernel_dtype())
        made["acts"], made["scale"] = rows["acts"], rows["scale"]
        made["steps"] = rows["steps"].astype(np.uint8).view("<i4")
        return made

    body = Body("jpeg", ", ".join(f"{float(value)!r}f" for value in _DCT.ravel()))


def _planes() -> tuple[tuple[tuple[float, ...], np.float32], ...]:
    """Weights of red, green and blue, and what is added, for each plane."""
    return tuple((row, np.float32(128 if n else 0)) for n, row in enumerate(_TO_YCC))


def _weighted(x: Array, weights: tuple[float, ...]) -> Array:
    red, green, blue = (x[..., n] * np.float32(weight) for n, weight in enumerate(weights))
    found: Array = red + green + blue
    return found


def _levels(x: Array) -> Array:
    """Whole numbers from 0 to 255."""
    return np.rint(np.fmin(np.fmax(x, np.float32(0)), np.float32(255)))


def _grown(x: Array, axis: int, multiple: int) -> Array:
    """Planes whose length along an axis is a multiple of some number: the last line is repeated."""
    length = x.shape[axis]
    return x.take(np.minimum(np.arange(-(-length // multiple) * multiple), length - 1), axis)


def _halved(x: Array) -> Array:
    """Means of squares of four pixels, rounded down and up in turn where they lie at a half, as by libjpeg."""
    total = x[:, ::2, ::2] + x[:, ::2, 1::2] + x[:, 1::2, ::2] + x[:, 1::2, 1::2]
    turn = 1 + np.arange(total.shape[2]) % 2
    return np.floor((total + turn.astype(np.float32)) * np.float32(0.25))


def _squeezed(x: Array, steps: Array) -> Array:
    """Planes after their coefficients have been rounded to steps."""
    frames, height, width = x.shape
    # columns and rows of all blocks together, so that NumPy's inner loops are long
    apart = (x - np.float32(128)).reshape(frames, height // 8, 8, width // 8, 8).transpose(4, 2, 0, 1, 3)
    found = _turned(_turned(apart.reshape(8, 8, -1), _DCT).swapaxes(0, 1), _DCT)
    every = steps.reshape(8, 8, 1)
    found /= every
    np.rint(found, out=found)
    found *= every
    found = _turned(_turned(found, _DCT.T).swapaxes(0, 1), _DCT.T)
    found = found.reshape(8, 8, frames, height // 8, width // 8).transpose(2, 3, 1, 4, 0).reshape(x.shape)
    return _levels(found + np.float32(128))


def _turned(x: Array, matrix: Array) -> Array:
    """The product of a matrix and the first axis of three, added in the order of that axis."""
    found = x[:1] * matrix[:, 0, None, None]
    part = np.empty_like(found)
    for place in range(1, 8):
        np.multiply(x[place], matrix[:, place, None, None], out=part)
        found += part
    return found
