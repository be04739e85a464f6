"""``fn.box_encoder``, for detectors with anchors (SSD)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import ParameterError
from ...ops import Run
from ..call import DaliCall, Row
from ..data_node import DataNode, outputs_of
from ..value import Value
from .arrays import random_bbox_crop
from .windows import slice_

__all__ = ["box_encoder", "ssd_random_crop"]

_Boxes = npt.NDArray[np.float32]
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
