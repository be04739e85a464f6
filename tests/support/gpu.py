"""Whether there is a GPU, asked of the driver alone, so that no heavy library is loaded."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

import pytest

__all__ = ["gpu_place", "missing_gpu", "required"]


def required() -> bool:
    """Whether a GPU that is missing is a failure."""
    return os.environ.get("SEQPIPE_REQUIRE_GPU") == "1"


@functools.cache
def missing_gpu() -> str:
    """Why no GPU can be used, "" if one can; asks the driver only, so that no heavy library is loaded."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"no NVIDIA driver: {error}"
    count = ctypes.c_int(0)
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status:
        return f"the NVIDIA driver gives error {status}"
    return "" if count.value else "the NVIDIA driver sees no GPU"


def gpu_place(name: str) -> list[Any]:
    """A place of a parametrized fixture on a GPU; none where there is none, so that nothing is collected for it."""
    return [pytest.param(name, marks=pytest.mark.gpu)] if required() or not missing_gpu() else []
