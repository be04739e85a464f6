"""Plugins: packages that bring operators of their own, found by their entry points.

A package names them in its ``pyproject.toml``: below ``[project.entry-points."seqpipe.operators"]`` stands
``name = "module"`` or ``name = "module:Class"``, and importing that defines operators, as :mod:`seqpipe.ops` describes.
They are loaded when a name is asked of ``seqpipe.fn`` or ``seqpipe.dali.fn`` that seqpipe itself does not have, or by
:func:`load_plugins`.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Final

from .errors import BackendError

__all__ = ["GROUP", "load_plugins"]

GROUP: Final = "seqpipe.operators"


@cache
def load_plugins() -> tuple[str, ...]:
    """Load all packages that bring operators, once.

    Returns:
        The names of their entry points.

    Raises:
        BackendError: one of them cannot be imported; its own error is the cause.
    """
    found = []
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            package = entry.dist.name if entry.dist is not None else entry.value
            raise BackendError(
                f"its operators cannot be loaded ({entry.value}): {type(error).__name__}: {error}",
                source=package,
                advice="Mend or uninstall that package",
            ) from error
        found.append(entry.name)
    return tuple(found)
