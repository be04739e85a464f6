"""HTML pages of volumes, videos and samples, and of what operators do to them.

This package may import the vocabulary, ``flow``, ``video`` and ``volume``; ``cli`` alone imports it. ``Sequence.show``
and its like find it by name.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .comparing import compare
    from .content import show
    from .page import Page

_LAZY = {"Page": "page", "compare": "comparing", "show": "content"}

__all__ = ["Page", "compare", "show"]

if not TYPE_CHECKING:  # a type checker sees the imports above, and would take every other name for Any

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module 'seqpipe.view' has no attribute {name!r}")
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
