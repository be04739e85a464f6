"""Binding of ``noise.c``."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from ...core.native import load_functions

__all__ = ["native_noise"]


@cache
def native_noise() -> Any:
    """Return the functions of ``noise.c``; None without a C compiler."""
    word, count, pointer, number = ctypes.c_uint32, ctypes.c_int64, ctypes.c_void_p, ctypes.c_float
    functions = {
        "normals": (pointer, count, pointer, word, pointer),
        "tables": (pointer, count, count, word),
        "counts": (pointer, pointer, count, pointer, count, pointer),
        "salt": (pointer, count, count, number, number, number, number, pointer),
    }
    return load_functions(__package__, "noise.c", functions)
