"""Targets of detectors: the box and the label that each anchor matches."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["encoded_anchors"]

_Boxes: TypeAlias = npt.NDArray[np.float32]


def encoded_anchors(
    boxes: _Boxes,
    labels: npt.NDArray[Any],
    anchors: _Boxes,
    criteria: float,
    scaling: tuple[Any, Any, Any] | None = None,
) -> tuple[_Boxes, npt.NDArray[np.int32]]:
    """Return the matching box and its label for each anchor; the anchor itself, or 0, and label 0 without a match.

    An anchor matches the box with the largest IoU, if that is above ``criteria``, or if no other anchor has a larger
    IoU with that box, as in SSD (Liu et al., 2016).

    Args:
        boxes: left, top, right and bottom, ``(N, 4)``.
        labels: label of each box.
        anchors: boxes ``(A, 4)``.
        criteria: least IoU.
        scaling: (scale, means, standard deviations) of offsets from the anchors as results; None for centers and sizes.
    """
    own = _centered(anchors)
    targets = own.copy() if scaling is None else np.zeros_like(own)
    classes = np.zeros(len(anchors), np.int32)
    if len(boxes):
        match = _matches(boxes, anchors, criteria)
        hit = match >= 0
        chosen = _centered(boxes)[match[hit]]
        if scaling is not None:
            scale, means, stds = scaling
            near = own[hit] * scale
            places = (chosen[:, :2] * scale - near[:, :2]) / near[:, 2:]
            sizes = np.log(chosen[:, 2:] * scale / near[:, 2:])
            chosen = (np.concatenate([places, sizes], axis=1) - means) / stds
        targets[hit], classes[hit] = chosen, labels[match[hit]]
    return targets, classes


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
    areas = [(corners[:, 2:] - corners[:, :2]).prod(axis=1) for corners in (boxes, anchors)]
    overlap = common / np.maximum(areas[0][:, None] + areas[1][None] - common, np.float32(1e-12))
    overlap[np.arange(len(boxes)), overlap.argmax(axis=1)] = (
        2  # each box has the anchor that it overlaps with most
    )
    match: npt.NDArray[np.int64] = (
        len(boxes) - 1 - overlap[::-1].argmax(axis=0)
    )  # of several the last, as in DALI
    match[overlap.max(axis=0) <= criteria] = -1
    return match
