"""Geometry of a surface's planes: cropped, upsampled or scaled, mirrored and rotated."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ...array import IntArray
from ...core.lazy import LazyModule
from .chroma import ChromaAxis, ChromaGrid, Upsampler, fill
from .geometry import Placement, Stretch
from .scale import PlaneScaler, triangle
from .surface import ConversionScratch, Plane

if TYPE_CHECKING:
    import cv2
else:
    cv2 = LazyModule("cv2")  # most videos do not need it, and its import takes 20 ms

__all__ = [
    "Bands",
    "OrientedPlanes",
    "PlaneTransform",
    "RoundedWindow",
    "ScaledPlanes",
    "UnscaledPlanes",
    "WindowedPlanes",
    "crop_to_reach",
    "make_bands",
    "oriented",
]

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
            taken = lines[samples.start - self.samples.start : samples.stop - self.samples.start]
            width = max(16, _MOST_PRODUCT // weights.size)
            for left in range(0, columns, width):
                values = taken[:, left : left + width].astype(np.float32, copy=False)
                np.matmul(weights, values, out=result[pixels, left : left + width])
        return result


def make_bands(axis: ChromaAxis, stretch: Stretch) -> Bands:
    """Return the resampling matrix that scales the wanted luma samples of an axis to a number of pixels."""
    luma_samples, weights = _triangle(axis.length, stretch)
    position = (axis.start + luma_samples - axis.offset) / (1 << axis.shift)
    near = np.floor(position)
    taken = position - near
    samples = np.concatenate([near, near + 1], axis=1).clip(0, axis.samples - 1).astype(np.int64)
    both = np.concatenate([weights * (1 - taken), weights * taken], axis=1)
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
    """Return the weights of a band of output samples as a dense matrix."""
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
    """Crop a window's placement to the samples in reach of the filter; the result stays the same."""
    x, y, *_ = placement.box
    left, top, across, down = placement.window or placement.box
    spans = []
    for stretch, shown in zip(placement.stretches, placement.box[2:], strict=True):
        reach = max(1, -(-stretch.length // stretch.size)) + 1
        first = max(0, stretch.begin - reach)
        spans.append((first, min(shown, stretch.begin + stretch.length + reach) - first))
    (first_x, width), (first_y, height) = spans
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


# OpenCV operations for a mirror left to right followed by counter-clockwise quarter turns.
_TURN: Final[dict[tuple[bool, int], Callable[[Plane, Plane], object]]] = {
    (False, 1): lambda source, target: cv2.rotate(source, cv2.ROTATE_90_COUNTERCLOCKWISE, dst=target),
    (False, 2): lambda source, target: cv2.rotate(source, cv2.ROTATE_180, dst=target),
    (False, 3): lambda source, target: cv2.rotate(source, cv2.ROTATE_90_CLOCKWISE, dst=target),
    (True, 0): lambda source, target: cv2.flip(source, 1, dst=target),
    (True, 1): lambda source, target: cv2.transpose(source, dst=target),
    (True, 2): lambda source, target: cv2.flip(source, 0, dst=target),
    (True, 3): lambda source, target: cv2.transpose(cv2.rotate(source, cv2.ROTATE_180), dst=target),
}


class PlaneTransform(Protocol):
    """Transforms planes to one grid, of which ``cut`` is the output frame.

    Several planes are contiguous arrays, which OpenCV merges many times faster than others.
    """

    shape: tuple[int, int]
    cut: tuple[slice, slice]

    def __call__(self, planes: Seq[Plane]) -> Seq[Plane]:
        """Return the needed planes of a surface, in memory that the next call may overwrite."""


class UnscaledPlanes:
    """Planes on the luma grid, unscaled.

    Args:
        grids: grid of each needed plane.
        dtype: type of the result.
        headroom: bits by which its samples are shifted left.
        scratch: memory for the planes.
    """

    def __init__(
        self, grids: Seq[ChromaGrid], dtype: np.dtype[Any], headroom: int, scratch: ConversionScratch
    ) -> None:
        luma, *others = grids
        self._headroom = headroom
        self._upsampler: Upsampler | None = None
        self.shape, self.cut = luma.shape, _full(luma.shape)
        own = grids
        if others and others[0].subsampled:
            own = grids[:1]
            self._upsampler = Upsampler(others[0], len(others), dtype, headroom, scratch)
            self.shape, self.cut = others[0].shape, others[0].cut
        self._windows = [grid.window for grid in own]
        self._is_view = len(grids) == 1 and headroom == 0
        self._planes = [scratch.array(f"plane {number}", self.shape, dtype) for number in range(len(own))]
        self._targets = [plane[self.cut] for plane in self._planes]

    def __call__(self, planes: Seq[Plane]) -> Seq[Plane]:
        """The planes, see :class:`PlaneTransform`."""
        if self._is_view:
            return [planes[0][self._windows[0]]]
        for plane, window, target in zip(planes, self._windows, self._targets, strict=False):
            fill(target, plane[window], self._headroom)
        return self._planes if self._upsampler is None else (*self._planes, *self._upsampler(planes[1:]))


class ScaledPlanes:
    """Planes scaled to the output grid; the arguments are those of :class:`UnscaledPlanes`, and a placement."""

    def __init__(
        self,
        grids: Seq[ChromaGrid],
        placement: Placement,
        dtype: np.dtype[Any],
        headroom: int,
        scratch: ConversionScratch,
    ) -> None:
        size = placement.scaled or placement.size
        self.shape = size[1], size[0]
        (left, top), (width, height) = placement.at, placement.size
        self.cut = slice(top, top + height), slice(left, left + width)
        self._size, self._headroom = size, headroom
        directly = all(grid.skips_luma_grid(size) for grid in grids if grid.subsampled)
        self._sources = [_source(grid, dtype, headroom, directly, scratch) for grid in grids]
        self._scalers = [PlaneScaler() for _ in grids]
        self._planes = [scratch.array(f"plane {number}", self.shape, dtype) for number in range(len(grids))]

    def __call__(self, planes: Seq[Plane]) -> Seq[Plane]:
        """The planes, see :class:`PlaneTransform`."""
        steps = zip(planes, self._sources, self._scalers, self._planes, strict=False)
        for plane, source, scaler, target in steps:
            scaled = scaler(source(plane), self._size, deep=target.itemsize > 1)
            # A plane that has the size already is returned in its own type.
            fill(target, scaled, 0 if scaled.dtype == target.dtype else self._headroom)
        return self._planes


class OrientedPlanes:
    """Planes of another transform, mirrored and rotated."""

    def __init__(
        self,
        source: PlaneTransform,
        placement: Placement,
        planes: int,
        dtype: np.dtype[Any],
        scratch: ConversionScratch,
    ) -> None:
        self._source = source
        self._turn = _TURN[placement.flipped, placement.quarter_turns]
        self.shape = placement.shape
        self.cut = _full(self.shape)
        self._planes = [scratch.array(f"oriented {number}", self.shape, dtype) for number in range(planes)]

    def __call__(self, planes: Seq[Plane]) -> Seq[Plane]:
        """The planes, see :class:`PlaneTransform`."""
        for plane, target in zip(self._source(planes), self._planes, strict=True):
            self._turn(plane[self._source.cut], target)
        return self._planes


def oriented(
    source: PlaneTransform,
    placement: Placement,
    planes: int,
    dtype: np.dtype[Any],
    scratch: ConversionScratch,
) -> PlaneTransform:
    """Return ``source`` with the mirror and rotation of a placement applied; itself if there are none."""
    if not placement.flipped and placement.quarter_turns == 0:
        return source
    return OrientedPlanes(source, placement, planes, dtype, scratch)


def _source(
    grid: ChromaGrid, dtype: np.dtype[Any], headroom: int, directly: bool, scratch: ConversionScratch
) -> Callable[[Plane], Plane]:
    """Return a function that extracts the part of a plane to be scaled, in the type that is scaled."""
    if grid.subsampled and not directly:
        upsampler = Upsampler(grid, 1, dtype, headroom, scratch)
        return lambda plane: upsampler([plane])[0][grid.cut]

    def widened(plane: Plane) -> Plane:
        if headroom == 0 and plane.dtype == dtype:
            return plane
        wide = scratch.array("wide", plane.shape, dtype)
        fill(wide, plane, headroom)
        return wide

    if grid.subsampled:
        return lambda plane: grid.shifted(widened(plane), scratch)

    def window(plane: Plane) -> Plane:
        plane = plane[grid.window]
        return plane if plane.itemsize == 1 else widened(plane)

    return window


def _full(shape: tuple[int, int]) -> tuple[slice, slice]:
    return slice(0, shape[0]), slice(0, shape[1])
