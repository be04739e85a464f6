"""Scaling of a window of a frame, with the samples around it in reach of the filter, by matrix products.

The filter is that of the CUDA kernels (cuda/weights.cuh): a triangle with pixel centers at half integers, widened for
downscaling, applied to chroma interpolated linearly to the luma grid. Samples outside of the crop have no weight, so
the result is that of Pillow's ``resize(box=…)`` for planes on the luma grid. swscale cannot use samples around a
window.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any, Final, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from ...array import IntArray
from .chroma import ChromaAxis, ChromaGrid
from .geometry import Placement, Stretch
from .surface import Plane
from .triangle import triangle

__all__ = ["Bands", "RoundedWindow", "WindowedPlanes", "crop_to_reach", "make_bands"]

_BAND_PIXELS: Final = 8
# BLAS would compute larger products with threads of its own, in addition to seqpipe's.
_MOST_PRODUCT: Final = 1 << 18

_Real = npt.NDArray[np.float32]


class _Band(NamedTuple):
    """Block of the resampling matrix of an axis.

    Attributes:
        pixels: range of pixels.
        samples: range of samples that contribute to them.
        weights: weights, of shape (pixels, samples).
    """

    pixels: slice
    samples: slice
    weights: _Real


class Bands(NamedTuple):
    """Banded resampling matrix of an axis.

    Attributes:
        bands: blocks of the matrix, in the order of the pixels.
        samples: range of all contributing samples.
        size: number of pixels.
    """

    bands: tuple[_Band, ...]
    samples: slice
    size: int

    def apply(self, lines: Plane) -> _Real:
        """Resample each column of ``lines``, of shape (samples, columns), which begins with the first sample."""
        columns = lines.shape[1]
        result: _Real = np.empty((self.size, columns), np.float32)
        for pixels, samples, weights in self.bands:
            part = lines[samples.start - self.samples.start : samples.stop - self.samples.start]
            width = max(16, _MOST_PRODUCT // weights.size)
            for left in range(0, columns, width):
                values = part[:, left : left + width].astype(np.float32, copy=False)
                np.matmul(weights, values, out=result[pixels, left : left + width])
        return result


def make_bands(axis: ChromaAxis, stretch: Stretch) -> Bands:
    """Return the resampling matrix that scales the wanted luma samples of an axis to a number of pixels.

    Args:
        axis: range of luma samples, and the position of the plane's samples among them; shift 0 for the luma plane.
        stretch: scaling of these luma samples to pixels.
    """
    luma_samples, weights = _triangle(axis.length, stretch)
    position = (axis.start + luma_samples - axis.offset) / (1 << axis.shift)
    near = np.floor(position)
    part = position - near
    samples = np.concatenate([near, near + 1], axis=1).clip(0, axis.samples - 1).astype(np.int64)
    both = np.concatenate([weights * (1 - part), weights * part], axis=1)
    bands = [
        _band(begin, samples[begin : begin + _BAND_PIXELS], both[begin : begin + _BAND_PIXELS])
        for begin in range(0, stretch.pixels, _BAND_PIXELS)
    ]
    first, last = min(band.samples.start for band in bands), max(band.samples.stop for band in bands)
    return Bands(tuple(bands), slice(first, last), stretch.pixels)


def _triangle(shown: int, stretch: Stretch) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the visible samples around each pixel, and their weights: 0 out of reach or outside of the crop."""
    scale = stretch.length / stretch.size
    pixels = stretch.first + np.arange(stretch.pixels)[:, None]
    samples, weights = triangle(stretch.begin + (pixels + 0.5) * scale - 0.5, scale)
    weights[(samples < 0) | (samples >= shown)] = 0
    return samples.clip(0, shown - 1), weights / weights.sum(axis=1, keepdims=True)


def _band(begin: int, samples: IntArray, weights: npt.NDArray[Any]) -> _Band:
    used = samples[weights > 0]
    first, last = int(used.min()), int(used.max()) + 1
    count, width = len(samples), last - first
    at = np.arange(count)[:, None] * width + (samples - first).clip(0, width - 1)
    matrix = np.bincount(at.ravel(), weights.ravel(), count * width).reshape(count, width)
    return _Band(slice(begin, begin + count), slice(first, last), matrix.astype(np.float32))


