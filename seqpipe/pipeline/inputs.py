"""Input nodes of a graph, and the number of samples and frames in the values of inputs."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from ..array import DEFAULT_LAYOUTS, frame_axis
from ..errors import ParameterError
from ..ops import DataNode, Named, Run
from ..ops.core.deferred import DeferredCall
from ..ops.core.nodes import GRAPH_ARGUMENTS
from ..sequence import Batch, Sequence

__all__ = ["BatchExtent", "Input", "extent_of", "image_inputs"]

_BATCH: Final = 5  # arrays of this many axes are batches if no layout is given


@dataclass(frozen=True, eq=False, repr=False)
class Input(DataNode):
    """An argument of a graph: an array, a list of arrays, a Sequence or a Batch.

    Attributes:
        name: name of the argument; nodes of the same name stand for the same value.

    Raises:
        ParameterError: the name is not a valid name of an argument.
    """

    name: str

    def __post_init__(self) -> None:
        name: Any = self.name
        if (
            not (isinstance(name, str) and name.isidentifier())
            or keyword.iskeyword(name)
            or name in GRAPH_ARGUMENTS
        ):
            raise ParameterError(
                f"name={name!r} is not valid",
                source="Input",
                allowed=f"a name that an argument can have, other than {', '.join(GRAPH_ARGUMENTS)}",
            )

    @property
    def label(self) -> str:
        """The input's name."""
        return self.name

    def written(self, name: Named) -> str:  # noqa: ARG002  there are no nodes in it
        """See :meth:`DataNode.written`."""
        return self.name

    def value(self, operands: Seq[Any], run: Run) -> Any:  # noqa: ARG002  there is no way to make it
        """See :meth:`DataNode.value`; graphs replace inputs by their arguments, so this always raises.

        Raises:
            ParameterError: always.
        """
        raise ParameterError(
            f"{self.name} is an input of a graph", source="Input", allowed="values by the graph"
        )


class BatchExtent(NamedTuple):
    """Size of a value.

    Attributes:
        samples: number of samples.
        frames: number of frames of each sample; None if they differ.
    """

    samples: int
    frames: int | None


def image_inputs(nodes: Iterable[DataNode]) -> dict[str, str | None]:
    """Return the inputs that operators on images are applied to, and the layout that the first operator declares."""
    layouts: dict[str, str | None] = {}
    for node in nodes:
        if (
            isinstance(node, DeferredCall)
            and node.args
            and node.target.operators[0].traits.takes in ("images", "batches")
        ):
            first = node.args[0]
            if isinstance(first, Input):
                layouts.setdefault(first.name, node.options.get("layout"))
    return layouts


def extent_of(image_layouts: Mapping[str, str | None], values: Mapping[str, Any], index: Any) -> BatchExtent:
    """Return the number of samples and frames that random numbers are drawn for.

    Inputs of operators on images determine it by their layout; without such inputs, any input of known extent.
    """
    # without a layout, the axes of arrays with few axes may be those of a sample or of a batch
    known = [name for name, value in values.items() if getattr(value, "ndim", _BATCH) >= _BATCH]
    layouts = image_layouts or dict.fromkeys(known)
    extents_by_name = {
        name: extent for name, layout in layouts.items() if (extent := _extent(values[name], layout))
    }
    if len({extent.samples for extent in extents_by_name.values()}) > 1:
        counts = ", ".join(f"{name} has {extent.samples}" for name, extent in extents_by_name.items())
        raise ParameterError(
            f"inputs of different numbers of samples: {counts}", source="Graph", allowed="as many in each"
        )
    if not extents_by_name:
        return BatchExtent(max(np.size(index), 1) if index is not None else 1, None)
    extents = [*extents_by_name.values()]
    return BatchExtent(extents[0].samples, _common(extent.frames for extent in extents))


def _extent(value: Any, layout: str | None) -> BatchExtent | None:
    """Return the size of a value, or None if it is unknown."""
    if isinstance(value, Batch):
        return BatchExtent(len(value), _common(len(samples) for samples in value))
    if isinstance(value, Sequence):
        return BatchExtent(1, len(value))
    if isinstance(value, (list, tuple)):
        each = [extent for operand in value if (extent := _extent(operand, layout))]
        return BatchExtent(len(value), _common(extent.frames for extent in each))
    shape: tuple[int, ...] = getattr(value, "shape", ())
    letters = layout or DEFAULT_LAYOUTS.get(len(shape), "")
    if len(letters) != len(shape) or not letters:
        return None
    frames = frame_axis(letters)
    return BatchExtent(shape[0] if letters[0] == "N" else 1, 1 if frames is None else shape[frames])


def _common(counts: Iterable[int | None]) -> int | None:
    """Return the number that all counts are equal to, or None."""
    unique = set(counts)
    return unique.pop() if len(unique) == 1 else None
