"""Chroma planes brought to the grid of the luma plane: bilinear, at the right siting.

Along an axis with ``S`` luma samples per chroma sample, chroma sample ``i`` lies at luma sample ``i·S +
offset``. Before the first and after the last chroma sample the nearest one is repeated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from .surface import Plane

__all__ = ["ChromaAxis", "ChromaGrid", "Scratch"]


class Scratch:
    """Buffers by name, kept from frame to frame; made anew only when the shape or the type changes."""

    def __init__(self) -> None:
        self._buffers: dict[str, Plane] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Plane:
        """The buffer of that name, with arbitrary content."""
        buffer = self._buffers.get(name)
        if buffer is None or buffer.shape != shape or buffer.dtype != dtype:
            buffer = self._buffers[name] = np.empty(shape, dtype)
        return buffer


@dataclass(frozen=True)
class ChromaAxis:
    """One axis of a chroma plane, and the luma samples along it that are wanted.

    Attributes:
        shift: log2 of the luma samples per chroma sample.
        offset: the first chroma sample's place in luma samples.
        start: the first luma sample wanted.
        length: how many are wanted.
        samples: chroma samples that there are.
    """

    shift: int
    offset: float
    start: int
    length: int
    samples: int

    @property
    def window(self) -> slice:
        """The chroma samples that the wanted luma samples lie between."""
        factor = 1 << self.shift
        first = math.floor((self.start - self.offset) / factor)
        last = math.ceil((self.start + self.length - 1 - self.offset) / factor)
        return slice(max(0, first), min(self.samples, last + 1))

    @property
    def cut(self) -> slice:
        """The wanted luma samples within the window's luma samples."""
        begin = self.start - (self.window.start << self.shift)
        return slice(begin, begin + self.length)

    @property
    def centred(self) -> bool:
        """Whether a chroma sample lies in the middle of its luma samples."""
        return self.offset == ((1 << self.shift) - 1) / 2

    @property
    def doubled(self) -> bool:
        """Whether every second luma sample has a chroma sample right on it, beginning with the first."""
        return self.shift == 1 and self.offset == 0

    @property
    def extent(self) -> tuple[float, float]:
        """Where the wanted stretch begins and how long it is; a chroma sample is one long."""
        factor = 1 << self.shift
        return (self.start - self.offset - 0.5) / factor + 0.5, self.length / factor


@dataclass(frozen=True)
class ChromaGrid:
    """The two axes of a chroma plane."""

    x: ChromaAxis
    y: ChromaAxis

    @property
    def subsampled(self) -> bool:
        """Whether there are fewer chroma than luma samples."""
        return bool(self.x.shift or self.y.shift)

    def cut(self, plane: Plane) -> Plane:
        """The chroma samples that are needed, as a view."""
        return plane[self.y.window, self.x.window]

    def upsampled(self, window: Plane, scratch: Scratch, name: str) -> Plane:
        """The wanted part of the luma grid, interpolated from what :meth:`cut` gave; a view of a buffer."""
        grid = window
        for axis in (self.x, self.y):
            if not (axis.centred or axis.doubled):
                return self._warped(window, scratch, name)[self.y.cut, self.x.cut]
        stretch_x, stretch_y = (axis.shift if axis.centred else 0 for axis in (self.x, self.y))
        if stretch_x or stretch_y:
            rows, columns = grid.shape[0] << stretch_y, grid.shape[1] << stretch_x
            grid = _stretched(grid, (rows, columns), scratch, name)
        if self.y.doubled:
            grid = _doubled_rows(grid, scratch, name)
        if self.x.doubled:
            grid = _doubled_columns(grid, scratch, name)
        return grid[self.y.cut, self.x.cut]

    def _warped(self, window: Plane, scratch: Scratch, name: str) -> Plane:
        """Any siting, by a general warp: three times slower, for the sitings that hardly any stream has."""
        step_x, step_y = 1 / (1 << self.x.shift), 1 / (1 << self.y.shift)
        to_chroma = np.array([[step_x, 0, -self.x.offset * step_x], [0, step_y, -self.y.offset * step_y]])
        rows, columns = window.shape[0] << self.y.shift, window.shape[1] << self.x.shift
        warped = scratch.array(f"{name} warped", (rows, columns), window.dtype)
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        cv2.warpAffine(window, to_chroma, (columns, rows), warped, flags, cv2.BORDER_REPLICATE)
        return warped

    def shifted(self, plane: Plane, scratch: Scratch, name: str) -> Plane:
        """The wanted stretch as whole chroma samples, interpolated where it begins between two of them.

        Both axes must be a whole number of chroma samples long.
        """
        for number, axis in enumerate((self.y, self.x)):
            if axis.shift:
                plane = _moved(plane, number, axis.extent, scratch, f"{name} moved {number}")
            else:
                plane = plane[_along(number, axis.start, axis.start + axis.length)]
        return plane