class WindowedPlanes:
    """Scales a window of planes to the output grid, see :class:`seqpipe.video.convert.orient.PlaneTransform`.

    It holds the weights alone, without scratch memory: each request may have its own window, so many of these are
    cached.

    Args:
        grids: grid of each needed plane.
        stretches: scaling of luma columns and rows to pixels.
        dtype: type of the result.
        headroom: bits by which its samples are shifted left.
    """

    def __init__(
        self, grids: Seq[ChromaGrid], stretches: tuple[Stretch, Stretch], dtype: np.dtype[Any], headroom: int
    ) -> None:
        known: dict[ChromaGrid, tuple[Bands, Bands]] = {}
        for grid in grids:
            if grid not in known:
                known[grid] = make_bands(grid.x, stretches[0]), make_bands(grid.y, stretches[1])
        self._axes = [known[grid] for grid in grids]
        self._dtype, self._scale = dtype, np.float32(1 << headroom)
        self.shape = stretches[1].pixels, stretches[0].pixels
        self.cut = slice(0, self.shape[0]), slice(0, self.shape[1])

    def __call__(self, planes: Seq[Plane]) -> Seq[Plane]:
        """Return the planes, contiguous in new memory."""
        result = np.empty((len(self._axes), *self.shape), self._dtype)
        for target, plane, (across, down) in zip(result, planes, self._axes, strict=False):
            rows = down.apply(plane[down.samples, across.samples])
            pixels = across.apply(rows.T)
            pixels *= self._scale
            np.rint(pixels.T, out=target, casting="unsafe")
        return list(result)


def crop_to_reach(placement: Placement) -> Placement:
    """Crop a window's placement to the samples in reach of the filter; the result stays the same.

    Args:
        placement: placement with a window.
    """
    x, y, *_ = placement.box
    left, top, across, down = placement.window or placement.box
    parts = []
    for stretch, shown in zip(placement.stretches, placement.box[2:], strict=True):
        reach = max(1, -(-stretch.length // stretch.size)) + 1
        first = max(0, stretch.begin - reach)
        parts.append((first, min(shown, stretch.begin + stretch.length + reach) - first))
    (first_x, width), (first_y, height) = parts
    box, window = (x + first_x, y + first_y, width, height), (left - first_x, top - first_y, across, down)
    return replace(placement, box=box, window=window)


class RoundedWindow:
    """Scales a window of a frame that is first converted at full size, see :class:`WindowedPlanes`.

    Args:
        convert: converts the visible part of the frame into an array.
        shape: (height, width, channels) of that part.
        source: type of its values.
        placement: placement of the window in it.
        dtype: type of the result.
        headroom: bits by which its values are shifted left.
    """

    def __init__(
        self,
        convert: Callable[[Seq[Plane], Plane], None],
        shape: tuple[int, int, int],
        source: np.dtype[Any],
        placement: Placement,
        dtype: np.dtype[Any],
        headroom: int,
    ) -> None:
        self._convert, self._source, self._source_shape = convert, source, shape
        across, down = placement.stretches
        self._across = make_bands(ChromaAxis(0, 0.0, 0, shape[1], shape[1]), across)
        self._down = make_bands(ChromaAxis(0, 0.0, 0, shape[0], shape[0]), down)
        self._dtype, self._scale = dtype, np.float32(1 << headroom)
        self.shape = down.pixels, across.pixels
        self.cut = slice(0, self.shape[0]), slice(0, self.shape[1])

    def __call__(self, planes: Seq[Plane]) -> Seq[Plane]:
        """Return the channels, contiguous in new memory."""
        frame = np.empty(self._source_shape, self._source)
        self._convert(planes, frame)
        (rows, columns), channels = self.shape, frame.shape[2]
        first, last = self._across.samples.start * channels, self._across.samples.stop * channels
        lines = self._down.apply(frame.reshape(len(frame), -1)[self._down.samples, first:last])
        # OpenCV transposes pixels several times faster than NumPy.
        transposed = cv2.transpose(lines.reshape(rows, -1, channels)).reshape(-1, rows * channels)
        pixels = self._across.apply(transposed)
        pixels *= self._scale
        result = np.empty((channels, rows, columns), self._dtype)
        np.rint(pixels.reshape(columns, rows, channels).transpose(2, 1, 0), out=result, casting="unsafe")
        return list(result)
