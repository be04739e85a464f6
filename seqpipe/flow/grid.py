"""The output grid: one vector for each cell of ``grid`` × ``grid`` pixels, at the cell's center."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from ..array import Array, to_cupy, to_numpy
from ..errors import ParameterError
from .values import apply_to, flow_array

__all__ = ["GRIDS", "HINT_GRIDS", "cells", "dense", "grid_of", "upsample"]

X = TypeVar("X")

GRIDS: Final = (1, 2, 4)
"""Cell sizes of computed flow in pixels."""
HINT_GRIDS: Final = (1, 2, 4, 8)
"""Cell sizes of hints in pixels."""


def cells(values: npt.NDArray[np.float32], grid: int) -> npt.NDArray[np.float32]:
    """Average a dense field over cells."""
    if grid == 1:
        return values
    import cv2

    height, width = values.shape[:2]
    below, right = -height % grid, -width % grid
    if below or right:
        values = np.asarray(cv2.copyMakeBorder(values, 0, below, 0, right, cv2.BORDER_REPLICATE), np.float32)
    size = ((width + right) // grid, (height + below) // grid)
    return np.asarray(cv2.resize(values, size, interpolation=cv2.INTER_AREA), np.float32)


def grid_of(shape: tuple[int, int], size: tuple[int, int], source: str = "grid_of") -> int:
    """Determine the grid of a flow from its shape and the size of the frames.

    Args:
        shape: rows and columns of the flow.
        size: rows and columns of the frames.
        source: name of the calling function, for messages.

    Raises:
        ParameterError: no grid results in a flow of that shape.
    """
    fitting = [g for g in HINT_GRIDS if all(-(-side // g) == n for side, n in zip(size, shape, strict=True))]
    if not fitting:
        allowed = ", ".join(f"{-(-size[0] // g)}×{-(-size[1] // g)}" for g in HINT_GRIDS)
        raise ParameterError(
            f"a flow of {shape[0]}×{shape[1]} vectors for frames of {size[0]}×{size[1]} pixels",
            source=source,
            allowed=f"{allowed} (rows×columns)",
        )
    return fitting[0]


def upsample(flow: X, size: tuple[int, int]) -> X:
    """Interpolate flow bilinearly between the centers of cells, to one vector for each pixel.

    Args:
        flow: ``(…, h, w, 2)`` on grid 1, 2, 4 or 8, a NumPy, CuPy or torch array or a Sequence.
        size: (height, width) of the frames.

    Returns:
        float32 ``(…, H, W, 2)``, of the same type as ``flow``. Vectors are not scaled, as they are in pixels of the
        frames. Pixels next to an unknown vector (NaN) are NaN.

    Raises:
        ParameterError: ``flow`` is not a flow, or does not fit frames of that size.
    """
    return apply_to(flow, partial(_upsampled, size=size))


def _upsampled(flow: Array, size: tuple[int, int]) -> Array:
    """Return a flow on a grid with a vector for every pixel."""
    array = flow_array(flow, "upsample")
    grid = grid_of(array.shape[-3:-1], size, "upsample")
    if grid == 1:
        return array.astype(np.float32)
    if isinstance(array, np.ndarray):
        return dense(array, grid, size)
    with array.device:
        return to_cupy(dense(to_numpy(array), grid, size))


def dense(flow: npt.NDArray[Any], grid: int, size: tuple[int, int]) -> npt.NDArray[np.float32]:
    """Upsample NumPy flow of a known grid; see :func:`upsample`."""
    import cv2

    fields = np.ascontiguousarray(flow, np.float32).reshape(-1, *flow.shape[-3:])
    result = np.empty((len(fields), *size, 2), np.float32)
    for field, out in zip(fields, result, strict=True):
        full = cv2.resize(
            field, (field.shape[1] * grid, field.shape[0] * grid), interpolation=cv2.INTER_LINEAR
        )
        out[...] = full[: size[0], : size[1]]
    return result.reshape(*flow.shape[:-3], *size, 2)