def _stretched(plane: Plane, shape: tuple[int, int], scratch: Scratch, name: str) -> Plane:
    """The plane interpolated to (rows, columns), between samples that lie in the middle of what they cover."""
    wide = plane
    if plane.itemsize == 1:
        # OpenCV resizes 16 bits as fast as 8, but rounds 8-bit halves, of which there are many, all upwards
        wide = scratch.array(f"{name} wide", plane.shape, np.dtype(np.uint16))
        np.multiply(plane, np.uint16(256), out=wide)
    stretched = scratch.array(f"{name} stretched", shape, wide.dtype)
    cv2.resize(wide, (shape[1], shape[0]), dst=stretched, interpolation=cv2.INTER_LINEAR)
    if plane.itemsize == 2:
        return stretched
    narrow = scratch.array(f"{name} narrow", shape, plane.dtype)
    cv2.convertScaleAbs(stretched, dst=narrow, alpha=1 / 256)
    return narrow


def _doubled_rows(plane: Plane, scratch: Scratch, name: str) -> Plane:
    """Rows put on the even rows, and their means on the odd ones."""
    doubled = scratch.array(f"{name} rows", (2 * plane.shape[0], plane.shape[1]), plane.dtype)
    doubled[0::2] = plane
    if len(plane) > 1:
        cv2.addWeighted(plane[:-1], 0.5, plane[1:], 0.5, 0, dst=doubled[1:-1:2])
    doubled[-1] = plane[-1]
    return doubled


def _doubled_columns(plane: Plane, scratch: Scratch, name: str) -> Plane:
    """Columns put on the even columns, and their means on the odd ones."""
    rows, columns = plane.shape
    means = scratch.array(f"{name} column means", (rows, columns), plane.dtype)
    if columns > 1:
        cv2.addWeighted(plane[:, :-1], 0.5, plane[:, 1:], 0.5, 0, dst=means[:, :-1])
    means[:, -1] = plane[:, -1]
    pairs = scratch.array(f"{name} pairs", (rows, columns, 2), plane.dtype)
    cv2.merge((plane, means), dst=pairs)
    return pairs.reshape(rows, 2 * columns)


def _moved(plane: Plane, number: int, extent: tuple[float, float], scratch: Scratch, name: str) -> Plane:
    """``length`` samples along an axis, the first of them ``start`` samples behind the plane's first."""
    start, length = extent
    whole, part = math.floor(start), start - math.floor(start)
    count, samples = int(length), plane.shape[number]
    ends = whole + count + (part > 0)
    before, behind = max(0, -whole), max(0, ends - samples)
    window = plane[_along(number, max(0, whole), min(samples, ends))]
    if before or behind:
        top, bottom, left, right = (before, behind, 0, 0) if number == 0 else (0, 0, before, behind)
        window = cv2.copyMakeBorder(window, top, bottom, left, right, cv2.BORDER_REPLICATE)
    if not part:
        return window
    moved = scratch.array(name, window[_along(number, 0, count)].shape, plane.dtype)
    near, far = window[_along(number, 0, count)], window[_along(number, 1, count + 1)]
    cv2.addWeighted(near, 1 - part, far, part, 0, dst=moved)
    return moved


def _along(number: int, begin: int, end: int) -> tuple[slice, ...]:
    return (slice(None),) * number + (slice(begin, end),)
