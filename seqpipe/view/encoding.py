"""Conversion of voxels and pixels to 8-bit images, and of images to data URIs."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence as Seq
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..array import FloatArray, IntArray
from ..flow.color import to_rgb
from ..volume.slice_images import as_real, window_of, windowed

__all__ = [
    "LEVELS",
    "Pixels",
    "colors",
    "downsample_mean",
    "downsample_nearest",
    "jpeg",
    "level_values",
    "mosaic",
    "png",
    "quantize",
]

Pixels = npt.NDArray[np.uint8]

LEVELS: Final = 256
_IN_WINDOW: Final = 192
_QUALITY: Final = 90


def png(picture: Pixels) -> str:
    """Encode a gray ``(H, W)``, RGB ``(H, W, 3)`` or RGBA ``(H, W, 4)`` image as a PNG data URI."""
    import cv2

    bgr = picture
    if picture.ndim == 3:
        bgr = picture[..., [2, 1, 0, 3] if picture.shape[2] == 4 else [2, 1, 0]]
    _, data = cv2.imencode(".png", np.ascontiguousarray(bgr))
    return f"data:image/png;base64,{base64.b64encode(data.data).decode('ascii')}"


def jpeg(picture: Pixels) -> str:
    """Encode an RGB image ``(H, W, 3)`` as a JPEG data URI of quality 90 and 4:4:4 chroma."""
    import simplejpeg

    data = simplejpeg.encode_jpeg(np.ascontiguousarray(picture), _QUALITY, "RGB", "444", fastdct=False)
    return f"data:image/jpeg;base64,{base64.b64encode(data).decode('ascii')}"


def colors(frames: npt.NDArray[Any]) -> Pixels:
    """Convert frames ``(F, H, W, C)`` of any type to 8-bit RGB.

    Two channels are optical flow. 8- and 16-bit unsigned integers and floats from 0 to 1 keep the range of their type;
    other values are windowed to percentiles 0.5 to 99.5.
    """
    if frames.shape[-1] == 2:
        wheel: Pixels = to_rgb(frames.astype(np.float32))
        return wheel
    values = as_real(frames[..., :3] if frames.shape[-1] >= 3 else frames[..., :1])
    if frames.dtype != np.uint8:
        values = windowed(values, _range_of(values))
    return np.broadcast_to(values, (*frames.shape[:-1], 3))


def _range_of(values: npt.NDArray[Any]) -> tuple[float, float]:
    """Return the values that are shown as black and as white."""
    if values.dtype == np.uint16:
        return 0.0, 65535.0
    if values.dtype.kind == "f":
        finite = values[np.isfinite(values)]
        if finite.size and finite.min() >= 0 and finite.max() <= 1:
            return 0.0, 1.0
    return window_of(values)


def level_values(values: npt.NDArray[Any], window: tuple[float, float]) -> FloatArray:
    """Return the values of the quantization levels, ascending, at most 256.

    Integers of at most 256 distinct values get one level each. Otherwise three quarters of the levels are spaced evenly
    inside the window, the rest outside of it.
    """
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    if not finite.size:
        return np.zeros(1)
    low, high = float(finite.min()), float(finite.max())
    if values.dtype.kind in "iu":
        if high - low < LEVELS:
            return np.arange(low, high + 1)
        if len(different := np.unique(values)) <= LEVELS:
            return different.astype(np.float64)
    first, last = max(low, window[0]), min(high, window[1])
    outside = (first - low) + (high - last)
    if outside <= 0 or first >= last:
        return np.linspace(low, high, LEVELS)
    below = round((LEVELS - _IN_WINDOW) * (first - low) / outside)
    parts = (
        np.linspace(low, first, below, endpoint=False),
        np.linspace(first, last, _IN_WINDOW),
        np.linspace(high, last, LEVELS - _IN_WINDOW - below, endpoint=False)[::-1],
    )
    return np.concatenate(parts)


def quantize(values: npt.NDArray[Any], levels: FloatArray) -> Pixels:
    """Quantize values to the index of the nearest level; NaN becomes 0."""
    middles = ((levels[1:] + levels[:-1]) / 2).astype(
        np.float32 if values.dtype.itemsize <= 4 else np.float64
    )
    indices = np.searchsorted(middles, values.reshape(-1)).astype(np.uint8).reshape(values.shape)
    if values.dtype.kind == "f":
        indices[np.isnan(values)] = 0
    return indices


def downsample_mean(values: npt.NDArray[Any], size: Seq[int]) -> npt.NDArray[Any]:
    """Downsample a volume ``DHWC`` over the same extent by area averaging, to float32."""
    import cv2

    depth, height, width, channels = values.shape
    step = depth / size[0]
    result = np.empty((*size, channels), np.float32)
    for index in range(size[0]):
        start, stop = index * step, (index + 1) * step
        total = np.zeros((size[1], size[2], channels), np.float64)
        for source in range(math.floor(start), min(depth, math.ceil(stop - 1e-9))):
            overlap = min(stop, source + 1) - max(start, source)
            plane = values[source].astype(np.float32)
            if (height, width) != (size[1], size[2]):
                plane = cv2.resize(plane, (size[2], size[1]), interpolation=cv2.INTER_AREA).reshape(
                    total.shape
                )
            total += plane * (overlap / step)
        result[index] = total
    return result


def downsample_nearest(values: npt.NDArray[Any], size: Seq[int]) -> npt.NDArray[Any]:
    """Downsample a volume ``DHW`` over the same extent by the nearest voxel."""
    indices: list[IntArray] = [
        np.floor((np.arange(n) + 0.5) * full / n).astype(np.int64)
        for n, full in zip(size, values.shape, strict=True)
    ]
    return values[np.ix_(*indices)]


def mosaic(levels: Pixels, columns: int) -> Pixels:
    """Arrange the slices of a volume ``DHW`` or ``DHWC`` in a grid, padded with 0."""
    depth, height, width = levels.shape[:3]
    rows = math.ceil(depth / columns)
    sheet = np.zeros((rows * columns, *levels.shape[1:]), np.uint8)
    sheet[:depth] = levels
    grid = sheet.reshape(rows, columns, height, width, -1).swapaxes(1, 2)
    image: Pixels = np.ascontiguousarray(grid).reshape(rows * height, columns * width, *levels.shape[3:])
    return image
