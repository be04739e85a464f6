"""Replaying a sample's history on another sample, and inverting its geometry."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import FloatArray
from ...errors import ParameterError
from ...parts import Labels, Sample
from ...resampling.gather import Gather, gather, gather_coefficients
from ...resampling.mapping import Extent, Lattice, Mapping3, transformed
from ..call.backends import on_device_of
from ..core.declaration import Declaration
from ..core.spec import Backend
from .plan import SampledParameters
from .run import SINGLE, RunSettings, apply_to_samples, plain
from .state import VoxelGrid, state_of

__all__ = ["invert", "replay"]

_BLOCK: Final = 1 << 20  # voxels whose positions are computed together
_POSITION_TOLERANCE: Final = (
    1e-5  # voxels; or the distance of neighboring float32 positions, if that is greater
)
_MOST_STEPS: Final = 60


def _ops_of(history: Iterable[Mapping[str, Any]]) -> list[tuple[Any, SampledParameters, Mapping[str, Any]]]:
    """Return the operators of a history, with the sampled parameters of each."""
    records = []
    for entry in history:
        op = Declaration.from_json(json.dumps(entry["op"]))
        op = op.for_images(tuple(entry["images"]) if "images" in entry else None)
        if "size" not in entry:
            raise ParameterError(
                f"a history with {op.name}, which acts on images",
                source="replay",
                allowed="that of operators on volumes, such as ops.RandomAffine3d",
                advice="Call that operator again, with the epoch and the index of its entry",
            )
        records.append((op, SampledParameters.from_json(op, entry["drawn"]), entry))
    return records


def replay(
    history: Iterable[Mapping[str, Any]], x: Any, *, layout: str | None = None, backend: Backend | None = None
) -> Sample:
    """Apply the operators of another sample's history with the same parameters, bit for bit.

    Args:
        history: history of a :class:`seqpipe.parts.Sample`, or read from JSON.
        x: a sample (a dictionary of parts), or one volume.
        layout: of arrays.
        backend: the backend; None for the kernel on a GPU and C on the CPU.

    Raises:
        ParameterError: the history is empty, or its operators do not accept x.
    """
    records = _ops_of(history)
    if not records:
        raise ParameterError("a history of no operators", source="replay", allowed="that of a sample")
    first = records[0][2]
    sample = x if isinstance(x, Mapping) else {SINGLE: x}
    ops, drawn = [op for op, _, _ in records], [[p] for _, p, _ in records]
    (done,) = apply_to_samples(
        ops, [sample], layout, first["epoch"], [first["index"]], RunSettings(backend), drawn
    )
    return done


def invert(
    history: Iterable[Mapping[str, Any]],
    x: Any,
    *,
    layout: str | None = None,
    interp: str = "linear",
    fill_value: float | None = 0.0,
) -> Any:
    """Resample a volume to the grid that a sample had before its geometry was changed, such as a prediction.

    Args:
        history: of the sample.
        x: an array or a Sequence on the sample's grid, or a part: :class:`seqpipe.parts.Labels` vote.
        layout: of an array.
        interp: interpolation of images.
        fill_value: value outside the sample. Where voxels were only resized along their axes, the sample reaches half a
            voxel beyond the centers of its edge voxels; else these are interpolated with the value.

    Returns:
        A value of the input's type. Positions through elastic fields are exact to the rounding of float32, in
            volumes of up to 256 voxels along an axis to 5e-5 voxel.

    Raises:
        ParameterError: x is not of the size that the history ends with.
    """
    moves = [record for record in _ops_of(history) if record[0].traits.geometric and record[1].acts]
    state = state_of("invert", {SINGLE: x}, layout)
    if not moves:
        return x
    first = moves[0][2]
    grid = VoxelGrid(tuple(first["size"]), None if first["affine"] is None else np.array(first["affine"]))
    mappings = [Mapping3(grid.size)]
    before = grid
    for op, p, entry in moves:
        before = VoxelGrid(
            tuple(entry["size"]), None if entry["affine"] is None else np.array(entry["affine"])
        )
        if op.warps and mappings[-1].lattice is not None:
            mappings.append(Mapping3(before.size))
        mappings[-1] = op.moved(mappings[-1], p, before)
    if state.grid.size != mappings[-1].size:
        raise ParameterError(
            f"a volume of {state.grid.size} voxels",
            source="invert",
            allowed=f"{mappings[-1].size}, the size of the sample",
        )
    item = state.parts[SINGLE]
    how: Any = item.part.interp if isinstance(item.part, Labels) else interp
    back, positions = Mapping3(grid.size), None
    if len(mappings) == 1 and mappings[0].lattice is None:
        back = Mapping3(grid.size, pre=_inverse(mappings[0].matrix))
    else:
        positions = _inverse_positions(mappings, grid.size)
    outside = None if positions is not None or fill_value is None else _outside(back, state.grid.size)
    with on_device_of(item.values):
        device = RunSettings().device_for(item.values)
        fill = fill_value if outside is None else None
        values = gather(item.values, back, how, fill, positions=positions, device=device)
        for slices in outside or ():
            values[slices] = fill_value
    return plain(x, replace(item, values=values, affine=grid.affine).to_part())


def _outside(back: Mapping3, size: Extent) -> list[tuple[slice, ...]] | None:
    """Return the parts of a result that a mapping leads beyond the voxels of its source, if it scales along axes.

    Voxels are half a voxel wide on both sides of their centers, so that the result of a changed spacing has no border
    that is mixed with the fill value. None for other mappings, and where voxels are only permuted.
    """
    rows = back.matrix[:3]
    axes = [np.flatnonzero(row[:3]) for row in rows]
    if back.permutation is not None or any(len(axis) != 1 for axis in axes):
        return None
    slabs = []
    for row, (axis,), n in zip(rows, axes, size, strict=True):
        at = row[axis] * np.arange(back.size[axis]) + row[3]
        inside = np.flatnonzero((at > -0.5 - _POSITION_TOLERANCE) & (at < n - 0.5 + _POSITION_TOLERANCE))
        first, end = (int(inside[0]), int(inside[-1]) + 1) if len(inside) else (0, 0)
        everything = (slice(None),) * axis
        slabs += [(*everything, slice(0, first)), (*everything, slice(end, None))]
    return slabs


def _inverse_positions(mappings: Seq[Mapping3], size: Extent) -> npt.NDArray[np.float32]:
    """Return where mappings move the voxels of a grid, ``(D, H, W, 3)``; some slices at a time, to save memory."""
    positions = np.empty((*size, 3), np.float32)
    step = max(1, _BLOCK // (size[1] * size[2]))
    for first in range(0, size[0], step):
        points = np.moveaxis(np.indices((min(step, size[0] - first), *size[1:]), np.float64), 0, -1)
        points[..., 0] += first
        for mapping in mappings:
            points = _moved(mapping, points)
        positions[first : first + step] = points
    return positions


def _moved(mapping: Mapping3, points: FloatArray) -> FloatArray:
    """:meth:`Mapping3.points` for many positions ``(D, H, W, 3)``: a fixed-point iteration, by compiled code."""
    field = mapping.lattice
    if field is None:
        return mapping.points(points)
    wanted = transformed(np.linalg.inv(mapping.pre), points)
    positions = wanted - _displacements(field, wanted)
    near = max(_POSITION_TOLERANCE, float(np.spacing(np.float32(np.abs(wanted).max()))))
    for _ in range(_MOST_STEPS):
        off = positions + _displacements(field, positions) - wanted
        if np.abs(off).max() < near:
            break
        positions -= off
    else:  # a steep field: Newton's method where the iteration has not converged
        left = (np.abs(off) >= near).any(axis=-1)
        positions[left] = field.inverted(wanted[left])
    return transformed(np.linalg.inv(mapping.post), positions)


def _displacements(field: Lattice, points: FloatArray) -> npt.NDArray[np.float32]:
    """:meth:`Lattice.displacements`: the cubic B-spline of the control points."""
    control = field.control
    at = (points / field.distance).clip(0, np.array(control.shape[:3]) - 3) + 1
    # the control points are coefficients, which no prefilter makes
    job = Gather(control, Mapping3(at.shape[:3]), "bspline", None, at.astype(np.float32))
    displacements: npt.NDArray[np.float32] = gather_coefficients(job)
    return displacements


def _inverse(matrix: FloatArray) -> FloatArray:
    """The inverse, exact where entries are whole numbers."""
    inverse: FloatArray = np.linalg.inv(matrix).astype(np.float64)
    whole: FloatArray = np.rint(inverse)
    return whole if np.abs(inverse - whole).max() < 1e-9 else inverse
