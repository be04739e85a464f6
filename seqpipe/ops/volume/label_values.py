"""Operators on the values of labels: renumbering, and outlines."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...array import Array, namespace
from ...errors import ParameterError
from ..core.parameters import ANY, param
from .base import Volumetric

__all__ = ["LabelOutline", "RemapLabels"]


class RemapLabels(Volumetric):
    """Replace several labels by others at once, in all labels of a sample; labels that are not named stay."""

    labels: tuple[int, ...] = param((1,), "labels to replace", size=ANY, drawn=False)
    by: tuple[int, ...] = param((0,), "new label of each of them", size=ANY, drawn=False)

    on_labels = True
    examples = ({"labels": (3, 6), "by": (6, 3)}, {"labels": (3, 9), "by": (0, 0), "p": 0.5, "seed": 1})
    errors = (
        (
            {"labels": (1, 2)},
            "remap_labels: 2 labels and 1 new ones; allowed: one new label for each, no label twice",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.labels) != len(self.by) or len({*self.labels}) != len(self.labels):
            raise ParameterError(
                f"{len(self.labels)} labels and {len(self.by)} new ones",
                source=self.name,
                allowed="one new label for each, no label twice",
            )

    def reference(self, x: Array, p: Any) -> Array:  # noqa: ARG002  nothing is drawn
        """The labels ``(D, H, W, C)``, in a wider dtype if theirs does not hold the new ones."""
        xp, ends = namespace(x), [*self.by]
        info = np.iinfo(x.dtype) if x.dtype.kind in "iu" else np.iinfo(np.uint8)
        wide = x.dtype if info.min <= min(ends) and max(ends) <= info.max else np.dtype(np.int32)
        result = x.astype(wide)
        for label, by in zip(self.labels, self.by, strict=True):
            result = xp.where(x == label, wide.type(by), result)
        return result


class LabelOutline(Volumetric):
    """Keep the outline of each class: its voxels with a face beside another class or the border; others become 0."""

    on_labels = True
    examples = ({}, {"p": 0.5, "seed": 1})

    def reference(self, x: Array, p: Any) -> Array:  # noqa: ARG002  nothing is drawn
        """The labels ``(D, H, W, C)``."""
        xp = namespace(x)
        edge = xp.zeros(x.shape, bool)
        for axis in range(3):
            values, found = xp.moveaxis(x, axis, 0), xp.moveaxis(edge, axis, 0)
            differs = values[1:] != values[:-1]
            found[1:] |= differs
            found[:-1] |= differs
            found[0] = found[-1] = True
        return xp.where(edge, x, x.dtype.type(0))
