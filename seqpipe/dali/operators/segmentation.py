"""``fn.segmentation.*``: random objects and pixels of label maps, and polygons of selected masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ...array import IntArray
from ...errors import ParameterError
from ...ops import Run
from ...random import stream
from ..call import DaliCall, several
from ..data_node import DataNode, node_of
from ..value import Value

__all__ = ["object_boxes", "random_mask_pixel", "random_object_bbox", "select_masks"]


def object_boxes(mask: npt.NDArray[np.bool_]) -> IntArray:
    """Return the boxes of the connected regions of a mask with any number of axes: ``(N, 2, axes)``, start and end.

    Elements are connected along axes, not along diagonals.
    """
    if mask.ndim == 1:
        return object_boxes(mask[None])[:, :, 1:]
    rows = mask.reshape(-1, mask.shape[-1])
    edges = np.diff(np.pad(rows, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    (row, start), (_, end) = np.nonzero(edges > 0), np.nonzero(edges < 0)  # runs along the last axis
    count = len(row)
    if not count:
        return np.zeros((0, 2, mask.ndim), np.int64)
    numbers = np.where(rows, np.cumsum(edges[:, :-1].ravel() > 0).reshape(rows.shape) - 1, -1).reshape(
        mask.shape
    )
    pairs = []
    for axis in range(mask.ndim - 1):
        first = np.moveaxis(numbers, axis, 0)[:-1].ravel()
        second = np.moveaxis(numbers, axis, 0)[1:].ravel()
        touching = (first >= 0) & (second >= 0)
        pairs.append(np.unique(np.stack([first[touching], second[touching]]), axis=1))
    one, other = np.concatenate([*pairs, np.zeros((2, 0), np.int64)], axis=1).astype(np.int64)
    roots = np.arange(count)
    while (roots[one] != roots[other]).any():
        low, high = np.minimum(roots[one], roots[other]), np.maximum(roots[one], roots[other])
        np.minimum.at(roots, high, low)
        while (roots != roots[roots]).any():
            roots = roots[roots]
    _, region = np.unique(roots, return_inverse=True)
    at = np.stack([*np.unravel_index(row, mask.shape[:-1]), start], axis=1)
    past = np.concatenate([at[:, :-1] + 1, end[:, None]], axis=1)
    boxes = np.empty((region.max() + 1, 2, mask.ndim), np.int64)
    boxes[:, 0], boxes[:, 1] = np.iinfo(np.int64).max, 0
    np.minimum.at(boxes[:, 0], region, at)
    np.maximum.at(boxes[:, 1], region, past)
    return boxes


def random_object_bbox(call: DaliCall) -> Any:
    """``fn.segmentation.random_object_bbox``: the box of a random connected region of a random class, int32."""
    form = call.take("format", "anchor_shape")
    if form not in ("anchor_shape", "start_end", "box"):
        raise call.wrong(f"format={form!r}", allowed="'anchor_shape', 'start_end', 'box'")
    names = ("foreground_prob", "classes", "class_weights", "background", "threshold")
    arguments = {name: value for name in names if (value := call.take(name)) is not None}
    ignores, classed = bool(call.take("ignore_class", False)), bool(call.take("output_class", False))
    largest, seed = call.take("k_largest"), call.drawing_seed
    call.take("cache_objects")
    call.done()
    if ignores and (classed or {"classes", "class_weights"} & arguments.keys()):
        raise call.wrong("ignore_class with classes, class_weights or output_class", allowed="one of both")
    nodes = {name: node_of(value).cpu() for name, value in arguments.items()}

    def one(labels: npt.NDArray[Any], settings: Mapping[str, Any], rng: Any) -> list[npt.NDArray[np.int32]]:
        corners, label = _random_object(labels, settings, rng, ignores, largest)
        start, end = corners.astype(np.int32)
        parts = {"anchor_shape": [start, end - start], "start_end": [start, end], "box": [corners.ravel()]}[
            form
        ]
        return [
            *(part.astype(np.int32) for part in parts),
            *([np.asarray(label, np.int32)] if classed else []),
        ]

    def compute(values: list[Value], run: Run) -> tuple[Value, ...]:
        columns = []
        for n, index in enumerate(run.index):
            settings = {name: np.ravel(value[n]) for name, value in zip(nodes, values[1:], strict=True)}
            rng = stream(seed, "segmentation.random_object_bbox", run.epoch, int(index))
            columns.append(one(np.asarray(values[0].on_host()[n]), settings, rng))
        return tuple(Value.of(list(column)) for column in zip(*columns, strict=True))

    count = 2 - (form == "box") + classed
    call.inputs = [call.input().cpu(), *nodes.values()]
    result = several(call, compute, count, f"{form} {seed}")
    return result[0] if count == 1 else result


def _random_object(
    labels: npt.NDArray[Any], settings: Mapping[str, Any], rng: Any, ignores: bool, largest: int | None
) -> tuple[IntArray, int]:
    """Return start and end of a random object, and its class; the whole sample if there is none."""
    classes = settings.get("classes")
    weights = settings.get("class_weights")
    if classes is None and weights is not None:
        classes = np.arange(1, len(weights) + 1)
    background = int(settings["background"][0]) if "background" in settings else 0
    if "background" not in settings and classes is not None and background in classes:
        background = int(np.max(classes)) + 1
    whole = np.stack([np.zeros(labels.ndim, np.int64), np.asarray(labels.shape)])
    if rng.random() >= float(settings["foreground_prob"][0] if "foreground_prob" in settings else 1.0):
        return whole, background
    remaining = [int(one) for one in (np.unique(labels) if classes is None else classes)]
    shares = np.ones(len(remaining)) if weights is None else np.asarray(weights, np.float64)
    kept = [n for n, label in enumerate(remaining) if label != background and (labels == label).any()]
    remaining, shares = [remaining[n] for n in kept], shares[kept]

    def boxes_of(chosen: list[int]) -> IntArray:
        boxes = np.concatenate([object_boxes(labels == label) for label in chosen])
        sides = boxes[:, 1] - boxes[:, 0]
        if "threshold" in settings:
            fits = (sides >= settings["threshold"]).all(axis=1)
            boxes, sides = boxes[fits], sides[fits]
        order = np.argsort(-sides.prod(axis=1), kind="stable")
        return boxes[order[:largest]]

    while remaining:
        n = 0 if ignores else int(rng.choice(len(remaining), p=shares / shares.sum()))
        boxes = boxes_of(remaining if ignores else [remaining[n]])
        if len(boxes):
            return boxes[int(rng.integers(len(boxes)))], remaining[n]
        if ignores:
            break
        remaining, shares = remaining[:n] + remaining[n + 1 :], np.delete(shares, n)
    return whole, background


def random_mask_pixel(call: DaliCall) -> DataNode:
    """``fn.segmentation.random_mask_pixel``: the position of a random element, or of a random foreground element."""
    arguments = {name: call.take(name) for name in ("foreground", "threshold", "value")}
    if arguments["threshold"] is not None and arguments["value"] is not None:
        raise call.wrong("threshold and value are given", allowed="one of both")
    seed = call.drawing_seed
    call.done()
    nodes = {name: node_of(value).cpu() for name, value in arguments.items() if value is not None}

    def compute(values: list[Value], run: Run) -> Value:
        parts = []
        for n, index in enumerate(run.index):
            mask = np.asarray(values[0].on_host()[n])
            settings = {name: np.ravel(one[n])[0] for name, one in zip(nodes, values[1:], strict=True)}
            rng = stream(seed, "segmentation.random_mask_pixel", run.epoch, int(index))
            places = np.zeros(0, np.int64)
            if settings.get("foreground", 0):
                inside = (
                    mask == settings["value"] if "value" in settings else mask > settings.get("threshold", 0)
                )
                places = np.flatnonzero(inside)
            chosen = places[rng.integers(len(places))] if len(places) else rng.integers(mask.size)
            parts.append(np.array(np.unravel_index(int(chosen), mask.shape), np.int64))
        return Value.of(parts)

    return call.node(compute, *nodes.values(), summary=f"{list(nodes)} {seed}")


def select_masks(call: DaliCall) -> tuple[DataNode, ...]:
    """``fn.segmentation.select_masks``: the polygons and vertices of some masks, in the order of the first input."""
    renumbers = bool(call.take("reindex_masks", False))
    call.done()
    call.input(2)

    def one(
        wanted: npt.NDArray[Any], polygons: npt.NDArray[Any], vertices: npt.NDArray[Any]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        selected, kept, count, fact = [], [], 0, ""
        if polygons.ndim != 2 or polygons.shape[1] != 3:
            fact = (
                "``polygons`` is expected to contain 2D tensors with 3 columns: ``mask_id, start_idx, end_idx``. Got "
                f"{polygons.shape[-1]} columns"
            )
        elif missing := set(wanted.ravel().tolist()) - set(polygons[:, 0].tolist()):
            fact = f"Selected mask_id {min(missing)} is not present in the input"
        elif beyond := [row for row in polygons.tolist() if not 0 <= row[1] <= row[2] <= len(vertices)]:
            fact = (
                f"Vertex index range for mask id {beyond[0][0]} is out of bounds. Expected to be within the range of "
                f"available vertices [0, {len(vertices)})"
            )
        if fact:
            raise ParameterError(fact, source="fn.segmentation.select_masks")
        for number, mask in enumerate(wanted.ravel().tolist()):
            for _, start, end in polygons[polygons[:, 0] == mask].tolist():
                selected.append((number if renumbers else mask, count, count + end - start))
                kept.append(np.arange(start, end))
                count += end - start
        rows = np.concatenate([np.zeros(0, np.int64), *kept])
        return np.asarray(selected, polygons.dtype).reshape(-1, 3), vertices[rows]

    def compute(values: list[Value], _: Run) -> tuple[Value, ...]:
        rows = [
            one(*map(np.asarray, row)) for row in zip(*(value.on_host() for value in values), strict=True)
        ]
        return tuple(Value.of(list(column)) for column in zip(*rows, strict=True))

    return several(call, compute, 2, f"{renumbers}")
