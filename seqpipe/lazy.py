"""Names of packages that are imported when they are first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["on_demand"]


def on_demand(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package that imports its modules when a name of theirs is first asked for.

    A type checker sees imports under ``TYPE_CHECKING`` instead; with a ``__getattr__`` it would take every other name
    for ``Any``, so the package defines it only where ``TYPE_CHECKING`` is false.

    Args:
        package: its ``__name__``.
        homes: for each name the module below the package that has it; "" for a module of that name itself.
    """

    def fetch(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{homes[name] or name}")
        return getattr(module, name) if homes[name] else module

    return fetch
