"""Forks: objects that a child process must put in order before it uses them, such as locks that another thread held.

In a child that was just forked there is one thread, so nothing here needs a lock.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import ref

__all__ = ["Forkable", "renew_after_fork"]


class Forkable(Protocol):
    """An object with something that does not survive a fork."""

    def after_fork(self) -> None:
        """Make it anew; called in the child, once, before ``os.fork`` returns there."""


_known: Final[set[ref[Forkable]]] = set()


def renew_after_fork(thing: Forkable) -> None:
    """Have an object renewed in every process that is forked from this one, for as long as it is referred to."""
    # Forgotten by a function of C: Python loses a Ctrl-C that falls into a callback of its own, as WeakSet has one.
    _known.add(ref(thing, _known.discard))


def _renew() -> None:
    for thing in [known() for known in _known]:
        if thing is not None:
            thing.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
