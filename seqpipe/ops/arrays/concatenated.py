"""Concatenation of arrays: by NumPy in main memory, by one launch on a GPU."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from math import gcd, prod
from typing import Final

import numpy as np

from ...array import Array, namespace
from ...core.kernel import KernelDevice
from ..call.backends import cuda_device_of
from ..core.blocks import Block
from ..cuda.kernel import Item, address_of, launch, source_of
from ..temporal.base import Order

__all__ = ["concatenated", "concatenated_by_kernel"]

_LONGEST: Final = 8  # bytes that a kernel moves as one value
_MOST: Final = 2**31 - 1  # values of an image of a kernel


def concatenated(parts: Seq[Array], axis: int, shape: tuple[int, ...]) -> Array:
    """Concatenate or stack arrays along an axis of the result.

    Args:
        parts: arrays of one dtype, on one device.
        axis: axis of the result; arrays without it have an extent of 1 along it.
        shape: shape of the result.
    """
    library = namespace(parts[0])
    if library is not np:
        out: Array = library.empty(shape, parts[0].dtype)
        if concatenated_by_kernel(parts, axis, out):
            return out
    result: Array = (library.stack if len(shape) > parts[0].ndim else library.concatenate)(parts, axis)
    return result


def concatenated_by_kernel(
    parts: Seq[Array], axis: int, out: Array, device: KernelDevice | None = None
) -> bool:
    """Write concatenated arrays by one launch.

    Args:
        parts: see :func:`concatenated`.
        axis: see :func:`concatenated`.
        out: the result.
        device: device that runs the kernel; None for the GPU that holds the arrays.

    Returns:
        Whether it was done; it is not if an array is not contiguous or the arrays have too many values.
    """
    rows = prod(out.shape[:axis])
    filled = [part for part in parts if part.size]
    if not filled or not all(part.flags.c_contiguous for part in filled):
        return not filled
    lengths = [part.nbytes // rows for part in filled]  # bytes of a row of each
    element = gcd(_LONGEST, *lengths, *(address_of(array) for array in (out, *filled)))
    if out.nbytes // element > _MOST:
        return False
    # short rows of one length are pixels of one row; others are rows of pixels with one value
    most, least = (extreme(lengths) // element for extreme in (max, min))
    channels, as_image = (
        (most, np.s_[None, None, None]) if most == least <= 4 else (1, np.s_[None, None, ..., None])
    )
    lines, items, begin = _rows_of(out, rows, element), [], 0
    for part, length in zip(filled, lengths, strict=True):
        end = begin + length // element
        items.append(Item(_rows_of(part, rows, element)[as_image], lines[:, begin:end][as_image], 0))
        begin = end
    launch(
        source_of(Order),
        {"ELEMENT_BYTES": element, "CHANNELS": channels},
        items,
        Block(np.zeros(1, Order.kernel_dtype()), (0,), 0),
        device or cuda_device_of(out),
    )
    return True


def _rows_of(array: Array, rows: int, element: int) -> Array:
    """Return a contiguous array as rows of values of some bytes."""
    return array.reshape(-1).view(f"u{element}").reshape(rows, -1)
