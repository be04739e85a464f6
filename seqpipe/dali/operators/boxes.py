"""Boxes and points: windows around boxes, anchors of detectors, and mappings of coordinates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...array import Array, namespace
from ...ops import REGISTRY, Run
from ...ops.labels.anchors import encoded_anchors
from ...ops.labels.box_windows import BoxWindows
from ...random import stream
from ..call import plain
from ..data_node import DataNode, node_of, outputs_of
from ..declared import DaliCall, Kind, Row, Seed, operator
from ..dtypes import converted
from ..value import Value
from .windows import slice_

__all__: list[str] = []

_MOST_ATTEMPTS = 100_000  # DALI draws windows without an end
_THRESHOLDS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)  # of SSD; a crop may also be left out


@operator("box_encoder")
def _box_encoder(
    call: DaliCall,
    *,
    anchors: Any = None,
    criteria: float = 0.5,
    offset: bool = False,
    means: Any = (0.0,) * 4,
    stds: Any = (1.0,) * 4,
    scale: Any = 1.0,
) -> Any:
    """``fn.box_encoder``: the matching box and its label for each anchor; 0 without a match.

    An anchor matches the box with the largest IoU, if that is above ``criteria``, or if no other anchor has a larger
    IoU with that box. Boxes are ``(left, top, right, bottom)``; results are centers and sizes, or, with ``offset``,
    their offsets from the anchor's.
    """
    anchors, means, stds = (np.asarray(rows, np.float32) for rows in (anchors, means, stds))
    scale = np.float32(scale)
    if anchors.size % 4 or not anchors.size:
        raise call.fault(f"anchors has {anchors.size} numbers", allowed="4 for each anchor")
    anchors = anchors.reshape(-1, 4)

    def computed(boxes: Array, labels: Array) -> Any:
        found, numbers = np.asarray(boxes, np.float32).reshape(-1, 4), np.asarray(labels).reshape(-1)
        scaling = (scale, means, stds) if offset else None
        return encoded_anchors(found, numbers, anchors, criteria, scaling)

    call.inputs = [call.input(n).cpu() for n in range(2)]
    return call.by_sample(computed, count=2)


@operator("ssd_random_crop")
def _ssd_random_crop(call: DaliCall, *, num_attempts: int = 1, seed: Seed) -> tuple[DataNode, ...]:
    """``fn.ssd_random_crop``: images, boxes and labels of SSD's random crop.

    Boxes are ``(left, top, right, bottom)`` as shares of the image.
    """
    if len(call.inputs) != 3:
        raise call.wrong(f"{len(call.inputs)} inputs", allowed="images, boxes and labels")
    image, boxes, labels = call.inputs
    settings = {
        "thresholds": _THRESHOLDS,
        "allow_no_crop": True,
        "aspect_ratio": (0.5, 2.0),
        "scaling": (0.3, 1.0),
        "ltrb": True,
        "num_attempts": num_attempts,
    }
    drawn = DaliCall(call.row, [boxes, labels], settings, "cpu", seed=seed)
    anchor, shape, cut, kept = _random_bbox_crop(drawn)
    window = DaliCall(Row("slice"), [image, anchor, shape], {}, image.device, call.name)
    return slice_(window), cut, kept


@operator("random_bbox_crop", passes=True)
def _random_bbox_crop(call: DaliCall) -> tuple[DataNode, ...]:
    """``fn.random_bbox_crop``: anchor, shape, boxes, and labels and indices of the boxes if they are asked for."""
    layout, labelled = call.take("bbox_layout"), len(call.inputs) > 1
    numbered = bool(call.take("output_bbox_indices", False))
    if not numbered and not set("zZD") & set(layout or ""):
        further = ("input_shape", "crop_shape", "bbox_prune_threshold")
        if all(call.args.get(name) is None for name in further):
            if layout is not None:
                call.args["ltrb"] = layout == "xyXY"
            return _cropped_boxes(call, labelled)
    ends = call.take("ltrb", True) if layout is None else layout[-1] in "YZ"
    axes = 3 if set("zZD") & set(layout or "") else 2
    windows, nodes, order = _windows_of(call, axes)
    seed = call.drawing_seed
    call.done()
    count = len(call.inputs)

    def compute(values: list[Value], run: Run) -> tuple[Value, ...]:
        sides = dict(zip(nodes, values[count:], strict=True))
        rows = []
        for n, index in enumerate(run.index):
            boxes = np.array(values[0].on_host()[n], np.float64).reshape(-1, 2 * axes)
            if not ends:
                boxes[:, axes:] += boxes[:, :axes]
            pixels = {
                name: tuple(np.ravel(side.on_host()[n])[order].tolist()) for name, side in sides.items()
            }
            extents, wanted = pixels.get("input_shape"), pixels.get("crop_shape")
            fixed = (
                None if wanted is None else tuple(a / b for a, b in zip(wanted, extents or (1,), strict=True))
            )
            these = replace(windows, extents=extents, fixed=fixed)
            window = these.draw(boxes, stream(seed, "random_bbox_crop", run.epoch, int(index)))
            kept = np.flatnonzero(these.kept(boxes, window))
            moved = these.clipped(boxes[kept], window)
            if not ends:
                moved[:, axes:] -= moved[:, :axes]
            scale = np.array(extents if wanted is not None else 1.0)
            shape = (window[axes:] - window[:axes]) if wanted is None else np.array(wanted)
            row = [window[:axes] * scale, shape, moved]
            rows.append(
                [np.asarray(number, np.float32) for number in row]
                + ([np.asarray(values[1].on_host()[n])[kept]] if labelled else [])
                + ([kept.astype(np.int32)] if numbered else [])
            )
        return tuple(Value.of(list(column)) for column in zip(*rows, strict=True))

    node = call.node(compute, *nodes.values(), summary=f"{windows} {seed}")
    return outputs_of(node, 3 + labelled + numbered)


def _windows_of(call: DaliCall, axes: int) -> tuple[BoxWindows, dict[str, DataNode], list[int]]:
    """Return the windows of a call, its sides in pixels as nodes, and the order of their axes, x first."""
    ratios = np.reshape(call.take("aspect_ratio", (1.0, 1.0)), (-1, 2)).tolist()
    kind, attempts = call.take("threshold_type", "iou"), int(call.take("num_attempts", 1))
    if kind not in ("iou", "overlap"):
        raise call.wrong(f"threshold_type={kind!r} is not valid", allowed="'iou', 'overlap'")
    thresholds = [float(threshold) for threshold in np.atleast_1d(call.take("thresholds", 0.0))]
    given = {name: call.take(name) for name in ("input_shape", "crop_shape")}
    if given["crop_shape"] is not None and given["input_shape"] is None:
        raise call.wrong("crop_shape without input_shape", allowed="both, in pixels")
    letters = call.take("shape_layout", "WHD"[:axes])
    shortest, longest = map(float, call.take("scaling", (1.0, 1.0)))
    windows = BoxWindows(
        (shortest, longest),
        tuple((float(least), float(most)) for least, most in ratios),
        None,
        None,
        (*thresholds, *([None] if call.take("allow_no_crop", True) else [])),
        kind == "iou",
        bool(call.take("all_boxes_above_threshold", True)),
        None if (prune := call.take("bbox_prune_threshold")) is None else float(prune),
        attempts,
        int(call.take("total_num_attempts", _MOST_ATTEMPTS)),
    )
    nodes = {name: node_of(setting).cpu() for name, setting in given.items() if setting is not None}
    return windows, nodes, [letters.index(letter) for letter in "WHD"[:axes]]


def _cropped_boxes(call: DaliCall, labelled: bool) -> tuple[DataNode, ...]:
    """Return the results of seqpipe's operator."""
    constants = {
        name: plain(name, value)
        for name, value in call.args.items()
        if value is not None and name not in ("shape_layout",)
    }
    constants["seed"] = call.drawing_seed
    op: Any = REGISTRY["random_bbox_crop"](**constants)

    def compute(values: list[Value], run: Run) -> tuple[Value, ...]:
        boxes = [np.asarray(array, np.float32) for array in values[0].on_host()]
        labels = [np.asarray(array).reshape(-1) for array in values[1].on_host()] if labelled else None
        crop = op(boxes, labels, epoch=run.epoch, index=run.index)
        arrays = [Value(np.asarray(crop.anchor, np.float32)), Value(np.asarray(crop.shape, np.float32))]
        arrays.append(Value.of(list(crop.boxes)))
        if labelled:
            arrays.append(Value.of([np.asarray(label) for label in crop.labels]))
        return tuple(arrays)

    return outputs_of(call.node(compute, summary=f"{constants}"), 4 if labelled else 3)


