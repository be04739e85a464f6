"""``nvidia.dali.auto_aug.auto_augment``: the policies of AutoAugment."""

from __future__ import annotations

from typing import Any, Final

from ...errors import ParameterError
from ..data_node import DataNode
from .policies import policy, unavailable

__all__ = ["auto_augment", "auto_augment_image_net"]

_POLICIES: Final = {"image_net": "imagenet", "reduced_cifar10": "cifar10", "svhn": "svhn"}


def auto_augment(data: Any, policy_name: str = "image_net", shape: Any = None, **options: Any) -> DataNode:
    """Apply a published policy of AutoAugment, :class:`seqpipe.ops.AutoAugment`.

    Args:
        data: uint8 images ``HWC`` or sequences ``FHWC``.
        policy_name: "image_net", "reduced_cifar10" or "svhn".
        shape: as in :func:`seqpipe.dali.auto_aug.policies.policy`; likewise ``options``.
        options: ``fill_value``, ``interp_type``, ``max_translate_abs``, ``max_translate_rel``, ``seed``.

    Raises:
        ParameterError: an argument is not valid.
    """
    if policy_name not in _POLICIES:
        allowed = ", ".join(map(repr, _POLICIES))
        raise ParameterError(
            f"policy_name={policy_name!r} is not valid", source="auto_augment", allowed=allowed
        )
    return policy("auto_augment", data, shape=shape, policy=_POLICIES[policy_name], **options)


def auto_augment_image_net(data: Any, shape: Any = None, **options: Any) -> DataNode:
    """Apply the policy for ImageNet; arguments are those of :func:`auto_augment`."""
    return auto_augment(data, shape=shape, **options)


__getattr__ = unavailable("auto_augment")
