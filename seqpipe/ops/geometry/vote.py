"""Label interpolation: the class with the greatest sum of linear weights of the four pixels around a point."""

from __future__ import annotations

import numpy as np

from ...array import Array, namespace
from .interpolate import coordinates_of
from .mapping import Mapping

__all__ = ["voted"]


def voted(x: Array, mapping: Mapping) -> Array:
    """Move labels ``(F, H, W, C)``; each is the one with the greatest sum of linear weights around its point.

    Of labels with equal sums, the nearest pixel's wins, or else the least. Points outside of the labels get 0; edge
    pixels are repeated for the half pixel around them.
    """
    xp, (height, width) = namespace(x), x.shape[1:3]
    coordinates = coordinates_of(mapping.matrix.astype(np.float32), mapping.height, mapping.width)
    across, down = (xp.asarray(axis, np.float64) for axis in coordinates)
    across, down = xp.broadcast_arrays(across, down)
    inside = (across >= 0) & (across < width) & (down >= 0) & (down < height)
    columns, rows = xp.where(inside, across, 0) - 0.5, xp.where(inside, down, 0) - 0.5
    left, top = xp.floor(columns), xp.floor(rows)
    right, below = columns - left, rows - top
    weights = xp.stack([(1 - below) * (1 - right), (1 - below) * right, below * (1 - right), below * right])
    at = [
        (xp.clip(top + y, 0, height - 1).astype(np.int64), xp.clip(left + x_, 0, width - 1).astype(np.int64))
        for y in (0, 1)
        for x_ in (0, 1)
    ]
    nearest = weights.argmax(axis=0)
    out = xp.zeros((len(x), mapping.height, mapping.width, x.shape[3]), x.dtype)
    for frame, into in zip(x, out, strict=True):
        taps = xp.stack([frame[row, column] for row, column in at])
        winner = _winner(taps, weights[..., None], nearest[..., None])
        into[...] = xp.where(inside[..., None], winner, xp.zeros((), x.dtype))
    return out


def _winner(taps: Array, weights: Array, nearest: Array) -> Array:
    """Return, of four labels, the one with the greatest sum of weights.

    Args:
        taps: ``(4, H, W, C)``.
        weights: ``(4, H, W, 1)``.
        nearest: index of the nearest, ``(H, W, 1)``.
    """
    xp = namespace(taps)
    own = xp.take_along_axis(taps, xp.broadcast_to(nearest, taps.shape[1:])[None], 0)[0]
    differs = (taps != taps[:1]).any(axis=0)
    if not bool(differs.any()):
        return own
    labels = taps[:, differs]
    shares = xp.broadcast_to(weights, taps.shape)[:, differs]
    sums = xp.stack([(shares * (labels == one)).sum(axis=0) for one in labels])
    wins = sums >= sums.max(axis=0) - 1e-9
    keeps = (wins & (labels == own[differs])).any(axis=0)
    most = labels.max(axis=0) if labels.dtype.kind != "b" else xp.ones(labels.shape[1:], labels.dtype)
    least = xp.where(wins, labels, most).min(axis=0)
    own[differs] = xp.where(keeps, own[differs], least)
    return own
