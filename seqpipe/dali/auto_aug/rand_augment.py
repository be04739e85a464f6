"""``nvidia.dali.auto_aug.rand_augment``: RandAugment."""

from __future__ import annotations

from typing import Any

from ...errors import ParameterError
from ..data_node import DataNode
from .policies import policy, unavailable

__all__ = ["rand_augment"]


def rand_augment(
    data: Any, n: int, m: int, num_magnitude_bins: int = 31, shape: Any = None, **options: Any
) -> DataNode:
    """Apply ``n`` random operations of magnitude ``m``, :class:`seqpipe.ops.RandAugment`.

    Args:
        data: uint8 images ``HWC`` or sequences ``FHWC``.
        n: number of operations.
        m: their magnitude, from 0 to ``num_magnitude_bins - 1``.
        num_magnitude_bins: number of magnitudes.
        shape: as in :func:`seqpipe.dali.auto_aug.policies.policy`; likewise ``options``.
        options: ``fill_value``, ``interp_type``, ``max_translate_abs``, ``max_translate_rel``, ``seed``,
            ``excluded``, names of operations to leave out, and ``monotonic_mag``, which must be True.

    Raises:
        ParameterError: an argument is not valid.
    """
    if not options.pop("monotonic_mag", True):
        raise ParameterError("monotonic_mag=False is not available", source="rand_augment", allowed="True")
    return policy(
        "rand_augment", data, shape=shape, n=n, m=m, num_magnitude_bins=num_magnitude_bins, **options
    )


__getattr__ = unavailable("rand_augment")
