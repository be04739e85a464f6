"""Chroma upsampling to the luma grid: bilinear, at the stream's chroma location.

Along an axis with ``S`` luma samples per chroma sample, chroma sample ``i`` lies at luma sample ``i·S +
offset``. Before the first and after the last chroma sample the nearest one is repeated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.lazy import LazyModule
from .surface import ConversionScratch, Plane

if TYPE_CHECKING:
    import cv2
else:
    cv2 = LazyModule("cv2")  # most videos do not need it, and its import takes 20 ms

__all__ = ["ChromaAxis", "ChromaGrid", "Phase", "Upsampler", "fill"]


def fill(target: Plane, plane: Plane, headroom: int) -> None:
    """Copy samples to an array of the same shape and of their type or uint16, shifted left by ``headroom`` bits."""
    if headroom:
        np.multiply(plane, np.uint16(1 << headroom), out=target)
    else:
        np.copyto(target, plane)


class Phase(NamedTuple):
    """Interpolation of every S-th luma sample from its chroma sample and a neighbor.

    Attributes:
        behind: whether the two samples are the previous and the sample itself, else the sample itself and the next.
        part: weight of the second of the two; 0 if the first is the result.
    """

    behind: bool
    part: float


@dataclass(frozen=True)
class ChromaAxis:
    """One axis of a chroma plane, and the wanted range of luma samples along it.

    Attributes:
        shift: log2 of the luma samples per chroma sample.
        offset: position of the first chroma sample in luma samples, from 0 to ``2**shift - 1``.
        start: first wanted luma sample.
        length: number of wanted luma samples.
        samples: number of chroma samples of the plane.
    """

    shift: int
    offset: float
    start: int
    length: int
    samples: int

    @property
    def window(self) -> slice:
        """Range of chroma samples from which the wanted luma samples are interpolated."""
        factor = 1 << self.shift
        first = math.floor((self.start - self.offset) / factor)
        last = math.ceil((self.start + self.length - 1 - self.offset) / factor)
        return slice(max(0, first), min(self.samples, last + 1))

    @property
    def cut(self) -> slice:
        """Range of the wanted luma samples within the window's luma samples."""
        begin = self.start - (self.window.start << self.shift)
        return slice(begin, begin + self.length)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Interpolation of each of the luma samples that share a chroma sample."""
        factor = 1 << self.shift
        positions = [(luma - self.offset) / factor for luma in range(factor)]
        return tuple(Phase(position < 0, position - math.floor(position)) for position in positions)

    @property
    def extent(self) -> tuple[float, float]:
        """Start and length of the wanted range in chroma samples."""
        factor = 1 << self.shift
        return (self.start - self.offset - 0.5) / factor + 0.5, self.length / factor

    def skips_luma_grid(self, wanted: int) -> bool:
        """Return whether chroma can be scaled directly to ``wanted`` samples: from twice as many whole samples or more.

        Via the luma grid chroma is smoothed twice, by interpolation and by scaling. At half the size or less the
        interpolation hardly matters: 99.9 % of the values of real frames differ by less than 1, at half the cost.
        """
        length = self.extent[1]
        return not self.shift or (length >= 2 * wanted and length == int(length))


@dataclass(frozen=True)
class ChromaGrid:
    """Both axes of a chroma plane."""

    x: ChromaAxis
    y: ChromaAxis

    @property
    def subsampled(self) -> bool:
        """Whether the plane has fewer chroma than luma samples."""
        return bool(self.x.shift or self.y.shift)

    def skips_luma_grid(self, size: tuple[int, int]) -> bool:
        """Return whether both axes can be scaled to (width, height) directly."""
        return self.x.skips_luma_grid(size[0]) and self.y.skips_luma_grid(size[1])

    @property
    def window(self) -> tuple[slice, slice]:
        """Rows and columns of the needed chroma samples."""
        return self.y.window, self.x.window

    @property
    def cut(self) -> tuple[slice, slice]:
        """Wanted rows and columns of the luma grid that the window spans."""
        return self.y.cut, self.x.cut

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of the luma grid that the window spans."""
        rows, columns = ((axis.window.stop - axis.window.start) << axis.shift for axis in (self.y, self.x))
        return rows, columns

    def fractional_bits(self, dtype: np.dtype[Any]) -> int:
        """Return the fractional bits of interpolated rows, which the interpolation of the columns removes again."""
        once = self.x.shift > 1 or all(phase.part for phase in self.x.phases)
        return 8 if dtype == np.uint8 and once else 0

    def shifted(self, plane: Plane, scratch: ConversionScratch) -> Plane:
        """Return the wanted range as whole chroma samples, interpolated where it starts between two of them.

        The length of both axes must be a whole number of chroma samples.
        """
        for dimension, axis in enumerate((self.y, self.x)):
            if axis.shift:
                plane = _shift(plane, dimension, axis.extent, scratch)
            else:
                plane = plane[_along(dimension, axis.start, axis.start + axis.length)]
        return plane


