"""Finalizers that run a C function when an object is collected, so that no Ctrl-C is lost in them.

Python runs signal handlers at the start of every Python function, including a ``__del__``, and after each call in it.
An exception raised there, such as KeyboardInterrupt, is printed and dropped. A C function checks for no signals.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

__all__ = ["Finalizer"]


class Finalizer(partial[Any]):
    """C function with its arguments, called by any thread when the last reference to this object is dropped.

    The function must not raise: Python would drop the exception.
    """

    __slots__ = ()
    # The type's C slot itself: no Python frame is entered.
    __del__ = partial.__call__

    def __reduce__(self) -> NoReturn:
        raise TypeError("a finalizer runs once: it cannot be copied or pickled")
