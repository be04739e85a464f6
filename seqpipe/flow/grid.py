"""The output grid: a vector for each cell of ``grid`` × ``grid`` pixels, centred in the middle of the cell."""

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
"""Sizes of a cell in pixels, of flow that is computed."""
HINT_GRIDS: Final = (1, 2, 4, 8)
"""Those of hints."""


def cells(values: npt.NDArray[np.float32], grid: int) -> npt.NDArray[np.float32]:
    """The mean of each cell of a dense field.

    Args:
        values: float32 ``(H, W)`` or ``(H, W, 2)``.
        grid: pixels of a side of a cell; those that reach past the border take the pixels that they have, the last one
            repeated.

    Returns:
        float32 ``(⌈H / grid⌉, ⌈W / grid⌉, …)``.
    """
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
    """The grid of a flow of some shape, for frames of some size.

    Args:
        shape: rows and columns of the flow.
        size: rows and columns of the frames.
        source: for messages.

    Raises:
        ParameterError: no grid gives a flow of that shape.
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
    array = flow_array(flow, "upsample")
    grid = grid_of(array.shape[-3:-1], size, "upsample")
    if grid == 1:
        return array.astype(np.float32)
    if isinstance(array, np.ndarray):
        return dense(array, grid, size)
    with array.device:
        return to_cupy(dense(to_numpy(array), grid, size))


def dense(flow: npt.NDArray[Any], grid: int, size: tuple[int, int]) -> npt.NDArray[np.float32]:
    """:func:`upsample` of what is known to fit, in main memory."""
    import cv2

    given = np.ascontiguousarray(flow, np.float32).reshape(-1, *flow.shape[-3:])
    made = np.empty((len(given), *size, 2), np.float32)
    for one, into in zip(given, made, strict=True):
        whole = cv2.resize(one, (one.shape[1] * grid, one.shape[0] * grid), interpolation=cv2.INTER_LINEAR)
        into[...] = whole[: size[0], : size[1]]
    return made.reshape(*flow.shape[:-3], *size, 2)
