"""Images of volumes: slices and montages in 8 or 16 bits, by an intensity window."""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from typing import Any, Final

import numpy as np

from ..errors import ParameterError
from .info import VolumeInfo
from .source import AnyArray

__all__ = ["as_real", "montage", "slice_image", "slice_size", "window_of", "windowed"]

_LOW, _HIGH = 0.5, 99.5
_SAMPLES: Final = 1 << 20


def as_real(values: AnyArray) -> AnyArray:
    """Convert complex values to magnitudes and booleans to 0 and 1; return others unchanged."""
    if values.dtype.kind == "c":
        magnitudes: AnyArray = np.abs(values)
        return magnitudes
    return values.astype(np.uint8) if values.dtype.kind == "b" else values


def window_of(values: AnyArray, info: VolumeInfo | None = None) -> tuple[float, float]:
    """Return the intensity window: the file's, else percentiles 0.5 to 99.5, or the full range if these are equal."""
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
    """Map values to gray: the lower end of the window to black, the upper end to white; NaN to black."""
    low, high = window
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ParameterError(
            f"the window from {low:g} to {high:g} is empty", allowed="a lower end below the upper one"
        )
    most = np.iinfo(dtype).max
    share = (values.astype(np.float32) - np.float32(low)) / np.float32(high - low)
    gray = np.clip(np.nan_to_num(share, nan=0.0, posinf=1.0, neginf=0.0), 0, 1) * most
    result: AnyArray = np.rint(gray).astype(dtype)
    return result


def slice_size(grid: tuple[int, int], spacing_mm: Seq[float]) -> tuple[int, int]:
    """Return the rows and columns of a slice of ``grid`` rows and columns with square pixels."""
    side = min(spacing_mm)
    rows, columns = (max(1, round(n * mm / side)) for n, mm in zip(grid, spacing_mm, strict=True))
    return rows, columns


def slice_image(pixels: AnyArray, spacing_mm: Seq[float]) -> AnyArray:
    """Render one slice as an RGB image with square pixels."""
    import cv2

    rows, columns, channels = pixels.shape
    rgb = pixels[..., :3] if channels >= 3 else np.repeat(pixels[..., :1], 3, axis=2)
    size = slice_size((rows, columns), spacing_mm)
    if size != (rows, columns):
        rgb = cv2.resize(np.ascontiguousarray(rgb), size[::-1], interpolation=cv2.INTER_LINEAR)
    return np.ascontiguousarray(rgb)


def montage(images: Seq[Any], columns: int, rows: int) -> AnyArray:
    """Arrange images of one size in rows and columns; unused cells are black."""
    height, width, channels = images[0].shape
    result = np.zeros((rows * height, columns * width, channels), dtype=images[0].dtype)
    for index, image in enumerate(images[: rows * columns]):
        row, column = divmod(index, columns)
        result[row * height : (row + 1) * height, column * width : (column + 1) * width] = image
    return result
