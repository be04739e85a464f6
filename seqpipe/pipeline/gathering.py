"""Gathering: a pass over a graph that chooses how the batches of external sources are copied.

A source's batches are copied once, since its code may reuse its memory. If they are only used on a GPU, they are copied
into page-locked memory, from which uploads are asynchronous. If only a crop of them is used, only the crop is
copied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy.typing as npt

from ..errors import ParameterError
from ..layout import LAYOUTS
from ..ops import DEFAULT_LAYOUTS, DataNode
from ..ops.call.dispatch import window_taken
from ..ops.core.declaration import Declaration
from .graph import Graph
from .nodes import Fed
from .staging import Gathered, Staging
from .value import Value

__all__ = ["Gathering", "Gathers", "plan_gathering"]


@dataclass(eq=False)
class Gathering:
    """Copies the batches of one value of a source.

    Attributes:
        memory: the memory that they are copied into.
        crop: an operator whose crop is their only use; None to copy whole samples.
    """

    memory: Staging = field(default_factory=Staging)
    crop: Declaration | None = None
    _windows: dict[Any, tuple[slice, ...] | None] = field(default_factory=dict, init=False)

    def __call__(self, value: Value, *, copied: bool = True) -> Value:
        """Copy a batch, or only its crop; samples of one shape become one array.

        Args:
            value: the batch; a batch on a GPU is returned unchanged.
            copied: whether the source may reuse its memory, so that arrays that stay in main memory are copied, too.
        """
        if value.on_gpu:
            return value
        windows = [self._window(part, value.layout) for part in (value.data[:1] if value.dense else value)]
        cut = None if None in windows else self.crop
        if value.dense:
            window = windows[0] or ()
            if not copied and self.memory.device is None:
                data = value.data[(slice(None), *window)]
            else:
                data = self.memory.gather(value.data, window)
            return value.gathered_as(data, Gathered(self.memory, cut))
        parts = [part[window or ()] for part, window in zip(value, windows, strict=True)]
        if len({part.shape for part in parts}) == 1 and (cut is not None or not any(windows)):
            return value.gathered_as(self.memory.gather(parts), Gathered(self.memory, cut))
        return value.with_data([part.copy() for part in value] if copied else list(value))

    def _window(self, sample: npt.NDArray[Any], layout: str) -> tuple[slice, ...] | None:
        """Return the part of a sample that the crop uses; None if the whole sample may be needed."""
        if self.crop is None:
            return None
        place = sample.shape, sample.dtype, layout
        if place not in self._windows:
            self._windows[place] = _window_of(self.crop, sample, layout)
        return self._windows[place]

    def told(self) -> str:
        """Describe the copies, as a clause."""
        what = "whole samples" if self.crop is None else f"what {self.crop!r} takes of samples"
        where = (
            "main memory"
            if self.memory.device is None
            else f"page-locked memory for cuda:{self.memory.device}"
        )
        return f"{what}, gathered in {where}"


@runtime_checkable
class Gathers(Protocol):
    """A source whose batches are copied by :class:`Gathering`.

    Attributes:
        gatherings: one for each of its values.
    """

    gatherings: list[Gathering]


def _window_of(op: Declaration, sample: npt.NDArray[Any], layout: str) -> tuple[slice, ...] | None:
    """Return the part of a sample that an operator crops, if cropping that part again returns all of it.

    None for another operator, or if it refuses the sample; the error is then raised when the graph runs.
    """
    letters = layout or DEFAULT_LAYOUTS.get(sample.ndim, "")
    if letters not in LAYOUTS or letters.startswith("N"):
        return None
    try:
        window = window_taken(op, sample.shape, sample.dtype, letters)
        if window is None:
            return None
        shape = tuple(len(range(length)[part]) for part, length in zip(window, sample.shape, strict=True))
        again = window_taken(op, shape, sample.dtype, letters)
    except ParameterError:
        return None
    whole = tuple(slice(0, length) for length in shape)
    return window if again is not None and all(map(_alike, again, whole, shape)) else None


def _alike(one: slice, other: slice, length: int) -> bool:
    return one.indices(length) == other.indices(length)


def plan_gathering(graph: Graph, device: int | None = None) -> tuple[str, ...]:
    """Set how the external sources of a graph copy their batches.

    Args:
        graph: the graph; its nodes are unchanged, as cropping a crop again has no effect.
        device: number of the GPU that its nodes upload to.

    Returns:
        A sentence for each value that is cropped or copied to page-locked memory.
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


def _use_of(graph: Graph, node: DataNode) -> tuple[bool, Declaration | None]:
    """Return whether a value is used only on a GPU, and the operator whose crop is its only use."""
    uploaded = False
    while True:
        users = graph.users(node)
        user = users[0] if len(users) == 1 else None
        if user is None:
            return uploaded, None
        if not user.passes:
            crop = user.applies
            return uploaded, crop if crop is not None and crop.is_constant else None
        uploaded = uploaded or getattr(user, "device", "cpu") == "gpu"
        node = user
