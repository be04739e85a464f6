"""Operators that mix the colors of a pixel by a matrix: hue, saturation, value, and all of it with contrast."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import FloatArray
from ..call.ranged import Ranged
from ..core.distributions import Number
from ..core.parameters import param
from ..core.spec import COMPUTED, Spec
from .matrix import ColorMatrix

__all__ = ["ColorTwist", "Hsv", "Hue", "Saturation"]

_YIQ: Final = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
"""RGB to the YIQ of NTSC: luma, and color as a vector of two. These three digits are those of DALI; they tint grays by
up to 0.3 % of their level."""
_RGB: Final = np.linalg.inv(_YIQ)


class _Turn(ColorMatrix, register=False):
    """An operator whose matrix follows from parameters of color."""

    dtype: str | None = param(None, "dtype of the result; None for that of the input", choices=COMPUTED)

    def result_dtype(self, dtype: str) -> str:
        """The type that is asked for."""
        return self.dtype or dtype

    @abstractmethod
    def matrix(self, rows: npt.NDArray[Any]) -> FloatArray:
        """The matrices of a block's rows, ``(R, 3, 3)``."""

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  for those with an offset
        """The matrices, row by row."""
        return {"matrix": self.matrix(rows).reshape(-1, 9), "offset": 0}


def _turned(hue: Any, saturation: Any = 1.0, value: Any = 1.0) -> FloatArray:
    """Matrices that turn the color by an angle in degrees and multiply it, and then everything."""
    hue, saturation, value = (np.asarray(q, np.float64) for q in (hue, saturation, value))
    angle = np.radians(hue)
    along, across = np.cos(angle) * saturation, np.sin(angle) * saturation
    middle = np.zeros((*along.shape, 3, 3))
    middle[..., 0, 0] = 1
    middle[..., 1, 1] = middle[..., 2, 2] = along
    middle[..., 1, 2], middle[..., 2, 1] = across, -across
    return np.asarray(_RGB @ middle @ _YIQ * value[..., None, None])


class Hue(_Turn):
    """Turn the hue of colors.

    RGB is taken to YIQ, where color is a vector of two; that is turned by ``hue`` degrees, and taken back: a matrix,
    as DALI has it, and not the hue of HSV. Red turns to green from 0 to 120 degrees, and to blue from 0 to -120.
    """

    hue: Number = param(0.0, "angle by which the hue is rotated", unit="degrees", identity=0.0)

    examples = ({"hue": 60.0}, {"hue": (-30.0, 30.0), "seed": 1}, {"hue": -120.0, "dtype": "float32"})
    errors = (({"hue": "red"}, "hue='red' is not valid; allowed: a number"),)

    def matrix(self, rows: npt.NDArray[Any]) -> FloatArray:
        """The turn."""
        return _turned(rows["hue"])


class Saturation(_Turn):
    """Make colors stronger or weaker.

    RGB is taken to YIQ, where color is a vector of two; that is multiplied by ``saturation``, and taken back, as DALI
    has it. 0 leaves the luma ``0.299 R + 0.587 G + 0.114 B``.
    """

    saturation: Number = param(1.0, "factor of the saturation", lo=0, identity=1.0)

    examples = (
        {"saturation": 0.5},
        {"saturation": (0.5, 1.5), "seed": 1},
        {"saturation": 2.0, "dtype": "float32"},
    )
    errors = (({"saturation": -1}, "saturation=-1 is not valid; allowed: a number of at least 0"),)

    def matrix(self, rows: npt.NDArray[Any]) -> FloatArray:
        """The factor of the color."""
        return _turned(0.0, rows["saturation"])


class Hsv(_Turn):
    """Turn hue, make colors stronger or weaker, and everything lighter or darker.

    RGB is taken to YIQ, where color is a vector of two; that is turned by ``hue`` degrees and multiplied by
    ``saturation``, everything is multiplied by ``value``, and taken back: DALI's approximation of a change in HSV.
    """

    hue: Number = param(0.0, "angle by which the hue is rotated", unit="degrees", identity=0.0)
    saturation: Number = param(1.0, "factor of the saturation", lo=0, identity=1.0)
    value: Number = param(1.0, "factor of the value", lo=0, identity=1.0)

    examples = (
        {"hue": 40.0, "saturation": 1.5, "value": 0.8},
        {"hue": (-30.0, 30.0), "saturation": (0.5, 1.5), "value": (0.7, 1.3), "seed": 1},
        {"saturation": 0.5},
    )
    errors = (({"value": -1}, "value=-1 is not valid; allowed: a number of at least 0"),)

    def matrix(self, rows: npt.NDArray[Any]) -> FloatArray:
        """The turn and the factors."""
        return _turned(rows["hue"], rows["saturation"], rows["value"])


class ColorTwist(Ranged, _Turn):
    """Turn hue, make colors stronger or weaker, then change contrast, then brightness.

    The color is changed as by ``hue`` and ``saturation``, the result as by ``brightness_contrast``, around the
    middle of the range: ``out = brightness * (middle + contrast * (color - middle))``. All of it is one matrix, in the
    order that DALI has, and rounds once.
    """

    hue: Number = param(0.0, "angle by which the hue is rotated", unit="degrees", identity=0.0)
    saturation: Number = param(1.0, "factor of the saturation", lo=0, identity=1.0)
    brightness: Number = param(1.0, "factor of all values", lo=0, identity=1.0)
    contrast: Number = param(1.0, "factor of the distance from the middle of the range", lo=0, identity=1.0)

    examples = (
        {"hue": -20.0, "saturation": 0.7, "brightness": 1.2, "contrast": 1.4},
        {"hue": (-30.0, 30.0), "saturation": (0.5, 1.5), "contrast": (0.5, 1.5), "seed": 1},
        {"brightness": (0.5, 1.5), "hue": 90.0, "seed": 2},
    )
    errors = (({"contrast": -1}, "contrast=-1 is not valid; allowed: a number of at least 0"),)

    @property
    def needs_range(self) -> bool:
        """Whether the range matters: for contrast."""
        return self.contrast != 1

    def matrix(self, rows: npt.NDArray[Any]) -> FloatArray:
        """The turn and the factors."""
        factor = rows["brightness"].astype(np.float64) * rows["contrast"]
        return _turned(rows["hue"], rows["saturation"], factor)

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """The matrices, and what contrast adds."""
        offset = (
            self.intensities(spec).middle * (1 - rows["contrast"].astype(np.float64)) * rows["brightness"]
        )
        return {**super().derive(rows, spec), "offset": offset[:, None]}
