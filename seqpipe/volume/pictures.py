"""Pictures of volumes: slices along an anatomical axis, projections, montages, in 8 or 16 bits by a window."""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from typing import Any, Final

import numpy as np

from ..errors import ParameterError
from .info import VolumeInfo
from .source import AnyArray

__all__ = ["montage", "picture", "window_of", "windowed"]

_LOW, _HIGH = 0.5, 99.5
_SAMPLES: Final = 1 << 20


def window_of(values: AnyArray, info: VolumeInfo | None = None) -> tuple[float, float]:
    """The range of values to show: the file's own window, else all of a few values, else percentiles 0.5 to 99.5.

    Args:
        values: scaled, of the whole volume or of a part.
        info: of the volume, if it comes from a file.
    """
    known = None if info is None else info.header.get("window")
    if known:
        return float(known[0]) - float(known[1]) / 2, float(known[0]) + float(known[1]) / 2
    flat = values.ravel()
    sample = flat[:: max(1, len(flat) // _SAMPLES)].astype(np.float64)
    sample = sample[np.isfinite(sample)]
    if not len(sample):
        return 0.0, 1.0
    low, high = (float(value) for value in np.percentile(sample, (_LOW, _HIGH)))
    if low >= high:
        low, high = float(sample.min()), float(sample.max())
    return low, high if high > low else low + 1.0


def windowed(values: AnyArray, window: tuple[float, float], dtype: str = "uint8") -> AnyArray:
    """Values as gray levels: the lower end of the window black, the upper end white; NaN is black.

    Args:
        values: scaled, of any shape.
        window: its ends.
        dtype: ``"uint8"`` or ``"uint16"``.

    Raises:
        ParameterError: the upper end is not above the lower one.
    """
    low, high = window
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ParameterError(
            f"the window from {low:g} to {high:g} is empty", allowed="a lower end below the upper one"
        )
    most = np.iinfo(dtype).max
    share = (values.astype(np.float32) - np.float32(low)) / np.float32(high - low)
    levels = np.clip(np.nan_to_num(share, nan=0.0, posinf=1.0, neginf=0.0), 0, 1) * most
    made: AnyArray = np.rint(levels).astype(dtype)
    return made


def picture(levels: AnyArray, spacing_mm: Seq[float]) -> AnyArray:
    """One slice as a picture RGB with square pixels.

    Args:
        levels: ``HWC`` with 1, 3 or more channels, of which the first are shown.
        spacing_mm: between its rows and its columns.
    """
    import cv2

    rows, columns, channels = levels.shape
    rgb = levels[..., :3] if channels >= 3 else np.repeat(levels[..., :1], 3, axis=2)
    side = min(spacing_mm)
    size = max(1, round(columns * spacing_mm[1] / side)), max(1, round(rows * spacing_mm[0] / side))
    if size != (columns, rows):
        rgb = cv2.resize(np.ascontiguousarray(rgb), size, interpolation=cv2.INTER_LINEAR)
    return np.ascontiguousarray(rgb)


def montage(pictures: Seq[Any], columns: int, rows: int) -> AnyArray:
    """Pictures of one size in rows and columns; places that are left are black."""
    height, width, channels = pictures[0].shape
    made = np.zeros((rows * height, columns * width, channels), dtype=pictures[0].dtype)
    for place, one in enumerate(pictures[: rows * columns]):
        row, column = divmod(place, columns)
        made[row * height : (row + 1) * height, column * width : (column + 1) * width] = one
    return made
