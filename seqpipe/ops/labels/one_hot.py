"""Operators on labels."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...array import Array
from ...errors import ParameterError
from ..arrays.base import AddsAxis, HeldArray, Shaping
from ..core.parameters import param
from ..core.rounding import typed
from ..core.spec import MOVED
from .one_hot_values import one_hot

__all__ = ["OneHot"]

_MOST: Final = 1_000_000  # a slip of the pen takes no memory; a kernel counts to more


class OneHot(AddsAxis, Shaping):
    """Put a new axis in place of each label, with one value that is on: that of the label's number.

    What is no number of a class, such as -1, has none. DALI takes arrays of one label for that label, and gives them no
    other axes than the new one.
    """

    num_classes: int = param(0, "number of classes", lo=0, hi=_MOST, drawn=False)
    axis: int = param(
        -1, "position of the new axis in the result; negative numbers count from the end", drawn=False
    )
    on_value: float = param(1.0, "value for the class", drawn=False)
    off_value: float = param(0.0, "value for all other classes", drawn=False)
    dtype: str = param("float32", "dtype of the result", choices=MOVED)

    dtypes = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
    examples = ({"num_classes": 10}, {"num_classes": 3, "axis": 0, "axis_name": "C", "dtype": "uint8"})
    errors = (
        ({}, "one_hot: num_classes=0 is not valid; allowed: a whole number of at least 1"),
        (
            {"num_classes": 1e300},
            r"num_classes=1e\+300 is not valid; allowed: a whole number from 0 to 1e\+06",
        ),
        ({"num_classes": 2, "axis_name": "CC"}, "axis_name='CC' is not valid; allowed: one letter"),
        ({"num_classes": 2, "dtype": "text"}, "dtype='text' is not valid; allowed: 'bool'"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.num_classes:
            raise ParameterError(
                "num_classes=0 is not valid", source=self.name, allowed="a whole number of at least 1"
            )

    def held(self, value: Any, layout: str | None = None) -> HeldArray:
        """Labels as an array; one label alone is an array without axes.

        Raises:
            ParameterError: these are no whole numbers.
        """
        return super().held(np.asarray(value) if isinstance(value, (int, np.integer)) else value, layout)

    def shaped(self, held: HeldArray) -> tuple[Array, str]:
        """On where the label is the number of the class."""
        axis, letters = self.new_axis(held, self.axis)
        values = typed(np.array([self.on_value, self.off_value]), np.dtype(self.dtype))
        return one_hot(held.array, axis, self.num_classes, values), letters
