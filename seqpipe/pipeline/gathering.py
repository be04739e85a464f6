"""Gathering: a pass over a graph that finds out how the batches of external sources are best copied.

A source's batches are copied once, since its code may use its memory again. Where a GPU is the only place that they go
to, the copy is into page-locked memory, from which uploads do not hold up anybody. Where a crop is all that is made of
them, only the crop is copied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy.typing as npt

from ..errors import ParameterError
from ..layout import LAYOUTS
from ..ops import DEFAULT_LAYOUTS, DataNode
from ..ops.call.dispatch import constant_window
from ..ops.core.declaration import Declaration
from .graph import Graph
from .nodes import Fed
from .staging import Gathered, Staging
from .value import Value

__all__ = ["Gathering", "Gathers", "plan_gathering"]


@dataclass(eq=False)
class Gathering:
    """How the batches of one value of a source are copied.

    Attributes:
        memory: what they are copied into.
        crop: an operator whose crop is all that is made of them; None for copies of whole samples.
    """

    memory: Staging = field(default_factory=Staging)
    crop: Declaration | None = None
    _windows: dict[Any, tuple[slice, ...] | None] = field(default_factory=dict, init=False)

    def __call__(self, value: Value, *, copied: bool = True) -> Value:
        """Copy a batch, or only its crop; samples of one shape become one array.

        Args:
            value: the batch; one on a GPU is given back as it is.
            copied: whether the source may use its memory again, so that an array that stays in main memory is copied.
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
        """The part of a sample that the crop is; None if it is not known to be all that is made of the sample."""
        if self.crop is None:
            return None
        place = sample.shape, sample.dtype, layout
        if place not in self._windows:
            self._windows[place] = _window_of(self.crop, sample, layout)
        return self._windows[place]

    def told(self) -> str:
        """What is done, as a clause."""
        what = "whole samples" if self.crop is None else f"what {self.crop!r} takes of samples"
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


def _window_of(op: Declaration, sample: npt.NDArray[Any], layout: str) -> tuple[slice, ...] | None:
    """The part of a sample that an operator gives, if it gives all of that part when it is applied to it once more.

    None if it is another one, or if it refuses the sample, which it does again where it stands.
    """
    letters = layout or DEFAULT_LAYOUTS.get(sample.ndim, "")
    if letters not in LAYOUTS or letters.startswith("N"):
        return None
    try:
        window = constant_window(op, sample.shape, sample.dtype, letters)
        if window is None:
            return None
        shape = tuple(len(range(length)[part]) for part, length in zip(window, sample.shape, strict=True))
        again = constant_window(op, shape, sample.dtype, letters)
    except ParameterError:
        return None
    whole = tuple(slice(0, length) for length in shape)
    return window if again is not None and all(map(_alike, again, whole, shape)) else None


def _alike(one: slice, other: slice, length: int) -> bool:
    return one.indices(length) == other.indices(length)


def plan_gathering(graph: Graph, device: int | None = None) -> tuple[str, ...]:
    """Tell the external sources of a graph how to copy their batches.

    Args:
        graph: the graph; its nodes stay as they are, for a crop of what was cropped gives the same.
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


def _use_of(graph: Graph, node: DataNode) -> tuple[bool, Declaration | None]:
    """Whether a value is needed on a GPU alone, and the operator whose crop is all that is made of it."""
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
