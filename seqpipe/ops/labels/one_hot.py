"""One-hot encoding of labels."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...array import Array
from ...errors import ParameterError
from ..arrays.base import AddsAxis, ArrayOperand, Shaping
from ..core.parameters import param
from ..core.rounding import typed
from ..core.spec import MOVED_DTYPES
from .one_hot_values import one_hot

__all__ = ["OneHot"]

_MOST: Final = 1_000_000  # protects from allocating memory for a typing error


class OneHot(AddsAxis, Shaping):
    """Encode labels as one-hot vectors along a new axis.

    A label that is not the index of a class, such as -1, gives the off value for all classes. DALI treats an array of
    one label as a scalar, and its result has the new axis only.
    """

    num_classes: int = param(0, "number of classes", lo=0, hi=_MOST, drawn=False)
    axis: int = param(
        -1, "position of the new axis in the result; negative numbers count from the end", drawn=False
    )
    on_value: float = param(1.0, "value for the class", drawn=False)
    off_value: float = param(0.0, "value for all other classes", drawn=False)
    dtype: str = param("float32", "dtype of the result", choices=MOVED_DTYPES)

    dtypes = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
    examples = ({"num_classes": 10}, {"num_classes": 3, "axis": 0, "axis_name": "C", "dtype": "uint8"})
    errors = (
        ({}, "one_hot: num_classes=0 is not valid; allowed: a whole number of at least 1"),
        (
            {"num_classes": 1e300},
            r"num_classes=1e\+300 is not valid; allowed: a whole number from 0 to 1000000",
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

    def as_operand(self, value: Any, layout: str | None = None) -> ArrayOperand:
        """Return labels as an array; a Python integer becomes an array without axes.

        Raises:
            ParameterError: the labels are not integers.
        """
        return super().as_operand(
            np.asarray(value) if isinstance(value, (int, np.integer)) else value, layout
        )

    def shaped(self, operand: ArrayOperand) -> tuple[Array, str]:
        """Return the on value where the class is the label."""
        axis, letters = self.new_axis(operand, self.axis)
        values = typed(np.array([self.on_value, self.off_value]), np.dtype(self.dtype))
        return one_hot(operand.array, axis, self.num_classes, values), letters
