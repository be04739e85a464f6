"""``ndd.random``: the generator of seeds, and the operators of ``fn.random``."""

from __future__ import annotations

from typing import Any

from .calls import GROUP
from .generator import RNG, get_default_rng, set_seed

__all__ = ["RNG", "get_default_rng", "set_seed"]


def __getattr__(name: str) -> Any:
    return getattr(GROUP.random, name)
