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


def check_counts(call: str, **counts: tuple[Any, int, int | None]) -> None:
    """Check whole numbers: for each name the value, the least and, unless None, the first that is too large.

    Raises:
        ParameterError: one is not valid.
    """
    for name, (value, least, end) in counts.items():
        if not isinstance(value, int) or value < least or (end is not None and value >= end):
            kind = "positive" if least else "non-negative"
            allowed = f"from `[{least}, {end - 1}]` range" if end is not None else f"a {kind} integer"
            what = "the magnitude bin `m` must be an integer" if end is not None else f"the `{name}` must be"
            raise ParameterError(f"{what} {allowed}, got {value}", source=call)
