"""Images whose pixels are taken from other places, by a column and a row for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ..core.arithmetic import cast_array

__all__ = ["displaced", "sphere_positions", "water_positions"]

_Positions: TypeAlias = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]


def water_positions(height: int, width: int, options: Mapping[str, float]) -> _Positions:
    """Return the column and the row that each pixel is taken from by waves of amplitudes, frequencies and phases."""
    x, y = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    across = options["ampl_x"] * np.sin(options["freq_x"] * y + options["phase_x"])
    down = options["ampl_y"] * np.cos(options["freq_y"] * x + options["phase_y"])
    return (x + across).astype(np.float32), (y + down).astype(np.float32)


def sphere_positions(height: int, width: int, _: Mapping[str, float]) -> _Positions:
    """Return the column and the row that each pixel is taken from through a sphere."""
    middle_x, middle_y = width / 2, height / 2
    x, y = np.meshgrid(np.arange(width) + 0.5 - middle_x, np.arange(height) + 0.5 - middle_y)
    distance = np.sqrt(x * x + y * y) / max(width // 2, height // 2)
    return (middle_x + distance * x).astype(np.float32), (middle_y + distance * y).astype(np.float32)


def displaced(part: Array, positions: _Positions, linear: bool, fill: float) -> Array:
    """Return images ``(…, H, W, C)`` with displaced pixels, ``fill`` outside; pixel centers are at n + 0.5."""
    xp = namespace(part)
    height, width = part.shape[-3:-1]
    x, y = (xp.asarray(position) for position in positions)

    def pixels(rows: Array, columns: Array) -> Array:
        inside = (columns >= 0) & (rows >= 0) & (columns < width) & (rows < height)
        sampled = part[..., xp.where(inside, rows, 0), xp.where(inside, columns, 0), :]
        return xp.where(inside[..., None], sampled, level)

    level = cast_array(xp.asarray(fill), part.dtype.name, away=xp is np)
    if not linear:
        return pixels(xp.floor(y).astype(int), xp.floor(x).astype(int))
    left, top = xp.floor(x - 0.5).astype(int), xp.floor(y - 0.5).astype(int)
    across, down = (x - 0.5 - left)[..., None], (y - 0.5 - top)[..., None]
    upper = pixels(top, left) * (1 - across) + pixels(top, left + 1) * across
    lower = pixels(top + 1, left) * (1 - across) + pixels(top + 1, left + 1) * across
    return cast_array(upper * (1 - down) + lower * down, part.dtype.name, away=xp is np)
