"""Reset of objects in forked child processes, such as locks that another thread of the parent held.

A child has one thread right after the fork, so nothing here needs a lock.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import ref

__all__ = ["Forkable", "reset_after_fork"]


class Forkable(Protocol):
    """An object with state that is invalid in a forked child."""

    def after_fork(self) -> None:
        """Reset that state; called once in the child, before ``os.fork`` returns there."""


_registered: Final[set[ref[Forkable]]] = set()


def reset_after_fork(thing: Forkable) -> None:
    """Call ``thing.after_fork()`` in every process forked from this one, for as long as the object is alive."""
    # Not a WeakSet: its callback is Python code, where a KeyboardInterrupt is printed and lost. set.discard is C.
    _registered.add(ref(thing, _registered.discard))


def _reset_all() -> None:
    for thing in [registered() for registered in _registered]:
        if thing is not None:
            thing.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)
