"""Gathering: a pass over a graph that finds out how the batches of external sources are best copied.

A source's batches are copied once, since its code may use its memory again. Where a GPU is the only place that they go
to, the copy is into page-locked memory, from which uploads do not hold up anybody. Where a crop is all that is read of
them, only the crop is copied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ..errors import ParameterError
from ..layout import LAYOUTS
from ..ops import DEFAULT_LAYOUTS, DataNode
from ..ops.call.dispatch import BoundCall
from ..ops.geometry.base import Geometry, PartRead
from .graph import Graph
from .nodes import Fed
from .staging import Gathered, Staging
from .value import Value

__all__ = ["Gathering", "Gathers", "plan_gathering"]


class _Cut(NamedTuple):
    """The part of a sample that is needed.

    Attributes:
        window: the part, as an index.
        done: whether it is all that the operator makes of the sample.
    """

    window: tuple[slice, ...]
    done: bool


@dataclass(eq=False)
class Gathering:
    """How the batches of one value of a source are copied.

    Attributes:
        memory: what they are copied into.
        crop: the operator that reads them, and perhaps no more than a crop; None for copies of whole samples.
    """

    memory: Staging = field(default_factory=Staging)
    crop: Geometry | None = None
    _cuts: dict[Any, _Cut | None] = field(default_factory=dict, init=False)

    def __call__(self, value: Value, *, copied: bool = True) -> Value:
        """Copy a batch, or only its crop; samples of one shape become one array.

        Args:
            value: the batch; one on a GPU is given back as it is.
            copied: whether the source may use its memory again, so that an array that stays in main memory is copied.
        """
        if value.on_gpu:
            return value
        cuts = [self._cut(part, value.layout) for part in (value.data[:1] if value.dense else value)]
        windows = [() if one is None else one.window for one in cuts]
        done = all(one is not None and one.done for one in cuts)
        gathered = Gathered(self.memory, self.crop if done else None)
        if value.dense:
            if not copied and self.memory.device is None:
                data = value.data[(slice(None), *windows[0])]
            else:
                data = self.memory.gather(value.data, windows[0])
            return value.gathered_as(data, gathered)
        parts = [part[window] for part, window in zip(value, windows, strict=True)]
        if len({part.shape for part in parts}) == 1 and (None not in cuts or not any(cuts)):
            return value.gathered_as(self.memory.gather(parts), gathered)
        return value.with_data([part.copy() for part in value] if copied else list(value))

    def _cut(self, sample: npt.NDArray[Any], layout: str) -> _Cut | None:
        """What is known of a sample of this shape; None if all of it may be needed."""
        if self.crop is None:
            return None
        place = sample.shape, sample.dtype, layout
        if place not in self._cuts:
            self._cuts[place] = _cut_of(self.crop, sample, layout)
        return self._cuts[place]

    def told(self) -> str:
        """What is done, as a clause."""
        what = "whole samples" if self.crop is None else f"what {self.crop!r} reads of samples"
        where = (
            "main memory"
            if self.memory.device is None
            else f"page-locked memory for cuda:{self.memory.device}"
        )
        return f"{what}, gathered in {where}"


@runtime_checkable
class Gathers(Protocol):
    """A source that copies its batches.

    Attributes:
        gatherings: how, for each of its values.
    """

    gatherings: list[Gathering]


def _cut_of(op: Geometry, sample: npt.NDArray[Any], layout: str) -> _Cut | None:
    """The part of a sample that an operator reads, if it makes the same of that part alone.

    None if it does not; or if it refuses the sample, which it does again where it stands.
    """
    letters = layout or DEFAULT_LAYOUTS.get(sample.ndim, "")
    if letters not in LAYOUTS or letters.startswith("N"):
        return None
    try:
        whole = _read(op, sample.shape, sample.dtype, letters)
        if whole is None:
            return None
        window, part = whole
        shape = tuple(len(range(length)[cut]) for cut, length in zip(window, sample.shape, strict=True))
        again = _read(op, shape, sample.dtype, letters)
    except ParameterError:
        return None
    if again is None or (again[1].matrix != part.matrix).any():
        return None
    height, width = part.rows.stop - part.rows.start, part.columns.stop - part.columns.start
    if (again[1].rows, again[1].columns) != (slice(0, height), slice(0, width)):
        return None
    text = op.traits.body is not None and op.traits.body.text
    done = not text and op.result_dtype(sample.dtype.name) == sample.dtype.name
    return _Cut(window, bool(done and (part.matrix == np.eye(3)).all()))


def _read(
    op: Geometry, shape: tuple[int, ...], dtype: np.dtype[Any], layout: str
) -> tuple[tuple[slice, ...], PartRead] | None:
    """The part that an operator reads of an array, as an index of the array too."""
    call = BoundCall.of(op, (np.broadcast_to(np.zeros((), dtype), shape),), layout, 0, None)
    (given,) = call.parts
    part = op.part_read(call.block.of_all(0, given.samples, given.spec.frames), given.spec)
    return None if part is None else (given.view.window(part.rows, part.columns), part)


def plan_gathering(graph: Graph, device: int | None = None) -> tuple[str, ...]:
    """Tell the external sources of a graph how to copy their batches.

    Args:
        graph: the graph; its nodes stay as they are, for they make the same of what was cropped before.
        device: number of the GPU that its nodes move values to.

    Returns:
        For each value whose copies are not plain, a sentence.
    """
    told = []
    for node in graph.input_nodes:
        if isinstance(node, Fed) and isinstance(node.source, Gathers):
            uploaded, crop = _use_of(graph, node)
            made = Gathering(Staging(device if uploaded else None), crop)
            node.source.gatherings[node.part] = made
            if uploaded or crop is not None:
                told.append(f"{node.label}: {made.told()}")
    return tuple(told)


def _use_of(graph: Graph, node: DataNode) -> tuple[bool, Geometry | None]:
    """Whether a value is needed on a GPU alone, and the operator whose crop is all that is made of it."""
    uploaded = False
    while True:
        users = graph.users(node)
        user = users[0] if len(users) == 1 else None
        if user is None:
            return uploaded, None
        if not user.passes:
            crop = user.applies if user.operands[0] is node else None
            return uploaded, crop if isinstance(crop, Geometry) and crop.is_constant else None
        uploaded = uploaded or getattr(user, "device", "cpu") == "gpu"
        node = user
