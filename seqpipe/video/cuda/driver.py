"""The CUDA driver's functions that code in C calls: their addresses, by ctypes."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Final

from ...errors import BackendError

__all__ = ["launching"]

_LIBRARY: Final = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_LAUNCHING: Final = ("cuLaunchKernel", "cuEventRecord", "cuEventSynchronize", "cuStreamSynchronize")


@cache
def launching() -> tuple[int, ...]:
    """Where the functions are that launch a kernel, record an event, wait for an event, and wait for a stream.

    Raises:
        BackendError: the driver is not there.
    """
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise BackendError(
            f"{_LIBRARY}, the NVIDIA driver, cannot be loaded ({error})",
            advice="Install the NVIDIA driver, or use device='cpu'",
        ) from error
    return tuple(ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in _LAUNCHING)
