"""``nvidia.dali.auto_aug.auto_augment``: the policies of AutoAugment."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from ...errors import ParameterError
from ...ops.policies.published import AUTO, AUTO_BINS, FOUND
from .. import conditions, fn, types
from ..data_node import DataNode
from .augmentations import identity, suite
from .core import Policy, forbid_unused_kwargs, policy, select, signed_bin

__all__ = [
    "apply_auto_augment",
    "auto_augment",
    "auto_augment_image_net",
    "get_image_net_policy",
    "get_reduced_cifar10_policy",
    "get_reduced_image_net_policy",
    "get_svhn_policy",
]

_POLICIES: Final = {"image_net": "imagenet", "reduced_cifar10": "cifar10", "svhn": "svhn"}


def auto_augment(data: Any, policy_name: str = "image_net", shape: Any = None, **options: Any) -> DataNode:
    """Apply a published policy of AutoAugment, :class:`seqpipe.ops.AutoAugment`.

    Args:
        data: uint8 images ``HWC`` or sequences ``FHWC``.
        policy_name: "image_net", "reduced_cifar10" or "svhn".
        shape: as in :func:`seqpipe.dali.auto_aug.core.policy`; likewise ``options``.
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


def apply_auto_augment(policy: Policy, data: Any, seed: int | None = None, **options: Any) -> Any:
    """Apply one sub-policy of a policy to each sample: its augmentations in turn, each with its probability.

    Args:
        policy: the policy.
        data: node of the samples.
        seed: seed of the choice, of the probabilities and of the signs.
        options: further arguments of the augmentations, by name.

    Raises:
        ParameterError: the policy is empty, or no augmentation has an argument.
    """
    if not policy.sub_policies:
        raise ParameterError(f"cannot run empty policy. Got {policy}", source="apply_auto_augment")
    forbid_unused_kwargs(policy.augmentations.values(), options, "apply_auto_augment")
    count, steps = len(policy.sub_policies), max(map(len, policy.sub_policies))
    own = [
        list(dict.fromkeys(sub[n][0] for sub in policy.sub_policies if n < len(sub))) for n in range(steps)
    ]
    rows = [[*sub, *[(None, 0.0, None)] * (steps - len(sub))] for sub in policy.sub_policies]
    chances = np.array([[p for _, p, _ in row] for row in rows], np.float32)
    bins = np.array([[m or 0 for *_, m in row] for row in rows], np.int32)
    numbers = np.array(
        [[own[n].index(item) if item else 0 for n, (item, *_) in enumerate(row)] for row in rows], np.int32
    )
    drawn = fn.random.uniform(range=[0, 1], shape=(steps,), dtype=types.FLOAT, seed=seed)
    chosen = fn.random.uniform(values=list(range(count)), seed=seed, dtype=types.INT32)
    chance, bin_of, number = (
        types.Constant(table, device="cpu")[chosen] for table in (chances, bins, numbers)
    )
    if any(augmentation.randomly_negate for augmentation in policy.augmentations.values()):
        bin_of = signed_bin(bin_of, seed=seed, shape=(steps,))
    for n in range(steps):
        options_of_bin = {"magnitude_bin": bin_of[n], "num_magnitude_bins": policy.num_magnitude_bins}
        step = partial(select, own[n] or [identity], number[n], data, **options_of_bin, **options)
        data = conditions.selected(drawn[n] < chance[n], step, partial(identity, data))
    return data


def _published(
    found: str, use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> Policy:
    """Return a published policy; see :func:`seqpipe.dali.auto_aug.augmentations.suite`."""
    named = {
        item.name: item for item in suite(AUTO, use_shape, 250, 1.0, max_translate_abs, max_translate_rel)
    }

    def step(name: str, probability: float, number: int) -> tuple[Any, float, int | None]:
        return named[name], probability, None if named[name].mag_range is None else number

    subs = [[step(*entry) for entry in pair if entry[1]] for pair in FOUND[found]]
    return Policy(found, AUTO_BINS, subs)


get_image_net_policy = partial(_published, "imagenet")
"""The policy for ImageNet that torchvision publishes; arguments are those of
:func:`seqpipe.dali.auto_aug.augmentations.suite`."""
get_reduced_image_net_policy = partial(_published, "imagenet")
"""The same; translations are not among its steps."""
get_reduced_cifar10_policy = partial(_published, "cifar10")
"""The policy for CIFAR-10."""
get_svhn_policy = partial(_published, "svhn")
"""The policy for SVHN."""
