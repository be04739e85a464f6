"""Conversion of pipeline values to tensors on a device, in a layout."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

from ..array import to_torch
from ..errors import ParameterError
from ..pipeline.value import Value, value_of
from ..sequence import Batch

__all__ = ["PixelLayout", "check_layout", "tensor_of"]

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
    given: Any, name: str, layout: PixelLayout | None, device: Any = None, *, pinned: bool = False
) -> Any:
    """Convert a value to a tensor; values other than videos keep their axes.

    Args:
        given: a Batch, a Value, or an array.
        name: name of the output, for messages.
        layout: axes of videos; None keeps them.
        device: device of the tensor; None keeps the value's.
        pinned: whether a tensor that stays in main memory is pinned.

    Raises:
        ParameterError: samples differ in shape.
    """
    value = value_of(given)
    array = value.stacked(f"the output {name}")
    tensor = to_torch(array)
    if isinstance(array, np.ndarray) and not isinstance(given, (Batch, Value)):
        tensor = tensor.clone()  # the tensor owns its labels: later batches do not overwrite them
    known = f"N{value.layout}"
    if layout is not None and known != layout and sorted(known) == sorted(_LETTERS):
        tensor = tensor.permute(*(known.index(letter) for letter in layout)).contiguous()
    if device is None:
        return tensor.pin_memory() if pinned and tensor.device.type == "cpu" else tensor
    place = getattr(device, "type", str(device))
    if not str(place).startswith("cpu") and tensor.device.type == "cpu":
        # a copy from pinned memory does not block the calling thread
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
