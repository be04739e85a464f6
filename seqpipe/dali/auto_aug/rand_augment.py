"""``nvidia.dali.auto_aug.rand_augment``: RandAugment."""

from __future__ import annotations

import warnings
from collections.abc import Sequence as Seq
from typing import Any

from ...errors import ParameterError
from ...ops.policies.published import NARROW, MagnitudeRange
from .. import fn, types
from ..data_node import DataNode
from .augmentations import suite
from .core import Augmentation, check_counts, forbid_unused_kwargs, policy, select, signed_bin

__all__ = [
    "apply_rand_augment",
    "get_rand_augment_non_monotonic_suite",
    "get_rand_augment_suite",
    "rand_augment",
]


def rand_augment(
    data: Any, n: int, m: int, num_magnitude_bins: int = 31, shape: Any = None, **options: Any
) -> DataNode:
    """Apply ``n`` random operations of magnitude ``m``, :class:`seqpipe.ops.RandAugment`.

    Args:
        data: uint8 images ``HWC`` or sequences ``FHWC``.
        n: number of operations.
        m: their magnitude, from 0 to ``num_magnitude_bins - 1``.
        num_magnitude_bins: number of magnitudes.
        shape: as in :func:`seqpipe.dali.auto_aug.core.policy`; likewise ``options``.
        options: ``fill_value``, ``interp_type``, ``max_translate_abs``, ``max_translate_rel``, ``seed``,
            ``excluded``, names of operations to leave out, and ``monotonic_mag``, which must be True.

    Raises:
        ParameterError: an argument is not valid.
    """
    check_counts("rand_augment", num_magnitude_bins, n, m)
    if not options.pop("monotonic_mag", True):
        raise ParameterError(
            "monotonic_mag=False is not available",
            source="rand_augment",
            allowed="True",
            advice="Give apply_rand_augment a list of augmentations with other ranges",
        )
    return policy(
        "rand_augment", data, shape=shape, n=n, m=m, num_magnitude_bins=num_magnitude_bins, **options
    )


def apply_rand_augment(
    augmentations: Seq[Augmentation],
    data: Any,
    n: int,
    m: int,
    num_magnitude_bins: int = 31,
    seed: int | None = None,
    **options: Any,
) -> Any:
    """Apply ``n`` random augmentations of magnitude ``m`` to each sample.

    Args:
        augmentations: the augmentations.
        data: node of the samples.
        n: number of augmentations of each sample.
        m: bin of their magnitude, from 0 to ``num_magnitude_bins - 1``.
        num_magnitude_bins: number of magnitudes.
        seed: seed of the choice and of the signs.
        options: further arguments of the augmentations, by name.

    Raises:
        ParameterError: an argument is not valid, or no augmentation has it.
    """
    call = "apply_rand_augment"
    check_counts(call, num_magnitude_bins, n, m)
    if not n:
        warnings.warn(
            "The `apply_rand_augment` was called with `n=0`, no augmentation will be applied.", stacklevel=2
        )
        return data
    if not augmentations:
        raise ParameterError("the `augmentations` list cannot be empty, unless n=0", source=call)
    forbid_unused_kwargs(augmentations, options, call)
    index = fn.random.uniform(
        values=list(range(len(augmentations))), seed=seed, shape=(n,), dtype=types.INT32
    )
    signs = any(augmentation.randomly_negate for augmentation in augmentations)
    bins: Any = signed_bin(m, seed=seed, shape=(n,)) if signs else m
    for step in range(n):
        chosen = bins[step] if signs else bins
        bins_of_step = {"magnitude_bin": chosen, "num_magnitude_bins": num_magnitude_bins}
        data = select(augmentations, index[step], data, **bins_of_step, **options)
    return data


def get_rand_augment_non_monotonic_suite(
    use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> list[Augmentation]:
    """Return augmentations whose strength is lowest at a middle magnitude, or falls, as in the code of AutoAugment."""
    color = MagnitudeRange(-0.9, 0.9)
    ranges = {**NARROW, **dict.fromkeys(("brightness", "contrast", "color", "sharpness"), color)}
    ranges |= {"posterize": MagnitudeRange(0.0, 4.0), "solarize": MagnitudeRange(0.0, 1.0)}
    return suite(ranges, use_shape, 100, 100 / 224, max_translate_abs, max_translate_rel)


def get_rand_augment_suite(
    use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> list[Augmentation]:
    """Return the augmentations of RandAugment; see :func:`seqpipe.dali.auto_aug.augmentations.suite`."""
    return suite(NARROW, use_shape, 100, 100 / 224, max_translate_abs, max_translate_rel)
