"""``nvidia.dali.auto_aug.trivial_augment``: TrivialAugment."""

from __future__ import annotations

from typing import Any

from ..data_node import DataNode
from .policies import policy, unavailable

__all__ = ["trivial_augment_wide"]


def trivial_augment_wide(
    data: Any, num_magnitude_bins: int = 31, shape: Any = None, **options: Any
) -> DataNode:
    """Apply one random operation of a random magnitude, :class:`seqpipe.ops.TrivialAugmentWide`.

    Args:
        data: uint8 images ``HWC`` or sequences ``FHWC``.
        num_magnitude_bins: number of magnitudes.
        shape: as in :func:`seqpipe.dali.auto_aug.policies.policy`; likewise ``options``.
        options: ``fill_value``, ``interp_type``, ``max_translate_abs``, ``max_translate_rel``, ``seed``, and
            ``excluded``, names of operations to leave out.

    Raises:
        ParameterError: an argument is not valid.
    """
    return policy("trivial_augment_wide", data, shape=shape, num_magnitude_bins=num_magnitude_bins, **options)


__getattr__ = unavailable("trivial_augment")
