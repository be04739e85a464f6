"""Crop and flip."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...array import Array
from ..call.op import Op
from ..core.distributions import Flag
from ..core.parameters import param
from .base import Geometry
from .mapping import Mapping, Windowed, scaling, window_of

__all__ = ["Crop", "Flip"]

_SMALL: Final = 2048  # up to so many values, NumPy flips faster than OpenCV
_CHANNELS: Final = 128  # most channels of OpenCV: 128 since version 5, 512 before


class Crop(Windowed, Geometry):
    """Crop a window out of images."""

    keeps_size = False
    whole_pixels = True
    converted = ("moving",)
    examples = (
        {"crop": (3, 4)},
        {"crop": (2, 5), "crop_pos_x": (0.0, 1.0), "crop_pos_y": (0.0, 1.0), "seed": 2},
    )
    errors = (
        ({"crop": (0, 3)}, "crop=0 is not valid; allowed: a whole number of at least 1"),
        ({"crop": 5}, "crop=5 is not valid; allowed: 2 values, each a whole number of at least 1"),
    )

    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """See :meth:`Geometry.mapping`.

        Raises:
            ParameterError: the window is larger than the images.
        """
        position = (float(p.crop_pos_x), float(p.crop_pos_y))
        return window_of(self.crop, position, height, width, self.name)

    def reference(self, x: Array, p: Any) -> Array:
        """Return the window."""
        window = self.mapping(p, *x.shape[1:3])
        left, top = window.matrix[:2, 2].astype(int)
        return x[:, top : top + window.height, left : left + window.width]


class Flip(Geometry):
    """Mirror images left to right, top to bottom, or both."""

    horizontal: Flag = param(True, "mirror left to right", identity=False)
    vertical: Flag = param(False, "mirror top to bottom", identity=False)

    whole_pixels = True
    maps_rows = True
    converted = ("moving",)
    examples = (
        {},
        {"horizontal": False, "vertical": True},
        {"horizontal": True, "vertical": True},
        {"p": 0.5, "seed": 3},
    )
    errors = (({"horizontal": 2}, "horizontal=2 is not valid; allowed: True or False"),)

    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """See :meth:`Geometry.mapping`."""
        across, down = 1 - 2 * p.horizontal, 1 - 2 * p.vertical
        return Mapping(scaling(width * p.horizontal, across, height * p.vertical, down), height, width)

    def reference(self, x: Array, p: Any) -> Array:
        """Reverse rows and columns."""
        return x[:, :: -1 if p.vertical else 1, :: -1 if p.horizontal else 1]

    def cpu(self, x: Array, p: Any) -> Array:
        """Reverse columns by OpenCV, with the bytes of a pixel as channels."""
        pixel = x.shape[-1] * x.itemsize
        if not p.horizontal or x.size < _SMALL or not x.flags.c_contiguous or pixel > _CHANNELS:
            return self.reference(x, p)
        import cv2

        lines = x.view(np.uint8).reshape(-1, x.shape[-2], pixel)
        flipped = cv2.flip(lines, 1).view(x.dtype).reshape(x.shape)
        return flipped[:, ::-1] if p.vertical else flipped

    def inverse(self) -> Op:
        """Return the operator itself."""
        return self
