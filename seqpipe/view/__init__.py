"""HTML pages of volumes, videos and samples, and of the effect of operators on them.

This package may import the vocabulary, ``flow``, ``video`` and ``volume``; ``cli`` and ``segmentation`` import it.
``Sequence.show`` and similar methods import it by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import on_demand

if TYPE_CHECKING:
    from .comparing import compare
    from .content import show
    from .page import Page
    from .widget import niivue

_LAZY = {"Page": "page", "compare": "comparing", "niivue": "widget", "show": "content"}

__all__ = ["Page", "compare", "niivue", "show"]

if not TYPE_CHECKING:
    __getattr__ = on_demand(__name__, _LAZY)


def __dir__() -> list[str]:
    return __all__
