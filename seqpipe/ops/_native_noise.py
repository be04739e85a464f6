"""``noise.c``: what noise makes of random bits, in C."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from ..native import load_native

__all__ = ["native_noise"]


@cache
def native_noise() -> Any:
    """The functions of ``noise.c``; None where there is no C compiler."""
    library = load_native(__package__, "noise.c")
    if library is None:
        return None
    word, count, pointer, number = ctypes.c_uint32, ctypes.c_int64, ctypes.c_void_p, ctypes.c_float
    for function, arguments in (
        (library.seqpipe_normals, (pointer, count, pointer, word, pointer)),
        (library.seqpipe_tables, (pointer, count, count, word)),
        (library.seqpipe_counts, (pointer, pointer, count, pointer, count, pointer)),
        (library.seqpipe_salt, (pointer, count, count, number, number, number, number, pointer)),
    ):
        function.restype, function.argtypes = None, arguments
    return library
