"""Operators that move pixels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array import Array
from ._distribution import Flag
from ._geometry import Geometry
from ._mapping import Mapping
from ._op import Op
from ._param import param

__all__ = ["Flip"]


class Flip(Geometry):
    """Mirror images left to right, top to bottom, or both."""

    horizontal: Flag = param(True, "mirror left to right", identity=False)
    vertical: Flag = param(False, "mirror top to bottom", identity=False)

    examples = (
        {},
        {"horizontal": False, "vertical": True},
        {"horizontal": True, "vertical": True},
        {"p": 0.5, "seed": 3},
    )
    errors = (({"horizontal": 2}, "horizontal=2 is not valid; allowed: True or False"),)

    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """Where the pixels of the result come from."""
        x = [-1, 0, width] if p.horizontal else [1, 0, 0]
        y = [0, -1, height] if p.vertical else [0, 1, 0]
        return Mapping(np.array([x, y, [0, 0, 1]], np.float64), height, width)

    def reference(self, x: Array, p: Any) -> Array:
        """Rows and columns in the order that is asked for."""
        return x[:, :: -1 if p.vertical else 1, :: -1 if p.horizontal else 1]

    def inverse(self) -> Op:
        """The same again."""
        return self
