"""Occurrences: operators of one name and one seed that are used together draw apart.

A draw depends on (seed, name, occurrence, epoch, index of the sample), and on nothing else. The occurrence counts the
operators of equal name and seed before this one, in the order of what they are used in: of a
:class:`seqpipe.ops.Chain`, its operators; of a :class:`seqpipe.pipeline.Graph`, its nodes, each after those that it is
made of, outputs in their order, and within a node that calls a chain the operators of that. A
:class:`seqpipe.pipeline.Augmented` has the occurrences of its chain, whatever the reader's conversion does of it.

The first occurrence draws by the operator's name, as the operator does when it is called by itself; the next ones by
``flip#1``, ``flip#2`` and so on. So an operator that is put behind others changes none of their draws, and one with a
seed of its own changes nobody's. To draw the same numbers twice, give one node of ``fn.random`` to both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

__all__ = ["Occurrences"]


class Occurrences:
    """Counts the operators of what they are used in."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, int]] = Counter()

    def of(self, ops: Iterable[Any]) -> tuple[Any, ...]:
        """The next operators, each as it occurs: the same object where that is how it draws already."""
        return tuple(op.occurring(self._next(op)) if op.draws else op for op in ops)

    def _next(self, op: Any) -> int:
        place = op.name, op.seed
        self._seen[place] += 1
        return self._seen[place] - 1
