"""Brightness, contrast, hue and saturation."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray
from ..call.op import OutputDtype, Ranged
from ..core.distributions import Number
from ..core.parameters import param
from ..core.spec import Spec
from ..core.traits import Body
from .matrix import ColorMatrix

__all__ = ["Brightness", "BrightnessContrast", "ColorTwist", "Contrast", "Hsv", "Hue", "Saturation"]


class _Levels(OutputDtype, Ranged, register=False):
    """Base of pointwise operators whose result may have another dtype."""

    pointwise = True

    @property
    def needs_range(self) -> bool:
        """Whether the range affects the result: by a shift, or by contrast with the default center."""
        shifts = getattr(self, "brightness_shift", 0.0) != 0
        return shifts or (getattr(self, "contrast", 1.0) != 1 and getattr(self, "contrast_center", 0) is None)

    def _width(self, spec: Spec) -> float:
        """Return the width of the range, which a shift of 1 adds."""
        return self.intensities(spec, self.result_dtype(spec.dtype)).width


class Brightness(_Levels):
    """Multiply all values, then add to them.

    ``out = brightness * in + brightness_shift * width``, where ``width`` is the width of the range; if that is the
    range of a dtype, the dtype is the result's.
    """

    brightness: Number = param(1.0, "factor of all values", identity=1.0)
    brightness_shift: Number = param(0.0, "offset of all values", unit="of the range", identity=0.0)

    derived = ("shift",)
    derived_from = ("brightness_shift",)
    examples = (
        {"brightness": 1.5},
        {"brightness": (0.5, 1.5), "brightness_shift": (-0.25, 0.25), "seed": 1},
        {"brightness": 1 / 255, "dtype": "float32"},
    )

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """Derive the shift in values."""
        return {"shift": rows["brightness_shift"] * self._width(spec)}

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the formula."""
        return x * p.brightness + p.shift

    body = Body("value", "value = value * row.brightness + row.shift;")


class Contrast(_Levels):
    """Change contrast around a value.

    ``out = contrast_center + contrast * (in - contrast_center)``.
    """

    contrast: Number = param(1.0, "factor of the distance from the center", identity=1.0)
    contrast_center: Number = param(
        None, "value that contrast does not change; None for the middle of the range", kind=float
    )

    derived = ("center",)
    derived_from = ("contrast_center",)
    examples = (
        {"contrast": 1.5},
        {"contrast": (0.5, 1.5), "contrast_center": (90.0, 160.0), "seed": 1},
        {"contrast": 0.37, "dtype": "float32"},
    )

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """Derive the center."""
        center = rows["contrast_center"]
        return {"center": np.where(np.isnan(center), self.intensities(spec).middle, center)}

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the formula."""
        return (x - p.center) * p.contrast + p.center

    body = Body("value", "value = (value - row.center) * row.contrast + row.center;")


class BrightnessContrast(_Levels):
    """Change contrast around a value, then brightness.

    ``out = brightness_shift * width + brightness * (contrast_center + contrast * (in - contrast_center))``, where
    ``width`` is the width of the range; if that is the range of a dtype, the dtype is the result's.
    """

    brightness: Number = param(1.0, "factor of all values", identity=1.0)
    brightness_shift: Number = param(0.0, "offset of all values", unit="of the range", identity=0.0)
    contrast: Number = param(1.0, "factor of the distance from the center", identity=1.0)
    contrast_center: Number = param(
        None, "value that contrast does not change; None for the middle of the range", kind=float
    )

    derived = ("center", "shift")
    derived_from = ("contrast_center", "brightness_shift")
    examples = (
        {"brightness": 1.5},
        {"brightness": (0.5, 1.5), "contrast": (0.5, 2.0), "seed": 1},
        {"brightness_shift": -0.25, "contrast": 3.0, "contrast_center": 100.0},
        {"brightness_shift": 0.25, "brightness": 1 / 255, "dtype": "float32"},
        {"contrast": 0.37, "brightness": 1.1},
    )

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """Derive the center and the shift."""
        center = rows["contrast_center"]
        return {
            "center": np.where(np.isnan(center), self.intensities(spec).middle, center),
            "shift": rows["brightness_shift"] * self._width(spec),
        }

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the formula."""
        return ((x - p.center) * p.contrast + p.center) * p.brightness + p.shift

    body = Body(
        "value", "value = ((value - row.center) * row.contrast + row.center) * row.brightness + row.shift;"
    )


_YIQ: Final = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
"""RGB to YIQ (NTSC): luma, and two color components. The three digits are DALI's; they tint grays by up to 0.3 %."""
_RGB: Final = np.linalg.inv(_YIQ)


class _Turn(OutputDtype, ColorMatrix, register=False):
    """Base of operators whose matrix follows from color parameters."""

    @abstractmethod
    def matrix(self, rows: npt.NDArray[Any]) -> FloatArray:
        """Return the matrices of the rows, ``(R, 3, 3)``."""

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  for those with an offset
        """Derive the matrices, row by row."""
        return {"matrix": self.matrix(rows).reshape(-1, 9), "offset": 0}


