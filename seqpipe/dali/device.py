"""Where a program for a GPU runs: on the GPU, or on the CPU where there is no driver for one."""

from __future__ import annotations

import ctypes
import os
import warnings
from functools import cache
from typing import Final

from ..errors import BackendError

__all__ = ["gpu_number", "has_driver"]

_VARIABLE: Final = "SEQPIPE_DALI_DEVICE"


@cache
def has_driver() -> bool:
    """Whether this machine has NVIDIA's driver."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


@cache
def _warn() -> None:
    warnings.warn(
        "this machine has no NVIDIA driver: what is declared for device='gpu' and 'mixed' runs on the CPU "
        f"({_VARIABLE}=gpu makes that an error)",
        stacklevel=4,
    )


def gpu_number(device_id: int | None) -> int | None:
    """The number of the GPU that "gpu" and "mixed" stand for; None where they stand for the CPU, which is said once.

    Args:
        device_id: of the pipeline; None for a pipeline that has no GPU.

    Raises:
        BackendError: there is a driver but no CuPy, or no driver and SEQPIPE_DALI_DEVICE says "gpu".
    """
    asked = os.environ.get(_VARIABLE, "")
    if asked == "cpu":
        return None
    if not has_driver():
        if asked == "gpu":
            raise BackendError(
                f"there is no NVIDIA driver, and {_VARIABLE}=gpu",
                advice=f"Unset {_VARIABLE} to run on the CPU",
            )
        _warn()
        return None
    from ..kernel import KernelDevice

    number = 0 if device_id is None else device_id
    KernelDevice(number)
    return number
