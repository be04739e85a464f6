"""Operators that change the color space."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray
from ..core.parameters import param
from ..core.spec import Spec, full_range
from ..core.traits import Body
from .matrix import ColorMatrix

__all__ = ["ColorSpaceConversion", "Grayscale"]

_CHANNELS: Final = {"BGR": 3, "GRAY": 1, "RGB": 3, "YCbCr": 3}

_LUMA: Final = np.array([0.299, 0.587, 0.114])
"""Weights of red, green and blue by ITU-R BT.601."""


class Grayscale(ColorMatrix):
    """Replace colors by their luma in all three channels.

    ``out = 0.299 R + 0.587 G + 0.114 B``, the luma of ITU-R BT.601, as in Pillow, OpenCV and torchvision.
    """

    examples = ({}, {"p": 0.5, "seed": 6})

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  it is the same for all
        """Derive the weights, three times."""
        return {"matrix": np.tile(_LUMA, 3), "offset": 0}

    def cpu(self, x: Array, p: Any) -> Array:
        """Compute the luma once for all three channels."""
        red, green, blue = p.matrix[:3]
        luma = x[..., :1] * red
        luma += x[..., 1:2] * green
        luma += x[..., 2:] * blue
        return np.broadcast_to(luma, x.shape)


class ColorSpaceConversion(ColorMatrix):
    """Convert between color spaces.

    RGB; BGR; GRAY, the luma ``0.299 R + 0.587 G + 0.114 B`` as one channel; and YCbCr by ITU-R BT.601 for video: in 8
    bits, Y from 16 to 235, Cb and Cr from 16 to 240 around 128; for other dtypes the same shares of their range.
    """

    image_type: str = param("BGR", "color space of the input", choices=tuple(_CHANNELS))
    output_type: str = param("RGB", "color space of the result", choices=tuple(_CHANNELS))

    examples = (
        {"image_type": "RGB", "output_type": "YCbCr"},
        {"image_type": "YCbCr", "output_type": "BGR"},
        {"image_type": "BGR", "output_type": "GRAY"},
        {},
    )
    errors = (
        ({"output_type": "BGR"}, "image_type and output_type are both 'BGR'; allowed: different ones"),
        ({"output_type": "GRAY", "p": 0.5}, "p=0.5 of a conversion from 3 values to 1; allowed: 1"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        before, after = _CHANNELS[self.image_type], _CHANNELS[self.output_type]
        if self.image_type == self.output_type:
            raise self.refusal(
                f"image_type and output_type are both {self.image_type!r}", allowed="different ones"
            )
        if self.p < 1 and before != after:
            raise self.refusal(
                f"p={self.p} of a conversion from {before} values to {after}",
                allowed="1",
                advice="Use grayscale, which keeps three values",
            )
        self.override_traits(channels=(before,))

    def result_channels(self, channels: int) -> int:  # noqa: ARG002  a parameter states it
        """Return the number of channels of ``output_type``."""
        return _CHANNELS[self.output_type]

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  it is the same for all
        """Derive the matrix between the spaces, and the offset."""
        matrix, offset = _between(self.image_type, self.output_type)
        return {"matrix": matrix.ravel(), "offset": offset * full_range(spec.dtype)}

    def cpu(self, x: Array, p: Any) -> Array:
        """Reverse the channels between RGB and BGR; compute the matrix otherwise."""
        if {self.image_type, self.output_type} == {"RGB", "BGR"}:
            return x[..., ::-1]
        return super().cpu(x, p)

    body = Body("space")


@lru_cache(maxsize=32)
def _between(source: str, target: str) -> tuple[FloatArray, FloatArray]:
    """Return the matrix from one space to another, and the offset relative to the range."""
    (to, added), (back, before) = _of_rgb(target), _of_rgb(source)
    inverse = np.linalg.inv(back) if source != "GRAY" else np.outer(np.ones(3), [1.0, 0.0, 0.0])
    matrix = to @ inverse
    matrix[np.abs(matrix) < 1e-9] = 0  # rounding errors of the inverse
    return matrix, added - matrix @ before


def _of_rgb(space: str) -> tuple[FloatArray, FloatArray]:
    """Return the matrix from RGB to a space, and the offset relative to the range."""
    matrix, added = np.eye(3), np.zeros(3)
    if space == "BGR":
        return matrix[::-1], added
    if space == "GRAY":
        return np.stack([_LUMA, added, added]), added
    if space == "YCbCr":
        blue, red = ((matrix[at] - _LUMA) / (2 - 2 * _LUMA[at]) for at in (2, 0))
        levels = np.array([219.0, 224.0, 224.0])
        return np.stack([_LUMA, blue, red]) * levels[:, None] / 255, np.array([16.0, 128.0, 128.0]) / 255
    return matrix, added
