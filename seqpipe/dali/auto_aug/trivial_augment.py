"""``nvidia.dali.auto_aug.trivial_augment``: TrivialAugment."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

from ...errors import ParameterError
from ...ops.policies.published import WIDE
from .. import fn, types
from ..data_node import DataNode
from .augmentations import suite
from .core import Augmentation, check_counts, forbid_unused_kwargs, policy, select, signed_bin

__all__ = ["apply_trivial_augment", "get_trivial_augment_wide_suite", "trivial_augment_wide"]


def trivial_augment_wide(
    data: Any, num_magnitude_bins: int = 31, shape: Any = None, **options: Any
) -> DataNode:
    """Apply one random operation of a random magnitude, :class:`seqpipe.ops.TrivialAugmentWide`.

    Args:
        data: uint8 images ``HWC`` or sequences ``FHWC``.
        num_magnitude_bins: number of magnitudes.
        shape: as in :func:`seqpipe.dali.auto_aug.core.policy`; likewise ``options``.
        options: ``fill_value``, ``interp_type``, ``max_translate_abs``, ``max_translate_rel``, ``seed``, and
            ``excluded``, names of operations to leave out.

    Raises:
        ParameterError: an argument is not valid.
    """
    check_counts("trivial_augment_wide", num_magnitude_bins)
    return policy("trivial_augment_wide", data, shape=shape, num_magnitude_bins=num_magnitude_bins, **options)


def apply_trivial_augment(
    augmentations: Seq[Augmentation],
    data: Any,
    num_magnitude_bins: int = 31,
    seed: int | None = None,
    **options: Any,
) -> Any:
    """Apply one random augmentation of a random magnitude to each sample.

    Args:
        augmentations: the augmentations.
        data: node of the samples.
        num_magnitude_bins: number of magnitudes.
        seed: seed of the choice, of the magnitudes and of their signs.
        options: further arguments of the augmentations, by name.

    Raises:
        ParameterError: an argument is not valid, or no augmentation has it.
    """
    call = "apply_trivial_augment"
    check_counts(call, num_magnitude_bins)
    if not augmentations:
        raise ParameterError("the `augmentations` list cannot be empty", source=call)
    forbid_unused_kwargs(augmentations, options, call)
    bins, index = (
        fn.random.uniform(values=list(range(count)), dtype=types.INT32, seed=seed)
        for count in (num_magnitude_bins, len(augmentations))
    )
    if any(augmentation.randomly_negate for augmentation in augmentations):
        bins = signed_bin(bins, seed=seed)
    return select(
        augmentations, index, data, magnitude_bin=bins, num_magnitude_bins=num_magnitude_bins, **options
    )


def get_trivial_augment_wide_suite(
    use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> list[Augmentation]:
    """Return the augmentations of TrivialAugment; see :func:`seqpipe.dali.auto_aug.augmentations.suite`."""
    return suite(WIDE, use_shape, 32, 1.0, max_translate_abs, max_translate_rel)
