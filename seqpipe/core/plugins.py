"""Plugins: packages that define operators, found by their entry points.

A package declares ``name = "module"`` or ``name = "module:Class"`` under
``[project.entry-points."seqpipe.operators"]`` in its ``pyproject.toml``; importing that module defines operators, as
:mod:`seqpipe.ops` describes. Plugins are loaded by :func:`load_plugins`, and when ``seqpipe.fn`` or ``seqpipe.dali.fn``
is asked for a name that seqpipe does not define.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Final

from ..errors import BackendError

__all__ = ["GROUP", "load_plugins"]

GROUP: Final = "seqpipe.operators"


@cache
def load_plugins() -> tuple[str, ...]:
    """Load all plugins, once.

    Returns:
        The names of their entry points.

    Raises:
        BackendError: a plugin cannot be imported; its own error is the cause.
    """
    result = []
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            package = entry.dist.name if entry.dist is not None else entry.value
            raise BackendError(
                f"its operators cannot be loaded ({entry.value}): {type(error).__name__}: {error}",
                source=package,
                advice="Fix or uninstall that package",
            ) from error
        result.append(entry.name)
    return tuple(result)
