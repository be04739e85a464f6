"""Calls of seqpipe's operators for the published policies, and their magnitudes for policies of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import ParameterError
from ...ops.policies.published import MagnitudeRange
from ..call import DaliCall, Row, call_operator, native
from ..data_node import DataNode
from . import augmentations
from .core import Augmentation

__all__ = ["check_counts", "policy", "suite"]


def policy(
    name: str,
    data: Any,
    *,
    shape: Any = None,
    fill_value: float | None = 128,
    max_translate_rel: float | None = None,
    **options: Any,
) -> DataNode:
    """Return the node of a policy.

    Args:
        name: name of the operator.
        data: uint8 images ``HWC`` or sequences ``FHWC``.
        shape: shape of the images; required with ``max_translate_rel``, and otherwise without effect.
        fill_value: value of pixels outside of the image; None repeats its edge.
        max_translate_rel: maximum translation as a share of the sides.
        options: further arguments of the operator: ``interp_type``, ``max_translate_abs`` in pixels, ``seed``, and
            those of one policy alone.

    Raises:
        ParameterError: an argument is unknown or not valid.
    """
    if shape is None and max_translate_rel is not None:
        raise ParameterError("max_translate_rel without a shape", source=name, allowed="shape=images.shape()")

    def build(call: DaliCall) -> Any:
        return native(call, fill_value=fill_value)

    node: DataNode = call_operator(
        Row(name, build=build), (data,), {"max_translate_rel": max_translate_rel, **options}
    )
    return node


def suite(
    ranges: Mapping[str, MagnitudeRange],
    use_shape: bool,
    default_abs: float,
    default_rel: float,
    max_translate_abs: Any = None,
    max_translate_rel: Any = None,
) -> list[Augmentation]:
    """Return DALI's augmentations with the published magnitudes, by their names.

    Args:
        ranges: the magnitudes of each step.
        use_shape: whether translations are shares of the image's sides; for the other arguments see
            :func:`seqpipe.dali.auto_aug.augmentations.translations`.
        default_abs: largest translation in pixels by default.
        default_rel: largest translation as a share by default.
        max_translate_abs: largest translation in pixels.
        max_translate_rel: largest translation as a share.
    """
    made = augmentations.translations(
        use_shape, default_abs, default_rel, max_translate_abs, max_translate_rel
    )
    for name, (first, last, signed) in ranges.items():
        one: Augmentation = getattr(augmentations, name)
        if name.startswith("translate"):
            continue
        if one.mag_range is None:
            made.append(one)
            continue
        full = 256 if name == "solarize" else 1
        made.append(one.augmentation((first * full, last * full), signed))
    return made


def check_counts(call: str, num_magnitude_bins: Any, n: Any = 1, m: Any = 0) -> None:
    """Check the number of magnitudes, that of augmentations of a sample, and the bin of their magnitude.

    Raises:
        ParameterError: one is not valid.
    """
    fact = ""
    if not isinstance(n, int) or n < 0:
        fact = f"the number of operations to apply `n` must be a non-negative integer, got {n}"
    elif not isinstance(num_magnitude_bins, int) or num_magnitude_bins < 1:
        fact = f"the `num_magnitude_bins` must be a positive integer, got {num_magnitude_bins}"
    elif not isinstance(m, int) or not 0 <= m < num_magnitude_bins:
        fact = f"the magnitude bin `m` must be an integer from `[0, {num_magnitude_bins - 1}]` range. Got {m}"
    if fact:
        raise ParameterError(fact, source=call)
