"""Brightness and contrast."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...array import Array
from ..call.ranged import Ranged
from ..core.body import Body
from ..core.distributions import Number
from ..core.parameters import param
from ..core.spec import COMPUTED_DTYPES, Spec

__all__ = ["Brightness", "BrightnessContrast", "Contrast"]


class _Levels(Ranged, register=False):
    """Base of pointwise operators whose result may have another dtype."""

    dtype: str | None = param(
        None, "dtype of the result; None for that of the input", choices=COMPUTED_DTYPES
    )

    pointwise = True

    def result_dtype(self, dtype: str) -> str:
        """Return the parameter ``dtype``, or the dtype of the input."""
        return self.dtype or dtype

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
    errors = (
        ({"brightness": (2, 1)}, r"brightness=\(2, 1\) is not valid; allowed: a range \(least, greatest\)"),
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
    errors = (
        ({"contrast": (2, 1)}, r"contrast=\(2, 1\) is not valid; allowed: a range \(least, greatest\)"),
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
    errors = (
        ({"contrast": (2, 1)}, r"contrast=\(2, 1\) is not valid; allowed: a range \(least, greatest\)"),
        ({"dtype": "int64"}, "dtype='int64' is not valid; allowed: 'uint8', 'uint16'"),
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
