"""``fn.warp_affine`` and ``fn.rotate`` of images and of volumes; and ``fn.bbox_rotate``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ...errors import ParameterError
from ...ops import DataNode as NativeNode
from ...ops import Run
from ...ops.geometry.matrices import rotated_boxes, rotated_extent, rotation_about
from ...resampling.mapping import Mapping3
from ..call import native, plain
from ..data_node import DataNode, node_of
from ..declared import DaliCall, operator
from ..dtypes import dtype_name
from ..value import Value
from .volumes import gathered

__all__: list[str] = []


@operator("warp_affine", passes=True, accept=("border",), inputs=("matrix",))
def _warp_affine(call: DaliCall) -> Any:
    """``fn.warp_affine``: ``matrix`` and ``size`` may be nodes; those of volumes have x, y and z, and slices first."""
    matrix, size = call.args.get("matrix"), call.args.get("size")
    if matrix is None:
        raise call.wrong("matrix is missing", allowed="6 values, 12 for volumes, or a node")
    deep = not isinstance(matrix, NativeNode) and np.size(matrix) == 12
    sized = isinstance(size, NativeNode) or (size is not None and np.size(size) == 3)
    if isinstance(size, (list, tuple)) and not sized:  # fractions are rounded, as in DALI
        call.args["size"] = tuple(max(math.floor(float(side) + 0.5), 1) for side in size)
    if not deep and not sized:
        return native(call, instead=_of_volumes)
    kind = call.take("dtype")
    options = {
        "fill_value": call.take("fill_value"),
        "interp_type": plain("interp_type", call.take("interp_type", "linear")),
        "inverse_map": bool(call.take("inverse_map", True)),
        "dtype": None if kind is None else dtype_name(kind),
    }
    arguments = {name: value for name in ("matrix", "size") if (value := call.take(name)) is not None}
    call.done()
    nodes = {name: node_of(value).cpu() for name, value in arguments.items()}

    def compute(values: list[Value], _: Run) -> Value:
        return _warped(values[0], {**options, **dict(zip(nodes, values[1:], strict=True))})

    return call.node(compute, *nodes.values(), summary=f"{options}")


def _of_volumes(value: Value, settings: Mapping[str, Any]) -> Value | None:
    """Warp volumes; return None for images."""
    return _warped(value, settings) if "D" in value.layout else None


def _warped(value: Value, settings: Mapping[str, Any]) -> Value:
    """Warp volumes, or images of a size for each sample."""
    layout = value.layout or {3: "HWC", 4: "DHWC"}.get(value.ndim, "")
    interpolation = settings.get("interp_type") or "linear"
    if interpolation not in ("nearest", "linear"):
        raise ParameterError(
            f"interp_type={interpolation!r}",
            source="fn.warp_affine",
            allowed="types.INTERP_NN, types.INTERP_LINEAR",
        )
    axes = 3 if "D" in layout else 2
    arrays = []
    for n, array in enumerate(value):
        numbers = partial(_numbers, settings, sample=n)
        matrix = numbers("matrix", axes * (axes + 1), f"{axes * (axes + 1)} for samples of {axes} axes")
        size = numbers("size", axes, f"{axes} for samples of {axes} axes")
        frames, letters = (array, layout[1:]) if axes == 3 and "F" in layout else ([array], layout)
        sides = None if size is None else [max(math.floor(side + 0.5), 1) for side in size.tolist()]
        results = [_one(frame, letters, matrix, sides, settings) for frame in frames]
        arrays.append(namespace(array).stack(results) if frames is array else results[0])
    return Value.of(arrays, layout, value.sources)


def _one(
    array: Array, layout: str, matrix: Any, sides: list[int] | None, settings: Mapping[str, Any]
) -> Array:
    """Warp a volume, or an image."""
    axes = 3 if "D" in layout else 2

    def mapping(shape: tuple[int, ...]) -> Mapping3:
        size = list(shape[3 - axes :]) if sides is None else sides
        return _mapping(matrix, axes, size, inverse=settings.get("inverse_map") is not False)

    how: tuple[Any, Any, Any] = (
        settings.get("interp_type") or "linear",
        settings.get("fill_value"),
        settings.get("dtype"),
    )
    if axes == 3:
        return gathered(array, layout, mapping, *how)
    return gathered(array[None], "DHWC", mapping, *how)[0]


def _numbers(
    settings: Mapping[str, Any], name: str, count: int, allowed: str, *, sample: int
) -> npt.NDArray[np.float64] | None:
    """Return the numbers of a setting for one sample; None if it is absent."""
    setting = settings.get(name)
    if setting is None:
        return None
    numbers = np.ravel(setting.on_host()[sample] if isinstance(setting, Value) else setting)
    if numbers.size != count:
        raise ParameterError(
            f"{name} has {numbers.size} values", source="fn.warp_affine", allowed=f"values: {allowed}"
        )
    return numbers.astype(np.float64)


def _mapping(matrix: Any, axes: int, sides: Any, *, inverse: bool) -> Mapping3:
    """Return the mapping between centers of voxels of a matrix for x, y and z, whose origin is a corner."""
    whole: npt.NDArray[Any] = np.eye(4)
    whole[3 - axes : 3, 3 - axes : 3] = matrix.reshape(axes, axes + 1)[::-1, axes - 1 :: -1]
    whole[3 - axes : 3, 3] = matrix.reshape(axes, axes + 1)[::-1, axes]
    if not inverse:
        whole = np.linalg.inv(whole)
    half = np.full(3, 0.5)
    half[: 3 - axes] = 0
    whole[:3, 3] += whole[:3, :3] @ half - half
    return Mapping3((*([1] * (3 - axes)), *sides), whole)


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
        arrays = []
        for array, turn, direction in zip(value, angles, axes, strict=True):
            matrix = rotation_about(float(np.ravel(turn)[0]), np.ravel(direction))

            def mapping(shape: tuple[int, ...], matrix: npt.NDArray[np.float64] = matrix) -> Mapping3:
                size: Any = (
                    shape if keeps else wanted or rotated_extent(matrix, (shape[0], shape[1], shape[2]))
                )
                whole = np.eye(4)  # the center of the result is that of the volume
                whole[:3, :3] = matrix
                whole[:3, 3] = (np.array(shape) - 1) / 2 - matrix @ ((np.array(size) - 1) / 2)
                return Mapping3(tuple(size), whole)

            arrays.append(gathered(array, layout, mapping, interpolation, fill, kind))
        return Value.of(arrays, value.layout, value.sources)

    summary = f"{fill} {keeps} {wanted} {interpolation} {kind}"
    return call.node(compute, node_of(angle).cpu(), node_of(axis).cpu(), summary=summary)


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

    def computed(found: Array, *labels: Array, angle: Array, input_shape: Array, size: Any = None) -> Any:
        sides = np.ravel(input_shape).tolist()
        height, width = (float(sides[shape_layout.index(letter)]) for letter in "HW")
        turn = float(np.ravel(angle)[0])
        scale = np.array([width, height] * 2 if bbox_normalized else [1.0] * 4)
        boxes = np.asarray(found, np.float64).reshape(-1, 4) * scale
        if bbox_layout == "xyWH":
            boxes[:, 2:] += boxes[:, :2]
        if wrong := [array.shape for array in labels if not _one_each(array, len(boxes))]:
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
        return [(boxes / back).astype(np.float32)[remain], *(array[remain] for array in labels)]

    call.inputs = [node.cpu() for node in call.inputs]
    results = call.by_sample(computed, count=len(call.inputs))
    return results if len(results) > 1 else results[0]
