"""``nvidia.dali.auto_aug.rand_augment``."""

from __future__ import annotations

from typing import Any

from ...errors import ParameterError
from ..data_node import DataNode
from .policies import applied, not_available

__all__ = ["rand_augment"]


def rand_augment(
    data: Any,
    n: int,
    m: int,
    num_magnitude_bins: int = 31,
    shape: Any = None,
    fill_value: float | None = 128,
    interp_type: Any = None,
    max_translate_abs: float | None = None,
    max_translate_rel: float | None = None,
    seed: int | None = None,
    monotonic_mag: bool = True,
    excluded: list[str] | None = None,
) -> DataNode:
    """Apply ``n`` random operations of magnitude ``m``: :class:`seqpipe.ops.RandAugment`.

    Args:
        data: uint8 images ``HWC`` or sequences ``FHWC``.
        n: number of operations.
        m: their magnitude, from 0 to ``num_magnitude_bins - 1``.
        num_magnitude_bins: number of magnitudes.
        shape: of the images; needed with ``max_translate_rel`` only.
        fill_value: of pixels from outside of the image; None repeats its edge.
        interp_type: filter of geometric operations; by default linear.
        max_translate_abs: greatest translation in pixels.
        max_translate_rel: greatest translation as a share of the sides.
        seed: of the draws.
        monotonic_mag: True; magnitudes that are not monotonic are those of another paper.
        excluded: names of operations to leave out.

    Raises:
        ParameterError: an argument is not valid.
    """
    if not monotonic_mag:
        raise ParameterError("monotonic_mag=False is not available", source="rand_augment", allowed="True")
    return applied(
        "rand_augment",
        data,
        shape,
        n=n,
        m=m,
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
    not_available("rand_augment", name)
