"""Values of pipelines as tensors: on a device, in a layout."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

from ..array import to_torch
from ..errors import ParameterError
from ..pipeline.value import Value, value_of
from ..sequence import Batch

__all__ = ["PixelLayout", "check_layout", "tensor_of"]

PixelLayout: TypeAlias = Literal["NFHWC", "NFCHW", "NCFHW"]
"""The axes of batches of videos: samples, frames, rows, columns, channels. 3-D networks take NCFHW."""

_LETTERS: Final = "NFHWC"


def check_layout(layout: PixelLayout | None, source: str) -> PixelLayout | None:
    """The layout, if there is such.

    Raises:
        ParameterError: there is not.
    """
    if layout is not None and layout not in get_args(PixelLayout):
        allowed = ", ".join(map(repr, get_args(PixelLayout)))
        raise ParameterError(f"layout={layout!r} is not valid", source=source, allowed=f"{allowed}, None")
    return layout


def tensor_of(
    given: Any, name: str, layout: PixelLayout | None, device: Any = None, *, pinned: bool = False
) -> Any:
    """A value as a tensor; one that is not of videos keeps its axes.

    Args:
        given: a Batch, a Value, or an array.
        name: for messages.
        layout: of videos; None leaves them as they are.
        device: where it is to be; None leaves it where it is.
        pinned: whether what stays in main memory is pinned.

    Raises:
        ParameterError: samples differ in shape.
    """
    value = value_of(given)
    array = value.stacked(f"the output {name}")
    tensor = to_torch(array)
    if isinstance(array, np.ndarray) and not isinstance(given, (Batch, Value)):
        tensor = tensor.clone()  # labels are the tensor's own: what comes next does not change them
    known = f"N{value.layout}"
    if layout is not None and known != layout and sorted(known) == sorted(_LETTERS):
        tensor = tensor.permute(*(known.index(letter) for letter in layout)).contiguous()
    if device is None:
        return tensor.pin_memory() if pinned and tensor.device.type == "cpu" else tensor
    place = getattr(device, "type", str(device))
    if not str(place).startswith("cpu") and tensor.device.type == "cpu":
        # from pinned memory the copy does not hold up who asks for it
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
