"""Errors for DALI plugins that seqpipe does not provide."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from ...errors import BackendError

__all__ = ["absent"]


def absent(plugin: str, framework: str, advice: str) -> Callable[[str], NoReturn]:
    """Return a module's ``__getattr__`` that raises an error for every name.

    Args:
        plugin: name of the module.
        framework: framework of DALI's plugin.
        advice: the alternative, for the message.
    """

    def refuse(name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise BackendError(
            f"there is no {name} for {framework}", source=f"seqpipe.dali.plugin.{plugin}", advice=advice
        )

    return refuse
