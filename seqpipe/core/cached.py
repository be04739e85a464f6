"""``functools.cached_property`` without a lock, which makes it safe in forked processes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property"]

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property  # noqa: TID251  this is where it comes from
else:

    class cached_property:  # noqa: N801  the name in functools
        """The version of Python 3.12: without the lock of earlier ones, which stays held if a fork happens under it.

        Concurrent threads may compute the value more than once.
        """

        def __init__(self, func: Callable[[Any], Any]) -> None:
            self.func, self.name, self.__doc__ = func, "", func.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self.name] = self.func(instance)
            return value
