"""Turns: several threads may use one iterator, which makes one call at a time, so that each item is given out once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from .forks import reset_after_fork

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["InTurn", "TakesTurns"]

ItemT = TypeVar("ItemT")

_METHODS: Final = ("__iter__", "__next__", "set_epoch", "reset", "state_dict", "load_state_dict")


class _Turns:
    """A lock that a deep copy, an unpickled copy and a forked process replace by one that is free."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Replace the lock, which another thread of the parent process may have held."""
        self.lock = threading.RLock()

    def __reduce__(self) -> tuple[type[_Turns], tuple[()]]:
        return _Turns, ()


class TakesTurns:
    """Base class of iterators that several threads may use: a call waits until that of another thread has returned.

    The methods that move or report the position are locked in every subclass that defines them. The lock is reentrant,
    and takes about a microsecond.

    Attributes:
        in_turn: names of further methods to lock, for subclasses to set.
    """

    in_turn: ClassVar[tuple[str, ...]] = ()
    _turns: _Turns

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in (*_METHODS, *cls.in_turn):
            if callable(method := cls.__dict__.get(name)):
                setattr(cls, name, _locked(method))

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Create the lock before any method can run, also in copies."""
        self = super().__new__(cls)
        self._turns = _Turns()
        return self


def _locked(method: Callable[..., Any]) -> Callable[..., Any]:
    if hasattr(method, "__isabstractmethod__"):
        return method

    @wraps(method)
    def call(self: TakesTurns, *arguments: Any, **options: Any) -> Any:
        with self._turns.lock:
            return method(self, *arguments, **options)

    return call


class InTurn(TakesTurns, Iterator[ItemT]):
    """An iterator over the items of a generator, which several threads may use.

    Args:
        items: the generator.
    """

    def __init__(self, items: Iterator[ItemT]) -> None:
        self._items = items

    def __next__(self) -> ItemT:
        return next(self._items)

    def close(self) -> None:
        """Close the generator, which releases what it holds."""
        with self._turns.lock:
            if (close := getattr(self._items, "close", None)) is not None:
                close()
