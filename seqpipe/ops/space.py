"""Operators that change what the values of a pixel mean."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ._spec import Spec
from .matrix import ColourMatrix

__all__ = ["Grayscale"]

_LUMA: Final = np.array([0.299, 0.587, 0.114])
"""ITU-R BT.601: the weights of red, green and blue."""


class Grayscale(ColourMatrix):
    """Take the colours away; pixels keep three values, all of them the luma.

    ``out = 0.299 R + 0.587 G + 0.114 B``, the luma of ITU-R BT.601, as Pillow, OpenCV and torchvision have it.
    """

    examples = ({}, {"p": 0.5, "seed": 6})
    errors = (({"p": -1}, "p=-1 is not valid; allowed: a number from 0 to 1"),)

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  it is the same for all
        """The weights, three times."""
        return {"matrix": np.tile(_LUMA, 3), "offset": 0}
