"""Choice of the device for ``device="gpu"`` and ``"mixed"``: the GPU, or the CPU on machines without a driver."""

from __future__ import annotations

import ctypes
import os
import warnings
from functools import cache
from typing import Final

from ..errors import BackendError

__all__ = ["gpu_count", "gpu_number", "has_driver"]

_VARIABLE: Final = "SEQPIPE_DALI_DEVICE"


def has_driver() -> bool:
    """Return whether this machine has an NVIDIA driver and a GPU."""
    return gpu_count() > 0


@cache
def gpu_count() -> int:
    """Return the number of GPUs that the NVIDIA driver has; 0 without a driver."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    works = cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
    return count.value if works else 0


@cache
def _warn() -> None:
    warnings.warn(
        "this machine has no NVIDIA driver: operators declared with device='gpu' and 'mixed' run on the CPU "
        f"({_VARIABLE}=gpu makes that an error)",
        stacklevel=4,
    )


def gpu_number(device_id: int | None) -> int | None:
    """Return the number of the GPU for "gpu" and "mixed"; None for the CPU, with a warning once per process.

    Args:
        device_id: the pipeline's device; None stands for GPU 0.

    Raises:
        BackendError: there is a driver but no CuPy, or no driver and SEQPIPE_DALI_DEVICE is "gpu".
    """
    setting = os.environ.get(_VARIABLE, "")
    if setting == "cpu":
        return None
    if not has_driver():
        if setting == "gpu":
            raise BackendError(
                f"there is no NVIDIA driver, and {_VARIABLE}=gpu",
                advice=f"Unset {_VARIABLE} to run on the CPU",
            )
        _warn()
        return None
    from ..core.kernel import KernelDevice

    number = 0 if device_id is None else device_id
    KernelDevice(number)
    return number
