"""Host copies: a pass over a graph that chooses how the batches of external sources are copied.

A source's batches are copied once, since its code may reuse its memory. If they are only used on a GPU, they are copied
into page-locked memory, from which uploads are asynchronous. If only a crop of them is read, only the crop is copied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ...array import DEFAULT_LAYOUTS, LAYOUTS
from ...errors import ParameterError
from ...ops import DataNode
from ...ops.call.op import BoundCall
from ...ops.geometry.base import Geometry, PartRead
from ...pipeline.graph import Graph
from ...pipeline.source import SourceNode
from ..value import Value
from .staging import Copied, Staging

__all__ = ["HostCopy", "HostCopySource", "plan_copies"]


class _ReadWindow(NamedTuple):
    """The part of a sample that is needed.

    Attributes:
        window: the part, as an index.
        done: whether it is all that the operator makes of the sample.
    """

    window: tuple[slice, ...]
    done: bool


@dataclass(eq=False)
class HostCopy:
    """Copies the batches of one value of a source.

    Attributes:
        memory: the memory that they are copied into.
        crop: the operator that reads them, and perhaps only a crop of them; None to copy whole samples.
    """

    memory: Staging = field(default_factory=Staging)
    crop: Geometry | None = None
    _windows: dict[Any, _ReadWindow | None] = field(default_factory=dict, init=False)

    def __call__(self, value: Value, *, copied: bool = True) -> Value:
        """Copy a batch, or only its crop; samples of one shape become one array."""
        if value.on_gpu:
            return value
        read = [self._window(part, value.layout) for part in (value.data[:1] if value.dense else value)]
        windows = [() if array is None else array.window for array in read]
        done = all(item is not None and item.done for item in read)
        made = Copied(self.memory, self.crop if done else None)
        if value.dense:
            if not copied and self.memory.device is None:
                data = value.data[(slice(None), *windows[0])]
            else:
                data = self.memory.copy(value.data, windows[0])
            return value.copied_as(data, made)
        parts = [part[window] for part, window in zip(value, windows, strict=True)]
        if len({part.shape for part in parts}) == 1 and (None not in read or not any(read)):
            return value.copied_as(self.memory.copy(parts), made)
        return value.with_data([part.copy() for part in value] if copied else list(value))

    def _window(self, sample: npt.NDArray[Any], layout: str) -> _ReadWindow | None:
        """Return the crop of samples of this shape; None if the whole sample may be needed."""
        if self.crop is None:
            return None
        key = sample.shape, sample.dtype, layout
        if key not in self._windows:
            self._windows[key] = _window_of(self.crop, sample, layout)
        return self._windows[key]

    def described(self) -> str:
        """Describe the copies, as a clause."""
        what = "whole samples" if self.crop is None else f"what {self.crop!r} reads of samples"
        where = (
            "main memory"
            if self.memory.device is None
            else f"page-locked memory for cuda:{self.memory.device}"
        )
        return f"{what}, copied to {where}"


@runtime_checkable
class HostCopySource(Protocol):
    """A source whose batches are copied by :class:`HostCopy`.

    Attributes:
        host_copies: one for each of its values.
    """

    host_copies: list[HostCopy]


def _window_of(op: Geometry, sample: npt.NDArray[Any], layout: str) -> _ReadWindow | None:
    """Return the part of a sample that an operator reads, if the result from that part alone is the same.

    None otherwise, or if the operator refuses the sample; the error is then raised when the graph runs.
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
    return _ReadWindow(window, bool(done and (part.matrix == np.eye(3)).all()))


def _read(
    op: Geometry, shape: tuple[int, ...], dtype: np.dtype[Any], layout: str
) -> tuple[tuple[slice, ...], PartRead] | None:
    """Return the part of an array that an operator reads, as an index and in rows and columns; None for all of it."""
    call = BoundCall.of(op, (np.broadcast_to(np.zeros((), dtype), shape),), layout, 0, None)
    (operand,) = call.parts
    part = op.part_read(call.block.of_all(0, operand.samples, operand.spec.frames), operand.spec)
    return None if part is None else (operand.view.window(part.rows, part.columns), part)


def plan_copies(graph: Graph, prefetch: int, device: int | None = None) -> tuple[str, ...]:
    """Set how the external sources of a graph copy their batches.

    Args:
        graph: the graph; its nodes are unchanged, as their results from the crop are the same.
        prefetch: number of batches that are prepared ahead.
        device: number of the GPU that its nodes upload to.

    Returns:
        A sentence for each value that is cropped or copied to page-locked memory.
    """
    sentences = []
    for node in graph.input_nodes:
        if isinstance(node, SourceNode) and isinstance(node.source, HostCopySource):
            uploaded, crop = _use_of(graph, node)
            copy = HostCopy(Staging(device if uploaded else None, prefetch), crop)
            node.source.host_copies[node.part] = copy
            if uploaded or crop is not None:
                sentences.append(f"{node.label}: {copy.described()}")
    return tuple(sentences)


def _use_of(graph: Graph, node: DataNode) -> tuple[bool, Geometry | None]:
    """Return whether a value is used only on a GPU, and the operator that is its only reader."""
    uploaded = False
    while True:
        users = graph.users(node)
        user = users[0] if len(users) == 1 else None
        if user is None:
            return uploaded, None
        if not user.is_passthrough:
            crop = user.applies if user.operands[0] is node else None
            return uploaded, crop if isinstance(crop, Geometry) and crop.is_constant else None
        uploaded = uploaded or getattr(user, "device", "cpu") == "gpu"
        node = user