@operator("coord_flip", each={f"flip_{axis}": int(axis == "x") for axis in "xyz"})
def _coord_flip(
    call: DaliCall, *, layout: Any = "xy", center_x: float = 0.5, center_y: float = 0.5, center_z: float = 0.5
) -> Any:
    """``fn.coord_flip``: mirrors coordinates ``(…, 2)`` in the range 0 to 1 around centers."""
    centers = dict(zip("xyz", (center_x, center_y, center_z), strict=True))

    def result(array: Array, **flips: Array) -> Array:
        flipped = array.copy()
        for column, axis in enumerate(layout):
            if flips[f"flip_{axis}"].reshape(-1)[0]:
                flipped[..., column] = 2 * centers[axis] - array[..., column]
        return flipped

    return call.by_sample(result)


@operator("coord_transform", passes=True)
def _coord_transform(call: DaliCall, *, dtype: Kind = "float32") -> Any:
    """``fn.coord_transform``: multiplies points by a matrix, and adds a vector."""
    matrices = {name: call.take(name) for name in ("M", "T", "MT")}
    call.done()
    if matrices["MT"] is not None and (matrices["M"] is not None or matrices["T"] is not None):
        raise call.wrong("MT is given, and M or T", allowed="MT, or M and T")
    call.settings = {
        name: node_of(np.asarray(matrix, np.float32) if not isinstance(matrix, DataNode) else matrix).cpu()
        for name, matrix in matrices.items()
        if matrix is not None
    }

    def applied(points: Array, **numbers: Array) -> Array:
        arguments = {name: np.asarray(number, np.float64) for name, number in numbers.items()}
        size, matrix, added = points.shape[-1], arguments.get("M"), arguments.get("T", 0.0)
        if "MT" in arguments:
            both = arguments["MT"].reshape(-1, size + 1)
            matrix, added = both[:, :-1], both[:, -1]
        elif matrix is not None:
            matrix = np.eye(size) * matrix if matrix.size == 1 else matrix.reshape(-1, size)
        xp = namespace(points)
        moved = points.astype(np.float64) if matrix is None else points @ xp.asarray(matrix).T
        return converted(moved + xp.asarray(added), dtype)

    return call.by_sample(applied)
