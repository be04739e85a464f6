"""Conversion of pipeline values to tensors on a device, in a layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import torch

from ..array import Array, to_numpy, to_torch
from ..errors import ParameterError
from ..parts import Part
from ..pipeline.value import Value, value_of
from ..sequence import Batch, Sequence

__all__ = ["PixelLayout", "check_layout", "tensor_of", "tensors_of"]

PixelLayout: TypeAlias = Literal["NFHWC", "NFCHW", "NCFHW"]
"""Axes of batches of videos: samples, frames, height, width, channels. 3-D networks take NCFHW."""

_LETTERS: Final = "NFHWC"


def check_layout(layout: PixelLayout | None, source: str) -> PixelLayout | None:
    """Return the layout.

    Raises:
        ParameterError: the layout is not one of :data:`PixelLayout`.
    """
    if layout is not None and layout not in get_args(PixelLayout):
        allowed = ", ".join(map(repr, get_args(PixelLayout)))
        raise ParameterError(f"layout={layout!r} is not valid", source=source, allowed=f"{allowed}, None")
    return layout


def tensor_of(
    output: Any, name: str, layout: PixelLayout | None, device: Any = None, *, pinned: bool = False
) -> Any:
    """Convert a value to a tensor; values other than videos keep their axes.

    Args:
        output: a Batch, a Value, or an array. Strings and tuples, such as arrays of different shapes, become lists.
        name: name of the output, for messages.
        layout: axes of videos; None keeps them.
        device: the target device; None keeps the current one.
        pinned: whether to pin tensors that stay in main memory; ignored without a usable GPU.

    Raises:
        ParameterError: samples differ in shape.
    """
    if isinstance(output, tuple):
        return [_to_device(one, device, pinned) if isinstance(one, np.ndarray) else one for one in output]
    if isinstance(output, np.ndarray):
        # copied, so that the tensor shares no memory with later batches
        return output.tolist() if output.dtype.kind == "U" else _to_device(output.copy(), device, pinned)
    value = value_of(output)
    array = value.stacked(f"the output {name}")
    current = f"N{value.layout}"
    if layout is not None and current != layout and sorted(current) == sorted(_LETTERS):
        order = [current.index(letter) for letter in layout]
        return _to_device(to_torch(array).permute(*order).contiguous(), device, pinned)
    owned = isinstance(output, (Batch, Value)) or not isinstance(array, np.ndarray)
    return _to_device(array if owned else array.copy(), device, pinned)


def tensors_of(
    parts: Mapping[str, Any], layout: PixelLayout | None, device: Any = None, *, pinned: bool = False
) -> dict[str, Any]:
    """Convert the parts of samples to tensors.

    Args:
        parts: values by name, as :class:`seqpipe.dataset.Samples` holds them. Texts, batches of different shapes, and
            points or boxes become lists.
        layout: axes of videos; None keeps them.
        device: the target device; None keeps the current one.
        pinned: whether to pin tensors that stay in main memory.
    """
    layout = check_layout(layout, "torch")
    return {name: _converted(value, name, layout, device, pinned) for name, value in parts.items()}


def _converted(value: Any, name: str, layout: PixelLayout | None, device: Any, pinned: bool) -> Any:
    if isinstance(value, Part):
        value = value.data
    if isinstance(value, Batch) and value.stacked is None:
        value = tuple(to_numpy(one.data) for one in value.sequences)
    if isinstance(value, Sequence):
        value = value.data
    if isinstance(value, list):
        value = tuple(value)
    if isinstance(value, (int, float, str, bool, np.number)):
        return value
    return tensor_of(value, name, layout, device, pinned=pinned)


def _to_device(array: Array, device: Any, pinned: bool) -> Any:
    """Return an array as a tensor on a device."""
    tensor = to_torch(array)
    if device is None:
        usable = pinned and tensor.device.type == "cpu" and torch.cuda.is_available()
        return tensor.pin_memory() if usable else tensor
    if not str(getattr(device, "type", device)).startswith("cpu") and tensor.device.type == "cpu":
        # a copy from pinned memory is asynchronous
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
