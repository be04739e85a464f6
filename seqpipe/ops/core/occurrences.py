"""Occurrences: independent random streams for operators of one name and one seed that are used together.

Sampled values depend on (seed, name, occurrence, epoch, index of the sample) alone. The occurrence counts the preceding
operators of equal name and seed: in a :class:`seqpipe.ops.Chain`, in the order of its operators; in a
:class:`seqpipe.pipeline.Graph`, in the order of its nodes, each after its operands, outputs in their order, and a
chain's operators within its node. A :class:`seqpipe.Dataset` counts over all operators of its ``map``, including those
that are fused with decoding.

The first occurrence uses the stream of the operator's name, as the operator does alone; the next ones use ``flip#1``,
``flip#2`` and so on. So appending an operator changes no other operator's values, and an operator with its own seed
affects none. To use the same numbers twice, pass one node of ``fn.random`` to both operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

__all__ = ["Occurrences"]


class Occurrences:
    """Counter of the operators of a chain or graph."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, int]] = Counter()

    def of(self, ops: Iterable[Any]) -> tuple[Any, ...]:
        """Return the next operators with their occurrences set; the same objects where nothing changes."""
        return tuple(op.with_occurrence(self._next(op)) if op.has_seed else op for op in ops)

    def _next(self, op: Any) -> int:
        key = op.name, op.seed
        self._seen[key] += 1
        return self._seen[key] - 1
