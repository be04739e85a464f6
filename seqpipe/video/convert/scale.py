"""Plane scaling by swscale: bilinear, pixel centers at half integers, antialiased.

Measured against Pillow's BILINEAR on 1080p: mean difference 0.1 of 255. They part at the edges of the
picture, where swscale repeats the last pixel and Pillow leaves out what lies beyond it.

Of axes with few samples or few pixels, and of those that shrink very much, its filters are cut off and displaced: that
is up to 150 of 255 levels where there are two or three samples, and 20 where more than 84 become one. Some it refuses.
These are made by products of matrices.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, Final

import av
import numpy as np
import numpy.typing as npt

from .surface import Plane
from .swscale import VideoReformatter, reformat
from .triangle import triangle

__all__ = ["PlaneScaler"]

_GRAY16 = "gray16le" if sys.byteorder == "little" else "gray16be"
# Of rows with few samples, or where few are made of each, a filter takes them all, and is rounded up to 4 or 8 taps.
# Those too many weigh nothing, but swscale reads samples for them: up to three behind the last row, or seven.
_FEW: Final = 16
# pixels of an axis, and how many samples become one, up to which swscale's filters are right
_LEAST_PIXELS: Final = 4
_MOST_SAMPLES: Final = 64


class PlaneScaler:
    """Scales planes of one kind; keeps swscale's filters from frame to frame, so it belongs to one thread."""

    def __init__(self) -> None:
        self._reformatter = VideoReformatter()

    def __call__(self, plane: Plane, size: tuple[int, int], *, deep: bool = False) -> Plane:
        """The plane scaled to (width, height): itself if it has that size, else memory of its own.

        Args:
            plane: uint8 or native uint16; its rows may have gaps.
            size: columns and rows of the result.
            deep: whether the result of a uint8 plane is to be uint16, of 256 times the values.
        """
        if (plane.shape[1], plane.shape[0]) == size:
            return plane
        sizes = zip(plane.shape, reversed(size), strict=True)
        down, across = (_shares(*of_axis) if _is_extreme(*of_axis) else None for of_axis in sizes)
        if down is None and across is None:
            return self._by_swscale(plane, size, deep=deep)
        made = _by_products(plane, down, across)
        if (made.shape[1], made.shape[0]) != size:
            made = self._by_swscale(made, size, deep=True)
        return made if deep or plane.itemsize == 2 else _rounded(made)

    def _by_swscale(self, plane: Plane, size: tuple[int, int], *, deep: bool) -> Plane:
        is_narrow = min(plane.shape[1], size[0]) < _FEW
        if is_narrow or plane.strides[1] != plane.itemsize or plane.strides[0] < 0:
            plane = _with_room_behind(plane)
        form = "gray" if plane.itemsize == 1 else _GRAY16
        dtype = np.dtype(np.uint16) if deep else plane.dtype
        frame = av.VideoFrame.from_numpy_buffer(plane, format=form)
        scaled = reformat(self._reformatter, frame, _GRAY16 if deep else form, size).planes[0]
        rows: Plane = np.frombuffer(memoryview(scaled), dtype).reshape(size[1], -1)
        return rows[:, : size[0]]


def _is_extreme(samples: int, pixels: int) -> bool:
    """Whether swscale makes something else of an axis."""
    few = samples < _FEW or pixels < _LEAST_PIXELS
    return samples != pixels and (few or samples > _MOST_SAMPLES * pixels)


@lru_cache(maxsize=32)
def _shares(samples: int, pixels: int) -> npt.NDArray[np.float32]:
    """What share each sample of an axis has in each pixel, ``(pixels, samples)``."""
    step = samples / pixels
    places, weights = triangle((np.arange(pixels)[:, None] + 0.5) * step - 0.5, step)
    shares = np.zeros((pixels, samples))
    np.add.at(shares, (np.arange(pixels)[:, None], places.astype(np.int64).clip(0, samples - 1)), weights)
    result: npt.NDArray[np.float32] = (shares / shares.sum(axis=1, keepdims=True)).astype(np.float32)
    result.flags.writeable = False  # it is kept
    return result


def _by_products(plane: Plane, down: npt.NDArray[Any] | None, across: npt.NDArray[Any] | None) -> Plane:
    """A plane with one or both of its axes made, as uint16; of 256 times the values, if they were bytes."""
    values = plane.astype(np.float32)
    if down is not None:
        values = down @ values
    if across is not None:
        values = values @ across.T
    levels: Plane = np.rint(values * (256 if plane.itemsize == 1 else 1)).astype(np.uint16)
    return levels


def _rounded(plane: Plane) -> Plane:
    """Whole levels of what has 256 times as many."""
    levels: Plane = ((plane.astype(np.uint32) + 128) >> 8).astype(np.uint8)
    return levels


def _with_room_behind(plane: Plane) -> Plane:
    """A copy whose memory goes on for some samples behind each row."""
    rows, columns = plane.shape
    copy: Plane = np.empty((rows, columns + _FEW), plane.dtype)[:, :columns]
    np.copyto(copy, plane)
    return copy
