"""Operators on the labels of a sample."""

from __future__ import annotations

from typing import Any

from ...array import Array, namespace
from ..core.parameters import param
from .base import Volumetric

__all__ = ["ReplaceLabel"]


class ReplaceLabel(Volumetric):
    """Replace a label by another one, in all labels of a sample."""

    label: int = param(-1, "label to replace", drawn=False)
    by: int = param(0, "new label", drawn=False)

    on_labels = True
    examples = ({"label": -1, "by": 0}, {"label": 2, "by": 1, "p": 0.5, "seed": 1})
    errors = (({"label": 0.5}, "replace_label: label=0.5 is not valid; allowed: a whole number"),)

    def reference(self, x: Array, p: Any) -> Array:  # noqa: ARG002  nothing is drawn
        """The labels ``(D, H, W, C)``."""
        return namespace(x).where(x == self.label, x.dtype.type(self.by), x) if self._fits(x) else x

    def _fits(self, x: Array) -> bool:
        """Return whether the dtype of the labels can hold the replaced label."""
        return x.dtype.kind != "u" or self.label >= 0
