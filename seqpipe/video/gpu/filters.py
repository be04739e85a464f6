"""Filter tables: along one axis, which samples of a plane make each pixel, and with what weights.

They have the meaning of the CPU path: a triangle with pixel centres at half integers, widened to shrink (as
swscale's bilinear scaler, which repeats the last sample of the part that is shown), upon chroma that is
interpolated linearly at the stream's siting. Both steps are linear, so one table does both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...array import FloatArray, IntArray
from ..chroma import ChromaAxis

__all__ = ["FilterTable", "filter_table"]


@dataclass(frozen=True, eq=False)
class FilterTable:
    """The filters of one axis.

    Attributes:
        first: the first sample that each pixel is made of, int32 of length ``size``, never descending.
        weights: float32 ``(taps, size)``; a pixel is the sum of ``weights[t] * samples[first + t]``.
    """

    first: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]

    @property
    def taps(self) -> int:
        """The most samples that a pixel is made of."""
        return int(self.weights.shape[0])


def filter_table(axis: ChromaAxis, size: int, *, skip_luma_grid: bool = False) -> FilterTable:
    """The table that brings the wanted luma samples of an axis to a number of pixels.

    Args:
        axis: which luma samples, and how the plane's own lie among them; shift 0 for the luma plane.
        size: pixels of the result.
        skip_luma_grid: scale chroma samples as they are instead of on the luma grid; the wanted stretch must be
            a whole number of them.
    """
    step = 1.0 if skip_luma_grid else 1 / (1 << axis.shift)
    begin = axis.extent[0] if skip_luma_grid else (axis.start - axis.offset) * step
    count = int(axis.extent[1]) if skip_luma_grid else axis.length
    places, weights = _triangle(count, size)
    positions = begin + places * step
    near = np.floor(positions)
    part = positions - near
    index = np.concatenate([near, near + (part > 0)], axis=1)
    both = np.concatenate([weights * (1 - part), weights * part], axis=1)
    return _compact(np.clip(index, 0, axis.samples - 1).astype(np.int64), both, axis.samples)


def _triangle(count: int, size: int) -> tuple[FloatArray, FloatArray]:
    """For each of ``size`` pixels, the places 0 to ``count - 1`` it is made of and their weights."""
    scale = count / size
    reach = max(1.0, scale)
    centre = (np.arange(size)[:, None] + 0.5) * scale - 0.5
    places = np.ceil(centre - reach) + np.arange(int(np.ceil(2 * reach)) + 1)
    weights = np.maximum(0.0, 1 - np.abs(places - centre) / reach)
    return np.clip(places, 0, count - 1), weights / weights.sum(axis=1, keepdims=True)


def _compact(index: IntArray, weights: FloatArray, samples: int) -> FilterTable:
    """The table of weights that may name a sample several times."""
    # a weight of rounding size must not widen all filters by a tap
    used = weights > 1e-9
    low = np.where(used, index, samples).min(axis=1)
    high = np.where(used, index, -1).max(axis=1)
    taps = int((high - low).max()) + 1
    first = np.minimum(low, samples - taps)
    table: npt.NDArray[Any] = np.zeros((taps, len(index)), dtype=np.float64)
    columns = np.broadcast_to(np.arange(len(index))[:, None], index.shape)
    np.add.at(table, ((index - first[:, None])[used], columns[used]), weights[used])
    return FilterTable(first.astype(np.int32), table.astype(np.float32))
