"""``fn.rotate``: images around their center, volumes around an axis; and ``fn.bbox_rotate``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ...array import Array
from ...errors import ParameterError
from ...ops import Run
from ...ops.call.backends import cuda_device_of
from ...resampling.gather import Interpolation, gather
from ...resampling.mapping import Extent, Mapping3
from ..call import DaliCall, native, plain
from ..data_node import DataNode, node_of, outputs_of
from ..dtypes import converted, dtype_name
from ..value import Value
from .volumes import in_slices, restored

__all__ = ["rotate", "rotate_boxes"]


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
            rotated = _rotated(volume, matrix, extent, interpolation, fill)
            parts.append(restored(converted(rotated, kind or part.dtype.name), order, part.ndim))
        return Value.of(parts, value.layout, value.sources)

    summary = f"{fill} {keeps} {wanted} {interpolation} {kind}"
    return call.node(compute, node_of(angle).cpu(), node_of(axis).cpu(), summary=summary)


def _matrix(angle: float, axis: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the 3×3 matrix from slice, row and column of the result to those of the volume, about their centers."""
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
    device = None if isinstance(volume, np.ndarray) else cuda_device_of(volume)
    level = None if fill is None else float(fill)
    return gather(volume, Mapping3(tuple(extent), whole), interpolation, level, device=device)


def _one_each(labels: Array, count: int) -> bool:
    return bool(labels.ndim <= 2 and labels.shape[:1] == (count,))


def rotate_boxes(call: DaliCall) -> Any:
    """``fn.bbox_rotate``: the boxes of images that ``fn.rotate`` turns; with the labels of the boxes that remain."""
    normalized, keeps = bool(call.take("bbox_normalized", True)), bool(call.take("keep_size", False))
    layout, shape_layout = call.take("bbox_layout", "xyXY"), str(call.take("shape_layout", "HW"))
    mode, threshold = call.take("mode", "expand"), float(call.take("remove_threshold", 0.1))
    size = call.take("size")
    angle, shape = call.take("angle"), call.take("input_shape")
    call.done()
    if angle is None or shape is None:
        raise call.wrong("an argument is missing", allowed="angle and input_shape")
    for name, value, allowed in (
        ("bbox_layout", layout, ("xyXY", "xyWH")),
        ("mode", mode, ("expand", "fixed", "halfway")),
    ):
        if value not in allowed:
            raise call.wrong(f"{name}={value!r} is not valid", allowed=", ".join(map(repr, allowed)))
    if not {"H", "W"} <= {*shape_layout} or (keeps and size is not None):
        raise call.wrong(
            "what size?", allowed="shape_layout with H and W; keep_size or size, or none of both"
        )
    count = len(call.inputs)

    def compute(values: list[Value], _: Run) -> tuple[Value, ...]:
        boxes, *labels, turns, shapes = (value.on_host() for value in values[: count + 2])
        kept = []
        for number in range(len(boxes)):
            sides = np.ravel(shapes[number]).tolist()
            height, width = (float(sides[shape_layout.index(letter)]) for letter in "HW")
            turn = float(np.ravel(turns[number])[0])
            scale = np.array([width, height] * 2 if normalized else [1.0] * 4)
            rotated = np.asarray(boxes[number], np.float64).reshape(-1, 4) * scale
            if layout == "xyWH":
                rotated[:, 2:] += rotated[:, :2]
            canvas: Any = (height, width) if keeps else None
            if size is not None:
                canvas = [float(side) for side in np.ravel(values[-1].on_host()[number])]
            if wrong := [one.shapes()[number] for one in labels if not _one_each(one[number], len(rotated))]:
                raise ParameterError(
                    f"labels of the shape {wrong[0]} of {len(rotated)} boxes",
                    source="fn.bbox_rotate",
                    allowed="(boxes,) or (boxes, 1)",
                )
            if canvas is None:
                canvas = _size(_matrix(turn, np.array([0, 0, 1])), (1, round(height), round(width)))[1:]
            rotated, inside = _turned(rotated, turn, (height, width), (canvas[0], canvas[1]), mode)
            remain = np.ones(len(rotated), bool) if not keeps and size is None else inside >= threshold - 1e-9
            if layout == "xyWH":
                rotated[:, 2:] -= rotated[:, :2]
            back = np.array([canvas[1], canvas[0]] * 2 if normalized else [1.0] * 4)
            kept.append(
                [(rotated / back).astype(np.float32)[remain], *(one[number][remain] for one in labels)]
            )
        return tuple(Value.of(column) for column in zip(*kept, strict=True))

    summary = f"{normalized} {keeps} {layout} {shape_layout} {mode} {threshold}"
    nodes = [node_of(one).cpu() for one in (angle, shape, size) if one is not None]
    node = call.node(compute, *nodes, summary=summary)
    results = outputs_of(node, count)
    return results if count > 1 else results[0]


def _turned(
    boxes: npt.NDArray[np.float64],
    angle: float,
    before: tuple[float, float],
    after: tuple[float, float],
    mode: str,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return rotated boxes cropped to the result, and the share of each that is inside.

    Args:
        boxes: left, top, right and bottom in pixels.
        angle: in degrees.
        before: height and width of the image.
        after: height and width of the rotated image.
        mode: "expand" encloses the rotated box; "fixed" keeps its sides, exchanged beyond 45 degrees; "halfway" is
            between both.
    """
    cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    old, new = np.array(before[::-1]) / 2, np.array(after[::-1]) / 2
    center, sides = (boxes[:, :2] + boxes[:, 2:]) / 2 - old, boxes[:, 2:] - boxes[:, :2]
    center = center @ np.array([[cosine, -sine], [sine, cosine]]) + new
    enclosing = sides @ np.abs([[cosine, sine], [sine, cosine]])
    fixed = sides[:, ::-1] if abs(sine) > abs(cosine) else sides
    sides = {"expand": enclosing, "fixed": fixed, "halfway": (enclosing + fixed) / 2}[mode]
    whole = np.concatenate([center - sides / 2, center + sides / 2], axis=1)
    clipped = whole.clip(0, np.tile(2 * new, 2))
    area = np.maximum((clipped[:, 2:] - clipped[:, :2]).prod(axis=1), 0)
    return clipped, area / np.maximum(sides.prod(axis=1), 1e-12)
