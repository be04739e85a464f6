"""Voxels and pixels as 8-bit pictures, and pictures as texts inside of a page."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence as Seq
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..array import FloatArray, IntArray
from ..flow.color import to_rgb
from ..volume.pictures import window_of, windowed

__all__ = [
    "LEVELS",
    "Pixels",
    "area_averaged",
    "colors",
    "encoded",
    "jpeg",
    "level_values",
    "mosaic",
    "nearest_taken",
    "plain",
    "png",
]

Pixels = npt.NDArray[np.uint8]

LEVELS: Final = 256
_IN_WINDOW: Final = 192
_QUALITY: Final = 90


def png(picture: Pixels) -> str:
    """A gray ``(H, W)``, RGB ``(H, W, 3)`` or RGBA ``(H, W, 4)`` picture as a data URI; lossless."""
    import cv2

    turned = picture
    if picture.ndim == 3:
        turned = picture[..., [2, 1, 0, 3] if picture.shape[2] == 4 else [2, 1, 0]]
    _, data = cv2.imencode(".png", np.ascontiguousarray(turned))
    return f"data:image/png;base64,{base64.b64encode(data.data).decode('ascii')}"


def jpeg(picture: Pixels) -> str:
    """An RGB picture ``(H, W, 3)`` as a data URI, of quality 90 with full color resolution."""
    import simplejpeg

    data = simplejpeg.encode_jpeg(np.ascontiguousarray(picture), _QUALITY, "RGB", "444", fastdct=False)
    return f"data:image/jpeg;base64,{base64.b64encode(data).decode('ascii')}"


def colors(frames: npt.NDArray[Any]) -> Pixels:
    """Frames ``(F, H, W, C)`` of any type as RGB: two channels as flow, other numbers by percentiles 0.5 to 99.5.

    Floats from 0 to 1 and whole numbers of 8 and 16 bits are shown by the range of their type.
    """
    if frames.shape[-1] == 2:
        made: Pixels = to_rgb(frames.astype(np.float32))
        return made
    rgb = frames[..., :3] if frames.shape[-1] >= 3 else np.repeat(frames[..., :1], 3, axis=-1)
    if rgb.dtype == np.uint8:
        return rgb
    rgb = plain(rgb)
    if rgb.dtype == np.uint16:
        window = (0.0, 65535.0)
    elif rgb.dtype.kind == "f" and rgb.size and np.nanmin(rgb) >= 0 and np.nanmax(rgb) <= 1:
        window = (0.0, 1.0)
    else:
        window = window_of(rgb)
    return windowed(rgb, window)


def plain(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values that can be compared: the magnitude of complex ones, 0 and 1 for booleans."""
    if values.dtype.kind == "c":
        magnitudes: npt.NDArray[Any] = np.abs(values)
        return magnitudes
    return values.astype(np.uint8) if values.dtype.kind == "b" else values


def level_values(values: npt.NDArray[Any], window: tuple[float, float]) -> FloatArray:
    """The values, ascending, that levels 0, 1, … stand for; at most 256.

    Whole numbers of no more than 256 values have a level each. Else three quarters of the levels are spread evenly in
    the window, the rest over what lies outside of it.

    Args:
        values: of the volume.
        window: the ends of what is shown first.
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


def encoded(values: npt.NDArray[Any], levels: FloatArray) -> Pixels:
    """The level that is nearest to each value; NaN has level 0.

    Args:
        values: of any shape.
        levels: the values of the levels, ascending.
    """
    middles = ((levels[1:] + levels[:-1]) / 2).astype(
        np.float32 if values.dtype.itemsize <= 4 else np.float64
    )
    found = np.searchsorted(middles, values.reshape(-1)).astype(np.uint8).reshape(values.shape)
    if values.dtype.kind == "f":
        found[np.isnan(values)] = 0
    return found


def area_averaged(values: npt.NDArray[Any], size: Seq[int]) -> npt.NDArray[Any]:
    """A volume ``DHWC`` on a coarser grid over the same extent: the mean of what each voxel covers, in float32.

    Args:
        values: of any real type.
        size: D, H and W of the result, none larger than before.
    """
    import cv2

    depth, height, width, channels = values.shape
    step = depth / size[0]
    made = np.empty((*size, channels), np.float32)
    flat = (size[2], size[1])
    for place in range(size[0]):
        start, stop = place * step, (place + 1) * step
        total = np.zeros((size[1], size[2], channels), np.float64)
        for source in range(math.floor(start), min(depth, math.ceil(stop - 1e-9))):
            share = min(stop, source + 1) - max(start, source)
            one = values[source].astype(np.float32)
            if (height, width) != (size[1], size[2]):
                one = cv2.resize(one, flat, interpolation=cv2.INTER_AREA).reshape(total.shape)
            total += one * (share / step)
        made[place] = total
    return made


def nearest_taken(values: npt.NDArray[Any], size: Seq[int]) -> npt.NDArray[Any]:
    """A volume ``DHW`` on a coarser grid over the same extent: the voxel at the center of each."""
    places: list[IntArray] = [
        np.floor((np.arange(n) + 0.5) * have / n).astype(np.int64)
        for n, have in zip(size, values.shape, strict=True)
    ]
    return values[np.ix_(*places)]


def mosaic(levels: Pixels, columns: int) -> Pixels:
    """The slices of a volume ``DHW`` or ``DHWC`` side by side in rows, the rest black.

    Args:
        levels: the volume.
        columns: slices in a row.
    """
    depth, height, width = levels.shape[:3]
    rows = math.ceil(depth / columns)
    sheet = np.zeros((rows * columns, *levels.shape[1:]), np.uint8)
    sheet[:depth] = levels
    grid = sheet.reshape(rows, columns, height, width, -1).swapaxes(1, 2)
    made: Pixels = np.ascontiguousarray(grid).reshape(rows * height, columns * width, *levels.shape[3:])
    return made
