"""Losses of segmentation networks, for labels as data sets give them."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

import torch
from torch.nn import functional

from ..errors import ParameterError
from ..recipes.adapters import deep_supervision

__all__ = ["dice_ce"]


def dice_ce(scores: Any, labels: Any, *, ignore: int | None = None) -> Any:
    """Return cross entropy minus the mean soft Dice of the classes but 0, over a batch: nnU-Net's loss.

    loss = dice_ce(model(batch["image"].torch().movedim(-1, 1)), batch["label"].torch())

    Args:
        scores: ``(N, K, …)`` before the softmax, of two classes or more; or a list of these from the finest grid to the
            coarsest (deep supervision), of which each has half the weight of the one before, and the last none.
        labels: integers ``(N, …)`` of the finest grid, also with an axis of one channel behind or after ``N``.
        ignore: label of voxels without annotation, which do not count.

    Raises:
        ParameterError: the shapes do not fit.
    """
    several: Seq[Any] = scores if isinstance(scores, (list, tuple)) else [scores]
    first = several[0]
    if labels.ndim == first.ndim and 1 in (labels.shape[-1], labels.shape[1]):
        labels = labels.squeeze(-1) if labels.shape[-1] == 1 else labels.squeeze(1)
    fits = labels.shape == (first.shape[0], *first.shape[2:])
    if not fits or first.shape[1] < 2:
        raise ParameterError(
            f"scores {tuple(first.shape)} and labels {tuple(labels.shape)} do not fit",
            source="dice_ce",
            allowed="scores (N, K, …) of two classes or more, labels (N, …)",
        )
    weights = [0.5**n for n in range(len(several))]
    weights = [*weights[:-1], 0.0] if len(several) > 1 else weights
    scales = [
        [n / m for n, m in zip(prediction.shape[2:], labels.shape[1:], strict=True)] for prediction in several
    ]
    losses = [
        weight * _of_grid(prediction, own.long(), ignore)
        for prediction, own, weight in zip(several, deep_supervision(labels, scales), weights, strict=True)
        if weight
    ]
    return sum(losses) / sum(weights)


def _of_grid(scores: Any, labels: Any, ignore: int | None) -> Any:
    known = torch.ones_like(labels, dtype=torch.bool) if ignore is None else labels != ignore
    target, values = labels.where(known, torch.zeros_like(labels)), scores.float()
    entropy = functional.cross_entropy(values, target, reduction="none") * known
    truth = functional.one_hot(target, values.shape[1]).movedim(-1, 1) * known[:, None]
    probability, axes = values.softmax(dim=1) * known[:, None], (0, *range(2, values.ndim))
    overlap = (2 * (probability * truth).sum(axes) + 1) / ((probability + truth).sum(axes) + 1)
    return entropy.sum() / known.sum().clamp(min=1) - overlap[1:].mean()
