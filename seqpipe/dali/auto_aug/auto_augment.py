"""``nvidia.dali.auto_aug.auto_augment``: the policies of AutoAugment."""

from __future__ import annotations

from typing import Any

from ...errors import ParameterError
from ..data_node import DataNode
from .policies import applied, not_available

__all__ = ["auto_augment", "auto_augment_image_net"]

_POLICIES = {"image_net": "imagenet", "reduced_cifar10": "cifar10", "svhn": "svhn"}


def auto_augment(
    data: Any,
    policy_name: str = "image_net",
    shape: Any = None,
    fill_value: float | None = 128,
    interp_type: Any = None,
    max_translate_abs: float | None = None,
    max_translate_rel: float | None = None,
    seed: int | None = None,
) -> DataNode:
    """Apply a published policy of AutoAugment: :class:`seqpipe.ops.AutoAugment`.

    Args:
        data: uint8 images ``HWC`` or sequences ``FHWC``.
        policy_name: "image_net", "reduced_cifar10" or "svhn".
        shape: of the images; needed with ``max_translate_rel`` only.
        fill_value: of pixels from outside of the image; None repeats its edge.
        interp_type: filter of geometric operations; by default linear.
        max_translate_abs: greatest translation in pixels.
        max_translate_rel: greatest translation as a share of the sides.
        seed: of the draws.

    Raises:
        ParameterError: an argument is not valid.
    """
    if policy_name not in _POLICIES:
        allowed = ", ".join(map(repr, _POLICIES))
        raise ParameterError(
            f"policy_name={policy_name!r} is not valid", source="auto_augment", allowed=allowed
        )
    return applied(
        "auto_augment",
        data,
        shape,
        policy=_POLICIES[policy_name],
        fill_value=fill_value,
        interp_type=interp_type,
        max_translate_abs=max_translate_abs,
        max_translate_rel=max_translate_rel,
        seed=seed,
    )


def auto_augment_image_net(data: Any, **arguments: Any) -> DataNode:
    """Apply the policy for ImageNet; arguments are those of :func:`auto_augment`."""
    return auto_augment(data, policy_name="image_net", **arguments)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    not_available("auto_augment", name)
