"""Lazy imports: names of a package whose modules are imported on first access, and optional libraries."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import BackendError

__all__ = ["import_optional", "on_demand", "renamed"]


def on_demand(
    package: str, modules: Mapping[str, str], gone: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a package that imports a name's module on first access.

    For type checkers, the package imports the same names under ``TYPE_CHECKING``. It must define ``__getattr__`` only
    where ``TYPE_CHECKING`` is false; otherwise a checker accepts every misspelled name as ``Any``.
    """
    missing = renamed(package, gone or {})

    def fetch(name: str) -> Any:
        if name not in modules:
            return missing(name)
        module = importlib.import_module(f"{package}.{modules[name] or name}")
        return getattr(module, name) if modules[name] else module

    return fetch


def renamed(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a package whose error for a name that is gone tells what replaces it."""

    def missing(name: str) -> Any:
        instead = f"; use {names[name]}" if name in names else ""
        raise AttributeError(f"module {package!r} has no attribute {name!r}{instead}")

    return missing


def import_optional(library: str, extra: str, source: str | None = None, allowed: str | None = None) -> Any:
    """Import a library that an extra of seqpipe installs."""
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise BackendError(
            f"{library.partition('.')[0]} is not installed",
            source=source,
            allowed=allowed,
            advice=f"Install it: pip install 'seqpipe[{extra}]'",
        ) from error
