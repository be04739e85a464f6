"""Geometry of a surface's planes: cropped, upsampled or scaled, mirrored and rotated."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Any, Final, Protocol

import cv2
import numpy as np

from .chroma import ChromaGrid, Upsampler, fill
from .geometry import Placement
from .scale import PlaneScaler
from .scratch import ConversionScratch
from .surface import Plane

__all__ = ["OrientedPlanes", "PlaneTransform", "ScaledPlanes", "UnscaledPlanes", "oriented"]

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
