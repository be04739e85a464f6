"""Total memory of a device, and allocation of host arrays."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ..array import Array
from ..core.limits import main_memory_bytes
from ..errors import DeviceMemoryError
from .device import Device

__all__ = ["device_bytes", "host_array"]

# Smaller arrays are allocated without comparing their size with the system's memory.
_CHECKED_FROM_BYTES: Final = 1 << 28


def device_bytes(device: Device) -> int:
    """Return a device's total memory in bytes, free or not; for the CPU at most the container's (cgroup) limit."""
    if device.kind == "cuda":
        from .cuda.memory import total_bytes

        return total_bytes(device.number)
    return main_memory_bytes()


def host_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Allocate an uninitialized array in main memory."""
    size = math.prod(shape) * dtype.itemsize
    if size < _CHECKED_FROM_BYTES or size <= main_memory_bytes():
        try:
            return np.empty(shape, dtype)
        except MemoryError:  # the process has a limit of its own (ulimit)
            pass
    raise DeviceMemoryError(
        f"an array {shape} {dtype} of {size / 2**30:.3g} GiB does not fit into main memory",
        allowed=f"{main_memory_bytes() / 2**30:.3g} GiB in total",
        advice="Ask for less at once: smaller batches, shorter sequences or smaller frames",
    )
