"""Calls of seqpipe's operators for the published policies, and the error for the other names of DALI's modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import ParameterError
from ..call import DaliCall, Row, call_operator, native
from ..data_node import DataNode

__all__ = ["policy", "unavailable"]


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


def unavailable(module: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module, which raises an error with the alternative to one's own policies."""

    def get_attribute(name: str) -> Any:
        raise AttributeError(
            f"module 'seqpipe.dali.auto_aug.{module}' has no {name!r}: policies of one's own are not available. "
            "Write them with enable_conditionals=True and `if`, or as seqpipe.ops.OneOf and SomeOf"
        )

    return get_attribute
