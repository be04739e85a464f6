"""How much memory a device has."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from .device import Device

__all__ = ["device_bytes"]

_CONTAINER = Path("/sys/fs/cgroup/memory.max")
# where the system does not tell
_ASSUMED: Final = 16 << 30


def device_bytes(device: Device) -> int:
    """All memory of a device, free or not, in bytes; of main memory, what the container leaves to its processes.

    Raises:
        BackendError: CuPy is missing or does not fit the driver.
    """
    if device.kind == "cuda":
        from .gpu.memory import card_bytes

        return card_bytes(device.number)
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else _ASSUMED
    with contextlib.suppress(OSError, ValueError):  # there is no such file, or it says "max"
        return min(whole, int(_CONTAINER.read_text(encoding="ascii")))
    return whole
