"""Mean squares on a GPU, by one kernel that reads values once."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ...array import Array, namespace
from ...core.kernel import KernelDevice
from ..call.backends import cuda_device_of
from ..core.blocks import Block
from ..cuda.kernel import SKELETONS, TYPES, Item, OpSource, launch, row_text
from .sums import rows_of, shape_of

__all__ = ["mean_square_by_kernel"]

_ROW: Final = np.dtype([("from_mean", np.int32), ("ddof", np.int32)])
_SOURCE: Final = OpSource(SKELETONS, "moments.cuh", row_text(_ROW))
_PART: Final = 1 << 13  # values that justify a block
_MOST_OF_PART: Final = 1 << 16  # most values of a block whose sum is exact
_BLOCKS: Final = 1024  # blocks that occupy any GPU
_LEAST, _MOST = 1 << 10, 1 << 30  # values of a row


def mean_square_by_kernel(
    x: Array, axes: tuple[int, ...], *, from_mean: bool, ddof: int = 0, device: KernelDevice | None = None
) -> Array | None:
    """Return the mean square of values over axes, which become 1, or of their distances from their mean.

    Args:
        x: values.
        axes: axes to reduce.
        from_mean: whether to use distances from the mean.
        ddof: delta degrees of freedom; the divisor is at least 1.
        device: device that runs the kernel; None for the GPU that holds the values.

    Returns:
        The mean squares in double precision; None if the array's library should compute them: in main memory, for
        dtypes that kernels do not support, and for few or very many values.
    """
    library = namespace(x)
    if device is None and library is np:
        return None
    kind = "uint8" if x.dtype == np.bool_ else x.dtype.name
    length = math.prod([x.shape[axis] for axis in axes])
    if kind not in TYPES or not _LEAST <= length <= _MOST or ddof > _MOST:
        return None
    rows = rows_of(x, axes).view(kind).reshape(-1, 1, 1, length, 1)
    blocks = max(-(-length // _MOST_OF_PART), min(-(-length // _PART), _BLOCKS // len(rows)))
    found = library.empty((len(rows), 1, 1, blocks, 2), np.float64)
    block = Block(np.array([(from_mean, ddof)], _ROW), (0,) * len(rows), 0)
    defines = {"IN": TYPES[kind], "OUT": TYPES[kind], "CHANNELS": 1}
    launch(_SOURCE, defines, [Item(rows, found, 0)], block, device or cuda_device_of(x))
    made: Array = found[:, 0, 0, 0, 0].reshape(shape_of(x, axes))
    return made
