"""DALI plugins that seqpipe does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from ...errors import BackendError

__all__ = ["absent"]


def absent(plugin: str, framework: str, advice: str) -> Callable[[str], NoReturn]:
    """The ``__getattr__`` of a plugin's module that refuses every name.

    Args:
        plugin: the module's name.
        framework: what DALI's plugin serves.
        advice: what to use instead.
    """

    def refuse(name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise BackendError(
            f"there is no {name} for {framework}", source=f"seqpipe.dali.plugin.{plugin}", advice=advice
        )

    return refuse
