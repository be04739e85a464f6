"""Conversion of the parts of a batch to tensors on a device, in a layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..array import Array, to_torch
from ..dataset.arrays import PixelLayout, check_pixel_layout, converted

__all__ = ["tensors_of"]


def tensors_of(
    parts: Mapping[str, Any], layout: PixelLayout | None, device: Any = None, *, pinned: bool = False
) -> dict[str, Any]:
    """Convert the parts of samples to tensors.

    Args:
        parts: values by name, as :class:`seqpipe.dataset.Samples` holds them. Texts, batches of different shapes, and
            points or boxes become lists.
        layout: axes of videos; None keeps them.
        device: the target device; None keeps the current one.
        pinned: whether to pin tensors that stay in main memory; ignored without a usable GPU.
    """

    def tensor(array: Array, axes: tuple[int, ...] | None) -> Any:
        result = to_torch(array)
        return _to_device(result if axes is None else result.permute(*axes).contiguous(), device, pinned)

    return converted(parts, check_pixel_layout(layout, "torch"), tensor)


def _to_device(tensor: Any, device: Any, pinned: bool) -> Any:
    """Return a tensor on a device."""
    if device is None:
        usable = pinned and tensor.device.type == "cpu" and torch.cuda.is_available()
        return tensor.pin_memory() if usable else tensor
    if not str(getattr(device, "type", device)).startswith("cpu") and tensor.device.type == "cpu":
        # a copy from pinned memory is asynchronous
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
