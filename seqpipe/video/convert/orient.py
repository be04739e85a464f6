"""Planes of a surface in output geometry: cropped, upsampled or scaled, mirrored and rotated."""

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

__all__ = ["OnGrid", "ScaledFrame", "Turned", "Unscaled", "turned"]

# what mirroring left to right and then quarter turns counter-clockwise come to, in OpenCV's operations
_TURN: Final[dict[tuple[bool, int], Callable[[Plane, Plane], object]]] = {
    (False, 1): lambda source, target: cv2.rotate(source, cv2.ROTATE_90_COUNTERCLOCKWISE, dst=target),
    (False, 2): lambda source, target: cv2.rotate(source, cv2.ROTATE_180, dst=target),
    (False, 3): lambda source, target: cv2.rotate(source, cv2.ROTATE_90_CLOCKWISE, dst=target),
    (True, 0): lambda source, target: cv2.flip(source, 1, dst=target),
    (True, 1): lambda source, target: cv2.transpose(source, dst=target),
    (True, 2): lambda source, target: cv2.flip(source, 0, dst=target),
    (True, 3): lambda source, target: cv2.transpose(cv2.rotate(source, cv2.ROTATE_180), dst=target),
}


class OnGrid(Protocol):
    """Brings planes to one grid, of which ``cut`` is the picture.

    Where there are several they are contiguous: OpenCV merges such planes many times faster.
    """

    shape: tuple[int, int]
    cut: tuple[slice, slice]

    def __call__(self, planes: Seq[Plane]) -> Seq[Plane]:
        """The planes of a surface, those that are needed, in memory that the next call may write."""


class Unscaled:
    """Planes on the luma grid.

    Args:
        grids: of each plane that is needed.
        dtype: in which the planes are worked on.
        headroom: bits by which their samples are shifted up.
        scratch: the memory.
    """

    def __init__(
        self, grids: Seq[ChromaGrid], dtype: np.dtype[Any], headroom: int, scratch: ConversionScratch
    ) -> None:
        luma, *others = grids
        self._headroom = headroom
        self._upsampler: Upsampler | None = None
        self.shape, self.cut = luma.shape, _whole(luma.shape)
        own = grids
        if others and others[0].subsampled:
            own = grids[:1]
            self._upsampler = Upsampler(others[0], len(others), dtype, headroom, scratch)
            self.shape, self.cut = others[0].shape, others[0].cut
        self._windows = [grid.window for grid in own]
        self._as_they_are = len(grids) == 1 and headroom == 0
        self._planes = [scratch.array(f"plane {number}", self.shape, dtype) for number in range(len(own))]
        self._targets = [plane[self.cut] for plane in self._planes]

    def __call__(self, planes: Seq[Plane]) -> Seq[Plane]:
        """The planes, see :class:`OnGrid`."""
        if self._as_they_are:
            return [planes[0][self._windows[0]]]
        for plane, window, target in zip(planes, self._windows, self._targets, strict=False):
            fill(target, plane[window], self._headroom)
        return self._planes if self._upsampler is None else (*self._planes, *self._upsampler(planes[1:]))


class ScaledFrame:
    """Planes scaled to the picture's grid; the arguments are those of :class:`Unscaled`, and where the picture lies."""

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
        """The planes, see :class:`OnGrid`."""
        steps = zip(planes, self._sources, self._scalers, self._planes, strict=False)
        for plane, source, scaler, target in steps:
            scaled = scaler(source(plane), self._size, deep=target.itemsize > 1)
            # what has the size already comes back in the type that it had
            fill(target, scaled, 0 if scaled.dtype == target.dtype else self._headroom)
        return self._planes


class Turned:
    """Planes mirrored and turned after something else has brought them to a grid."""

    def __init__(
        self,
        source: OnGrid,
        placement: Placement,
        planes: int,
        dtype: np.dtype[Any],
        scratch: ConversionScratch,
    ) -> None:
        self._source = source
        self._turn = _TURN[placement.flipped, placement.quarter_turns]
        self.shape = placement.shape
        self.cut = _whole(self.shape)
        self._planes = [scratch.array(f"turned {number}", self.shape, dtype) for number in range(planes)]

    def __call__(self, planes: Seq[Plane]) -> Seq[Plane]:
        """The planes, see :class:`OnGrid`."""
        for plane, target in zip(self._source(planes), self._planes, strict=True):
            self._turn(plane[self._source.cut], target)
        return self._planes


def turned(
    source: OnGrid, placement: Placement, planes: int, dtype: np.dtype[Any], scratch: ConversionScratch
) -> OnGrid:
    """What mirrors and turns the planes of ``source`` as the placement says; itself if nothing is to be done."""
    if not placement.flipped and placement.quarter_turns == 0:
        return source
    return Turned(source, placement, planes, dtype, scratch)


def _source(
    grid: ChromaGrid, dtype: np.dtype[Any], headroom: int, directly: bool, scratch: ConversionScratch
) -> Callable[[Plane], Plane]:
    """What takes the part of a plane that is to be scaled, in the type that is worked in."""
    if grid.subsampled and not directly:
        upsampler = Upsampler(grid, 1, dtype, headroom, scratch)
        return lambda plane: upsampler([plane])[0][grid.cut]

    def narrow_as_it_is(plane: Plane) -> Plane:
        return plane if plane.itemsize == 1 else widened(plane)

    def widened(plane: Plane) -> Plane:
        if headroom == 0 and plane.dtype == dtype:
            return plane
        wide = scratch.array("wide", plane.shape, dtype)
        fill(wide, plane, headroom)
        return wide

    if grid.subsampled:
        return lambda plane: grid.shifted(widened(plane), scratch)
    return lambda plane: narrow_as_it_is(plane[grid.window])


def _whole(shape: tuple[int, int]) -> tuple[slice, slice]:
    return slice(0, shape[0]), slice(0, shape[1])
