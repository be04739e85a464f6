"""Fork guard: decoders whose threads belong to the parent of a forked process."""

from __future__ import annotations

import ctypes
import os
from typing import Any
from weakref import ref

__all__ = ["is_inherited", "watch"]

_with_threads: set[ref[Any]] = set()
_inherited: set[int] = set()


def watch(decoder: Any) -> None:
    """Know of a decoder that has threads of its own."""
    # Forgotten by a function of C: Python loses a Ctrl-C that falls into a callback of its own, as WeakSet has one.
    _with_threads.add(ref(decoder, _with_threads.discard))


def is_inherited(decoder: Any) -> bool:
    """Whether a decoder was made before a fork: what it is asked for will never come."""
    return id(decoder) in _inherited


def _keep() -> None:
    # Whoever takes one down waits for its threads, for ever: also the interpreter, at its end. So nobody may.
    for decoder in [known() for known in _with_threads]:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(decoder))
        _inherited.add(id(decoder))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep)
