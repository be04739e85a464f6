"""Sampling of operators' parameters for samples that are not decoded yet, without computing pixels."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from itertools import takewhile
from typing import Any, NamedTuple

from ..call.dispatch import BoundCall, indices_of
from ..call.inputs import check
from ..call.op import Op
from ..core.blocks import resolve
from ..core.sampling import alike
from ..core.spec import Spec
from ..geometry.base import Geometry
from ..geometry.mapping import Mapping
from .chain import Chain
from .fused import result_specs

__all__ = ["Planned", "leading", "planned"]


class Planned(NamedTuple):
    """An operator with its sampled parameters.

    Attributes:
        op: the operator.
        specs: the samples that it gets.
        mappings: for each sample, the mapping from its result to its input; empty if the operator moves no pixels.
    """

    op: Op
    specs: list[Spec]
    mappings: list[Mapping]


def planned(ops: Seq[Op], specs: Seq[Spec], epoch: int, index: Any) -> list[Planned]:
    """Sample the parameters of consecutive operators for some samples.

    The parameters are those that the operators sample when they are called with such samples, for the same epoch and
    indices; each is one for all frames of a sample.
    """
    result = []
    current = list(specs)
    for op in ops:
        for spec in dict.fromkeys(current):
            check(op, spec)
        call = BoundCall(op, (), current, resolve(op, current, epoch, indices_of(op, index, len(current))))
        result.append(Planned(op, current, _mappings(call)))
        current = result_specs(call)
    return result


def _mappings(call: BoundCall) -> list[Mapping]:
    op, block, specs = call.op, call.block, call.specs
    if not isinstance(op, Geometry):
        return []
    if block.constant is not None:
        return op.mappings(block.rows, specs[0]).each() * len(specs)
    if alike(specs) and not block.step:
        return op.mappings(block.of_all(0, len(specs), specs[0].frames), specs[0]).each()
    return [
        op.mappings(block.of(sample, spec.frames)[:1], spec).each()[0] for sample, spec in enumerate(specs)
    ]


def leading(chain: Chain) -> tuple[Op, ...]:
    """Return the operators on images at the start of a chain, up to the first composed mapping."""
    return tuple(takewhile(lambda part: isinstance(part, Op), chain.passes()))
