"""Mixup and CutMix: operators that mix the samples of a batch, and their labels."""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from typing import Any

import numpy as np
import numpy.typing as npt

from ...array import Array
from ..core.body import Body
from ..core.parameters import param
from ..core.spec import Spec
from .base import Mixed, Mixing

__all__ = ["CutMix", "Mixed", "Mixup"]


class Mixup(Mixing):
    """Blend each sample with the one before it, and labels with theirs.

    ``out = weight * in + (1 - weight) * in of the sample before``, labels likewise, where ``weight`` has the
    distribution Beta(alpha, alpha): H. Zhang and others, "mixup: Beyond empirical risk minimization", 2018. All frames
    of a sequence have one weight.
    """

    alpha: float = param(
        0.2, "of the Beta distribution: the greater, the more samples are blended", lo=1e-3, drawn=False
    )

    cpu_tolerance = (1, 0.001)  # of whole numbers: OpenCV does not round products before it adds them
    examples = (
        {"alpha": 0.4, "num_classes": 5, "seed": 1},
        {"alpha": 1.0, "per_sample": True, "p": 0.7, "seed": 2},
    )
    errors = (
        ({"alpha": 0}, "alpha=0 is not valid; allowed: a number of at least 0.001"),
        ({"num_classes": 0}, "num_classes=0 is not valid; allowed: a whole number of at least 1 or None"),
        ({"per_frame": True}, "per_frame asks for a value for each frame"),
    )

    def sample(self, rng: np.random.Generator, spec: Spec) -> dict[str, Any]:  # noqa: ARG002  the same for all
        """The weight."""
        return {"weight": rng.beta(self.alpha, self.alpha)}

    def reference(self, x: Array, p: Any) -> Array:
        """The formula."""
        return x * p.weight + p.other * (np.float32(1) - p.weight)

    def cpu(self, x: Array, p: Any) -> Array:
        """Whole numbers by OpenCV."""
        if x.dtype.kind == "f":
            p.other = p.other.astype(np.float32)
            return self.reference(x.astype(np.float32), p)
        import cv2

        own, other = (np.ascontiguousarray(one).reshape(x.shape[1], -1) for one in (x, p.other))
        weight = float(p.weight)
        return cv2.addWeighted(own, weight, other, 1 - weight, 0).reshape(x.shape)

    def masked(self, mask: Array, other: Array, p: Any) -> Array:  # noqa: ARG002  the weight does not matter
        """Where one of both is real."""
        return mask | other

    body = Body("mixed", "value = own * row.weight + other * (Real(1.0f) - row.weight);")


class CutMix(Mixing, called="cutmix"):
    """Paste a box of the sample before into each one, in all of its frames, and mix labels by its area.

    The center of the box is uniform over the image, its height and width are ``sqrt(1 - ratio)`` of the image's, where
    ``ratio`` has the distribution Beta(alpha, alpha), as far as it lies within: S. Yun and others, "CutMix:
    Regularization strategy to train strong classifiers with localizable features", 2019. Labels are mixed by the area
    that the box has indeed.
    """

    alpha: float = param(
        1.0, "of the Beta distribution: the greater, the nearer the area to a half", lo=1e-3, drawn=False
    )

    derived = ("ratio", ("center", 2), ("box", 4), *Mixing.traits.derived)
    examples = (
        {"num_classes": 5, "seed": 1},
        {"alpha": 0.5, "per_sample": True, "p": 0.7, "seed": 2},
    )
    errors = (
        ({"alpha": -1.0}, "alpha=-1.0 is not valid; allowed: a number of at least 0.001"),
        ({"per_sample": 3}, "per_sample=3 is not valid; allowed: True or False"),
    )

    def sample(self, rng: np.random.Generator, spec: Spec) -> dict[str, Any]:  # noqa: ARG002  the same for all
        """The ratio, and the center in parts of the image."""
        return {"ratio": rng.beta(self.alpha, self.alpha), "center": rng.random(2)}

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """The box, top, left, bottom and right, and how much is left of the image."""
        drawn = zip(rows["ratio"].tolist(), rows["center"].tolist(), strict=True)
        boxes = [_box_of(ratio, center, spec.height, spec.width) for ratio, center in drawn]
        areas = [(bottom - top) * (right - left) for top, left, bottom, right in boxes]
        return {"box": boxes, "weight": [1 - area / (spec.height * spec.width) for area in areas]}

    def reference(self, x: Array, p: Any) -> Array:
        """The other sample within the box."""
        return _pasted(x, p.other, p.box)

    def _mix(self, x: Array, others: Array, out: Array, p: Any, *, fast: bool) -> None:
        """Values as they are, into the result at once."""
        if not fast:
            super()._mix(x, others, out, p, fast=fast)
            return
        out[...] = x
        top, left, bottom, right = map(int, p.box.tolist())
        out[:, top:bottom, left:right] = others[:, top:bottom, left:right]

    def masked(self, mask: Array, other: Array, p: Any) -> Array:
        """That of the other sample within the box."""
        return _pasted(mask, other, p.box)

    body = Body(
        "mixed",
        """
    const Real line = (float)y, column = (float)x;
    const bool inside = !(line < row.box[0]) && !(column < row.box[1]) && line < row.box[2] && column < row.box[3];
    value = inside ? other : own;
""",
    )


def _box_of(ratio: float, center: Seq[float], height: int, width: int) -> tuple[int, int, int, int]:
    """Top, left, bottom and right of a box around a place, as far as it lies within the image."""
    part = 0.5 * math.sqrt(1 - ratio)
    (top, bottom), (left, right) = _span(part, center[0], height), _span(part, center[1], width)
    return top, left, bottom, right


def _span(part: float, place: float, side: int) -> tuple[int, int]:
    """Where it begins and ends along a side, of which it takes a part before its place and one behind it."""
    reach, middle = math.floor(part * side), min(math.floor(place * side), side - 1)
    return max(middle - reach, 0), min(middle + reach, side)


def _pasted(x: Array, other: Array, box: npt.NDArray[Any]) -> Array:
    """Images with a box of others, top, left, bottom and right."""
    out = x.copy()
    top, left, bottom, right = map(int, box.tolist())
    out[:, top:bottom, left:right] = other[:, top:bottom, left:right]
    return out
