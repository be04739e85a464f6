"""Operators that replace the channels of an image by others: principal components, classes of labels."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from ...array import Array, namespace
from ...errors import ParameterError
from ..core.parameters import ANY, param
from .base import Volumetric
from .plan import SampledParameters

__all__ = ["LabelsToChannels", "PrincipalComponents"]


class _WholeImage(Volumetric, register=False):
    """An operator on all channels of an image at once, whose number it may change."""

    changes_channels = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.p != 1:
            raise ParameterError(
                f"p={self.p!r}", source=self.name, allowed="1, so that all samples have the same channels"
            )

    @property
    def asks_mask(self) -> bool:
        """Whether it uses the voxels that labels mark."""
        return False

    def result_dtype(self, dtype: str) -> str:
        """Return the dtype of the result for images of a dtype."""
        return "float32" if self.traits.to_float else dtype

    def apply_to_image(
        self,
        values: Array,
        p: SampledParameters,
        first_channel: int,  # noqa: ARG002  channels have no parameters of their own
        image_context: dict[str, Any],
    ) -> Array:
        """Return :meth:`reference` of an image; see :meth:`Intensity.apply_to_image`."""
        return self.reference(values, SimpleNamespace(**vars(p), **image_context))


class PrincipalComponents(_WholeImage):
    """Replace the channels of each image by their first principal components, float32.

    Components are computed over the voxels of the image whose channels are all finite; the strongest weight of each is
    positive. They show many channels, such as features of a network, as a few.
    """

    components: int = param(3, "channels of the result, at most those of the image", lo=1, drawn=False)
    whiten: bool = param(False, "whether components have the standard deviation 1", drawn=False)

    to_float = True
    examples = ({"components": 1}, {"components": 1, "whiten": True})

    def reference(self, x: Array, p: Any) -> Array:  # noqa: ARG002  nothing is drawn
        """The centered channels times the eigenvectors of their covariance."""
        xp, channels = namespace(x), x.shape[3]
        if self.components > channels:
            raise ParameterError(
                f"components={self.components} of an image of {channels} channels",
                source=self.name,
                allowed=f"1 to {channels}",
            )
        wide = x.reshape(-1, channels).astype(np.float64)
        known = xp.isfinite(wide).all(axis=1)[:, None]
        count = xp.maximum(known.sum(), 1)
        mean = xp.where(known, wide, 0).sum(axis=0) / count
        centered = xp.where(known, wide - mean, 0)
        covariance = centered.T @ centered / count
        variances, vectors = np.linalg.eigh(covariance if xp is np else covariance.get())
        chosen = np.argsort(variances, kind="stable")[::-1][: self.components]
        weights = vectors[:, chosen]
        weights *= np.sign(weights[np.abs(weights).argmax(axis=0), range(self.components)])
        if self.whiten:
            weights /= np.sqrt(np.maximum(variances[chosen], 1e-12))
        found = (wide - mean) @ xp.asarray(weights)
        return found.astype(np.float32).reshape(*x.shape[:3], self.components)


class LabelsToChannels(_WholeImage):
    """Append a channel for each of some classes to images: 1 where the labels have the class, 0 elsewhere.

    A second network of a cascade gets the labels of the first one so, as in nnU-Net. ``ops.Only("t1", …)`` appends them
    to one image of several.
    """

    classes: tuple[int, ...] = param((1,), "classes that get a channel, in this order", size=ANY, drawn=False)
    part: str | None = param(
        None,
        "name of the labels in the sample; None for the first ones",
        kind=str,
        drawn=False,
        optional=True,
    )

    examples = ({}, {"classes": (2, 1)})

    def reference(self, x: Array, p: Any) -> Array:
        """The image's channels, and those of the classes in the image's dtype."""
        labels = p.labels
        if labels is None or labels.shape != x.shape[:3]:
            what = "no labels" if labels is None else f"labels of the shape {labels.shape}"
            raise ParameterError(
                f"{what} for an image of {x.shape[:3]}",
                source=self.name,
                allowed="labels of the same grid, in a part of the sample"
                + (f" named {self.part!r}" if self.part else ""),
            )
        xp = namespace(x)
        marked = [(labels == label)[..., None].astype(x.dtype) for label in self.classes]
        return xp.concatenate([x, *marked], axis=3)
