"""Candidate windows of a random crop for boxes, and which of them overlap enough with the boxes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...array import FloatArray

__all__ = ["BboxWindows", "centered"]


class BboxWindows(NamedTuple):
    """Distribution of the candidate windows, and the required overlap.

    Attributes:
        scaling: least and greatest width and height relative to the image.
        aspect_ratio: least and greatest ratio of width to height.
        of_both: whether the overlap is relative to the union (IoU); otherwise to the area of the box.
        each: whether all boxes must overlap enough; otherwise one of them.
    """

    scaling: tuple[float, float]
    aspect_ratio: tuple[float, float]
    of_both: bool
    each: bool

    def first(self, drawn: FloatArray, boxes: FloatArray, threshold: float) -> FloatArray | None:
        """Return the first window that overlaps enough, as left, top, right, bottom; None if none does.

        Args:
            drawn: four random numbers from 0 to 1 for each window: for width, height, left and top.
            boxes: ``(K, 4)``, left, top, right and bottom.
            threshold: required overlap.
        """
        windows = self._candidates(drawn)
        suitable = self._suitable(boxes, windows, threshold)
        if not suitable.any():
            return None
        found: FloatArray = windows[suitable.argmax()]
        return found

    def _candidates(self, drawn: FloatArray) -> FloatArray:
        """Return the windows ``(M, 4)`` whose aspect ratio is allowed."""
        least, most = self.aspect_ratio
        lo, hi = self.scaling
        sizes = lo + (hi - lo) * drawn[:, :2]
        if least == most:  # two independent sides would never have this ratio
            sizes[:, 1] = sizes[:, 0] / least
        ratio, height = sizes[:, 0] / sizes[:, 1], sizes[:, 1]
        fits = (
            (least <= ratio * (1 + 1e-12)) & (ratio <= most * (1 + 1e-12)) & (lo <= height) & (height <= hi)
        )
        sizes = sizes[fits]
        begin = drawn[fits, 2:] * (1 - sizes)
        windows: FloatArray = np.concatenate((begin, begin + sizes), axis=-1)
        return windows

    def _suitable(self, boxes: FloatArray, windows: FloatArray, threshold: float) -> npt.NDArray[np.bool_]:
        """Return which windows overlap enough; all, if there are no boxes."""
        if not len(boxes):
            return np.ones(len(windows), np.bool_)
        windows = windows[:, None]
        shared = _overlaps(boxes, windows, of_both=self.of_both) >= threshold
        enough = shared.all(axis=-1) if self.each else shared.any(axis=-1)
        return np.asarray(enough & centered(boxes, windows).any(axis=-1))


def centered(boxes: FloatArray, window: FloatArray) -> npt.NDArray[np.bool_]:
    """Return which boxes have their center in a window, ``(4,)`` or ``(M, 1, 4)``."""
    centers = (boxes[:, :2] + boxes[:, 2:]) / 2
    found = (centers >= window[..., :2]) & (centers <= window[..., 2:])
    return np.asarray(found[..., 0] & found[..., 1])


def _overlaps(boxes: FloatArray, windows: FloatArray, *, of_both: bool) -> FloatArray:
    """Return the overlap of boxes with windows ``(M, 1, 4)``, relative to the union or to the box's area."""
    ends, begins = np.minimum(boxes[:, 2:], windows[..., 2:]), np.maximum(boxes[:, :2], windows[..., :2])
    sides, whole, all_of_it = np.maximum(ends - begins, 0), _sides(boxes), _sides(windows)
    common, own = sides[..., 0] * sides[..., 1], whole[:, 0] * whole[:, 1]
    every = own + all_of_it[..., 0] * all_of_it[..., 1] - common if of_both else own
    found: FloatArray = np.divide(common, every, out=np.zeros_like(common), where=every > 0)
    return found


def _sides(boxes: FloatArray) -> FloatArray:
    found: FloatArray = boxes[..., 2:] - boxes[..., :2]
    return found
