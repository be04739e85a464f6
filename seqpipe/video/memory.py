"""Total memory of a device, and allocation of host arrays."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..array import Array
from ..errors import DeviceMemoryError
from .device import Device

__all__ = ["device_bytes", "host_array"]

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_HOST: Final = Device("cpu")
# Smaller arrays are allocated without comparing their size with the system's memory.
_CHECKED_FROM_BYTES: Final = 1 << 28
# Used where the system does not report its memory.
_ASSUMED_BYTES: Final = 16 << 30


def device_bytes(device: Device) -> int:
    """Return a device's total memory in bytes, free or not; for the CPU at most the container's (cgroup) limit.

    Raises:
        BackendError: CuPy is missing or does not fit the driver.
    """
    if device.kind == "cuda":
        from .cuda.memory import total_bytes

        return total_bytes(device.number)
    total = (
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else _ASSUMED_BYTES
    )
    with contextlib.suppress(OSError, ValueError):  # the file does not exist, or holds "max"
        return min(total, int(_CGROUP_LIMIT.read_text(encoding="ascii")))
    return total


def host_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Allocate an uninitialized array in main memory.

    Raises:
        DeviceMemoryError: the array is larger than main memory. Linux would overcommit and later kill the process.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < _CHECKED_FROM_BYTES or size <= device_bytes(_HOST):
        try:
            return np.empty(shape, dtype)
        except MemoryError:  # the process has a limit of its own (ulimit)
            pass
    raise DeviceMemoryError(
        f"an array {shape} {dtype} of {size / 2**30:.3g} GiB does not fit into main memory",
        allowed=f"{device_bytes(_HOST) / 2**30:.3g} GiB in total",
        advice="Ask for less at once: smaller batches, shorter sequences or smaller frames",
    )
