"""Nodes for the values of sources, and notes on errors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from .inputs import Input
from .source import BatchSource

__all__ = ["SourceNode", "add_note", "nodes_of"]

_NUMBERS: Final = count()


@dataclass(frozen=True, eq=False, repr=False)
class SourceNode(Input):
    """A value of a source, for each batch.

    Attributes:
        name: a name that is unique in the process.
        source: the source.
        part: number of the value among the source's.
        order: number of the source in the order of creation.
    """

    source: BatchSource
    part: int
    order: int = 0

    @property
    def label(self) -> str:
        """The source and the part."""
        return f"{self.source.name}.{self.source.parts[self.part]}"

    def written(self, name: Any) -> str:  # noqa: ARG002  it refers to no other nodes
        """See :meth:`seqpipe.ops.DataNode.written`."""
        return self.label


def nodes_of(source: BatchSource) -> tuple[SourceNode, ...]:
    """Return a node for each value of a source."""
    first = next(_NUMBERS)
    return tuple(SourceNode(f"source{first}_{n}", source, n, first) for n in range(len(source.parts)))


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an error, once; tracebacks show notes since Python 3.11."""
    notes = [*getattr(error, "__notes__", ()), note]
    error.__notes__ = list(dict.fromkeys(notes))
