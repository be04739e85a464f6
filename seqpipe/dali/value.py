"""Value: a batch of arrays of any shape and dtype, with the layout of a sample; the output of pipeline sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..array import Array, as_native, device_of, namespace, to_cupy, to_numpy
from ..errors import ParameterError
from ..sequence import Batch, Sequence
from .sources.staging import Copied

__all__ = ["Value", "value_of"]


@dataclass(frozen=True, eq=False, repr=False)
class Value:
    """A batch: one array of all samples, or a list of arrays if their shapes differ.

    Attributes:
        data: an array ``(N, …)``, or a list with an array for each sample; NumPy or CuPy.
        layout: letters of a sample's axes, without N; "" if unknown.
        sources: path or URL of each sample; empty if unknown.
        by_frame: whether the value is a parameter with a number for each frame (``fn.per_frame``).
        copied: how an external source's batch was copied; None of any other value.
    """

    data: Any
    layout: str = ""
    sources: tuple[str, ...] = ()
    by_frame: bool = False
    copied: Copied | None = None

    @classmethod
    def of(cls, samples: Iterable[Array], layout: str = "", sources: tuple[str, ...] = ()) -> Value:
        """Return a batch of samples, stacked by one copy if shapes and dtypes agree."""
        arrays = list(samples)
        kinds = {(tuple(array.shape), array.dtype) for array in arrays}
        data: Any = namespace(arrays[0]).stack(arrays) if len(kinds) == 1 else arrays
        return cls(data, layout, sources)

    @property
    def dense(self) -> bool:
        """Whether the samples are one array."""
        return not isinstance(self.data, list)

    @property
    def on_gpu(self) -> bool:
        """Whether the samples are on a GPU."""
        return bool(len(self)) and device_of(self.data if self.dense else self.data[0]) != "cpu"

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the samples."""
        dtype: np.dtype[Any] = np.dtype((self.data if self.dense else self.data[0]).dtype)
        return dtype

    @property
    def ndim(self) -> int:
        """Number of axes of a sample."""
        return int(self.data.ndim - 1 if self.dense else self.data[0].ndim)

    @property
    def letters(self) -> str | None:
        """Layout of ``data`` for operators; None if unknown."""
        return None if not self.layout else ("N" + self.layout if self.dense else self.layout)

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Array]:
        return iter(self.data)

    def __getitem__(self, sample: int) -> Array:
        return self.data[sample]

    def shapes(self) -> list[tuple[int, ...]]:
        """Return the shape of each sample."""
        return [tuple(array.shape) for array in self.data]

    def with_data(self, data: Any, layout: str | None = None) -> Value:
        """Return the same samples with other data."""
        return replace(self, data=data, layout=self.layout if layout is None else layout, copied=None)

    def copied_as(self, data: Array, copied: Copied) -> Value:
        """Return the same samples as the array that they were copied into."""
        return replace(self, data=data, copied=copied)

    def each(self, function: Callable[[Array], Array], layout: str | None = None) -> Value:
        """Apply a function to every sample; results are stacked if shapes and dtypes agree."""
        results = Value.of([function(array) for array in self], self.layout if layout is None else layout)
        return replace(results, sources=self.sources)

    def stacked(self, what: str = "this value") -> Array:
        """Return the samples as one array.

        Raises:
            ParameterError: the samples differ in shape.
        """
        if self.dense:
            return self.data
        shapes = ", ".join(map(str, dict.fromkeys(self.shapes())))
        raise ParameterError(
            f"{what} has samples of different shapes, {shapes}",
            allowed="one shape for all samples of a batch",
            advice="Bring them to one size first (fn.resize, fn.crop, fn.pad), or use them one by one",
        )

    def only(self, count: int) -> Value:
        """Return the first samples."""
        return replace(self, data=self.data[:count], sources=self.sources[:count])

    def on_host(self) -> Value:
        """Return the samples in main memory."""
        if not self.on_gpu:
            return self
        return self.with_data(to_numpy(self.data) if self.dense else [to_numpy(array) for array in self])

    def on_device(self) -> Value:
        """Return the samples on the current GPU."""
        if self.on_gpu or not len(self):
            return self
        if self.copied is not None and self.dense:
            return replace(self, data=self.copied.memory.upload(self.data))
        return self.with_data(to_cupy(self.data) if self.dense else [to_cupy(array) for array in self])

    def __repr__(self) -> str:
        shape = tuple(self.data.shape) if self.dense else f"{len(self)} samples of different shapes"
        return f"Value({shape} {self.layout or 'without layout'} {self.dtype.name if len(self) else ''})"


def value_of(source: Any) -> Value:
    """Convert to a Value: a Value, a Batch, a Sequence, an array ``(N, …)``, or a list of arrays.

    Raises:
        ParameterError: the value is none of these.
    """
    if isinstance(source, Value):
        return source
    if isinstance(source, Batch):
        data = (
            source.stacked if source.stacked is not None else [sequence.data for sequence in source.sequences]
        )
        return Value(data, source.layout[1:], source.sources)
    if isinstance(source, Sequence):
        return Value(source.data[None], source.layout, (source.source,))
    if isinstance(source, (list, tuple)):
        return Value.of([array.data if isinstance(array, Sequence) else as_native(array) for array in source])
    return Value(as_native(source))