class Upsampler:
    """Interpolates the chroma planes of a surface to the luma grid, in preallocated memory.

    The planes are stacked in one 16-bit array, which halves the number of calls; OpenCV's weighted sums of 16 bits are
    twice as fast as those of 8. Values are rounded to the result's depth once, after the columns; for 8 bits also after
    the rows if every second column coincides with a chroma sample, which saves a tenth of the time.

    Args:
        grid: grid of each plane.
        count: number of planes.
        dtype: type of the result.
        headroom: bits by which the samples of the result are shifted left.
        scratch: memory for intermediate and final results.
    """

    def __init__(
        self, grid: ChromaGrid, count: int, dtype: np.dtype[Any], headroom: int, scratch: ConversionScratch
    ) -> None:
        rows, columns = ((axis.window.stop - axis.window.start) for axis in (grid.y, grid.x))
        phases = grid.x.phases
        self._scratch = scratch
        self._window = grid.window
        self._below = grid.fractional_bits(dtype)
        self._headroom = headroom + self._below
        self._samples = scratch.array("chroma", (count, rows, columns), np.uint16)
        self._steps: list[Callable[[], object]] = []
        result = self._samples
        if grid.y.shift:
            result = self._with_rows(result, grid.y.phases)
        self._planes = tuple(self._with_columns(result, phases, dtype))

    def __call__(self, planes: Seq[Plane]) -> tuple[Plane, ...]:
        """Return the planes on the luma grid that the window spans, contiguous; each call reuses the same memory."""
        for target, plane in zip(self._samples, planes, strict=True):
            fill(target, plane[self._window], self._headroom)
        for step in self._steps:
            step()
        return self._planes

    def _with_rows(self, source: Plane, phases: Seq[Phase]) -> Plane:
        """Add the steps that interpolate rows; returns their result."""
        count, rows, columns = source.shape
        result = self._scratch.array("chroma rows", (count, rows, len(phases), columns), source.dtype)
        lines, targets = source.reshape(-1, columns), result.reshape(-1, len(phases), columns)
        for number, phase in enumerate(phases):
            self._steps += _weighing(lines, targets[:, number], 0, phase)
            if phase.part:
                edge = 0 if phase.behind else -1
                self._steps.append(partial(np.copyto, result[:, edge, number], source[:, edge]))
        return result.reshape(count, -1, columns)

    def _with_columns(self, source: Plane, phases: Seq[Phase], dtype: np.dtype[Any]) -> Plane:
        """Add the steps that interpolate columns; returns their result."""
        # All rows as one line is fastest; samples interpolated across a row's end are corrected at the edge.
        line = source.reshape(1, -1)
        by_phase = []
        for number, phase in enumerate(phases):
            samples = source
            if phase.part:
                samples = self._scratch.array(f"chroma columns {number}", source.shape, source.dtype)
                self._steps += _weighing(line, samples.reshape(1, -1), 1, phase, 1 / (1 << self._below))
                edge = 0 if phase.behind else -1
                self._steps.append(partial(_shift_down, samples[..., edge], source[..., edge], self._below))
            if samples.dtype != dtype:
                wide, samples = samples, self._scratch.array(f"chroma narrow {number}", source.shape, dtype)
                self._steps.append(partial(_shift_down, samples, wide, 0 if phase.part else self._below))
            by_phase.append(samples.reshape(1, -1))
        if len(by_phase) == 1:
            return by_phase[0].reshape(source.shape)
        result = self._scratch.array("chroma upsampled", (1, line.size, len(by_phase)), dtype)
        self._steps.append(partial(cv2.merge, by_phase, result))
        return result.reshape(*source.shape[:2], -1)


def _weighing(
    source: Plane, target: Plane, axis: int, phase: Phase, scale: float = 1
) -> Iterator[Callable[[], object]]:
    """Yield the calls that fill a target of the source's shape, except at the edge without a neighbor."""
    if not phase.part:
        yield partial(np.copyto, target, source)
    elif source.shape[axis] > 1:
        near, far = source[_along(axis, 0, -1)], source[_along(axis, 1, None)]
        inside = target[_along(axis, 1, None) if phase.behind else _along(axis, 0, -1)]
        yield partial(cv2.addWeighted, near, scale * (1 - phase.part), far, scale * phase.part, 0, inside)


def _shift_down(target: Plane, source: Plane, bits: int) -> None:
    """Copy with ``bits`` removed, rounding to nearest, halves to even."""
    if bits:
        np.rint(source * (1 / (1 << bits)), out=target, casting="unsafe")
    else:
        np.copyto(target, source, casting="unsafe")


def _shift(plane: Plane, dimension: int, extent: tuple[float, float], scratch: ConversionScratch) -> Plane:
    """Return the samples of an extent (start, length) along a dimension, interpolated if it starts between samples."""
    start, length = extent
    whole, fraction = math.floor(start), start - math.floor(start)
    count, samples = int(length), plane.shape[dimension]
    ends = whole + count + (fraction > 0)
    before, behind = max(0, -whole), max(0, ends - samples)
    window = plane[_along(dimension, max(0, whole), min(samples, ends))]
    if before or behind:
        top, bottom, left, right = (before, behind, 0, 0) if dimension == 0 else (0, 0, before, behind)
        window = cv2.copyMakeBorder(window, top, bottom, left, right, cv2.BORDER_REPLICATE)
    if not fraction:
        return window
    near, far = window[_along(dimension, 0, count)], window[_along(dimension, 1, count + 1)]
    shifted = scratch.array(f"shifted along {dimension}", near.shape, plane.dtype)
    cv2.addWeighted(near, 1 - fraction, far, fraction, 0, shifted)
    return shifted


def _along(dimension: int, begin: int, end: int | None) -> tuple[slice, ...]:
    return (slice(None),) * dimension + (slice(begin, end),)
