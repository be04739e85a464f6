"""Objects of label maps: the boxes of connected regions, and a random one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ...array import IntArray

__all__ = ["object_boxes", "random_object"]


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
    first, second = np.concatenate([*pairs, np.zeros((2, 0), np.int64)], axis=1).astype(np.int64)
    roots = np.arange(count)
    while (roots[first] != roots[second]).any():
        low, high = np.minimum(roots[first], roots[second]), np.maximum(roots[first], roots[second])
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


def random_object(
    labels: npt.NDArray[Any], settings: Mapping[str, Any], rng: Any, ignores: bool, largest: int | None
) -> tuple[IntArray, int]:
    """Return start and end of a random object, and its class; the whole sample if there is none.

    Args:
        labels: label of each element.
        settings: arrays by name: ``foreground_prob``, ``classes``, ``class_weights``, ``background`` and ``threshold``,
            the least size along each axis. Each may be missing.
        rng: generator of random numbers.
        ignores: whether objects of all classes are equally likely.
        largest: number of objects of a class to choose among, the largest ones; None for all.
    """
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
    remaining = [int(label) for label in (np.unique(labels) if classes is None else classes)]
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
