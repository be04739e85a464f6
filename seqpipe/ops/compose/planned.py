"""What operators are about to do to samples that are not there yet: their parameters, drawn; nothing is computed."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from itertools import takewhile
from typing import Any, NamedTuple

from ..call.dispatch import BoundCall, indices_of
from ..call.inputs import check
from ..call.op import Op
from ..core.blocks import resolve
from ..core.spec import Spec
from ..geometry.base import Geometry
from ..geometry.mapping import Mapping
from .chain import Chain
from .fused import after

__all__ = ["Planned", "leading", "planned"]


class Planned(NamedTuple):
    """What one operator is about to do.

    Attributes:
        op: the operator.
        specs: the samples that it will be given.
        mappings: for each of them, where the pixels of its result come from; empty of what moves none.
    """

    op: Op
    specs: list[Spec]
    mappings: list[Mapping]


def planned(ops: Seq[Op], specs: Seq[Spec], epoch: int, index: Any) -> list[Planned]:
    """What each of some operators, one after the other, is about to do to some samples.

    The parameters are those that the operators draw when they are called with such samples, for the same epoch and
    indices; each is one for all frames of a sample.

    Args:
        ops: the operators.
        specs: the samples that the first one will be given.
        epoch: the epoch that draws are for.
        index: the samples' indices, or that of the first.

    Raises:
        ParameterError: one of the operators does not take what it would be given.
    """
    found = []
    given = list(specs)
    for op in ops:
        for spec in dict.fromkeys(given):
            check(op, spec)
        call = BoundCall(op, (), given, resolve(op, given, epoch, indices_of(op, index, len(given))))
        found.append(Planned(op, given, _mappings(call)))
        given = after(call)
    return found


def _mappings(call: BoundCall) -> list[Mapping]:
    op, block = call.op, call.block
    if not isinstance(op, Geometry):
        return []
    return [
        op.mappings(block.of(sample, spec.frames)[:1], spec).each()[0]
        for sample, spec in enumerate(call.specs)
    ]


def leading(chain: Chain) -> tuple[Op, ...]:
    """The operators on images at the head of a chain, up to one that is one mapping together with what follows it."""
    return tuple(takewhile(lambda part: isinstance(part, Op), chain.passes()))
