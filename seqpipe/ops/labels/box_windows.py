"""Random windows around boxes of two or three dimensions, for detectors: of a fixed size, or of random sides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from ...array import FloatArray

__all__ = ["BoxWindows", "centered", "overlaps"]

_WINDOWS_AT_ONCE = 64
_SLACK = 1e-6  # relative: tolerance for rounding of ratios


@dataclass(frozen=True)
class BoxWindows:
    """Distribution of windows, of which the first is taken that overlaps enough with the boxes and keeps one.

    Coordinates are relative to the image: the lowest of each axis, x first, then the highest.

    Attributes:
        scaling: least and greatest length of the longest side, relative to the image.
        ratios: least and greatest ratio of two sides, for each pair of axes in turn.
        extents: sides of the image in pixels, which ratios are measured in; None for relative ones.
        fixed: sides of the window relative to the image, instead of random ones.
        thresholds: required overlaps, of which one is drawn; None among them keeps the whole image.
        of_both: whether overlaps are relative to the union; otherwise to the box.
        each: whether all boxes must overlap enough; otherwise one of them.
        prune: least share of a box within the window to be kept; None keeps boxes with their center in it.
        attempts: windows drawn for one threshold.
        total: windows drawn for all.
    """

    scaling: tuple[float, float]
    ratios: tuple[tuple[float, float], ...]
    extents: tuple[float, ...] | None
    fixed: tuple[float, ...] | None
    thresholds: tuple[float | None, ...]
    of_both: bool
    each: bool
    prune: float | None
    attempts: int
    total: int

    def draw(self, boxes: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return a window; if none overlaps enough, the one that overlaps most."""
        axes = boxes.shape[1] // 2
        best, most = np.repeat([0.0, 1.0], axes), -1.0
        left = self.total
        while left > 0:
            threshold = self.thresholds[rng.integers(len(self.thresholds))]
            if threshold is None:
                return np.repeat([0.0, 1.0], axes)
            for begin in range(0, min(self.attempts, left), _WINDOWS_AT_ONCE):
                windows = self._candidates(
                    min(_WINDOWS_AT_ONCE, self.attempts - begin, left - begin), axes, rng
                )
                if not len(boxes) and len(windows):
                    return np.asarray(windows[0])
                shares = overlaps(boxes, windows, of_both=self.of_both)
                reached = shares.min(axis=1) if self.each else shares.max(axis=1)
                for window in windows[reached >= threshold - _SLACK]:
                    if self.kept(boxes, window).any():
                        return np.asarray(window)
                if len(windows) and reached.max() > most:
                    best, most = windows[reached.argmax()], float(reached.max())
            left -= self.attempts
        return best

    def kept(self, boxes: FloatArray, window: FloatArray) -> npt.NDArray[np.bool_]:
        """Return which boxes stay in a window."""
        if self.prune is None:
            return np.asarray(centered(boxes, window[None])[0])
        shares = overlaps(boxes, window[None], of_both=False)[0]
        return np.asarray((shares > 0) & (shares >= self.prune))

    def clipped(self, boxes: FloatArray, window: FloatArray) -> FloatArray:
        """Return boxes relative to a window, clipped to it."""
        axes = boxes.shape[1] // 2
        sides = np.tile(window[axes:] - window[:axes], 2)
        return np.asarray(((boxes - np.tile(window[:axes], 2)) / sides).clip(0, 1))

    def _candidates(self, count: int, axes: int, rng: np.random.Generator) -> FloatArray:
        """Return windows at random places, of which fewer may have sides with the required ratios."""
        if self.fixed is not None:
            sides = np.broadcast_to(self.fixed, (count, axes))
        else:
            bounds = [self.ratios[k % len(self.ratios)] for k, _ in enumerate(combinations(range(axes), 2))]
            drawn = [
                np.exp(rng.uniform(math.log(bounds[k][0]), math.log(bounds[k][1]), count))
                for k in range(axes - 1)
            ]
            sides = np.stack([np.ones(count), *(1 / ratio for ratio in drawn)], axis=1)
            fits = np.ones(count, np.bool_)
            for (a, b), (least, most) in zip(combinations(range(axes), 2), bounds, strict=True):
                ratio = sides[:, a] / sides[:, b]
                fits &= (ratio >= least * (1 - _SLACK)) & (ratio <= most * (1 + _SLACK))
            sides = sides[fits] / (1.0 if self.extents is None else np.asarray(self.extents))
            longest = rng.uniform(*self.scaling, len(sides))
            sides = sides * (longest / sides.max(axis=1))[:, None]
        begin = rng.random(sides.shape) * (1 - sides)
        return np.concatenate([begin, begin + sides], axis=1)


def centered(boxes: FloatArray, windows: FloatArray) -> npt.NDArray[np.bool_]:
    """Return which boxes have their center in each window ``(windows, boxes)``."""
    axes = boxes.shape[1] // 2
    centers, windows = (boxes[:, :axes] + boxes[:, axes:]) / 2, windows[:, None]
    return np.asarray(((centers >= windows[..., :axes]) & (centers <= windows[..., axes:])).all(axis=2))


def overlaps(boxes: FloatArray, windows: FloatArray, *, of_both: bool) -> FloatArray:
    """Return the overlap of each window with each box ``(windows, boxes)``, relative to the union or to the box."""
    axes = boxes.shape[1] // 2
    low = np.maximum(boxes[:, :axes], windows[:, None, :axes])
    high = np.minimum(boxes[:, axes:], windows[:, None, axes:])
    common = np.maximum(high - low, 0).prod(axis=2)
    own = (boxes[:, axes:] - boxes[:, :axes]).prod(axis=1)
    whole = (windows[:, axes:] - windows[:, :axes]).prod(axis=1)[:, None]
    every = own + whole - common if of_both else np.broadcast_to(own, common.shape)
    return np.asarray(np.divide(common, every, out=np.zeros_like(common), where=every > 0))