def _turned(hue: Any, saturation: Any = 1.0, value: Any = 1.0) -> FloatArray:
    """Return matrices that rotate the color components by degrees and scale them, and then scale everything."""
    hue, saturation, value = (np.asarray(q, np.float64) for q in (hue, saturation, value))
    angle = np.radians(hue)
    along, across = np.cos(angle) * saturation, np.sin(angle) * saturation
    middle = np.zeros((*along.shape, 3, 3))
    middle[..., 0, 0] = 1
    middle[..., 1, 1] = middle[..., 2, 2] = along
    middle[..., 1, 2], middle[..., 2, 1] = across, -across
    return np.asarray(_RGB @ middle @ _YIQ * value[..., None, None])


class Hue(_Turn):
    """Rotate the hue of colors.

    RGB is converted to YIQ, whose two color components are rotated by ``hue`` degrees, and back: a matrix, as in DALI,
    not the hue of HSV. Red becomes green at 120 degrees, and blue at -120.
    """

    hue: Number = param(0.0, "angle by which the hue is rotated", unit="degrees", identity=0.0)

    examples = ({"hue": 60.0}, {"hue": (-30.0, 30.0), "seed": 1}, {"hue": -120.0, "dtype": "float32"})

    def matrix(self, rows: npt.NDArray[Any]) -> FloatArray:
        """Return the rotations."""
        return _turned(rows["hue"])


class Saturation(_Turn):
    """Scale the saturation of colors.

    RGB is converted to YIQ, whose two color components are multiplied by ``saturation``, and back, as in DALI. 0 leaves
    the luma ``0.299 R + 0.587 G + 0.114 B``.
    """

    saturation: Number = param(1.0, "factor of the saturation", lo=0, identity=1.0)

    examples = (
        {"saturation": 0.5},
        {"saturation": (0.5, 1.5), "seed": 1},
        {"saturation": 2.0, "dtype": "float32"},
    )

    def matrix(self, rows: npt.NDArray[Any]) -> FloatArray:
        """Return the scalings."""
        return _turned(0.0, rows["saturation"])


class Hsv(_Turn):
    """Rotate hue, scale saturation, and scale all values.

    RGB is converted to YIQ, whose two color components are rotated by ``hue`` degrees and multiplied by ``saturation``;
    then everything is multiplied by ``value`` and converted back: DALI's approximation of a change in HSV.
    """

    hue: Number = param(0.0, "angle by which the hue is rotated", unit="degrees", identity=0.0)
    saturation: Number = param(1.0, "factor of the saturation", lo=0, identity=1.0)
    value: Number = param(1.0, "factor of the value", lo=0, identity=1.0)

    examples = (
        {"hue": 40.0, "saturation": 1.5, "value": 0.8},
        {"hue": (-30.0, 30.0), "saturation": (0.5, 1.5), "value": (0.7, 1.3), "seed": 1},
        {"saturation": 0.5},
    )

    def matrix(self, rows: npt.NDArray[Any]) -> FloatArray:
        """Return the rotations and scalings."""
        return _turned(rows["hue"], rows["saturation"], rows["value"])


class ColorTwist(Ranged, _Turn):
    """Rotate hue, scale saturation, then change contrast, then brightness.

    Colors change as by ``hue`` and ``saturation``, then as by ``brightness_contrast`` around the middle of the range:
    ``out = brightness * (middle + contrast * (color - middle))``. All is one matrix, in DALI's order, and rounds once.
    """

    hue: Number = param(0.0, "angle by which the hue is rotated", unit="degrees", identity=0.0)
    saturation: Number = param(1.0, "factor of the saturation", lo=0, identity=1.0)
    brightness: Number = param(1.0, "factor of all values", identity=1.0)
    contrast: Number = param(1.0, "factor of the distance from the middle of the range", lo=0, identity=1.0)

    examples = (
        {"hue": -20.0, "saturation": 0.7, "brightness": 1.2, "contrast": 1.4},
        {"hue": (-30.0, 30.0), "saturation": (0.5, 1.5), "contrast": (0.5, 1.5), "seed": 1},
        {"brightness": (0.5, 1.5), "hue": 90.0, "seed": 2},
    )

    @property
    def needs_range(self) -> bool:
        """Whether the range affects the result: by contrast."""
        return self.contrast != 1

    def matrix(self, rows: npt.NDArray[Any]) -> FloatArray:
        """Return the rotations and scalings."""
        factor = rows["brightness"].astype(np.float64) * rows["contrast"]
        return _turned(rows["hue"], rows["saturation"], factor)

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """Derive the matrices, and the offset from contrast."""
        offset = (
            self.intensities(spec).middle * (1 - rows["contrast"].astype(np.float64)) * rows["brightness"]
        )
        return {**super().derive(rows, spec), "offset": offset[:, None]}
