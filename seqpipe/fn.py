"""Every operator as a function: ``fn.flip(x, horizontal=True)``.

The functions are generated from the registry of operators, and so is the stub ``fn.pyi`` (by ``python -m seqpipe.ops``;
a test keeps it current). ``help(fn.flip)`` lists the parameters of one function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .core.plugins import load_plugins
from .ops import function_of, functions

__all__: list[str] = []
__all__ += functions()  # for help(seqpipe.fn); operators that users define later are in dir()


def __getattr__(name: str) -> Callable[..., Any]:
    try:
        return function_of(name)
    except AttributeError:
        if name.startswith("_") or not load_plugins():
            raise
    return function_of(name)


def __dir__() -> list[str]:
    return list(functions())
