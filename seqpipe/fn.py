"""Every operator as a function: ``fn.flip(x, horizontal=True)``.

The functions follow from the registry of operators; ``fn.pyi`` beside this file tells type checkers and editors
the same (``python -m seqpipe.ops`` writes it, a test compares the two). ``help(fn.flip)`` says what a function takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .ops import function_of, functions
from .plugins import load_plugins

__all__: list[str] = []
__all__ += functions()  # which help(seqpipe.fn) lists; those of one's own, that come later, are in dir()


def __getattr__(name: str) -> Callable[..., Any]:
    try:
        return function_of(name)
    except AttributeError:
        if name.startswith("_") or not load_plugins():
            raise
    return function_of(name)


def __dir__() -> list[str]:
    return list(functions())
