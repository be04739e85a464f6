"""Boxes and points: windows around boxes, anchors of detectors, and mappings of coordinates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...array import namespace
from ...errors import ParameterError
from ...ops import REGISTRY, Run
from ...ops.labels.box_windows import BoxWindows
from ...random import stream
from ..call import DaliCall, Row, plain
from ..data_node import DataNode, node_of, outputs_of
from ..dtypes import converted, dtype_name
from ..value import Value
from .windows import slice_

__all__ = ["box_encoder", "coord_flip", "coord_transform", "random_bbox_crop", "ssd_random_crop"]

_Boxes = npt.NDArray[np.float32]
_MOST_ATTEMPTS = 100_000  # DALI draws windows without an end
_THRESHOLDS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)  # of SSD; a crop may also be left out


def box_encoder(call: DaliCall) -> tuple[DataNode, ...]:
    """``fn.box_encoder``: the matching box and its label for each anchor; 0 without a match.

    An anchor matches the box with the largest IoU, if that is above ``criteria``, or if no other anchor has a larger
    IoU with that box. Boxes are ``(left, top, right, bottom)``; results are centers and sizes, or, with ``offset``,
    their offsets from the anchor's.
    """
    anchors = np.asarray(call.take("anchors"), np.float32)
    criteria, offset = float(call.take("criteria", 0.5)), bool(call.take("offset", False))
    means = np.asarray(call.take("means", (0.0,) * 4), np.float32)
    stds = np.asarray(call.take("stds", (1.0,) * 4), np.float32)
    scale = np.float32(call.take("scale", 1.0))
    call.done()
    if anchors.size % 4 or not anchors.size:
        raise ParameterError(
            f"anchors has {anchors.size} numbers", source="fn.box_encoder", allowed="4 for each anchor"
        )
    anchors = anchors.reshape(-1, 4)
    own = _centered(anchors)

    def one(boxes: _Boxes, labels: npt.NDArray[Any]) -> tuple[_Boxes, npt.NDArray[np.int32]]:
        targets = np.zeros_like(own) if offset else own.copy()
        classes = np.zeros(len(anchors), np.int32)
        if len(boxes):
            match = _matches(boxes, anchors, criteria)
            hit = match >= 0
            chosen = _centered(boxes)[match[hit]]
            if offset:
                near = own[hit] * scale
                places = (chosen[:, :2] * scale - near[:, :2]) / near[:, 2:]
                sizes = np.log(chosen[:, 2:] * scale / near[:, 2:])
                chosen = (np.concatenate([places, sizes], axis=1) - means) / stds
            targets[hit], classes[hit] = chosen, labels.reshape(-1)[match[hit]]
        return targets, classes

    def compute(values: list[Value], _: Run) -> tuple[Value, ...]:
        boxes, labels = values[0].on_host(), values[1].on_host()
        rows = [
            one(np.asarray(b, np.float32).reshape(-1, 4), np.asarray(n))
            for b, n in zip(boxes, labels, strict=True)
        ]
        return tuple(Value.of(list(column)) for column in zip(*rows, strict=True))

    return outputs_of(
        call.node(compute, summary=f"{len(anchors)} {criteria} {offset} {means} {stds} {scale}"), 2
    )


def ssd_random_crop(call: DaliCall) -> tuple[DataNode, ...]:
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
        "num_attempts": int(call.take("num_attempts", 1)),
    }
    call.done()
    drawn = DaliCall(call.row, [boxes, labels], settings, "cpu", None, call.drawing_seed, None)
    anchor, shape, cut, kept = random_bbox_crop(drawn)
    window = DaliCall(Row("slice"), [image, anchor, shape], {}, image.device, call.name, None, None)
    return slice_(window), cut, kept


def _centered(boxes: _Boxes) -> _Boxes:
    """Convert corners to centers and sizes."""
    sizes = boxes[:, 2:] - boxes[:, :2]
    return np.concatenate([boxes[:, :2] + sizes / 2, sizes], axis=1)


def _matches(boxes: _Boxes, anchors: _Boxes, criteria: float) -> npt.NDArray[np.int64]:
    """Return the number of each anchor's box; -1 for none."""
    inner = np.minimum(boxes[:, None, 2:], anchors[None, :, 2:]) - np.maximum(
        boxes[:, None, :2], anchors[None, :, :2]
    )
    common = np.clip(inner, 0, None).prod(axis=2)
    areas = [(one[:, 2:] - one[:, :2]).prod(axis=1) for one in (boxes, anchors)]
    overlap = common / np.maximum(areas[0][:, None] + areas[1][None] - common, np.float32(1e-12))
    for number, best in enumerate(
        overlap.argmax(axis=1)
    ):  # each box has the anchor that it overlaps with most
        overlap[number, best] = 2
    match: npt.NDArray[np.int64] = (
        len(boxes) - 1 - overlap[::-1].argmax(axis=0)
    )  # of several, the last one, as DALI does
    match[overlap.max(axis=0) <= criteria] = -1
    return match


