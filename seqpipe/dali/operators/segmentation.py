"""``fn.segmentation.*``: random objects and pixels of label maps, and polygons of selected masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...array import Array, to_numpy
from ...ops.labels.objects import random_object
from ..data_node import DataNode
from ..declared import DaliCall, Seed, operator

__all__: list[str] = []


@operator(
    "segmentation.random_object_bbox",
    each=dict.fromkeys(("foreground_prob", "classes", "class_weights", "background", "threshold")),
)
def _random_object_bbox(
    call: DaliCall,
    *,
    format: Any = "anchor_shape",  # noqa: A002  DALI's name
    ignore_class: bool = False,
    output_class: bool = False,
    k_largest: Any = None,
    cache_objects: Any = None,  # noqa: ARG001  objects are found anew
    seed: Seed,
) -> Any:
    """``fn.segmentation.random_object_bbox``: the box of a random connected region of a random class, int32."""
    if format not in ("anchor_shape", "start_end", "box"):
        raise call.wrong(f"format={format!r}", allowed="'anchor_shape', 'start_end', 'box'")
    if ignore_class and (output_class or {"classes", "class_weights"} & call.settings.keys()):
        raise call.wrong("ignore_class with classes, class_weights or output_class", allowed="one of both")

    def draw(labels: npt.NDArray[Any], *, rng: Any, **settings: Any) -> Any:
        numbers = {name: np.ravel(value) for name, value in settings.items()}
        corners, label = random_object(np.asarray(labels), numbers, rng, ignore_class, k_largest)
        start, end = corners.astype(np.int32)
        forms = {"anchor_shape": [start, end - start], "start_end": [start, end], "box": [corners.ravel()]}
        arrays = [array.astype(np.int32) for array in forms[format]]
        return [*arrays, *([np.asarray(label, np.int32)] if output_class else [])]

    call.inputs = [call.input().cpu()]
    result = call.by_sample(draw, count=2 - (format == "box") + output_class, seed=seed)
    return result[0] if len(result) == 1 else result


@operator("segmentation.random_mask_pixel", each=dict.fromkeys(("foreground", "threshold", "value")))
def _random_mask_pixel(call: DaliCall, *, seed: Seed) -> DataNode:
    """``fn.segmentation.random_mask_pixel``: the position of a random element, or of a random foreground element."""
    if {"threshold", "value"} <= call.settings.keys():
        raise call.wrong("threshold and value are given", allowed="one of both")

    def computed(array: Array, *, rng: Any, **numbers: Any) -> Any:
        mask, places = to_numpy(array), np.zeros(0, np.int64)
        settings = {name: np.ravel(number)[0] for name, number in numbers.items()}
        if settings.get("foreground", 0):
            inside = mask == settings["value"] if "value" in settings else mask > settings.get("threshold", 0)
            places = np.flatnonzero(inside)
        chosen = places[rng.integers(len(places))] if len(places) else rng.integers(mask.size)
        return np.array(np.unravel_index(int(chosen), mask.shape), np.int64)

    return call.by_sample(computed, layout="", seed=seed)  # type: ignore[no-any-return]


@operator("segmentation.select_masks")
def _select_masks(call: DaliCall, *, reindex_masks: bool = False) -> Any:
    """``fn.segmentation.select_masks``: the polygons and vertices of some masks, in the order of the first input."""
    call.input(2)

    def result(*arrays: Array) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        wanted, polygons, vertices = map(to_numpy, arrays)
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
            raise call.fault(fact)
        for number, mask in enumerate(wanted.ravel().tolist()):
            for _, start, end in polygons[polygons[:, 0] == mask].tolist():
                selected.append((number if reindex_masks else mask, count, count + end - start))
                kept.append(np.arange(start, end))
                count += end - start
        rows = np.concatenate([np.zeros(0, np.int64), *kept])
        return np.asarray(selected, polygons.dtype).reshape(-1, 3), vertices[rows]

    return call.by_sample(result, count=2)
