"""``fn.rotate``: images around their center, volumes around an axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ...array import Array, device_of
from ...errors import ParameterError
from ...ops import Run, cast_array
from ...ops.cuda.kernel import cuda_device
from ...ops.volume.gather import Interpolation, gather
from ...ops.volume.mapping import Extent, Mapping3
from ...pipeline.value import Value
from ..call import DaliCall, native, plain
from ..data_node import DataNode, node_of
from ..types import dtype_name
from .volumes import in_slices, restored

__all__ = ["rotate"]


def rotate(call: DaliCall) -> DataNode:
    """``fn.rotate``: with ``axis``, volumes around it; otherwise images, or each slice of a volume."""
    axis = call.take("axis")
    if axis is None:
        return native(call)  # type: ignore[no-any-return]
    angle = call.take("angle")
    if angle is None:
        raise call.wrong("angle is missing")
    fill, keeps, size = call.take("fill_value"), bool(call.take("keep_size", False)), call.take("size")
    interpolation = plain("interp_type", call.take("interp_type", "linear"))
    kind = None if (dtype := call.take("dtype")) is None else dtype_name(dtype)
    call.done()
    if interpolation not in ("nearest", "linear"):
        raise call.wrong(f"interp_type={interpolation!r}", allowed="types.INTERP_NN, types.INTERP_LINEAR")
    if keeps and size is not None:
        raise call.wrong("keep_size and size are given", allowed="one of both")
    wanted = None if size is None else [max(round(float(side)), 1) for side in np.ravel(size)]
    if wanted is not None and len(wanted) != 3:
        raise call.wrong(f"size has {len(wanted)} values", allowed="slices, rows and columns")

    def compute(values: list[Value], _: Run) -> Value:
        value, angles, axes = values[0], values[1].on_host(), values[2].on_host()
        layout = value.layout or "DHWC"
        parts = []
        for part, turn, direction in zip(value, angles, axes, strict=True):
            volume, order = in_slices(part, layout)
            if kind not in (None, part.dtype.name) and interpolation != "nearest":
                volume = volume.astype(np.float32)
            matrix = _matrix(float(np.ravel(turn)[0]), np.ravel(direction))
            d, h, w = volume.shape[:3]
            extent = (d, h, w) if keeps else _size(matrix, (d, h, w)) if wanted is None else tuple(wanted)
            found = _rotated(volume, matrix, extent, interpolation, fill)
            parts.append(restored(cast_array(found, kind or part.dtype.name), order, part.ndim))
        return Value.of(parts, value.layout, value.sources)

    summary = f"{fill} {keeps} {wanted} {interpolation} {kind}"
    return call.node(compute, node_of(angle).cpu(), node_of(axis).cpu(), summary=summary)


def _matrix(angle: float, axis: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the 3×3 matrix from slice, row and column of the result to those of the volume, about their centers.

    Args:
        angle: in degrees.
        axis: x, y and z of the direction, of any length.

    Raises:
        ParameterError: the axis has another number of values, or is zero.
    """
    if axis.size != 3 or not np.any(axis):
        raise ParameterError(f"axis={axis.tolist()}", source="fn.rotate", allowed="x, y and z, not all 0")
    x, y, z = (axis / np.linalg.norm(axis)).tolist()
    cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    if angle % 90 == 0:
        cosine, sine = round(cosine), round(sine)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])  # Rodrigues' formula
    turned = cosine * np.eye(3) + sine * cross + (1 - cosine) * np.outer((x, y, z), (x, y, z))
    return np.asarray(turned.T[::-1, ::-1], np.float64)


def _size(matrix: npt.NDArray[np.float64], extent: Extent) -> Extent:
    """Return the size that shows all of a rotated volume, by DALI's rule: as even as that of the nearest axis."""
    spread = np.abs(matrix.T)
    sides = np.ceil(spread @ extent - 0.01).astype(int)
    like = np.array(extent)[spread.argmax(axis=1)]
    d, h, w = (sides + (sides - like) % 2).tolist()
    return d, h, w


def _rotated(
    volume: Array, matrix: npt.NDArray[np.float64], extent: Any, interpolation: Interpolation, fill: Any
) -> Array:
    """Return a rotated volume ``DHWC``; the center of the result is that of the volume."""
    whole = np.eye(4)
    whole[:3, :3] = matrix
    whole[:3, 3] = (np.array(volume.shape[:3]) - 1) / 2 - matrix @ ((np.array(extent) - 1) / 2)
    place = device_of(volume)
    device = None if place == "cpu" else cuda_device(int(place.partition(":")[2] or 0))
    level = None if fill is None else float(fill)
    return gather(volume, Mapping3(tuple(extent), whole), interpolation, level, device=device)
