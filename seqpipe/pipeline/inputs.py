"""Input: the nodes that a graph begins with; and how many samples and frames there are in what it is called with."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from ..errors import ParameterError
from ..layout import frame_axis
from ..ops import DEFAULT_LAYOUTS, OF_CALLS, Called, DataNode, Named, Run
from ..sequence import Batch, Sequence

__all__ = ["BatchExtent", "Input", "extent_of", "leads_of"]

_BATCH: Final = 5  # axes of arrays that hold several samples without being told to


@dataclass(frozen=True, eq=False, repr=False)
class Input(DataNode):
    """A value that a graph is called with, by its name: an array, a list of such, a Sequence or a Batch.

    Attributes:
        name: of the argument; nodes of one name stand for one value.

    Raises:
        ParameterError: no argument can have that name.
    """

    name: str

    def __post_init__(self) -> None:
        name: Any = self.name
        if not (isinstance(name, str) and name.isidentifier()) or keyword.iskeyword(name) or name in OF_CALLS:
            raise ParameterError(
                f"name={name!r} is not valid",
                source="Input",
                allowed=f"a name that an argument can have, other than {', '.join(OF_CALLS)}",
            )

    @property
    def label(self) -> str:
        """Its name."""
        return self.name

    def written(self, name: Named) -> str:  # noqa: ARG002  there are no nodes in it
        """See :meth:`DataNode.written`."""
        return self.name

    def value(self, given: Seq[Any], run: Run) -> Any:  # noqa: ARG002  there is no way to make it
        """See :meth:`DataNode.value`; it is what the graph is called with.

        Raises:
            ParameterError: it is asked for without that.
        """
        raise ParameterError(
            f"{self.name} is an input of a graph", source="Input", allowed="values by the graph"
        )


class BatchExtent(NamedTuple):
    """How much a value holds.

    Attributes:
        samples: how many.
        frames: how many each has; None where they differ.
    """

    samples: int
    frames: int | None


def leads_of(nodes: Iterable[DataNode]) -> dict[str, str | None]:
    """The inputs that operators on images act on, and the layout that the first of these gives them."""
    found: dict[str, str | None] = {}
    for node in nodes:
        if (
            isinstance(node, Called)
            and node.given
            and node.maker.makers[0].traits.takes in ("images", "batches")
        ):
            first = node.given[0]
            if isinstance(first, Input):
                found.setdefault(first.name, node.options.get("layout"))
    return found


def extent_of(leads: Mapping[str, str | None], values: Mapping[str, Any], index: Any) -> BatchExtent:
    """How many samples and frames a graph is called with: what random numbers are drawn for.

    Inputs that operators on images act on tell, by their layout; where there are none, whatever can.

    Args:
        leads: those inputs, and their layouts.
        values: what the graph is called with.
        index: the samples' indices; where no input tells, there are as many samples.

    Raises:
        ParameterError: inputs differ in the number of samples.
    """
    # of few axes it is not known, where no operator says it, whether they are those of a sample
    telling = [name for name, value in values.items() if getattr(value, "ndim", _BATCH) >= _BATCH]
    layouts = leads or dict.fromkeys(telling)
    found = {name: extent for name, layout in layouts.items() if (extent := _extent(values[name], layout))}
    if len({extent.samples for extent in found.values()}) > 1:
        told = ", ".join(f"{name} has {extent.samples}" for name, extent in found.items())
        raise ParameterError(
            f"inputs of different numbers of samples: {told}", source="Graph", allowed="as many in each"
        )
    if not found:
        return BatchExtent(max(np.size(index), 1) if index is not None else 1, None)
    extents = [*found.values()]
    return BatchExtent(extents[0].samples, _common(extent.frames for extent in extents))


def _extent(value: Any, layout: str | None) -> BatchExtent | None:
    """How much a value holds; None where that cannot be told."""
    if isinstance(value, Batch):
        return BatchExtent(len(value), _common(len(one) for one in value))
    if isinstance(value, Sequence):
        return BatchExtent(1, len(value))
    if isinstance(value, (list, tuple)):
        each = [extent for one in value if (extent := _extent(one, layout))]
        return BatchExtent(len(value), _common(extent.frames for extent in each))
    shape: tuple[int, ...] = getattr(value, "shape", ())
    letters = layout or DEFAULT_LAYOUTS.get(len(shape), "")
    if len(letters) != len(shape) or not letters:
        return None
    frames = frame_axis(letters)
    return BatchExtent(shape[0] if letters[0] == "N" else 1, 1 if frames is None else shape[frames])


def _common(counts: Iterable[int | None]) -> int | None:
    """The one number that all are; None if they differ."""
    found = set(counts)
    return found.pop() if len(found) == 1 else None
