"""``ndd.random``: the generator of seeds, and the operators of ``fn.random``."""

from __future__ import annotations

from typing import Any

from .calls import find
from .generator import RNG, get_default_rng, set_seed

__all__ = ["RNG", "get_default_rng", "set_seed"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return find("random", name)
