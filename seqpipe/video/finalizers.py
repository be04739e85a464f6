"""Afterwards: what is done when something is no longer referred to, without a line of Python.

Python runs the handlers of signals before the first line of whatever function it enters, a ``__del__`` as well, and
after each call that one makes. What they raise there, a Ctrl-C, is printed and forgotten. C asks for no signals.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

__all__ = ["Afterwards"]


class Afterwards(partial[Any]):
    """A function of C with its arguments, called when the last reference to this object is gone, by any thread.

    It must not raise: nobody would learn of it.
    """

    __slots__ = ()
    # a slot of the type, not a method: nothing of this is Python's
    __del__ = partial.__call__

    def __reduce__(self) -> NoReturn:
        raise TypeError("what is to be done once cannot be copied or pickled")
