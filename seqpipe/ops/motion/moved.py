"""Transformation of optical flow: a crop crops it, a flip negates x, a resize scales and a rotation rotates vectors.

If a point ``q`` of the result shows ``p`` of the source, and the flow at ``p`` points to ``p + w``, the transformed
flow at ``q`` points to where ``p + w`` moves.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

import numpy as np

from ...array import Array, namespace
from ...flow.grid import grid_of
from ...flow.values import flow_array, to_fixed
from ..core.declaration import Declaration
from ..core.spec import Spec
from ..geometry.base import Geometry
from ..geometry.mapping import Mapping

__all__ = ["moved_flow"]


def moved_flow(op: Declaration, flow: Array, rows: Any, spec: Spec) -> Array:
    """Transform the flow of a sample like its frames."""
    array = flow_array(flow, op.name)
    pairs = array.shape[0] if array.ndim == 4 else 1
    if array.ndim not in (3, 4) or not 1 <= pairs <= spec.frames:
        raise op.refusal(
            f"flow of shape {tuple(flow.shape)} for {spec.frames} frames",
            allowed=f"(F - stride, h, w, 2), for F = {spec.frames} frames",
        )
    if not op.traits.keeps_frames:
        raise op.refusal(
            "flow with an operator that moves frames",
            advice="Move the frames first, and compute their flow then",
        )
    if not isinstance(op, Geometry):
        return flow.copy()
    grid = grid_of(array.shape[-3:-1], (spec.height, spec.width), op.name)
    mappings = op.mappings(rows, spec).each()
    firsts, seconds = _of_pairs(op, mappings, pairs, spec.frames)
    flat = array.reshape(-1, *array.shape[-3:])
    moved = [_moved(*field, grid) for field in zip(flat, firsts, seconds, strict=True)]
    whole = namespace(array).stack(moved)
    whole = whole if array.ndim == 4 else whole[0]
    return to_fixed(whole) if flow.dtype == np.int16 else whole.astype(array.dtype)


def _of_pairs(
    op: Declaration, mappings: Seq[Mapping], pairs: int, frames: int
) -> tuple[Seq[Mapping], Seq[Mapping]]:
    """Return the mappings of the first frames of pairs, and of the second frames."""
    if len(mappings) == 1:
        return [mappings[0]] * pairs, [mappings[0]] * pairs
    if pairs == frames:
        raise op.refusal(
            f"each frame is moved independently, but there are {pairs} flows for {frames} frames",
            allowed=f"fewer than {frames}, so that each has a second frame",
        )
    return mappings[:pairs], mappings[frames - pairs :]


def _moved(field: Array, first: Mapping, second: Mapping, grid: int) -> Array:
    """Return the transformed flow of one pair, in float64."""
    library: Any = namespace(field)
    rows, columns = -(-first.height // grid), -(-first.width // grid)
    y, x = np.mgrid[:rows, :columns]
    here = np.stack([(x + 0.5) * grid, (y + 0.5) * grid], axis=-1)
    source = first.source(here)
    vectors = _sampled(library, field.astype(np.float64), source / grid - 0.5)
    there = _projected(library, np.linalg.inv(second.matrix), library.asarray(source) + vectors)
    return there - library.asarray(here)


def _projected(library: Any, matrix: Any, points: Array) -> Array:
    x, y = points[..., 0], points[..., 1]
    along, down, last = (row[0] * x + row[1] * y + row[2] for row in matrix.tolist())
    return library.stack([along / last, down / last], axis=-1)


def _sampled(library: Any, field: Array, points: Any) -> Array:
    """Interpolate vectors between the centers of cells, the first of which is at (0, 0); NaN outside of the field."""
    height, width = field.shape[:2]
    x, y = points[..., 0], points[..., 1]
    # points at cell centers, up to rounding errors, use that cell alone
    x, y = (np.where(np.abs(part - np.rint(part)) < 1e-9, np.rint(part), part) for part in (x, y))
    outside = ~((x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5))
    x, y = np.clip(np.nan_to_num(x), 0, width - 1), np.clip(np.nan_to_num(y), 0, height - 1)
    left, top = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
    right, down = x - left, y - top
    total = library.zeros((*x.shape, 2), np.float64)
    for row, by_row in ((top, 1 - down), (np.minimum(top + 1, height - 1), down)):
        for column, by_column in ((left, 1 - right), (np.minimum(left + 1, width - 1), right)):
            weight = library.asarray(by_row * by_column)[..., None]
            vector = field[library.asarray(row), library.asarray(column)]
            total += library.where(
                weight > 0, weight * vector, 0
            )  # unknown vectors only count if their weight is above 0
    total[library.asarray(outside)] = np.nan
    return total
