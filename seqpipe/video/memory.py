"""How much memory a device has, and main memory for pixels."""

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

_CONTAINER = Path("/sys/fs/cgroup/memory.max")
_HOST: Final = Device("cpu")
_WORTH_A_LOOK: Final = 1 << 28
# where the system does not tell
_ASSUMED: Final = 16 << 30


def device_bytes(device: Device) -> int:
    """All memory of a device, free or not, in bytes; of main memory, what the container leaves to its processes.

    Raises:
        BackendError: CuPy is missing or does not fit the driver.
    """
    if device.kind == "cuda":
        from .cuda.memory import total_bytes

        return total_bytes(device.number)
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else _ASSUMED
    with contextlib.suppress(OSError, ValueError):  # there is no such file, or it says "max"
        return min(whole, int(_CONTAINER.read_text(encoding="ascii")))
    return whole


def host_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """A new array in main memory, with arbitrary content.

    Raises:
        DeviceMemoryError: it is larger than all of main memory. Linux would promise it and then end the process.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < _WORTH_A_LOOK or size <= device_bytes(_HOST):
        try:
            return np.empty(shape, dtype)
        except MemoryError:  # of a limit that the process has
            pass
    raise DeviceMemoryError(
        f"main memory has no room for an array {shape} {dtype} of {size / 2**30:.3g} GiB",
        allowed=f"{device_bytes(_HOST) / 2**30:.3g} GiB, all that there is",
        advice="Ask for less at once: smaller batches, shorter sequences or smaller pictures",
    )
