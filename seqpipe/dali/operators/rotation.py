"""``fn.rotate``: images around their center, volumes around an axis; and ``fn.bbox_rotate``."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...array import Array
from ...ops import Run
from ...ops.call.backends import cuda_device_of
from ...ops.geometry.rotations import rotated_boxes, rotated_extent, rotation_about
from ...resampling.gather import Interpolation, gather
from ...resampling.mapping import Mapping3
from ..call import native, plain
from ..data_node import DataNode, node_of
from ..declared import DaliCall, operator
from ..dtypes import converted, dtype_name
from ..value import Value
from .volumes import in_slices, restored

__all__: list[str] = []


@operator(
    "rotate",
    passes=True,
    renamed={"output_dtype": "dtype"},
    note="without axis, the slices of volumes are rotated one by one, where DALI refuses them",
)
def _rotate(call: DaliCall) -> DataNode:
    """``fn.rotate``: with ``axis``, volumes around it; otherwise images, or each slice of a volume."""
    if call.args.get("axis") is None:
        return native(call)  # type: ignore[no-any-return]
    angle, axis = call.take("angle"), call.take("axis")
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
            matrix = rotation_about(float(np.ravel(turn)[0]), np.ravel(direction))
            d, h, w = volume.shape[:3]
            extent = (
                (d, h, w) if keeps else rotated_extent(matrix, (d, h, w)) if wanted is None else tuple(wanted)
            )
            rotated = _rotated(volume, matrix, extent, interpolation, fill)
            parts.append(restored(converted(rotated, kind or part.dtype.name), order, part.ndim))
        return Value.of(parts, value.layout, value.sources)

    summary = f"{fill} {keeps} {wanted} {interpolation} {kind}"
    return call.node(compute, node_of(angle).cpu(), node_of(axis).cpu(), summary=summary)


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


@operator("bbox_rotate", each={"angle": None, "input_shape": None, "size": None})
def _bbox_rotate(
    call: DaliCall,
    *,
    bbox_normalized: bool = True,
    keep_size: bool = False,
    bbox_layout: Any = "xyXY",
    shape_layout: str = "HW",
    mode: Any = "expand",
    remove_threshold: float = 0.1,
) -> Any:
    """``fn.bbox_rotate``: the boxes of images that ``fn.rotate`` turns; with the labels of the boxes that remain."""
    if not {"angle", "input_shape"} <= call.settings.keys():
        raise call.wrong("an argument is missing", allowed="angle and input_shape")
    for name, value, allowed in (
        ("bbox_layout", bbox_layout, ("xyXY", "xyWH")),
        ("mode", mode, ("expand", "fixed", "halfway")),
    ):
        if value not in allowed:
            raise call.wrong(f"{name}={value!r} is not valid", allowed=", ".join(map(repr, allowed)))
    if not {"H", "W"} <= {*shape_layout} or (keep_size and "size" in call.settings):
        raise call.wrong(
            "what size?", allowed="shape_layout with H and W; keep_size or size, or none of both"
        )

    def one(found: Array, *labels: Array, angle: Array, input_shape: Array, size: Any = None) -> Any:
        sides = np.ravel(input_shape).tolist()
        height, width = (float(sides[shape_layout.index(letter)]) for letter in "HW")
        turn = float(np.ravel(angle)[0])
        scale = np.array([width, height] * 2 if bbox_normalized else [1.0] * 4)
        boxes = np.asarray(found, np.float64).reshape(-1, 4) * scale
        if bbox_layout == "xyWH":
            boxes[:, 2:] += boxes[:, :2]
        if wrong := [one.shape for one in labels if not _one_each(one, len(boxes))]:
            raise call.fault(
                f"labels of the shape {wrong[0]} of {len(boxes)} boxes", allowed="(boxes,) or (boxes, 1)"
            )
        canvas: Any = (height, width)
        if size is not None:
            canvas = [float(side) for side in np.ravel(size)]
        elif not keep_size:
            canvas = rotated_extent(
                rotation_about(turn, np.array([0, 0, 1])), (1, round(height), round(width))
            )[1:]
        boxes, inside = rotated_boxes(boxes, turn, (height, width), (canvas[0], canvas[1]), mode)
        remain = inside >= remove_threshold - 1e-9 if keep_size or size is not None else slice(None)
        if bbox_layout == "xyWH":
            boxes[:, 2:] -= boxes[:, :2]
        back = np.array([canvas[1], canvas[0]] * 2 if bbox_normalized else [1.0] * 4)
        return [(boxes / back).astype(np.float32)[remain], *(one[remain] for one in labels)]

    call.inputs = [one.cpu() for one in call.inputs]
    results = call.by_sample(one, count=len(call.inputs))
    return results if len(results) > 1 else results[0]
