"""Mixup and CutMix: operators that mix the samples of a batch, images, videos or volumes, and their labels."""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ...parts import Labels
from ..core.parameters import param
from ..core.spec import Spec
from ..core.traits import Body
from .base import Mixed, Mixing

__all__ = ["CutMix", "CutMix3d", "Mixed", "Mixup"]


class Mixup(Mixing):
    """Blend each sample with the preceding one, and labels likewise.

    ``out = weight * in + (1 - weight) * preceding``, where ``weight`` has the distribution Beta(alpha, alpha): H. Zhang
    and others, "mixup: Beyond empirical risk minimization", 2018. All frames of a sequence, or slices of a volume, have
    one weight. Labels of voxels become a float32 image with a channel for each class, blended likewise.
    """

    alpha: float = param(
        0.2, "of the Beta distribution; greater values blend more samples", lo=1e-3, drawn=False
    )

    softens = True
    cpu_tolerance = (1, 0.001)  # OpenCV does not round the products of integers before it adds them
    examples = (
        {"alpha": 0.4, "num_classes": 5, "seed": 1},
        {"alpha": 1.0, "per_sample": True, "p": 0.7, "seed": 2},
    )

    def sample(self, rng: np.random.Generator, spec: Spec) -> dict[str, Any]:  # noqa: ARG002  independent of the spec
        """Sample the weight."""
        return {"weight": rng.beta(self.alpha, self.alpha)}

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the weighted mean."""
        return x * p.weight + p.other * (np.float32(1) - p.weight)

    def cpu(self, x: Array, p: Any) -> Array:
        """Compute integers by OpenCV."""
        if x.dtype.kind == "f":
            p.other = p.other.astype(np.float32)
            return self.reference(x.astype(np.float32), p)
        import cv2

        own, other = (np.ascontiguousarray(images).reshape(x.shape[1], -1) for images in (x, p.other))
        weight = float(p.weight)
        return cv2.addWeighted(own, weight, other, 1 - weight, 0).reshape(x.shape)

    def mixed_mask(self, mask: Array, other: Array, p: Any) -> Array:  # noqa: ARG002  independent of the weight
        """Return where either sample is valid."""
        return mask | other

    def mixed_voxel_labels(self, part: Labels, values: Array, other: Array, p: Any) -> Array:
        """Blend one-hot labels."""
        own, others = self._one_hot(part, values), self._one_hot(part, other)
        weight = np.float32(p.weight if p.acts else 1)
        return own * weight + others * (1 - weight)

    def _one_hot(self, part: Labels, values: Array) -> Array:
        """Return floats ``(D, H, W, classes)`` of labels ``(D, H, W, 1)``."""
        classes = self.num_classes if part.classes is None else part.classes
        if classes is None:
            raise self.refusal(
                "labels of voxels without a number of classes",
                advice=f"{type(self).__name__}(num_classes=…), or Labels(…, classes=…)",
            )
        xp = namespace(values)
        known = xp.arange(classes) if isinstance(classes, int) else xp.asarray(classes)
        return (values == known).astype(np.float32)

    body = Body("mixed", "value = own * row.weight + other * (Real(1.0f) - row.weight);")


class CutMix(Mixing, function_name="cutmix"):
    """Paste a box of the preceding sample into each sample, in all frames, and mix labels by its area.

    The center of the box is uniform over the image; its height and width are ``sqrt(1 - ratio)`` of the image's, where
    ``ratio`` has the distribution Beta(alpha, alpha), and it is clipped to the image: S. Yun and others, "CutMix:
    Regularization strategy to train strong classifiers with localizable features", 2019. Labels are mixed by the area
    of the clipped box; labels of voxels are pasted with the image.
    """

    alpha: float = param(
        1.0, "of the Beta distribution; greater values make areas closer to a half", lo=1e-3, drawn=False
    )

    sides: ClassVar[tuple[str, ...]] = ("height", "width")
    derived = ("ratio", ("center", 2), ("box", 4), *Mixing.traits.derived)
    examples = (
        {"num_classes": 5, "seed": 1},
        {"alpha": 0.5, "per_sample": True, "p": 0.7, "seed": 2},
    )

    def sample(self, rng: np.random.Generator, spec: Spec) -> dict[str, Any]:  # noqa: ARG002  independent of the spec
        """Sample the ratio, and the center relative to the image."""
        return {"ratio": rng.beta(self.alpha, self.alpha), "center": rng.random(len(self.sides))}

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """Compute the box, its first corner and then its end, and the remaining share of the image."""
        sides = [getattr(spec, name) for name in self.sides]
        drawn = zip(rows["ratio"].tolist(), rows["center"].tolist(), strict=True)
        spans = [_spans(ratio, center, sides) for ratio, center in drawn]
        covered = [math.prod(end - first for first, end in box) for box in spans]
        return {
            "box": [[*(first for first, _ in box), *(end for _, end in box)] for box in spans],
            "weight": [1 - part / math.prod(sides) for part in covered],
        }

    def reference(self, x: Array, p: Any) -> Array:
        """Paste the box of the other sample."""
        return _pasted(x, p.other, p.box)

    def _mix(self, x: Array, others: Array, out: Array, p: Any, *, fast: bool) -> None:
        """Copy values directly into the result."""
        if not fast:
            super()._mix(x, others, out, p, fast=fast)
            return
        out[...] = x
        within = _within(p.box)
        out[within] = others[within]

    def mixed_mask(self, mask: Array, other: Array, p: Any) -> Array:
        """Paste the box of the other mask."""
        return _pasted(mask, other, p.box)

    def mixed_voxel_labels(self, part: Labels, values: Array, other: Array, p: Any) -> Array:  # noqa: ARG002  not blended
        """Paste the box of the other labels."""
        return _pasted(values, other, p.box) if p.acts else values.copy()

    body: ClassVar[Body | None] = Body(
        "mixed",
        """
    const Real line = (float)y, column = (float)x;
    const bool inside = !(line < row.box[0]) && !(column < row.box[1]) && line < row.box[2] && column < row.box[3];
    value = inside ? other : own;
