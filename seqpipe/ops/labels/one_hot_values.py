"""One-hot encoding of arrays: by the array's library, or by one launch on a GPU."""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ...core.kernel import KernelDevice
from ..call.backends import cuda_device_of
from ..core.blocks import Block
from ..cuda.kernel import SKELETONS, Item, OpSource, launch, row_text

__all__ = ["one_hot", "one_hot_by_kernel"]

_ROW: Final = np.dtype(
    [("classes", np.int32), ("inner", np.int32), ("on", np.int32, 2), ("off", np.int32, 2)]
)
_SOURCE: Final = OpSource(SKELETONS, "one_hot.cuh", row_text(_ROW))
_MOST: Final = 2**31 - 16  # values that a kernel can count; larger results take several items
_TOGETHER: Final = 16  # bytes that a thread writes at once, so items start at a multiple


def one_hot(labels: Array, axis: int, classes: int, values: npt.NDArray[Any]) -> Array:
    """Return one-hot vectors along a new axis.

    Args:
        labels: integers or booleans.
        axis: position of the new axis.
        classes: number of classes.
        values: value for the label's class, and value for all others.

    Returns:
        An array of the dtype of ``values``.
    """
    library = namespace(labels)
    if library is not np:
        result: Array = library.empty((*labels.shape[:axis], classes, *labels.shape[axis:]), values.dtype)
        if one_hot_by_kernel(labels, axis, values, result):
            return result
    numbers = library.arange(classes).reshape(-1, *[1] * (labels.ndim - axis))
    same = library.expand_dims(labels.astype(np.int64), axis) == numbers
    chosen: Array = library.where(same, *values).astype(values.dtype)
    return chosen


def one_hot_by_kernel(
    labels: Array, axis: int, values: npt.NDArray[Any], out: Array, device: KernelDevice | None = None
) -> bool:
    """Write the result of :func:`one_hot` by one launch.

    Args:
        labels: see :func:`one_hot`.
        axis: see :func:`one_hot`.
        values: see :func:`one_hot`.
        out: the result.
        device: device that runs the kernel; None for the GPU that holds the labels.

    Returns:
        Whether it was done; it is not if one label and the following axes have too many values.
    """
    if not out.size:
        return True
    inner, classes = prod(labels.shape[axis:]), out.shape[axis]
    sources = namespace(labels).ascontiguousarray(labels).reshape(-1, inner)
    results = out.reshape(-1, inner * classes)
    step = len(results) if results.size <= _MOST else _MOST // results.shape[1] // _TOGETHER * _TOGETHER
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
