"""Filter tables in float64: along one axis, which samples of a plane make each pixel, and with what weights.

The judge of what kernels work out in whole numbers. A triangle with pixel centers at half integers, widened to shrink
(as swscale's bilinear scaler, which repeats the last sample of the part that is shown), upon chroma that is
interpolated linearly at the stream's siting. Both steps are linear, so one table does both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqpipe.video.convert.chroma import ChromaAxis
from seqpipe.video.convert.geometry import Stretch

__all__ = ["filter_table", "window_table"]


def filter_table(axis: ChromaAxis, size: int, *, skip_luma_grid: bool = False) -> NDArray[np.float32]:
    """The weights, by pixel and sample of the plane, that bring the wanted luma samples to a number of pixels.

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
    index = np.clip(np.concatenate([near, near + (part > 0)], axis=1), 0, axis.samples - 1).astype(np.int64)
    both = np.concatenate([weights * (1 - part), weights * part], axis=1)
    used = both > 1e-9  # others are what rounding leaves
    table = np.zeros((size, axis.samples))
    np.add.at(table, (np.broadcast_to(np.arange(size)[:, None], index.shape)[used], index[used]), both[used])
    return table.astype(np.float32)


def _triangle(count: int, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each of ``size`` pixels, the places 0 to ``count - 1`` it is made of and their weights."""
    scale = count / size
    reach = max(1.0, scale)
    center = (np.arange(size)[:, None] + 0.5) * scale - 0.5
    positions = np.ceil(center - reach) + np.arange(int(np.ceil(2 * reach)) + 1)
    weights = np.maximum(0.0, 1 - np.abs(positions - center) / reach)
    return np.clip(positions, 0, count - 1), weights / weights.sum(axis=1, keepdims=True)


def window_table(axis: ChromaAxis, stretch: Stretch) -> NDArray[np.float32]:
    """The same where a window is scaled: samples beside it count, and nothing stands for those that are not shown.

    Args:
        axis: which luma samples are shown, and how the plane's own lie among them.
        stretch: which of them are scaled, and what is made of them.
    """
    table = np.zeros((stretch.pixels, axis.samples))
    scale = stretch.length / stretch.size
    for pixel, line in enumerate(table):
        center = stretch.begin + (stretch.first + pixel + 0.5) * scale - 0.5
        weights = np.maximum(0.0, 1 - np.abs(np.arange(axis.length) - center) / max(1.0, scale))
        weights[weights < 1e-12] = 0  # what rounding leaves
        for luma in np.flatnonzero(weights):
            position = (axis.start + int(luma) - axis.offset) / (1 << axis.shift)
            near = int(np.floor(position))
            for sample, part in ((near, near + 1 - position), (near + 1, position - near)):
                line[min(max(sample, 0), axis.samples - 1)] += weights[luma] * part
        line /= weights.sum()
    return table.astype(np.float32)