""",
    )


class CutMix3d(CutMix, function_name="cutmix3d"):
    """Paste a box of the preceding volume into each volume, and mix labels by its share of the volume.

    Like :class:`CutMix`, with a box that is limited along the slices, too: each side is the cube root of ``1 - ratio``
    of the volume's.
    """

    sides = ("frames", "height", "width")
    sample_layouts = {3: "DHW", 4: "DHWC"}  # noqa: RUF012  a ClassVar of the base
    derived = ("ratio", ("center", 3), ("box", 6), *Mixing.traits.derived)
    examples = ({"num_classes": 5, "seed": 1}, {"alpha": 0.5, "per_sample": True, "p": 0.7, "seed": 2})

    def check_sample(self, spec: Spec) -> None:
        """Check that there are several slices.

        Raises:
            ParameterError: there is one.
        """
        if spec.frames < 2:
            raise self.refusal("volumes of 1 slice", allowed="2 slices or more", advice="Use CutMix")

    def _mix(self, x: Array, others: Array, out: Array, p: Any, *, fast: bool) -> None:  # noqa: ARG002  one implementation
        super()._mix(x, others, out, p, fast=True)

    body = None


def _spans(ratio: float, center: Seq[float], sides: Seq[int]) -> list[tuple[int, int]]:
    """Return first index and end of a box around a center along each side, clipped to the image."""
    part = 0.5 * (1 - ratio) ** (1 / len(sides))
    return [_span(part, position, side) for position, side in zip(center, sides, strict=True)]


def _span(part: float, position: float, side: int) -> tuple[int, int]:
    """Return first index and end along one side; ``part`` is half of the box relative to the side."""
    reach, middle = math.floor(part * side), min(math.floor(position * side), side - 1)
    return max(middle - reach, 0), min(middle + reach, side)


def _within(box: npt.NDArray[Any]) -> tuple[slice, ...]:
    """Return the index of a box in an array ``(F, H, W, …)``, with all frames if the box has none."""
    corners = [int(corner) for corner in box.tolist()]
    half = len(corners) // 2
    spans = [slice(first, end) for first, end in zip(corners[:half], corners[half:], strict=True)]
    return (*[slice(None)] * (3 - half), *spans)


def _pasted(x: Array, other: Array, box: npt.NDArray[Any]) -> Array:
    """Return images ``(F, H, W, …)`` with a box of other ones."""
    out = x.copy()
    within = _within(box)
    out[within] = other[within]
    return out
