"""Errors for modules of DALI that seqpipe does not provide."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from ..errors import BackendError

__all__ = ["absent"]


def absent(module: str, purpose: str, advice: str) -> Callable[[str], NoReturn]:
    """Return a module's ``__getattr__`` that raises an error for every name.

    Args:
        module: name of the module in ``nvidia.dali``.
        purpose: what the module is for, such as a framework.
        advice: the alternative, for the message.
    """

    def get_attribute(name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise BackendError(
            f"there is no {name} for {purpose}", source=f"seqpipe.dali.{module}", advice=advice
        )

    return get_attribute
