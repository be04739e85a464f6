"""Value: a batch of arrays of any axes and kinds, with the layout of a sample; what sources of a pipeline give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..array import Array, as_native, device_of, namespace, to_cupy, to_numpy
from ..errors import ParameterError
from ..layout import LAYOUTS
from ..ops import DEFAULT_LAYOUTS
from ..sequence import Batch, Sequence
from .staging import Gathered

__all__ = ["Value", "value_of"]


@dataclass(frozen=True, eq=False, repr=False)
class Value:
    """A batch: one array of all samples, or a list of arrays where their shapes differ.

    Attributes:
        data: an array ``(N, …)``, or a list with an array for each sample; NumPy or CuPy.
        layout: the letters of a sample's axes, without N; empty where they are not known.
        sources: where each sample comes from; empty where that is not known.
        by_frame: whether it is a parameter with a number for each frame (``fn.per_frame``).
        gathered: how an external source's batch was copied; None of any other value.
    """

    data: Any
    layout: str = ""
    sources: tuple[str, ...] = ()
    by_frame: bool = False
    gathered: Gathered | None = None

    @classmethod
    def of(cls, samples: Iterable[Array], layout: str = "", sources: tuple[str, ...] = ()) -> Value:
        """A batch of samples, stacked (one copy) if they are alike."""
        parts = list(samples)
        kinds = {(tuple(part.shape), part.dtype) for part in parts}
        data: Any = namespace(parts[0]).stack(parts) if len(kinds) == 1 else parts
        return cls(data, layout, sources)

    @property
    def dense(self) -> bool:
        """Whether it is one array."""
        return not isinstance(self.data, list)

    @property
    def on_gpu(self) -> bool:
        """Whether it is on a GPU."""
        return bool(len(self)) and device_of(self.data if self.dense else self.data[0]) != "cpu"

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its values."""
        found: np.dtype[Any] = np.dtype((self.data if self.dense else self.data[0]).dtype)
        return found

    @property
    def ndim(self) -> int:
        """How many axes a sample has."""
        return int(self.data.ndim - 1 if self.dense else self.data[0].ndim)

    @property
    def letters(self) -> str | None:
        """The layout of ``data`` as operators take it; None where it is not known."""
        return None if not self.layout else ("N" + self.layout if self.dense else self.layout)

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Array]:
        return iter(self.data)

    def __getitem__(self, sample: int) -> Array:
        return self.data[sample]

    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of each sample."""
        return [tuple(part.shape) for part in self.data]

    def with_data(self, data: Any, layout: str | None = None) -> Value:
        """The same samples with other values."""
        return replace(self, data=data, layout=self.layout if layout is None else layout, gathered=None)

    def gathered_as(self, data: Array, gathered: Gathered) -> Value:
        """The same samples as an array that they were gathered in."""
        return replace(self, data=data, gathered=gathered)

    def each(self, function: Callable[[Array], Array], layout: str | None = None) -> Value:
        """A function of every sample, stacked if results are alike."""
        made = Value.of([function(part) for part in self], self.layout if layout is None else layout)
        return replace(made, sources=self.sources)

    def stacked(self, what: str = "this value") -> Array:
        """The samples as one array.

        Raises:
            ParameterError: their shapes differ.
        """
        if self.dense:
            return self.data
        shapes = ", ".join(map(str, dict.fromkeys(self.shapes())))
        raise ParameterError(
            f"{what} has samples of different shapes, {shapes}",
            allowed="one shape for all samples of a batch",
            advice="Bring them to one size before (fn.resize, fn.crop, fn.pad), or take them one by one",
        )

    def only(self, count: int) -> Value:
        """The first samples."""
        return replace(self, data=self.data[:count], sources=self.sources[:count])

    def as_images(self) -> Batch | Any:
        """The samples with their layout, as operators on images take them; ``data`` where they have no such layout.

        A layout that is not known is that of a sample of as many axes: HW, HWC or FHWC.
        """
        layout = self.layout or DEFAULT_LAYOUTS.get(self.ndim, "")
        if layout not in LAYOUTS or "H" not in layout or layout.startswith("N"):
            return self.data
        named = self.sources or ("",) * len(self)
        samples = tuple(Sequence(one, layout, name) for one, name in zip(self, named, strict=True))
        return Batch(samples, stacked=self.data if self.dense else None)

    def on_host(self) -> Value:
        """The same in main memory."""
        if not self.on_gpu:
            return self
        return self.with_data(to_numpy(self.data) if self.dense else [to_numpy(part) for part in self])

    def on_device(self) -> Value:
        """The same on the current GPU."""
        if self.on_gpu or not len(self):
            return self
        if self.gathered is not None and self.dense:
            return replace(self, data=self.gathered.memory.upload(self.data))
        return self.with_data(to_cupy(self.data) if self.dense else [to_cupy(part) for part in self])

    def __repr__(self) -> str:
        shape = tuple(self.data.shape) if self.dense else f"{len(self)} samples of different shapes"
        return f"Value({shape} {self.layout or 'without layout'} {self.dtype.name if len(self) else ''})"


def value_of(given: Any) -> Value:
    """What a node gave as a Value: a Value, a Batch, a Sequence, an array ``(N, …)``, or a list of arrays.

    Raises:
        ParameterError: it is none of them.
    """
    if isinstance(given, Value):
        return given
    if isinstance(given, Batch):
        data = given.stacked if given.stacked is not None else [one.data for one in given.sequences]
        return Value(data, given.layout[1:], given.sources)
    if isinstance(given, Sequence):
        return Value(given.data[None], given.layout, (given.source,))
    if isinstance(given, (list, tuple)):
        return Value.of([part.data if isinstance(part, Sequence) else as_native(part) for part in given])
    return Value(as_native(given))
