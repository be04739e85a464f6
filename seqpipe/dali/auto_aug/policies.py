"""Calls of the policies among our operators, and the error for the parts of DALI's module that are not available."""

from __future__ import annotations

from typing import Any, NoReturn

from ...errors import ParameterError
from ..call import Row, called, native
from ..data_node import DataNode

__all__ = ["applied", "not_available"]


def applied(name: str, data: Any, shape: Any, **arguments: Any) -> DataNode:
    """The node of a policy.

    Args:
        name: of the operator.
        data: images or sequences, uint8.
        shape: of the images; it decides only whether translations are relative, as ours look at the images themselves.
        arguments: of the operator; None stands for its default.

    Raises:
        ParameterError: an argument is not valid, or both translations are given.
    """
    if shape is None and arguments["max_translate_rel"] is not None:
        raise ParameterError("max_translate_rel without a shape", source=name, allowed="shape=images.shape()")
    fill = arguments.pop("fill_value")
    row = Row(name, build=lambda call: native(call, fill_value=fill))
    made: DataNode = called(row, (data,), arguments)
    return made


def not_available(module: str, name: str) -> NoReturn:
    """Refuse what builds policies of one's own.

    Raises:
        AttributeError: always, with what to do instead.
    """
    raise AttributeError(
        f"module 'seqpipe.dali.auto_aug.{module}' has no {name!r}: policies of one's own are not available. "
        "Write them with enable_conditionals=True and `if`, or as seqpipe.ops.OneOf and SomeOf"
    )
