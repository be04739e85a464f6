"""Addresses of CUDA driver functions that C code calls."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Final

from ...errors import BackendError

__all__ = ["launch_functions"]

_LIBRARY: Final = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_LAUNCH_FUNCTIONS: Final = ("cuLaunchKernel", "cuEventRecord", "cuEventSynchronize", "cuStreamSynchronize")


@cache
def launch_functions() -> tuple[int, ...]:
    """Return the addresses of the functions that launch a kernel, record an event, and wait for an event or stream.

    Raises:
        BackendError: the driver cannot be loaded.
    """
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise BackendError(
            f"{_LIBRARY}, the NVIDIA driver, cannot be loaded ({error})",
            advice="Install the NVIDIA driver, or use device='cpu'",
        ) from error
    return tuple(
        ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in _LAUNCH_FUNCTIONS
    )
