"""One-hot encoding of labels."""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ...core.kernel import KernelDevice
from ..arrays.base import AddsAxis, ArrayOperand, Shaping
from ..call.backends import cuda_device_of
from ..core.blocks import Block
from ..core.parameters import param
from ..core.spec import MOVED_DTYPES, typed
from ..cuda.kernel import SKELETONS, Item, OpSource, launch, row_text

__all__ = ["OneHot"]

_ROW: Final = np.dtype(
    [("classes", np.int32), ("inner", np.int32), ("on", np.int32, 2), ("off", np.int32, 2)]
)
_SOURCE: Final = OpSource(SKELETONS, "one_hot.cuh", row_text(_ROW))
_MOST_VALUES: Final = 2**31 - 16  # values that a kernel can count; larger results take several items
_BYTES_A_WRITE: Final = 16  # bytes that a thread writes at once, so items start at a multiple


def _one_hot(labels: Array, axis: int, classes: int, values: npt.NDArray[Any]) -> Array:
    """Return one-hot vectors along a new axis."""
    library = namespace(labels)
    if library is not np:
        result: Array = library.empty((*labels.shape[:axis], classes, *labels.shape[axis:]), values.dtype)
        if _one_hot_by_kernel(labels, axis, values, result):
            return result
    numbers = library.arange(classes).reshape(-1, *[1] * (labels.ndim - axis))
    same = library.expand_dims(labels.astype(np.int64), axis) == numbers
    chosen: Array = library.where(same, *values).astype(values.dtype)
    return chosen


def _one_hot_by_kernel(
    labels: Array, axis: int, values: npt.NDArray[Any], out: Array, device: KernelDevice | None = None
) -> bool:
    """Write the result of :func:`_one_hot` by one launch."""
    if not out.size:
        return True
    inner, classes = prod(labels.shape[axis:]), out.shape[axis]
    sources = namespace(labels).ascontiguousarray(labels).reshape(-1, inner)
    results = out.reshape(-1, inner * classes)
    step = (
        len(results)
        if results.size <= _MOST_VALUES
        else _MOST_VALUES // results.shape[1] // _BYTES_A_WRITE * _BYTES_A_WRITE
    )
    if not step:
        return False
    items = [
        Item(_in_a_row(sources[first : first + step]), _in_a_row(results[first : first + step]), 0)
        for first in range(0, len(sources), step)
    ]
    row = np.zeros(1, _ROW)
    row["classes"], row["inner"] = classes, inner
    row["on"][0], row["off"][0] = (_bits(value) for value in values)
    size = labels.dtype.itemsize.bit_length() - 1 + 4 * (labels.dtype.kind == "i")
    defines = {"ELEMENT_BYTES": out.itemsize, "LABEL": size, "CHANNELS": 1}
    launch(_SOURCE, defines, items, Block(row, (0,), 0), device or cuda_device_of(labels))
    return True


def _in_a_row(array: Array) -> Array:
    return array.reshape(1, 1, 1, -1, 1)


def _bits(value: np.generic) -> npt.NDArray[np.int32]:
    return np.frombuffer(value.tobytes().ljust(8, b"\0"), np.int32)


_MOST_CLASSES: Final = 1_000_000  # protects from allocating memory for a typing error


class OneHot(AddsAxis, Shaping):
    """Encode labels as one-hot vectors along a new axis.

    A label that is not the index of a class, such as -1, gives the off value for all classes. DALI treats an array of
    one label as a scalar, and its result has the new axis only.
    """

    num_classes: int = param(0, "number of classes", lo=0, hi=_MOST_CLASSES, drawn=False)
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
        ({"num_classes": 2, "axis_name": "CC"}, "axis_name='CC' is not valid; allowed: one letter"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.num_classes:
            raise self.refusal("num_classes=0 is not valid", allowed="a whole number of at least 1")

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
        return _one_hot(operand.array, axis, self.num_classes, values), letters
