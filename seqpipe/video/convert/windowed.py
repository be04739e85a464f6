"""Window scaling of planes with the samples around them, by matrix products.

The filter is the kernels' (cuda/weights.cuh says the same in C++): a triangle with pixel centers at half integers,
widened to shrink, upon chroma that is interpolated linearly to the luma grid. Beyond what is shown nothing counts, so
that the result is what Pillow's ``resize(box=…)`` makes of planes on the luma grid. swscale cannot do that: it knows no
samples beside what it scales.
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

__all__ = ["Bands", "Rounded", "WindowedSurface", "bands_of", "within_reach"]

_PIXELS: Final = 8  # of an axis that one product makes: their samples lie side by side
# Larger products BLAS would share out among threads of its own, of which every one of ours would have some.
_PRODUCT: Final = 1 << 18

_Real = npt.NDArray[np.float32]


class _Band(NamedTuple):
    """Some pixels of an axis.

    Attributes:
        pixels: which.
        samples: what they are made of.
        weights: (pixels, samples).
    """

    pixels: slice
    samples: slice
    weights: _Real


class Bands(NamedTuple):
    """How an axis of a plane becomes pixels.

    Attributes:
        bands: of all pixels, in their order.
        samples: all that they are made of.
        size: how many pixels there are.
    """

    bands: tuple[_Band, ...]
    samples: slice
    size: int

    def summed(self, lines: Plane) -> _Real:
        """Pixels made of lines: those of each column of ``(samples, columns)``, which begins with the first sample."""
        columns = lines.shape[1]
        result: _Real = np.empty((self.size, columns), np.float32)
        for pixels, samples, weights in self.bands:
            part = lines[samples.start - self.samples.start : samples.stop - self.samples.start]
            some = max(16, _PRODUCT // weights.size)
            for left in range(0, columns, some):
                values = part[:, left : left + some].astype(np.float32, copy=False)
                np.matmul(weights, values, out=result[pixels, left : left + some])
        return result


def bands_of(axis: ChromaAxis, stretch: Stretch) -> Bands:
    """The weights that bring the wanted luma samples of an axis to a number of pixels.

    Args:
        axis: which luma samples, and how the plane's own lie among them; shift 0 for the luma plane.
        stretch: how those luma samples become pixels.
    """
    places, weights = _triangle(axis.length, stretch)
    position = (axis.start + places - axis.offset) / (1 << axis.shift)
    near = np.floor(position)
    part = position - near
    samples = np.concatenate([near, near + 1], axis=1).clip(0, axis.samples - 1).astype(np.int64)
    both = np.concatenate([weights * (1 - part), weights * part], axis=1)
    made = [
        _band(begin, samples[begin : begin + _PIXELS], both[begin : begin + _PIXELS])
        for begin in range(0, stretch.pixels, _PIXELS)
    ]
    first, last = min(band.samples.start for band in made), max(band.samples.stop for band in made)
    return Bands(tuple(made), slice(first, last), stretch.pixels)


def _triangle(shown: int, stretch: Stretch) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """For each pixel the shown samples around it, and their weights: 0 out of reach, or if not shown."""
    scale = stretch.length / stretch.size
    pixels = stretch.first + np.arange(stretch.pixels)[:, None]
    places, weights = triangle(stretch.begin + (pixels + 0.5) * scale - 0.5, scale)
    weights[(places < 0) | (places >= shown)] = 0
    return places.clip(0, shown - 1), weights / weights.sum(axis=1, keepdims=True)


def _band(begin: int, samples: IntArray, weights: npt.NDArray[Any]) -> _Band:
    used = samples[weights > 0]
    first, last = int(used.min()), int(used.max()) + 1
    count, width = len(samples), last - first
    at = np.arange(count)[:, None] * width + (samples - first).clip(0, width - 1)
    matrix = np.bincount(at.ravel(), weights.ravel(), count * width).reshape(count, width)
    return _Band(slice(begin, begin + count), slice(first, last), matrix.astype(np.float32))


class WindowedSurface:
    """Planes of which a window is scaled to the picture's grid; see :class:`seqpipe.video.convert.orient.OnGrid`.

    It keeps the weights alone: every request may have a window of its own, so that many of these are kept.

    Args:
        grids: of each plane that is needed.
        stretches: how luma columns and rows become pixels.
        dtype: of the result.
        headroom: bits by which its samples are shifted up.
    """

    def __init__(
        self, grids: Seq[ChromaGrid], stretches: tuple[Stretch, Stretch], dtype: np.dtype[Any], headroom: int
    ) -> None:
        known: dict[ChromaGrid, tuple[Bands, Bands]] = {}
        for grid in grids:
            if grid not in known:
                known[grid] = bands_of(grid.x, stretches[0]), bands_of(grid.y, stretches[1])
        self._axes = [known[grid] for grid in grids]
        self._dtype, self._scale = dtype, np.float32(1 << headroom)
        self.shape = stretches[1].pixels, stretches[0].pixels
        self.cut = slice(0, self.shape[0]), slice(0, self.shape[1])

    def __call__(self, planes: Seq[Plane]) -> Seq[Plane]:
        """The planes, one behind the other in new memory."""
        made = np.empty((len(self._axes), *self.shape), self._dtype)
        for target, plane, (across, down) in zip(made, planes, self._axes, strict=False):
            rows = down.summed(plane[down.samples, across.samples])
            pixels = across.summed(rows.T)
            pixels *= self._scale
            np.rint(pixels.T, out=target, casting="unsafe")
        return list(made)


def within_reach(placement: Placement) -> Placement:
    """The same picture, with nothing shown that its filter does not reach.

    Args:
        placement: of a window.
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


class Rounded:
    """A window of a picture that is made at full size first, channel by channel; see :class:`WindowedSurface`.

    Args:
        picture: makes the part of it that is shown, in memory of that shape.
        shape: (rows, columns, channels) of that part.
        source: type of its values.
        placement: where the window lies in it.
        dtype: of the result.
        headroom: bits by which its values are shifted up.
    """

    def __init__(
        self,
        picture: Callable[[Seq[Plane], Plane], None],
        shape: tuple[int, int, int],
        source: np.dtype[Any],
        placement: Placement,
        dtype: np.dtype[Any],
        headroom: int,
    ) -> None:
        self._picture, self._source, self._source_shape = picture, source, shape
        across, down = placement.stretches
        self._across = bands_of(ChromaAxis(0, 0.0, 0, shape[1], shape[1]), across)
        self._down = bands_of(ChromaAxis(0, 0.0, 0, shape[0], shape[0]), down)
        self._dtype, self._scale = dtype, np.float32(1 << headroom)
        self.shape = down.pixels, across.pixels
        self.cut = slice(0, self.shape[0]), slice(0, self.shape[1])

    def __call__(self, planes: Seq[Plane]) -> Seq[Plane]:
        """The channels, one behind the other in new memory."""
        whole = np.empty(self._source_shape, self._source)
        self._picture(planes, whole)
        (rows, columns), channels = self.shape, whole.shape[2]
        first, last = self._across.samples.start * channels, self._across.samples.stop * channels
        lines = self._down.summed(whole.reshape(len(whole), -1)[self._down.samples, first:last])
        # OpenCV turns pixels round several times faster than NumPy
        turned = cv2.transpose(lines.reshape(rows, -1, channels)).reshape(-1, rows * channels)
        pixels = self._across.summed(turned)
        pixels *= self._scale
        made = np.empty((channels, rows, columns), self._dtype)
        np.rint(pixels.reshape(columns, rows, channels).transpose(2, 1, 0), out=made, casting="unsafe")
        return list(made)
