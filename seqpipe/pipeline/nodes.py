"""Nodes that stand for values of sources, and notes on errors that tell where they arose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from .inputs import Input
from .source import BatchSource, EndOfData
from .value import Value

__all__ = ["Fed", "add_note", "nodes_of", "noted"]

_NUMBERS: Final = count()


@dataclass(frozen=True, eq=False, repr=False)
class Fed(Input):
    """A value that a source gives for each batch.

    Attributes:
        name: one of its own within the process.
        source: the source.
        part: the number of the value among the source's.
        plain: whether it is a Batch, an array or a list of arrays, rather than a :class:`Value`.
        order: greater than those of nodes that were made before.
    """

    source: BatchSource
    part: int
    plain: bool = True
    order: int = 0

    @property
    def label(self) -> str:
        """The source and the part."""
        return f"{self.source.name}.{self.source.parts[self.part]}"

    def taken(self, values: tuple[Any, ...], *, images: bool = False) -> Any:
        """The value among those of the source; with a layout of images, a Batch.

        Args:
            values: of the source.
            images: whether operators act on it as on images, so that it has a layout though none was declared.
        """
        found = values[self.part]
        if not self.plain or not isinstance(found, Value):
            return found
        return found.as_images() if images or found.layout else found.data

    def written(self, name: Any) -> str:  # noqa: ARG002  there are no nodes in it
        """See :meth:`seqpipe.ops.DataNode.written`."""
        return self.label


def nodes_of(source: BatchSource, *, plain: bool = True) -> tuple[Fed, ...]:
    """A node for each value of a source."""
    first = next(_NUMBERS)
    return tuple(Fed(f"source{first}_{n}", source, n, plain, first) for n in range(len(source.parts)))


@contextmanager
def noted(note: str) -> Iterator[None]:
    """A context whose errors carry a note."""
    try:
        yield
    except EndOfData:
        raise
    except Exception as error:
        add_note(error, note)
        raise


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an error, as tracebacks show it from Python 3.11 on."""
    notes = [*getattr(error, "__notes__", ()), note]
    error.__notes__ = list(dict.fromkeys(notes))
