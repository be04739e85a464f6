"""Registry of decoders with threads, which a forked process must neither use nor destroy."""

from __future__ import annotations

import ctypes
import os
from typing import Any
from weakref import ref

__all__ = ["is_inherited", "watch"]

_with_threads: set[ref[Any]] = set()
_inherited: set[int] = set()


def watch(decoder: Any) -> None:
    """Register a decoder that has threads of its own."""
    # The callback is a C function: Python loses a Ctrl-C that arrives in a Python callback, such as that of WeakSet.
    _with_threads.add(ref(decoder, _with_threads.discard))


def is_inherited(decoder: Any) -> bool:
    """Return whether a decoder was created before a fork, so that its threads do not exist in this process."""
    return id(decoder) in _inherited


def _keep() -> None:
    # Destroying such a decoder would wait for its threads forever, also at interpreter exit: leak a reference.
    for decoder in [known() for known in _with_threads]:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(decoder))
        _inherited.add(id(decoder))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep)