def random_bbox_crop(call: DaliCall) -> tuple[DataNode, ...]:
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
            pixels = {name: tuple(np.ravel(one.on_host()[n])[order].tolist()) for name, one in sides.items()}
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
                [np.asarray(one, np.float32) for one in row]
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
    thresholds = [float(one) for one in np.atleast_1d(call.take("thresholds", 0.0))]
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
    nodes = {name: node_of(one).cpu() for name, one in given.items() if one is not None}
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
        boxes = [np.asarray(part, np.float32) for part in values[0].on_host()]
        labels = [np.asarray(part).reshape(-1) for part in values[1].on_host()] if labelled else None
        crop = op(boxes, labels, epoch=run.epoch, index=run.index)
        parts = [Value(np.asarray(crop.anchor, np.float32)), Value(np.asarray(crop.shape, np.float32))]
        parts.append(Value.of(list(crop.boxes)))
        if labelled:
            parts.append(Value.of([np.asarray(one) for one in crop.labels]))
        return tuple(parts)

    return outputs_of(call.node(compute, summary=f"{constants}"), 4 if labelled else 3)


def coord_flip(call: DaliCall) -> DataNode:
    """``fn.coord_flip``: mirrors coordinates ``(…, 2)`` in the range 0 to 1 around centers."""
    layout = call.take("layout", "xy")
    every = [
        (axis, call.take(f"flip_{axis}", int(axis == "x")), float(call.take(f"center_{axis}", 0.5)))
        for axis in "xyz"
    ]
    flips = [next(one for one in every if one[0] == axis) for axis in layout]
    call.done()
    nodes = [one.cpu() for _, one, _ in flips if isinstance(one, DataNode)]

    def compute(values: list[Value], _: Run) -> Value:
        parts = []
        for n, part in enumerate(values[0]):
            flipped, more = part.copy(), iter(values[1:])
            for column, (__, flip, center) in enumerate(flips):
                acts = bool(next(more)[n].reshape(-1)[0]) if isinstance(flip, DataNode) else bool(flip)
                if acts:
                    flipped[..., column] = 2 * center - part[..., column]
            parts.append(flipped)
        return Value.of(parts, values[0].layout)

    return call.node(
        compute,
        *nodes,
        summary=str([(a, "node" if isinstance(b, DataNode) else b, c) for a, b, c in flips]),
    )


def coord_transform(call: DaliCall) -> DataNode:
    """``fn.coord_transform``: multiplies points by a matrix, and adds a vector."""
    kind = dtype_name(call.take("dtype", "float32"))
    parts = {name: call.take(name) for name in ("M", "T", "MT")}
    call.done()
    if parts["MT"] is not None and (parts["M"] is not None or parts["T"] is not None):
        raise call.wrong("MT is given, and M or T", allowed="MT, or M and T")
    nodes = {
        name: node_of(np.asarray(one, np.float32) if not isinstance(one, DataNode) else one).cpu()
        for name, one in parts.items()
        if one is not None
    }

    def compute(values: list[Value], _: Run) -> Value:
        result = []
        for n, points in enumerate(values[0]):
            arguments = {
                name: np.asarray(one[n], np.float64) for name, one in zip(nodes, values[1:], strict=True)
            }
            size = points.shape[-1]
            matrix, added = arguments.get("M"), arguments.get("T", 0.0)
            if "MT" in arguments:
                both = arguments["MT"].reshape(-1, size + 1)
                matrix, added = both[:, :-1], both[:, -1]
            elif matrix is not None:
                matrix = np.eye(size) * matrix if matrix.size == 1 else matrix.reshape(-1, size)
            xp = namespace(points)
            moved = points.astype(np.float64) if matrix is None else points @ xp.asarray(matrix).T
            result.append(converted(moved + xp.asarray(added), kind))
        return Value.of(result, values[0].layout, values[0].sources)

    return call.node(compute, *nodes.values(), summary=f"{list(nodes)} {kind}")
