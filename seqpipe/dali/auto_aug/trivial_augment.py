"""``nvidia.dali.auto_aug.trivial_augment``."""

from __future__ import annotations

from typing import Any

from ..data_node import DataNode
from .policies import applied, not_available

__all__ = ["trivial_augment_wide"]


def trivial_augment_wide(
    data: Any,
    num_magnitude_bins: int = 31,
    shape: Any = None,
    fill_value: float | None = 128,
    interp_type: Any = None,
    max_translate_abs: float | None = None,
    max_translate_rel: float | None = None,
    seed: int | None = None,
    excluded: list[str] | None = None,
) -> DataNode:
    """Apply one random operation of a random magnitude: :class:`seqpipe.ops.TrivialAugmentWide`.

    Args:
        data: uint8 images ``HWC`` or sequences ``FHWC``.
        num_magnitude_bins: number of magnitudes.
        shape: of the images; needed with ``max_translate_rel`` only.
        fill_value: of pixels from outside of the image; None repeats its edge.
        interp_type: filter of geometric operations; by default linear.
        max_translate_abs: greatest translation in pixels.
        max_translate_rel: greatest translation as a share of the sides.
        seed: of the draws.
        excluded: names of operations to leave out.

    Raises:
        ParameterError: an argument is not valid.
    """
    return applied(
        "trivial_augment_wide",
        data,
        shape,
        num_magnitude_bins=num_magnitude_bins,
        fill_value=fill_value,
        interp_type=interp_type,
        max_translate_abs=max_translate_abs,
        max_translate_rel=max_translate_rel,
        seed=seed,
        excluded=excluded,
    )


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    not_available("trivial_augment", name)
