"""Lazy imports: names of a package whose modules are imported on first access, and optional libraries."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import BackendError

__all__ = ["LazyModule", "import_optional", "missing_name", "on_demand", "renamed"]


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
        value = getattr(module, name) if modules[name] else module
        setattr(sys.modules[package], name, value)  # Python finds it there from now on
        return value

    return fetch


def renamed(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a package whose error for a name that is gone tells what replaces it."""

    def missing(name: str) -> Any:
        raise missing_name(package, name, f"; use {names[name]}" if name in names else "")

    return missing


def missing_name(package: str, name: str, advice: str = "") -> AttributeError | ImportError:
    """Return the error of a package's ``__getattr__`` for a name that it does not have.

    Python drops the message of an AttributeError in ``from package import name``, so that this is an ImportError.
    """
    from opcode import opmap  # here, so that `import seqpipe` does not pay for it

    frame = sys._getframe()
    while frame.f_back and (frame.f_code.co_filename == __file__ or frame.f_code.co_name == "__getattr__"):
        frame = frame.f_back
    text = f"module {package!r} has no attribute {name!r}{advice}"
    if advice and frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]:
        return ImportError(text, name=package)
    return AttributeError(text, name=name)


class LazyModule:
    """A library that is imported when an attribute is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)
        return value


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
