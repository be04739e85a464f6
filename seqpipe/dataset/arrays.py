"""Batches as dictionaries of plain arrays: NumPy, JAX, or what an adapter makes of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np

from ..array import Array, device_of, namespace, to_numpy
from ..errors import BackendError, ParameterError
from ..parts import Part
from ..sequence import Batch, Sequence
from .samples import Samples
from .state import as_text

__all__ = [
    "ArrayBatches",
    "BatchEpochs",
    "PixelLayout",
    "check_pixel_layout",
    "converted",
    "jax_array",
    "numpy_array",
]

PixelLayout: TypeAlias = Literal["NFHWC", "NFCHW", "NCFHW"]
"""Axes of batches of videos: samples, frames, height, width, channels. 3-D networks take NCFHW."""

ArrayConverter: TypeAlias = Callable[[Array, "tuple[int, ...] | None"], Any]
"""Converts an array, whose axes are permuted before unless the second argument is None."""


def check_pixel_layout(layout: Any, source: str) -> PixelLayout | None:
    """Return the layout."""
    if layout is not None and layout not in get_args(PixelLayout):
        allowed = ", ".join(map(repr, get_args(PixelLayout)))
        raise ParameterError(f"layout={layout!r} is not valid", source=source, allowed=f"{allowed}, None")
    return layout  # type: ignore[no-any-return]  # checked


def converted(
    parts: Mapping[str, Any], layout: PixelLayout | None, convert: ArrayConverter
) -> dict[str, Any]:
    """Convert the parts of samples to arrays.

    Args:
        parts: values by name, as :class:`seqpipe.dataset.Samples` holds them. Texts, batches of different shapes, and
            points or boxes become lists.
        layout: axes of videos; None keeps them.
        convert: converts one array.
    """
    return {name: _converted(value, layout, convert) for name, value in parts.items()}


def _converted(value: Any, layout: PixelLayout | None, convert: ArrayConverter) -> Any:
    if isinstance(value, Part):
        value = value.data
    if isinstance(value, Batch):
        if value.stacked is None:
            inner: Any = None if layout is None else layout[1:]
            return [
                convert(sequence.data, _permutation(sequence.layout, inner)) for sequence in value.sequences
            ]
        return convert(value.stacked, _permutation(value.layout, layout))
    if isinstance(value, Sequence):
        return convert(value.data, None)
    if isinstance(value, (list, tuple)):
        return [_converted(item, None, convert) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    return (
        value.tolist() if value.dtype.kind == "U" else convert(value.copy(), None)
    )  # later batches share no memory


def _permutation(current: str, wanted: str | None) -> tuple[int, ...] | None:
    """Return the axes of a layout in the order of another one; None if they are those, or other ones."""
    if wanted is None or current == wanted or sorted(current) != sorted(wanted):
        return None
    return tuple(current.index(letter) for letter in wanted)


def numpy_array(array: Array, axes: tuple[int, ...] | None) -> Any:
    """Return a NumPy array, copied from a GPU, in C order."""
    host = to_numpy(array)
    return host if axes is None else np.ascontiguousarray(host.transpose(axes))


def jax_array(array: Array, axes: tuple[int, ...] | None) -> Any:
    """Return a JAX array on the same device; 64-bit numbers become 32-bit ones unless JAX has them enabled."""
    try:
        jax_numpy: Any = importlib.import_module("jax.numpy")
    except ImportError as error:
        raise BackendError("jax is not installed", advice="Install it: pip install jax") from error
    if axes is not None:
        array = namespace(array).ascontiguousarray(array.transpose(axes))
    if device_of(array) == "cpu":
        return jax_numpy.asarray(array)
    return jax_numpy.from_dlpack(array)


class BatchEpochs(Protocol):
    """The epochs of a data set."""

    def epoch(self, number: int) -> Iterator[Samples]:
        """Return an iterator over an epoch."""

    def epochs(
        self, stop: int, *, resume: Any = None, allow: Collection[str] = ()
    ) -> Iterator[Iterator[Samples]]:
        """Yield the epochs from 0, or from that of a state."""

    def __len__(self) -> int:
        """Number of batches of an epoch."""


@dataclass(frozen=True)
class ArrayBatches:
    """The batches of a data set as dictionaries of arrays, as :meth:`seqpipe.Dataset.numpy` returns them.

    ``batch["state"]`` is a JSON text of the position after that batch, for :meth:`epochs`. Texts, and arrays of
    different shapes, are lists.

    Attributes:
        dataset: the data set.
        layout: axes of videos; None keeps them.
        convert: converts one array.
    """

    dataset: BatchEpochs
    layout: PixelLayout | None
    convert: ArrayConverter

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        """Return an iterator over an epoch.

        Raises:
            ParameterError: ``number`` is not an integer of at least 0.
        """
        return map(self._arrays, self.dataset.epoch(number))

    def epochs(
        self, stop: int, *, resume: Any = None, allow: Collection[str] = ()
    ) -> Iterator[Iterator[dict[str, Any]]]:
        """Yield iterators over the epochs 0 to ``stop - 1``; with a state, over the rest of its epoch first.

        Args:
            stop: number of epochs.
            resume: ``batch["state"]``; None begins at epoch 0.
            allow: parts of the data set that may differ from the state's, such as "chain".

        Raises:
            StateError: the state belongs to another data set, or is not one.
        """
        epochs = self.dataset.epochs(stop, resume=resume, allow=allow)
        return (map(self._arrays, epoch) for epoch in epochs)

    def _arrays(self, samples: Samples) -> dict[str, Any]:
        return {**converted(samples, self.layout, self.convert), "state": as_text(samples.state or {})}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.epoch(0)

    def __len__(self) -> int:
        return len(self.dataset)
